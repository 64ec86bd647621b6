"""What became of each row of an import, on the screen and as a CSV file."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import NamedTuple

from dealkit._cli.columns import Mistake
from dealkit._cli.exits import UNWRITABLE, Failed
from dealkit._cli.files import is_there, named, replacing
from dealkit._cli.screen import bold, say, say_table
from dealkit._cli.table_file import (
    DELIMITERS,
    Table,
    as_it_was,
    csv_line,
    harmless,
    header_line,
    letters,
    listed,
    read_table,
)

_MOST_SHOWN = 3
"""How many rows, or ranges of rows, are shown on the screen for one item; the file has them all."""

_HEADER = ("row", "key", "outcome", "agent_id", "status", "message", "earlier_run")

_MEANINGS = {
    "created": "",
    "rejected": "refused by the service",
    "unknown": "may or may not have become agents",
    "not sent": "run the command again to send them",
    "invalid": "correct them, and run the command again",
}
"""The possible results of a row, and what they mean."""


WORDS = {"succeeded": "created", "rejected": "rejected", "unknown": "unknown", "not_sent": "not sent"}
"""The results by the outcomes of calls."""


class Result(NamedTuple):
    """What became of one row. It contains no values of the row, except for the key."""

    row: int
    key: str
    """What identifies the row in the ledger."""
    came_to: str
    """One of `created`, `rejected`, `unknown`, `not sent` and `invalid`."""
    agent_id: str = ""
    status: str = ""
    message: str = ""
    was_earlier: bool = False
    """Whether it is the result of an earlier run."""
    reason: Hashable = None
    """What it has in common with rows that failed for the same reason, whatever their requests were called."""


def show_mistakes(title: str, mistakes: list[Mistake]) -> None:
    """Lists what is wrong with the rows: each kind of mistake once, with the rows that it occurs in."""
    by_kind: dict[tuple[str, str], list[Mistake]] = {}
    for mistake in mistakes:
        by_kind.setdefault((mistake.column, mistake.kind), []).append(mistake)
    rows = [(_rows_of(some), some[0].column, _text_of(some)) for some in by_kind.values()]
    say(bold(title))
    say_table(rows, indent="  ")
    say()


def _text_of(mistakes: list[Mistake]) -> str:
    """What is wrong. Where the rows differ in it, as in how long a text is, the first one stands for all."""
    first = mistakes[0]
    return first.text if all(one.text == first.text for one in mistakes) else f"{first.text} (row {first.row})"


def _rows_of(mistakes: list[Mistake]) -> str:
    """`row 7 (as in row 2)`, `rows 2-3, 12`, `335 rows: 2, 4-9, 11, 13, …`."""
    if any(mistake.of_row for mistake in mistakes):
        return _listed(len(mistakes), [f"{one.row} ({one.of_row})" if one.of_row else str(one.row) for one in mistakes])
    return _rows([mistake.row for mistake in mistakes])


def show(results: Iterable[Result], *, can_go_on: bool = True) -> None:
    """Says how many rows had which result, and names those that did not become an agent."""
    by_kind: dict[str, list[Result]] = {kind: [] for kind in _MEANINGS}
    for result in results:
        by_kind[result.came_to].append(result)
    for kind in ("rejected", "unknown"):
        if by_kind[kind]:
            say(bold(kind.capitalize()))
            say_table(_grouped(by_kind[kind]), indent="  ")
            say()
    rows = []
    for kind, meaning in _MEANINGS.items():
        found = by_kind[kind]
        earlier = sum(one.was_earlier for one in found)
        notes = [f"{earlier:,} of them in an earlier run"] if earlier else []
        notes += [meaning] if meaning and found and (can_go_on or kind != "not sent") else []
        if found or kind in ("created", "rejected", "unknown"):
            rows.append((kind.capitalize(), f"{len(found):,}", "; ".join(notes)))
    say_table(rows, right=frozenset({1}))


def _grouped(results: list[Result]) -> list[tuple[str, str]]:
    """Groups rows with the same reason: the message of the first one stands for all, and the report has each."""
    by_reason: dict[Hashable, list[Result]] = {}
    for one in sorted(results, key=lambda one: one.row):
        by_reason.setdefault(one.reason or one.message, []).append(one)
    return [(_rows([one.row for one in some]), some[0].message) for some in by_reason.values()]


def _rows(rows: list[int]) -> str:
    """`row 7`, `rows 7-9, 12`."""
    spans: list[list[int]] = []
    for row in rows:
        if spans and spans[-1][-1] == row - 1:
            spans[-1] = [spans[-1][0], row]
        else:
            spans.append([row])
    return _listed(len(rows), ["-".join(map(str, span)) for span in spans])


def _listed(count: int, parts: list[str]) -> str:
    """The rows; if there are many, their number and the first of them."""
    shown = ", ".join(parts[:_MOST_SHOWN]) + ", …" * (len(parts) > _MOST_SHOWN)
    if count > _MOST_SHOWN:
        return f"{count:,} rows: {shown}"
    return f"row{'s' * (count > 1)} {shown}"


class Entry(NamedTuple):
    """A row of a report as it is now: somebody may have filled in what became of it."""

    row: int
    """Its number in the report, as a spreadsheet counts."""
    key: str
    agent_id: str
    outcome: str = ""
    """What the report says, if it is one."""


def created(path: Path) -> set[str]:
    """The keys of the rows that a report calls created; none if there is no report."""
    try:
        found = read_table(path) if is_there(path) and path.stat().st_size else None
    except Failed:
        return set()
    if found is None or not _is_report(found):
        return set()
    return {entry.key for entry in _entries(path, found) if entry.outcome == "created"}


def read(path: Path, options: Namespace | None = None) -> list[Entry]:
    """The rows of a report, or of another table with the columns `key` and `agent_id`."""
    return _entries(path, read_table(path, options))


def _entries(path: Path, found: Table) -> list[Entry]:
    at = {letters(name): place for place, name in enumerate(found.header)}
    if "key" not in at or "agentid" not in at:
        raise Failed(
            f"{named(path)} must have the columns key and agent_id, like the report of an import; it has "
            f"{listed(found.header)}"
        )
    places = [at["key"], at["agentid"], *([at["outcome"]] if _is_report(found) else [])]
    # Another table has the keys as they are.
    text = as_it_was if _is_report(found) else str
    return [
        Entry(row.number, *(text(row.cells[place]) if place < len(row.cells) else "" for place in places))
        for row in found.rows
    ]


def _is_report(found: Table) -> bool:
    return tuple(found.header) == _HEADER


class Report:
    """The CSV file that says what became of each row of an import."""

    def __init__(self, path: Path, delimiter: str) -> None:
        """Takes the file, and what somebody has filled in there.

        The delimiter is that of the table, which the user's spreadsheet reads without further settings. A delimiter
        that would not be detected when the report is read again is replaced by a comma.
        """
        self.path = path
        self._delimiter = delimiter if delimiter in DELIMITERS else ","
        # What somebody has filled in is kept until the row is sent again.
        self._filled_in = {}
        if is_there(path) and path.stat().st_size:
            try:
                found = read_table(path)
            except Failed as failed:
                raise self._is_foreign(str(failed)) from None
            if not _is_report(found):
                raise self._is_foreign(f"its columns are {listed(found.header)}")
            self._filled_in = {entry.key: entry.agent_id for entry in _entries(path, found) if entry.agent_id}

    def _is_foreign(self, why: str) -> Failed:
        return Failed(
            f"{named(self.path)} exists and is not a report of an import, so the report of this one cannot replace it: "
            f"{why}. Name another file with --report"
        )

    def write(self, results: Iterable[Result]) -> None:
        """Writes the file as a whole or not at all."""
        try:
            # Only its owner can read it.
            with replacing(self.path, 0o600) as file:
                file.write(header_line(_HEADER, self._delimiter).encode())
                for one in sorted(results, key=lambda one: one.row):
                    agent_id = one.agent_id
                    if one.was_earlier and one.came_to in ("unknown", "rejected"):
                        agent_id = agent_id or self._filled_in.get(one.key, "")
                    earlier = "yes" if one.was_earlier else ""
                    cells = [str(one.row), one.key, one.came_to, agent_id, one.status, one.message, earlier]
                    file.write(csv_line(map(harmless, cells), self._delimiter).encode())
        except OSError as error:
            raise Failed(f"{named(self.path)} cannot be written: {error.strerror}", UNWRITABLE) from error
