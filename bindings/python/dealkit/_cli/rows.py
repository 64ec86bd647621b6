"""The rows of an import: what is to be sent, what is wrong, and what became of each."""

from __future__ import annotations

import json
import sqlite3
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from dealkit import Client
from dealkit._cli.columns import Columns
from dealkit._cli.screen import painted, pairs, safe, say, say_all, table
from dealkit._cli.tables import Cells
from dealkit._cli.temporary import not_kept, temporary_database

_MOST_SHOWN = 3
"""How many rows, or ranges of rows, are shown on the screen for one item; the report has them all."""

IN_PROGRESS = "in progress elsewhere"

OUTCOMES = {
    "created": ("green", ""),
    "rejected": ("red", "refused by the service"),
    "unknown": ("yellow", "may or may not have become agents"),
    IN_PROGRESS: ("yellow", "another import is sending them: run the command again when it has finished"),
    "not sent": ("yellow", "run the command again to send them"),
    "invalid": ("red", "correct them, and run the command again"),
}
"""What can become of a row, its colour, and what it means."""

_WORDS = {"succeeded": "created", "rejected": "rejected", "unknown": "unknown", "not_sent": "not sent"}

_APART = "must identify the row"


def word_of(outcome: str, *, in_flight: bool) -> str:
    """The word for the outcome of a call. What another import is sending is known to that one."""
    return IN_PROGRESS if in_flight else _WORDS[outcome]


_TABLES = """
PRAGMA cache_size = -16000;
CREATE TABLE rows (number INTEGER PRIMARY KEY, key TEXT, cells TEXT, outcome TEXT, agent_id TEXT DEFAULT '',
    status TEXT DEFAULT '', message TEXT, was_earlier INTEGER DEFAULT 0, reason TEXT);
CREATE TABLE firsts (hash INTEGER PRIMARY KEY, number INTEGER);
CREATE TABLE reported (key TEXT PRIMARY KEY, is_created INTEGER, agent_id TEXT) WITHOUT ROWID
"""

# How many rows are in memory at a time.
AT_A_TIME = 5000


class Problem(NamedTuple):
    """What is wrong with a row, or may be. It contains no values of the row."""

    column: str
    field: str
    kind: str
    """Which rule: problems of a kind in a column are shown as one."""
    text: str

    def __str__(self) -> str:
        return f"{self.column}: {self.text}".removeprefix(": ")


@dataclass(slots=True)
class Row:
    """A row that is not blank, as it is checked."""

    number: int
    """As a spreadsheet counts: the header is 1."""
    key: str
    """What identifies it in the ledger."""
    agent: dict[str, Any]
    """The arguments of its create."""
    problems: list[Problem] = field(default_factory=list)
    """Why it cannot be sent."""
    doubts: list[Problem] = field(default_factory=list)
    """Possible mistakes, which do not keep it from being sent."""

    def cell(self, name: str) -> Any:
        """What goes to a field."""
        agent = self.agent
        return agent["profile"].get(name.removeprefix("profile.")) if name.startswith("profile.") else agent.get(name)


class Result(NamedTuple):
    """What became of a row. None of its texts contains a value, except for the key."""

    number: int
    key: str
    outcome: str
    """A word of `OUTCOMES`."""
    agent_id: str = ""
    status: str = ""
    message: str = ""
    was_earlier: bool = False
    """Whether the outcome is that of an earlier run."""
    reason: str | None = None
    """What it has in common with rows that failed for the same reason, whatever their requests were called."""


