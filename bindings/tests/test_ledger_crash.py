"""Jobs that are killed (SIGKILL) at random moments, and run again, against a sandbox that loses responses, fails and
delays: in the end no agent exists twice, none is missing, and none is forgotten.

`make soak` kills 200 times, in jobs of 2,000 rows; `make test` a few times.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import random
import signal
import sqlite3
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from conftest import ROWS, email, row, rows
from processes import python

from dealkit import Client
from dealkit.ledger import settle
from dealkit.testing import Sandbox

KILLS = int(os.environ.get("DEALKIT_LEDGER_KILLS", "8"))
COUNT = int(os.environ.get("DEALKIT_LEDGER_ROWS", "240"))
SEED = int(os.environ.get("DEALKIT_LEDGER_SEED", str(random.randrange(1 << 32))))
# How often one job is killed: so often that it has not finished by then.
KILLS_OF_A_JOB = 40
JOB = (
    ROWS % COUNT
    + """
import sys
from dealkit import Client
path, ordered = sys.argv[1], sys.argv[2] == "ordered"
client = Client(max_retries=1)
print("begun", flush=True)
many = client.agents.create_many(
    rows, ledger=path, key="email", on_error="return", ordered=ordered, concurrency=8
)
for creation in many:
    pass
"""
)


def read(path: Path) -> dict[str, tuple[str, str | None]]:
    """The state and the agent's id of each e-mail address in a ledger, read according to sdk/contract/ledger.md and
    without dealkit's own reader."""
    if not path.exists():
        return {}
    with closing(sqlite3.connect(path)) as database:
        ((salt,),) = database.execute("SELECT salt FROM ledger")
        found = {key: (state, id) for key, state, id in database.execute("SELECT key, state, agent_id FROM creates")}
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    keys = {email(row(n)): hmac.digest(salt, email(row(n)).encode(), hashlib.sha256)[:16] for n in range(COUNT)}
    assert found.keys() <= {*keys.values()}
    return {address: found[key] for address, key in keys.items() if key in found}


def kill(url: str, path: Path, chance: random.Random) -> bool:
    """Runs one job or two at the same time, and kills one at a random moment. Returns whether it was still unfinished."""
    arguments = str(path), chance.choice(["ordered", "as completed"])
    jobs = [python(JOB, *arguments, url=url, flags=()) for _ in range(chance.choice([1, 1, 2]))]
    with jobs[0] as job:
        line = "" if job.stdout is None else job.stdout.readline()
        time.sleep(chance.uniform(0, 0.15) if line else 0)
        job.kill()
        _, told = job.communicate()
    for other in jobs[1:]:
        with other:
            if chance.random() < 0.5:
                other.kill()
            told += other.communicate()[1]
            assert other.returncode in (0, -signal.SIGKILL)
    assert told == "", told
    assert job.returncode in (0, -signal.SIGKILL)
    return job.returncode != 0


def test_jobs_that_are_killed_lose_and_repeat_nothing(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    print(f"DEALKIT_LEDGER_SEED={SEED}")
    total: Counter[str] = Counter()
    while total["kills"] < KILLS:
        with Sandbox() as sandbox:
            path = tmp_path / f"{total['jobs']}.ledger"
            total += killed(sandbox, path, min(KILLS - total["kills"], KILLS_OF_A_JOB), chance)
    print(dict(total))


def created(sandbox: Sandbox) -> dict[str, str]:
    """The agents that the service has, by e-mail address."""
    agents = sandbox.agents
    found = {agent.email: agent.id for agent in agents}
    assert len(found) == len(agents), "an agent is there twice"
    return found


def killed(sandbox: Sandbox, path: Path, kills: int, chance: random.Random) -> Counter[str]:
    """Kills a job this many times, then runs it to its end. Returns the counts."""
    faults: list[dict[str, Any]] = [
        {"act_then_reset": True, "probability": 0.02},
        {"status": 503, "probability": 0.02},
        {"status": 429, "retry_after": 0, "probability": 0.01},
        {"cut": "before-head", "probability": 0.01},
        {"cut": "after-bytes:10", "probability": 0.01},
        {"delay": 0.01, "probability": 0.3},
    ]
    for fault in faults:
        sandbox.fail_next(method="POST", times=None, seed=chance.randrange(1 << 32), **fault)
    done = 0
    while done < kills and kill(sandbox.url, path, chance):
        done += 1
        # Whenever it is killed, the ledger has all agents of the service, as created or in doubt, and none exists twice.
        agents = created(sandbox)
        said = read(path)
        for address, id in agents.items():
            state, agent_id = said[address]
            assert state in ("sending", "unknown") or (state == "succeeded" and agent_id in (id, None)), said[address]
    sandbox.clear_faults()

    client = Client(base_url=sandbox.url, service_key=sandbox.service_key)
    creations = [*client.agents.create_many(rows(COUNT), ledger=path, key="email", on_error="return")]
    assert [creation.index for creation in creations] == [*range(COUNT)]
    outcomes = Counter(creation.outcome for creation in creations)
    others = {str(creation.error) for creation in creations if creation.outcome not in ("succeeded", "unknown")}
    assert not others, others
    # Rows in doubt are looked up and settled, and the next run sends those that have no agent.
    time.sleep(0.5)  # The service may still be handling the last requests.
    agents = created(sandbox)
    doubtful = [creation for creation in creations if creation.outcome == "unknown"]
    assert all(creation.recorded for creation in doubtful)
    found = {creation.key or "": agents.get(creation.key or "") for creation in doubtful}
    settle(path, found)
    missing = [key for key, agent_id in found.items() if agent_id is None]
    resumed = [*client.agents.create_many(rows(COUNT), ledger=path, key="email")]
    assert [creation.key for creation in resumed if not creation.recorded] == missing
    assert all(creation.agent or creation.recorded for creation in resumed)

    agents = created(sandbox)
    assert agents.keys() == {email(row) for row in rows(COUNT)}, "an agent is missing"
    for creation in (*creations, *resumed):
        if creation.outcome == "succeeded":
            assert creation.agent_id in (None, agents[creation.key or ""])
    return Counter(
        jobs=1,
        kills=done,
        rows=COUNT,
        created=outcomes["succeeded"],
        in_doubt=len(doubtful),
        of_which_there=len(doubtful) - len(missing),
        sent_again=len(missing),
        bytes=path.stat().st_size,
    )


if not hasattr(os, "fork"):  # SIGKILL exists only on Unix.
    pytestmark = pytest.mark.skip("no SIGKILL")
