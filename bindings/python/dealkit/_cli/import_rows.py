"""The rows of an import: their cells, their problems and their outcomes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from dealkit import ledger, validate_agent
from dealkit._cli import row_duplicates
from dealkit._cli.cell_values import CellParser, ColumnEvidence, warn_about_value
from dealkit._cli.columns import ColumnMapping, join_key, nest_agent_fields
from dealkit._cli.csv_tables import TableRow
from dealkit._cli.files import open_temporary_database
from dealkit._cli.import_settings import ImportSettings
from dealkit._cli.row_kinds import describe_non_person
from dealkit._cli.row_problems import ProblemGroups
from dealkit._cli.spreadsheet_damage import find_damage, find_key_damage

IN_PROGRESS = "in progress elsewhere"
SKIPPED = "skipped"

OUTCOMES = {
    "created": ("green", ""),
    "rejected": ("red", "the service did not accept them; no agent was created"),
    "unknown": ("yellow", "sent, but without a clear answer: these agents may exist"),
    IN_PROGRESS: ("yellow", "another import is sending them: run the command again when it has finished"),
    "not sent": ("yellow", "run the command again to send them"),
    "invalid": ("red", "correct them first"),
    SKIPPED: ("yellow", "not people, or repeated rows: not sent"),
}
"""The outcomes of rows, with colour and explanation."""

_IMPORT_OUTCOMES = {"succeeded": "created", "rejected": "rejected", "unknown": "unknown", "not_sent": "not sent"}


def import_outcome(outcome: str, *, in_flight: bool) -> str:
    """Returns the import's name for the outcome of a call. `in_flight` means that another import is sending the row
    now."""
    return IN_PROGRESS if in_flight else _IMPORT_OUTCOMES[outcome]


_TABLES = """
PRAGMA cache_size = -16000;
CREATE TABLE rows (number INTEGER PRIMARY KEY, cells TEXT, key TEXT DEFAULT '', outcome TEXT DEFAULT 'not sent',
    agent_id TEXT DEFAULT '', status TEXT DEFAULT '', message TEXT DEFAULT '', warning TEXT DEFAULT '',
    was_earlier INTEGER DEFAULT 0, is_sendable INTEGER, is_damaged INTEGER, is_duplicate INTEGER DEFAULT 0);
