"""The rows of an import: their cells, their problems and their outcomes."""

from __future__ import annotations

import json
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

from dealkit import ledger, validate_agent
from dealkit._cli.columns import ColumnMapping, nest_agent_fields
from dealkit._cli.csv_tables import TableRow
from dealkit._cli.files import open_temporary_database
from dealkit._cli.spreadsheet_damage import find_damage, find_key_damage
from dealkit._cli.terminal import colorize, format_pairs, format_table, print_result

_MAX_SHOWN = 3
"""The maximum number of row numbers printed for one message, and of messages printed for one kind of problem. The
report has all messages."""

_MAX_MESSAGES = 1000
"""The maximum number of different messages for one kind of problem that are stored and, with --json, printed."""

_REQUEST_ID = re.compile(r" \[request id [^\]]*\]")

_SIMILAR_MESSAGE = "similar problems: the report (--report) has the message of each row"

_MAX_LINES = 100
"""The maximum number of lines with problems that are printed, because a table may have thousands of columns."""

IN_PROGRESS = "in progress elsewhere"

OUTCOMES = {
    "created": ("green", ""),
    "rejected": ("red", "refused by the service"),
    "unknown": ("yellow", "may or may not have become agents"),
    IN_PROGRESS: ("yellow", "another import is sending them: run the command again when it has finished"),
    "not sent": ("yellow", "run the command again to send them"),
    "invalid": ("red", "correct them, and run the command again"),
}
"""The outcomes of rows, with colour and explanation."""

_IMPORT_OUTCOMES = {"succeeded": "created", "rejected": "rejected", "unknown": "unknown", "not_sent": "not sent"}


def import_outcome(outcome: str, *, in_flight: bool) -> str:
    """Returns the import's name for the outcome of a call. `in_flight` means that another import is sending the row
    now."""
    return IN_PROGRESS if in_flight else _IMPORT_OUTCOMES[outcome]


_TABLES = """
PRAGMA cache_size = -16000;
CREATE TABLE rows (number INTEGER PRIMARY KEY, key TEXT, cells TEXT, outcome TEXT, agent_id TEXT DEFAULT '',
    status TEXT DEFAULT '', message TEXT, was_earlier INTEGER DEFAULT 0, is_invalid INTEGER, is_damaged INTEGER);
CREATE TABLE first_rows (kind TEXT, text TEXT, number INTEGER, PRIMARY KEY (kind, text)) WITHOUT ROWID;
CREATE TABLE reported (key TEXT PRIMARY KEY, existence INTEGER, agent_id TEXT) WITHOUT ROWID
"""

# The number of rows in memory at a time.
BATCH_SIZE = 5000


class RowResult(NamedTuple):
    """The outcome of a row. Except for the key, its strings contain no values from the table."""

    number: int
    """The row number in a spreadsheet, where the header is row 1."""
    key: str
    """The key that identifies the row in the ledger."""
    outcome: str
    """The outcome: a key of the dict `OUTCOMES`."""
    agent_id: str = ""
    status: str = ""
    message: str = ""
    was_earlier: bool = False
    """True if an earlier run recorded the outcome."""


class _ProblemGroup(NamedTuple):
    """The rows with one kind of problem in one column."""

    rows_by_message: dict[str, tuple[str, array[int]]]
    """Maps a message without its request id to the full message of the first such row, and the numbers of all such rows."""
    other_rows: array[int]
    """The numbers of rows whose messages exceed the limit of stored messages."""

    def messages(self, limit: int) -> Iterator[tuple[str, array[int]]]:
        """Yields at most `limit` messages with their row numbers, and then one entry for the rows with any further
        messages."""
        for text, (first, numbers) in islice(self.rows_by_message.items(), limit):
            yield first if len(numbers) == 1 else text, numbers
        omitted = (numbers for _, numbers in islice(self.rows_by_message.values(), limit, None))
        if other_rows := sorted(chain(*omitted, self.other_rows)):
            yield _SIMILAR_MESSAGE, array("q", other_rows)


