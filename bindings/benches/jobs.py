"""Jobs of a million rows, as the command does them and as people write them by hand: how long they take, and the memory
that they need at most. Each runs in a process of its own, as do the sandbox and whatever else it needs.

Usage: python jobs.py path/to/dealkit-server [--rows N] [--rounds N] [--only NAME] [--results FILE]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from processes import KEY, sandbox
from rounds import Bench, Table, parser

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


def spent(command: list[str], url: str, folder: Path) -> tuple[float, float]:
    """The seconds and the MiB that a command takes, which must succeed."""
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
    """Two tables of the same jobs. The first one is measured by the others."""
    if not bench.wants(name):
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
    (folder / "ids.txt").write_text("".join(f"g_{n}\n" for n in range(rows)))

    def export(form: str) -> list[str]:
        return [
            *(*COMMAND, "deals", "export", "--ids", "ids.txt", "--out", f"deals.{form}"),
            *("--overwrite", "--concurrency", str(IN_FLIGHT)),
        ]

    of = f"{rows:,} deals, {IN_FLIGHT} in flight"
    loop = [sys.executable, "-c", LOOP]
    compare(bench, f"jobs export {of}, Parquet", {"dealkit": export("parquet"), "by hand": loop}, url, folder)
    compare(bench, f"jobs export {of}, CSV", {"dealkit": export("csv"), "as NDJSON": export("ndjson")}, url, folder)


def main() -> None:
    arguments = parser(__doc__, rounds=3)
    arguments.add_argument("server", type=Path, help="the program dealkit-server")
    arguments.add_argument("--rows", type=int, default=1_000_000, help="how many rows each job has")
    given = arguments.parse_args()
    bench = Bench(given)
    with tempfile.TemporaryDirectory() as name:
        with sandbox(given.server, given.rows) as url:
            measure_exports(bench, url, given.rows, Path(name))
    bench.finish()


if __name__ == "__main__":
    main()
