"""``create_many`` with a ledger: what the next run does, and what the errors of an unusable ledger say."""

from __future__ import annotations

import asyncio
import os
import pickle
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from conftest import ROWS, email, made, of, row, rows, until
from processes import ended, python

from dealkit import (
    AsyncClient,
    Client,
    ConfigError,
    DuplicateKeyError,
    LedgerError,
    RecordedError,
    UnprocessableEntityError,
    ValidationError,
)
from dealkit.ledger import RowInDoubt, move, settle, show, unsettle
from dealkit.params import CreateAgentParams
from dealkit.testing import Sandbox


def client_of(sandbox: Sandbox) -> Any:
    return of(sandbox, max_retries=0)


def in_order(client: Any, **options: Any) -> Any:
    given = {"key": email, "on_error": "return", **options}
    return made(client, lambda client: client.agents.create_many(**given))


def in_a_loop(client: Client, **options: Any) -> Any:
    return in_order(AsyncClient(base_url=client.base_url, service_key="sandbox-key", max_retries=0), **options)


BOTH = pytest.mark.parametrize("run", [in_order, in_a_loop])


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "agents.ledger"


def told(creations: list[Any]) -> list[tuple[str, bool]]:
    return [(creation.outcome, creation.recorded) for creation in creations]


def emails(sandbox: Sandbox) -> list[str]:
    return sorted(agent.email for agent in sandbox.agents)


@BOTH
def test_the_next_run_goes_on_where_the_first_stopped(
    run: Callable[..., list[Any]], sandbox: Sandbox, ledger: Path
) -> None:
    client = client_of(sandbox)
    given = rows(4)
    given[3]["first_name"] = ""
    sandbox.fail_next(act_then_reset=True)
    sandbox.fail_next(status=422)
    begun = datetime.now(UTC).replace(microsecond=0)
    first = run(client, rows=given, ledger=ledger, concurrency=1)
    ended = datetime.now(UTC)
    assert told(first) == [("unknown", False), ("rejected", False), ("succeeded", False), ("not_sent", False)]
    assert [creation.key for creation in first] == [email(row) for row in given]

    second = run(client, rows=rows(5), ledger=str(ledger))
    assert told(second) == [
        ("unknown", True),
        ("rejected", True),
        ("succeeded", True),
        ("succeeded", False),
        ("succeeded", False),
    ]
    unknown, rejected, created, mended, new = second
    assert isinstance(unknown.error, RecordedError) and unknown.error.status_code is None
    assert isinstance(rejected.error, RecordedError) and rejected.error.status_code == 422
    assert rejected.error.index == rejected.index == 1 and rejected.error.request_id
    assert "rejected it earlier (422 Unprocessable Entity)" in str(rejected.error)
    assert (created.agent, created.agent_id, created.error) == (None, first[2].agent_id, None)
    assert begun <= created.sent_at <= ended and pickle.loads(pickle.dumps(created)) == created
    results = ["failed", "failed", "created_before", "created", "created"]
    assert [creation.result for creation in second] == results
    assert mended.agent.email == mended.key and new.agent_id == new.agent.id
    assert len(sandbox.requests) == 5

    third = run(client, rows=rows(5), ledger=ledger, resend_unknown=True)
    assert told(third)[0] == ("succeeded", False)
    assert len(sandbox.requests) == 6
    assert emails(sandbox).count("row0@example.com") == 2  # That was the caller's decision.


def test_errors_are_raised_and_what_was_created_is_none(sandbox: Sandbox, ledger: Path) -> None:
    client = client_of(sandbox)
    sandbox.fail_next(status=422, after=1)
    many = client.agents.create_many(rows(3), ledger=ledger, key=email, concurrency=1)
    assert next(many).outcome == "succeeded"
    with pytest.raises(UnprocessableEntityError):
        next(many)
    many.close()
    many = client.agents.create_many(rows(3), ledger=ledger, key=email, concurrency=1)
    assert next(many).recorded
    with pytest.raises(RecordedError, match="nothing was sent") as raised:
        next(many)
    assert (raised.value.outcome, raised.value.index) == ("rejected", 1)
    many.close()


def test_a_response_that_cannot_be_read_leaves_an_agent(sandbox: Sandbox, ledger: Path) -> None:
    client = client_of(sandbox)
    sandbox.fail_next(status=201, body={"id": "a_7"})
    sandbox.fail_next(status=201, body="[]")
    first = in_order(client, rows=rows(2), ledger=ledger, concurrency=1)
    assert told(first) == [("succeeded", False)] * 2
    second = in_order(client, rows=rows(2), ledger=ledger)
    assert told(second) == [("succeeded", True)] * 2
    assert [creation.agent_id for creation in second] == ["a_7", None]


