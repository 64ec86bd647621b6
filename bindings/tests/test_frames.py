"""No frame of a traceback holds the service key or personal data when an exception leaves dealkit.

Error trackers, `cgitb` and `rich` show the variables of every frame.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from conftest import BOTH_CLIENTS, as_any, make_client, run_async, wait_for_result
from pydantic import TypeAdapter

from dealkit import Agent, AgentProfileResponse, AsyncClient, Client, Deal, DealkitError
from dealkit._calls.session import restore_session
from dealkit.testing import Sandbox

KEY = "sk-canary-0b5e1f"
PERSON = "Canary Lovelace"


def shown_in_frames(error: BaseException) -> str:
    """Formats the variables of every frame, as error trackers do, except for frames of this file."""
    seen: list[str] = []
    frames = list(traceback.walk_tb(error.__traceback__))
    chained: BaseException | None = error.__context__
    while chained is not None:
        frames += traceback.walk_tb(chained.__traceback__)
        chained = chained.__context__
    for frame, _ in frames:
        if frame.f_code.co_filename != __file__:
            seen += [f"{name}={value!r}" for name, value in frame.f_locals.items()]
    return "\n".join(seen)


class BrokenMapping(dict[str, Any]):
    def items(self) -> Any:
        raise LookupError("mine")

    __iter__ = items
    keys = items


class Interrupted(dict[str, Any]):
    """A row that raises KeyboardInterrupt when it is read, which is not an error of the row."""

    def keys(self) -> Any:
        raise KeyboardInterrupt

    __iter__ = keys


def rows() -> Iterator[Any]:
    yield WRONG
    raise LookupError("mine")


UNTYPED: Any = [KEY]
BROKEN: Any = BrokenMapping(tier=PERSON)
AWAITED = ["an invalid create", "an unvalidated create", "an invalid row", "a wrong request"]
WRONG: Any = {"last_name": "L", "profile": {}, "email": PERSON, "first_name": PERSON * 99}
PERSONAL: Any = {"id": "a", "email": PERSON, "first_name": PERSON, "last_name": PERSON, "role_assignments": ()}
PERSONAL["profile"] = AgentProfileResponse(client_metadata={PERSON: PERSON})
# Calls that fail: with the URL of a sandbox, or with a client of a sandbox.
OF_SETTINGS: dict[str, Any] = {
    "a wrong setting": lambda url: Client(base_url="ftp://x", service_key=KEY),
    "a wrong key": lambda url: Client(base_url=url, service_key=KEY + " "),
    "a key that is not a str": lambda url: Client(base_url=url, service_key=KEY.encode()),  # type: ignore[arg-type]
    "a wrong header": lambda url: Client(base_url=url, service_key=KEY, headers={"a": KEY + "\n"}),
    "headers that are not pairs": lambda url: Client(base_url=url, service_key=KEY, headers=UNTYPED),
    "a wrong timeout": lambda url: Client(base_url=url, service_key=KEY, timeout="5"),  # type: ignore[arg-type]
    "a wrong proxy": lambda url: Client(base_url=url, service_key="k", proxy=f"ftp://u:{KEY}@x"),
    "with_options, a new key": lambda url: Client(base_url=url, service_key="k").with_options(service_key=KEY + " "),
    "a shared client": lambda url: Client.shared(base_url="ftp://x", service_key=KEY),
    "unpickling": lambda url: restore_session({"base_url": "ftp://x", "service_key": KEY}, False, False),
    "a model": lambda url: Agent(**as_any({**PERSONAL, "first_name": 5})),
    "a model's replacement": lambda url: Agent(**PERSONAL).__replace__(first_name=PERSON, last_name=as_any(5)),
    "a dict in a model": lambda url: Agent(**as_any({**PERSONAL, "profile": {"external_id": PERSON, "tier": PERSON}})),
    "a value that pydantic cannot write": lambda url: TypeAdapter(Deal).dump_json(
        Deal.from_json('{"id": "d", "new": {"%s": [%s]}}' % (PERSON, "9" * 5000))
    ),
    "a document": lambda url: Agent.from_json('{"id": "%s"}' % PERSON),
    "a sandbox": lambda url: Sandbox([{"id": "d", "external_id": PERSON, "a": {1}}], service_key=KEY),
    "a sandbox with a wrong key": lambda url: Sandbox(service_key=KEY + " "),
}
OF_CLIENTS: dict[str, Any] = {
    "with_options": lambda client: client.with_options(base_url="ftp://x"),
    "with_options of a closed client": lambda client: closed(client).with_options(service_key=KEY),
    "an invalid create": lambda client: client.agents.create(**WRONG),
    "an invalid create, raw": lambda client: client.with_raw_response.agents.create(**WRONG),
    "an unvalidated create": lambda client: client.agents.create(**WRONG, validate=False),
    "a create with a wrong option": lambda client: client.agents.create(**WRONG, validate=1),
    "a profile that cannot be read": lambda client: client.agents.create(**{**WRONG, "profile": BROKEN}),
    "a create on a closed client": lambda client: closed(client).agents.create(**WRONG, validate=False),
    "an invalid row": lambda client: client.agents.create_many([WRONG]),
    "a row that raises": lambda client: client.agents.create_many([BrokenMapping(**WRONG)]),
    "a row with a profile that raises": lambda client: client.agents.create_many([{**WRONG, "profile": BROKEN}]),
    "a row with an unknown field": lambda client: client.agents.create_many([{**WRONG, PERSON: PERSON}]),
    "an unvalidated row": lambda client: client.agents.create_many([WRONG], validate=False),
    "rows that raise": lambda client: client.agents.create_many(rows()),
    "rows with a wrong option": lambda client: client.agents.create_many([WRONG], concurrency=0),
    "one row": lambda client: client.agents.create_many(WRONG),
    "rows of a closed client": lambda client: closed(client).agents.create_many([WRONG]),
    "a row that a handler interrupts": lambda client: client.agents.create_many([Interrupted(**WRONG)]),
    "a request": lambda client: client.request(
        "POST", "nothing", json={"name": PERSON}, query={"q": PERSON}, headers={"x-name": PERSON}
    ),
    "a wrong request": lambda client: client.request("POST", "x", json={PERSON: {1}}),
    "a profile that names a field twice": lambda client: client.agents.validate(
        **{**WRONG, "profile": {"userId": PERSON, "user_id": PERSON}}
    ),
}


def closed(client: Any) -> Any:
    client.__exit__(None, None, None) if isinstance(client, Client) else run_async(client.aclose())
    return client


def check(fails: Callable[[], object]) -> None:
    with pytest.raises(BaseException) as caught:
        fails()
    shown = shown_in_frames(caught.value)
    assert KEY not in shown and PERSON not in shown, shown
    if not isinstance(caught.value, DealkitError):
        assert any(name in shown for name in ("self", "function", "result")), "no frame of dealkit was found"


@pytest.mark.parametrize("call", OF_SETTINGS.values(), ids=OF_SETTINGS.keys())
def test_settings_models_and_documents(call: Any, dealkit_sandbox: Sandbox) -> None:
    check(lambda: call(dealkit_sandbox.url))


@pytest.mark.parametrize("call", OF_CLIENTS.values(), ids=OF_CLIENTS.keys())
def test_calls(call: Any, dealkit_sandbox: Sandbox) -> None:
    waiting = Client(base_url=dealkit_sandbox.url, service_key=KEY)
    check(lambda: wait_for_result(waiting, call))


@pytest.mark.parametrize("call", AWAITED)
def test_awaited_calls(call: str, dealkit_sandbox: Sandbox) -> None:
    awaiting = AsyncClient(base_url=dealkit_sandbox.url, service_key=KEY)
    check(lambda: wait_for_result(awaiting, OF_CLIENTS[call]))


FAILED_CALLS: dict[str, Any] = {
    "retrieve": lambda client: client.deals.retrieve("nothing"),
    "raw": lambda client: client.with_raw_response.deals.retrieve("nothing"),
    "retrieve_many": lambda client: client.deals.retrieve_many(["nothing"]),
    "create": lambda client: client.agents.create(**WRONG),
    "create_many": lambda client: client.agents.create_many([WRONG]),
    "request": lambda client: client.request("GET", "nothing"),
    "an unexpected keyword": lambda client: client.deals.retrieve("d", tmeout=1),
}


@pytest.mark.parametrize("call", FAILED_CALLS.values(), ids=FAILED_CALLS.keys())
@BOTH_CLIENTS
def test_the_traceback_of_a_failed_call_shows_the_callers_code_and_no_error_twice(
    of_class: Any, call: Any, dealkit_sandbox: Sandbox
) -> None:
    with pytest.raises((DealkitError, TypeError)) as caught:
        wait_for_result(make_client(dealkit_sandbox, of_class), call)
    frames = [frame.f_globals["__name__"] for frame, _ in traceback.walk_tb(caught.value.__traceback__)]
    assert len([name for name in frames if name.startswith("dealkit")]) <= 1, frames
    assert frames.count(__name__) >= 1
    text = "".join(traceback.format_exception(caught.value))
    assert text.count(str(caught.value)) == 1 and text.count("Traceback") == 1


FAILED_CHECKS: dict[str, Callable[[Sandbox], object]] = {
    "verify": lambda sandbox: sandbox.verify(path="/v1/agents"),
    "wait_for": lambda sandbox: sandbox.wait_for(path="/v1/agents", timeout=0),
}


@pytest.mark.parametrize("check", FAILED_CHECKS.values(), ids=FAILED_CHECKS.keys())
def test_the_traceback_of_a_failed_check_shows_the_callers_code(check: Any, dealkit_sandbox: Sandbox) -> None:
    with pytest.raises((AssertionError, TimeoutError)) as caught:
        check(dealkit_sandbox)
    frames = [frame.f_globals["__name__"] for frame, _ in traceback.walk_tb(caught.value.__traceback__)]
    assert {*frames} == {__name__}


def test_the_traceback_of_the_callers_own_error_is_complete(dealkit_sandbox: Sandbox) -> None:
    with pytest.raises(LookupError) as caught:
        wait_for_result(make_client(dealkit_sandbox), lambda client: client.agents.create_many(rows()))
    frames = [frame.f_code.co_name for frame, _ in traceback.walk_tb(caught.value.__traceback__)]
    assert frames[-1] == "rows" and "__next__" in frames