class ProblemGroups(dict[tuple[str, str], _ProblemGroup]):
    """Problems of rows, grouped by column and kind."""

    def add(self, column: str, kind: str, number: int, text: str) -> None:
        rows_by_message, other_rows = self.setdefault((column, kind), _ProblemGroup({}, array("q")))
        without_request_id = _REQUEST_ID.sub(" [the report has the request ids]", text)
        if without_request_id in rows_by_message or len(rows_by_message) < _MAX_MESSAGES:
            rows_by_message.setdefault(without_request_id, (text, array("q")))[1].append(number)
        else:
            other_rows.append(number)

    def print_table(self, title: str) -> list[dict[str, Any]]:
        """Prints the first messages of each kind with their first row numbers. Returns all stored messages for
        --json."""
        lines = []
        for (column, _), group in self.items():
            for text, numbers in group.messages(_MAX_SHOWN):
                more_text = f", … ({len(numbers):,} rows)" if len(numbers) > _MAX_SHOWN else ""
                first_numbers = ", ".join(map(str, numbers[:_MAX_SHOWN]))
                lines.append({"Rows": f"{first_numbers}{more_text}", "Column": column, "Message": text})
        if len(lines) > _MAX_LINES:
            more_text = f"… and {len(lines) - _MAX_LINES:,} more lines: the report (--report) has all problems"
            lines[_MAX_LINES:] = [{"Rows": "", "Column": "", "Message": more_text}]
        if lines:
            print_result(colorize(title, "bold"))
            print_result(f"{format_table(lines)}\n")
        return [
            {"outcome": title.lower(), "rows": numbers.tolist(), "column": column, "message": text}
            for (column, _), group in self.items()
            for text, numbers in group.messages(_MAX_MESSAGES)
        ]


def format_row_numbers(numbers: Sequence[int]) -> str:
    """Formats the first row numbers for the screen."""
    more_text = ", …" if len(numbers) > _MAX_SHOWN else ""
    return f"row{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers[:_MAX_SHOWN]))}{more_text}"


