"""Calls of every kind through TLS and a network that delays, cuts, resets and throttles, for a long time.

``DEALKIT_SOAK_SECONDS`` sets the duration (20 minutes by default), ``DEALKIT_SOAK_SEED`` the random seed. It exits with
an error if an agent was created twice, was lost, or does not match the outcome of its call, if a call exceeded its time
limit, or if the number of descriptors or threads, or the memory, has grown.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TextIO

from dealkit import AsyncClient, Client, DealkitError, Timeout
from dealkit.testing import Sandbox

SECONDS = float(os.environ.get("DEALKIT_SOAK_SECONDS", 1200))
SEED = int(os.environ.get("DEALKIT_SOAK_SEED", 1))
# After each round, calls pause and resources are measured. The first round is the warm-up.
ROUND = min(60.0, SECONDS / 6)

TIMEOUT = 2.0
ATTEMPT = 0.8
# Tolerances: the time by which a call may exceed its limit, and the growth of memory.
SLACK = 0.2
GROWTH = 2 * 1024 * 1024

DEALS = 200
WAITING, AWAITING, BULK = 3, 12, 16


# The service process: the sandbox, and the network in front of it.


class Network:
    """A proxy that delays some bytes between clients and the service, and closes every connection after a short time."""

    def __init__(self, port: int, chance: random.Random) -> None:
        self._port = port
        self._chance = chance
        self.done: Counter[str] = Counter()

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        chance = random.Random(self._chance.random())
        delay = chance.choices(["at once", "late", "slowly"], [60, 25, 15])[0]
        end = chance.choices(["cut", "reset", "stalled", "refused"], [40, 40, 10, 10])[0]
        self.done[f"{delay}, {end}"] += 1
        try:
            if end != "refused":
                await self._both_ways(reader, writer, delay, end, chance)
        except OSError:
            pass
        finally:
            if end == "reset":
                writer.transport.abort()
            writer.close()

    async def _both_ways(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: str, end: str, chance: random.Random
    ) -> None:
        from_service, to_service = await asyncio.open_connection("127.0.0.1", self._port)

        async def one_way(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            # A handshake takes one or two kilobytes, and a call a few hundred bytes.
            left = int(chance.expovariate(1 / 15_000))
            while data := await source.read(65536):
                if delay == "late":
                    await asyncio.sleep(chance.uniform(0, 0.05))
                data, is_last = data[:left], len(data) > left
                left -= len(data)
                size = 256 if delay == "slowly" else len(data)
                for start in range(0, len(data), size or 1):
                    target.write(data[start : start + size])
                    await target.drain()
                    if delay == "slowly":
                        await asyncio.sleep(0.02)
                if is_last:
                    if end == "stalled":
                        await asyncio.sleep(3 * TIMEOUT)
                    return

        ways = [
            asyncio.ensure_future(one_way(reader, to_service)),
            asyncio.ensure_future(one_way(from_service, writer)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            to_service.close()


async def serve(agents: Path) -> None:
    with Sandbox(generate=DEALS, tls=True) as sandbox:
        network = Network(int(sandbox.url.rpartition(":")[2]), random.Random(SEED))
        outside = await asyncio.start_server(network.carry, "127.0.0.1", 0, backlog=256)
        print(outside.sockets[0].getsockname()[1], sandbox.ca_file, flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        with agents.open("w") as file:
            json.dump([(agent.id, agent.last_name) for agent in sandbox.agents], file)
    print(json.dumps(network.done), flush=True)
    # Calls in flight end with the process.
    os._exit(0)


# The client.


class Calls:
    """Makes calls, and writes the outcome of each create to a file, so that memory does not grow."""

    def __init__(self, options: dict[str, Any], diary: TextIO) -> None:
        self._client = Client(**options)
        self._async_client = AsyncClient(**options)
        self._diary = diary
        self._lock = threading.Lock()
        self._names = 0
        self._end = 0.0
        self.counts: Counter[str] = Counter()
        self.longest = 0.0
        self.wrong: list[str] = []

    def close(self) -> None:
        self._client.close()
        asyncio.run(self._async_client.aclose())

    def round(self, seconds: float) -> None:
        """Makes calls for this time, and returns when the last call has ended."""
        self._end = time.monotonic() + seconds
        work: list[Callable[[], object]] = [self._wait] * WAITING
        work += [self._in_bulk, lambda: asyncio.run(self._await())]
        threads = [threading.Thread(target=self._safely, args=(one,)) for one in work]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _safely(self, work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:  # BaseException also catches a panic of the native module.
            self.wrong.append(f"a caller ended with {type(error).__name__}: {error}")

    def _goes_on(self) -> bool:
        return time.monotonic() < self._end and len(self.wrong) < 10

    def _next(self) -> tuple[str, dict[str, Any]]:
        with self._lock:
            self._names += 1
            name = f"n{self._names}"
        return name, {"email": "ada@example.com", "first_name": "Ada", "last_name": name, "profile": {}}

    def _note(self, kind: str, began: float, outcome: str, name: str = "", id: str = "") -> None:
        took = time.monotonic() - began
        with self._lock:
            self.counts[f"{kind} {outcome}"] += 1
            self.longest = max(self.longest, took)
            if took > TIMEOUT + SLACK:
                self.wrong.append(f"{kind} took {took:.3f} s: {outcome}")
            if name:
                self._diary.write(f"{name} {outcome} {id}\n")

    def _got(self, kind: str, began: float, wanted: str, found: str) -> None:
        self._note(kind, began, "ok")
        if found != wanted:
            self.wrong.append(f"{kind}: {found} came for {wanted}")

    def _wait(self) -> None:
        chance = random.Random()
        while self._goes_on():
            name, body = self._next()
            began = time.monotonic()
            try:
                agent = self._client.agents.create(**body)
                self._note("create", began, "ok", name, agent.id)
            except DealkitError as error:
                self._note("create", began, error.outcome, name)
            wanted = f"g_{chance.randrange(DEALS)}"
            began = time.monotonic()
            try:
                self._got("retrieve", began, wanted, self._client.deals.retrieve(wanted).id)
            except DealkitError as error:
                self._note("retrieve", began, error.outcome)

    async def _await(self) -> None:
        async def one() -> None:
            chance = random.Random()
            while self._goes_on():
                name, body = self._next()
                began = time.monotonic()
                try:
                    call: Awaitable[Any] = self._async_client.agents.create(**body)
                    if chance.random() < 0.1:
                        call = asyncio.wait_for(call, chance.uniform(0, 0.1))
                    self._note("awaited create", began, "ok", name, (await call).id)
                except DealkitError as error:
                    self._note("awaited create", began, error.outcome, name)
                except TimeoutError:
                    self._note("awaited create", began, "cancelled", name)
                wanted = f"g_{chance.randrange(DEALS)}"
                began = time.monotonic()
                try:
                    self._got("awaited retrieve", began, wanted, (await self._async_client.deals.retrieve(wanted)).id)
                except DealkitError as error:
                    self._note("awaited retrieve", began, error.outcome)

        await asyncio.gather(*(one() for _ in range(AWAITING)))

    def _in_bulk(self) -> None:
        while self._goes_on():
            ids = [f"g_{n}" for n in range(DEALS)]
            results = self._client.deals.retrieve_many(ids, concurrency=BULK, on_error="return")
            for wanted in ids:
                # The call was in flight when the previous one completed.
                began = time.monotonic()
                result = next(results)
                if isinstance(result, DealkitError):
                    self._note("one of many", began, result.outcome)
                else:
                    self._got("one of many", began, wanted, result.id)


def measures() -> dict[str, int]:
    """Returns the figures that must not grow."""
    gc.collect()
    if sys.platform == "linux":
        # Free memory between blocks in use is not a leak, and how much there is of it is a matter of chance: glibc
        # returns it when asked. Other libcs have no such function, and may return it by themselves.
        with contextlib.suppress(AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "memory": pages * os.sysconf("SC_PAGE_SIZE"),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": len(os.listdir("/proc/self/task")),
    }


def check_agents(diary: Path, agents: Path) -> list[str]:
    """Compares the service's agents with the outcomes of the calls, and returns the errors."""
    with agents.open() as file:
        found: list[tuple[str, str]] = json.load(file)
    times = Counter(name for _, name in found)
    ids = {name: id for id, name in found}
    wrong = [f"agent {name} was created {count} times" for name, count in times.items() if count > 1]
    for line in diary.read_text().splitlines():
        name, outcome, id = line.split(" ")
        if outcome == "ok" and ids.get(name) != id:
            wrong.append(f"agent {name} was acknowledged as {id} and is {ids.get(name)}")
        if outcome == "succeeded" and name not in ids:
            wrong.append(f"agent {name} is missing, and its create has succeeded")
        if outcome in ("not_sent", "rejected") and name in ids:
            wrong.append(f"agent {name} is there, and its create was {outcome}")
    return wrong


