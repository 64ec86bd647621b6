"""``create_many`` with a ledger: what the next run does, and what the errors of an unusable ledger say."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
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
from dealkit.ledger import move, settle
from dealkit.params import CreateAgentParams
from dealkit.testing import Sandbox


def row(number: int) -> CreateAgentParams:
    return {"email": f"row{number}@example.com", "first_name": "Ada", "last_name": "Lovelace", "profile": {}}


def rows(count: int) -> list[CreateAgentParams]:
    return [row(number) for number in range(count)]


def email(row: CreateAgentParams) -> str:
    return row["email"]


def client_of(sandbox: Sandbox, **options: Any) -> Client:
    return Client(base_url=sandbox.url, service_key=sandbox.service_key, max_retries=0, **options)


def in_order(client: Client, **options: Any) -> list[Any]:
    given: dict[str, Any] = {"key": email, "on_error": "return", **options}
    return [*client.agents.create_many(**given)]


def in_a_loop(client: Client, **options: Any) -> list[Any]:
    async def run() -> list[Any]:
        async with AsyncClient(base_url=client.base_url, service_key="sandbox-key", max_retries=0) as awaiting:
            given: dict[str, Any] = {"key": email, "on_error": "return", **options}
            return [creation async for creation in awaiting.agents.create_many(**given)]

    return asyncio.run(run())


BOTH = pytest.mark.parametrize("run", [in_order, in_a_loop])


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as sandbox:
        yield sandbox


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "agents.ndjson"


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
    first = run(client, rows=given, ledger=ledger, concurrency=1)
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
    assert "rejected it in an earlier run (422 Unprocessable Entity)" in str(rejected.error)
    assert (created.agent, created.agent_id, created.error) == (None, first[2].agent_id, None)
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


def test_whole_responses_are_recorded_by_their_identifier(sandbox: Sandbox, ledger: Path) -> None:
    client = client_of(sandbox)
    raw = client.with_raw_response.agents
    (first,) = raw.create_many(rows(1), ledger=ledger, key=email)
    (second,) = raw.create_many(rows(1), ledger=ledger, key=email)
    assert first.agent is not None
    assert second.agent_id == first.agent.parse().id == sandbox.agents[0].id


def test_a_response_that_cannot_be_read_leaves_an_agent(sandbox: Sandbox, ledger: Path) -> None:
    client = client_of(sandbox)
    sandbox.fail_next(status=201, body={"id": "a_7"})
    sandbox.fail_next(status=201, body="[]")
    first = in_order(client, rows=rows(2), ledger=ledger, concurrency=1)
    assert told(first) == [("succeeded", False)] * 2
    second = in_order(client, rows=rows(2), ledger=ledger)
    assert told(second) == [("succeeded", True)] * 2
    assert [creation.agent_id for creation in second] == ["a_7", None]


@pytest.mark.parametrize("status", [401, 403, 404, 429])
def test_a_refusal_of_the_caller_is_not_one_of_the_row(status: int, sandbox: Sandbox, ledger: Path) -> None:
    client = client_of(sandbox)
    sandbox.fail_next(status=status, retry_after=0)
    assert told(in_order(client, rows=rows(1), ledger=ledger)) == [("rejected", False)]
    assert told(in_order(client, rows=rows(1), ledger=ledger)) == [("succeeded", False)]


def test_two_rows_with_one_key_are_refused(sandbox: Sandbox, ledger: Path) -> None:
    creations = in_order(client_of(sandbox), rows=[row(0), row(1), row(1)], ledger=ledger)
    error = creations[2].error
    assert isinstance(error, DuplicateKeyError)
    assert (error.outcome, error.index, error.first_index) == ("not_sent", 2, 1)
    assert len(sandbox.requests) == 2


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


def test_what_belongs_together_is_given_together(sandbox: Sandbox, ledger: Path) -> None:
    create_many: Any = client_of(sandbox).agents.create_many
    cases: list[tuple[dict[str, Any], str]] = [
        ({"ledger": ledger}, "with key="),
        ({"key": email}, "key needs a ledger"),
        ({"resend_unknown": True}, "resend_unknown needs a ledger"),
        ({"ledger": ledger, "key": 5}, "key must be the name of a field, or a function of a row, not int"),
        ({"ledger": 5, "key": email}, "ledger must be the path of a file, not int"),
        ({"ledger": ledger, "key": email, "resend_unknown": 1}, "resend_unknown must be a bool, not int"),
    ]
    for options, text in cases:
        with pytest.raises(TypeError, match=text):
            create_many(rows(1), **options)
    for key in ["emial", "", "E-mail", "profile.\ud800"]:
        with pytest.raises(ValueError, match="key does not name a field of a row") as raised:
            create_many(rows(1), ledger=ledger, key=key)
        assert ("did you mean 'email'?" in str(raised.value)) is (key in ("emial", "E-mail"))
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
    assert 'its keys are called "email", and those of this job "profile.external_id". Nothing was sent' in text
    assert len(sandbox.requests) == 2
    assert known(run(client, rows=given, ledger=ledger, key="email")) == ["succeeded"] * 2
    # A function has no name that could differ.
    assert known(run(client, rows=given, ledger=ledger)) == ["succeeded"] * 2
    assert '"keys":"email"' in ledger.read_text().splitlines()[0]

    other = ledger.with_name("by-id.ndjson")
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


@BOTH
def test_rows_that_were_looked_up_are_settled(run: Callable[..., list[Any]], sandbox: Sandbox, ledger: Path) -> None:
    client = client_of(sandbox)
    sandbox.fail_next(act_then_reset=True)
    sandbox.fail_next(cut="before-head")
    sandbox.fail_next(status=422)
    first = run(client, rows=rows(4), ledger=ledger, key="email", concurrency=1)
    assert [creation.outcome for creation in first] == ["unknown", "unknown", "rejected", "succeeded"]

    # Find out, settle, run again.
    there = {agent.email: agent.id for agent in sandbox.agents}
    found = {creation.key: there.get(creation.key) for creation in first[:3]}
    settle(ledger, found)
    again = run(client, rows=rows(4), ledger=ledger, key="email")
    assert told(again) == [("succeeded", True), ("succeeded", False), ("succeeded", False), ("succeeded", True)]
    assert again[0].agent_id == there["row0@example.com"]
    assert emails(sandbox) == sorted({*emails(sandbox)}) and len(emails(sandbox)) == 4


class Text(str):
    """A str of another class."""


def test_what_cannot_be_settled_is_named_by_its_place_and_never_by_its_key(sandbox: Sandbox, ledger: Path) -> None:
    client = client_of(sandbox)
    sandbox.fail_next(act_then_reset=True)
    in_order(client, rows=rows(2), ledger=ledger, concurrency=1)
    before = ledger.read_bytes()
    cases: list[tuple[dict[Any, Any], type[Exception], str]] = [
        ({"CANARY@example.com": None}, LedgerError, "its key is not in the ledger"),
        ({"row1@example.com": None}, LedgerError, "records that its agent was created"),
        ({"row1@example.com": "CANARY"}, LedgerError, "records that its agent was created"),
        ({"CANARY": ""}, LedgerError, "identifier is empty"),
        ({"CANARY\ud800": None}, ValueError, "the key at index 1 contains an unpaired surrogate"),
        ({5: None}, TypeError, "the key at index 1 must be a str, not int"),
        ({"CANARY": 5}, TypeError, "the agent's identifier at index 1 must be a str, not int"),
    ]
    for entry, of_class, text in cases:
        with pytest.raises(of_class, match=text) as raised:
            settle(ledger, {"row0@example.com": None, **entry})
        if isinstance(raised.value, LedgerError):
            assert (raised.value.reason, raised.value.index) == ("refused", 1)
            assert str(raised.value).startswith(f"ledger {ledger}: the entry at index 1 cannot be settled: ")
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
    settle(str(ledger), {Text("row0@example.com"): Text("a_1")})
    assert told(in_order(client, rows=rows(2), ledger=ledger)) == [("succeeded", True)] * 2
    assert "@example" not in ledger.read_text()


def test_a_ledger_that_a_job_has_is_not_written_by_others(sandbox: Sandbox, ledger: Path) -> None:
    client = client_of(sandbox)
    sandbox.fail_next(act_then_reset=True)
    with client.agents.create_many(rows(3), ledger=ledger, key=email, on_error="return", concurrency=1) as many:
        next(many)
        with pytest.raises(LedgerError, match="another job is writing to it") as raised:
            settle(ledger, {})
        assert raised.value.reason == "in_use"
        with pytest.raises(LedgerError, match="another job is writing to it"):
            move(ledger, sandbox.url)
    settle(ledger, {"row0@example.com": None})
    with pytest.raises(LedgerError, match="name the ledger of a job"):
        settle(ledger.with_name("none.ndjson"), {})


def test_a_service_that_has_another_name_keeps_its_ledger(sandbox: Sandbox, ledger: Path) -> None:
    in_order(client_of(sandbox), rows=rows(1), ledger=ledger)
    other = sandbox.url.replace("127.0.0.1", "LOCALHOST") + "/"
    renamed = Client(base_url=other, service_key=sandbox.service_key)
    assert "dealkit.ledger.move" in str(refusal(renamed, ledger))
    for wrong in ["localhost", "ftp://localhost", f"{sandbox.url}/v1", "\0"]:
        with pytest.raises(LedgerError, match="base_url") as raised:
            move(ledger, wrong)
        assert raised.value.reason == "refused" and raised.value.index is None
    url: Any = None
    with pytest.raises(TypeError, match="base_url must be a str, not NoneType"):
        move(ledger, url)
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
    error = refusal(client, ledger.parent / "none" / "agents.ndjson")
    assert error.reason == "io" and "create the folder first" in str(error)
    assert refusal(client, ledger.parent).reason == "io"

    ledger.write_text("email,first_name\n")
    assert refusal(client, ledger).reason == "not_a_ledger"
    assert ledger.read_text() == "email,first_name\n"
    ledger.unlink()

    in_order(client, rows=rows(2), ledger=ledger)
    with Sandbox() as other:
        error = refusal(client_of(other), ledger)
    assert error.reason == "other_service" and sandbox.url in str(error)

    lines = ledger.read_text().splitlines(keepends=True)
    ledger.write_text("".join([*lines[:2], "x\n", *lines[2:]]))
    error = refusal(client, ledger)
    assert (error.reason, error.line) == ("broken", 3)
    ledger.write_text("".join([lines[0].replace('"1.1"', '"3.0"'), *lines[1:]]))
    assert refusal(client, ledger).reason == "newer_format"
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
    assert error.reason == "io" and "make it writable, or name another file" in str(error)


def test_a_ledger_is_for_one_job_at_a_time(sandbox: Sandbox, ledger: Path) -> None:
    client = client_of(sandbox)
    many = client.agents.create_many(rows(3), ledger=ledger, key=email)
    next(many)
    assert refusal(client, ledger).reason == "in_use"
    many.close()
    # A job closes its ledger when it ends, when it is dropped, and at the end of `with`.
    for _ in range(20):
        assert len(in_order(client, rows=rows(3), ledger=ledger)) == 3
        next(client.agents.create_many(rows(9), ledger=ledger, key=email))
        with client.agents.create_many(rows(9), ledger=ledger, key=email) as many:
            next(many)


LOCKED = """
import sys
from dealkit import Client
rows = [{"email": "ada@example.com", "first_name": "Ada", "last_name": "Lovelace", "profile": {}}]
many = Client().agents.create_many(rows, ledger=sys.argv[1], key=lambda row: row["email"])
print("open", flush=True)
sys.stdin.read()
import time
time.sleep(60)
"""


def test_a_ledger_is_for_one_process_at_a_time_and_free_after_its_end(sandbox: Sandbox, ledger: Path) -> None:
    client = client_of(sandbox)
    with python(LOCKED, str(ledger), url=sandbox.url) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        assert refusal(client, ledger).reason == "in_use"
        with pytest.raises(LedgerError, match="another job is writing to it"):
            settle(ledger, {})
        other.kill()
        other.communicate()
    assert told(in_order(client, rows=rows(1), ledger=ledger)) == [("succeeded", False)]


FORKED = """
import os, sys
from dealkit import Client, LedgerError
ledger = sys.argv[1]
rows = [{"email": f"row{n}@example.com", "first_name": "Ada", "last_name": "Lovelace", "profile": {}} for n in range(40)]
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
        assert error.reason == "in_use"
    else:
        os._exit(2)
    many.close()
    del many
    os.write(go[1], b"x")
    os.read(wait[0], 1)  # The child lives on, and has the file open.
    os._exit(0)
