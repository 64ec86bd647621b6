"""``create_once``: its results and errors, call styles, detached calls and arguments. The rules are in `sdk/tests/wire/once.rs`."""

from __future__ import annotations

import asyncio
import gc
import inspect
import logging
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
from conftest import ADA, wait_for_result
from processes import HANG_SECONDS, start_python, wait_for_success

from dealkit import APIConnectionError, AsyncClient, Client, ConfigError, RawResponse, ledger
from dealkit.exceptions import (
    AlreadyAttemptedError,
    DecodeError,
    IdempotencyKeyReusedError,
    InternalServerError,
    LedgerError,
    UnprocessableEntityError,
    ValidationError,
)
from dealkit.ledger import UnresolvedRow
from dealkit.testing import Sandbox


def leave_unknown(sandbox: Sandbox, path: Path, *keys: str) -> None:
    """Leaves the outcomes of these keys unknown."""
    with sandbox.client() as client:
        for key in keys:
            sandbox.fail_next(process_then_reset=True)
            with pytest.raises(APIConnectionError):
                client.agents.create_once(idempotency_key=key, ledger=path, label=f"crm {key}", **ADA)


def test_results_and_errors_of_a_key(
    dealkit_sandbox: Sandbox, dealkit_client: Client, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "agents.ledger"
    create_once = dealkit_client.agents.create_once
    now = create_once(idempotency_key="new", ledger=path, **ADA)
    assert (now.result, now.agent_id, now.key) == ("created", "a_1", "new")
    assert now.agent is not None and now.agent.email == "ada@example.com"
    with caplog.at_level(logging.DEBUG, "dealkit"):
        before = create_once(idempotency_key="new", ledger=str(path), **ADA)
    assert not caplog.records  # Nothing was sent.
    assert (before.result, before.agent_id, before.agent) == ("already_created", "a_1", None)
    assert before.sent_at is not None and before.ledger_error is None

    dealkit_sandbox.fail_next(status=500)
    with pytest.raises(InternalServerError):
        create_once(idempotency_key="doubtful", ledger=path, **ADA)
    with pytest.raises(AlreadyAttemptedError) as recorded:
        create_once(idempotency_key="doubtful", ledger=path, **ADA)
    assert (recorded.value.outcome, recorded.value.status_code, recorded.value.in_flight) == ("unknown", 500, False)
    assert create_once(idempotency_key="doubtful", ledger=path, resend_unknown=True, **ADA).result == "created"


def test_a_corrected_request_of_a_rejected_key_is_sent(
    dealkit_sandbox: Sandbox, dealkit_client: Client, tmp_path: Path
) -> None:
    path = tmp_path / "agents.ledger"
    create_once = dealkit_client.agents.create_once
    corrected: Any = {**ADA, "first_name": "Augusta"}
    dealkit_sandbox.fail_next(status=422)
    with pytest.raises(UnprocessableEntityError):
        create_once(idempotency_key="one", ledger=path, **ADA)
    for options in ({**ADA, "resend_corrected": True}, corrected):
        with pytest.raises(AlreadyAttemptedError) as recorded:
            create_once(idempotency_key="one", ledger=path, **options)
        assert (recorded.value.outcome, recorded.value.status_code) == ("rejected", 422)
    assert len(dealkit_sandbox.requests) == 1

    async def send_corrected() -> str:
        async with AsyncClient(base_url=dealkit_sandbox.url, service_key=dealkit_sandbox.service_key) as client:
            creation = await client.agents.create_once(
                idempotency_key="one", ledger=path, resend_corrected=True, **corrected
            )
            return creation.result

    assert asyncio.run(send_corrected()) == "created"


@pytest.mark.parametrize("of_class", [Client, AsyncClient])
@pytest.mark.parametrize("raw", [False, True])
def test_a_key_that_is_reused_for_other_data_is_an_error(
    of_class: Any, raw: bool, dealkit_sandbox: Sandbox, tmp_path: Path
) -> None:
    client = of_class(base_url=dealkit_sandbox.url, service_key=dealkit_sandbox.service_key)
    agents = (client.with_raw_response if raw else client).agents

    def create_once(**agent: Any) -> Any:
        return wait_for_result(
            client,
            lambda _: agents.create_once(idempotency_key="crm-1", ledger=tmp_path / "agents.ledger", **agent),
        )

    profile = {"external_id": "e", "tier": "A", "extra": {"b": 1, "a": 2}}
    agent: Any = {**ADA, "role": "AGENT", "profile": profile, "extra": {"d": 1, "c": 2}}
    create_once(**agent)
    # The order of the fields does not count.
    reordered = dict(reversed(agent.items())) | {"profile": dict(reversed(profile.items())), "extra": {"c": 2, "d": 1}}
    again = create_once(**reordered)
    assert (again.result, again.request_differs) == ("already_created", False)

    canary = "Canary Lovelace"
    for options in ({}, {"resend_unknown": True, "resend_corrected": True}):
        with pytest.raises(IdempotencyKeyReusedError) as caught:
            create_once(**{**agent, "last_name": canary}, **options)
        error = caught.value
        assert (error.agent_id, error.outcome, error.may_have_acted, error.kind) == (
            "a_1",
            "succeeded",
            True,
            "idempotency_key_reused",
        )
        assert error.sent_at is not None and error.sent_at.tzinfo is not None
        assert "give it a key of its own" in str(error)
        assert canary not in str(error) and "crm-1" not in str(error) and "a_1" not in str(error)
        restored = pickle.loads(pickle.dumps(error))
        assert (type(restored), vars(restored)) == (IdempotencyKeyReusedError, vars(error))
    assert len(dealkit_sandbox.requests) == 1


def test_an_unreadable_response_is_an_error(
    dealkit_sandbox: Sandbox, dealkit_client: Client, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "agents.ledger"

    def fail_next() -> None:
        dealkit_sandbox.fail_next(status=201, body="<html>")

    async def awaited() -> None:
        async with dealkit_sandbox.async_client() as client:
            for detached in (False, True):
                fail_next()
                with pytest.raises(DecodeError, match="the agent exists") as raised:
                    await client.agents.create_once(
                        idempotency_key=f"detached {detached}", ledger=path, detached=detached, **ADA
                    )
                assert raised.value.outcome == "succeeded"

    fail_next()
    with pytest.raises(DecodeError, match="the agent exists") as raised:
        dealkit_client.agents.create_once(idempotency_key="blocking", ledger=path, **ADA)
    assert (raised.value.outcome, raised.value.body) == ("succeeded", b"<html>")
    assert raised.value.request_id == dealkit_sandbox.requests[0].request_id
    assert "201 decode" in caplog.text
    asyncio.run(awaited())
    # The ledger knows that the agent exists, but not its identifier.
    again = dealkit_client.agents.create_once(idempotency_key="blocking", ledger=path, **ADA)
    assert (again.result, again.agent_id) == ("already_created", None)
    assert ledger.resolve(path, {"blocking": "a_1"}) == 1
    again = dealkit_client.agents.create_once(idempotency_key="blocking", ledger=path, **ADA)
    assert (again.result, again.agent_id, len(dealkit_sandbox.requests)) == ("already_created", "a_1", 3)


def test_the_other_call_styles(dealkit_sandbox: Sandbox, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "agents.ledger"
    options: Any = {"base_url": dealkit_sandbox.url, "service_key": dealkit_sandbox.service_key}
    with Client(**options) as client:
        raw = client.with_raw_response.agents.create_once(idempotency_key="raw", ledger=path, **ADA)
        assert isinstance(raw.agent, RawResponse) and raw.agent.parse().id == "a_1"
        assert client.with_raw_response.agents.create_once(idempotency_key="raw", ledger=path, **ADA).agent_id == "a_1"
        patient = client.with_options(timeout=50)
        assert patient.agents.create_once(
            idempotency_key="raw", ledger=path, timeout=90, max_retries=0, **ADA
        ).from_ledger
        # The clients share the open ledger.
        assert len([*tmp_path.glob("*-job-*")]) == 1
        del patient
    del client

    async def awaited() -> None:
        async with AsyncClient(**options) as client:
            assert inspect.iscoroutinefunction(client.agents.create_once)
            calls = (
                client.agents.create_once(idempotency_key="many", ledger=path, wait_in_flight=True, **ADA)
                for _ in range(20)
            )
            with caplog.at_level(logging.INFO, "dealkit"):
                made = await asyncio.gather(*calls)
            assert sorted(creation.result for creation in made) == [*["already_created"] * 19, "created"]
            # A call that waited for the agent of another call has succeeded.
            assert {record.levelno for record in caplog.records if record.name == "dealkit"} == {logging.INFO}
            raw = await client.with_raw_response.agents.create_once(idempotency_key="raw 2", ledger=path, **ADA)
            assert raw.agent is not None and raw.agent.status_code == 201
            dealkit_sandbox.fail_next(hold=True)
            cancelled = asyncio.create_task(client.agents.create_once(idempotency_key="cancelled", ledger=path, **ADA))
            await asyncio.to_thread(dealkit_sandbox.wait_for, held=True, timeout=HANG_SECONDS)
            with pytest.raises(AlreadyAttemptedError, match="being sent elsewhere right now") as other:
                await client.agents.create_once(idempotency_key="cancelled", ledger=path, **ADA)
            assert (other.value.in_flight, other.value.outcome) == (True, "unknown")
            cancelled.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cancelled
            # The outcome is recorded a moment later.
            with pytest.raises(AlreadyAttemptedError, match="its outcome is unknown"):
                await client.agents.create_once(idempotency_key="cancelled", ledger=path, wait_in_flight=True, **ADA)

    asyncio.run(awaited())
    assert ledger.summary(path).succeeded == 3


def test_a_detached_call_completes_without_its_caller(
    dealkit_sandbox: Sandbox, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "agents.ledger"
    client = AsyncClient(base_url=dealkit_sandbox.url, service_key=dealkit_sandbox.service_key)
    unreported: list[Any] = []

    async def cancelled(key: str, **options: Any) -> None:
        dealkit_sandbox.fail_next(hold=True, **options)
        call = asyncio.create_task(client.agents.create_once(idempotency_key=key, ledger=path, detached=True, **ADA))
        await asyncio.to_thread(dealkit_sandbox.wait_for, held=True, timeout=HANG_SECONDS)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: unreported.append(context))
        made = await client.agents.create_once(idempotency_key="awaited", ledger=path, detached=True, **ADA)
        assert (made.result, made.agent_id) == ("created", "a_1")
        raw = await client.with_raw_response.agents.create_once(
            idempotency_key="raw", ledger=path, detached=True, **ADA
        )
        assert raw.agent is not None and raw.agent.status_code == 201
        dealkit_sandbox.fail_next(status=500)
        with pytest.raises(InternalServerError):
            await client.agents.create_once(idempotency_key="failed", ledger=path, detached=True, **ADA)
        await cancelled("cancelled")
        dealkit_sandbox.release()
        again = await client.agents.create_once(idempotency_key="cancelled", ledger=path, wait_in_flight=True, **ADA)
        assert (again.result, again.agent_id) == ("already_created", "a_3")
        with caplog.at_level(logging.WARNING, "dealkit"):
            await cancelled("rejected", status=422)
            dealkit_sandbox.release()
            with pytest.raises(AlreadyAttemptedError, match="rejected"):
                await client.agents.create_once(idempotency_key="rejected", ledger=path, wait_in_flight=True, **ADA)
            # The end of the call is logged, although no task awaits it.
            while "POST /v1/agents: 422" not in caplog.text:
                await asyncio.sleep(0)
        await cancelled("outlives the loop")

    asyncio.run(main())
    gc.collect()
    assert unreported == []
    dealkit_sandbox.release()

    async def later() -> None:
        again = await client.agents.create_once(
            idempotency_key="outlives the loop", ledger=path, wait_in_flight=True, **ADA
        )
        assert (again.result, again.agent_id) == ("already_created", "a_4")
        await client.aclose()

    asyncio.run(later())


def test_closing_a_client_waits_for_its_detached_calls(dealkit_sandbox: Sandbox, tmp_path: Path) -> None:
    path = tmp_path / "agents.ledger"

    async def main() -> None:
        other, client = dealkit_sandbox.async_client(), dealkit_sandbox.async_client()
        dealkit_sandbox.fail_next(hold=True)
        patient = client.with_options(max_retries=0)
        call = asyncio.create_task(patient.agents.create_once(idempotency_key="one", ledger=path, detached=True, **ADA))
        await asyncio.to_thread(dealkit_sandbox.wait_for, held=True, timeout=HANG_SECONDS)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await other.aclose()  # It has no detached call.
        interrupted = asyncio.create_task(client.aclose())
        await asyncio.sleep(0)
        interrupted.cancel()
        with pytest.raises(asyncio.CancelledError):
            await interrupted
        assert client.is_closed and ledger.summary(path).in_flight == 1
        closing = asyncio.create_task(client.aclose())
        await asyncio.sleep(0)
        assert not closing.done()
        dealkit_sandbox.release()
        await closing
        assert ledger.summary(path).succeeded == 1

    asyncio.run(main())


ANSWERS: dict[str, Any] = {
    "found": "a_9",
    "none": False,
    "unclear": None,
    "fails": OSError("the search is down"),
    "wrong": 5,
}


def look_up(row: UnresolvedRow) -> Any:
    assert (row.row, row.label, row.status_code) == (ADA, f"crm {row.key}", None)
    assert row.sent_at.tzinfo is not None and "@" not in repr(row)
    answer = ANSWERS[row.key]
    if isinstance(answer, Exception):
        raise answer
    return answer


async def look_up_async(row: UnresolvedRow) -> Any:
    await asyncio.sleep(0)
    return look_up(row)


@pytest.mark.parametrize(
    ("of_class", "resolve", "options"),
    [
        (Client, look_up, {}),
        (AsyncClient, look_up, {}),
        (AsyncClient, look_up_async, {}),
        (AsyncClient, look_up_async, {"detached": True}),
    ],
)
def test_resolve_decides_about_a_key_with_an_unknown_outcome(
    of_class: Any, resolve: Any, options: Any, dealkit_sandbox: Sandbox, tmp_path: Path
) -> None:
    path = tmp_path / "agents.ledger"
    leave_unknown(dealkit_sandbox, path, *ANSWERS)
    client = of_class(base_url=dealkit_sandbox.url, service_key=dealkit_sandbox.service_key)

    def create_once(key: str) -> Any:
        return wait_for_result(
            client,
            lambda client: client.agents.create_once(
                idempotency_key=key, ledger=path, resolve=resolve, **ADA, **options
            ),
        )

    found = create_once("found")
    assert (found.result, found.agent_id, found.request_differs) == ("already_created", "a_9", False)
    assert found.sent_at is not None and len(dealkit_sandbox.requests) == 5
    created = create_once("none")
    assert (created.result, created.agent_id, len(dealkit_sandbox.requests)) == ("created", "a_6", 6)
    causes = []
    for key in ("unclear", "fails", "wrong"):
        with pytest.raises(AlreadyAttemptedError) as raised:
            create_once(key)
        assert (raised.value.outcome, raised.value.in_flight) == ("unknown", False)
        causes.append(raised.value.__cause__)
    assert "was called to resolve it failed" in str(raised.value)
    assert causes[:2] == [None, ANSWERS["fails"]] and isinstance(causes[2], TypeError)
    assert str(causes[2]) == "resolve must return the id of an agent, False or None, not int"
    # Error trackers show the variables of frames, which had the agent's fields.
    traceback = causes[1].__traceback__
    while traceback is not None:
        assert ADA["email"] not in repr(traceback.tb_frame.f_locals)
        traceback = traceback.tb_next
    # The function is not called for keys with another outcome: it would fail for them.
    assert (create_once("found").agent_id, create_once("none").agent_id) == ("a_9", "a_6")
    assert create_once("new").result == "created" and len(dealkit_sandbox.requests) == 7
    assert len(ledger.summary(path).unresolved) == 3


def test_a_coroutine_as_resolve_is_an_error_with_a_blocking_client(
    dealkit_sandbox: Sandbox, dealkit_client: Client, tmp_path: Path
) -> None:
    path = tmp_path / "agents.ledger"
    leave_unknown(dealkit_sandbox, path, "found")
    with pytest.raises(AlreadyAttemptedError) as raised:
        dealkit_client.agents.create_once(idempotency_key="found", ledger=path, resolve=look_up_async, **ADA)
    assert "not coroutine" in str(raised.value.__cause__)


def test_resolve_may_use_the_client_and_may_be_interrupted(
    dealkit_sandbox: Sandbox, dealkit_client: Client, tmp_path: Path
) -> None:
    path = tmp_path / "agents.ledger"
    leave_unknown(dealkit_sandbox, path, "one")
    create_once = dealkit_client.agents.create_once

    def interrupt(row: UnresolvedRow) -> str:
        with pytest.raises(AlreadyAttemptedError) as other:
            create_once(idempotency_key="one", ledger=path, resolve=interrupt, **ADA)
        assert other.value.in_flight
        raise KeyboardInterrupt

    def retrieve(row: UnresolvedRow) -> str:
        return dealkit_client.deals.retrieve("d_1").id

    with pytest.raises(KeyboardInterrupt):
        create_once(idempotency_key="one", ledger=path, resolve=interrupt, **ADA)
    again = create_once(idempotency_key="one", ledger=path, resolve=retrieve, wait_in_flight=True, **ADA)
    assert (again.result, again.agent_id) == ("already_created", "d_1")


@pytest.mark.parametrize("detached", [False, True])
def test_a_cancelled_call_during_resolve(detached: bool, dealkit_sandbox: Sandbox, tmp_path: Path) -> None:
    path = tmp_path / "agents.ledger"
    leave_unknown(dealkit_sandbox, path, "one", "loop ends", "loop ends early")
    client = dealkit_sandbox.async_client()

    def start(key: str, resolve: Any, **options: Any) -> asyncio.Task[Any]:
        call = client.agents.create_once(
            idempotency_key=key, ledger=path, resolve=resolve, wait_in_flight=True, **options, **ADA
        )
        return asyncio.create_task(call)

    async def main() -> None:
        was_called, may_return = asyncio.Event(), asyncio.Event()

        async def wait(row: UnresolvedRow) -> str:
            was_called.set()
            await may_return.wait()
            return (await client.deals.retrieve("d_1")).id

        call = start("one", wait, detached=detached)
        await was_called.wait()
        with pytest.raises(AlreadyAttemptedError) as other:
            await client.agents.create_once(idempotency_key="one", ledger=path, resolve=wait, **ADA)
        assert other.value.in_flight
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        may_return.set()
        again = await start("one", lambda row: "a_9")
        assert (again.result, again.agent_id) == ("already_created", "d_1" if detached else "a_9")

        was_called.clear()
        may_return.clear()
        start("loop ends", wait, detached=detached)
        await was_called.wait()

    async def end_early() -> None:
        start("loop ends early", lambda row: "a_9", detached=detached)
        for _ in range(3):
            await asyncio.sleep(0)

    async def later() -> None:
        # The end of an event loop leaves the outcome of a key unknown. The next call resolves it.
        for key in ("loop ends", "loop ends early"):
            again = await start(key, lambda row: row.key)
            assert (again.result, again.agent_id) == ("already_created", key)
        await client.aclose()

    asyncio.run(main())
    asyncio.run(end_early())
    asyncio.run(later())


def test_closing_a_client_waits_for_resolve_of_a_detached_call(dealkit_sandbox: Sandbox, tmp_path: Path) -> None:
    path = tmp_path / "agents.ledger"
    leave_unknown(dealkit_sandbox, path, "one")

    async def main() -> None:
        client, was_called, may_return = dealkit_sandbox.async_client(), asyncio.Event(), asyncio.Event()

        async def wait(row: UnresolvedRow) -> bool:
            was_called.set()
            await may_return.wait()
            return False

        resolve: Any = wait
        call = asyncio.create_task(
            client.agents.create_once(idempotency_key="one", ledger=path, resolve=resolve, detached=True, **ADA)
        )
        await was_called.wait()
        call.cancel()
        closing = asyncio.create_task(client.aclose())
        await asyncio.sleep(0)
        assert not closing.done()
        may_return.set()
        await closing
        assert ledger.summary(path).succeeded == 1

    asyncio.run(main())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_forked_during_resolve_answers_nothing(dealkit_sandbox: Sandbox, tmp_path: Path) -> None:
    path = tmp_path / "agents.ledger"
    leave_unknown(dealkit_sandbox, path, "one")
    script = f"""
import os, warnings
from dealkit import Client

# Python 3.12 and newer warn of every fork of a process with threads, such as the ledger's.
warnings.filterwarnings("ignore", message=".*multi-threaded", category=DeprecationWarning)

def resolve(row):
    child = os.fork()
    if child == 0:
        return "of the child"
    assert os.waitpid(child, 0)[1] == 0
    return "of the parent"

parent = os.getpid()
try:
    print(Client().agents.create_once(idempotency_key="one", ledger={str(path)!r}, resolve=resolve, **{ADA!r}).agent_id)
except RuntimeError as error:
    assert os.getpid() != parent and "another thread or process" in str(error)
    os._exit(0)
"""
    assert wait_for_success(start_python(script, url=dealkit_sandbox.url)) == "of the parent\n"
    assert not ledger.summary(path).unresolved


def test_wrong_use(dealkit_sandbox: Sandbox, dealkit_client: Client, tmp_path: Path) -> None:
    create_once: Any = dealkit_client.agents.create_once
    path = tmp_path / "agents.ledger"
    wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"idempotency_key": 5}, TypeError, "idempotency_key must be a str, not int"),
        ({"key_name": 5}, TypeError, "key_name must be a str or None, not int"),
        ({"label": 5}, TypeError, "label must be a str or None, not int"),
        ({"label": "\ud800"}, UnicodeEncodeError, "surrogates not allowed"),
        ({"label": "x" * 257}, ConfigError, "not sent: the row's label is longer than 256 bytes"),
        ({"ledger": 5}, TypeError, "ledger must be the path of a file, not int"),
        ({"resend_unknown": 1}, TypeError, "resend_unknown must be a bool, not int"),
        ({"resend_corrected": 1}, TypeError, "resend_corrected must be a bool, not int"),
        ({"resolve": "x"}, TypeError, "resolve must be a function of an UnresolvedRow, not str"),
        (
            {"resolve": print, "resend_unknown": True},
            TypeError,
            "resolve and resend_unknown exclude each other: resolve decides for each row whether it is sent again",
        ),
        ({"detached": 1}, TypeError, "detached must be a bool, not int"),
        ({"detached": True}, TypeError, "detached is only for AsyncClient"),
        ({"validate": 1}, TypeError, "validate must be a bool"),
        ({"idempotency_key": ""}, ConfigError, "not sent: the idempotency key is empty"),
        ({"email": "no"}, ValidationError, "invalid_email"),
        ({"mail": "ada@example.com"}, TypeError, "did you mean 'email'"),
        ({"timeout": 0}, ConfigError, "timeout must be a number of seconds, more than zero"),
    ]
    for given, raised, text in wrong:
        with pytest.raises(raised, match=text):
            create_once(**{"idempotency_key": "one", "ledger": path, **ADA, **given})
    create_once(idempotency_key="ada@example.com", ledger=path, key_name="email", **ADA)
    with pytest.raises(LedgerError, match='its keys are called "email", but the keys in use are called "crm"'):
        create_once(idempotency_key="4711", ledger=path, key_name="crm", **ADA)
    assert [*dealkit_client.agents.create_many([ADA], ledger=path, key="email")][0].from_ledger
    assert len(dealkit_sandbox.requests) == 1
