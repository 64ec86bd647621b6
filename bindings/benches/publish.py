"""Puts the results of `make bench` into the page about performance: figures with their date and machine.

Usage: python publish.py FOLDER, the output folder of report.py
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SITE = ROOT / "docs" / "speed" / "measured.json"
PAGE = ROOT / "docs" / "speed.md"
# Figures that a code host shows, each compared with its first peer, including figures in which dealkit is slower.
HEADLINES = [
    ("Rust", "decode a deal of 4 KB"),
    ("Rust", "`retrieve`, 64 in flight"),
    ("Rust", "`create`, 1 in flight"),
    ("Python", "decode a deal of 4 KB, read every field"),
    ("Python", "`retrieve`"),
    ("Python", "`retrieve_many`, 64 in flight"),
    ("Python", "check and write a create"),
    ("Sandbox", "GET"),
]


def render_section(measured: dict[str, Any]) -> str:
    """Returns the text for the marked section of the page."""
    lines = [
        "CPU time of dealkit, divided by that of another library for the same work: lower is better, and above 1, dealkit uses more. "
        f"Measured: {measured['measured']}. Machine: {measured['machine']}.",
        "",
        "| language | work | compared with | ratio |",
        "|---|---|---|--:|",
    ]
    for language, what in HEADLINES:
        for row in measured["rows"]:
            if (row["language"], row["what"]) == (language, what):
                lines.append(f"| {language} | {what} | {row['beside']} | {row['ratio']:.2f} |")
                break
    return "\n".join(lines)


def replace_sections(text: str, measured: dict[str, Any]) -> str:
    """Returns the page with these figures."""
    mark = re.compile(r"(<!-- figures -->\n).*?(\n<!-- end -->)", re.DOTALL)
    written, sections = mark.subn(lambda found: found[1] + render_section(measured) + found[2], text)
    assert sections == 1, "docs/speed.md has no place for figures"
    return written


def main() -> None:
    arguments = argparse.ArgumentParser(description="Put the measured figures into the page about performance.")
    arguments.add_argument("folder", type=Path, help="where report.py has written, such as target/bench")
    folder = arguments.parse_args().folder
    measured = json.loads((folder / "measured.json").read_text("utf-8"))
    shutil.copyfile(folder / "measured.json", SITE)
    PAGE.write_text(replace_sections(PAGE.read_text("utf-8"), measured), encoding="utf-8")
    print(
        f"publish: {SITE.relative_to(ROOT)} and {PAGE.relative_to(ROOT)} show the figures measured on {measured['measured']}"
    )


if __name__ == "__main__":
    main()
