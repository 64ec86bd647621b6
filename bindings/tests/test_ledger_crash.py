"""Jobs of creates, many or one by one, that are killed (SIGKILL) at random moments, two at a time on one ledger, and run
again, against a sandbox that loses responses, fails and delays, and with a database that fails meanwhile: in the end no agent
exists twice, none is missing, and none is forgotten.

`make soak-ledger KILLS=500` kills that often, in jobs of 2,000 rows; `make test` a few times.
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
from conftest import ROWS, email, row, rows
from postgres import NEEDED, Postgres, must_skip, required_programs
from processes import next_line, python, until

from dealkit import Client
from dealkit.ledger import init, resolve
from dealkit.testing import Sandbox

# Of each of both stores.
KILLS = int(os.environ.get("DEALKIT_LEDGER_KILLS", "2"))
COUNT = int(os.environ.get("DEALKIT_LEDGER_ROWS", "600"))
# How often the jobs on one ledger are killed: so often that they have not finished by then.
KILLS_OF_A_LEDGER = 50
JOB = (
    ROWS % COUNT
    + """
import os, sys
from concurrent.futures import ThreadPoolExecutor
from dealkit import Client, DealkitError, LedgerError
way, ledger = sys.argv[1], os.environ["DEALKIT_LEDGER"]
agents = Client(max_retries=1).agents

def once(row):
    try:
        return agents.create_once(key=row["email"], keys="email", ledger=ledger, **row).outcome
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
WAYS = ["ordered", "as completed", "one by one"]


class Ledger:
    """The ledger of some jobs, and the service that they send to."""

    def __init__(self, folder: Path, stack: ExitStack, chance: random.Random, has_database: bool) -> None:
        self.sandbox = stack.enter_context(Sandbox())
        self.chance = chance
        self.database: Postgres | None = None
        # The status of the service's latest response to each row.
        self.answers: dict[str, int | None] = {}
        self.name = str(folder / f"{self.sandbox.url.rpartition(':')[2]}.ledger")
        if has_database:
            self.database = stack.enter_context(Postgres(required_programs(), "sesame", has_standby=True))
            self.name = self.database.url
            init(self.name)

    def read(self) -> dict[str, tuple[str, str]]:
        """The state and the agent's id of each e-mail address, read according to sdk/contract/ledger.md and without
        dealkit's own reader."""
        # Of the entries of a key, the last one counts.
        columns = (
            "SELECT {0}(salt{1}), {0}(key{1}), state, coalesce(agent_id, '') FROM {2}creates, {2}ledger ORDER BY entry"
        )
        found: list[Any] = []
        if self.database is not None:
            found = self.database.query(columns.format("encode", ", 'hex'", "dealkit."))
        elif os.path.exists(self.name):
            with closing(sqlite3.connect(self.name)) as database:
                found = database.execute(columns.format("hex", "", "")).fetchall()
                assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        known = {bytes.fromhex(key): (state, id) for _, key, state, id in found}
        salt = bytes.fromhex(found[0][0]) if found else b""
        emails = [email(row(n)) for n in range(COUNT)]
        keys = {hashlib.blake2b(salt + of.encode(), digest_size=16).digest(): of for of in emails}
        return {keys[key]: said for key, said in known.items()}

    def check(self) -> dict[str, str]:
        """The service's agents, by e-mail address. Whenever jobs are killed, none exists twice, the ledger has all of
        them, as created or unresolved, and those that it has as created are there."""
        # The sandbox keeps the latest 1,000, and fewer arrive in between.
        for request in self.sandbox.requests:
            self.answers[json.loads(request.body)["email"]] = request.status
        agents = self.sandbox.agents
        found = {agent.email: agent.id for agent in agents}
        assert len(found) == len(agents), "an agent is there twice"
        said = self.read()
        for address, id in found.items():
            state, agent_id = said[address]
            assert state in ("sending", "unknown") or (state == "succeeded" and agent_id in (id, "")), said[address]
        assert {address for address, (state, _) in said.items() if state == "succeeded"} <= found.keys()
        return found

    def kill(self, counts: Counter[str]) -> None:
        """Runs one job or two at the same time, and kills them at random moments."""
        env = {"DEALKIT_LEDGER": self.name}
        ways = [self.chance.choice(WAYS) for _ in range(self.chance.choice([1, 2]))]
        jobs = [python(JOB, way, url=self.sandbox.url, flags=(), env=env) for way in ways]
        for job in jobs:
            assert next_line(job) == "begun\n"
        # So long that most have begun to send: it takes longer to open a ledger in a database.
        time.sleep(self.chance.uniform(0, 0.15 if self.database is None else 1))
        if self.database is not None:
            self.fail(self.database, counts)
        for job in jobs:
            job.kill()
            time.sleep(self.chance.uniform(0, 0.1))
        for way, job in zip(ways, jobs, strict=True):
            with job:
                _, told = job.communicate(timeout=300)
            assert told == "" and job.returncode in (0, 3, -signal.SIGKILL), told
            counts[{0: "finished", 3: "stopped"}.get(job.returncode, "kills")] += 1
            counts[way] += 1
        counts["side by side"] += len(jobs) == 2

    def fail(self, database: Postgres, counts: Counter[str]) -> None:
        """The database may fail under the jobs, for good half-way."""
        if counts["kills"] * 2 >= min(KILLS, KILLS_OF_A_LEDGER) and not counts["failed over"]:
            database.fail_over()
            counts["failed over"] += 1
        elif self.chance.random() < 0.2:
            database.stop()
            time.sleep(self.chance.uniform(0, 0.5))
            database.start()
            counts["stopped and restarted"] += 1
        else:
            return
        # A job waits for its database for a while, to record what it knows.
        time.sleep(self.chance.uniform(0, 1))

    def expire(self) -> None:
        """What a minute does to the leases of processes that were killed: nobody renews them."""
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
def test_jobs_that_are_killed_lose_and_repeat_nothing(store: str, tmp_path: Path, chance: random.Random) -> None:
    if store == "PostgreSQL" and must_skip():
        pytest.skip(f"needs {NEEDED}")
    total: Counter[str] = Counter()
    while total["kills"] < KILLS:
        assert total["ledgers"] < 20 + KILLS, "the jobs end before they are killed"
        with ExitStack() as stack:
            ledger = Ledger(tmp_path, stack, chance, store == "PostgreSQL")
            total += killed(ledger, min(KILLS - total["kills"], KILLS_OF_A_LEDGER))
            print(f"{store}: {dict(total)}", flush=True)


