"""Rows with an unknown outcome, resolved by hand or by the function `resolve`. The rules are tested in
`sdk/tests/wire/ledger`.
"""

from __future__ import annotations

import asyncio
import json
import pickle
import re
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from conftest import make_client, make_row, make_rows, time_out_when
from ledgers import BOTH_CALL_STYLES, create_rows, create_rows_async, list_outcomes, make_client_without_retries
from processes import HANG_SECONDS, wait_until

from dealkit import (
    APIConnectionError,
    AsyncClient,
    LedgerError,
)
from dealkit._cli import main
from dealkit.ledger import UnresolvedRow, mark_unknown, resolve, summary
from dealkit.testing import Sandbox


class StrSubclass(str):
    """A subclass of str."""


def test_resolve_errors_name_the_index_and_not_the_key(sandbox: Sandbox, ledger: Path) -> None:
    sandbox.fail_next(process_then_reset=True)
    create_rows(make_client_without_retries(sandbox), rows=make_rows(1), ledger=ledger)
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
    found: dict[str, str | None] = {StrSubclass("row0@example.com"): StrSubclass("a_1")}
    assert resolve(str(ledger), found, dry_run=True) == resolve(str(ledger), found) == 1
    assert summary(ledger).resolved_with_agent == 1 and b"@example" not in ledger.read_bytes()


def test_marked_rows_are_not_sent(sandbox: Sandbox, ledger: Path) -> None:
    client = make_client_without_retries(sandbox)
    create_rows(client, rows=make_rows(1), ledger=ledger)
    sent_later = [row["email"] for row in make_rows(3)[1:]]
    assert mark_unknown(ledger, sent_later) == 2
    assert resolve(ledger, {sent_later[0]: "a_7"}) == 1
    creations = create_rows(client, rows=make_rows(3), ledger=ledger)
    assert list_outcomes(creations) == [("succeeded", True), ("succeeded", True), ("unknown", True)]
    assert (creations[1].agent_id, len(sandbox.agents)) == ("a_7", 1)

    wrong: Any = 5
    with pytest.raises(TypeError, match="key_name must be the name of a field, not int"):
        mark_unknown(ledger, [], key_name=wrong)
    with pytest.raises(TypeError, match="keys must be an iterable of str, not one str"):
        mark_unknown(ledger, "CANARY")
    with pytest.raises(LedgerError) as raised:
        mark_unknown(ledger, ["CANARY"], key_name="email")
    assert raised.value.reason == "other_keys" and "CANARY" not in str(raised.value)


def leave_unresolved(sandbox: Sandbox, ledger: Path, count: int) -> None:
    """Leaves this many unresolved rows in the ledger."""
    sandbox.fail_next(status=503, times=count)
    creations = create_rows(make_client_without_retries(sandbox), rows=make_rows(count), ledger=ledger, key="email")
    assert list_outcomes(creations) == [("unknown", False)] * count
    unresolved_rows = summary(ledger).unresolved
    assert {(503, request.request_id) for request in sandbox.requests} == {
        (row.status_code, row.request_id) for row in unresolved_rows
    }
    sandbox.clear_requests()


ANSWERS: dict[str, Any] = {
    "row0@example.com": "found_0",
    "row1@example.com": False,
    "row2@example.com": None,
    "row3@example.com": OSError("the search is down"),
    "row4@example.com": 5,
    "row5@example.com": "\ud800",
}


def look_up_answer(unresolved_row: UnresolvedRow) -> Any:
    assert (
        unresolved_row.row == make_row(int(unresolved_row.key[3]))
        and unresolved_row.status_code == 503
        and unresolved_row.request_id
    )
    assert abs((datetime.now(UTC) - unresolved_row.sent_at).total_seconds()) < HANG_SECONDS and "@" not in repr(
        unresolved_row
    )
    answer = ANSWERS[unresolved_row.key]
    if isinstance(answer, Exception):
        raise answer
    return answer


async def look_up_answer_async(unresolved_row: UnresolvedRow) -> Any:
    await asyncio.sleep(0)
    return look_up_answer(unresolved_row)