os.read(go[0], 1)
try:
    job()
except LedgerError as error:
    assert error.reason == "in_use"  # What the child did has not unlocked it.
else:
    raise AssertionError
assert sum(1 for _ in many) == 39
again = job()  # While the child lives.
assert all(creation.recorded for creation in again)
os.write(wait[1], b"x")
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""


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
        for n in range(12)
    ]
client = Client()
def job(name, **options):
    many = client.agents.create_many(
        rows(name), ledger=f"{folder}/{name}.ndjson", key=lambda row: row["email"], concurrency=3, **options
    )
    return many
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
for limit in range(0, 2400, 60):
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
    assert full and all(isinstance(error, LedgerError) and error.reason == "io" for error in full)
    assert "make room, and run the job again: it resumes where it stopped" in str(full[0]), full[0]
    sent = [creation for creation in creations if creation.outcome != "not_sent"]
    assert all(creation.outcome == "succeeded" and creation.agent_id for creation in sent)
    lost = {creation.key for creation in sent if creation.ledger_error is not None}
    assert all(creation.ledger_error.reason == "io" for creation in sent if creation.ledger_error is not None)

    again = list(job(name, on_error="return"))
    for creation in again:
        was_sent = creation.key in {creation.key for creation in sent}
        expected = "unknown" if creation.key in lost else "succeeded"
        assert (creation.outcome, creation.recorded) == (expected, was_sent), (limit, creation)
    if lost:
        print(json.dumps(sorted(lost)))