def test_rows_whose_key_cannot_be_told_are_refused_alone(sandbox: Sandbox, ledger: Path) -> None:
    client = client_of(sandbox)
    keys: list[Any] = ["a", KeyError("CANARY"), 7, "", "\ud800", None, "b"]

    def key(row: CreateAgentParams) -> str:
        found = keys[int(row["email"][3])]
        if isinstance(found, Exception):
            raise found
        return found  # type: ignore[no-any-return]

    given = rows(7)
    given[5]["email"] = "row5"
    creations = [*client.agents.create_many(given, ledger=ledger, key=key, on_error="return")]
    assert [creation.outcome for creation in creations] == ["succeeded", *["not_sent"] * 5, "succeeded"]
    texts = [str(creation.error) for creation in creations]
    assert "the key of the row cannot be determined: KeyError" in texts[1] and "CANARY" not in texts[1]
    assert "key must return a str for each row, not int" in texts[2]
    assert "no key, or an empty one" in texts[3]
    assert "UnicodeEncodeError" in texts[4]
    assert all(isinstance(creations[index].error, ConfigError) for index in range(1, 5))
    # Errors in the row itself come first.
    assert isinstance(creations[5].error, ValidationError)
    (_, twice) = in_order(client, rows=[row(7), row(7)], ledger=ledger)
    assert isinstance(twice.error, DuplicateKeyError)
    assert (twice.error.outcome, twice.error.index, twice.error.first_index) == ("not_sent", 1, 0)


def test_what_belongs_together_is_given_together(sandbox: Sandbox, ledger: Path) -> None:
    create_many: Any = client_of(sandbox).agents.create_many
    cases: list[tuple[dict[str, Any], str]] = [
        ({"ledger": ledger}, "with key="),
        ({"key": email}, "key needs a ledger"),
        ({"resend_unknown": True}, "resend_unknown needs a ledger"),
        ({"ledger": ledger, "key": 5}, "key must be the name of a field, or a function of a row, not int"),
        ({"ledger": 5, "key": email}, "ledger must be the path of a file, not int"),
        ({"ledger": ledger, "key": email, "resend_unknown": 1}, "resend_unknown must be a bool, not int"),
        ({"ledger": ledger, "key": email, "wait_in_flight": 1}, "wait_in_flight must be a bool, not int"),
        ({"wait_in_flight": True}, "wait_in_flight needs a ledger"),
        ({"resolve": print}, "resolve needs a ledger"),
        ({"ledger": ledger, "key": email, "resolve": "x"}, "resolve must be a function of a RowInDoubt, not str"),
        ({"ledger": ledger, "key": email, "resolve": print, "resend_unknown": True}, "exclude each other"),
    ]
    for options, text in cases:
        with pytest.raises(TypeError, match=text):
            create_many(rows(1), **options)
    for key in ["emial", "", "E-mail", "profile.\ud800"]:
        with pytest.raises(ValueError, match="key does not name a field of a row"):
            create_many(rows(1), ledger=ledger, key=key)
    assert not ledger.exists()


def known(creations: list[Any]) -> list[str]:
    return [creation.outcome for creation in creations if creation.recorded]


@BOTH
def test_a_job_with_other_keys_is_refused_before_anything_is_sent(
    run: Callable[..., list[Any]], sandbox: Sandbox, ledger: Path
) -> None:
    client = client_of(sandbox)
    given = rows(2)
    for number, agent in enumerate(given):
        agent["profile"] = {"external_id": f"crm-{number}"}
    assert known(run(client, rows=given, ledger=ledger, key="email")) == []
    with pytest.raises(LedgerError) as raised:
        run(client, rows=given, ledger=ledger, key="profile.external_id")
    assert (raised.value.reason, raised.value.outcome) == ("other_keys", "not_sent")
    text = str(raised.value)
    assert 'its keys are called "email", and those used here "profile.external_id". Nothing was sent' in text
    assert len(sandbox.requests) == 2
    assert known(run(client, rows=given, ledger=ledger, key="email")) == ["succeeded"] * 2
    # A function has no name that could differ.
    assert known(run(client, rows=given, ledger=ledger)) == ["succeeded"] * 2
    assert show(ledger).key == "email"

    other = ledger.with_name("by-id.ledger")
    first = run(client, rows=given, ledger=other, key="profile.external_id")
    assert [creation.key for creation in first] == ["crm-0", "crm-1"]