@pytest.mark.parametrize(
    ("run", "resolve"),
    [(create_rows, look_up_answer), (create_rows_async, look_up_answer), (create_rows_async, look_up_answer_async)],
)
def test_unresolved_rows_are_sent_again_if_there_is_no_agent(
    run: Callable[..., list[Any]], resolve: Any, sandbox: Sandbox, ledger: Path
) -> None:
    leave_unresolved(sandbox, ledger, 6)
    creations = run(
        make_client_without_retries(sandbox),
        rows=make_rows(7),
        ledger=ledger,
        key="email",
        resolve=resolve,
        concurrency=3,
    )
    assert list_outcomes(creations) == [
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


def test_a_coroutine_as_resolve_is_an_error_with_a_sync_client(sandbox: Sandbox, ledger: Path) -> None:
    leave_unresolved(sandbox, ledger, 1)
    (creation,) = create_rows(
        make_client_without_retries(sandbox),
        rows=make_rows(1),
        ledger=ledger,
        key="email",
        resolve=look_up_answer_async,
    )
    assert "not coroutine" in str(creation.error.__cause__)


def test_resolve_runs_concurrently_and_cancelling_it_resolves_nothing(sandbox: Sandbox, ledger: Path) -> None:
    leave_unresolved(sandbox, ledger, 3)

    async def job() -> None:
        asked: list[str] = []

        async def resolve(unresolved_row: UnresolvedRow) -> None:
            asked.append(unresolved_row.key)
            await asyncio.sleep(3600)

        many = make_client(sandbox, AsyncClient).agents.create_many(
            make_rows(3), ledger=ledger, key="email", on_error="return", resolve=resolve
        )
        await time_out_when(anext(many), lambda: wait_until(lambda: len(asked) == 3))
        other = create_rows(
            make_client_without_retries(sandbox), rows=make_rows(1), ledger=ledger, key="email", resolve=look_up_answer
        )
        assert list_outcomes(other) == [("unknown", True)] and other[0].error.in_flight
        assert list_outcomes(await many.cancel()) == [("unknown", False)] * 3

    asyncio.run(job())
    assert len(summary(ledger).unresolved) == 3 and not sandbox.requests


def test_a_hanging_resolve_function_does_not_block_cancel(sandbox: Sandbox, ledger: Path) -> None:
    leave_unresolved(sandbox, ledger, 2)
    asked, may_return = threading.Event(), threading.Event()

    def resolve(unresolved_row: UnresolvedRow) -> None:
        asked.set()
        assert may_return.wait(HANG_SECONDS)

    many = make_client_without_retries(sandbox).agents.create_many(
        make_rows(2), ledger=ledger, key="email", on_error="return", resolve=resolve, concurrency=1
    )
    remaining: list[Any] = []
    job_thread = threading.Thread(target=lambda: remaining.extend(many))
    job_thread.start()
    assert asked.wait(HANG_SECONDS)
    # `cancel` returns although the function does not.
    assert [creation.outcome for creation in many.cancel()] == ["unknown"] * 2
    many.close()
    may_return.set()
    job_thread.join(HANG_SECONDS)
    assert not job_thread.is_alive() and remaining == []


def test_an_interrupted_resolve_is_called_again(sandbox: Sandbox, ledger: Path) -> None:
    leave_unresolved(sandbox, ledger, 1)
    answers: list[Any] = [KeyboardInterrupt(), "found_0"]

    def resolve(unresolved_row: UnresolvedRow) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, str):
            return answer
        raise answer

    many = make_client_without_retries(sandbox).agents.create_many(
        make_rows(1), ledger=ledger, key="email", resolve=resolve
    )
    with pytest.raises(KeyboardInterrupt):
        next(many)
    assert next(many).agent_id == "found_0" and not answers


@BOTH_CALL_STYLES
def test_unresolved_rows_have_their_labels(
    sandbox: Sandbox, ledger: Path, run: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    client = make_client_without_retries(sandbox)
    labels: dict[str, Any] = {
        "row0@example.com": StrSubclass("crm-0"),
        "row1@example.com": None,
        "row2@example.com": "x" * 257,
        "row3@example.com": 5,
    }
    sandbox.fail_next(process_then_reset=True, times=2)
    creations = run(client, rows=make_rows(5), ledger=ledger, concurrency=1, label=lambda row: labels[row["email"]])
    assert [creation.outcome for creation in creations] == ["unknown"] * 2 + ["not_sent"] * 3
    errors = [str(creation.error) for creation in creations[2:]]
    assert "the row's label is longer than 256 bytes" in errors[0]
    assert errors[1:] == [
        "not sent: label must return a str or None for each row, not int",
        "not sent: the label of the row cannot be determined: KeyError",
    ]
    sandbox.fail_next(process_then_reset=True)
    with pytest.raises(APIConnectionError):
        client.agents.create_once(idempotency_key="row5@example.com", ledger=ledger, label="crm-5", **make_row(5))
    assert [row.label for row in summary(ledger).unresolved] == ["crm-0", None, "crm-5"]

    seen: list[str | None] = []
    run(client, rows=make_rows(2), ledger=ledger, concurrency=1, resolve=lambda row: seen.append(row.label))
    assert seen == ["crm-0", None]

    assert main(["ledger", "show", str(ledger)]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"sent at \(UTC\) +label\n", shown) and re.search(r" crm-0\n", shown)
    assert main(["ledger", "show", str(ledger), "--json"]) == 0
    unresolved = json.loads(capsys.readouterr().out)["unresolved"]
    assert [row["label"] for row in unresolved] == ["crm-0", "", "crm-5"]


def test_labels_need_a_ledger_and_a_function(sandbox: Sandbox, ledger: Path) -> None:
    client = make_client_without_retries(sandbox)
    wrong: Any = "email"
    with pytest.raises(TypeError, match="label must be a function of a row, not str"):
        client.agents.create_many([], ledger=ledger, key="email", label=wrong)
    with pytest.raises(TypeError, match="label needs a ledger"):
        client.agents.create_many([], label=lambda row: None)