"""


def test_nothing_is_sent_once_the_disk_is_full_and_what_was_in_flight_is_handed_over(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    pytest.importorskip("resource")
    shown = ended(python(FULL, str(tmp_path), url=sandbox.url), 120)
    assert shown, "no outcome was ever lost: the limits are at the wrong places"
    found = emails(sandbox)
    assert len(found) == len({*found}) == 40 * 12


def test_where_errors_are_raised_a_ledger_that_lacks_something_is_one_at_the_end(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    resource: Any = pytest.importorskip("resource")
    client = client_of(sandbox)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    whole = tmp_path / "whole.ndjson"
    in_order(client, rows=rows(1), ledger=whole)
    length = whole.stat().st_size
    many = client.agents.create_many(rows(1), ledger=tmp_path / "cut.ndjson", key=email)
    resource.setrlimit(resource.RLIMIT_FSIZE, (length - 1, hard))
    try:
        creation = next(many)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert creation.outcome == "succeeded" and isinstance(creation.ledger_error, LedgerError)
    with pytest.raises(LedgerError, match="make room"):
        next(many)
    with pytest.raises(StopIteration):
        next(many)


JOB = """
import sys
from dealkit import Client
rows = [{"email": f"row{n}@example.com", "first_name": "Ada", "last_name": "Lovelace", "profile": {}} for n in range(30)]
for _ in Client().agents.create_many(rows, ledger=sys.argv[1], key=lambda row: row["email"], concurrency=4):
    pass
