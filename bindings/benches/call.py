"""One GET of a deal with a typed result, beside what people use for it, against the sandbox's release build.

Usage: python call.py path/to/dealkit-server [rounds]

CPU is that of this process alone, all threads together; the server is another process. On a machine with few cores
the two share them, so the CPU figures say more than the wall clock.
"""

from __future__ import annotations

import asyncio
import http.client
import subprocess
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import models
import requests
import urllib3
from rounds import Turn, compare

import dealkit

KEY = "sandbox-key"
HEADERS = {"x-service-key": KEY}
CALLS = 200
TOGETHER = 64
WAVES = 4
Clock = Callable[[], float]


def sync(clock: Clock, call: Callable[[], Any]) -> Turn:
    def run() -> float:
        start = clock()
        for _ in range(CALLS):
            call()
        return (clock() - start) / CALLS

    return run


def gathered(clock: Clock, loop: asyncio.AbstractEventLoop, call: Callable[[], Awaitable[Any]]) -> Turn:
    async def waves() -> None:
        for _ in range(WAVES):
            await asyncio.gather(*(call() for _ in range(TOGETHER)))

    def run() -> float:
        start = clock()
        loop.run_until_complete(waves())
        return (clock() - start) / (WAVES * TOGETHER)

    return run


def bulk(clock: Clock, client: dealkit.Client, concurrency: int) -> Turn:
    ids = ["d_1"] * (WAVES * TOGETHER)

    def run() -> float:
        start = clock()
        for _ in client.deals.retrieve_many(ids, concurrency=concurrency):
            pass
        return (clock() - start) / len(ids)

    return run


def measure(url: str, rounds: int) -> None:
    path = "/v1/deals/d_1"
    address = urllib.parse.urlsplit(url)
    client = dealkit.Client(base_url=url, service_key=KEY)
    of_httpx = httpx.Client(base_url=url, headers=HEADERS)
    session = requests.Session()
    session.headers.update(HEADERS)
    pool = urllib3.HTTPConnectionPool(address.hostname or "", address.port, headers=HEADERS)
    connection = http.client.HTTPConnection(address.hostname or "", address.port)

    def get() -> models.Deal:
        connection.request("GET", path, headers=HEADERS)
        return models.decode_msgspec(connection.getresponse().read())

    calls: dict[str, Callable[[], Any]] = {
        "dealkit": lambda: client.deals.retrieve("d_1"),
        "http.client + msgspec": get,
        "urllib3 + msgspec": lambda: models.decode_msgspec(pool.request("GET", path).data),
        "httpx + pydantic": lambda: models.decode_pydantic(of_httpx.get(path).content),
        "requests + pydantic": lambda: models.decode_pydantic(session.get(url + path).content),
    }
    for what, clock in {"CPU": time.process_time, "wall clock": time.perf_counter}.items():
        turns = {name: sync(clock, call) for name, call in calls.items()}
        compare(f"One call after the other, {what}", "µs a call", turns, rounds)

    loop = asyncio.new_event_loop()
    async_client = dealkit.AsyncClient(base_url=url, service_key=KEY)

    async def open_session() -> aiohttp.ClientSession:
        return aiohttp.ClientSession(base_url=url, headers=HEADERS)

    of_aiohttp = loop.run_until_complete(open_session())

    async def get_aiohttp() -> models.Deal:
        async with of_aiohttp.get(path) as response:
            return models.decode_msgspec(await response.read())

    for what, clock in {"CPU": time.process_time, "wall clock": time.perf_counter}.items():
        turns = {
            "dealkit, gather": gathered(clock, loop, lambda: async_client.deals.retrieve("d_1")),
            "aiohttp + msgspec, gather": gathered(clock, loop, get_aiohttp),
            "dealkit, retrieve_many(concurrency=64)": bulk(clock, client, TOGETHER),
            "dealkit, retrieve_many(concurrency=16)": bulk(clock, client, 16),
        }
        compare(f"{TOGETHER} calls at a time, {what}", "µs a call", turns, rounds)
    loop.run_until_complete(of_aiohttp.close())
    loop.close()


def main() -> None:
    program, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 30
    with tempfile.TemporaryDirectory() as folder:
        deals = Path(folder) / "deals.json"
        typical = models.document().replace(b"d_1f0c2a9e-5c1b-4a1c-9a51-0d6b6a2f4a11", b"d_1")
        deals.write_bytes(b"[" + typical + b"]")
        arguments = [program, "--listen", "127.0.0.1:0", "--deals", str(deals), "--log", "off"]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            try:
                measure(server.stdout.readline().split()[-1], rounds)
            finally:
                server.terminate()


if __name__ == "__main__":
    main()
