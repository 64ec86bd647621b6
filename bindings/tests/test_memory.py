"""Memory stays flat, and no object of dealkit's waits for the garbage collector.

In processes of their own, so that leftovers of other tests do not count. Both tests together take some 15 seconds.
"""

from __future__ import annotations

import sys

import pytest
from processes import ended, python

from dealkit.testing import Sandbox

# How much a process may grow from the end of the warm-up to the end of all rounds. A leak of 64 bytes per
# decode would be 2.7 MiB, one of a single Deal per call more than 15 MiB.
MOST_GROWTH = 2 << 20

MEASURE = """
import asyncio, gc, os, sys, time
from dealkit import Agent, AsyncClient, Client, Deal, DealkitError, DecodeError, NotFoundError, ValidationError

def rss():
    gc.collect()
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

def measure(work, rounds, warm_up):
    for _ in range(warm_up):
        work()
    before = rss()
    for _ in range(rounds):
        work()
    return rss() - before

DEAL = b'''{"id": "d_1", "status": "CLOSED", "expiry_date": "2026-03-31", "created_at": "2025-11-03T14:25:09.120456789Z",
"application": {"id": "a", "requested_amount": 7500.00, "offers": [{"percent_of_commission": 10.10, "later": [1.5]}]},
"contacts": [{"type": "BUYER", "contactSchemaId": "c", "fields": [{"label": "Name", "value": "Ada"}]}],
"metadata": {"office": "Burlington"}, "unknown": {"a": [1, 2.50, null]}}'''
BROKEN = DEAL.replace(b"7500.00", b'"soon"')
"""

DECODES = """
def decode():
    for _ in range(90):
        deal = Deal.from_json(DEAL)
    deal.to_json(), deal.to_dict(), repr(deal), hash(deal), deal == deal, deal.extra
    for _ in range(10):
        try:
            Deal.from_json(BROKEN)
        except DecodeError as error:
            error.path, error.body
# 100 decodes each.
print(measure(decode, 450, 50))
"""

CALLS = """
client, async_client = Client(), AsyncClient()
ids = [f"d_{n % 3 + 1}" for n in range(24)] + ["nothing"]

def fails(call):
    try:
        call()
    except (NotFoundError, ValidationError):
        return
    raise AssertionError

async def await_calls():
    await asyncio.gather(*(async_client.deals.retrieve(id) for id in ids), return_exceptions=True)
    async for _ in async_client.deals.retrieve_many(ids, on_error="return"):
        pass
    task = asyncio.create_task(async_client.deals.retrieve("d_1"))
    await asyncio.sleep(0)
    task.cancel()

def calls():
    for id in ids[:24]:
        client.deals.retrieve(id)
    fails(lambda: client.deals.retrieve("nothing"))
    fails(lambda: client.agents.create(email="", first_name="", last_name="", profile={}))
    for _ in client.deals.retrieve_many(ids, on_error="return"):
        pass
    next(client.deals.retrieve_many(ids))
    asyncio.run(await_calls())
# 103 calls each, of all kinds.
print(measure(calls, 40, 10))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("work", [DECODES, CALLS], ids=["50,000 decodes", "5,000 calls"])
def test_memory_stays_flat(work: str, dealkit_sandbox: Sandbox) -> None:
    shown = ended(python(MEASURE + work, flags=(), url=dealkit_sandbox.url), 120)
    print(f"grown by {int(shown) >> 10} KiB")
    assert int(shown) < MOST_GROWTH
