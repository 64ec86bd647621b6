"""Reading in many threads at once: what a thread keeps from document to document is its own."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from conftest import exact
from processes import ended, python

from dealkit import Deal

THREADS = 8
DEALS = 40
ROUNDS = 15


MEASURE = """
import gc, os, threading
from dealkit import Deal

DEAL = b'{"id": "d", "status": "CLOSED", "contacts": [%s], "sides": [%s]}' % (
    b",".join(b'{"type": "w%d"}' % n for n in range(500)),
    b",".join(b'{"agent_units": 1.%d}' % n for n in range(500)),
)

def rss():
    gc.collect()
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

def run(threads):
    for _ in range(threads):
        thread = threading.Thread(target=Deal.from_json, args=(DEAL,))
        thread.start()
        thread.join()

run(50)
before = rss()
run(300)
print(rss() - before)
"""


@pytest.fixture(autouse=True)
def hand_over_often() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def document(thread: int, number: int) -> bytes:
    """Words and numbers of the thread's own, more than are kept, and those that all threads share."""
    words = [f"w{thread}-{number}-{n}" for n in range(30)] + ["BUYER", "SELLER", "é", ""]
    sides = [f'{{"gross_commission": {number}.{thread}{n:02}, "agent_units": 0.5}}' for n in range(30)]
    contacts = [{"type": word, "fields": [{"label": word}]} for word in words]
    deal = {"id": f"d-{thread}-{number}", "contacts": contacts, "metadata": {word: word for word in words}}
    return (json.dumps(deal)[:-1] + f', "sides": [{", ".join(sides)}]}}').encode()


def test_threads_read_what_is_theirs() -> None:
    start = Barrier(THREADS)

    def read(thread: int) -> list[Deal]:
        documents = [document(thread, number) for number in range(DEALS)]
        start.wait()
        deals: list[Deal] = []
        for _ in range(ROUNDS):
            deals = []
            for text in documents:
                deal = Deal.from_json(text)
                written = exact(deal.to_json())
                assert all(written[name] == value for name, value in exact(text).items())
                deals.append(deal)
        return deals

    with ThreadPoolExecutor(THREADS) as pool:
        # They outlive their threads, and what those have kept.
        deals = list(pool.map(read, range(THREADS)))
    for thread, of_thread in enumerate(deals):
        for number, deal in enumerate(of_thread):
            assert deal == Deal.from_json(document(thread, number))


def test_threads_leave_nothing_behind() -> None:
    # What a thread keeps is some 80 KiB.
    assert int(ended(python(MEASURE))) < 300 * 16 << 10