class Rows:
    """The rows of an import, and what became of them, in a temporary database: there may be more than fit in memory."""

    def __init__(self, columns: Columns, key: str | None) -> None:
        self._columns, self._key = columns, key
        self._database = temporary_database(_TABLES)

    def _one(self, statement: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        try:
            return self._database.execute(statement, values)
        except sqlite3.Error as error:
            raise not_kept("rows", error) from None

    @cached_property
    def at(self) -> int:
        """The index of the column that identifies rows."""
        return self._columns.key_index(self._key)

    @property
    def key_name(self) -> str:
        """What that column's keys are called in a ledger."""
        return self._columns.key_name(self.at)

    def add(self, row: Row, cells: list[str]) -> None:
        """Keeps a row that was checked."""
        outcome = "invalid" if row.problems else "not sent"
        message = "; ".join(map(str, row.problems or row.doubts))
        self._one(
            "INSERT INTO rows (number, key, cells, outcome, message) VALUES (?, ?, ?, ?, ?)",
            (row.number, row.key, json.dumps(cells), outcome, message),
        )

    def first(self, kind: str, text: str, number: int) -> int:
        """The number of the first row with this text. A hash of 64 bits stands for the text: two that share one, which among
        a million happens once in forty million tables, are taken for one.
        """
        hashed = hash((kind, text))
        if self._one("INSERT OR IGNORE INTO firsts VALUES (?, ?)", (hashed, number)).rowcount:
            return number
        found: int = self._one("SELECT number FROM firsts WHERE hash = ?", (hashed,)).fetchone()[0]
        return found

    def cells(self) -> Iterator[Cells]:
        """The rows as they were read."""
        return (Cells(number, json.loads(cells)) for number, cells in self._each("cells"))

    def to_send(self) -> Iterator[tuple[Result, list[str]]]:
        """The rows of which nothing is wrong, with their cells."""
        for number, key, outcome, was_earlier, cells in self._each(
            "key, outcome, was_earlier, cells", "outcome != 'invalid'"
        ):
            yield Result(number, key, outcome, was_earlier=was_earlier), json.loads(cells)

    def agent(self, cells: list[str]) -> dict[str, Any]:
        """The arguments of a row's create."""
        return self._columns.agent(cells)

    def results(self) -> Iterator[Result]:
        """What became of each row; what somebody has filled into the last report is kept until the row is sent again."""
        filled_in = "SELECT agent_id FROM reported WHERE reported.key = rows.key"
        agent_id = f"""CASE WHEN was_earlier AND agent_id = '' AND outcome IN ('unknown', 'rejected')
            THEN ifnull(({filled_in}), '') ELSE agent_id END"""
        return (Result(*row) for row in self._each(f"key, outcome, {agent_id}, status, message, was_earlier, reason"))

    def note(self, result: Result) -> None:
        """Notes what became of a row."""
        number, _, *values = result
        values_of = "(outcome, agent_id, status, message, was_earlier, reason) = (?, ?, ?, ?, ?, ?)"
        self._one(f"UPDATE rows SET {values_of} WHERE number = ?", (*values, number))

    def note_unsent(self, message: str) -> None:
        """Says why rows are not sent, until it is noted what became of them."""
        self._one("UPDATE rows SET message = ? WHERE outcome = 'not sent'", (message,))

    def report(self, entries: Iterable[tuple[str, bool, str]]) -> None:
        """Takes what the last report says: the keys of rows, whether it calls them created, and their agents' identifiers."""
        for entry in entries:
            self._one(
                "INSERT INTO reported VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET is_created = max(is_created, excluded.is_created), "
                "agent_id = ifnull(nullif(excluded.agent_id, ''), agent_id)",
                entry,
            )

    def lost(self) -> int:
        """How many of the rows to be sent the last report calls created."""
        of = "rows JOIN reported USING (key) WHERE is_created AND outcome = 'not sent'"
        number: int = self._one(f"SELECT count(*) FROM {of}").fetchone()[0]
        return number

    def counts(self) -> Counter[tuple[str, bool]]:
        """How many rows have which outcome, and whether it is that of an earlier run."""
        found = self._one("SELECT outcome, was_earlier, count(*) FROM rows GROUP BY 1, 2")
        return Counter({(outcome, bool(was_earlier)): number for outcome, was_earlier, number in found})

    def _each(self, columns: str, where: str = "1") -> Iterator[Any]:
        """Reads some rows at a time, so that they may be changed meanwhile."""
        sql = f"SELECT number, {columns} FROM rows WHERE number > ? AND {where} ORDER BY number LIMIT {AT_A_TIME}"
        last = 0
        while some := self._one(sql, (last,)).fetchall():
            yield from some
            last = some[-1][0]


@dataclass
class Group:
    """Rows that have something in common."""

    text: str
    """What is said of the first one."""
    numbers: array[int] = field(default_factory=lambda: array("q"))
    differs: bool = False
    """Whether something else is said of another, such as how long its text is."""


Groups = dict[tuple[str, str], Group]


def into(groups: Groups, kind: tuple[str, str], number: int, text: str) -> None:
    """Adds a row to its group."""
    group = groups.setdefault(kind, Group(text))
    group.numbers.append(number)
    group.differs |= text != group.text


def show_problems(title: str, groups: Groups) -> list[dict[str, Any]]:
    """Lists what is wrong with the rows: each kind of problem of a column once, with the rows that it occurs in."""
    found: list[dict[str, Any]] = []
    for (column, _), group in groups.items():
        message = f"{group.text} (row {group.numbers[0]})" if group.differs else group.text
        found.append({"rows": group.numbers.tolist(), "column": column, "message": message})
    if found:
        say(painted(title, "bold"))
        shown = [{"Rows": _ranges(one["rows"]), "Column": one["column"], "Problem": one["message"]} for one in found]
        say_all(table(shown, indent="  "))
        say()
    return found


def checked(found: Iterable[Cells], columns: Columns, rows: Rows) -> Iterator[tuple[Row, list[str]]]:
    """Checks rows against the rules, and their keys and e-mail addresses against those of earlier rows."""
    at, is_email = rows.at, rows.key_name == "email"
    key_column = safe(columns.header[at])
    # It calls nobody: the rules need neither a service nor a key.
    with Client(base_url="http://127.0.0.1", service_key="none") as client:
        for number, cells in found:
            row = Row(number, cells[at] if at < len(cells) else "", columns.agent(cells))
            if any(cells[len(columns.header) :]):
                text = "has more cells than there are columns; are quotation marks missing?"
                row.problems.append(Problem("", "", "too_many_cells", text))
            for violation in client.agents.validate(**row.agent):
                column, of = columns.at(violation.pointer)
                is_boolean = violation.code == "wrong_type" and isinstance(row.cell(of), str)
                text = "must be TRUE or FALSE" if is_boolean else violation.detail
                row.problems.append(Problem(column, of, violation.code, text))
            if not row.key and not any(problem.column == key_column for problem in row.problems):
                text = f"is empty, but {_APART}: fill it in"
                row.problems.append(Problem(key_column, "", "no_key", text))
            # As the ledger compares them.
            of_key = rows.first("key", row.key.lower() if is_email else row.key, number)
            # Addresses that differ only in case belong to one person.
            email = str(row.agent.get("email", "")).casefold()
            of_email = rows.first("email", email, number)
            if row.key and of_key != number:
                text = f"is the same as in row {of_key}, but {_APART}: remove one"
                row.problems.append(Problem(key_column, "", "same_key", text))
            elif email and of_email != number and not row.problems:
                text = f"is the same as in row {of_email}: remove one, unless they are two agents"
                row.doubts.append(Problem(columns.at("/email")[0], "", "same_email", text))
            yield row, cells


def show_outcomes(rows: Rows, result: dict[str, Any], *, can_go_on: bool) -> None:
    """Says how many rows had which outcome, and names those that did not become an agent."""
    # The message of the first one stands for all that have its reason, and the report has each.
    groups: Groups = {}
    for row in rows.results():
        if row.outcome in ("rejected", "unknown"):
            into(groups, (row.outcome, row.reason or row.message), row.number, row.message)
    for outcome in ("rejected", "unknown"):
        errors: list[dict[str, Any]] = [
            {"rows": group.numbers.tolist(), "outcome": outcome, "message": group.text}
            for (of, _), group in groups.items()
            if of == outcome
        ]
        if errors:
            say(painted(outcome.capitalize(), OUTCOMES[outcome][0]))
            shown = [{"Rows": _ranges(one["rows"]), "Reason": one["message"]} for one in errors]
            say_all(table(shown, indent="  "))
            say()
            result["errors"] += errors
    counts, numbers = rows.counts(), {}
    for outcome, (colour, meaning) in OUTCOMES.items():
        earlier = counts[outcome, True]
        number = earlier + counts[outcome, False]
        result["counts"][outcome.replace(" ", "_")] = number
        before = f" ({earlier:,} in an earlier run)" if earlier and outcome != IN_PROGRESS else ""
        note = meaning if meaning and number and (can_go_on or outcome != "not sent") else ""
        if number or outcome in ("created", "rejected", "unknown"):
            name = painted(outcome.capitalize(), colour) if number else outcome.capitalize()
            numbers[name] = f"{number:,}{before}  {note}".rstrip()
    say_all(pairs(numbers))


def _ranges(numbers: list[int]) -> str:
    """`7`, `7-9, 12`, `2, 4-9, 11, … (335 rows)`."""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and spans[-1][-1] == number - 1:
            spans[-1] = [spans[-1][0], number]
        else:
            spans.append([number])
    shown = ", ".join("-".join(map(str, span)) for span in spans[:_MOST_SHOWN])
    return f"{shown}{', …' * (len(spans) > _MOST_SHOWN)}{f' ({len(numbers):,} rows)' * (len(numbers) > _MOST_SHOWN)}"