def test_a_row_without_the_field_that_is_its_key_is_refused_alone(sandbox: Sandbox, ledger: Path) -> None:
    given: list[Any] = rows(5)
    given[0]["profile"] = {"external_id": "crm-0"}
    given[1]["profile"] = {"external_id": 7}
    given[2]["profile"] = {"external_id": ""}
    given[3]["profile"] = 5
    creations = in_order(
        client_of(sandbox), rows=given, ledger=ledger, key="profile.external_id", validate=False, on_error="return"
    )
    assert [creation.outcome for creation in creations] == ["succeeded", *["not_sent"] * 4]
    texts = [str(creation.error) for creation in creations]
    assert "profile.external_id is the key of the row and must be a str, not int" in texts[1]
    assert "no key, or an empty one" in texts[2]
    assert "the row has no profile.external_id to use as its key: KeyError" in texts[4]


class Text(str):
    """A str of another class."""


def test_what_cannot_be_settled_is_named_by_its_place_and_never_by_its_key(sandbox: Sandbox, ledger: Path) -> None:
    client = client_of(sandbox)
    sandbox.fail_next(act_then_reset=True)
    in_order(client, rows=rows(2), ledger=ledger, concurrency=1)
    before = ledger.read_bytes()
    cases: list[tuple[dict[Any, Any], type[Exception], str]] = [
        ({"CANARY@example.com": None}, LedgerError, "its key is not in the ledger"),
        ({"row1@example.com": None}, LedgerError, "the service itself has said that it created"),
        ({"row1@example.com": "CANARY"}, LedgerError, "the service itself has said that it created"),
        ({"CANARY": ""}, LedgerError, "empty or a word for nobody"),
        ({"row1@example.com": "N/A"}, LedgerError, "empty or a word for nobody"),
        ({"row1@example.com": "CANARY", "row0@example.com": "CANARY"}, LedgerError, "has the same agent's identifier"),
        ({"CANARY\ud800": None}, ValueError, "the key at index 1 contains an unpaired surrogate"),
        ({5: None}, TypeError, "the key at index 1 must be a str, not int"),
        ({"CANARY": 5}, TypeError, "the agent's identifier at index 1 must be a str, not int"),
    ]
    for entry, of_class, text in cases:
        with pytest.raises(of_class, match=text) as raised:
            settle(ledger, {"row0@example.com": None, **entry} if len(entry) == 1 else entry)
        if isinstance(raised.value, LedgerError):
            assert (raised.value.reason, raised.value.index) == ("refused", 1)
            assert str(raised.value).startswith(f"ledger {ledger}: the entry at index 1 is refused: ")
            assert pickle.loads(pickle.dumps(raised.value)).index == 1
        frame = raised.value.__traceback__
        while (frame := frame and frame.tb_next) is not None:
            assert "CANARY" not in repr(frame.tb_frame.f_locals)
        assert "CANARY" not in str(raised.value) and "@example" not in str(raised.value)
        assert ledger.read_bytes() == before
    wrong: Any = [("row0@example.com", None)]
    with pytest.raises(TypeError, match="found must be a mapping of keys to agents' identifiers, not list"):
        settle(ledger, wrong)
    wrong = 5
    with pytest.raises(TypeError, match="path must be the path of a file, not int"):
        settle(wrong, {})
    assert settle(str(ledger), {Text("row0@example.com"): Text("a_1")}, dry_run=True) == 1
    assert told(in_order(client, rows=rows(2), ledger=ledger))[0] == ("unknown", True)
    assert settle(str(ledger), {Text("row0@example.com"): Text("a_1")}) == 1
    assert told(in_order(client, rows=rows(2), ledger=ledger)) == [("succeeded", True)] * 2
    assert b"@example" not in ledger.read_bytes()
    # A later word wins, and the first can be had again.
    assert settle(ledger, {"row0@example.com": "x_2"}) == 1 and settle(ledger, {"row0@example.com": "x_2"}) == 0
    assert in_order(client, rows=rows(1), ledger=ledger)[0].agent_id == "x_2"
    assert unsettle(ledger, ["row0@example.com", "row1@example.com"]) == 1
    assert told(in_order(client, rows=rows(2), ledger=ledger)) == [("unknown", True), ("succeeded", True)]
    with pytest.raises(LedgerError, match="its key is not in the ledger") as unknown:
        unsettle(ledger, ["CANARY"])
    assert unknown.value.index == 0 and "CANARY" not in str(unknown.value)


