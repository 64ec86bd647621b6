"""Kills jobs of creates (SIGKILL) at random moments and runs them again. In the end, no agent exists twice, none is
missing, and the ledger has all of them.

Two jobs share a ledger, and create agents in bulk or one by one. The sandbox loses responses, fails and delays, and the
database fails in between.

`make soak-ledger KILLS=500` kills jobs of 2,000 rows that often; `make test` kills a few.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import sqlite3
import sys
import time
from collections import Counter
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from conftest import ROWS_SCRIPT, make_row, make_rows, row_email
from postgres import POSTGRES_PACKAGE, Postgres, must_skip, required_programs
from processes import read_next_line, start_python, wait_until

from dealkit import Client
from dealkit.ledger import init, resolve
from dealkit.testing import Sandbox

# The number of kills for each kind of store.
KILLS = int(os.environ.get("DEALKIT_LEDGER_KILLS", "2"))
COUNT = int(os.environ.get("DEALKIT_LEDGER_ROWS", "600"))
# The number of kills for one ledger, small enough that its jobs are unfinished by then.
KILLS_PER_LEDGER = 50
JOB = (
    ROWS_SCRIPT % COUNT
    + """
import os, sys
from concurrent.futures import ThreadPoolExecutor
from dealkit import Client, DealkitError, LedgerError
way, ledger = sys.argv[1], os.environ["DEALKIT_LEDGER"]
agents = Client(max_retries=1).agents

def once(row):
    try:
        return agents.create_once(idempotency_key=row["email"], key_name="email", ledger=ledger, **row).outcome
    except LedgerError:
        raise
    except DealkitError as error:
        return error.outcome

print("begun", flush=True)
try:
    if way == "one by one":
        with ThreadPoolExecutor(8) as pool:
            outcomes, left = [*pool.map(once, rows)], []
    else:
        many = agents.create_many(
            rows, ledger=ledger, key="email", on_error="return", ordered=way == "ordered", concurrency=8
        )
        outcomes, left = [creation.outcome for creation in many], many.cancel()
    if "not_sent" in outcomes or left:
        sys.exit(3)
except LedgerError as error:
    assert error.reason == "unreachable", error
    sys.exit(3)  # Its database is down.
