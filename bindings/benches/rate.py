"""Benchmark of the rate limiter in real time: how much of a service's limit clients use, and how many requests are rejected.

A service on loopback accepts 500 requests per second and delays each response by 20 to 100 ms. One, two and eight processes, each
with 64 calls in flight, use the service for 20 seconds; the first 5 are not measured::

    python bindings/benches/rate.py --limits bucket --programs dealkit

Two more rows show a client after a quiet minute, and a client with ``rate_limit=400``. The peer, aiohttp, retries after
``Retry-After`` or, without it, after up to 0.2 s. Run the benchmark when the machine has nothing else to do.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import random
import subprocess
import sys
import time
from typing import Any, NamedTuple

import documents
import processes

RATE, IN_FLIGHT = 500, 64
BODY = documents.deal()


class Limit(NamedTuple):
    """The limit of a service: its way of counting requests, and the headers that describe it."""

    name: str
    is_window: bool
    has_retry_after: bool
    has_rate_limit: bool


LIMITS = [
    Limit(
        f"{kind}{', Retry-After' * retry_after}{', RateLimit' * rate_limit}", kind == "window", retry_after, rate_limit
    )
    for kind in ("bucket", "window")
    for retry_after, rate_limit in ((False, False), (True, False), (False, True), (True, True))
]


class Load(NamedTuple):
    """The load of a client: seconds of full load, of one call per second, and of full load again. Only the last period is measured."""

    name: str
    busy: float
    quiet: float
    busy_again: float
    measured: float
    rate_limit: float | None = None

    @property
    def seconds(self) -> float:
        return self.busy + self.quiet + self.busy_again


BUSY = Load("busy", 20, 0, 0, measured=15)
LOADS = {
    load.name: load
    for load in (BUSY, Load("quiet", 10, 60, 10, measured=10), BUSY._replace(name="limited", rate_limit=400))
}


class Service:
    """Accepts as many requests per second as its limit allows, and counts accepted and rejected requests."""

    def __init__(self, limit: Limit, load: Load) -> None:
        self.limit, self.load = limit, load
        self.tokens, self.updated = float(RATE), time.monotonic()
        self.start: float | None = None
        self.accepted: dict[str, int] = {}
        self.rejected = 0

    def respond(self, client: str) -> bytes:
        """Counts a request and returns the response."""
        now = time.monotonic()
        if self.limit.is_window:
            self.tokens = RATE if math.floor(now) > math.floor(self.updated) else self.tokens
            wait = math.ceil(now) - now
        else:
            self.tokens = min(RATE, self.tokens + (now - self.updated) * RATE)
            wait = (1 - self.tokens) / RATE
        self.updated = now
        self.start = self.start or now
        is_accepted = self.tokens >= 1
        self.tokens -= is_accepted
        end = self.start + self.load.seconds
        if end - self.load.measured <= now < end:
            self.accepted[client] = self.accepted.get(client, 0) + is_accepted
            self.rejected += not is_accepted
        lines = ["HTTP/1.1 200 OK" if is_accepted else "HTTP/1.1 429 Too Many Requests"]
        if self.limit.has_retry_after and not is_accepted:
            lines.append(f"retry-after: {math.ceil(wait)}")
        if self.limit.has_rate_limit:
            lines += [f'ratelimit-policy: "key";q={RATE};w=1', f'ratelimit: "key";r={math.floor(self.tokens)};t=1']
        body = BODY if is_accepted else b""
        lines += ["content-type: application/json", f"content-length: {len(body)}", "", ""]
        return "\r\n".join(lines).encode() + body

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Responds to the requests of a connection, whose path names the client."""
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                latency = random.uniform(0.01, 0.05)  # noqa: S311
                await asyncio.sleep(latency)
                response = self.respond(head.split(b" ", 2)[1].decode().rpartition("/")[2])
                await asyncio.sleep(latency)
                writer.write(response)
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.close()


async def use_dealkit(url: str, name: str, load: Load) -> None:
    """Retrieves a deal again and again with dealkit."""
    import dealkit

    options: Any = {"max_idle_connections": IN_FLIGHT, "rate_limit": load.rate_limit}
    async with dealkit.AsyncClient(base_url=url, service_key=processes.KEY, **options) as client:

        async def retrieve_until(end: float) -> None:
            while time.monotonic() < end:
                try:
                    await client.deals.retrieve(name)
                except dealkit.RateLimitError:
                    continue

        async def keep_busy(seconds: float) -> None:
            end = time.monotonic() + seconds
            await asyncio.gather(*(retrieve_until(end) for _ in range(IN_FLIGHT)))

        await keep_busy(load.busy)
        for _ in range(round(load.quiet)):
            await client.deals.retrieve(name)
            await asyncio.sleep(1)
        await keep_busy(load.busy_again)


async def use_aiohttp(url: str, name: str, _: Load) -> None:
    """Retrieves a deal again and again with aiohttp, which knows no more than the last response."""
    import aiohttp

    async with aiohttp.ClientSession() as session:

        async def calls() -> None:
            while True:
                async with session.get(f"{url}/v1/deals/{name}") as response:
                    await response.read()
                    wait: Any = response.headers.get("retry-after") if response.status == 429 else 0
                await asyncio.sleep(random.uniform(0, 0.2) if wait is None else float(wait))  # noqa: S311

        await asyncio.gather(*(calls() for _ in range(IN_FLIGHT)))


PROGRAMS = {"dealkit": use_dealkit, "aiohttp": use_aiohttp}


async def measure(limit: Limit, load: Load, program: str, count: int) -> str:
    """Runs clients, each in its own process, and returns a row of the table."""
    service = Service(limit, load)
    async with await asyncio.start_server(service.serve, "127.0.0.1", 0, backlog=1024) as server:
        url = "http://127.0.0.1:{1}".format(*server.sockets[0].getsockname())
        command = [sys.executable, __file__, "--client", program, load.name, url]
        clients = [subprocess.Popen([*command, f"d_{number}"]) for number in range(count)]  # noqa: ASYNC220
        try:
            while service.start is None or time.monotonic() < service.start + load.seconds:
                await asyncio.sleep(0.1)
        finally:
            for client in clients:
                client.terminate()
                client.wait()  # noqa: ASYNC222
    accepted = service.accepted.values()
    used = sum(accepted) / RATE / load.measured
    rejected = service.rejected / max(service.rejected + sum(accepted), 1)
    fairness = min(accepted) / max(accepted) if len(accepted) == count else 0
    columns = (f"{used:.1%}", f"{rejected:.2%}", str(service.rejected), f"{fairness:.2f}")
    return f"| {limit.name} | {load.name} | {count} | {program} | {' | '.join(columns)} |"


def main() -> None:
    """Prints the table, or runs as one of the clients."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--limits", default="", help="limits whose name begins like this")
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 8])
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=list(PROGRAMS))
    parser.add_argument("--client", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.client:
        program, load, url, name = arguments.client
        asyncio.run(PROGRAMS[program](url, name, LOADS[load]))
        return
    print(
        "| limit | load | processes | client | of the limit | rejected | | least of most |\n|---|---|--:|---|--:|--:|--:|--:|"
    )
    for limit in LIMITS:
        if limit.name.startswith(arguments.limits):
            for count in arguments.processes:
                for program in arguments.programs:
                    print(asyncio.run(measure(limit, BUSY, program, count)), flush=True)
    for load in ("quiet", "limited"):
        print(asyncio.run(measure(LIMITS[0], LOADS[load], "dealkit", 1)), flush=True)


if __name__ == "__main__":
    main()
