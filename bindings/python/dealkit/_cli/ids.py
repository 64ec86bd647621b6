"""The ids of deals, read from files."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path

from dealkit._cli.exits import Failed
from dealkit._cli.files import lines_of, named
from dealkit._cli.formats import with_pyarrow
from dealkit._cli.screen import counted, tell
from dealkit._cli.tables import as_it_was, letters, listed, read_table
from dealkit._cli.temporary import not_kept, temporary_database

# The names that the column may have, letters only.
_NAMES = ("id", "dealid")

FAILED_COLUMNS = ["id", "kind", "status", "outcome", "message"]
"""The list of deals that could not be retrieved, which is itself a file of ids."""


class Ids:
    """Different ids, in order. They are in a temporary file: in memory, a million of them would take more than the deals
    that are in flight."""

    def __init__(self, given: Iterable[str]) -> None:
        self._file = temporary_database("CREATE TABLE ids (at INTEGER PRIMARY KEY, id TEXT UNIQUE)")
        numbers = count()
        rows = ((id,) for id, _ in zip(given, numbers, strict=False))
        try:
            # They are numbered from 1, without a gap where one is repeated.
            self._number = self._file.executemany("INSERT OR IGNORE INTO ids (id) VALUES (?)", rows).rowcount
        except sqlite3.Error as error:
            raise not_kept("ids", error) from None
        self.repeated = next(numbers) - self._number
        """How many ids were the same as an earlier one."""

    def __len__(self) -> int:
        return self._number

    def __getitem__(self, at: int) -> str:
        return next(self.since(at))

    def since(self, at: int) -> Iterator[str]:
        """The ids from this position on, which is counted from 0."""
        return (id for (id,) in self._file.execute("SELECT id FROM ids WHERE at > ? ORDER BY at", (at,)))

    def without(self, known: Iterable[str]) -> Ids:
        """The ids that are not among these."""
        self._file.executemany("DELETE FROM ids WHERE id = ?", ((id,) for id in known))
        return Ids(self.since(0))

    def digest(self) -> str:
        """A hash of the ids and their order."""
        hashed = hashlib.sha256()
        for id in self.since(0):
            hashed.update(json.dumps(id).encode())
        return hashed.hexdigest()


def read_ids(source: str) -> tuple[Ids, str | None]:
    """The ids in a file with one per line, in the column `id` or `deal_id` of a table, or on standard input; and the
    column."""
    path, column = Path(source), None
    if path.suffix.lower() in (".csv", ".tsv"):
        rows, at, header = _column(path)
        column = header[at]
        if header == FAILED_COLUMNS:
            return Ids(_existing(rows, at)), column
        ids = Ids(cells[at] for cells in rows)
    else:
        ids = Ids(id for line in lines_of(source)[0] if (id := line.strip()))
    if not ids:
        raise Failed(f"there are no ids in {named(source)}")
    return ids, column


def _existing(rows: Iterator[list[str]], at: int) -> Iterator[str]:
    """The ids in a list of failures, without those of deals that do not exist."""
    missing = 0
    for cells in rows:
        if is_missing("".join(cells[2:3])):
            missing += 1
        else:
            yield as_it_was(cells[at])
    if missing:
        tell(f"{counted(missing, 'id')} skipped: the service has said that there is no such deal")


def is_missing(status: str) -> bool:
    """Whether a deal does not exist: no other run finds it."""
    return status in ("404", "410")


def exported_ids(source: str) -> Iterator[str]:
    """The ids of the deals in a file that an export has written."""
    path = Path(source)
    try:
        match path.suffix.lower():
            case ".parquet":
                with with_pyarrow().parquet.ParquetFile(path) as file:
                    for batch in file.iter_batches(columns=["id"]):
                        yield from batch["id"].to_pylist()
            case ".ndjson":
                with open(path, "rb") as lines:
                    yield from (json.loads(line)["id"] for line in lines)
            case _:
                # A CSV file of an export has more columns than a list of ids, and its texts are harmless to spreadsheets.
                rows, at, _ = _column(path)
                yield from (as_it_was(cells[at]) for cells in rows)
    except OSError as error:
        raise Failed(f"{named(path)} cannot be read: {error.strerror or error}") from None
    except (ValueError, TypeError, KeyError):
        raise Failed(
            f"{named(path)} is not a file of an export: --skip-known takes what an export has written"
        ) from None


def _column(path: Path) -> tuple[Iterator[list[str]], int, list[str]]:
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
    return (row.cells for row in table.rows if at < len(row.cells) and row.cells[at]), at, table.header