"""
)
CALL_STYLES = ["ordered", "as completed", "one by one"]


class LedgerUnderTest:
    """A ledger, the jobs that share it, and the service that they send to."""

    def __init__(self, folder: Path, stack: ExitStack, seeded_random: random.Random, has_database: bool) -> None:
        self.sandbox = stack.enter_context(Sandbox())
        self.seeded_random = seeded_random
        self.database: Postgres | None = None
        # The status of the service's latest response to each row.
        self.last_statuses: dict[str, int | None] = {}
        self.name = str(folder / f"{self.sandbox.url.rpartition(':')[2]}.ledger")
        if has_database:
            self.database = stack.enter_context(Postgres(required_programs(), "sesame", has_standby=True))
            self.name = self.database.url
            init(self.name)

    def read(self) -> dict[str, tuple[str, str]]:
        """Reads the state and the agent's id of each e-mail address as sdk/contract/ledger.md describes, without
        dealkit's own reader.
        """
        # The last entry of a key is valid.
        columns = (
            "SELECT {0}(salt{1}), {0}(key{1}), state, coalesce(agent_id, '') FROM {2}creates, {2}ledger ORDER BY entry"
        )
        rows: list[Any] = []
        if self.database is not None:
            rows = self.database.query(columns.format("encode", ", 'hex'", "dealkit."))
        elif os.path.exists(self.name):
            with closing(sqlite3.connect(self.name)) as database:
                rows = database.execute(columns.format("hex", "", "")).fetchall()
                assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        states = {bytes.fromhex(key): (state, id) for _, key, state, id in rows}
        salt = bytes.fromhex(rows[0][0]) if rows else b""
        emails = [row_email(make_row(n)) for n in range(COUNT)]
        keys = {hashlib.blake2b(salt + email.encode(), digest_size=16).digest(): email for email in emails}
        return {keys[key]: state_and_id for key, state_and_id in states.items()}

    def check(self) -> dict[str, str]:
        """Returns the service's agents by e-mail address. Asserts that no agent exists twice, that the ledger has all
        agents as created or unresolved, and that created rows have an agent.
        """
        # The sandbox keeps the latest 1,000 requests, and fewer arrive between checks.
        for request in self.sandbox.requests:
            self.last_statuses[json.loads(request.body)["email"]] = request.status
        agents = self.sandbox.agents
        agent_ids = {agent.email: agent.id for agent in agents}
        assert len(agent_ids) == len(agents), "an agent exists twice"
        ledger_rows = self.read()
        for email, id in agent_ids.items():
            state, agent_id = ledger_rows[email]
            assert state in ("sending", "unknown") or (state == "succeeded" and agent_id in (id, "")), ledger_rows[
                email
            ]
        assert {email for email, (state, _) in ledger_rows.items() if state == "succeeded"} <= agent_ids.keys()
        return agent_ids

    def kill(self, counts: Counter[str]) -> None:
        """Runs one or two jobs at the same time, and kills them at random moments."""
        env = {"DEALKIT_LEDGER": self.name}
        call_styles = [self.seeded_random.choice(CALL_STYLES) for _ in range(self.seeded_random.choice([1, 2]))]
        jobs = [start_python(JOB, call_style, url=self.sandbox.url, flags=(), env=env) for call_style in call_styles]
        for job in jobs:
            assert read_next_line(job) == "begun\n"
        # Waits until most jobs have begun to send. Opening a ledger in a database takes longer.
        time.sleep(self.seeded_random.uniform(0, 0.15 if self.database is None else 1))
        if self.database is not None:
            self.fail(self.database, counts)
        for job in jobs:
            job.kill()
            time.sleep(self.seeded_random.uniform(0, 0.1))
        for call_style, job in zip(call_styles, jobs, strict=True):
            with job:
                _, stderr = job.communicate(timeout=300)
            assert stderr == "" and job.returncode in (0, 3, -signal.SIGKILL), stderr
            counts[{0: "finished", 3: "stopped"}.get(job.returncode, "kills")] += 1
            counts[call_style] += 1
        counts["side by side"] += len(jobs) == 2

    def fail(self, database: Postgres, counts: Counter[str]) -> None:
        """Makes the database fail under the jobs, sometimes for good halfway."""
        if counts["kills"] * 2 >= min(KILLS, KILLS_PER_LEDGER) and not counts["failed over"]:
            database.fail_over()
            counts["failed over"] += 1
        elif self.seeded_random.random() < 0.2:
            database.stop()
            time.sleep(self.seeded_random.uniform(0, 0.5))
            database.start()
            counts["stopped and restarted"] += 1
        else:
            return
        # A job waits for its database for some time, to record its results.
        time.sleep(self.seeded_random.uniform(0, 1))

    def expire(self) -> None:
        """Expires the leases of killed processes, as a minute without renewal does."""
        if self.database is not None:
            self.database.query("UPDATE dealkit.jobs SET lease_until = clock_timestamp()")


FAULTS: list[dict[str, Any]] = [
    {"process_then_reset": True, "probability": 0.02},
    {"status": 503, "probability": 0.02},
    {"status": 429, "retry_after": 0, "probability": 0.01},
    {"cut": "before-head", "probability": 0.01},
    {"cut": "after-bytes:10", "probability": 0.01},
    {"delay": 0.01, "probability": 0.3},
]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="SIGKILL exists only on Unix")
@pytest.mark.parametrize("store", ["SQLite", "PostgreSQL"])
def test_killed_jobs_lose_and_repeat_no_row(store: str, tmp_path: Path, seeded_random: random.Random) -> None:
    if store == "PostgreSQL" and must_skip():
        pytest.skip(f"needs {POSTGRES_PACKAGE}")
    total: Counter[str] = Counter()
    while total["kills"] < KILLS:
        assert total["ledgers"] < 20 + KILLS, "the jobs end before they are killed"
        with ExitStack() as stack:
            ledger = LedgerUnderTest(tmp_path, stack, seeded_random, store == "PostgreSQL")
            total += kill_repeatedly(ledger, min(KILLS - total["kills"], KILLS_PER_LEDGER))
            print(f"{store}: {dict(total)}", flush=True)


def has_connections(sandbox: Sandbox) -> bool:
    """Returns whether the sandbox has open connections, including connections of ended processes."""
    if sys.platform != "linux":
        time.sleep(0.5)
        return False
    port = int(sandbox.url.rpartition(":")[2])
    with open("/proc/net/tcp") as table:
        found = [line.split() for line in table][1:]
    # The local address, and the states ESTABLISHED and CLOSE_WAIT.
    return any(int(row[1].rpartition(":")[2], 16) == port and row[3] in ("01", "08") for row in found)


def kill_repeatedly(ledger: LedgerUnderTest, kills: int) -> Counter[str]:
    """Kills jobs this many times and then runs one to its end. Returns the counts."""
    for fault in FAULTS:
        ledger.sandbox.fail_next(method="POST", times=None, seed=ledger.seeded_random.randrange(1 << 32), **fault)
    counts: Counter[str] = Counter(ledgers=1, rows=COUNT)
    while counts["kills"] < kills and not counts["finished"]:
        ledger.kill(counts)
        ledger.check()
        if ledger.seeded_random.random() < 0.5:
            ledger.expire()
    ledger.sandbox.clear_faults()

    ledger.expire()
    with Client(base_url=ledger.sandbox.url, service_key=ledger.sandbox.service_key) as client:
        creations = [*client.agents.create_many(make_rows(COUNT), ledger=ledger.name, key="email", on_error="return")]
    assert [creation.index for creation in creations] == [*range(COUNT)]
    outcomes = Counter(creation.outcome for creation in creations)
    others = {str(creation.error) for creation in creations if creation.outcome not in ("succeeded", "unknown")}
    assert not others, others
    # The user looks up the unresolved rows and resolves them. The next run sends the rows without an agent.
    wait_until(lambda: not has_connections(ledger.sandbox))  # the service may still be handling requests of killed jobs
    agents = ledger.check()
    unresolved = [creation for creation in creations if creation.outcome == "unknown"]
    assert all(creation.from_ledger for creation in unresolved)
    ledger_rows = ledger.read()
    assert len([key for key, (state, _) in ledger_rows.items() if state == "sending"]) <= 16 * (
        counts["kills"] + counts["stopped"]
    )
    for key in (key for key, (state, _) in ledger_rows.items() if state == "unknown"):
        assert ledger.last_statuses[key] != 429, "a row that the service rejected is unresolved"
    resolutions = {creation.key or "": agents.get(creation.key or "") for creation in unresolved}
    resolve(ledger.name, resolutions)
    missing = [key for key, agent_id in resolutions.items() if agent_id is None]
    with Client(base_url=ledger.sandbox.url, service_key=ledger.sandbox.service_key) as client:
        resumed = [*client.agents.create_many(make_rows(COUNT), ledger=ledger.name, key="email")]
    assert [creation.key for creation in resumed if not creation.from_ledger] == missing
    assert all(creation.agent or creation.from_ledger for creation in resumed)

    agents = {agent.email: agent.id for agent in ledger.sandbox.agents}
    assert len(agents) == len(ledger.sandbox.agents), "an agent exists twice"
    assert agents.keys() == {row_email(row) for row in make_rows(COUNT)}, "an agent is missing"
    for creation in (*creations, *resumed):
        if creation.outcome == "succeeded":
            assert creation.agent_id in (None, agents[creation.key or ""])
    there = len(unresolved) - len(missing)
    return counts + Counter({"created": outcomes["succeeded"], "unresolved": len(unresolved), "of which there": there})
