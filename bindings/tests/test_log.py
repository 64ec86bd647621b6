"""The logger `dealkit`: a record for each call and for each retry, if the program reads them."""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
import re
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from conftest import ADA, RETRIEVERS, http_response, run_async, time_out_when
from processes import HANG_SECONDS, press_ctrl_c_when, start_python, wait_for_output, wait_for_success, wait_until

from dealkit import AsyncClient, Client, ConfigError, DealkitError, Timeout, _native
from dealkit.testing import Sandbox

DEAL = http_response(200, json.dumps({"id": "d_1"}), {"x-request-id": "r-1"})


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """Collects the logger's records from INFO on."""
    caplog.set_level(logging.INFO, "dealkit")
    return caplog


def summarize(record: Any) -> tuple[Any, ...]:
    return (record.levelname, record.http_request_method, record.url_template, record.http_response_status_code)


def in_turn(*answers: bytes) -> Callable[[bytes], bytes]:
    left = iter(answers)
    return lambda _: next(left)


def call(way: str, url: str, **options: Any) -> None:
    """Retrieves a deal in one of the ways."""
    RETRIEVERS[way](url, "d_1", 1, service_key="k", **options)


@pytest.mark.parametrize("way", RETRIEVERS)
def test_a_record_for_each_call(way: str, peer: Any, log: Any) -> None:
    begun = time.monotonic()
    call(way, peer(DEAL).url)
    took = time.monotonic() - begun
    (record,) = log.records
    template = "/v1/{}/{}" if way.startswith("request") else "/v1/deals/{id}"
    assert summarize(record) == ("INFO", "GET", template, 200)
    assert record.dealkit_attempts == 1 and 0 < record.dealkit_duration < took
    assert (record.dealkit_request_id, record.error_type, record.dealkit_outcome) == ("r-1", None, "succeeded")
    text = f"GET {template}: 200 in {record.dealkit_duration:.3f} s [request id r-1]"
    assert record.getMessage() == text
    # The file of the code that made the call.
    assert record.filename == "conftest.py"


CHANGED = http_response(200, json.dumps({"id": "d_1", "contacts": [{"type": 1}] * 30, "metadata": {"CANARY": 1}}))


@pytest.mark.parametrize("way", [way for way in RETRIEVERS if "raw" not in way and "request" not in way])
def test_a_record_of_unreadable_fields(way: str, peer: Any, log: Any) -> None:
    call(way, peer(CHANGED).url, on_unreadable="skip")
    record, end = log.records
    assert (record.levelname, record.dealkit_unreadable, end.dealkit_outcome) == ("INFO", 31, "succeeded")
    assert record.dealkit_pointers.startswith("/contacts/0/type, /contacts/1/type, ")
    assert record.dealkit_pointers.endswith("/contacts/19/type, …")
    assert record.getMessage() == f"GET /v1/deals/{{id}}: 31 fields could not be read: {record.dealkit_pointers}"


def test_results_in_messages(peer: Any, log: Any) -> None:
    for served, timeout, text in [
        (http_response(404), None, ": 404 in "),
        (http_response(200, "[]"), None, ": 200 decode in "),
        (b"", 0.2, ": timeout in "),
    ]:
        with pytest.raises(DealkitError):
            Client(base_url=peer(served).url, service_key="k", timeout=timeout, max_retries=0).deals.retrieve("d_1")
        assert text in log.records[-1].getMessage()
    assert [record.error_type for record in log.records] == ["404", "decode", "timeout"]
    assert [record.dealkit_outcome for record in log.records] == ["rejected", "succeeded", "unknown"]


def test_a_record_for_a_cancelled_call(peer: Any, log: Any) -> None:
    server = peer(b"")

    async def main(client: AsyncClient) -> None:
        await time_out_when(client.deals.retrieve("d_1"), lambda: server.wait_for_requests(1))
        async with client.deals.retrieve_many(["d_1"]) as deals:
            await time_out_when(anext(deals), lambda: server.wait_for_requests(2))

    begun = time.monotonic()
    run_async(main(AsyncClient(base_url=server.url, service_key="k", timeout=Timeout(attempt=3600, total=3600))))
    with Client(base_url=server.url, service_key="k", timeout=Timeout(attempt=3600, total=3600)) as client:
        with press_ctrl_c_when(lambda: server.wait_for_requests(3)):
            client.deals.retrieve("d_1")
    took = time.monotonic() - begun
    assert [summarize(record) for record in log.records] == [("INFO", "GET", "/v1/deals/{id}", None)] * 3
    for record in log.records:
        assert (record.error_type, record.dealkit_outcome) == ("cancelled", "unknown")
        assert 0 < record.dealkit_duration < took


