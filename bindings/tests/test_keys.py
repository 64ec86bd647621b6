"""Keys that change while a program runs: functions, files, and what is sent again."""

from __future__ import annotations

import asyncio
import pickle
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import ADA, made, run, untyped
from processes import HANGS, ended, python

from dealkit import (
    AsyncClient,
    Client,
    ConfigError,
    Retry,
    ServiceKeyError,
)
from dealkit.testing import Sandbox

SECRET = "not-a-key-c4n4ry"


class InTurn:
    """A function that returns one key after the other, and then the last one again; it counts its calls."""

    def __init__(self, *keys: Any) -> None:
        self.keys, self.asked = keys, 0

    def __call__(self) -> Any:
        self.asked += 1
        return self.keys[min(self.asked, len(self.keys)) - 1]


def in_async(sandbox: Sandbox, call: Callable[[AsyncClient], Any], **options: Any) -> Any:
    async def main() -> Any:
        async with AsyncClient(base_url=sandbox.url, **options) as client:
            return await call(client)

    return run(main())


def test_a_function_returns_keys_to_every_style_of_call(sandbox: Sandbox) -> None:
    """Both clients, single calls and jobs; the first call gets a 401."""
    for client_class in (Client, AsyncClient):
        sandbox.accept_keys("new")
        keys = InTurn("old", "new")
        client = client_class(base_url=sandbox.url, service_key=keys)
        assert made(client, lambda client: client.agents.create(**ADA)).first_name == "Ada"
        assert len(made(client, lambda client: client.deals.retrieve_many(["d_1", "d_2"]))) == 2
        assert keys.asked == 2


def test_a_coroutine_function_runs_in_the_callers_loop(sandbox: Sandbox) -> None:
    asked: list[asyncio.AbstractEventLoop] = []

    async def ask() -> str:
        asked.append(asyncio.get_running_loop())
        await asyncio.sleep(0)
        return "old" if len(asked) == 1 else "new"

    async def calls(client: AsyncClient) -> None:
        await asyncio.gather(*(client.deals.retrieve("d_1") for _ in range(16)))
        assert [creation.outcome async for creation in client.agents.create_many([ADA] * 3)] == ["succeeded"] * 3
        assert asked == [asyncio.get_running_loop()] * 2

    sandbox.accept_keys("new")
    in_async(sandbox, calls, service_key=ask)


def fail() -> str:
    raise PermissionError(SECRET)


@pytest.mark.parametrize(
    ("provider", "told"),
    [
        (fail, "the provider of the service key failed with PermissionError; "),
        (lambda: SECRET.encode(), "failed with TypeError"),
        (lambda: (SECRET, -1), "failed with ValueError"),
        (lambda: (SECRET, 1, 2), "failed with ValueError"),
    ],
)
def test_a_function_that_fails(sandbox: Sandbox, provider: Any, told: str, caplog: pytest.LogCaptureFixture) -> None:
    def check(error: BaseException) -> None:
        assert isinstance(error, ServiceKeyError) and error.kind == "service_key"
        assert (error.outcome, error.attempts, error.may_have_acted) == ("not_sent", 0, False)
        assert str(error).startswith(("POST /v1/agents: not sent: ", "GET /v1/deals/{id}: not sent: ")) and told in str(
            error
        )
        assert SECRET not in f"{error!s}{error!r}{caplog.text}"
        assert pickle.loads(pickle.dumps(error)).outcome == "not_sent"

    with caplog.at_level("DEBUG"), Client(base_url=sandbox.url, service_key=provider) as client:
        with pytest.raises(ServiceKeyError) as caught:
            client.agents.create(**ADA)
        check(caught.value)
    with pytest.raises(ServiceKeyError) as caught:
        in_async(sandbox, lambda client: client.deals.retrieve("d_1"), service_key=provider)
    check(caught.value)
    assert sandbox.requests == []


async def coroutine_function() -> str:
    return "sandbox-key"


class AsyncCallable:
    async def __call__(self) -> str:
        return "sandbox-key"


def test_a_coroutine_function_is_for_the_async_client(sandbox: Sandbox) -> None:
    for provider in (coroutine_function, AsyncCallable()):
        with pytest.raises(TypeError, match="service_key is a coroutine function, which only AsyncClient takes"):
            Client(base_url=sandbox.url, service_key=provider)
        deal = in_async(sandbox, lambda client: client.deals.retrieve("d_1"), service_key=provider)
        assert deal.id == "d_1"
    # One that does not look like it.
    with Client(base_url=sandbox.url, service_key=lambda: coroutine_function()) as client:
        with pytest.raises(ServiceKeyError, match="failed with RuntimeError"):
            client.deals.retrieve("d_1")


