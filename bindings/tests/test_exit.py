"""The interpreter exits while entry points of the native module are running, called directly or through the package.

CPython ends daemon threads at any point. Before 3.14, that aborts the process (SIGABRT, "FATAL: exception not rethrown") if a
thread has a native frame on its stack. It depends on timing: `make soak` tries each case several hundred times, `make test` once.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import entries
import pytest
from conftest import seed_script
from processes import Peer, start_python, wait_for_success

from dealkit.testing import Sandbox

# Number of tries of each case.
TRIES = int(os.environ.get("DEALKIT_EXIT_TRIES", "1"))

TESTS = str(Path(__file__).parent)

# A daemon thread repeats the case until the program ends.
END = """
import sys, threading, time
def again(work):
    while True:
        try:
            work()
        except Exception:
            pass
for work in works:
    threading.Thread(target=again, args=(work,), daemon=True).start()
time.sleep(random.uniform(0.02, 0.08))
"""

ENTRIES = """
import asyncio, sys
sys.path.insert(0, sys.argv[1])
import entries
from dealkit.testing import Sandbox
sandbox = Sandbox()
cases = {**entries.model_entries(), **entries.value_entries(), **entries.call_entries(sandbox, asyncio.new_event_loop()), **entries.slow_call_entries(sys.argv[2])}
names = sys.argv[3].split()
found = [call for name, calls in cases.items() if name.partition(".")[0] in names for call in calls]
works = random.sample(found, min(len(found), 6))  # More threads would only wait for each other.
"""

# Typical uses of the package, each on its own threads.
USES = {
    "repr, hash and equality": "works = [lambda: (repr(deal), hash(deal), deal == Deal.from_json(entries.DEAL))]",
    "pickle": "import pickle; works = [lambda: pickle.loads(pickle.dumps(deal))]",
    "a constructor": "works = [lambda: Deal(id='d', metadata={'a': 'b'}, created_at=deal.created_at, extra={'a': [1]})]",
    "a client that is made and closed": "works = [lambda: Client().close()]",
    "a create": "works = [lambda: client.agents.create(**entries.FIELDS)]",
    "a retrieve that fails": "works = [lambda: client.deals.retrieve('nothing')]",
    "a raw response": "works = [lambda: client.with_raw_response.deals.retrieve('d_1').headers]",
    "many": "works = [lambda: list(client.deals.retrieve_many(['d_1', 'nothing'], on_error='return'))]",
    "many creates": "works = [lambda: list(client.agents.create_many([entries.FIELDS, 5], on_error='return'))]",
    "many creates, cancelled": """
works = [lambda: client.agents.create_many([entries.FIELDS] * 20, concurrency=4).cancel(), lambda: cancelled(client)]
def cancelled(client):
    creations = client.agents.create_many([entries.FIELDS] * 20, concurrency=4)
    next(creations)
    creations.cancel()""",
    "asyncio": "works = [lambda: asyncio.run(AsyncClient().deals.retrieve('d_1'))]",
    "logging": """
import logging
logging.basicConfig(level=logging.DEBUG, stream=open('/dev/null', 'w'))
works = [lambda: client.deals.retrieve('d_1')] * 4""",
    "a progress callable": """
works = [lambda: list(client.deals.retrieve_many(['d_1'] * 9, progress=lambda done, total: sum(range(999))))]""",
    "finalisers in Python": """
class Cycle:
    def __init__(self): self.me = self
    def __del__(self): sum(range(999))
works = [lambda: (Cycle(), Deal.from_json(entries.DEAL))] * 2""",
    "everything at once": """
works = [
    deal.to_json, deal.__repr__, deal.to_dict, lambda: (deal.extra, agent.profile.client_metadata),
    lambda: Deal.from_json(entries.DEAL), lambda: Deal.from_json('{'), lambda: Client(service_key='a b'),
    lambda: client.deals.retrieve('d_1'), lambda: client.agents.create(email='no', first_name='', last_name='', profile={}),
]""",
}

USE = """
import asyncio, sys
sys.path.insert(0, sys.argv[1])
import entries
from dealkit import Agent, AsyncClient, Client, Deal
deal, agent, client = Deal.from_json(entries.DEAL), Agent.from_json(entries.AGENT), Client()
"""

# The classes and functions of the native module. Each process uses an eighth of them.
NAMES = sorted({name.partition(".")[0] for name in entries.names() - entries.SEPARATE})


@pytest.mark.parametrize("names", [NAMES[at::8] for at in range(8)], ids=lambda names: names[0])
def test_exit_during_entry_points(names: list[str], seeded_random: Random) -> None:
    with Peer() as tarpit:
        for _ in range(TRIES):
            wait_for_success(
                start_python(
                    seed_script(seeded_random) + ENTRIES + END,
                    TESTS,
                    tarpit.url,
                    " ".join(names),
                    flags=("-W", "error"),
                )
            )


@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
def test_exit_during_typical_uses(use: str, dealkit_sandbox: Sandbox, seeded_random: Random) -> None:
    for _ in range(TRIES):
        wait_for_success(
            start_python(
                seed_script(seeded_random) + USE + use + END, TESTS, url=dealkit_sandbox.url, flags=("-W", "error")
            )
        )
