"""Runs a few minutes of the benchmarks and compares them with ratios.json: a loss of more than 15 % fails.

The comparison covers the work of one thread, decoding and validating, whose ratios to a peer are steady on a busy
machine: by CPU time and, in Rust and if valgrind is installed, by instructions, which do not vary at all. An apparent
loss is measured once more.

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
LOSS = 1.15


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
    Compared("decode.py", "python decode typical", "msgspec"),
    Compared("decode.py", "python decode typical, every field", "msgspec"),
    Compared("decode.py", "python decode new decimals", "msgspec"),
    Compared("decode.py", "python decode large", "msgspec"),
    Compared("create.py", "python create", "msgspec"),
]


def command(programs: Path, compared: Compared) -> list[str]:
    if compared.program.endswith(".py"):
        return [sys.executable, str(HERE / compared.program), "--only", compared.table]
    return [str(programs / compared.program), "--only", compared.table]


def by_time(programs: Path, compared: Compared) -> float:
    """The ratio of dealkit's CPU time to that of the peer."""
    with tempfile.NamedTemporaryFile("r", suffix=".json", encoding="utf-8") as results:
        arguments = [*command(programs, compared), "--rounds", "15", "--results", results.name]
        subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL)
        tables = {table["name"]: table for table in json.load(results)}
    table = tables[compared.table]
    [peer] = [row for row in table["rows"] if row["name"] == compared.peer]
    return statistics.median(ratios(table, peer))


def instructions(programs: Path, compared: Compared, contender: str) -> int:
    """Instructions of one turn: what a second turn adds to those of a program that makes one."""

    def counted(turns: int) -> int:
        valgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
        run = ["--run", contender, "--turns", str(turns)]
        done = subprocess.run([*valgrind, *command(programs, compared), *run], capture_output=True, text=True)
        collected = re.search(r"Collected : (\d+)", done.stderr)
        if done.returncode or collected is None:
            sys.exit(f"{compared.table}: {contender}: valgrind ended with {done.returncode}:\n{done.stderr}")
        return int(collected[1])

    return counted(2) - counted(1)


def by_instructions(programs: Path, compared: Compared) -> float:
    return instructions(programs, compared, "dealkit") / instructions(programs, compared, compared.peer)


def main() -> None:
    arguments = argparse.ArgumentParser(description="Compare with the ratios of ratios.json.")
    arguments.add_argument("programs", type=Path, help="the folder with the benchmarks in Rust")
    arguments.add_argument("--update", action="store_true", help="write ratios.json instead of comparing")
    given = arguments.parse_args()
    methods = {"CPU": by_time}
    if shutil.which("valgrind"):
        methods["instructions"] = by_instructions
    else:
        print("bench-quick: without valgrind no instructions are counted (Debian: apt-get install valgrind)")
    committed: dict[str, float] = json.loads(COMMITTED.read_text("utf-8")) if COMMITTED.exists() else {}
    found: dict[str, float] = {}
    lost = []
    print("| dealkit to the peer | by | then | now | |\n|---|---|---|---|---|")
    for compared in COMPARED:
        for method, measure in methods.items():
            # Starting Python under valgrind takes minutes.
            if method == "instructions" and compared.program.endswith(".py"):
                continue
            name = f"{compared.table}, {method}"
            # A table without a ratio yet cannot have lost anything; that is reported below.
            now, then = measure(given.programs, compared), committed.get(name, math.inf)
            if now > then * LOSS and not given.update:
                now = min(now, measure(given.programs, compared))
            is_lost = now > then * LOSS
            found[name] = round(now, 3)
            is_new = then == math.inf
            verdict = "lost" if is_lost else "new" if is_new else "gained" if now < then / LOSS else ""
            if is_lost:
                lost.append(name)
            print(
                f"| {compared.table}, {compared.peer} | {method} | {'' if is_new else f'{then:.2f}'} | {now:.2f} | {verdict} |",
                flush=True,
            )
    if given.update:
        COMMITTED.write_text(json.dumps({**committed, **found}, indent=2) + "\n", encoding="utf-8")
    elif missing := [name for name in found if name not in committed]:
        sys.exit(f"bench-quick: {COMMITTED.name} lacks {', '.join(missing)}: make bench-ratios writes them")
    elif lost:
        sys.exit(f"bench-quick: more than 15 % slower than committed: {', '.join(lost)}")


if __name__ == "__main__":
    main()
