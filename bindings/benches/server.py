"""The sandbox compared with bare hyper with one fixed body, Prism and FastAPI: throughput, start, size and memory.

Throughput is measured with wrk, one thread and 32 connections; without wrk, only the other figures are measured. The CPU time per
request is the time of the server's process, independent of other load.

Usage: python server.py path/to/dealkit-server path/to/service [--rounds N] [--only NAME] [--results FILE]
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

import documents
from processes import KEY, cpu_seconds, ended, fixed_service, memory
from rounds import Bench, Table, make_parser, point

ROOT = Path(__file__).parents[2]
SECONDS = 2
# The number of agents that are created in addition, to measure the cost of an agent.
MORE = 10_000
# The script of wrk: it requests deals at random, and prints a report at the end.
SCRIPT = """
wrk.headers["x-service-key"] = "%(key)s"
local deals, body = %(deals)d, %(body)s
function request()
  if body then
    return wrk.format("POST", "%(prefix)s/agents", {["x-service-key"] = "%(key)s", ["content-type"] = "application/json"}, body)
  end
  return wrk.format("GET", deals == 0 and "%(prefix)s/deals/d_1" or "%(prefix)s/deals/g_" .. math.random(0, deals - 1))
end
function done(summary)
  local wrong = summary.errors
  local failed = wrong.connect + wrong.read + wrong.write + wrong.status + wrong.timeout
  print(string.format("DONE %%d %%d %%d", summary.requests, failed, summary.duration))
end
"""


class Server(NamedTuple):
    """A running server."""

    url: str
    pid: int
    prefix: str = "/v1"
    """The prefix of the paths."""


Starts = Callable[[], AbstractContextManager[Server]]


def agent(length: int = 589) -> bytes:
    """Returns the body of a create with this length."""
    body = {**documents.AGENT, "profile": {**documents.AGENT["profile"], "clientMetadata": {"note": ""}}}
    body["profile"]["clientMetadata"]["note"] = "n" * (length - len(json.dumps(body)))
    return json.dumps(body).encode()


@contextmanager
def sandbox(program: Path, *arguments: str) -> Iterator[Server]:
    command = [str(program), "--listen", "127.0.0.1:0", "--log", "off", *arguments]
    with ended(subprocess.Popen(command, stdout=subprocess.PIPE, text=True)) as process:
        assert process.stdout is not None
        yield Server(process.stdout.readline().split()[-1], process.pid)


@contextmanager
def typical_sandbox(program: Path) -> Iterator[Server]:
    """Starts the sandbox with the typical deal as d_1."""
    deal = json.loads(documents.deal())
    deal["id"] = "d_1"
    with tempfile.TemporaryDirectory() as folder:
        deals = Path(folder, "deals.json")
        deals.write_text(json.dumps([deal]), encoding="utf-8")
        with sandbox(program, "--deals", str(deals)) as server:
            yield server


@contextmanager
def bare_hyper(program: Path) -> Iterator[Server]:
    # The same number of threads as the sandbox.
    with fixed_service(program, threads=2) as service:
        yield Server(*service)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def started(command: list[str], port: int, prefix: str) -> Iterator[Server]:
    """Starts a server, and waits until it responds."""
    url = f"http://127.0.0.1:{port}"
    with ended(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True)) as process:
        for _ in range(600):
            try:
                urllib.request.urlopen(
                    urllib.request.Request(f"{url}{prefix}/deals/d_1", headers={"x-service-key": KEY})
                ).close()
                break
            except OSError:
                if process.poll() is not None:
                    sys.exit(f"{command[0]} ended with {process.returncode} before it responded")
                time.sleep(0.1)
        else:
            sys.exit(f"{command[0]} has not responded within a minute")
        yield Server(url, process.pid, prefix)


@contextmanager
def fastapi() -> Iterator[Server]:
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "--app-dir", str(Path(__file__).parent), "--no-access-log"]
    with started([*command, "--port", str(port), "fastapi_peer:app"], port, "/v1") as server:
        yield server


@contextmanager
def prism(program: Path) -> Iterator[Server]:
    port = free_port()
    document = str(ROOT / "sdk" / "contract" / "openapi.json")
    command = [str(program), "mock", "--port", str(port), "--verboseLevel", "silent", document]
    # Prism serves the paths of the document without the prefix from `servers`.
    with started(command, port, "") as server:
        yield server


def wrk(server: Server, *, deals: int = 0, body: bytes | None = None) -> tuple[float, float]:
    """Returns the requests per second, and microseconds of the server's CPU time per request."""
    url, pid, prefix = server
    script = SCRIPT % {
        "key": KEY,
        "prefix": prefix,
        "deals": deals,
        "body": "nil" if body is None else f"[=[{body.decode()}]=]",
    }
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
        file.write(script)
        file.flush()
        before = cpu_seconds(pid)
        command = ["wrk", "-t1", "-c32", f"-d{SECONDS}s", "-s", file.name, url]
        report = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        used = cpu_seconds(pid) - before
    requests, failed, duration = (int(word) for word in report.rpartition("DONE")[2].split())
    if failed or not requests:
        sys.exit(f"{url}: {failed} of {requests} requests failed\n{report}")
    return requests / duration * 1e6, used / requests * 1e6


