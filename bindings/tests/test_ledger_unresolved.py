"""Rows with an unknown outcome: resolved by hand, or by the function `resolve`. The rules are tested in `sdk/tests/wire/ledger`."""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from conftest import of, row, rows, time_out
from ledgers import client_of, in_a_loop, in_order, told
from processes import HANGS, until

from dealkit import (
    AsyncClient,
    LedgerError,
)
from dealkit.ledger import UnresolvedRow, resolve, summary
from dealkit.testing import Sandbox


class Text(str):
    """A str of another class."""


def test_what_cannot_be_resolved_is_named_by_its_place_and_never_by_its_key(sandbox: Sandbox, ledger: Path) -> None:
    sandbox.fail_next(process_then_reset=True)
    in_order(client_of(sandbox), rows=rows(1), ledger=ledger)
    before = ledger.read_bytes()
    cases: list[tuple[dict[Any, Any], type[Exception], str]] = [
        ({"CANARY@example.com": None}, LedgerError, "its key is not in the ledger"),
        ({"CANARY\ud800": None}, ValueError, "the key at index 1 contains an unpaired surrogate"),
        ({5: None}, TypeError, "the key at index 1 must be a str, not int"),
        ({"CANARY": 5}, TypeError, "the agent's identifier at index 1 must be a str, not int"),
    ]
    for entry, of_class, text in cases:
        with pytest.raises(of_class, match=text) as raised:
            resolve(ledger, {"row0@example.com": None, **entry})
        if isinstance(raised.value, LedgerError):
            assert (raised.value.reason, raised.value.index) == ("rejected", 1)
            assert str(raised.value).startswith(f"ledger {ledger}: the entry at index 1 is rejected: ")
            assert pickle.loads(pickle.dumps(raised.value)).index == 1
        frame = raised.value.__traceback__
        while (frame := frame and frame.tb_next) is not None:
            assert "CANARY" not in repr(frame.tb_frame.f_locals)
        assert "CANARY" not in str(raised.value) and "@example" not in str(raised.value)
        assert ledger.read_bytes() == before
    wrong: Any = [("row0@example.com", None)]
    with pytest.raises(TypeError, match="found must be a mapping of keys to agents' identifiers, not list"):
        resolve(ledger, wrong)
    wrong = 5
    with pytest.raises(TypeError, match="path must be the path of a file, not int"):
        resolve(wrong, {})
    found: dict[str, str | None] = {Text("row0@example.com"): Text("a_1")}
    assert resolve(str(ledger), found, dry_run=True) == resolve(str(ledger), found) == 1
    assert summary(ledger).resolved_with_agent == 1 and b"@example" not in ledger.read_bytes()


def unresolved(sandbox: Sandbox, ledger: Path, count: int) -> None:
    """Leaves that many unresolved rows."""
    sandbox.fail_next(status=503, times=count)
    creations = in_order(client_of(sandbox), rows=rows(count), ledger=ledger, key="email")
    assert told(creations) == [("unknown", False)] * count
    doubts = summary(ledger).unresolved
    assert {(503, request.request_id) for request in sandbox.requests} == {
        (row.status_code, row.request_id) for row in doubts
    }
    sandbox.clear_requests()


SAID: dict[str, Any] = {
    "row0@example.com": "found_0",
    "row1@example.com": False,
    "row2@example.com": None,
    "row3@example.com": OSError("the search is down"),
    "row4@example.com": 5,
    "row5@example.com": "\ud800",
}


def look(doubt: UnresolvedRow) -> Any:
    assert doubt.row == row(int(doubt.key[3])) and doubt.status_code == 503 and doubt.request_id
    assert abs((datetime.now(UTC) - doubt.sent_at).total_seconds()) < HANGS and "@" not in repr(doubt)
    said = SAID[doubt.key]
    if isinstance(said, Exception):
        raise said
    return said


async def look_meanwhile(doubt: UnresolvedRow) -> Any:
    await asyncio.sleep(0)
    return look(doubt)