def test_a_row_that_a_job_is_sending_is_settled_by_nobody(sandbox: Sandbox, ledger: Path) -> None:
    client = client_of(sandbox)
    sandbox.fail_next(act_then_reset=True)
    sandbox.fail_next(delay=30, times=None)
    given: Any = {"ledger": ledger, "key": email, "on_error": "return", "concurrency": 1}
    with ThreadPoolExecutor(1) as pool, client.agents.create_many(rows(3), **given) as many:
        next(many)
        pool.submit(next, many)
        until(lambda: show(ledger).in_flight == 1)
        with pytest.raises(LedgerError, match="a job is sending this row now") as raised:
            settle(ledger, {"row1@example.com": "a_1"})
        assert (raised.value.reason, raised.value.index) == ("refused", 0)
        settle(ledger, {"row0@example.com": None})
    assert show(ledger)[2:7] == (0, 0, 0, 1, 0) and len(show(ledger).in_doubt) == 1
    with pytest.raises(LedgerError, match="name the ledger of a job"):
        settle(ledger.with_name("none.ledger"), {})


def in_doubt(sandbox: Sandbox, ledger: Path, count: int) -> None:
    """Leaves that many rows in doubt."""
    sandbox.fail_next(status=503, times=count)
    creations = in_order(client_of(sandbox), rows=rows(count), ledger=ledger, key="email")
    assert told(creations) == [("unknown", False)] * count
    doubts = show(ledger).in_doubt
    assert {(503, request.request_id) for request in sandbox.requests} == {one[1:] for one in doubts}
    sandbox.clear_requests()


SAID: dict[str, Any] = {
    "row0@example.com": "found_0",
    "row1@example.com": False,
    "row2@example.com": None,
    "row3@example.com": OSError("the search is down"),
    "row4@example.com": 5,
    "row5@example.com": "n/a",
    "row6@example.com": "\ud800",
}


def look(doubt: RowInDoubt) -> Any:
    assert doubt.row == row(int(doubt.key[3])) and doubt.status_code == 503 and doubt.request_id
    assert abs((datetime.now(UTC) - doubt.sent_at).total_seconds()) < 60 and "@" not in repr(doubt)
    said = SAID[doubt.key]
    if isinstance(said, Exception):
        raise said
    return said


async def look_meanwhile(doubt: RowInDoubt) -> Any:
    await asyncio.sleep(0)
    return look(doubt)


@pytest.mark.parametrize(("run", "resolve"), [(in_order, look), (in_a_loop, look), (in_a_loop, look_meanwhile)])
def test_rows_in_doubt_are_sent_again_if_there_is_no_agent(
    run: Callable[..., list[Any]], resolve: Any, sandbox: Sandbox, ledger: Path
) -> None:
    in_doubt(sandbox, ledger, 7)
    creations = run(client_of(sandbox), rows=rows(8), ledger=ledger, key="email", resolve=resolve, concurrency=3)
    assert told(creations) == [
        ("succeeded", True),
        ("succeeded", False),
        *[("unknown", True)] * 5,
        ("succeeded", False),
    ]
    assert creations[0].agent_id == "found_0" and creations[0].sent_at
    causes = [creation.error.__cause__ for creation in creations[2:7]]
    assert [type(cause).__name__ for cause in causes] == [
        "NoneType",
        "OSError",
        "TypeError",
        "NoneType",
        "UnicodeEncodeError",
    ]
    assert "was asked about it has failed" in str(creations[3].error)
    assert "a word for nobody" in str(creations[5].error)
    assert len(sandbox.requests) == 2 and len(show(ledger).in_doubt) == 5


def test_a_coroutine_is_not_awaited_where_nobody_awaits(sandbox: Sandbox, ledger: Path) -> None:
    in_doubt(sandbox, ledger, 1)
    (creation,) = in_order(client_of(sandbox), rows=rows(1), ledger=ledger, key="email", resolve=look_meanwhile)
    assert "not coroutine" in str(creation.error.__cause__)