CREATE TABLE reported (key TEXT PRIMARY KEY, existence INTEGER, agent_id TEXT) WITHOUT ROWID;
"""

# The number of rows in memory at a time.
BATCH_SIZE = 5000

_LIMIT_MESSAGE = "left for a later run, because of --limit"


class RowResult(NamedTuple):
    """The outcome of a row. Except for the key, its strings contain no values from the table."""

    number: int
    """The row number in the spreadsheet."""
    key: str
    """The key that identifies the row in the ledger."""
    outcome: str
    """The outcome: a key of the dict `OUTCOMES`."""
    agent_id: str = ""
    status: str = ""
    message: str = ""
    was_earlier: bool = False
    """True if an earlier run recorded the outcome."""


class _Problem(NamedTuple):
    """A problem of a row, or a warning."""

    column: str
    kind: str
    message: str


def _join_messages(problems: Iterable[_Problem]) -> str:
    return "; ".join(f"{problem.column}: {problem.message}".removeprefix(": ") for problem in problems)


class ImportRows:
    """The rows of an import and their outcomes. They are in a temporary database, because they may not fit in
    memory."""

    def __init__(self, rows: Iterable[TableRow], width: int) -> None:
        """Stores the cells of all rows. `width` is the number of columns."""
        self.problems, self.warnings, self.skipped = ProblemGroups(), ProblemGroups(), ProblemGroups()
        """Problems that prevent a row from being sent, warnings, which do not, and the reasons why rows are skipped. The
        messages contain no values from the table.
        """
        self.filled_counts: Counter[int] = Counter()
        """The number of filled cells of each column, by index."""
        self._database = open_temporary_database(_TABLES + row_duplicates.TABLE)
        self._width = width
        self._database.executemany("INSERT INTO rows (number, cells) VALUES (?, ?)", self._encode(rows))

    def _encode(self, rows: Iterable[TableRow]) -> Iterator[tuple[int, str]]:
        for number, cells in rows:
            self.filled_counts.update(index for index, cell in enumerate(cells) if cell)
            yield number, json.dumps(cells)

    def count_cells(self, index: int) -> tuple[int, int, int]:
        """Counts the rows with several cells, and the filled and the different cells in a column."""
        row_count, filled_count, texts = 0, 0, set()
        for _, cells in self._select_in_batches("cells"):
            row = json.loads(cells)
            if sum(map(bool, row)) > 1:
                row_count += 1
                text = row[index] if index < len(row) else ""
                filled_count += bool(text)
                texts.add(hash(text))
        return row_count, filled_count, len(texts)

    def collect_evidence(self, mapping: ColumnMapping, settings: ImportSettings) -> ColumnEvidence:
        """Collects the evidence about the notation of the table's dates, phone numbers and roles."""
        evidence = ColumnEvidence()
        for number, cells in self._select_in_batches("cells"):
            row = json.loads(cells)
            if describe_non_person(row, mapping.header) is None:
                evidence.add(number, mapping.texts_by_field(row), settings)
        return evidence

    def check(
        self, mapping: ColumnMapping, parser: CellParser, key_columns: Sequence[str], *, allows_shared_email: bool
    ) -> None:
        """Validates the rows, and compares rows with the same key or e-mail address. With `allows_shared_email`, agents
        with different keys may have the same e-mail address.
        """
        self._mapping, self._parser = mapping, parser
        self._key_indexes = mapping.key_indexes(key_columns)
        self._key_column = " + ".join(mapping.display_name(index) for index in self._key_indexes)
        self.key_name = mapping.key_name(self._key_indexes)
        """The name that the ledger records for the idempotency keys."""
        for number, cells in self._select_in_batches("cells"):
            self._check_row(number, json.loads(cells))
        for duplicate in row_duplicates.find_duplicates(self._database):
            self._handle_duplicate(duplicate, allows_shared_email=allows_shared_email)
        self._find_shortened_keys()

    def _check_row(self, number: int, cells: list[str]) -> None:
        key_cells = [cells[index] if index < len(cells) else "" for index in self._key_indexes]
        key = join_key(key_cells) if all(key_cells) else ""
        texts = self._mapping.texts_by_field(cells)
        values, cell_problems = self._parser.parse(texts)
        agent = nest_agent_fields(values)
        problems = [
            _Problem(self._mapping.column_for_field(field), message, message)
            for field, message in cell_problems.items()
        ]
        for violation in validate_agent(**agent):
            field = self._mapping.field_for_pointer(violation.pointer)
            if field not in cell_problems:
                problems.append(self._describe_violation(field, violation, texts))
        if any(cells[self._width :]):
            problems.append(
                _Problem("", "cells", "has more cells than there are columns; are quotation marks missing?")
            )
        if problems and (reason := describe_non_person(cells, self._mapping.header)) is not None:
            self._skip(number, reason)
            return
        columns_with_problems = {problem.column for problem in problems}
        if not key:
            empty = [
                self._mapping.display_name(index)
                for index, cell in zip(self._key_indexes, key_cells, strict=True)
                if not cell
            ]
            if columns_with_problems.isdisjoint(empty):
                problems.append(_Problem(empty[0], "no key", "is empty, but must identify the row: fill it in"))
        warnings, is_damaged = self._find_row_damage(key, values, columns_with_problems)
        for groups, details in ((self.problems, problems), (self.warnings, warnings)):
            for column, kind, text in details:
                groups.add(column, kind, number, text)
        self._database.execute(
            "UPDATE rows SET key = ?, outcome = ?, message = ?, warning = ?, is_sendable = ?, is_damaged = ? WHERE number = ?",
            (
                key,
                "invalid" if problems else "not sent",
                _join_messages(problems),
                _join_messages(warnings),
                not problems,
                is_damaged,
                number,
            ),
        )
        # Keys with the same normal form are one key for the ledger.
        normalized_key = ledger.normalize_key(key, name=self.key_name) if key else ""
        # A cell that is no address, such as `TBD`, does not make two rows one person.
        has_address = self._mapping.column_for_field("email") not in columns_with_problems
        row_duplicates.add_person(
            self._database, number, normalized_key, agent if has_address else agent | {"email": ""}
        )

    def _skip(self, number: int, message: str) -> None:
        """Marks a row that is not sent and need not be corrected."""
        self.skipped.add("", message, number, message)
        self._database.execute(
            "UPDATE rows SET outcome = ?, message = ?, is_sendable = 0 WHERE number = ?",
            (SKIPPED, message, number),
        )

    def _handle_duplicate(self, duplicate: row_duplicates.Duplicate, *, allows_shared_email: bool) -> None:
        number, message = duplicate.number, duplicate.message
        column = self._key_column if duplicate.is_same_key else self._mapping.column_for_field("email")
        if duplicate.is_same_key:
            self._database.execute("UPDATE rows SET is_duplicate = 1 WHERE number = ?", (number,))
        if duplicate.is_repeated:
            # A repeated row with mistakes is listed with them.
            if self._count(f"number = {number} AND is_sendable"):
                self._skip(number, message)
        elif duplicate.is_same_key or duplicate.is_same_name or not allows_shared_email:
            self.problems.add(column, "duplicate", number, message)
            add_message = "UPDATE rows SET message = ltrim(message || '; ', '; ') || ?, outcome = 'invalid', is_sendable = 0 WHERE number = ?"
            self._database.execute(add_message, (f"{column}: {message}", number))
        else:
            # The user has allowed a shared address, so the advice to correct it is left out.
            self._add_warning(number, column, "duplicate", message.partition(":")[0])

    def _add_warning(self, number: int, column: str, kind: str, message: str) -> None:
        self.warnings.add(column, kind, number, message)
        add_warning = "UPDATE rows SET warning = ltrim(warning || '; ', '; ') || ? WHERE number = ?"
        self._database.execute(add_warning, (f"{column}: {message}", number))

    def _describe_violation(self, field: str, violation: Any, texts: dict[str, str]) -> _Problem:
        column = self._mapping.column_for_field(field)
        # All cells are strings, so only a boolean can have the wrong type.
        if violation.code == "wrong_type":
            return _Problem(column, violation.code, "must be TRUE or FALSE")
        if violation.code == "required":
            return _Problem(column, violation.code, "is empty, but every agent needs it: fill it in")
        if field in texts and (explanation := self._parser.explain(field, violation.code, texts[field])):
            return _Problem(column, explanation, explanation)
        return _Problem(column, violation.code, violation.detail)

    def _find_row_damage(
        self, key: str, values: dict[str, Any], columns_with_problems: set[str]
    ) -> tuple[list[_Problem], bool]:
        """Finds likely damage to a row, except in columns that already have a problem. Also returns whether any damage
        is certain.
        """
        texts = {field: text for field, text in values.items() if isinstance(text, str)}
        if any(self._mapping.fields[index] is None for index in self._key_indexes):
            texts[""] = key
        by_field = [(field, damage) for field, text in texts.items() for damage in find_damage(field, text)]
        by_column = [
            *((self._mapping.column_for_field(field) or self._key_column, damage) for field, damage in by_field),
            *((self._key_column, damage) for damage in find_key_damage(key)),
        ]
        by_column = [(column, damage) for column, damage in by_column if column not in columns_with_problems]
        warnings = [_Problem(column, kind, message) for column, (kind, message, _) in by_column]
        for field, value in values.items():
            column = self._mapping.column_for_field(field)
            if column not in columns_with_problems and (warning := warn_about_value(field, value)):
                warnings.append(_Problem(column, warning, warning))
        return warnings, any(damage.is_certain for _, damage in by_column)

    def _find_shortened_keys(self) -> None:
        """Warns of keys that may have lost leading zeros: numbers that are shorter than the keys with leading zeros."""
        only_digits = "NOT key GLOB '*[^0-9]*'"
        padded_length_query = f"SELECT max(length(key)) FROM rows WHERE key GLOB '0?*' AND {only_digits}"
        length = self._database.execute(padded_length_query).fetchone()[0] or 0
        is_short = f"key GLOB '[1-9]*' AND {only_digits} AND length(key) < {length}"
        text = "is shorter than keys that begin with a zero: has a spreadsheet removed zeros, as in 123 for 00123?"
        for (number,) in self._select_in_batches("", is_short):
            self._add_warning(number, self._key_column, "zeros", text)

    def sendable(self) -> Iterator[tuple[RowResult, dict[str, Any]]]:
        """Yields the valid rows with the arguments that create their agents, except the rows beyond the limit."""
        for number, key, outcome, was_earlier, cells in self._select_in_batches(
            "key, outcome, was_earlier, cells", "is_sendable"
        ):
            yield RowResult(number, key, outcome, was_earlier=was_earlier), self.agent_arguments(json.loads(cells))

    def agent_arguments(self, cells: Sequence[str]) -> dict[str, Any]:
        """Returns the arguments with which a row's agent is created."""
        return nest_agent_fields(self._parser.parse(self._mapping.texts_by_field(cells))[0])

    def values(self, number: int) -> dict[str, Any]:
        """Returns the values of a row by field, as they are sent."""
        (cells,) = self._database.execute("SELECT cells FROM rows WHERE number = ?", (number,)).fetchone()
        return self._parser.parse(self._mapping.texts_by_field(json.loads(cells)))[0]

    def invalid(self) -> Iterator[RowResult]:
        """Yields the invalid rows that have a key which no earlier row has."""
        selected_rows = self._select_in_batches(
            "key, outcome, agent_id, status, message", "outcome = 'invalid' AND key != '' AND NOT is_duplicate"
        )
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
            for row in self._select_in_batches(
                f"key, outcome, {agent_id_expression}, status, CASE message WHEN '' THEN warning ELSE message END, was_earlier"
            )
        )

    def rejects(self) -> Iterator[tuple[int, list[str], str]]:
        """Yields the numbers and the cells of the rows that have to be corrected, and the reasons."""
        for number, cells, message in self._select_in_batches("cells, message", "outcome IN ('invalid', 'rejected')"):
            yield number, json.loads(cells), message

    def record_result(self, result: RowResult) -> None:
        """Stores the outcome of a row."""
        number, _, *values = result
        columns = "(outcome, agent_id, status, message, was_earlier)"
        self._database.execute(f"UPDATE rows SET {columns} = (?, ?, ?, ?, ?) WHERE number = ?", (*values, number))

    def set_unsent_message(self, message: str) -> None:
        """Stores the message of rows that are not sent. When such a row is sent later, its outcome replaces the
        message."""
        self._database.execute("UPDATE rows SET message = ? WHERE outcome = 'not sent' AND is_sendable", (message,))

    def limit_to(self, count: int) -> int:
        """Leaves all unsent rows except the first ones for a later run. Returns the number of the rows that are
        left."""
        first_rows = "SELECT number FROM rows WHERE outcome = 'not sent' AND is_sendable ORDER BY number LIMIT ?"
        return self._database.execute(
            f"UPDATE rows SET is_sendable = 0, message = ? WHERE outcome = 'not sent' AND is_sendable AND number NOT IN ({first_rows})",
            (_LIMIT_MESSAGE, count),
        ).rowcount

    def load_last_report(self, report_rows: Iterable[tuple[str, int, str]]) -> None:
        """Stores the rows of the last report: key, whether the agent exists (0: no, 1: perhaps, 2: yes), and
        agent_id."""
        for report_row in report_rows:
            self._database.execute(
                "INSERT INTO reported VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET existence = max(existence, excluded.existence), "
                "agent_id = ifnull(nullif(excluded.agent_id, ''), agent_id)",
                report_row,
            )

    def count_missing_from_ledger(self, *, with_unknown: bool) -> int:
        """Counts the sendable rows that the last report, but not the ledger, has as created or, `with_unknown`, as
        unknown."""
        matching = "rows JOIN reported USING (key) WHERE existence >= ? AND outcome = 'not sent'"
        number: int = self._database.execute(
            f"SELECT count(*) FROM {matching}", (1 if with_unknown else 2,)
        ).fetchone()[0]
        return number

    def damaged_row_numbers(self) -> list[int]:
        """Returns the numbers of the sendable rows in which a spreadsheet or an encoding has certainly lost text."""
        return self._select_numbers("is_damaged AND outcome = 'not sent' AND is_sendable")

    def count_sendable(self) -> int:
        """Counts the rows that are sent, or that an earlier run has sent."""
        return self._count("is_sendable")

    def count_unsent(self) -> int:
        """Counts the rows that are sent."""
        return self._count("outcome = 'not sent' AND is_sendable")

    def count_left(self) -> int:
        """Counts the rows that are left for a later run."""
        return self._count("outcome = 'not sent' AND NOT is_sendable")

    def unsent_row_numbers(self, limit: int) -> list[int]:
        """Returns the numbers of the first rows that would be sent."""
        return self._select_numbers("outcome = 'not sent' AND is_sendable", limit)

    def _select_numbers(self, where: str, limit: int = -1) -> list[int]:
        selected_rows = self._database.execute(f"SELECT number FROM rows WHERE {where} ORDER BY number LIMIT {limit}")
        return [number for (number,) in selected_rows]

    def count_warned(self) -> int:
        """Counts the rows that are sent and have warnings."""
        return self._count("outcome = 'not sent' AND is_sendable AND warning != ''")

    def _count(self, where: str) -> int:
        number: int = self._database.execute(f"SELECT count(*) FROM rows WHERE {where}").fetchone()[0]
        return number

    def count_outcomes(self) -> Counter[tuple[str, bool]]:
        """Counts the rows by outcome and by whether an earlier run recorded it."""
        selected_rows = self._database.execute("SELECT outcome, was_earlier, count(*) FROM rows GROUP BY 1, 2")
        return Counter({(outcome, bool(was_earlier)): number for outcome, was_earlier, number in selected_rows})

    def _select_in_batches(self, columns: str, where: str = "1") -> Iterator[Any]:
        """Selects rows in batches, so that the caller may change rows between them."""
        selected = f"number, {columns}".removesuffix(", ")
        sql = f"SELECT {selected} FROM rows WHERE number > ? AND {where} ORDER BY number LIMIT {BATCH_SIZE}"
        last_number = 0
        while batch := self._database.execute(sql, (last_number,)).fetchall():
            yield from batch
            last_number = batch[-1][0]
