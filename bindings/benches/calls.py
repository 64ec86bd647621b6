"""Calls on loopback, one at a time and many in flight, compared with other libraries.

CPU time is the time of all threads of this process. The service, bare hyper with fixed responses, is another process.

Usage: python calls.py path/to/service [--rounds N] [--only NAME] [--results FILE]
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import documents
import httpx
import models
import msgspec
from processes import KEY, fixed_service, memory
from pyreqwest.client import ClientBuilder, SyncClientBuilder
from rounds import Bench, MeasuredTask, Table, make_parser, point

import dealkit

UNIT = "µs CPU a call"
HEADERS = {"x-service-key": KEY}
DEAL = "/v1/deals/d_1"
IN_FLIGHT = 64
Call = Callable[[], Any]
AsyncCall = Callable[[], Awaitable[Any]]


def msgspec_deal(status: int, body: bytes) -> None:
    """Reads the response with the checks of a careful caller."""
    assert status == 200, f"the service responded {status}"
    assert len(models.decode_msgspec(body).contacts) == documents.TYPICAL


def pydantic_deal(status: int, body: bytes) -> None:
    assert status == 200, f"the service responded {status}"
    models.decode_pydantic(body)


def dealkit_deal(deal: dealkit.Deal) -> None:
    assert len(deal.contacts) == documents.TYPICAL


def cpu_of_a_call(calls: int, work: Call) -> MeasuredTask:
    """Returns a contender's task, which makes this many calls."""

    def run() -> float:
        start = time.process_time()
        work()
        return (time.process_time() - start) / calls

    return run


def make_sync_task(call: Call, calls: int = 100) -> MeasuredTask:
    def work() -> None:
        for _ in range(calls):
            call()

    return cpu_of_a_call(calls, work)


def make_async_task(loop: asyncio.AbstractEventLoop, call: AsyncCall, in_flight: int, waves: int) -> MeasuredTask:
    async def all_waves() -> None:
        for _ in range(waves):
            await asyncio.gather(*(call() for _ in range(in_flight)))

    return cpu_of_a_call(waves * in_flight, lambda: loop.run_until_complete(all_waves()))


def make_many_task(client: dealkit.Client, count: int, in_flight: int = IN_FLIGHT) -> MeasuredTask:
    def work() -> None:
        seen = 0
        for deal in client.deals.retrieve_many((f"d_{n}" for n in range(count)), concurrency=in_flight):
            dealkit_deal(deal)
            seen += 1
        assert seen == count

    return cpu_of_a_call(count, work)


def make_create_task(client: dealkit.Client, count: int, in_flight: int) -> MeasuredTask:
    def work() -> None:
        rows = (documents.AGENT for _ in range(count))
        assert sum(row.agent is not None for row in client.agents.create_many(rows, concurrency=in_flight)) == count

    return cpu_of_a_call(count, work)


def measure_sync(bench: Bench, url: str, client: dealkit.Client) -> None:
    of_httpx = httpx.Client(base_url=url, headers=HEADERS)
    of_pyreqwest = SyncClientBuilder().default_headers(HEADERS).base_url(url + "/").build()

    def with_pyreqwest() -> None:
        response = of_pyreqwest.get(DEAL[1:]).build().send()
        msgspec_deal(response.status, bytes(response.bytes()))

    def with_httpx() -> None:
        response = of_httpx.get(DEAL)
        pydantic_deal(response.status_code, response.content)

    contenders: dict[str, Call] = {
        "dealkit": lambda: dealkit_deal(client.deals.retrieve("d_1")),
        "pyreqwest + msgspec": with_pyreqwest,
        "httpx + pydantic": with_httpx,
    }
    table = Table("python retrieve HTTP/1.1", "Python: retrieve, one call after the other", UNIT)
    bench.compare(table, {name: make_sync_task(call) for name, call in contenders.items()})


async def open_session(url: str) -> aiohttp.ClientSession:
    # Allow a connection for each call in flight; the default limit is 100.
    return aiohttp.ClientSession(base_url=url, headers=HEADERS, connector=aiohttp.TCPConnector(limit=0))


