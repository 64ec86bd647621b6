"""Comparative measurements: the contenders run alternately in rounds, and each ratio is computed within a round.

A busy machine slows down a whole round, but not the ratios within it. The tables show the median of the rounds and, in the last
column, the quartiles of the ratios. The benchmarks in Rust work in the same way, and write the same format.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Runs a contender once, and returns the seconds per unit of work, by any clock.
MeasuredTask = Callable[[], float]


@dataclass(frozen=True)
class Table:
    """The description of a table."""

    name: str
    """The name, the same in every run."""
    title: str
    """The title: a description of the measurement."""
    unit: str
    """The unit of a value, such as ``µs CPU``."""
    point: dict[str, Any] | None = None
    """The table's point on a curve: the curve's name, the variable along it, and its value here."""


def point(curve: str, along: str, value: int, unit: str) -> Table:
    return Table(
        f"{curve}: {value}",
        f"{curve}: {value} {along}",
        unit,
        {"curve": curve, "along": along, "value": value},
    )


def make_parser(description: str | None, rounds: int) -> argparse.ArgumentParser:
    """Returns a parser of the arguments of every benchmark."""
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=rounds, help="rounds of each table")
    parser.add_argument(
        "--seconds",
        type=float,
        default=30,
        help="after so many seconds a table gets no more rounds; it has one at least",
    )
    parser.add_argument("--only", default="", metavar="NAME", help="only the tables whose name starts so")
    parser.add_argument("--results", type=Path, metavar="FILE", help="where to write what was measured, in JSON")
    parser.add_argument(
        "--run",
        metavar="CONTENDER",
        help="run this contender of the first table alone, twice, and measure nothing: for a profiler",
    )
    return parser


class Bench:
    """The tables of a program. Each table is written as soon as it is measured."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._tables: list[dict[str, Any]] = []

    def is_selected(self, name: str) -> bool:
        """Returns whether the table is selected."""
        return name.startswith(self._arguments.only)

    def compare(self, table: Table, contenders: Mapping[str, MeasuredTask], rounds: int | None = None) -> None:
        """Measures and prints a table. The first contender is dealkit; the ratios are its time divided by each other contender's."""
        if not self.is_selected(table.name):
            return
        if self._arguments.run is not None:
            run = contenders.get(self._arguments.run)
            if run is None:
                sys.exit(f"{table.name}: no contender is called {self._arguments.run}")
            run()  # Warm up.
            count_instructions()
            run()
            # Skip the shutdown of the interpreter.
            os._exit(0)
        times: dict[str, list[float]] = {name: [] for name in contenders}
        scale = 1e3 if table.unit.startswith("ms") else 1e6
        for run in contenders.values():
            run()  # Warm up.
        for _ in self.rounds(rounds):
            for name, run in contenders.items():
                gc.collect()
                times[name].append(run() * scale)
        self.add(table, times)

    def rounds(self, most: int | None = None) -> Iterator[int]:
        """Yields the rounds of a table until its time limit."""
        end = time.monotonic() + self._arguments.seconds
        for number in range(min(most or self._arguments.rounds, self._arguments.rounds)):
            if number > 0 and time.monotonic() > end:
                return
            yield number

    def add(self, table: Table, values: Mapping[str, Sequence[float]]) -> None:
        """Adds and prints a table with values from another measurement. The first row is dealkit's."""
        rows = [{"name": name, "values": list(of_one)} for name, of_one in values.items()]
        made = {"name": table.name, "title": table.title, "unit": table.unit, "point": table.point, "rows": rows}
        self._tables.append(made)
        if self._arguments.results is not None:
            self._arguments.results.write_text(json.dumps(self._tables), encoding="utf-8")
        print(f"\n{format_markdown(made)}", flush=True)

    def finish(self) -> None:
        """Fails if no table was measured."""
        if not self._tables:
            sys.exit(f"no table is called {self._arguments.only}")


def count_instructions() -> None:
    """Starts counting instructions, if the program runs under callgrind with ``--instr-atstart=no``. Counting the loading of Python and
    the peers, too, would take minutes."""
    if "valgrind" in os.environ.get("LD_PRELOAD", ""):
        control = ["callgrind_control", "--instr=on", str(os.getpid())]
        subprocess.run(control, check=True, stdout=subprocess.DEVNULL)


def compute_ratios(table: Mapping[str, Any], row: Mapping[str, Any]) -> list[float]:
    """Returns the ratios of dealkit's values to the row's, one for each round."""
    return [ours / its for ours, its in zip(table["rows"][0]["values"], row["values"], strict=True)]


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def format_number(value: float) -> str:
    """Formats a value with at least three digits."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}" if value >= 100 else f"{value:.2f}"


def format_markdown(table: Mapping[str, Any]) -> str:
    """Formats a table as Markdown."""
    rounds = len(table["rows"][0]["values"])
    width = max(len(row["name"]) for row in table["rows"])
    lines = [
        f"{table['title']}  ({rounds} {'round' if rounds == 1 else 'rounds'})",
        "",
        f"| {'':{width}} | {table['unit']:>13} | ratio | quartiles     |",
        f"|{'-' * (width + 2)}|{'-' * 14}:|------:|---------------|",
    ]
    for row in table["rows"]:
        low, middle, high = quartiles(compute_ratios(table, row))
        median = format_number(statistics.median(row["values"]))
        lines.append(f"| {row['name']:{width}} | {median:>13} | {middle:5.2f} | {low:5.2f} - {high:5.2f} |")
    return "\n".join(lines)
