"""The rows of an import: what is to be sent, what is wrong, and what became of each."""

from __future__ import annotations

import json
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

from dealkit import ledger, validate_agent
from dealkit._cli.columns import Columns, agent_from
from dealkit._cli.damage import find_damage, find_key_damage
from dealkit._cli.files import temporary_database
from dealkit._cli.screen import painted, pairs, say, table
from dealkit._cli.tables import Cells

_MOST_SHOWN = 3
"""How many rows are shown on the screen for one item, and how many texts of one kind; the report has them all."""

_MOST_TEXTS = 1000
"""How many different texts of one kind are in memory and, with --json, in the result."""

_REQUEST_ID = re.compile(r" \[request id [^\]]*\]")

_SIMILAR = "similar problems: the report (--report) has the message of each row"

_MOST_LINES = 100
"""How many lines of problems are shown on the screen: a table may have thousands of columns."""

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


def word_of(outcome: str, *, in_flight: bool) -> str:
    """The word for the outcome of a call. What another import is sending is known to that one."""
    return IN_PROGRESS if in_flight else _WORDS[outcome]


_TABLES = """
PRAGMA cache_size = -16000;
CREATE TABLE rows (number INTEGER PRIMARY KEY, key TEXT, cells TEXT, outcome TEXT, agent_id TEXT DEFAULT '',
    status TEXT DEFAULT '', message TEXT, was_earlier INTEGER DEFAULT 0, is_invalid INTEGER, is_damaged INTEGER);
CREATE TABLE firsts (kind TEXT, text TEXT, number INTEGER, PRIMARY KEY (kind, text)) WITHOUT ROWID;
CREATE TABLE reported (key TEXT PRIMARY KEY, existence INTEGER, agent_id TEXT) WITHOUT ROWID
"""

# How many rows are in memory at a time.
AT_A_TIME = 5000


class Result(NamedTuple):
    """What became of a row. None of its texts contains a value, except for the key."""

    number: int
    """As a spreadsheet counts: the header is 1."""
    key: str
    """What identifies it in the ledger."""
    outcome: str
    """A word of `OUTCOMES`."""
    agent_id: str = ""
    status: str = ""
    message: str = ""
    was_earlier: bool = False
    """Whether the outcome is that of an earlier run."""


class _Kind(NamedTuple):
    """The rows with one kind of problem in one column."""

    by_text: dict[str, tuple[str, array[int]]]
    """By a text without the request's id: the text of the first row with it, and the numbers of all."""
    others: array[int]
    """The numbers of further rows, which have other texts."""

    def texts(self, most: int) -> Iterator[tuple[str, array[int]]]:
        """At most so many different texts and the rows of each, and then all other rows."""
        for text, (first, numbers) in islice(self.by_text.items(), most):
            yield first if len(numbers) == 1 else text, numbers
        left_out = (numbers for _, numbers in islice(self.by_text.values(), most, None))
        if others := sorted(chain(*left_out, self.others)):
            yield _SIMILAR, array("q", others)


class Groups(dict[tuple[str, str], _Kind]):
    """Problems of rows, by their columns and kinds."""

    def put(self, column: str, kind: str, number: int, text: str) -> None:
        by_text, others = self.setdefault((column, kind), _Kind({}, array("q")))
        general = _REQUEST_ID.sub(" [the report has the request ids]", text)
        if general in by_text or len(by_text) < _MOST_TEXTS:
            by_text.setdefault(general, (text, array("q")))[1].append(number)
        else:
            others.append(number)

    def show(self, title: str) -> list[dict[str, Any]]:
        """Shows the first texts of each kind, each with the first of its rows. Returns all of them."""
        shown = []
        for (column, _), of in self.items():
            for text, numbers in of.texts(_MOST_SHOWN):
                more = f", … ({len(numbers):,} rows)" if len(numbers) > _MOST_SHOWN else ""
                first = ", ".join(map(str, numbers[:_MOST_SHOWN]))
                shown.append({"Rows": f"{first}{more}", "Column": column, "Message": text})
        if len(shown) > _MOST_LINES:
            more = f"… and {len(shown) - _MOST_LINES:,} more lines: the report (--report) has all problems"
            shown[_MOST_LINES:] = [{"Rows": "", "Column": "", "Message": more}]
        if shown:
            say(painted(title, "bold"))
            say(f"{table(shown)}\n")
        return [
            {"outcome": title.lower(), "rows": numbers.tolist(), "column": column, "message": text}
            for (column, _), of in self.items()
            for text, numbers in of.texts(_MOST_TEXTS)
        ]


def first_rows(numbers: Sequence[int]) -> str:
    """The first of some rows, for the screen."""
    more = ", …" if len(numbers) > _MOST_SHOWN else ""
    return f"row{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers[:_MOST_SHOWN]))}{more}"