class ImportRows:
    """The rows of an import and their outcomes. They are in a temporary database, because they may not fit in
    memory."""

    def __init__(self, mapping: ColumnMapping, key: str | None) -> None:
        self._mapping = mapping
        self._key_index = mapping.key_index(key)
        self._key_column = mapping.display_name(self._key_index)
        self.key_name = mapping.key_name(self._key_index)
        """The name that the ledger records for the idempotency keys."""
        self.problems, self.warnings = ProblemGroups(), ProblemGroups()
        """Problems that prevent a row from being sent, and warnings, which do not. The messages contain no values from
        the table.
        """
        self._database = open_temporary_database(_TABLES)

    def check_and_store(self, rows: Iterable[TableRow]) -> None:
        """Validates rows, checks their keys and e-mail addresses for duplicates, and stores them."""
        for number, cells in rows:
            key = cells[self._key_index] if self._key_index < len(cells) else ""
            values = self._mapping.read_values(cells)
            agent = nest_agent_fields(values)
            # All cells are strings, so only a boolean can have the wrong type.
            problems = [
                (
                    self._mapping.column_for_pointer(violation.pointer),
                    violation.code,
                    "must be TRUE or FALSE" if violation.code == "wrong_type" else violation.detail,
                )
                for violation in validate_agent(**agent)
            ]
            if any(cells[len(self._mapping.header) :]):
                problems.append(("", "cells", "has more cells than there are columns; are quotation marks missing?"))
            columns_with_problems = {column for column, _, _ in problems}
            warnings, is_damaged = self._find_row_damage(key, values, columns_with_problems)
            if (duplicate := self._find_duplicate(number, key, agent, columns_with_problems)) is not None:
                (warnings if duplicate[1] == "address" else problems).append(duplicate)
            for groups, details in ((self.problems, problems), (self.warnings, warnings)):
                for column, kind, text in details:
                    groups.add(column, kind, number, text)
            message = "; ".join(f"{column}: {text}".removeprefix(": ") for column, _, text in problems or warnings)
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
        self._find_shortened_keys()

    def _find_row_damage(
        self, key: str, values: dict[str, Any], columns_with_problems: set[str]
    ) -> tuple[list[tuple[str, str, str]], bool]:
        """Finds likely damage to a row, except in columns that already have a problem. Also returns whether any damage
        is certain.
        """
        texts = {field: text for field, text in values.items() if isinstance(text, str)}
        if self._mapping.fields[self._key_index] is None:
            texts[""] = key
        by_field = [(field, damage) for field, text in texts.items() for damage in find_damage(field, text)]
        by_column = [
            *((self._mapping.column_for_field(field) or self._key_column, damage) for field, damage in by_field),
            *((self._key_column, damage) for damage in find_key_damage(key)),
        ]
        by_column = [(column, damage) for column, damage in by_column if column not in columns_with_problems]
        warnings = [(column, kind, message) for column, (kind, message, _) in by_column]
        return warnings, any(damage.is_certain for _, damage in by_column)

    def _find_shortened_keys(self) -> None:
        """Warns of keys that may have lost leading zeros: numbers that are shorter than the keys with leading zeros."""
        only_digits = "NOT key GLOB '*[^0-9]*'"
        padded_length_query = f"SELECT max(length(key)) FROM rows WHERE key GLOB '0?*' AND {only_digits}"
        length = self._database.execute(padded_length_query).fetchone()[0] or 0
        is_short = f"key GLOB '[1-9]*' AND {only_digits} AND length(key) < {length}"
        text = "is shorter than keys that begin with a zero: has a spreadsheet removed zeros, as in 123 for 00123?"
        for number, is_invalid in self._select_in_batches("is_invalid", is_short):
            self.warnings.add(self._key_column, "zeros", number, text)
            if not is_invalid:
                add_message = "UPDATE rows SET message = ltrim(message || '; ', '; ') || ? WHERE number = ?"
                self._database.execute(add_message, (f"{self._key_column}: {text}", number))

    def _find_duplicate(
        self, number: int, key: str, agent: dict[str, Any], columns_with_problems: set[str]
    ) -> tuple[str, str, str] | None:
        """Returns the problem of an empty or repeated key, or the warning about a repeated e-mail address."""
        # Keys with the same normal form are one key for the ledger.
        first_with_key = self._first_row_with("key", ledger.normalize_key(key, name=self.key_name), number)
        # Addresses that differ only in case most likely belong to one person.
        first_with_email = self._first_row_with("address", str(agent.get("email", "")).casefold(), number)
        if not key:
            is_reported = self._key_column in columns_with_problems
            return (
                None if is_reported else (self._key_column, "no key", "is empty, but must identify the row: fill it in")
            )
        if first_with_key != number:
            return (
                self._key_column,
                "key",
                f"is the same as in row {first_with_key}, but must identify the row: remove one",
            )
        if first_with_email != number and "email" in agent and not columns_with_problems:
            text = f"is the same as in row {first_with_email}: remove one, unless they are two agents"
            return self._mapping.column_for_pointer("/email"), "address", text
        return None

    def _first_row_with(self, kind: str, text: str, number: int) -> int:
        """Returns the number of the first row with this key or address. Records row `number` if there was none
        before."""
        if self._database.execute("INSERT OR IGNORE INTO first_rows VALUES (?, ?, ?)", (kind, text, number)).rowcount:
            return number
        query = "SELECT number FROM first_rows WHERE kind = ? AND text = ?"
        first_row: int = self._database.execute(query, (kind, text)).fetchone()[0]
        return first_row

    def sendable(self) -> Iterator[tuple[RowResult, dict[str, Any]]]:
        """Yields the valid rows with the arguments that create their agents."""
        for number, key, outcome, was_earlier, cells in self._select_in_batches(
            "key, outcome, was_earlier, cells", "NOT is_invalid"
        ):
            yield (
                RowResult(number, key, outcome, was_earlier=was_earlier),
                self._mapping.agent_arguments(json.loads(cells)),
            )

    def invalid(self) -> Iterator[RowResult]:
        """Yields the invalid rows that have a key."""
        selected_rows = self._select_in_batches("key, outcome, agent_id, status, message", "is_invalid AND key != ''")
        return (RowResult(*row) for row in selected_rows)

    def results(self) -> Iterator[RowResult]:
        """Yields the result of each row. The result includes the agent_id that the user has entered in the last report,
        unless this run has sent the row.
        """
        entered_id_query = "SELECT agent_id FROM reported WHERE reported.key = rows.key"
        agent_id_expression = f"""CASE WHEN was_earlier AND agent_id = '' AND outcome IN ('unknown', 'rejected', '{IN_PROGRESS}')
            THEN ifnull(({entered_id_query}), '') ELSE agent_id END"""
        return (
            RowResult(*row)
            for row in self._select_in_batches(f"key, outcome, {agent_id_expression}, status, message, was_earlier")
        )

    def record_result(self, result: RowResult) -> None:
        """Stores the outcome of a row."""
        number, _, *values = result
        columns = "(outcome, agent_id, status, message, was_earlier)"
        self._database.execute(f"UPDATE rows SET {columns} = (?, ?, ?, ?, ?) WHERE number = ?", (*values, number))

    def set_unsent_message(self, message: str) -> None:
        """Stores the message of rows that are not sent. When such a row is sent later, its outcome replaces the
        message."""
        self._database.execute("UPDATE rows SET message = ? WHERE outcome = 'not sent'", (message,))

    def load_last_report(self, report_rows: Iterable[tuple[str, int, str]]) -> None:
        """Stores the rows of the last report: key, whether the agent exists (0: no, 1: perhaps, 2: yes), and
        agent_id."""
        for report_row in report_rows:
            self._database.execute(
                "INSERT INTO reported VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET existence = max(existence, excluded.existence), "
                "agent_id = ifnull(nullif(excluded.agent_id, ''), agent_id)",
                report_row,
            )

    def count_missing_from_ledger(self, *, is_new: bool) -> int:
        """Counts the sendable rows that the last report, but not the ledger, has as created. If the ledger is new, also
        counts the rows that the report has as unknown. An existing ledger may lack them because they were resolved as
        rows without an agent.
        """
        matching = "rows JOIN reported USING (key) WHERE existence >= ? AND outcome = 'not sent'"
        number: int = self._database.execute(f"SELECT count(*) FROM {matching}", (1 if is_new else 2,)).fetchone()[0]
        return number

    def damaged_row_numbers(self) -> list[int]:
        """Returns the numbers of the sendable rows in which a spreadsheet or an encoding has certainly lost text."""
        selected_rows = self._database.execute(
            "SELECT number FROM rows WHERE is_damaged AND outcome = 'not sent' ORDER BY number"
        )
        return [number for (number,) in selected_rows]

    def count_outcomes(self) -> Counter[tuple[str, bool]]:
        """Counts the rows by outcome and by whether an earlier run recorded it."""
        selected_rows = self._database.execute("SELECT outcome, was_earlier, count(*) FROM rows GROUP BY 1, 2")
        return Counter({(outcome, bool(was_earlier)): number for outcome, was_earlier, number in selected_rows})

    def _select_in_batches(self, columns: str, where: str = "1") -> Iterator[Any]:
        """Selects rows in batches, so that the caller may change rows between them."""
        sql = f"SELECT number, {columns} FROM rows WHERE number > ? AND {where} ORDER BY number LIMIT {BATCH_SIZE}"
        last_number = 0
        while batch := self._database.execute(sql, (last_number,)).fetchall():
            yield from batch
            last_number = batch[-1][0]


