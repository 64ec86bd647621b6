"""Processes of a service that race for the same keys and are killed (SIGKILL) at random moments, against a sandbox that loses
responses, fails and delays: no key ever has two agents, and in the end each has one.

`make soak` kills more often.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest
from processes import python
from test_ledger_crash import FAULTS

from dealkit.ledger import settle
from dealkit.testing import Sandbox

KILLS = int(os.environ.get("DEALKIT_ONCE_KILLS", "3"))
COUNT = 30
SERVICE = Path(__file__).parents[2] / "examples" / "python" / "fastapi_service.py"
# One process of the service, and those who call it, in an order that both processes share.
WORKER = f"""
import pathlib, random, runpy, sys, time
from concurrent.futures import ThreadPoolExecutor
from fastapi.testclient import TestClient

keys = [f"agent{{n}}@example.com" for n in range({COUNT})]
random.Random(sys.argv[2]).shuffle(keys)
with TestClient(runpy.run_path(sys.argv[1])["app"]) as client, ThreadPoolExecutor(4) as pool:
    print("begun", flush=True)
    while not pathlib.Path(sys.argv[3]).exists():
        time.sleep(0.001)

    def put(key):
        agent = {{"email": key, "first_name": "Ada", "last_name": "Lovelace", "profile": {{}}}}
        answer = client.put(f"/agents/{{key}}", json=agent)
        return f"{{key}} {{answer.status_code}} {{answer.json().get('id')}}"

    for line in pool.map(put, keys):
        print(line, flush=True)
"""


def race(sandbox: Sandbox, path: Path, chance: random.Random, kills: bool) -> tuple[list[tuple[str, str, str]], int]:
    """Two processes of the service at the same time; returns what they answered, and how many were killed."""
    order = str(chance.random())
    env = {"DEALKIT_LEDGER": str(path)}
    go = path.with_name(order)
    workers = [python(WORKER, str(SERVICE), order, str(go), url=sandbox.url, flags=(), env=env) for _ in range(2)]
    for worker in workers:
        assert worker.stdout is not None and worker.stdout.readline() == "begun\n"
    go.touch()
    if kills:
        time.sleep(chance.uniform(0.01, 0.3))
        chance.choice(workers).kill()
        time.sleep(chance.uniform(0, 0.1))
        chance.choice(workers).kill()
    answers, killed = [], 0
    for worker in workers:
        with worker:
            shown, told = worker.communicate(timeout=60)
        assert worker.returncode in (0, -signal.SIGKILL) and "Traceback" not in told, told
        killed += worker.returncode != 0
        answers += [tuple(line.split(" ")) for line in shown.splitlines(keepends=True) if line.endswith("\n")]
    return [(key, status, id.strip()) for key, status, id in answers], killed


@pytest.mark.skipif(not hasattr(os, "fork"), reason="SIGKILL exists only on Unix")
def test_a_key_has_one_agent_however_many_processes_create_it_and_are_killed(tmp_path: Path) -> None:
    seed = int(os.environ.get("DEALKIT_LEDGER_SEED", str(random.randrange(1 << 32))))
    print(f"DEALKIT_LEDGER_SEED={seed}")
    chance, total = random.Random(seed), Counter[str]()
    while total["kills"] < KILLS:
        path = tmp_path / f"{total['ledgers']}.ledger"
        with Sandbox() as sandbox:
            for fault in FAULTS:
                sandbox.fail_next(method="POST", times=None, seed=chance.randrange(1 << 32), **fault)
            enough = min(KILLS, total["kills"] + 10)
            while total["kills"] < enough:
                answers, killed = race(sandbox, path, chance, kills=True)
                total["kills"] += killed
                total.update(status for _, status, _ in answers)
                check(sandbox, answers)
            sandbox.clear_faults()
            answers, _ = race(sandbox, path, chance, kills=False)
            # Who is in doubt is looked up and settled; then all of them are there, once.
            time.sleep(0.5)  # The service may still be handling the last requests.
            agents = check(sandbox, answers)
            settle(path, {key: agents.get(key) for key, status, _ in answers if status == "500"})
            answers, _ = race(sandbox, path, chance, kills=False)
            assert {status for _, status, _ in answers} <= {"200", "201", "409"}
            assert len(check(sandbox, answers)) == COUNT
        total["ledgers"] += 1
    print(dict(total))


def check(sandbox: Sandbox, answers: list[tuple[str, str, str]]) -> dict[str, str]:
    """The agents that the service has, each once, and as the callers were told."""
    agents = {agent.email: agent.id for agent in sandbox.agents}
    assert len(agents) == len(sandbox.agents), "an agent is there twice"
    for key, status, id in answers:
        assert status not in ("200", "201") or agents[key] == id or id == "None"
    return agents
