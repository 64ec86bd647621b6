"""Runs a few minutes of the benchmarks and compares them with ratios.json: a loss of more than 5 % fails.

The comparison covers decoding, validating, and whole calls on loopback, except for what the system does in them. What is
compared is the ratio of dealkit's instructions to those of a peer, counted by valgrind, which is nearly the same on every
machine and in every run; the ratio of their CPU time, which is not, is shown beside it.

Usage: python quick.py FOLDER_OF_THE_PROGRAMS [--update]
"""

from __future__ import annotations

import argparse
import json
import math
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rounds import ratios

HERE = Path(__file__).parent
COMMITTED = HERE / "ratios.json"
LOSS = 1.05


@dataclass(frozen=True)
class Compared:
    """A table from a program, and the peer in it that dealkit is compared with."""

    program: str
    table: str
    peer: str


PLAIN = "serde_json into String, f64, no dates"
COMPARED = [
    Compared("decode", "rust decode typical", PLAIN),
    Compared("decode", "rust decode large", PLAIN),
    Compared("create", "rust create", "serde_json, no validation"),
    Compared("calls", "rust retrieve HTTP/1.1, 1 in flight", "reqwest + serde_json"),
    Compared("calls", "rust create HTTP/1.1, 1 in flight", "reqwest + serde_json"),
    Compared("calls", "rust create HTTP/1.1, 16 in flight", "reqwest + serde_json"),
    Compared("calls", "rust create HTTP/1.1, 64 in flight", "reqwest + serde_json"),
    Compared("calls", "rust retrieve_many HTTP/1.1, 64 in flight", "reqwest, read by dealkit, buffered"),
    Compared("decode.py", "python decode typical", "msgspec"),
    Compared("decode.py", "python decode typical, every field", "msgspec"),
    Compared("decode.py", "python decode new decimals", "msgspec"),
    Compared("decode.py", "python decode large", "msgspec"),
    Compared("create.py", "python create", "msgspec"),
    Compared("calls.py", "python retrieve HTTP/1.1", "pyreqwest + msgspec"),
    Compared("calls.py", "python retrieve_many HTTP/1.1, 64 in flight", "aiohttp + msgspec"),
]


def command(programs: Path, compared: Compared) -> list[str]:
    only = ["--only", compared.table]
    if compared.program == "calls.py":
        only.insert(0, str(programs / "service"))
    if compared.program.endswith(".py"):
        return [sys.executable, str(HERE / compared.program), *only]
    return [str(programs / compared.program), *only]


def by_time(programs: Path, compared: Compared) -> float:
    """The ratio of dealkit's CPU time to that of the peer."""
    with tempfile.NamedTemporaryFile("r", suffix=".json", encoding="utf-8") as results:
        arguments = [*command(programs, compared), "--rounds", "15", "--results", results.name]
        subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL)
        tables = {table["name"]: table for table in json.load(results)}
    table = tables[compared.table]
    [peer] = [row for row in table["rows"] if row["name"] == compared.peer]
    return statistics.median(ratios(table, peer))


def by_instructions(programs: Path, compared: Compared) -> float:
    """The ratio of dealkit's instructions to those of the peer."""
    ours, its = (instructions(programs, compared, contender) for contender in ("dealkit", compared.peer))
    return ours / its


def instructions(programs: Path, compared: Compared, contender: str) -> int:
    """Instructions of one turn."""
    valgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "--instr-atstart=no"]
    run = [*valgrind, *command(programs, compared), "--run", contender]
    done = subprocess.run(run, capture_output=True, text=True)
    collected = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or collected is None:
        sys.exit(f"{compared.table}: {contender}: valgrind ended with {done.returncode}:\n{done.stderr}")
    return int(collected[1])


def main() -> None:
    arguments = argparse.ArgumentParser(description="Compare with the ratios of ratios.json.")
    arguments.add_argument("programs", type=Path, help="the folder with the benchmarks in Rust")
    arguments.add_argument("--update", action="store_true", help="write ratios.json instead of comparing")
    given = arguments.parse_args()
    if not shutil.which("valgrind"):
        sys.exit("bench-quick: valgrind is needed, which counts instructions (Debian: apt-get install valgrind)")
    committed: dict[str, float] = json.loads(COMMITTED.read_text("utf-8")) if COMMITTED.exists() else {}
    found: dict[str, float] = {}
    lost = []
    print("| dealkit to the peer | instructions then | now | | CPU time |\n|---|--:|--:|---|--:|")
    for compared in COMPARED:
        name = compared.table
        now, then = by_instructions(given.programs, compared), committed.get(name, math.inf)
        time = by_time(given.programs, compared)
        found[name] = round(now, 3)
        is_new = then == math.inf
        verdict = "lost" if now > then * LOSS else "new" if is_new else "gained" if now < then / LOSS else ""
        if verdict == "lost":
            lost.append(name)
        shown = "" if is_new else f"{then:.2f}"
        print(f"| {name}, {compared.peer} | {shown} | {now:.2f} | {verdict} | {time:.2f} |", flush=True)
    if given.update:
        COMMITTED.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    elif missing := [name for name in found if name not in committed]:
        sys.exit(f"bench-quick: {COMMITTED.name} lacks {', '.join(missing)}: make bench-ratios writes them")
    elif lost:
        sys.exit(f"bench-quick: more than 5 % slower than committed: {', '.join(lost)}")


if __name__ == "__main__":
    main()
