"""The ids of deals, read from a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

from dealkit._cli.exits import Failed
from dealkit._cli.screen import safe
from dealkit._cli.table_file import letters, read_bytes, read_table

STANDARD_INPUT = "-"

_TABLES = (".csv", ".tsv")

# The names that the column may have, letters only.
_NAMES = ("id", "dealid")


class Ids(NamedTuple):
    """Ids, each once, in the order of the file."""

    ids: list[str]
    duplicates: int
    """How many more there were that repeat an earlier one."""
    column: str | None
    """The column that they come from, if the file is a table."""


def read_ids(source: str) -> Ids:
    """The ids in a file with one per line, in the column `id` or `deal_id` of a table, or on standard input."""
    path = Path(source)
    column = None
    if path.suffix.lower() in _TABLES:
        column, found = _column(path)
    else:
        found = _lines(source)
    ids = list(dict.fromkeys(found))
    if not ids:
        raise Failed(f"there are no ids in {_name(source)}")
    return Ids(ids, len(found) - len(ids), column)


def _lines(source: str) -> list[str]:
    data = sys.stdin.buffer.read() if source == STANDARD_INPUT else read_bytes(Path(source))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Failed(f"{_name(source)}: line {line} is not UTF-8") from None
    # Not splitlines(), which splits at characters that an id may hold.
    return [id for line in text.split("\n") if (id := line.strip())]


def _column(path: Path) -> tuple[str, list[str]]:
    table = read_table(path)
    fitting = [at for at, name in enumerate(table.header) if letters(name) in _NAMES]
    if len(fitting) != 1:
        raise Failed(_which_column(path, table.header, [table.header[at] for at in fitting]))
    (at,) = fitting
    return table.header[at], [row.cells[at] for row in table.rows if at < len(row.cells) and row.cells[at]]


def _which_column(path: Path, header: list[str], fitting: list[str]) -> str:
    """Why no column, or more than one, can hold the ids, and what to do."""
    if fitting:
        return f"{path}: the ids could be in any of the columns {_listed(fitting)}; keep only one of them"
    text = f"{path} must have a column named id or deal_id in its first row; "
    if len(header) == 1:
        # If there is no header, the first line is an id.
        return text + "put a list of ids without a header into a file that ends in .txt"
    return text + f"it has {_listed(header)}. Rename the one that holds the ids"


def _listed(names: list[str]) -> str:
    return ", ".join(safe(name) or "(no name)" for name in names)


def _name(source: str) -> str:
    return "standard input" if source == STANDARD_INPUT else source