def throughput(bench: Bench, what: str, starts: dict[str, Starts], rounds: int, body: bytes | None = None) -> None:
    name = f"server {what}"
    if not bench.is_selected(name):
        return
    rates: dict[str, list[float]] = {contender: [] for contender in starts}
    used: dict[str, list[float]] = {contender: [] for contender in starts}
    for _ in bench.rounds(rounds):
        for contender, start in starts.items():
            # Start a new server each time, because its agents would accumulate.
            with start() as server:
                rate, cpu = wrk(server, body=body)
            rates[contender].append(rate)
            used[contender].append(cpu)
    bench.add(Table(name, f"Server: {what}, 32 connections", "requests/s"), rates)
    bench.add(Table(f"{name}, CPU", f"Server: {what}, CPU of the server", "µs CPU"), used)


def start_and_size(bench: Bench, program: Path, rounds: int) -> None:
    times, resident = [], []
    for _ in bench.rounds(rounds):
        began = time.perf_counter()
        with sandbox(program) as (url, pid, _):
            host, port = url.removeprefix("http://").split(":")
            with socket.create_connection((host, int(port))) as connection:
                connection.sendall(f"GET /v1/deals/d_1 HTTP/1.1\r\nhost: x\r\nx-service-key: {KEY}\r\n\r\n".encode())
                assert connection.recv(64).startswith(b"HTTP/1.1 200"), "the sandbox did not respond with a deal"
                times.append((time.perf_counter() - began) * 1e3)
            resident.append(memory(pid, "VmRSS") / 2**20)
    bench.add(Table("server start", "Server: start to first response", "ms"), {"dealkit": times})
    bench.add(Table("server memory", "Server: resident after the first response", "MiB"), {"dealkit": resident})
    size = program.stat().st_size / 1e6
    bench.add(Table("server size", "Server: size of the program", "MB"), {"dealkit": [size]})


def create(connection: socket.socket, count: int, body: bytes) -> None:
    """Creates this many agents, with 100 requests in flight."""
    head = f"POST /v1/agents HTTP/1.1\r\nhost: x\r\nx-service-key: {KEY}\r\ncontent-type: application/json\r\n"
    request = f"{head}content-length: {len(body)}\r\n\r\n".encode() + body
    while count:
        batch = min(count, 100)
        connection.sendall(request * batch)
        received, created = b"", 0
        while created < batch:
            chunk = connection.recv(1 << 16)
            assert chunk, "the sandbox closed the connection"
            received += chunk
            assert received.count(b"HTTP/1.1 ") == received.count(b"HTTP/1.1 201"), "an agent was refused"
            # The end of role_assignments is the end of the body, and so of the response.
            created = received.count(b"}]}")
        count -= batch


def stored_agents(bench: Bench, program: Path) -> None:
    body = agent()
    for count in [1, 100, 10_000, 100_000]:
        cpu = point("server create by agents", "agents stored", count, "µs CPU")
        if not bench.is_selected(cpu.name):
            continue
        with sandbox(program) as (url, pid, _):
            host, port = url.removeprefix("http://").split(":")
            with socket.create_connection((host, int(port))) as connection:
                create(connection, 1, body)
                resident = memory(pid, "VmRSS")
                create(connection, count - 1, body)
                grown = memory(pid, "VmRSS") - resident
                # The CPU clock of a process ticks every 10 ms, too coarse for a single agent.
                used = cpu_seconds(pid)
                create(connection, MORE, body)
                used = cpu_seconds(pid) - used
        bench.add(cpu, {"dealkit": [used / MORE * 1e6]})
        # With fewer agents, whole memory pages would distort the result.
        if count >= 10_000:
            each = point("server bytes per stored agent", "agents of 589 bytes", count, "bytes")
            bench.add(each, {"dealkit": [grown / count]})


def stored_deals(bench: Bench, program: Path, rounds: int) -> None:
    for count in [1, 100, 10_000, 100_000]:
        table = point("server GET by deals", "deals stored", count, "requests/s")
        if not bench.is_selected(table.name):
            continue
        with sandbox(program, "--generate", str(count)) as server:
            measured = [wrk(server, deals=count) for _ in bench.rounds(rounds)]
        bench.add(table, {"dealkit": [rate for rate, _ in measured]})
        table = point("server GET by deals, CPU", "deals stored", count, "µs CPU")
        bench.add(table, {"dealkit": [cpu for _, cpu in measured]})


def main() -> None:
    arguments = make_parser(__doc__, rounds=11)
    arguments.add_argument("server", type=Path, help="the program dealkit-server")
    arguments.add_argument("service", type=Path, help="the program sdk/benches/service.rs")
    arguments.add_argument("--prism", type=Path, metavar="PROGRAM", help="Prism, if it is to be measured")
    given = arguments.parse_args()
    bench = Bench(given)
    start_and_size(bench, given.server, given.rounds)
    stored_agents(bench, given.server)
    if shutil.which("wrk") is None:
        print("server: wrk is missing, so throughput is not measured (Debian: apt-get install wrk)", file=sys.stderr)
    else:
        ours: Starts = lambda: typical_sandbox(given.server)  # noqa: E731
        hyper: Starts = lambda: bare_hyper(given.service)  # noqa: E731
        starts = {"dealkit": ours, "bare hyper, fixed body": hyper}
        throughput(bench, "GET", starts, given.rounds)
        throughput(bench, "POST", starts, given.rounds, agent())
        stored_deals(bench, given.server, min(given.rounds, 3))
        others: dict[str, Starts] = {"dealkit": ours, "FastAPI on uvicorn": fastapi}
        if given.prism is None:
            print("server: without --prism, Prism is not measured", file=sys.stderr)
        else:
            others["Prism"] = lambda: prism(given.prism)
        throughput(bench, "GET, mock servers", others, min(given.rounds, 3))
    bench.finish()


if __name__ == "__main__":
    main()
