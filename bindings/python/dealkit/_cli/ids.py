"""The ids of deals, read from files."""

from __future__ import annotations

import json
from pathlib import Path

from dealkit._cli.exits import Failed
from dealkit._cli.files import lines_of, named
from dealkit._cli.formats import with_pyarrow
from dealkit._cli.screen import counted, tell
from dealkit._cli.tables import as_it_was, letters, listed, read_table

# The names that the column may have, letters only.
_NAMES = ("id", "dealid")

FAILED_COLUMNS = ["id", "kind", "status", "outcome", "message"]
"""The list of deals that could not be retrieved, which is itself a file of ids."""


def read_ids(source: str) -> tuple[list[str], str | None]:
    """The ids in a file with one per line, in the column `id` or `deal_id` of a table, or on standard input; and the
    column."""
    path, column = Path(source), None
    if path.suffix.lower() in (".csv", ".tsv"):
        rows, at, header = _column(path)
        found, column = [cells[at] for cells in rows], header[at]
        if header == FAILED_COLUMNS and found:
            found = [as_it_was(cells[at]) for cells in rows if not is_missing("".join(cells[2:3]))]
            if missing := len(rows) - len(found):
                tell(f"{counted(missing, 'id')} skipped: the service has said that there is no such deal")
            return found, column
    else:
        found = [id for line in lines_of(source)[0] if (id := line.strip())]
    if not found:
        raise Failed(f"there are no ids in {named(source)}")
    return found, column


def is_missing(status: str) -> bool:
    """Whether a deal does not exist: no other run finds it."""
    return status in ("404", "410")


def exported_ids(source: str) -> set[str]:
    """The ids of the deals in a file that an export has written."""
    path = Path(source)
    try:
        match path.suffix.lower():
            case ".parquet":
                return {*with_pyarrow().parquet.read_table(path, columns=["id"])["id"].to_pylist()}
            case ".ndjson":
                with open(path, "rb") as lines:
                    return {json.loads(line)["id"] for line in lines}
    except OSError as error:
        raise Failed(f"{named(path)} cannot be read: {error.strerror or error}") from None
    except (ValueError, TypeError, KeyError):
        raise Failed(
            f"{named(path)} is not a file of an export: --skip-known takes what an export has written"
        ) from None
    # A CSV file of an export has more columns than a list of ids, and its texts are harmless to spreadsheets.
    rows, at, _ = _column(path)
    return {as_it_was(cells[at]) for cells in rows}


def _column(path: Path) -> tuple[list[list[str]], int, list[str]]:
    """The rows of a table that have an id, where in them it is, and the header."""
    table = read_table(path)
    fitting = [at for at, name in enumerate(table.header) if letters(name) in _NAMES]
    if len(fitting) != 1:
        # Without a header, the only column begins with an id, which is not shown.
        has = (
            f"it has {listed(table.header)}"
            if len(table.header) > 1
            else "put a list without one into a file that ends in .txt"
        )
        raise Failed(f"{named(path)} must have one column named id or deal_id in its first row; {has}")
    (at,) = fitting
    return [row.cells for row in table.rows if at < len(row.cells) and row.cells[at]], at, table.header
