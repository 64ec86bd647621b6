"""Reads the ids of deals from files."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from dealkit._cli.csv_tables import (
    TableRow,
    list_column_names,
    normalize_column_name,
    read_table,
    unescape_formula,
    unescape_key,
)
from dealkit._cli.excel_tables import is_workbook, read_sheet
from dealkit._cli.exit_codes import CommandError
from dealkit._cli.export_formats import COLUMNS, import_pyarrow
from dealkit._cli.files import STANDARD_INPUT, explain_os_error, file_display_name, open_temporary_database, read_lines
from dealkit._cli.terminal import print_message

# Characters of CSV rows and JSON. A line that contains such a character is most likely not an id.
_NOT_IN_ID = re.compile(r"[\s,;{}\[\]\"]")

FAILED_COLUMNS = ["id", "kind", "status", "outcome", "message"]
"""The header of an export's list of failures: the deals that could not be retrieved. The list can serve as a file of
ids."""


class DealIds:
    """Distinct ids, in order. They are in a temporary file, because a million ids would take much memory."""

    def __init__(self, ids: Iterable[str]) -> None:
        self._database = open_temporary_database("CREATE TABLE ids (position INTEGER PRIMARY KEY, id TEXT UNIQUE)")
        # SQLite numbers the ids from 1, without gaps for repeated ids.
        rows = self._database.executemany("INSERT OR IGNORE INTO ids (id) VALUES (?)", ((id,) for id in ids))
        self._count = rows.rowcount

    def __len__(self) -> int:
        return self._count

    def from_position(self, position: int) -> Iterator[str]:
        """Returns the ids that begin at a position, counted from 0."""
        return (
            id
            for (id,) in self._database.execute("SELECT id FROM ids WHERE position > ? ORDER BY position", (position,))
        )

    def excluding(self, known_ids: Iterable[str]) -> DealIds:
        """Returns the ids that are not in `known`."""
        self._database.executemany("DELETE FROM ids WHERE id = ?", ((id,) for id in known_ids))
        return DealIds(self.from_position(0))

    def digest(self) -> str:
        """Returns a hash of the ids and their order."""
        id_hash = hashlib.sha256()
        for id in self.from_position(0):
            id_hash.update(json.dumps(id).encode())
        return id_hash.hexdigest()


def read_ids(source: str, sheet: str | None = None) -> Iterator[str]:
    """Reads the ids in a file: one per line, in a table's column `id` or `deal_id`, in JSON, or in an earlier export.
    If the file is an export's list of failures, omits the ids of deals that do not exist. `sheet` is the sheet of a
    workbook.
    """
    path = Path(source)
    try:
        if source != STANDARD_INPUT and is_workbook(path):
            yield from _read_id_sheet(path, sheet)
            return
        match path.suffix.lower():
            # Some programs give the name of a workbook to a CSV file.
            case ".csv" | ".tsv" | ".xls" | ".xlsx":
                header, rows, _ = read_table(path)
                unescape = (
                    unescape_key if header == FAILED_COLUMNS else unescape_formula if header == [*COLUMNS] else str
                )
                yield from map(unescape, _read_id_column(path, header, rows))
            case ".ndjson" | ".jsonl":
                yield from (_parse_id(json.loads(line)) for line in read_lines(path) if line.strip())
            case ".json":
                document = json.loads("".join(read_lines(path)))
                yield from map(_parse_id, document if isinstance(document, list) else [document])
            case ".parquet":
                with import_pyarrow().parquet.ParquetFile(path) as file:
                    for batch in file.iter_batches(columns=["id"]):
                        yield from batch["id"].to_pylist()
            case _:
                yield from _read_id_lines(source)
    except OSError as error:
        raise CommandError(f"{file_display_name(path)} cannot be read: {explain_os_error(error)}") from None
    except (ValueError, TypeError, KeyError):
        raise CommandError(
            f"{file_display_name(path)} must contain ids, or deals with their ids, as the file of an export does. Is it the right file?"
        ) from None


def _parse_id(entry: Any) -> str:
    """Returns the id in an entry of a JSON file. The entry is an id or a deal."""
    id = entry if isinstance(entry, str) else entry["id"]
    if not isinstance(id, str):
        raise TypeError
    return id


def _read_id_lines(source: str) -> Iterator[str]:
    """Reads ids, one per line. Rejects a line that looks like JSON or like a row of a table: the line may be personal
    data, and would become part of a request's path.
    """
    for number, line in enumerate(read_lines(source), 1):
        id = line.strip()
        if _NOT_IN_ID.search(id):
            raise CommandError(
                f"{file_display_name(source)}: line {number} does not look like an id: it contains a space, a comma, a quotation mark or a "
                "bracket. Put one id on each line. If the file is a table, give it a name that ends in .csv; if it is JSON, in .json or "
                ".jsonl. If the ids really look like this, put them into a .csv file, in a column named id."
            )
        if id:
            yield id


def _read_id_sheet(path: Path, sheet: str | None) -> Iterator[str]:
    """Reads the ids in a sheet of a workbook. Its first row that is not blank must be the header."""
    found = read_sheet(path, sheet)
    for note in found.notes:
        print_message(f"{file_display_name(path)}: {note}")
    # Closes the file even if the header is wrong.
    with closing(found.rows):
        # Sheets have cells, but all may be spaces.
        header = next((row.cells for row in found.rows), [])
        yield from _read_id_column(path, header, found.rows)


def _read_id_column(path: Path, header: list[str], rows: Iterator[TableRow]) -> Iterator[str]:
    id_columns = [position for position, name in enumerate(header) if normalize_column_name(name) in ("id", "dealid")]
    if len(id_columns) != 1:
        # If the table has no header, its first row holds an id. The message does not show the id.
        advice = (
            f"The first row has {list_column_names(header)}"
            if len(header) > 1
            else "If the file is a list without column names, give it a name that ends in .txt."
        )
        raise CommandError(
            f"{file_display_name(path)} needs exactly one column named id or deal_id, in its first row. {advice}"
        )
    is_failure_list = header == FAILED_COLUMNS
    for _, cells in rows:
        is_final = is_failure_list and is_deal_missing("".join(cells[2:3]))
        if not is_final and (id := "".join(cells[id_columns[0] : id_columns[0] + 1])):
            yield id


def is_deal_missing(status: str) -> bool:
    """Returns whether a status means that the deal does not exist, so that retrieving it again is pointless."""
    return status in ("404", "410")
