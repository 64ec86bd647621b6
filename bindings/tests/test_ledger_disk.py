"""A ledger that is locked, moved, full or left by a process that died: nothing is lost, nothing is sent twice."""

from __future__ import annotations

import asyncio
import os
import pickle
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from conftest import ROWS, email, of, row, rows
from ledgers import client_of, emails, in_order
from processes import HANGS, ended, pressing_ctrl_c, python, until

from dealkit import (
    AsyncClient,
    LedgerError,
)
from dealkit.ledger import summary
from dealkit.testing import Sandbox

LOCKING_OUT = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1])
database.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
sys.stdin.read()
"""


@contextmanager
def locking(ledger: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that has a ledger locked until its input ends."""
    command = [sys.executable, "-c", LOCKING_OUT, str(ledger)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdout.readline() == b"locked\n"
        yield other
        other.communicate()


@pytest.fixture
def locked(sandbox: Sandbox, ledger: Path) -> Iterator[None]:
    """While another process has the ledger locked."""
    in_order(client_of(sandbox), rows=rows(2), ledger=ledger, key="email")
    with locking(ledger):
        yield


@pytest.mark.usefixtures("locked")
def test_ctrl_c_is_heard_while_a_ledger_is_locked(sandbox: Sandbox, ledger: Path) -> None:
    client = client_of(sandbox)
    begins = threading.Event()

    def when() -> None:
        begins.wait(HANGS)
        time.sleep(0.3)  # It is most likely waiting by now.

    with pressing_ctrl_c(when):
        begins.set()
        begun = time.monotonic()
        next(client.agents.create_many(rows(3), ledger=ledger, key="email"))
    # The wait would end by itself after half a minute.
    assert time.monotonic() - begun < 25
    # Nor does anything else wait for it.
    assert client.deals.retrieve("d_1")


def test_cancelling_and_closing_keep_an_event_loop_running_while_a_ledger_is_locked(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    async def job(*, closes: bool) -> None:
        ledger = tmp_path / f"{closes}.ledger"
        client = of(sandbox, AsyncClient)
        sandbox.fail_next(hold=True)
        many = client.agents.create_many(rows(1), ledger=ledger, key="email")
        waiting = asyncio.ensure_future(anext(many))
        await asyncio.to_thread(sandbox.wait_for, held=True, timeout=HANGS)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        with locking(ledger):
            ending = asyncio.ensure_future(many.aclose() if closes else many.cancel())
            # Other calls go on: the loop and the client's own thread are free.
            assert await client.deals.retrieve("d_1")
            assert not ending.done()
        await asyncio.wait_for(ending, HANGS)
        sandbox.release()
        (left,) = await many.cancel()
        assert left.outcome == "unknown" and len(summary(ledger).unresolved) == 1
        await client.aclose()

    for closes in (False, True):
        asyncio.run(job(closes=closes))


@pytest.mark.usefixtures("locked")
def test_a_locked_ledger_does_not_stop_an_event_loop(sandbox: Sandbox, ledger: Path) -> None:
    async def job() -> None:
        client = of(sandbox, AsyncClient)
        many = client.agents.create_many(rows(3), ledger=ledger, key="email")
        waiting = asyncio.ensure_future(anext(many))
        assert await client.deals.retrieve("d_1")
        assert not waiting.done()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await many.aclose()
        assert await client.deals.retrieve("d_1")

    asyncio.run(job())


def test_a_job_closes_its_ledger(sandbox: Sandbox, ledger: Path) -> None:
    """When it ends, when it is dropped, and at the end of `with`."""
    client = client_of(sandbox)
    for _ in range(20):
        assert len(in_order(client, rows=rows(3), ledger=ledger)) == 3
        next(client.agents.create_many(rows(9), ledger=ledger, key=email))
        with client.agents.create_many(rows(9), ledger=ledger, key=email) as many:
            next(many)
    # After a drop, which waits for nothing, the ledger's own thread closes it.
    until(lambda: {path.name for path in ledger.parent.iterdir()} <= {ledger.name, f"{ledger.name}-journal"})


FORKED = (
    ROWS % 40
    + """
import os, sys
from dealkit import Client, LedgerError
ledger = sys.argv[1]
def job():
    key = lambda row: row["email"]
    return Client().agents.create_many(rows, ledger=ledger, key=key, concurrency=2, wait_in_flight=True)
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
        next(job())
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
assert len(again) == 40 and all(creation.from_ledger for creation in again)
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
sys.dont_write_bytecode = True
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
stopped = 0
for limit in range(0, 52000, 8000):
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
        assert "try again with the same ledger, which knows what was sent" in str(full[0]), full[0]
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
        assert (creation.outcome, creation.from_ledger) == (expected, was_sent), (limit, creation)
assert stopped > 4, stopped
"""


def test_nothing_is_sent_once_the_disk_is_full_and_what_was_in_flight_is_handed_over(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    pytest.importorskip("resource")
    ended(python(FULL, str(tmp_path), url=sandbox.url))
    found = emails(sandbox)
    assert len(found) == len({*found}) == 7 * 200


def test_where_errors_are_raised_a_ledger_that_lacks_something_is_one_at_the_end(
    sandbox: Sandbox, ledger: Path
) -> None:
    client = client_of(sandbox)
    sandbox.fail_next(hold=True)
    many = client.agents.create_many(rows(1), ledger=ledger, key=email)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(next, many)
        sandbox.wait_for(held=True, timeout=HANGS)
        ledger.rename(ledger.with_name("elsewhere"))
        sandbox.release()
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
    # A disk slow enough for other rows to wait.
    shown += ["-e", f"inject=fsync,fdatasync:delay_enter={2000 if concurrency == 1 else 20_000}"]
    subprocess.run(
        ["strace", *shown, sys.executable, "-c", JOB, str(ledger), str(concurrency)],
        env={**os.environ, "DEALKIT_BASE_URL": sandbox.url, "DEALKIT_SERVICE_KEY": sandbox.service_key},
        check=True,
        timeout=HANGS,
    )
    syncs = [0]
    for line in seen.read_text().splitlines():
        if "sync" in line and line.endswith(("= 0", "= 0 (DELAYED)")):
            syncs[-1] += 1
        if "POST /v1/agents" in line:
            syncs.append(0)
    assert len(syncs) == 31
    if concurrency == 1:
        # A transaction syncs its journal, the database, and the journal's end. That of a claim may have the last outcome.
        assert min(syncs) >= 3, syncs
    else:
        assert sum(syncs) < 30 * 3  # Rows that wait share a transaction.


def test_a_key_is_in_no_text_and_not_in_the_file(sandbox: Sandbox, ledger: Path) -> None:
    client = client_of(sandbox)
    sandbox.fail_next(process_then_reset=True)
    for _ in range(2):
        for creation in in_order(client, rows=[row(0), row(1), row(1)], ledger=ledger):
            assert creation.key.endswith("@example.com")
            assert "example.com" not in repr(creation) + str(creation.error) + repr(creation.error)
            copy = pickle.loads(pickle.dumps(creation))
            assert (copy.key, copy.from_ledger, repr(copy)) == (creation.key, creation.from_ledger, repr(creation))
            assert type(copy.error) is type(creation.error) and str(copy.error) == str(creation.error)
    for file in ledger.parent.iterdir():
        assert b"@example" not in file.read_bytes() and sandbox.service_key.encode() not in file.read_bytes()
    with closing(sqlite3.connect(ledger)) as database:
        assert database.execute("SELECT service FROM ledger").fetchone() == (sandbox.url,)
        assert {*database.execute("SELECT state FROM creates")} == {("succeeded",), ("unknown",)}
    assert ledger.stat().st_mode & 0o777 == 0o600


def test_another_copy_of_sqlite_in_the_process_creates_nobody_twice(sandbox: Sandbox, tmp_path: Path) -> None:
    """It does not see the locks of the job, and undoes transactions. The job notices, and sends nothing more."""
    for run in range(3):
        ledger = tmp_path / f"{run}.ledger"
        client = client_of(sandbox)
        in_order(client, rows=[row(0)], ledger=ledger, key="email")
        ends = threading.Event()

        def back_up(ledger: Path = ledger, ends: threading.Event = ends) -> None:
            while not ends.is_set():
                with (
                    suppress(sqlite3.Error),
                    closing(sqlite3.connect(ledger)) as database,
                    closing(sqlite3.connect(":memory:")) as copy,
                ):
                    database.backup(copy)

        other = threading.Thread(target=back_up)
        other.start()
        for _ in range(2):
            in_order(client, rows=rows(40), ledger=ledger, key="email", concurrency=4)
        ends.set()
        other.join(HANGS)
        assert len(emails(sandbox)) == len({*emails(sandbox)})
        sandbox.reset()