def test_a_record_for_each_of_many_creates(peer: Any, log: Any) -> None:
    """Cancelled creates are logged with their outcomes. Rows that are not sent are not logged."""
    rows: Any = [ADA, 5, ADA]
    server = peer(b"")
    with Client(base_url=server.url, service_key="k", rate_limit=0.001, timeout=10_000) as client:
        creations = client.agents.create_many(rows, on_error="return", concurrency=3, ordered=False)
        assert next(creations).index == 1
        wait_until(lambda: len(server.requests) > 0)
        left = creations.cancel()
        assert sorted(creation.outcome for creation in left) == ["not_sent", "unknown"]
    assert {summarize(record)[1:] for record in log.records} == {("POST", "/v1/agents", None)}
    assert {record.error_type for record in log.records} == {"cancelled"}
    levels = sorted((record.dealkit_outcome, record.levelname) for record in log.records)
    assert levels == [("not_sent", "INFO"), ("unknown", "WARNING")]
    effects = {record.dealkit_outcome: record.getMessage().partition("; ")[2] for record in log.records}
    assert effects == {"not_sent": "", "unknown": "the agent may exist"}


def test_a_record_of_a_create_says_whether_the_agent_exists(peer: Any, log: Any) -> None:
    for served, effect in [
        (http_response(503), "the agent may exist"),
        (http_response(201, "[]"), "the agent exists"),
        (http_response(422), None),
    ]:
        with Client(base_url=peer(served).url, service_key="k", max_retries=0) as client:
            for create in (client.agents, client.with_raw_response.agents):
                with pytest.raises(DealkitError) as caught:
                    create.create(**ADA).parse()  # type: ignore[union-attr]
                assert f"; {effect}" in str(caught.value) if effect else "agent " not in str(caught.value)
                record = log.records[-1]
                if record.error_type is not None:
                    assert record.dealkit_effect == effect
                    assert (f"; {effect}" in record.getMessage()) is (effect is not None)


def test_a_retry_is_logged_while_the_call_is_in_flight(peer: Any, log: Any) -> None:
    """The end of the call may be a minute later."""
    for way in ("one", "one, awaited", "many", "many, awaited"):
        log.clear()
        release = threading.Event()

        answers = iter([http_response(503)])

        def late(request: bytes, answers: Iterator[bytes] = answers, release: threading.Event = release) -> bytes:
            if (first := next(answers, None)) is not None:
                return first
            release.wait(HANG_SECONDS)
            return DEAL

        thread = threading.Thread(target=call, args=(way, peer(late).url))
        thread.start()
        wait_until(lambda: log.records)
        assert [record.levelname for record in log.records] == ["WARNING"]
        release.set()
        thread.join()
        assert [record.levelname for record in log.records] == ["WARNING", "INFO"]


def test_a_record_is_logged_in_the_context_of_the_call(dealkit_sandbox: Sandbox) -> None:
    """A filter that adds the id of the request that the program is serving finds the right id."""
    current = contextvars.ContextVar("current", default="none")
    seen = []

    def remember(record: Any) -> bool:
        seen.append((current.get(), record.http_request_method))
        return True

    async def serve(name: str, client: AsyncClient) -> None:
        current.set(name)
        for _ in range(20):
            if name.startswith("create"):
                await client.agents.create(**ADA)
            else:
                await client.deals.retrieve("d_1")

    async def main() -> None:
        async with AsyncClient(base_url=dealkit_sandbox.url, service_key="sandbox-key") as client:
            await asyncio.gather(*(serve(f"{what}{n}", client) for what in ("create", "read") for n in range(5)))

    logger = logging.getLogger("dealkit")
    logger.addFilter(remember)
    logger.setLevel(logging.INFO)
    try:
        run_async(main())
    finally:
        logger.removeFilter(remember)
        logger.setLevel(logging.NOTSET)
    assert len(seen) == 200
    assert {(name[0], method) for name, method in seen} == {("c", "POST"), ("r", "GET")}


