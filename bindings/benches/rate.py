"""How much of a service's rate clients use that were not told it, and how many of their requests it refuses.

A service on loopback allows 500 requests a second, 20 to 100 ms away. One, two and eight processes, each with 64 calls in flight,
use it for 20 seconds, of which the first 5 do not count::

    python bindings/benches/rate.py --only bucket

The peer is aiohttp, which tries again after ``Retry-After`` or, without it, after up to 0.2 s. Real time passes: run it when the
machine has nothing else to do.
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

RATE, SECONDS, FIRST, IN_FLIGHT = 500, 20.0, 5.0, 64
BODY = documents.deal()


class Limit(NamedTuple):
    """How a service counts, and what it says of that."""

    name: str
    is_window: bool
    says_when: bool
    says_how_many: bool


LIMITS = [
    Limit(f"{kind}{', Retry-After' * when}{', RateLimit' * many}", kind == "window", when, many)
    for kind in ("bucket", "window")
    for when, many in ((False, False), (True, False), (False, True), (True, True))
]


class Service:
    """Allows each second as much as its limit says, and counts who was let in and who was refused."""

    def __init__(self, limit: Limit) -> None:
        self.limit = limit
        self.left, self.at = float(RATE), time.monotonic()
        self.began: float | None = None
        self.good: dict[str, int] = {}
        self.refused = 0

    def respond(self, client: str) -> bytes:
        """Lets a request in, or refuses it."""
        now = time.monotonic()
        if self.limit.is_window:
            self.left = RATE if math.floor(now) > math.floor(self.at) else self.left
            wait = math.ceil(now) - now
        else:
            self.left = min(RATE, self.left + (now - self.at) * RATE)
            wait = (1 - self.left) / RATE
        self.at = now
        self.began = self.began or now
        is_let_in = self.left >= 1
        self.left -= is_let_in
        if FIRST <= now - self.began < SECONDS:
            self.good[client] = self.good.get(client, 0) + is_let_in
            self.refused += not is_let_in
        lines = ["HTTP/1.1 200 OK" if is_let_in else "HTTP/1.1 429 Too Many Requests"]
        if self.limit.says_when and not is_let_in:
            lines.append(f"retry-after: {math.ceil(wait)}")
        if self.limit.says_how_many:
            lines += [f'ratelimit-policy: "key";q={RATE};w=1', f'ratelimit: "key";r={math.floor(self.left)};t=1']
        body = BODY if is_let_in else b""
        lines += ["content-type: application/json", f"content-length: {len(body)}", "", ""]
        return "\r\n".join(lines).encode() + body

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers the requests of a connection, whose path names the client."""
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                there = random.uniform(0.01, 0.05)  # noqa: S311
                await asyncio.sleep(there)
                response = self.respond(head.split(b" ", 2)[1].decode().rpartition("/")[2])
                await asyncio.sleep(there)
                writer.write(response)
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.close()


async def use_dealkit(url: str, name: str) -> None:
    """Retrieves a deal again and again."""
    import dealkit

    async with dealkit.AsyncClient(base_url=url, service_key=processes.KEY, max_idle_connections=IN_FLIGHT) as client:

        async def calls() -> None:
            while True:
                try:
                    await client.deals.retrieve(name)
                except dealkit.RateLimitError:
                    continue

        await asyncio.gather(*(calls() for _ in range(IN_FLIGHT)))


async def use_aiohttp(url: str, name: str) -> None:
    """The same, as a program does that knows no more than the response it has just got."""
    import aiohttp

    async with aiohttp.ClientSession() as session:

        async def calls() -> None:
            while True:
                async with session.get(f"{url}/v1/deals/{name}") as response:
                    await response.read()
                    asks: Any = response.headers.get("retry-after") if response.status == 429 else 0
                await asyncio.sleep(random.uniform(0, 0.2) if asks is None else float(asks))  # noqa: S311

        await asyncio.gather(*(calls() for _ in range(IN_FLIGHT)))


async def measure(limit: Limit, who: str, count: int) -> str:
    """A line of the table."""
    service = Service(limit)
    async with await asyncio.start_server(service.serve, "127.0.0.1", 0, backlog=1024) as server:
        url = "http://127.0.0.1:{1}".format(*server.sockets[0].getsockname())
        command = [sys.executable, __file__, "--use", who, url]
        clients = [subprocess.Popen([*command, f"d_{number}"]) for number in range(count)]  # noqa: ASYNC220
        try:
            while service.began is None or time.monotonic() < service.began + SECONDS:
                await asyncio.sleep(0.1)
        finally:
            for client in clients:
                client.terminate()
                client.wait()  # noqa: ASYNC222
    good = service.good.values()
    share = sum(good) / RATE / (SECONDS - FIRST)
    refused = service.refused / (service.refused + sum(good))
    fair = min(good) / max(good) if len(good) == count else 0
    return f"| {limit.name} | {count} | {who} | {share:.1%} | {refused:.2%} | {fair:.2f} |"


def main() -> None:
    """Prints the table, or is one of the clients."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="limits whose name begins like this")
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 8])
    parser.add_argument("--use", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.use:
        who, url, name = arguments.use
        asyncio.run({"dealkit": use_dealkit, "aiohttp": use_aiohttp}[who](url, name))
        return
    print("| limit | processes | client | of the rate | refused | least of most |\n|---|--:|---|--:|--:|--:|")
    for limit in LIMITS:
        if limit.name.startswith(arguments.only):
            for count in arguments.processes:
                for who in ("dealkit", "aiohttp"):
                    print(asyncio.run(measure(limit, who, count)), flush=True)


if __name__ == "__main__":
    main()
