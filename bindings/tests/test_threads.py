"""Many threads: each has its own caches, and all can share one model and one client."""

from __future__ import annotations

import copy
import json
import pickle
import sys
import sysconfig
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from conftest import parse_exact
from processes import start_python, wait_for_success

from dealkit import Client, Deal, NotFoundError, ValidationError
from dealkit.testing import Sandbox

THREADS = 8
DEALS = 20
ROUNDS = 10


@pytest.fixture(autouse=True)
def switch_threads_often() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def document(thread: int, number: int) -> bytes:
    """Makes a document with more strings and numbers than are cached. Other threads read few of them."""
    words = [f"w{thread}-{number}-{n}" for n in range(30)] + ["BUYER", "SELLER", "é", ""]
    sides = [f'{{"gross_commission": {number}.{thread}{n:02}, "agent_units": 0.5}}' for n in range(30)]
    contacts = [{"type": word, "fields": [{"label": word}]} for word in words]
    deal = {"id": f"d-{thread}-{number}", "contacts": contacts, "metadata": {word: word for word in words}}
    return (json.dumps(deal)[:-1] + f', "sides": [{", ".join(sides)}]}}').encode()


def run_in_threads(task: Callable[[int], Any]) -> list[Any]:
    """Runs a task in all threads, starting at the same time, and returns the results."""
    start = Barrier(THREADS)

    def run(thread: int) -> Any:
        start.wait()
        return task(thread)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(run, range(THREADS)))


def test_threads_read_their_own_documents() -> None:
    def read(thread: int) -> list[Deal]:
        documents = [document(thread, number) for number in range(DEALS)]
        deals: list[Deal] = []
        for _ in range(ROUNDS):
            deals = []
            for text in documents:
                deal = Deal.from_json(text)
                written = parse_exact(deal.to_json())
                assert all(written[name] == value for name, value in parse_exact(text).items())
                deals.append(deal)
        return deals

    # The deals outlive their threads and the threads' caches.
    for thread, of_thread in enumerate(run_in_threads(read)):
        for number, deal in enumerate(of_thread):
            assert deal == Deal.from_json(document(thread, number))


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this Python always has a GIL")
def test_free_threaded_python_stays_free_threaded() -> None:
    # Importing a module enables the GIL, unless the module declares that it does not need the GIL.
    enabled = wait_for_success(start_python("import dealkit, sys; print(sys._is_gil_enabled())"))
    assert enabled.strip() == "False"


def test_threads_share_one_model() -> None:
    text = document(0, 0)
    deal = Deal.from_json(text)
    pickled = pickle.dumps(deal)
    fields = [name for name in dir(deal) if not name.startswith("_") and not callable(getattr(deal, name))]

    def look(thread: int) -> Counter[str]:
        seen: Counter[str] = Counter()
        for round_ in range(20):
            # Also a new model in each round: the threads race to create the objects that are made on first access.
            for model in (deal, shared[round_]):
                seen[repr([getattr(model, name) for name in fields])] += 1
                seen[model.to_json()] += 1
                seen[repr(model.to_dict())] += 1
                seen[str(hash(model) == hash(deal) and model == deal)] += 1
                seen[repr(copy.deepcopy(model) == model and pickle.loads(pickled) == model)] += 1
                seen[model.replace(status="CLOSED").to_json()] += 1
        return seen

    shared = [Deal.from_json(text) for _ in range(20)]
    first, *others = run_in_threads(look)
    assert all(other == first for other in others)
    # Five distinct strings: the fields, the JSON, the dict, the JSON of the replaced model, and True, which counts twice.
    assert len(first) == 5
    assert first["True"] == 80


def test_threads_share_one_client() -> None:
    deals = [{"id": f"d_{n}", "status": "CLOSED", "metadata": {"n": str(n)}} for n in range(THREADS)]
    with Sandbox(deals=deals) as sandbox, Client(base_url=sandbox.url, service_key=sandbox.service_key) as client:

        def call(thread: int) -> list[str]:
            created = []
            for n in range(25):
                assert client.deals.retrieve(f"d_{thread}").metadata == {"n": str(thread)}
                with pytest.raises(NotFoundError) as not_found:
                    client.with_options(max_retries=0).deals.retrieve(f"no_{thread}")
                assert not_found.value.id == f"no_{thread}"
                with pytest.raises(ValidationError):
                    client.agents.create(email="no", first_name="", last_name="L", profile={})
                agent = client.agents.create(
                    email=f"a{thread}.{n}@example.com", first_name="Ada", last_name="Lovelace", profile={"tier": "A"}
                )
                assert agent.email == f"a{thread}.{n}@example.com"
                created.append(agent.id)
                if n % 10 == 0:
                    many = client.deals.retrieve_many([f"d_{k}" for k in range(THREADS)], concurrency=3)
                    assert [deal.id for deal in many] == [f"d_{k}" for k in range(THREADS)]
            return created

        created = [agent for of_thread in run_in_threads(call) for agent in of_thread]
        assert len(set(created)) == len(created) == len(sandbox.agents) == THREADS * 25
