"""Deals from the sandbox into a data frame, 64 in flight, compared with handwritten programs.

CPU time is the time of all threads of this process; the sandbox is another process. The peers keep every number exact, as dealkit
does, unlike shortcuts such as `polars.from_dicts` of JSON.

Usage: python tables.py path/to/dealkit-server [--deals N] [--rounds N] [--only NAME] [--results FILE]
"""

from __future__ import annotations

import asyncio
import datetime
import gc
import time
from collections.abc import Awaitable, Callable, Coroutine
from decimal import Decimal
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import models
import msgspec
import pandas
import polars
from processes import KEY, memory, sandbox
from rounds import Bench, Table, make_parser, point

import dealkit
import dealkit.arrow

IN_FLIGHT = 64
HEADERS = {"x-service-key": KEY}
Frame = polars.DataFrame | pandas.DataFrame


def identifiers(count: int, deals: int) -> list[str]:
    return [f"g_{n % deals}" for n in range(count)]


async def retrieved(fetch: Callable[[str], Awaitable[Any]], ids: list[str]) -> list[Any]:
    """Retrieves the deals in order, with a fixed number in flight."""
    found: list[Any] = [None] * len(ids)
    left = iter(enumerate(ids))

    async def work() -> None:
        for index, id in left:
            found[index] = await fetch(id)

    await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))
    return found


def row(deal: models.Deal) -> dict[str, Any]:
    """Converts a deal into a row for polars."""
    made: dict[str, Any] = msgspec.to_builtins(deal, builtin_types=(Decimal, datetime.date, datetime.datetime))
    for contact in made["contacts"]:
        contact["contact_schema_id"] = contact.pop("contactSchemaId")
        for field in contact["fields"]:
            field["field_schema_id"] = field.pop("fieldSchemaId")
    return made


async def with_aiohttp(url: str, ids: list[str], schema: polars.Schema) -> Frame:
    async with aiohttp.ClientSession(base_url=url, headers=HEADERS, connector=aiohttp.TCPConnector(limit=0)) as session:

        async def fetch(id: str) -> models.Deal:
            async with session.get(f"/v1/deals/{id}") as response:
                assert response.status == 200
                return models.decode_msgspec(await response.read())

        deals = await retrieved(fetch, ids)
    return polars.DataFrame([row(deal) for deal in deals], schema=schema)


async def with_httpx(url: str, ids: list[str]) -> Frame:
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=url, headers=HEADERS, limits=limits, timeout=60) as client:

        async def fetch(id: str) -> Any:
            try:
                response = await client.get(f"/v1/deals/{id}")
            except httpx.TransportError:
                # Retry: within minutes, the service closes some connection just as a request is sent on it.
                response = await client.get(f"/v1/deals/{id}")
            assert response.status_code == 200
            return models.decode_pydantic(response.content)

        deals = await retrieved(fetch, ids)
    return pandas.DataFrame([deal.model_dump() for deal in deals])


def without_extra(dtype: Any) -> Any:
    """Returns the column types without the columns of undocumented fields, which the peers do not keep."""
    if isinstance(dtype, polars.List):
        return polars.List(without_extra(dtype.inner))
    if isinstance(dtype, polars.Struct):
        fields = [field for field in dtype.fields if field.name != "extra"]
        return polars.Struct({field.name: without_extra(field.dtype) for field in fields})
    return dtype


def measure_frames(bench: Bench, url: str, count: int, rounds: int) -> None:
    ids = identifiers(count, count)
    schema = polars.DataFrame(dealkit.arrow.deals_to_arrow([])).schema
    of_peers = polars.Schema({name: without_extra(dtype) for name, dtype in schema.items() if name != "extra"})

    def with_dealkit() -> Frame:
        return polars.DataFrame(client.deals.retrieve_many(ids, concurrency=IN_FLIGHT).to_arrow())

    def awaited(make: Callable[[], Coroutine[Any, Any, Frame]]) -> Callable[[], Frame]:
        return lambda: asyncio.run(make())

    peers = {
        "aiohttp + msgspec + polars": (awaited(lambda: with_aiohttp(url, ids, of_peers)), rounds),
        "httpx + pydantic + pandas": (awaited(lambda: with_httpx(url, ids)), min(rounds, 3)),
    }
    with dealkit.Client(base_url=url, service_key=KEY) as client:
        for peer, (run, times) in peers.items():
            name = f"python table of {count} deals, {peer.split()[0]}"
            if bench.is_selected(name):
                compare(bench, name, {"dealkit + polars": with_dealkit, peer: run}, count, times)


def compare(bench: Bench, name: str, contenders: dict[str, Callable[[], Frame]], count: int, rounds: int) -> None:
    cpu: dict[str, list[float]] = {contender: [] for contender in contenders}
    for _ in bench.rounds(rounds):
        for contender, make in contenders.items():
            gc.collect()
            start = time.process_time()
            frame = make()
            cpu[contender].append((time.process_time() - start) / count * 1e6)
            assert len(frame) == count and frame["id"][count - 1] == f"g_{count - 1}"
    title = f"Python: {count} deals of the sandbox into a data frame, {IN_FLIGHT} in flight"
    bench.add(Table(f"{name}, CPU", title, "µs CPU a deal"), cpu)


def measure_memory(bench: Bench, url: str, deals: int) -> None:
    """Checks that memory does not grow with the number of identifiers if batches are taken one by one (on Linux)."""
    reset = Path("/proc/self/clear_refs")
    with dealkit.Client(base_url=url, service_key=KEY) as client:
        for count in [1_000, 10_000, 100_000]:
            resident = point("python batches of a table by ids, memory", "ids", count, "MiB at most")
            if not (bench.is_selected(resident.name) and reset.exists()):
                continue
            ids = identifiers(count, deals)
            # Writing 5 resets the high-water mark to the current resident size.
            reset.write_text("5")
            batches = client.deals.retrieve_many(ids, concurrency=IN_FLIGHT).to_arrow(batch_size=500)
            assert sum(len(polars.DataFrame(batch)) for batch in batches) == count
            bench.add(resident, {"dealkit": [memory("self", "VmHWM") / 2**20]})


def main() -> None:
    arguments = make_parser(__doc__, rounds=7)
    arguments.add_argument("server", type=Path, help="the program dealkit-server")
    arguments.add_argument("--deals", type=int, default=10_000, help="how many deals make a data frame")
    given = arguments.parse_args()
    bench = Bench(given)
    with sandbox(given.server, given.deals) as url:
        measure_memory(bench, url, given.deals)
        measure_frames(bench, url, given.deals, given.rounds)
    bench.finish()


if __name__ == "__main__":
    main()
