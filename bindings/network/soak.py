"""Sends calls of every kind through TLS and a network that delays, cuts, resets and throttles them, for a long time.

``DEALKIT_SOAK_SECONDS`` sets the duration (20 minutes by default), and ``DEALKIT_SOAK_SEED`` the random seed. Fails if
an agent was created twice, was lost, or does not match the outcome of its call, if a call took longer than its time
limit, or if descriptors, threads or memory have grown.
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
# After each round, all calls pause and the process is measured. The first round is the warm-up.
ROUND = min(60.0, SECONDS / 6)

TIMEOUT = 2.0
ATTEMPT = 0.8
# The seconds by which a call may exceed its time limit.
ALLOWED_EXCESS = 0.2
# The bytes by which memory may grow.
ALLOWED_GROWTH = 2 * 1024 * 1024

DEALS = 200
WAITING, AWAITING, BULK = 3, 12, 16


# The service in a process of its own: the sandbox, and the network in front of it.


class Network:
    """Forwards bytes between clients and the service, some of them late, and soon ends every connection."""

    def __init__(self, port: int, random_source: random.Random) -> None:
        self._port = port
        self._random_source = random_source
        self.done: Counter[str] = Counter()

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        random_source = random.Random(self._random_source.random())
        timing = random_source.choices(["at once", "late", "slowly"], [60, 25, 15])[0]
        end = random_source.choices(["cut", "reset", "stalled", "refused"], [40, 40, 10, 10])[0]
        self.done[f"{timing}, {end}"] += 1
        try:
            if end != "refused":
                await self._both_ways(reader, writer, timing, end, random_source)
        except OSError:
            pass
        finally:
            if end == "reset":
                writer.transport.abort()
            writer.close()

    async def _both_ways(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        timing: str,
        end: str,
        random_source: random.Random,
    ) -> None:
        from_service, to_service = await asyncio.open_connection("127.0.0.1", self._port)

        async def one_way(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            # A handshake takes one or two kilobytes, and a call a few hundred bytes.
            left = int(random_source.expovariate(1 / 15_000))
            while data := await source.read(65536):
                if timing == "late":
                    await asyncio.sleep(random_source.uniform(0, 0.05))
                data, is_last = data[:left], len(data) > left
                left -= len(data)
                size = 256 if timing == "slowly" else len(data)
                for start in range(0, len(data), size or 1):
                    target.write(data[start : start + size])
                    await target.drain()
                    if timing == "slowly":
                        await asyncio.sleep(0.02)
                if is_last:
                    if end == "stalled":
                        await asyncio.sleep(3 * TIMEOUT)
                    return

        call_styles = [
            asyncio.ensure_future(one_way(reader, to_service)),
            asyncio.ensure_future(one_way(from_service, writer)),
        ]
        try:
            await asyncio.wait(call_styles, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in call_styles:
                way.cancel()
            await asyncio.gather(*call_styles, return_exceptions=True)
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


# The client process.


class Calls:
    """Makes calls, and writes the outcome of each create to a file instead of to memory."""

    def __init__(self, options: dict[str, Any], outcomes_file: TextIO) -> None:
        self._client = Client(**options)
        self._async_client = AsyncClient(**options)
        self._diary = outcomes_file
        self._lock = threading.Lock()
        self._agent_names = 0
        self._deadline = 0.0
        self.counts: Counter[str] = Counter()
        self.longest = 0.0
        self.wrong: list[str] = []

    def close(self) -> None:
        self._client.close()
        asyncio.run(self._async_client.aclose())

    def round(self, seconds: float) -> None:
        """Makes calls on all threads and tasks for this long, and returns when the last call has finished."""
        self._deadline = time.monotonic() + seconds
        work: list[Callable[[], object]] = [self._call_sync] * WAITING
        work += [self._call_in_bulk, lambda: asyncio.run(self._await())]
        threads = [threading.Thread(target=self._run_reporting_errors, args=(target,)) for target in work]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _run_reporting_errors(self, work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:  # includes panics in the native module
            self.wrong.append(f"a caller ended with {type(error).__name__}: {error}")

    def _should_continue(self) -> bool:
        return time.monotonic() < self._deadline and len(self.wrong) < 10

    def _next_agent(self) -> tuple[str, dict[str, Any]]:
        with self._lock:
            self._agent_names += 1
            name = f"n{self._agent_names}"
        return name, {"email": "ada@example.com", "first_name": "Ada", "last_name": name, "profile": {}}

    def _record(self, kind: str, started: float, outcome: str, name: str = "", id: str = "") -> None:
        took = time.monotonic() - started
        with self._lock:
            self.counts[f"{kind} {outcome}"] += 1
            self.longest = max(self.longest, took)
            if took > TIMEOUT + ALLOWED_EXCESS:
                self.wrong.append(f"{kind} took {took:.3f} s: {outcome}")
            if name:
                self._diary.write(f"{name} {outcome} {id}\n")

    def _record_retrieve(self, kind: str, started: float, expected_id: str, found: str) -> None:
        self._record(kind, started, "ok")
        if found != expected_id:
            self.wrong.append(f"{kind}: {found} came for {expected_id}")

    def _call_sync(self) -> None:
        random_source = random.Random()
        while self._should_continue():
            name, body = self._next_agent()
            started = time.monotonic()
            try:
                agent = self._client.agents.create(**body)
                self._record("create", started, "ok", name, agent.id)
            except DealkitError as error:
                self._record("create", started, error.outcome, name)
            expected_id = f"g_{random_source.randrange(DEALS)}"
            started = time.monotonic()
            try:
                self._record_retrieve("retrieve", started, expected_id, self._client.deals.retrieve(expected_id).id)
            except DealkitError as error:
                self._record("retrieve", started, error.outcome)

    async def _await(self) -> None:
        async def target() -> None:
            random_source = random.Random()
            while self._should_continue():
                name, body = self._next_agent()
                started = time.monotonic()
                try:
                    call: Awaitable[Any] = self._async_client.agents.create(**body)
                    if random_source.random() < 0.1:
                        call = asyncio.wait_for(call, random_source.uniform(0, 0.1))
                    self._record("awaited create", started, "ok", name, (await call).id)
                except DealkitError as error:
                    self._record("awaited create", started, error.outcome, name)
                except TimeoutError:
                    self._record("awaited create", started, "cancelled", name)
                expected_id = f"g_{random_source.randrange(DEALS)}"
                started = time.monotonic()
                try:
                    self._record_retrieve(
                        "awaited retrieve",
                        started,
                        expected_id,
                        (await self._async_client.deals.retrieve(expected_id)).id,
                    )
                except DealkitError as error:
                    self._record("awaited retrieve", started, error.outcome)

        await asyncio.gather(*(target() for _ in range(AWAITING)))

    def _call_in_bulk(self) -> None:
        while self._should_continue():
            ids = [f"g_{n}" for n in range(DEALS)]
            results = self._client.deals.retrieve_many(ids, concurrency=BULK, on_error="return")
            for expected_id in ids:
                # The call for this id was already running when the previous result arrived.
                started = time.monotonic()
                result = next(results)
                if isinstance(result, DealkitError):
                    self._record("one of many", started, result.outcome)
                else:
                    self._record_retrieve("one of many", started, expected_id, result.id)


def measure_process() -> dict[str, int]:
    """Returns the figures that must not grow."""
    gc.collect()
    if sys.platform == "linux":
        # malloc_trim returns free memory to the system, so that only memory in use is measured. Only glibc has this
        # function.
        with contextlib.suppress(AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "memory": pages * os.sysconf("SC_PAGE_SIZE"),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": len(os.listdir("/proc/self/task")),
    }


def check_agents(outcomes_file: Path, agents: Path) -> list[str]:
    """Compares the service's agents with the outcomes that callers received. Returns the contradictions."""
    with agents.open() as file:
        found: list[tuple[str, str]] = json.load(file)
    times = Counter(name for _, name in found)
    ids = {name: id for id, name in found}
    problems = [f"agent {name} was created {count} times" for name, count in times.items() if count > 1]
    for line in outcomes_file.read_text().splitlines():
        name, outcome, id = line.split(" ")
        if outcome == "ok" and ids.get(name) != id:
            problems.append(f"agent {name} was acknowledged as {id} and is {ids.get(name)}")
        if outcome == "succeeded" and name not in ids:
            problems.append(f"agent {name} is missing, and its create has succeeded")
        if outcome in ("not_sent", "rejected") and name in ids:
            problems.append(f"agent {name} is there, and its create was {outcome}")
    return problems


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
        # Without HTTP/2, each call has its own connection, and a cut connection ends exactly one call.
        "http2": False,
        "timeout": Timeout(total=TIMEOUT, attempt=ATTEMPT, connect=ATTEMPT),
    }
    before = measure_process()
    with (folder / "diary").open("w") as outcomes_file:
        calls = Calls(options, outcomes_file)
        end = time.monotonic() + SECONDS
        rounds = []
        while time.monotonic() < end and not calls.wrong:
            calls.round(min(ROUND, end - time.monotonic()))
            rounds.append(measure_process())
            printed = ", ".join(f"{name} {value}" for name, value in rounds[-1].items())
            print(f"soak: {calls.counts.total()} calls, {printed}", flush=True)
        calls.close()
    time.sleep(0.5)
    after = measure_process()
    done, _ = service.communicate("\n")
    print(f"soak: seed {SEED}, connections {done.strip()}, the longest call {calls.longest:.3f} s")
    for kind, count in sorted(calls.counts.items()):
        print(f"soak: {kind}: {count}")
    problems = calls.wrong + check_agents(folder / "diary", folder / "agents")
    first, last = rounds[0], rounds[-1]
    growth = last["memory"] - first["memory"]
    print(f"soak: memory has grown by {growth / 1024:.0f} KiB since the first round")
    if growth > ALLOWED_GROWTH:
        problems.append(f"memory has grown by {growth} bytes")
    # Threads that resolve names start and end with the calls.
    if last["threads"] > first["threads"] + 4:
        problems.append(f"there are {last['threads']} threads, and were {first['threads']}")
    # Open connections have descriptors, so descriptors are counted after all connections are closed.
    if after["descriptors"] > before["descriptors"] + 10:
        problems.append(f"{after['descriptors']} descriptors are left, and {before['descriptors']} were there")
    return problems


def main() -> int:
    if len(sys.argv) > 1:
        asyncio.run(serve(Path(sys.argv[1])))
    with tempfile.TemporaryDirectory(prefix="dealkit-soak-") as folder:
        problems = soak(Path(folder))
    for text in problems[:50]:
        print(f"soak: WRONG: {text}")
    print(f"soak: {len(problems)} things are wrong" if problems else "soak: nothing is wrong")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
