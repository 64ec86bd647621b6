"""What an import will do: the agents that can be sent, and what is wrong with the other rows."""

from __future__ import annotations

from typing import Any, NamedTuple

from dealkit import Client
from dealkit._cli.columns import Columns, Mistake
from dealkit._cli.report import Result
from dealkit._cli.screen import safe
from dealkit._cli.table_file import Row, Table

_NO_KEY = "is empty, but must tell the rows apart: fill it in, or name another column with --key"
_SAME_KEY = (
    "is the same as in an earlier row, but must tell the rows apart: keep one of the two, or name another column with "
    "--key"
)
_SAME_EMAIL = "is the same as in an earlier row: keep one of the two, unless they are two agents"


class Line(NamedTuple):
    """A row that can be sent."""

    number: int
    key: str
    """What identifies it in the ledger."""
    agent: dict[str, Any]
    """The arguments of its create."""


class Plan(NamedTuple):
    """What is to be sent, and what cannot be."""

    key_name: str
    """The name of the keys in the ledger."""
    lines: list[Line]
    mistakes: list[Mistake]
    doubts: list[Mistake]
    """Possible mistakes, which do not keep any row from being sent."""
    keys: dict[int, str]
    """The key of each row, including those that cannot be sent."""

    def invalid(self) -> list[Result]:
        """The rows that cannot be sent, each with everything that is wrong with it."""
        return [
            Result(row, self.keys[row], "invalid", message="; ".join(texts))
            for row, texts in _by_row(self.mistakes).items()
        ]

    def unsent(self, lines: list[Line]) -> list[Result]:
        """The results of rows that can be sent, but were not."""
        doubts = _by_row(self.doubts)
        return [
            Result(line.number, line.key, "not sent", message="; ".join(doubts.get(line.number, ()))) for line in lines
        ]


def plan_of(rows: Table, columns: Columns, key_index: int) -> Plan:
    """Checks every row against the rules, and its key and e-mail address against those of earlier rows."""
    key_column = safe(columns.header[key_index])
    found = Plan(columns.key_name(key_index), [], [], [], {})
    with_key: dict[str, int] = {}
    with_email: dict[str, int] = {}
    email_column = safe(columns.name_of("email") or "")
    # It calls nobody: the rules need neither a service nor a key.
    with Client(base_url="http://127.0.0.1", service_key="none") as client:
        for row in rows.rows:
            agent = columns.agent(row)
            key = row.cells[key_index] if key_index < len(row.cells) else ""
            found.keys[row.number] = key
            mistakes = _mistakes(row, agent, columns, client)
            if not key and not any(mistake.column == key_column for mistake in mistakes):
                mistakes.append(Mistake(row.number, key_column, "no_key", _NO_KEY))
            # Addresses that differ only in case belong to one person.
            email = agent.get("email", "").casefold()
            of_email = with_email.setdefault(email, row.number)
            if key and (of_key := with_key.setdefault(key, row.number)) != row.number:
                mistakes.append(Mistake(row.number, key_column, "same_key", _SAME_KEY, f"as in row {of_key}"))
            elif email and not mistakes and of_email != row.number:
                found.doubts.append(
                    Mistake(row.number, email_column, "same_email", _SAME_EMAIL, f"as in row {of_email}")
                )
            if mistakes:
                found.mistakes.extend(mistakes)
            else:
                found.lines.append(Line(row.number, key, agent))
    return found


def _by_row(mistakes: list[Mistake]) -> dict[int, list[str]]:
    texts: dict[int, list[str]] = {}
    for mistake in mistakes:
        texts.setdefault(mistake.row, []).append(str(mistake))
    return texts


def _mistakes(row: Row, agent: dict[str, Any], columns: Columns, client: Client) -> list[Mistake]:
    mistakes = []
    if any(row.cells[len(columns.header) :]):
        text = "has more cells than there are columns; are quotation marks missing around a cell?"
        mistakes.append(Mistake(row.number, "", "too_many_cells", text))
    for violation in client.agents.validate(**agent):
        column = columns.column_of(violation.pointer)
        text = violation.detail
        if violation.code == "wrong_type" and columns.is_yes_or_no(column):
            text = "must be TRUE or FALSE"
        mistakes.append(Mistake(row.number, column, violation.code, text))
    return mistakes
