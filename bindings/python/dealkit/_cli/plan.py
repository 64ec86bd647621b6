"""What a table of agents comes to: the agents that can be sent, and what is wrong with the other rows."""

from __future__ import annotations

from typing import Any, NamedTuple

from dealkit._calls import agent_violations
from dealkit._cli.columns import Columns, Mistake
from dealkit._cli.report import Result
from dealkit._cli.screen import safe
from dealkit._cli.table_file import Row, Table


class Line(NamedTuple):
    """A row that can be sent."""

    number: int
    key: str
    """What tells it apart in the ledger."""
    agent: dict[str, Any]
    """The arguments of its create."""


class Plan(NamedTuple):
    """What is to be sent, and what cannot be."""

    lines: list[Line]
    mistakes: list[Mistake]

    def invalid(self) -> list[Result]:
        """The rows that cannot be sent, each with all that is wrong with it."""
        by_row: dict[int, list[str]] = {}
        for mistake in self.mistakes:
            by_row.setdefault(mistake.row, []).append(f"{mistake.column}: {mistake.text}".removeprefix(": "))
        return [Result(row, "invalid", message="; ".join(texts)) for row, texts in by_row.items()]


def plan_of(rows: Table, columns: Columns, key_index: int) -> Plan:
    """Holds every row against the rules, and its key against those before it."""
    found = Plan([], [])
    first: dict[str, int] = {}
    for row in rows.rows:
        agent = columns.agent(row)
        key = row.cells[key_index] if key_index < len(row.cells) else ""
        mistakes = _mistakes(row, agent, columns)
        key_column = safe(columns.header[key_index])
        if not key and not any(mistake.column == key_column for mistake in mistakes):
            mistakes.append(Mistake(row.number, key_column, "is empty, and tells the rows apart (see --key)"))
        if key and (of := first.setdefault(key, row.number)) != row.number:
            mistakes.append(
                Mistake(row.number, key_column, f"is that of row {of}, and tells the rows apart (see --key)")
            )
        if mistakes:
            found.mistakes.extend(mistakes)
        else:
            found.lines.append(Line(row.number, key, agent))
    return found


def _mistakes(row: Row, agent: dict[str, Any], columns: Columns) -> list[Mistake]:
    mistakes = []
    if any(row.cells[len(columns.header) :]):
        text = "has more cells than there are columns; is something in quotation marks missing them?"
        mistakes.append(Mistake(row.number, "", text))
    # What validates empties what it is given.
    for violation in agent_violations({**agent}):
        column, text = columns.column_of(violation.pointer), violation.detail
        if violation.code == "wrong_type" and columns.is_yes_or_no(column):
            text = "must be TRUE or FALSE"
        mistakes.append(Mistake(row.number, column, text))
    return mistakes
