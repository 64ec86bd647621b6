"""Memory stays flat, and no object of dealkit's waits for the garbage collector.

In processes of their own, so that leftovers of other tests do not count. Both tests together take some 15 seconds.
"""

from __future__ import annotations

import ctypes

import pytest
from processes import start_python, wait_for_success

from dealkit.testing import Sandbox

# The most bytes by which the allocated memory may grow between the warm-up and the end of all rounds. A leak of 64 bytes per
# decode would be 2.7 MiB, one of a single Deal per call more than 15 MiB.
MOST_GROWTH = 2 << 20

# Allocated bytes are counted, because the memory that a process takes also depends on when its threads run. With PYTHONMALLOC,
# Python's own objects are among them.
COUNTED = {"PYTHONMALLOC": "malloc"}
needs_counts = pytest.mark.skipif(
    not hasattr(ctypes.pythonapi, "mallinfo2"), reason="needs glibc 2.33 or newer, which counts allocated bytes"
)

MEASURE = """
import asyncio, ctypes, gc
from dealkit import Agent, AsyncClient, Client, Deal, DealkitError, DecodeError, NotFoundError, ValidationError

class Counts(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
    )]

ctypes.pythonapi.mallinfo2.restype = Counts

def allocated():
    gc.collect()
    counts = ctypes.pythonapi.mallinfo2()
    return counts.uordblks + counts.hblkhd

def measure(work, rounds, warm_up):
    for _ in range(warm_up):
        work()
    before = allocated()
    for _ in range(rounds):
        work()
    return allocated() - before

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


@needs_counts
@pytest.mark.parametrize("work", [DECODES, CALLS], ids=["50,000 decodes", "5,000 calls"])
def test_memory_stays_flat(work: str, dealkit_sandbox: Sandbox) -> None:
    shown = wait_for_success(start_python(MEASURE + work, flags=(), url=dealkit_sandbox.url, env=COUNTED), 600)
    print(f"grown by {int(shown) >> 10} KiB")
    assert int(shown) < MOST_GROWTH
