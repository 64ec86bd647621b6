"""``create_once``: its results and errors, call styles, detached calls and arguments. The rules are in `sdk/tests/wire/once.rs`."""

from __future__ import annotations

import asyncio
import gc
import inspect
import logging
import pickle
from pathlib import Path
from typing import Any

import pytest
from conftest import ADA, wait_for_result
from processes import HANG_SECONDS

from dealkit import AsyncClient, Client, ConfigError, RawResponse, ledger
from dealkit.exceptions import (
    AlreadyAttemptedError,
    DecodeError,
    IdempotencyKeyReusedError,
    InternalServerError,
    LedgerError,
    UnprocessableEntityError,
    ValidationError,
)
from dealkit.testing import Sandbox


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