def test_several_rows_are_asked_about_at_a_time_and_a_cancelled_task_answers_none(
    sandbox: Sandbox, ledger: Path
) -> None:
    in_doubt(sandbox, ledger, 3)

    async def job() -> None:
        asked: list[str] = []

        async def resolve(doubt: RowInDoubt) -> None:
            asked.append(doubt.key)
            await asyncio.sleep(60)

        many = of(sandbox, AsyncClient).agents.create_many(
            rows(3), ledger=ledger, key="email", on_error="return", resolve=resolve
        )
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(many), 0.5)
        assert len(asked) == 3
        other = in_order(client_of(sandbox), rows=rows(1), ledger=ledger, key="email", resolve=look)
        assert told(other) == [("unknown", True)] and other[0].error.in_flight
        assert told(many.cancel()) == [("unknown", False)] * 3

    asyncio.run(job())
    assert len(show(ledger).in_doubt) == 3 and not sandbox.requests


def test_whoever_is_interrupted_while_being_asked_is_asked_again(sandbox: Sandbox, ledger: Path) -> None:
    in_doubt(sandbox, ledger, 1)
    answers: list[Any] = [KeyboardInterrupt(), "found_0"]

    def resolve(doubt: RowInDoubt) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, str):
            return answer
        raise answer

    many = client_of(sandbox).agents.create_many(rows(1), ledger=ledger, key="email", resolve=resolve)
    with pytest.raises(KeyboardInterrupt):
        next(many)
    assert next(many).agent_id == "found_0" and not answers


def test_a_job_waits_for_rows_in_flight(sandbox: Sandbox, ledger: Path) -> None:
    client = client_of(sandbox)
    sandbox.fail_next(delay=0.5)
    given: Any = {"rows": rows(1), "ledger": ledger, "key": "email"}
    with ThreadPoolExecutor(1) as pool, client.agents.create_many(**given) as many:
        first = pool.submit(next, many)
        until(lambda: ledger.exists() and show(ledger).in_flight == 1)
        (late,) = in_order(client, **given, wait_in_flight=True, timeout=0.05)
        assert late.error.in_flight
        (waited,) = in_order(client, **given, wait_in_flight=True)
        assert (waited.recorded, waited.agent_id) == (True, first.result().agent_id)


LOCKING_OUT = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1])
database.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def locked(sandbox: Sandbox, ledger: Path) -> Iterator[None]:
    """While another process has the ledger locked."""
    in_order(client_of(sandbox), rows=rows(2), ledger=ledger, key="email")
    command = [sys.executable, "-c", LOCKING_OUT, str(ledger)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdout.readline() == b"locked\n"
        yield
        other.communicate()


@pytest.mark.usefixtures("locked")
def test_ctrl_c_is_heard_while_a_ledger_is_locked(sandbox: Sandbox, ledger: Path) -> None:
    client = client_of(sandbox)
    timer = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
    timer.start()
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        client.agents.create_many(rows(3), ledger=ledger, key="email")
    assert time.monotonic() - begun < 1
    # Nor does anything else wait for it.
    assert client.deals.retrieve("d_1")


@pytest.mark.usefixtures("locked")
def test_a_locked_ledger_does_not_stop_an_event_loop(sandbox: Sandbox, ledger: Path) -> None:
    async def job() -> None:
        client = of(sandbox, AsyncClient)
        begun = time.monotonic()
        many = client.agents.create_many(rows(3), ledger=ledger, key="email")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(many), 0.2)
        await many.aclose()
        assert await client.deals.retrieve("d_1")
        assert time.monotonic() - begun < 1

    asyncio.run(job())


def test_a_service_that_has_another_name_keeps_its_ledger(sandbox: Sandbox, ledger: Path) -> None:
    in_order(client_of(sandbox), rows=rows(1), ledger=ledger)
    other = sandbox.url.replace("127.0.0.1", "LOCALHOST") + "/"
    renamed = Client(base_url=other, service_key=sandbox.service_key)
    assert "`dealkit ledger move`" in str(refusal(renamed, ledger))
    with pytest.raises(LedgerError, match="base_url") as raised:
        move(ledger, "ftp://localhost")
    assert raised.value.reason == "refused" and raised.value.index is None
    move(ledger, other)
    assert told(in_order(renamed, rows=rows(2), ledger=ledger)) == [("succeeded", True), ("succeeded", False)]
    assert refusal(client_of(sandbox), ledger).reason == "other_service"


def refusal(client: Client, ledger: Path) -> LedgerError:
    with pytest.raises(LedgerError) as raised:
        client.agents.create_many(rows(1), ledger=ledger, key=email)
    assert raised.value.outcome == "not_sent"
    assert str(ledger) in str(raised.value)
    return raised.value


