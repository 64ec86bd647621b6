"""The ids of deals, read from a file."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from dealkit._cli.exits import Failed
from dealkit._cli.files import named, read_text
from dealkit._cli.table_file import as_it_was, csv_line, harmless, header_line, letters, listed, read_table

_TABLES = (".csv", ".tsv")

# The names that the column may have, letters only.
_NAMES = ("id", "dealid")

_FAILED_COLUMNS = ["id", "kind", "status", "outcome", "message"]

FAILED_HEADER = header_line(_FAILED_COLUMNS).encode()
"""The first line of the list of deals that could not be retrieved, which is itself a file of ids."""


def failed_line(cells: list[str]) -> bytes:
    """A line of that list."""
    return csv_line(map(harmless, cells)).encode()


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
        # Not splitlines(), which splits at characters that an id may hold.
        found = [id for line in read_text(source)[0].split("\n") if (id := line.strip())]
    ids = list(dict.fromkeys(found))
    if not ids:
        raise Failed(f"there are no ids in {named(source)}")
    return Ids(ids, len(found) - len(ids), column)


def _column(path: Path) -> tuple[str, list[str]]:
    table = read_table(path)
    fitting = [at for at, name in enumerate(table.header) if letters(name) in _NAMES]
    if len(fitting) != 1:
        raise Failed(_which_column(path, table.header, [table.header[at] for at in fitting]))
    (at,) = fitting
    ids = [row.cells[at] for row in table.rows if at < len(row.cells) and row.cells[at]]
    return table.header[at], [as_it_was(id) for id in ids] if table.header == _FAILED_COLUMNS else ids


def _which_column(path: Path, header: list[str], fitting: list[str]) -> str:
    """Why no column, or more than one, can hold the ids, and what to do."""
    if fitting:
        return f"{named(path)}: the ids could be in any of the columns {listed(fitting)}; keep only one of them"
    text = f"{named(path)} must have a column named id or deal_id in its first row; "
    if len(header) == 1:
        # If there is no header, the first line is an id.
        return text + "put a list of ids without a header into a file that ends in .txt"
    return text + f"it has {listed(header)}. Rename the one that holds the ids"