def has_connections(sandbox: Sandbox) -> bool:
    """Returns whether the sandbox still has connections, even of processes that have ended."""
    if sys.platform != "linux":
        time.sleep(0.5)
        return False
    port = int(sandbox.url.rpartition(":")[2])
    with open("/proc/net/tcp") as table:
        found = [line.split() for line in table][1:]
    # The local address, and the states ESTABLISHED and CLOSE_WAIT.
    return any(int(row[1].rpartition(":")[2], 16) == port and row[3] in ("01", "08") for row in found)


def killed(ledger: Ledger, kills: int) -> Counter[str]:
    """Kills jobs this many times, then runs one to its end. Returns the counts."""
    for fault in FAULTS:
        ledger.sandbox.fail_next(method="POST", times=None, seed=ledger.chance.randrange(1 << 32), **fault)
    counts: Counter[str] = Counter(ledgers=1, rows=COUNT)
    while counts["kills"] < kills and not counts["finished"]:
        ledger.kill(counts)
        ledger.check()
        if ledger.chance.random() < 0.5:
            ledger.expire()
    ledger.sandbox.clear_faults()

    ledger.expire()
    with Client(base_url=ledger.sandbox.url, service_key=ledger.sandbox.service_key) as client:
        creations = [*client.agents.create_many(rows(COUNT), ledger=ledger.name, key="email", on_error="return")]
    assert [creation.index for creation in creations] == [*range(COUNT)]
    outcomes = Counter(creation.outcome for creation in creations)
    others = {str(creation.error) for creation in creations if creation.outcome not in ("succeeded", "unknown")}
    assert not others, others
    # Unresolved rows are looked up and resolved, and the next run sends those that have no agent.
    until(
        lambda: not has_connections(ledger.sandbox)
    )  # The service may still be handling requests of jobs that were killed.
    agents = ledger.check()
    doubtful = [creation for creation in creations if creation.outcome == "unknown"]
    assert all(creation.from_ledger for creation in doubtful)
    said = ledger.read()
    assert len([key for key, (state, _) in said.items() if state == "sending"]) <= 16 * (
        counts["kills"] + counts["stopped"]
    )
    for key in (key for key, (state, _) in said.items() if state == "unknown"):
        assert ledger.answers[key] != 429, "a row is unresolved of which the service has said that it did nothing"
    found = {creation.key or "": agents.get(creation.key or "") for creation in doubtful}
    resolve(ledger.name, found)
    missing = [key for key, agent_id in found.items() if agent_id is None]
    with Client(base_url=ledger.sandbox.url, service_key=ledger.sandbox.service_key) as client:
        resumed = [*client.agents.create_many(rows(COUNT), ledger=ledger.name, key="email")]
    assert [creation.key for creation in resumed if not creation.from_ledger] == missing
    assert all(creation.agent or creation.from_ledger for creation in resumed)

    agents = {agent.email: agent.id for agent in ledger.sandbox.agents}
    assert len(agents) == len(ledger.sandbox.agents), "an agent is there twice"
    assert agents.keys() == {email(row) for row in rows(COUNT)}, "an agent is missing"
    for creation in (*creations, *resumed):
        if creation.outcome == "succeeded":
            assert creation.agent_id in (None, agents[creation.key or ""])
    there = len(doubtful) - len(missing)
    return counts + Counter({"created": outcomes["succeeded"], "unresolved": len(doubtful), "of which there": there})