def measure_async(bench: Bench, url: str, client: dealkit.Client) -> None:
    loop = asyncio.new_event_loop()
    deals = dealkit.AsyncClient(base_url=url, service_key=KEY).deals
    session = loop.run_until_complete(open_session(url))
    of_pyreqwest = ClientBuilder().default_headers(HEADERS).base_url(url + "/").build()

    async def with_dealkit() -> None:
        dealkit_deal(await deals.retrieve("d_1"))

    async def with_aiohttp() -> None:
        async with session.get(DEAL) as response:
            msgspec_deal(response.status, await response.read())

    async def aiohttp_create() -> None:
        agent = msgspec.json.encode(documents.AGENT)
        async with session.post("/v1/agents", data=agent, headers={"content-type": "application/json"}) as response:
            assert response.status == 201 and msgspec.json.decode(await response.read())["id"]

    async def with_pyreqwest() -> None:
        response = await of_pyreqwest.get(DEAL[1:]).build().send()
        msgspec_deal(response.status, bytes(await response.bytes()))

    peers: dict[str, AsyncCall] = {"aiohttp + msgspec": with_aiohttp, "pyreqwest + msgspec": with_pyreqwest}

    def tasks(calls: dict[str, AsyncCall], in_flight: int) -> dict[str, MeasuredTask]:
        waves = max(256 // in_flight, 1)
        return {name: make_async_task(loop, call, in_flight, waves) for name, call in calls.items()}

    title = f"Python: retrieve with asyncio, {IN_FLIGHT} in flight"
    table = Table(f"python asyncio HTTP/1.1, {IN_FLIGHT} in flight", title, UNIT)
    bench.compare(table, tasks({"dealkit": with_dealkit, **peers}, IN_FLIGHT))
    title = f"Python: retrieve_many, and gather of the peers, {IN_FLIGHT} in flight"
    table = Table(f"python retrieve_many HTTP/1.1, {IN_FLIGHT} in flight", title, UNIT)
    bench.compare(table, {"dealkit": make_many_task(client, 4 * IN_FLIGHT), **tasks(peers, IN_FLIGHT)})
    for in_flight in [1, 4, 16, 64, 256, 1_024, 4_096]:
        table = point("python asyncio by calls in flight", "calls in flight", in_flight, UNIT)
        bench.compare(table, tasks({"dealkit": with_dealkit, **peers}, in_flight), rounds=9)
    for in_flight in [16, 64, 256, 1_024, 4_096]:
        count = max(1_024, 2 * in_flight)
        retrieve = make_many_task(client, count, in_flight)
        create = make_create_task(client, count, in_flight)
        for name, ours, call in [("retrieve_many", retrieve, with_aiohttp), ("create_many", create, aiohttp_create)]:
            table = point(f"python {name} by calls in flight", "calls in flight", in_flight, UNIT)
            peer = make_async_task(loop, call, in_flight, count // in_flight)
            bench.compare(table, {"dealkit": ours, "aiohttp + msgspec": peer}, rounds=9)
    loop.run_until_complete(session.close())
    loop.close()


def measure_bulk(bench: Bench, client: dealkit.Client) -> None:
    """Checks that memory does not grow with the number of identifiers (on Linux)."""
    reset = Path("/proc/self/clear_refs")
    for count in [1_000, 10_000, 100_000]:
        table = point("python retrieve_many by ids", "ids", count, UNIT)
        resident = point("python retrieve_many by ids, memory", "ids", count, "MiB at most")
        if not (bench.is_selected(table.name) and reset.exists()):
            continue
        # Writing 5 resets the high-water mark to the current resident size.
        reset.write_text("5")
        seconds = make_many_task(client, count)()
        bench.add(table, {"dealkit": [seconds * 1e6]})
        bench.add(resident, {"dealkit": [memory("self", "VmHWM") / 2**20]})


def main() -> None:
    arguments = make_parser(__doc__, rounds=15)
    arguments.add_argument("service", type=Path, help="the program sdk/benches/service.rs")
    given = arguments.parse_args()
    bench = Bench(given)
    with fixed_service(given.service) as (url, _), dealkit.Client(base_url=url, service_key=KEY) as client:
        measure_bulk(bench, client)
        measure_sync(bench, url, client)
        measure_async(bench, url, client)
    bench.finish()


if __name__ == "__main__":
    main()