class Rows:
    """The rows of an import, and what became of them, in a temporary database: there may be more than fit in memory."""

    def __init__(self, columns: Columns, key: str | None) -> None:
        self._columns = columns
        self._at = columns.key_index(key)
        self._key_column = columns.name(self._at)
        self.key_name = columns.key_name(self._at)
        """What the keys are called in a ledger."""
        self.wrong, self.doubtful = Groups(), Groups()
        """Why rows cannot be sent, and possible mistakes, which do not keep them from being sent. No text contains a value."""
        self._database = temporary_database(_TABLES)

    def check(self, found: Iterable[Cells]) -> None:
        """Checks rows against the rules, and their keys and e-mail addresses against those of earlier rows, and keeps them."""
        for number, cells in found:
            key = cells[self._at] if self._at < len(cells) else ""
            values = self._columns.values(cells)
            agent = agent_from(values)
            # All cells are texts, so only a boolean has the wrong type.
            problems = [
                (
                    self._columns.at(one.pointer),
                    one.code,
                    "must be TRUE or FALSE" if one.code == "wrong_type" else one.detail,
                )
                for one in validate_agent(**agent)
            ]
            if any(cells[len(self._columns.header) :]):
                problems.append(("", "cells", "has more cells than there are columns; are quotation marks missing?"))
            wrong = {column for column, _, _ in problems}
            doubts, is_damaged = self._doubts(key, values, wrong)
            if (same := self._same(number, key, agent, wrong)) is not None:
                (doubts if same[1] == "address" else problems).append(same)
            for groups, some in ((self.wrong, problems), (self.doubtful, doubts)):
                for column, kind, text in some:
                    groups.put(column, kind, number, text)
            message = "; ".join(f"{column}: {text}".removeprefix(": ") for column, _, text in problems or doubts)
            self._database.execute(
                "INSERT INTO rows (number, key, cells, outcome, message, is_invalid, is_damaged) VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    number,
                    key,
                    json.dumps(cells),
                    "invalid" if problems else "not sent",
                    message,
                    bool(problems),
                    is_damaged,
                ),
            )
        self._doubt_short_keys()

    def _doubts(self, key: str, values: dict[str, Any], wrong: set[str]) -> tuple[list[tuple[str, str, str]], bool]:
        """Finds possible damage to a row, except in columns that are wrong, and whether some of it is certain."""
        texts = {field: text for field, text in values.items() if isinstance(text, str)}
        if self._columns.fields[self._at] is None:
            texts[""] = key
        found = [(field, one) for field, text in texts.items() for one in find_damage(field, text)]
        by_column = [
            *((self._columns.of_field(field) or self._key_column, one) for field, one in found),
            *((self._key_column, one) for one in find_key_damage(key)),
        ]
        by_column = [(column, one) for column, one in by_column if column not in wrong]
        doubts = [(column, kind, message) for column, (kind, message, _) in by_column]
        return doubts, any(one.is_certain for _, one in by_column)

    def _doubt_short_keys(self) -> None:
        """Finds keys that may have lost their zeros, because other keys begin with some."""
        digits = "NOT key GLOB '*[^0-9]*'"
        padded = f"SELECT max(length(key)) FROM rows WHERE key GLOB '0?*' AND {digits}"
        length = self._database.execute(padded).fetchone()[0] or 0
        is_short = f"key GLOB '[1-9]*' AND {digits} AND length(key) < {length}"
        text = "is shorter than keys that begin with a zero: has a spreadsheet removed zeros, as in 123 for 00123?"
        for number, is_invalid in self._each("is_invalid", is_short):
            self.doubtful.put(self._key_column, "zeros", number, text)
            if not is_invalid:
                message = "UPDATE rows SET message = ltrim(message || '; ', '; ') || ? WHERE number = ?"
                self._database.execute(message, (f"{self._key_column}: {text}", number))

    def _same(self, number: int, key: str, agent: dict[str, Any], wrong: set[str]) -> tuple[str, str, str] | None:
        """What is wrong with the key of a row, or may be with its address."""
        # As the ledger compares them.
        of_key = self._first("key", ledger.normalize_key(key, name=self.key_name), number)
        # Addresses that differ only in case belong to one person.
        of_address = self._first("address", str(agent.get("email", "")).casefold(), number)
        if not key:
            is_said = self._key_column in wrong
            return None if is_said else (self._key_column, "no key", "is empty, but must identify the row: fill it in")
        if of_key != number:
            return self._key_column, "key", f"is the same as in row {of_key}, but must identify the row: remove one"
        if of_address != number and "email" in agent and not wrong:
            text = f"is the same as in row {of_address}: remove one, unless they are two agents"
            return self._columns.at("/email"), "address", text
        return None

    def _first(self, kind: str, text: str, number: int) -> int:
        """The number of the first row with this text."""
        if self._database.execute("INSERT OR IGNORE INTO firsts VALUES (?, ?, ?)", (kind, text, number)).rowcount:
            return number
        first = "SELECT number FROM firsts WHERE kind = ? AND text = ?"
        found: int = self._database.execute(first, (kind, text)).fetchone()[0]
        return found

    def to_send(self) -> Iterator[tuple[Result, dict[str, Any]]]:
        """The rows of which nothing is wrong, with the arguments of their creates."""
        for number, key, outcome, was_earlier, cells in self._each(
            "key, outcome, was_earlier, cells", "NOT is_invalid"
        ):
            yield Result(number, key, outcome, was_earlier=was_earlier), self._columns.agent(json.loads(cells))

    def invalid(self) -> Iterator[Result]:
        """The rows that break the rules and have a key."""
        found = self._each("key, outcome, agent_id, status, message", "is_invalid AND key != ''")
        return (Result(*row) for row in found)

    def results(self) -> Iterator[Result]:
        """What became of each row; what somebody has filled into the last report is kept until the row is sent again."""
        filled_in = "SELECT agent_id FROM reported WHERE reported.key = rows.key"
        agent_id = f"""CASE WHEN was_earlier AND agent_id = '' AND outcome IN ('unknown', 'rejected', '{IN_PROGRESS}')
            THEN ifnull(({filled_in}), '') ELSE agent_id END"""
        return (Result(*row) for row in self._each(f"key, outcome, {agent_id}, status, message, was_earlier"))

    def note(self, result: Result) -> None:
        """Notes what became of a row."""
        number, _, *values = result
        columns = "(outcome, agent_id, status, message, was_earlier)"
        self._database.execute(f"UPDATE rows SET {columns} = (?, ?, ?, ?, ?) WHERE number = ?", (*values, number))

    def note_unsent(self, message: str) -> None:
        """Says why rows are not sent, until it is noted what became of them."""
        self._database.execute("UPDATE rows SET message = ? WHERE outcome = 'not sent'", (message,))

    def report(self, entries: Iterable[tuple[str, int, str]]) -> None:
        """Takes what the last report says: the keys of rows, whether their agents exist (0: no, 1: perhaps, 2: yes), and the agents'
        identifiers."""
        for entry in entries:
            self._database.execute(
                "INSERT INTO reported VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET existence = max(existence, excluded.existence), "
                "agent_id = ifnull(nullif(excluded.agent_id, ''), agent_id)",
                entry,
            )

    def lost(self, *, is_new: bool) -> int:
        """Counts the rows to be sent that the last report calls created; if the ledger is new, also those that it calls unknown. An
        older ledger may say of these that they have no agent."""
        of = "rows JOIN reported USING (key) WHERE existence >= ? AND outcome = 'not sent'"
        number: int = self._database.execute(f"SELECT count(*) FROM {of}", (1 if is_new else 2,)).fetchone()[0]
        return number

    def damaged(self) -> list[int]:
        """The numbers of rows to be sent in which text is lost."""
        found = self._database.execute(
            "SELECT number FROM rows WHERE is_damaged AND outcome = 'not sent' ORDER BY number"
        )
        return [number for (number,) in found]

    def counts(self) -> Counter[tuple[str, bool]]:
        """How many rows have which outcome, and whether it is that of an earlier run."""
        found = self._database.execute("SELECT outcome, was_earlier, count(*) FROM rows GROUP BY 1, 2")
        return Counter({(outcome, bool(was_earlier)): number for outcome, was_earlier, number in found})

    def _each(self, columns: str, where: str = "1") -> Iterator[Any]:
        """Reads some rows at a time, so that they may be changed meanwhile."""
        sql = f"SELECT number, {columns} FROM rows WHERE number > ? AND {where} ORDER BY number LIMIT {AT_A_TIME}"
        last = 0
        while some := self._database.execute(sql, (last,)).fetchall():
            yield from some
            last = some[-1][0]


def show_outcomes(rows: Rows, result: dict[str, Any], *, can_go_on: bool) -> None:
    """Says how many rows had which outcome, and names those that did not become an agent."""
    groups = {"rejected": Groups(), "unknown": Groups()}
    for row in rows.results():
        if row.outcome in groups:
            groups[row.outcome].put("", row.status, row.number, row.message)
    for outcome, of in groups.items():
        result["errors"] += of.show(outcome.capitalize())
    counts, numbers = rows.counts(), {}
    for outcome, (colour, meaning) in OUTCOMES.items():
        earlier = counts[outcome, True]
        number = earlier + counts[outcome, False]
        result["counts"][outcome.replace(" ", "_")] = number
        before = f" ({earlier:,} in an earlier run)" if earlier and outcome != IN_PROGRESS else ""
        note = meaning if meaning and number and (can_go_on or outcome != "not sent") else ""
        if number or outcome in ("created", "rejected", "unknown"):
            shown = painted(f"{number:,}", colour) if number else "0"
            numbers[outcome.capitalize()] = f"{shown}{before}  {note}".rstrip()
    say(pairs(numbers))