"""


def can_trace() -> bool:
    """Whether strace is installed and permitted."""
    program = shutil.which("strace")
    return (
        program is not None and subprocess.run([program, "-o", os.devnull, "true"], capture_output=True).returncode == 0
    )


@pytest.mark.skipif(not can_trace(), reason="needs strace")
def test_every_intent_has_reached_the_disk_before_its_request_leaves(sandbox: Sandbox, ledger: Path) -> None:
    seen = ledger.with_suffix(".strace")
    shown = ["-f", "-o", str(seen), "-s", "60", "-e", "trace=fdatasync,write,writev,sendto"]
    shown += ["-e", "inject=fdatasync:delay_enter=20000"]  # A disk slow enough for other rows to wait.
    subprocess.run(
        ["strace", *shown, sys.executable, "-c", JOB, str(ledger)],
        env={**os.environ, "DEALKIT_BASE_URL": sandbox.url, "DEALKIT_SERVICE_KEY": sandbox.service_key},
        check=True,
        timeout=120,
    )
    written = synced = sent = syncs = 0
    begun: dict[str, int] = {}
    for line in seen.read_text().splitlines():
        thread = line.split()[0]
        if "intent" in line:
            written += 1
        if "fdatasync(" in line:
            begun[thread] = written
            syncs += 1
        if "fdatasync" in line and line.endswith(("= 0", "= 0 (DELAYED)")):
            synced = max(synced, begun[thread])
        if "POST /v1/agents" in line:
            sent += 1
            assert sent <= synced
    assert sent == written == 30
    assert syncs < 30  # Rows that wait share one sync.


INTERRUPTED = """
import signal, sys
from dealkit import Client
signal.signal(signal.SIGINT, signal.default_int_handler)
rows = [{"email": f"row{n}@example.com", "first_name": "Ada", "last_name": "Lovelace", "profile": {}} for n in range(60)]
with Client(max_retries=0).agents.create_many(
    rows, ledger=sys.argv[1], key=lambda row: row["email"], on_error="return", concurrency=4
) as many:
    try:
        for creation in many:
            print(creation.index, creation.outcome, creation.recorded, flush=True)
    except KeyboardInterrupt:
        for creation in many.cancel():
            print(creation.index, creation.outcome, creation.recorded)