def soak(folder: Path) -> list[str]:
    service = subprocess.Popen(
        [sys.executable, __file__, str(folder / "agents")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert service.stdin is not None and service.stdout is not None
    port, ca_file = service.stdout.readline().split()
    options = {
        "base_url": f"https://localhost:{port}",
        "service_key": "sandbox-key",
        "ca_file": ca_file,
        # One connection for each call in flight, so that a closed connection affects one call.
        "http2": False,
        "timeout": Timeout(total=TIMEOUT, attempt=ATTEMPT, connect=ATTEMPT),
    }
    before = measures()
    with (folder / "diary").open("w") as diary:
        calls = Calls(options, diary)
        end = time.monotonic() + SECONDS
        rounds = []
        while time.monotonic() < end and not calls.wrong:
            calls.round(min(ROUND, end - time.monotonic()))
            rounds.append(measures())
            shown = ", ".join(f"{name} {value}" for name, value in rounds[-1].items())
            print(f"soak: {calls.counts.total()} calls, {shown}", flush=True)
        calls.close()
    time.sleep(0.5)
    after = measures()
    done, _ = service.communicate("\n")
    print(f"soak: seed {SEED}, connections {done.strip()}, the longest call {calls.longest:.3f} s")
    for kind, count in sorted(calls.counts.items()):
        print(f"soak: {kind}: {count}")
    wrong = calls.wrong + check_agents(folder / "diary", folder / "agents")
    first, last = rounds[0], rounds[-1]
    growth = last["memory"] - first["memory"]
    print(f"soak: memory has grown by {growth / 1024:.0f} KiB since the first round")
    if growth > GROWTH:
        wrong.append(f"memory has grown by {growth} bytes")
    # Threads for name resolution start and end at any time.
    if last["threads"] > first["threads"] + 4:
        wrong.append(f"there are {last['threads']} threads, and were {first['threads']}")
    # Count descriptors after all connections are closed.
    if after["descriptors"] > before["descriptors"] + 10:
        wrong.append(f"{after['descriptors']} descriptors are left, and {before['descriptors']} were there")
    return wrong


def main() -> int:
    if len(sys.argv) > 1:
        asyncio.run(serve(Path(sys.argv[1])))
    with tempfile.TemporaryDirectory(prefix="dealkit-soak-") as folder:
        wrong = soak(Path(folder))
    for text in wrong[:50]:
        print(f"soak: WRONG: {text}")
    print(f"soak: {len(wrong)} things are wrong" if wrong else "soak: nothing is wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