def test_what_is_wrong_with_a_ledger_is_said(sandbox: Sandbox, ledger: Path) -> None:
    client = client_of(sandbox)
    error = refusal(client, ledger.parent / "none" / "agents.ledger")
    assert error.reason == "io" and "create the folder first" in str(error)
    assert refusal(client, ledger.parent).reason == "not_a_ledger"

    ledger.write_text("email,first_name\n")
    assert refusal(client, ledger).reason == "not_a_ledger"
    assert ledger.read_text() == "email,first_name\n"
    ledger.unlink()

    in_order(client, rows=rows(2), ledger=ledger)
    with Sandbox() as other:
        error = refusal(client_of(other), ledger)
    assert error.reason == "other_service" and sandbox.url in str(error)
    assert len(sandbox.requests) == 2


@contextmanager
def as_nobody() -> Iterator[None]:
    """Root may write everything."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


def test_a_ledger_that_cannot_be_written_is_refused(sandbox: Sandbox, ledger: Path) -> None:
    client = client_of(sandbox)
    in_order(client, rows=rows(1), ledger=ledger)
    for folder in [ledger.parent, *ledger.parents[1:3]]:
        folder.chmod(0o755)
    ledger.chmod(0o444)
    with as_nobody():
        error = refusal(client, ledger)
    assert error.reason == "io" and "make the file and its folder writable" in str(error)


def test_a_job_closes_its_ledger(sandbox: Sandbox, ledger: Path) -> None:
    """When it ends, when it is dropped, and at the end of `with`."""
    client = client_of(sandbox)
    for _ in range(20):
        assert len(in_order(client, rows=rows(3), ledger=ledger)) == 3
        next(client.agents.create_many(rows(9), ledger=ledger, key=email))
        with client.agents.create_many(rows(9), ledger=ledger, key=email) as many:
            next(many)
    assert {path.name for path in ledger.parent.iterdir()} <= {ledger.name, f"{ledger.name}-journal"}


SENDING = (
    ROWS % 2
    + """
import sys
from dealkit import Client
many = Client().agents.create_many(rows, ledger=sys.argv[1], key=lambda row: row["email"], concurrency=1)
next(many)
print("one", flush=True)
next(many)
"""
)


def test_what_a_killed_process_was_sending_is_unknown(sandbox: Sandbox, ledger: Path) -> None:
    client = client_of(sandbox)
    sandbox.fail_next(delay=30, after=1)
    with python(SENDING, str(ledger), url=sandbox.url) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "one\n"
        until(lambda: show(ledger).in_flight == 1)
        results = in_order(client, rows=rows(3), ledger=ledger)
        assert told(results) == [("succeeded", True), ("unknown", True), ("succeeded", False)]
        error = pickle.loads(pickle.dumps(results[1].error))
        assert error.in_flight and "being sent elsewhere right now; nothing was sent" in str(error)
        other.kill()
        other.communicate()
    (unknown,) = in_order(client, rows=rows(2)[1:], ledger=ledger)
    assert told([unknown]) == [("unknown", True)] and not unknown.error.in_flight
    assert len(show(ledger).in_doubt) == 1


FORKED = (
    ROWS % 40
    + """
import os, sys
from dealkit import Client, LedgerError
ledger = sys.argv[1]
def job():
    return Client().agents.create_many(rows, ledger=ledger, key=lambda row: row["email"], concurrency=2)
many = job()
next(many)
go, wait = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    try:
        next(many)
    except RuntimeError:
        pass
    else:
        os._exit(1)
    try:
        job()
    except LedgerError as error:
        assert error.reason == "in_use" and "forked" in str(error)
    else:
        os._exit(2)
    many.close()
    del many
    os.write(go[1], b"x")
    os.read(wait[0], 1)  # The child lives on, and has the file open.
    os._exit(0)
os.read(go[0], 1)
assert all(creation.error is None for creation in job())  # What the child did changes nothing.
assert sum(1 for _ in many) == 39
del many
again = [*job()]  # While the child lives.
assert len(again) == 40 and all(creation.recorded for creation in again)
os.write(wait[1], b"x")
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_neither_writes_a_ledger_nor_unlocks_it(sandbox: Sandbox, ledger: Path) -> None:
    flags = ("-X", "dev", "-W", "error", "-W", "ignore::DeprecationWarning")
    assert ended(python(FORKED, str(ledger), url=sandbox.url, flags=flags)) == ""
    assert len(emails(sandbox)) == 40 == len({*emails(sandbox)})