"""


def test_an_interrupted_job_goes_on(sandbox: Sandbox, ledger: Path) -> None:
    sandbox.fail_next(delay=0.02, times=None)
    doubtful: set[int] = set()
    done = False
    for interrupted_after in [1, 13, 25, None]:
        with python(INTERRUPTED, str(ledger), url=sandbox.url) as job:
            assert job.stdout is not None
            lines = []
            for line in job.stdout:
                lines.append(line.split())
                fresh = sum(recorded == "False" for _, _, recorded in lines)
                if fresh == interrupted_after:
                    job.send_signal(signal.SIGINT)
                    interrupted_after = None
            assert job.wait() == 0
        assert len({index for index, _, _ in lines}) == len(lines)
        assert {outcome for _, outcome, _ in lines} <= {"succeeded", "unknown", "not_sent"}
        doubtful |= {int(index) for index, outcome, _ in lines if outcome == "unknown"}
        # Rows in doubt stay in doubt, and no others are.
        assert {int(i) for i, outcome, recorded in lines if recorded == "True" and outcome == "unknown"} <= doubtful
        done = len(lines) == 60
    assert done
    found = emails(sandbox)
    assert len(found) == len({*found})
    missing = {email(row) for row in rows(60)} - {*found}
    assert missing <= {email(row(index)) for index in doubtful}


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
    text = ledger.read_text()
    assert "@example" not in text and sandbox.service_key not in text
    lines = [json.loads(line) for line in text.splitlines()]
    assert lines[0]["service"] == sandbox.url
    assert {line["type"] for line in lines[1:]} == {"intent", "outcome"}
    assert ledger.stat().st_mode & 0o777 == 0o600


def test_rows_of_a_job_with_a_ledger_are_taken_as_they_are_asked_for(sandbox: Sandbox, ledger: Path) -> None:
    def endless() -> Iterator[CreateAgentParams]:
        number = 0
        while True:
            yield row(number)
            number += 1

    client = client_of(sandbox)
    left = []
    for _ in range(2):
        with client.agents.create_many(endless(), ledger=ledger, key=email, concurrency=4) as many:
            assert [next(many).index for _ in range(10)] == [*range(10)]
            left = many.cancel()
    assert len(sandbox.agents) <= 14 and all(creation.index >= 10 for creation in left)
