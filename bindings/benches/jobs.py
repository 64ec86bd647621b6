"""Time and peak memory of jobs with a million rows: run by the command, and written by hand. Each job runs in a separate process, as do
the sandbox and the database.

Usage: python jobs.py path/to/dealkit-server [--rows N] [--rounds N] [--only NAME] [--results FILE]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from urllib.request import Request, urlopen

from postgres import Postgres, find_programs
from processes import KEY, sandbox
from rounds import Bench, Table, make_parser

IN_FLIGHT = 64
COMMAND = [sys.executable, "-m", "dealkit"]
# The loop of the guide's page on tables, for the ids in a file.
LOOP = f"""
import pyarrow, pyarrow.parquet
from dealkit import Client

with open("ids.txt") as ids, Client() as client:
    deals = client.deals.retrieve_many(map(str.strip, ids), concurrency={IN_FLIGHT}, on_error="return").to_arrow(batch_size=10_000)
    with pyarrow.parquet.ParquetWriter("loop.parquet", pyarrow.schema(deals)) as writer:
        for batch in deals:
            writer.write_table(pyarrow.table(batch))
"""
# New rows, with or without a ledger. In a database, each process has a new ledger.
CREATE = """
import csv, os, sys
from dealkit import Client

options = {"ledger": sys.argv[1].replace("NEW", str(os.getpid())), "key": "email"} if sys.argv[1:] else {}
with open("agents.csv") as file, Client() as client:
    rows = ({**row, "profile": {}} for row in csv.DictReader(file))
    for creation in client.agents.create_many(rows, concurrency=%d, on_error="return", ordered=False, **options):
        assert creation.outcome == "succeeded", creation.error
"""
# One new row, with a ledger that has all other rows.
ONCE = """
from dealkit import Client

with Client() as client:
    agent = {"email": "one@example.com", "first_name": "A", "last_name": "B", "profile": {}}
    client.agents.create_once(idempotency_key="one@example.com", ledger="agents.ledger", **agent)
"""


def spent(command: list[str], url: str, folder: Path) -> tuple[float, float]:
    """Runs a command, which must succeed, and returns its seconds and MiB."""
    # Remove the files of the previous command.
    urlopen(Request(f"{url}/__sandbox/reset", b"{}", {"content-type": "application/json"})).close()
    begun = time.monotonic()
    env = {**os.environ, "DEALKIT_BASE_URL": url, "DEALKIT_SERVICE_KEY": KEY}
    with subprocess.Popen(
        command, cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return time.monotonic() - begun, usage.ru_maxrss / 1024


def compare(bench: Bench, name: str, jobs: dict[str, list[str]], url: str, folder: Path) -> None:
    """Prints the tables of time and memory of these jobs. The first job is compared with the others."""
    if not bench.is_selected(name):
        return
    seconds: dict[str, list[float]] = {job: [] for job in jobs}
    memory: dict[str, list[float]] = {job: [] for job in jobs}
    for _ in bench.rounds():
        for job, command in jobs.items():
            took, needed = spent(command, url, folder)
            seconds[job].append(took)
            memory[job].append(needed)
    bench.add(Table(name, f"Jobs: {name.removeprefix('jobs ')}", "s"), seconds)
    bench.add(Table(f"{name}, memory", f"Jobs: {name.removeprefix('jobs ')}", "MiB at most"), memory)


def measure_exports(bench: Bench, url: str, rows: int, folder: Path) -> None:
    with open(folder / "ids.txt", "w", encoding="utf-8") as ids:
        ids.writelines(f"g_{n}\n" for n in range(rows))

    def export(form: str) -> list[str]:
        return [
            *(*COMMAND, "deals", "export", "--ids", "ids.txt", "--out", f"deals.{form}"),
            *("--overwrite", "--concurrency", str(IN_FLIGHT)),
        ]

    of = f"{rows:,} deals, {IN_FLIGHT} in flight"
    loop = [sys.executable, "-c", LOOP]
    compare(bench, f"jobs export {of}, Parquet", {"dealkit": export("parquet"), "by hand": loop}, url, folder)
    compare(bench, f"jobs export {of}, CSV", {"dealkit": export("csv"), "as NDJSON": export("ndjson")}, url, folder)


def measure_imports(bench: Bench, url: str, rows: int, folder: Path) -> None:
    with open(folder / "agents.csv", "w", encoding="utf-8") as table:
        # Write row by row, because the memory of this process would count for the processes that it starts.
        table.write("email,first_name,last_name,phone\n")
        table.writelines(f"agent{n}@example.com,Ada,Lovelace,+4930{2000000 + n}\n" for n in range(rows))
    anew = ["sh", "-c", 'rm -f *.ledger* && exec "$@"', "sh"]

    def imported(*options: str) -> list[str]:
        return [*anew, *COMMAND, "agents", "import", "agents.csv", "--concurrency", str(IN_FLIGHT), *options]

    def created(in_flight: int, *ledger: str) -> list[str]:
        return [*anew, sys.executable, "-c", CREATE % in_flight, *ledger]

    with ExitStack() as stack:
        stores = {"without a ledger": [], "in a file": ["agents.ledger"]}
        if found := find_programs():
            database = stack.enter_context(Postgres(found, "bench"))
            stores["in PostgreSQL"] = [f"{database.url}?schema=bNEW"]
        for in_flight in (8, IN_FLIGHT):
            jobs = {name: created(in_flight, *ledger) for name, ledger in stores.items()}
            compare(bench, f"jobs ledger of {rows:,} rows, {in_flight} in flight", jobs, url, folder)
    by_hand = created(IN_FLIGHT, "agents.ledger")
    jobs = {"dealkit": imported("--yes"), "a dry run": imported("--dry-run"), "by hand": by_hand}
    compare(bench, f"jobs import {rows:,} rows, {IN_FLIGHT} in flight", jobs, url, folder)
    # The ledger is the last job's.
    once = {"one more row": [sys.executable, "-c", ONCE]}
    compare(bench, f"jobs ledger that has {rows:,} rows", once, url, folder)


def main() -> None:
    arguments = make_parser(__doc__, rounds=3)
    arguments.add_argument("server", type=Path, help="the program dealkit-server")
    arguments.add_argument("--rows", type=int, default=1_000_000, help="how many rows each job has")
    given = arguments.parse_args()
    bench = Bench(given)
    with tempfile.TemporaryDirectory() as name:
        with sandbox(given.server, given.rows) as url:
            measure_exports(bench, url, given.rows, Path(name))
            measure_imports(bench, url, given.rows, Path(name))
    bench.finish()


if __name__ == "__main__":
    main()
