"""The ids of deals that somebody has in a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

from dealkit._cli.exits import Failed
from dealkit._cli.table_file import read_bytes, read_table

STANDARD_INPUT = "-"


class Ids(NamedTuple):
    """Ids, each once, in the order of the file."""

    ids: list[str]
    duplicates: int
    """How many more there were that had come before."""


def read_ids(source: str) -> Ids:
    """The ids of a file with one a line, of the column `id` of a .csv file, or of standard input."""
    path = Path(source)
    found = _column(path) if path.suffix.lower() == ".csv" else _lines(source)
    ids = list(dict.fromkeys(found))
    if not ids:
        raise Failed(f"there is no id in {_name(source)}")
    return Ids(ids, len(found) - len(ids))


def _lines(source: str) -> list[str]:
    data = sys.stdin.buffer.read() if source == STANDARD_INPUT else read_bytes(Path(source))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Failed(f"{_name(source)}: line {line} is not UTF-8") from None
    # Not splitlines(), which splits at characters that an id may hold.
    return [id for line in text.split("\n") if (id := line.strip())]


def _column(path: Path) -> list[str]:
    table = read_table(path)
    if table.header.count("id") != 1:
        raise Failed(f"{path} must have one column with the name id in its first row")
    at = table.header.index("id")
    return [row.cells[at] for row in table.rows if at < len(row.cells) and row.cells[at]]


def _name(source: str) -> str:
    return "standard input" if source == STANDARD_INPUT else source