def test_every_client_reads_its_file_again(sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients from the environment, shared, unpickled, and made from another client."""
    path = tmp_path / "key"
    path.write_text("one")
    sandbox.accept_keys("one")
    monkeypatch.setenv("DEALKIT_BASE_URL", sandbox.url)
    monkeypatch.delenv("DEALKIT_SERVICE_KEY", raising=False)
    monkeypatch.setenv("DEALKIT_SERVICE_KEY_FILE", str(path))
    clients = [Client(), Client(service_key_file=path), Client.shared()]
    pickled = pickle.dumps(clients[0])
    assert b"one" not in pickled
    clients.append(pickle.loads(pickled))
    for client in clients:
        client.deals.retrieve("d_1")
    path.write_text("two")
    sandbox.accept_keys("two")
    for client in clients:
        client.agents.create(**ADA)
    assert Client.shared() is clients[2]
    # Another source takes the place of the file.
    sandbox.accept_keys("three")
    client = clients[0].with_options(service_key="three")
    assert client.deals.retrieve("d_1").id == "d_1"
    path.write_text("three")
    assert client.with_options(service_key_file=path).deals.retrieve("d_1").id == "d_1"


def test_which_key_is_meant(sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DEALKIT_SERVICE_KEY", "DEALKIT_SERVICE_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)
    url, path = sandbox.url, tmp_path / "key"
    path.write_text(f" {SECRET} {SECRET}")
    wrong = [
        ({}, "set the environment variable DEALKIT_SERVICE_KEY or DEALKIT_SERVICE_KEY_FILE"),
        ({"service_key": "k", "service_key_file": path}, "service_key and service_key_file are both set"),
        ({"service_key_file": tmp_path / "none"}, f"service_key_file {tmp_path / 'none'} cannot be read: No such file"),
    ]
    for options, told in wrong:
        with pytest.raises(ConfigError) as caught:
            Client(base_url=url, **untyped(options))
        assert told in str(caught.value) and SECRET not in str(caught.value)
    monkeypatch.setenv("DEALKIT_SERVICE_KEY", "k")
    monkeypatch.setenv("DEALKIT_SERVICE_KEY_FILE", str(path))
    with pytest.raises(ConfigError, match="service_key and service_key_file are both set, or both in the environment"):
        Client(base_url=url)
    assert Client(base_url=url, service_key="k").timeout == 60


def test_retry_says_what_is_retried(sandbox: Sandbox) -> None:
    patient = Retry(max_retries=4, initial_backoff=0, max_backoff=0, retry_non_idempotent=True)
    assert repr(patient) == "Retry(max_retries=4, initial_backoff=0, max_backoff=0, retry_non_idempotent=True)"
    assert patient == pickle.loads(pickle.dumps(patient)) and hash(patient) != hash(Retry()) and patient != Retry()
    client = Client(base_url=sandbox.url, service_key="sandbox-key", retry=patient)
    assert client.max_retries == 4
    created = untyped(client).agents.create
    cases: list[tuple[dict[str, Any], int]] = [
        ({}, 5),
        ({"max_retries": 1}, 2),
        ({"retry": Retry(initial_backoff=0, max_backoff=0)}, 1),
        ({"retry": Retry(initial_backoff=0, retry_non_idempotent=True), "max_retries": 1}, 2),
    ]
    for options, attempts in cases:
        sandbox.fail_next(status=503, times=attempts)
        with pytest.raises(Exception) as caught:
            created(**ADA, **options)
        assert untyped(caught.value).attempts == attempts, options
    assert client.with_options(max_retries=1).max_retries == 1
    assert client.with_options(max_retries=1).with_options(retry=patient).max_retries == 4
    with pytest.raises(TypeError, match="retry must be a Retry, not int"):
        client.deals.retrieve("d_1", **untyped({"retry": 3}))
    for wrong, told in [
        ({"initial_backoff": -1}, "initial_backoff must be a number of seconds, zero or more"),
        ({"max_backoff": float("nan")}, "max_backoff must be a number of seconds"),
        ({"max_retries": -1}, "max_retries must be a whole number"),
    ]:
        with pytest.raises(ConfigError, match=told):
            Client(base_url=sandbox.url, service_key="k", retry=Retry(**untyped(wrong)))


def test_a_function_that_hangs_takes_one_thread(sandbox: Sandbox) -> None:
    may_end = threading.Event()

    def hang() -> str:
        may_end.wait(HANGS)
        return "sandbox-key"

    def asking() -> int:
        return sum(thread.name == "dealkit-service-key" for thread in threading.enumerate())

    before = asking()
    with Client(base_url=sandbox.url, service_key=hang) as client:
        for _ in range(5):
            with pytest.raises(ServiceKeyError, match="has not returned"):
                client.deals.retrieve("d_1", timeout=0.05)
        assert asking() - before == 1
        may_end.set()
        assert client.deals.retrieve("d_1").id == "d_1"


# From 3.12 on, no thread can be started once the main thread has ended.
@pytest.mark.parametrize(
    "script",
    [
        "atexit.register(lambda: print(client.deals.retrieve('d_1').id))",
        "atexit.register(lambda: print(*(deal.id for deal in client.deals.retrieve_many(['d_1']))))",
        "atexit.register(lambda: asyncio.run(awaited()))",
        """
def outlive():
    threading.main_thread().join()
    print(client.deals.retrieve('d_1').id)
threading.Thread(target=outlive).start()
""",
    ],
)
def test_a_function_is_called_at_the_end_of_the_program(script: str, sandbox: Sandbox) -> None:
    begin = """
import asyncio, atexit, threading
from dealkit import AsyncClient, Client
client = Client(service_key=lambda: "sandbox-key")
async def awaited():
    async with AsyncClient(service_key=lambda: "sandbox-key") as client:
        print((await client.deals.retrieve("d_1")).id)
"""
    assert ended(python(begin + script, url=sandbox.url)) == "d_1\n"


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
def test_each_service_has_a_thread_until_there_are_sixteen() -> None:
    script = """
import asyncio
from pathlib import Path
from dealkit import AsyncClient, APIConnectionError
async def threads(urls):
    for url in urls:
        async with AsyncClient(base_url=url, service_key="k", max_retries=0, timeout=5) as client:
            try:
                await client.deals.retrieve("d_1")
            except APIConnectionError:
                pass  # There is no such service.
    names = [(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
    return names.count("dealkit")
print(asyncio.run(threads(["http://127.0.0.1:9/a", "http://127.0.0.1:9/b"])))
for many in (5, 40):
    print(asyncio.run(threads([f"http://127.0.0.{number}:9" for number in range(1, many + 1)])))
"""
    assert ended(python(script)).split() == ["1", "5", "16"]
