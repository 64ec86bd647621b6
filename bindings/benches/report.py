"""Turns measurements into reports: tables in Markdown, all figures in JSON, and the figures for the site.

Usage: python report.py FOLDER; the results are in FOLDER/results, as the benchmarks in Rust and Python wrote them.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rounds import compute_ratios, format_markdown, quartiles

# The tables on the site, by language: the kind of work, the name of the table, and its peers.
PLAIN, REQWEST = "serde_json into String, f64, no dates", "reqwest + serde_json"
FRAME, TABLE = "10,000 deals into a data frame, 64 in flight", "python table of 10000 deals"
SHOWN: dict[str, list[tuple[str, str, list[str]]]] = {
    "Rust": [
        ("decode a deal of 4 KB", "rust decode typical", [PLAIN]),
        ("decode a deal of 1 MB", "rust decode large", [PLAIN]),
        ("`retrieve`, 1 in flight", "rust retrieve HTTP/1.1, 1 in flight", [REQWEST]),
        ("`retrieve`, 64 in flight", "rust retrieve HTTP/1.1, 64 in flight", [REQWEST]),
        ("`retrieve_many`, 64 in flight", "rust retrieve_many HTTP/1.1, 64 in flight", [f"{REQWEST}, buffered"]),
        ("`create`, 1 in flight", "rust create HTTP/1.1, 1 in flight", [REQWEST]),
        ("`create`, 64 in flight", "rust create HTTP/1.1, 64 in flight", [REQWEST]),
    ],
    "Python": [
        ("decode a deal of 4 KB, read every field", "python decode typical, every field", ["msgspec", "pydantic"]),
        ("decode a deal of 1 MB", "python decode large", ["msgspec", "pydantic"]),
        ("check and write a create", "python create", ["pydantic", "msgspec"]),
        ("`retrieve`", "python retrieve HTTP/1.1", ["pyreqwest + msgspec", "httpx + pydantic"]),
        (
            "`retrieve` with asyncio, 64 in flight",
            "python asyncio HTTP/1.1, 64 in flight",
            ["aiohttp + msgspec", "pyreqwest + msgspec"],
        ),
        ("`retrieve_many`, 64 in flight", "python retrieve_many HTTP/1.1, 64 in flight", ["aiohttp + msgspec"]),
        (FRAME, f"{TABLE}, aiohttp, CPU", ["aiohttp + msgspec + polars"]),
        (FRAME, f"{TABLE}, httpx, CPU", ["httpx + pydantic + pandas"]),
        ("`import`", "python import", ["httpx", "msgspec"]),
    ],
    "Sandbox": [
        ("GET", "server GET, CPU", ["bare hyper, fixed body"]),
        ("POST", "server POST, CPU", ["bare hyper, fixed body"]),
        ("GET", "server GET, mock servers, CPU", ["Prism", "FastAPI on uvicorn"]),
    ],
}
# Figures of the sandbox without a peer.
FIGURES = {
    "start to first response": "server start",
    "program": "server size",
    "resident memory": "server memory",
    "a stored agent of 589 bytes": "server bytes per stored agent: 100000",
}


def describe_machine() -> str:
    def describe(*command: str) -> str:
        try:
            return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
        except (OSError, subprocess.CalledProcessError):
            return f"{command[0]} unknown"

    rust = " ".join(describe("rustc", "--version").split()[:2])
    system = f"{platform.system()} {platform.machine()}"
    return f"{os.cpu_count()} cores, {system}, {rust}, CPython {platform.python_version()}"


def site_figures(tables: dict[str, Any], day: str) -> dict[str, Any]:
    """Returns the content of docs/speed/measured.json."""
    rows = []
    for language, what, name, peers in ((language, *shown) for language, of in SHOWN.items() for shown in of):
        for row in tables.get(name, {"rows": []})["rows"]:
            if row["name"] in peers:
                low, middle, high = (float(f"{ratio:.2g}") for ratio in quartiles(compute_ratios(tables[name], row)))
                figures = {"beside": row["name"], "ratio": middle, "quartiles": [low, high]}
                rows.append({"language": language, "what": what, **figures})
    sandbox = {
        what: f"{statistics.median(tables[name]['rows'][0]['values']):.3g} {tables[name]['unit']}"
        for what, name in FIGURES.items()
        if name in tables
    }
    return {
        "measured": day,
        "machine": describe_machine(),
        "rows": rows,
        "sandbox": sandbox,
        "curves": combine_curves(tables.values()),
    }


def combine_curves(tables: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Combines the tables that are points of a curve: for each contender, the position, lower quartile, median and upper quartile of
    each point."""
    found = defaultdict(list)
    for table in tables:
        if table["point"]:
            found[table["point"]["curve"]].append(table)
    return [
        combine_curve(title, sorted(points, key=lambda table: table["point"]["value"]))
        for title, points in found.items()
    ]


def combine_curve(title: str, points: list[dict[str, Any]]) -> dict[str, Any]:
    series = []
    for contender in [row["name"] for row in points[0]["rows"]]:
        points = [
            [table["point"]["value"], *(float(f"{value:.3g}") for value in quartiles(row["values"]))]
            for table in points
            for row in table["rows"]
            if row["name"] == contender
        ]
        series.append({"name": contender, "points": points})
    return {"title": title, "along": points[0]["point"]["along"], "unit": points[0]["unit"], "series": series}


def format_lines(document: dict[str, Any]) -> str:
    """Formats JSON with one line for each member and each element of a list."""
    members = []
    for name, value in document.items():
        if isinstance(value, list):
            elements = ",\n".join("  " + json.dumps(element, ensure_ascii=False) for element in value)
            members.append(f' "{name}": [\n{elements}\n ]')
        else:
            members.append(f' "{name}": {json.dumps(value, ensure_ascii=False)}')
    return "{\n" + ",\n".join(members) + "\n}\n"


def main() -> None:
    arguments = argparse.ArgumentParser(description="Write the tables of what was measured.")
    arguments.add_argument("folder", type=Path)
    folder = arguments.parse_args().folder
    results = [
        table for file in sorted((folder / "results").glob("*.json")) for table in json.loads(file.read_text("utf-8"))
    ]
    tables = {table["name"]: table for table in results}
    day = datetime.date.today().isoformat()
    head = f"# Measured on {day}\n\n{describe_machine()}. The ratio is dealkit's value divided by the row's, round by round.\n"
    (folder / "tables.md").write_text("\n\n".join([head, *map(format_markdown, results)]) + "\n", encoding="utf-8")
    document = {"measured": day, "machine": describe_machine(), "tables": results}
    (folder / "tables.json").write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (folder / "measured.json").write_text(format_lines(site_figures(tables, day)), encoding="utf-8")
    print(f"{folder}: tables.md, tables.json and measured.json")


if __name__ == "__main__":
    main()