@pytest.mark.parametrize(("run", "resolve"), [(in_order, look), (in_a_loop, look), (in_a_loop, look_meanwhile)])
def test_unresolved_rows_are_sent_again_if_there_is_no_agent(
    run: Callable[..., list[Any]], resolve: Any, sandbox: Sandbox, ledger: Path
) -> None:
    unresolved(sandbox, ledger, 6)
    creations = run(client_of(sandbox), rows=rows(7), ledger=ledger, key="email", resolve=resolve, concurrency=3)
    assert told(creations) == [
        ("succeeded", True),
        ("succeeded", False),
        *[("unknown", True)] * 4,
        ("succeeded", False),
    ]
    assert creations[0].agent_id == "found_0" and creations[0].sent_at
    causes = [creation.error.__cause__ for creation in creations[2:6]]
    assert [type(cause).__name__ for cause in causes] == ["NoneType", "OSError", "TypeError", "UnicodeEncodeError"]
    assert "was called to resolve it failed" in str(creations[3].error)
    assert len(sandbox.requests) == 2 and len(summary(ledger).unresolved) == 4


def test_a_coroutine_is_not_awaited_where_nobody_awaits(sandbox: Sandbox, ledger: Path) -> None:
    unresolved(sandbox, ledger, 1)
    (creation,) = in_order(client_of(sandbox), rows=rows(1), ledger=ledger, key="email", resolve=look_meanwhile)
    assert "not coroutine" in str(creation.error.__cause__)


def test_several_rows_are_asked_about_at_a_time_and_a_cancelled_task_answers_none(
    sandbox: Sandbox, ledger: Path
) -> None:
    unresolved(sandbox, ledger, 3)

    async def job() -> None:
        asked: list[str] = []

        async def resolve(doubt: UnresolvedRow) -> None:
            asked.append(doubt.key)
            await asyncio.sleep(3600)

        many = of(sandbox, AsyncClient).agents.create_many(
            rows(3), ledger=ledger, key="email", on_error="return", resolve=resolve
        )
        await time_out(anext(many), lambda: until(lambda: len(asked) == 3))
        other = in_order(client_of(sandbox), rows=rows(1), ledger=ledger, key="email", resolve=look)
        assert told(other) == [("unknown", True)] and other[0].error.in_flight
        assert told(await many.cancel()) == [("unknown", False)] * 3

    asyncio.run(job())
    assert len(summary(ledger).unresolved) == 3 and not sandbox.requests


def test_a_function_that_hangs_keeps_no_other_thread_waiting(sandbox: Sandbox, ledger: Path) -> None:
    unresolved(sandbox, ledger, 2)
    asked, goes_on = threading.Event(), threading.Event()

    def resolve(doubt: UnresolvedRow) -> None:
        asked.set()
        assert goes_on.wait(HANGS)

    many = client_of(sandbox).agents.create_many(
        rows(2), ledger=ledger, key="email", on_error="return", resolve=resolve, concurrency=1
    )
    left: list[Any] = []
    asking = threading.Thread(target=lambda: left.extend(many))
    asking.start()
    assert asked.wait(HANGS)
    # It returns although the function does not.
    assert [creation.outcome for creation in many.cancel()] == ["unknown"] * 2
    many.close()
    goes_on.set()
    asking.join(HANGS)
    assert not asking.is_alive() and left == []


def test_whoever_is_interrupted_while_being_asked_is_asked_again(sandbox: Sandbox, ledger: Path) -> None:
    unresolved(sandbox, ledger, 1)
    answers: list[Any] = [KeyboardInterrupt(), "found_0"]

    def resolve(doubt: UnresolvedRow) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, str):
            return answer
        raise answer

    many = client_of(sandbox).agents.create_many(rows(1), ledger=ledger, key="email", resolve=resolve)
    with pytest.raises(KeyboardInterrupt):
        next(many)
    assert next(many).agent_id == "found_0" and not answers