def print_outcomes(rows: ImportRows, result: dict[str, Any], *, can_resume: bool) -> None:
    """Prints the number of rows by outcome, and lists the rejected and unknown rows."""
    groups = {"rejected": ProblemGroups(), "unknown": ProblemGroups()}
    for row in rows.results():
        if row.outcome in groups:
            groups[row.outcome].add("", row.status, row.number, row.message)
    for outcome, group in groups.items():
        result["errors"] += group.print_table(outcome.capitalize())
    count_outcomes, count_texts = rows.count_outcomes(), {}
    for outcome, (colour, outcome_explanation) in OUTCOMES.items():
        earlier_count = count_outcomes[outcome, True]
        total_count = earlier_count + count_outcomes[outcome, False]
        result["counts"][outcome.replace(" ", "_")] = total_count
        earlier_note = f" ({earlier_count:,} in an earlier run)" if earlier_count and outcome != IN_PROGRESS else ""
        explanation = (
            outcome_explanation if outcome_explanation and total_count and (can_resume or outcome != "not sent") else ""
        )
        if total_count or outcome in ("created", "rejected", "unknown"):
            count = colorize(f"{total_count:,}", colour) if total_count else "0"
            count_texts[outcome.capitalize()] = f"{count}{earlier_note}  {explanation}".rstrip()
    print_result(format_pairs(count_texts))
