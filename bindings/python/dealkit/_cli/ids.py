"""The ids of deals, read from files."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from dealkit._cli.exits import Failed
from dealkit._cli.files import lines_of, named, temporary_database
from dealkit._cli.formats import COLUMNS, with_pyarrow
from dealkit._cli.tables import as_it_was, listed, plain, read_table, unprotect

# Characters of a table's row or of JSON, which an id hardly has.
_NO_ID = re.compile(r"[\s,;{}\[\]\"]")

FAILED_COLUMNS = ["id", "kind", "status", "outcome", "message"]
"""The list of deals that could not be retrieved, which is itself a file of ids."""


class Ids:
    """Different ids, in order. They are in a temporary file: in memory, a million of them would take more than the deals
    that are in flight."""

    def __init__(self, given: Iterable[str]) -> None:
        self._file = temporary_database("CREATE TABLE ids (at INTEGER PRIMARY KEY, id TEXT UNIQUE)")
        # They are numbered from 1, without a gap where one is repeated.
        rows = self._file.executemany("INSERT OR IGNORE INTO ids (id) VALUES (?)", ((id,) for id in given))
        self._number = rows.rowcount

    def __len__(self) -> int:
        return self._number

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


def ids_in(source: str) -> Iterator[str]:
    """Reads the ids in a file: one per line, in a table's column `id` or `deal_id`, in JSON, or those of the deals in an export. A
    list of failures has those of deals that may exist.
    """
    path = Path(source)
    try:
        match path.suffix.lower():
            case ".csv" | ".tsv":
                yield from _in_table(path)
            case ".ndjson" | ".jsonl":
                yield from (_id_of(json.loads(line)) for line in lines_of(path) if line.strip())
            case ".json":
                found = json.loads("".join(lines_of(path)))
                yield from map(_id_of, found if isinstance(found, list) else [found])
            case ".parquet":
                with with_pyarrow().parquet.ParquetFile(path) as file:
                    for batch in file.iter_batches(columns=["id"]):
                        yield from batch["id"].to_pylist()
            case _:
                yield from _in_lines(source)
    except OSError as error:
        raise Failed(f"{named(path)} cannot be read: {error.strerror or error}") from None
    except (ValueError, TypeError, KeyError):
        raise Failed(f"{named(path)} must contain ids, or deals with their ids, as an export does") from None


def _id_of(entry: Any) -> str:
    """Returns the id that is an entry of a JSON file, or that of a deal."""
    id = entry if isinstance(entry, str) else entry["id"]
    if not isinstance(id, str):
        raise TypeError
    return id


def _in_lines(source: str) -> Iterator[str]:
    """Reads ids, one per line. Rejects a line that looks like JSON or like a row of a table: it may be a person's data, and
    would become part of the path of a request.
    """
    for number, line in enumerate(lines_of(source), 1):
        id = line.strip()
        if _NO_ID.search(id):
            raise Failed(
                f"{named(source)}: line {number} does not look like an id: it contains a space, a comma, a quotation mark or a "
                "bracket. Put one id on each line. If it is a table or JSON, name the file .csv, .tsv, .json or .jsonl. If its "
                "ids really look like this, put them into a .csv file with a column named id"
            )
        if id:
            yield id


def _in_table(path: Path) -> Iterator[str]:
    header, rows, _ = read_table(path)
    fitting = [at for at, name in enumerate(header) if plain(name) in ("id", "dealid")]
    if len(fitting) != 1:
        # Without a header, the only column begins with an id, which is not shown.
        has = f"it has {listed(header)}" if len(header) > 1 else "put a list without one into a .txt file"
        raise Failed(f"{named(path)} must have one column named id or deal_id in its first row; {has}")
    is_list = header == FAILED_COLUMNS
    text = unprotect if is_list else as_it_was if header == [*COLUMNS] else str
    for _, cells in rows:
        is_final = is_list and is_missing("".join(cells[2:3]))
        if not is_final and (id := "".join(cells[fitting[0] : fitting[0] + 1])):
            yield text(id)


def is_missing(status: str) -> bool:
    """Whether a deal does not exist: no other run finds it."""
    return status in ("404", "410")