# A file size limit, which affects a ledger as a full disk does, at a different position each time.
FULL = """
import json, os, resource, sys
from dealkit import Client, LedgerError
folder = sys.argv[1]
def rows(name):
    return [
        {"email": f"{name}-{n}@example.com", "first_name": "Ada", "last_name": "Lovelace", "profile": {}}
        for n in range(200)
    ]
client = Client()
def job(name, **options):
    many = client.agents.create_many(
        rows(name), ledger=f"{folder}/{name}.ledger", key=lambda row: row["email"], concurrency=8, **options
    )
    return many
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
stopped = 0
for limit in range(0, 52000, 4000):
    name = f"limit{limit}"
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    full = []
    try:
        creations = list(job(name, on_error="return"))
    except LedgerError as error:
        full.append(error)
        creations = []
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    full += [creation.error for creation in creations if creation.outcome == "not_sent"]
    assert full or len(creations) == 200
    assert all(isinstance(error, LedgerError) and error.reason == "io" for error in full), full
    if full:
        assert len(creations) < 200, "no more rows are taken"
        assert "run the job again with the same ledger: it resumes where it stopped" in str(full[0]), full[0]
        stopped += 1
    sent = [creation for creation in creations if creation.outcome != "not_sent"]
    assert all(creation.outcome == "succeeded" and creation.agent_id for creation in sent)
    lost = {creation.key for creation in sent if creation.ledger_error is not None}
    assert all(creation.ledger_error.reason == "io" for creation in sent if creation.ledger_error is not None)

    again = list(job(name, on_error="return"))
    assert len(again) == 200
    for creation in again:
        was_sent = creation.key in {creation.key for creation in sent}
        expected = "unknown" if creation.key in lost else "succeeded"
        assert (creation.outcome, creation.recorded) == (expected, was_sent), (limit, creation)
assert stopped > 8, stopped
"""