def test_no_attribute_replaces_one_of_the_record(refusing_address: str) -> None:
    own = logging.makeLogRecord({}).__dict__.keys() | {"message", "asctime", "taskName"}
    client: Any = Client(base_url=f"http://{refusing_address}", service_key="k", max_retries=1)
    trace: Any = _native.start_trace([])
    client._session.client.send(_native.retrieve_deal("d_1"), options=None, raw=False, trace=trace)
    events: list[Any] = []
    wait_until(lambda: events.extend(trace.take()) or events)
    names = {name.replace(".", "_") for event in events for name in event.fields} - {"message"}
    assert {"dealkit_wait", "url_template"} <= names and not names & own


def test_nothing_is_logged_unless_the_program_configures_logging(peer: Any) -> None:
    """Python itself would write warnings to standard error if there were no handler."""
    code = """
import logging, sys
from dealkit import Client
print(Client().deals.retrieve("d_1").id)
assert not logging.getLogger("dealkit").handlers
"""
    process = start_python(code, url=peer(in_turn(http_response(503), DEAL)).url)
    assert wait_for_success(process) == "d_1\n"


FAILING_CALLS = """
import sys
from dealkit import Client, DealkitError
client = Client(base_url=sys.argv[1], service_key="sk-canary", max_retries=0)
person = {"email": "canary@example.com", "first_name": "Canary", "last_name": "Canary", "profile": {"tier": "Canary"}}
for call in (
    lambda: client.agents.create(**person),
    lambda: client.agents.create(**{**person, "email": "Canary"}),
    lambda: client.deals.retrieve("d_canary"),
    lambda: client.deals.retrieve("d_1"),
    lambda: [*client.agents.create_many([person], on_error="return")],
):
    try:
        call()
    except DealkitError:
        pass
"""


def run_with_log(level: str, url: str, script: str = FAILING_CALLS) -> str:
    """Runs a script with this level in the environment. Returns its standard error."""
    process = start_python(script, url, env={"DEALKIT_LOG": level})
    _, stderr = wait_for_output(process, seconds=HANG_SECONDS)
    assert process.returncode == 0, stderr
    return stderr


@pytest.fixture
def canary_sandbox() -> Iterator[Sandbox]:
    with Sandbox(service_key="sk-canary") as sandbox:
        yield sandbox


def test_the_environment_has_the_log_written_to_standard_error(canary_sandbox: Sandbox) -> None:
    text = run_with_log("debug", canary_sandbox.url)
    line = re.compile(r"\[[-0-9]+ [0-9:,]+ - dealkit - (DEBUG|INFO|WARNING) - <string>:\d+\] (GET|POST) /v1/.*")
    lines = text.splitlines()
    assert lines and all(line.fullmatch(one) for one in lines), text
    assert {line.fullmatch(one)[1] for one in lines} == {"DEBUG", "INFO", "WARNING"}  # type: ignore[index]
    assert "canary" not in text.lower()
    assert "DEBUG" not in run_with_log("INFO", canary_sandbox.url)
    assert {*re.findall("DEBUG|INFO|WARNING", run_with_log("warning", canary_sandbox.url))} == {"WARNING"}
    assert run_with_log("", canary_sandbox.url) == ""


def test_handlers_of_the_program_get_the_records_instead(canary_sandbox: Sandbox) -> None:
    record_count = len(run_with_log("debug", canary_sandbox.url).splitlines())
    own_log = 'import logging; logging.basicConfig(format="mine: %(message)s")\n'
    for script in (own_log + FAILING_CALLS, FAILING_CALLS.replace("for call in", own_log + "for call in")):
        lines = run_with_log("debug", canary_sandbox.url, script).splitlines()
        assert len(lines) == record_count and all(line.startswith("mine: ") for line in lines)


def test_a_wrong_level_in_the_environment_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEALKIT_LOG", "canary")
    with pytest.raises(ConfigError, match="DEALKIT_LOG must be debug, info or warning") as caught:
        Client(base_url="http://127.0.0.1:9", service_key="k")
    assert "canary" not in str(caught.value)
