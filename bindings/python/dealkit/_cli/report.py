"""The CSV file that says what became of each row of an import."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from dealkit._cli.exits import UNWRITABLE, Failed
from dealkit._cli.files import is_there, named, replacing
from dealkit._cli.rows import Result, Rows
from dealkit._cli.screen import safe
from dealkit._cli.tables import Table, harmless, listed, plain, protect, read_table, unprotect, write_table

_HEADER = ["row", "key", "outcome", "agent_id", "status", "message", "earlier_run"]


# The existence of agents, by the outcome of their rows.
_EXISTENCE = {"created": 2, "unknown": 1}


class Entry(NamedTuple):
    """A row of a report as it is now: somebody may have filled in what became of it."""

    row: int
    """Its number in the report, as a spreadsheet counts."""
    key: str
    agent_id: str
    outcome: str = ""
    """What the report says, if it is one."""


def read(path: Path, encoding: str | None = None) -> Table:
    """Reads a report, which Excel may have saved in the code page of Windows, not in UTF-8."""
    return read_table(path, encoding or (None if _is_utf8(path) else "cp1252"))


def _is_utf8(path: Path) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        with open(path, "rb") as file:
            while part := file.read(1 << 20):
                decoder.decode(part)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    except OSError:
        pass  # read_table reports it.
    return True


def entries(path: Path, found: Table) -> Iterator[Entry]:
    """The rows of a report, or of another table with the columns `key` and `agent_id`."""
    at = {plain(name): place for place, name in enumerate(found.header)}
    for name in ("key", "agentid"):
        if sum(plain(one) == name for one in found.header) > 1:
            column = found.header[at[name]]
            raise Failed(f"{named(path)} has several columns {safe(column)}; rename or remove all but one of them")
    if not {"key", "agentid"} <= {*at}:
        raise Failed(
            f"{named(path)} must have the columns key and agent_id, like the report of an import; it has "
            f"{listed(found.header)}"
        )
    is_whole = found.header == _HEADER
    places = [at["key"], at["agentid"], *([at["outcome"]] if is_whole else [])]
    # A report is one without some of its columns, too. Another table has the keys as they are.
    text = unprotect if {"key", "agent_id"} <= {*found.header} else str
    for number, cells in found.rows:
        yield Entry(number, *(text(cells[place]) if place < len(cells) else "" for place in places))


def take_last(path: Path, rows: Rows) -> None:
    """Tells the rows what the report of the last run says. Fails if there is something else."""
    if not is_there(path) or not path.stat().st_size:
        return
    found = read(path)
    if found.header != _HEADER:
        raise Failed(
            f"{named(path)} exists and is not a report of an import, so the report of this one cannot replace it. Name another "
            "file with --report"
        )
    rows.report((entry.key, _EXISTENCE.get(entry.outcome, 0), entry.agent_id) for entry in entries(path, found))


def write(path: Path, results: Iterable[Result], delimiter: str) -> None:
    """Writes a report as a whole or not at all, with the delimiter of the table, which the user's spreadsheet reads."""
    try:
        # Only its owner can read it.
        with replacing(path, 0o600) as file:
            write_table(file, chain([_HEADER], map(_cells, results)), delimiter)
    except OSError as error:
        raise Failed(f"{named(path)} cannot be written: {error.strerror}", UNWRITABLE) from error


def _cells(row: Result) -> list[object]:
    identifiers = protect(row.key), protect(row.agent_id)
    texts = map(harmless, (row.status, row.message))
    return [row.number, identifiers[0], row.outcome, identifiers[1], *texts, "yes" if row.was_earlier else ""]