def test_nothing_is_sent_once_the_disk_is_full_and_what_was_in_flight_is_handed_over(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    pytest.importorskip("resource")
    ended(python(FULL, str(tmp_path), url=sandbox.url), 240)
    found = emails(sandbox)
    assert len(found) == len({*found}) == 13 * 200


@pytest.mark.skipif(os.name == "nt", reason="an open file cannot be moved or deleted")
@pytest.mark.parametrize("how", ["delete", "rename", "replace", "edit"])
def test_a_ledger_that_vanishes_under_a_job_stops_it(how: str, sandbox: Sandbox, ledger: Path) -> None:
    client = client_of(sandbox)
    kept = ledger.with_name("kept.ledger")
    many = client.agents.create_many(rows(50), ledger=ledger, key=email, on_error="return", concurrency=4)
    came = [next(many) for _ in range(5)]
    if how == "delete":
        kept.write_bytes(ledger.read_bytes())
        ledger.unlink()
    elif how == "rename":
        ledger.rename(kept)
    elif how == "replace":
        shutil.copy(ledger, kept)
        kept.replace(ledger)
    else:
        subprocess.run(["sed", "-i", "s/a/a/", str(ledger)], check=True)
    came += many
    assert len(came) < 50
    assert {creation.outcome for creation in came} <= {"succeeded", "not_sent"}
    errors = [creation.error for creation in came if creation.outcome == "not_sent"]
    assert errors and all(isinstance(error, LedgerError) and error.reason == "moved" for error in errors)
    assert "Put it back before you run the job again" in str(errors[0])
    created = [creation for creation in came if creation.outcome == "succeeded"]
    assert len(sandbox.agents) == len(created)
    if how == "rename":
        kept.rename(ledger)
        again = in_order(client, rows=rows(50), ledger=ledger)
        # What was sent but could not be recorded is known to have been sent.
        unrecorded = {creation.key for creation in created if creation.ledger_error is not None}
        assert {creation.key for creation in again if creation.outcome == "unknown"} == unrecorded
        assert len(emails(sandbox)) == 50 == len({*emails(sandbox)})


def test_where_errors_are_raised_a_ledger_that_lacks_something_is_one_at_the_end(
    sandbox: Sandbox, ledger: Path
) -> None:
    client = client_of(sandbox)
    sandbox.fail_next(delay=0.5)
    many = client.agents.create_many(rows(1), ledger=ledger, key=email)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(next, many)
        until(lambda: show(ledger).in_flight == 1)
        ledger.rename(ledger.with_name("elsewhere"))
        creation = first.result()
    assert creation.outcome == "succeeded" and isinstance(creation.ledger_error, LedgerError)
    with pytest.raises(LedgerError, match="moved, deleted or replaced"):
        next(many)
    with pytest.raises(StopIteration):
        next(many)


JOB = (
    ROWS % 30
    + """
import sys
from dealkit import Client
concurrency = int(sys.argv[2])
for _ in Client().agents.create_many(rows, ledger=sys.argv[1], key=lambda row: row["email"], concurrency=concurrency):
    pass
"""
)


def can_trace() -> bool:
    """Whether strace is installed and permitted."""
    program = shutil.which("strace")
    return (
        program is not None and subprocess.run([program, "-o", os.devnull, "true"], capture_output=True).returncode == 0
    )


@pytest.mark.skipif(not can_trace(), reason="needs strace")
@pytest.mark.parametrize("concurrency", [1, 10])
def test_every_claim_and_every_outcome_has_reached_the_disk(sandbox: Sandbox, ledger: Path, concurrency: int) -> None:
    seen = ledger.with_suffix(".strace")
    shown = ["-f", "-o", str(seen), "-s", "30", "-e", "trace=fdatasync,fsync,write,writev,sendto"]
    shown += ["-e", "inject=fsync,fdatasync:delay_enter=2000"]  # A disk slow enough for other rows to wait.
    subprocess.run(
        ["strace", *shown, sys.executable, "-c", JOB, str(ledger), str(concurrency)],
        env={**os.environ, "DEALKIT_BASE_URL": sandbox.url, "DEALKIT_SERVICE_KEY": sandbox.service_key},
        check=True,
        timeout=120,
    )
    syncs = [0]
    for line in seen.read_text().splitlines():
        if "sync" in line and line.endswith(("= 0", "= 0 (DELAYED)")):
            syncs[-1] += 1
        if "POST /v1/agents" in line:
            syncs.append(0)
    assert len(syncs) == 31
    if concurrency == 1:
        # A transaction syncs its journal, the database, and the journal's end: one for the outcome, one for the claim.
        assert min(syncs) >= 3 and min(syncs[1:-1]) >= 6, syncs
    else:
        assert sum(syncs) < 30 * 6  # Rows that wait share a transaction.


def test_a_key_is_in_no_text_and_not_in_the_file(sandbox: Sandbox, ledger: Path) -> None:
    client = client_of(sandbox)
    sandbox.fail_next(act_then_reset=True)
    for _ in range(2):
        for creation in in_order(client, rows=[row(0), row(1), row(1)], ledger=ledger):
            assert creation.key.endswith("@example.com")
            assert "example.com" not in repr(creation) + str(creation.error) + repr(creation.error)
            copy = pickle.loads(pickle.dumps(creation))
            assert (copy.key, copy.recorded, repr(copy)) == (creation.key, creation.recorded, repr(creation))
            assert type(copy.error) is type(creation.error) and str(copy.error) == str(creation.error)
    for file in ledger.parent.iterdir():
        assert b"@example" not in file.read_bytes() and sandbox.service_key.encode() not in file.read_bytes()
    with closing(sqlite3.connect(ledger)) as database:
        assert database.execute("SELECT service FROM ledger").fetchone() == (sandbox.url,)
        assert {*database.execute("SELECT state FROM creates")} == {("succeeded",), ("unknown",)}
    assert ledger.stat().st_mode & 0o777 == 0o600


# Keeps anything from being recorded from the moment when a row is in flight.
LOCKING = """
import os, sqlite3, sys, time
while not os.path.exists(sys.argv[1]):
    time.sleep(0.005)
database = sqlite3.connect(sys.argv[1], isolation_level=None)
while not database.execute("SELECT 1 FROM creates").fetchone():
    time.sleep(0.005)
database.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
time.sleep(60)
"""


@BOTH
def test_the_next_row_is_taken_while_an_outcome_is_recorded(
    run: Callable[..., list[Any]], sandbox: Sandbox, ledger: Path
) -> None:
    taken = []

    def given() -> Iterator[CreateAgentParams]:
        for number in range(4):
            taken.append(number)
            yield row(number)

    sandbox.fail_next(delay=1, times=1)
    with ThreadPoolExecutor(1) as pool, python(LOCKING, str(ledger)) as other:
        came = pool.submit(run, client_of(sandbox), rows=given(), ledger=ledger, concurrency=1)
        try:
            assert other.stdout is not None and other.stdout.readline() == "locked\n"
            until(lambda: len(taken) == 2)
            assert (show(ledger).in_flight, show(ledger).succeeded) == (1, 0)
        finally:
            other.kill()
        assert [(creation.index, creation.outcome) for creation in came.result()] == [
            (number, "succeeded") for number in range(4)
        ]
