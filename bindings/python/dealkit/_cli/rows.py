"""The rows of an import: what is to be sent, what is wrong, and what became of each."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dealkit import Client
from dealkit._cli.columns import Columns
from dealkit._cli.screen import painted, pairs, safe, say, say_all, table
from dealkit._cli.tables import Table

_MOST_SHOWN = 3
"""How many rows, or ranges of rows, are shown on the screen for one item; the report has them all."""

IN_PROGRESS = "in progress elsewhere"

OUTCOMES = {
    "created": ("green", ""),
    "rejected": ("red", "refused by the service"),
    "unknown": ("yellow", "may or may not have become agents"),
    IN_PROGRESS: ("yellow", "another import is sending them: run the command again once it has ended"),
    "not sent": ("yellow", "run the command again to send them"),
    "invalid": ("red", "correct them, and run the command again"),
}
"""What can become of a row, its colour, and what it means."""

_WORDS = {"succeeded": "created", "rejected": "rejected", "unknown": "unknown", "not_sent": "not sent"}

_APART = "must tell the rows apart"


def word_of(outcome: str, *, in_flight: bool) -> str:
    """The word for the outcome of a call. What another import is sending is known to that one."""
    return IN_PROGRESS if in_flight else _WORDS[outcome]


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
    """A row that is not blank. None of its texts contains a value, except for the key."""

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
    outcome: str = "not sent"
    """What became of it, a word of `OUTCOMES`."""
    agent_id: str = ""
    status: str = ""
    message: str = ""
    was_earlier: bool = False
    """Whether the outcome is that of an earlier run."""
    reason: Hashable = None
    """What it has in common with rows that failed for the same reason, whatever their requests were called."""

    def cell(self, name: str) -> Any:
        """What goes to a field."""
        agent = self.agent
        return agent["profile"].get(name.removeprefix("profile.")) if name.startswith("profile.") else agent.get(name)


def rows_of(found: Table, columns: Columns, options: Namespace) -> list[Row]:
    """Checks every row against the rules, and its key and e-mail address against those of earlier rows."""
    at = columns.key_index(options.key)
    key_column = safe(columns.header[at])
    is_email = columns.key_name(at) == "email"
    rows = []
    with_key: dict[str, int] = {}
    with_email: dict[str, int] = {}
    # It calls nobody: the rules need neither a service nor a key.
    with Client(base_url="http://127.0.0.1", service_key="none") as client:
        for number, cells in found.rows:
            row = Row(number, cells[at] if at < len(cells) else "", columns.agent(cells))
            if any(cells[len(columns.header) :]):
                text = "has more cells than there are columns; are quotation marks missing around a cell?"
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
            of_key = with_key.setdefault(row.key.lower() if is_email else row.key, number)
            # Addresses that differ only in case belong to one person.
            email = str(row.agent.get("email", "")).casefold()
            of_email = with_email.setdefault(email, number)
            if row.key and of_key != number:
                text = f"is the same as in row {of_key}, but {_APART}: keep one of the two"
                row.problems.append(Problem(key_column, "", "same_key", text))
            elif email and of_email != number and not row.problems:
                text = f"is the same as in row {of_email}: keep one of the two, unless they are two agents"
                row.doubts.append(Problem(columns.at("/email")[0], "", "same_email", text))
            if row.problems:
                row.outcome = "invalid"
            row.message = "; ".join(map(str, row.problems or row.doubts))
            rows.append(row)
    return rows


def show_problems(title: str, rows: Iterable[tuple[Row, list[Problem]]]) -> list[dict[str, Any]]:
    """Lists what is wrong with the rows: each kind of problem once, with the rows that it occurs in."""
    by_kind: dict[tuple[str, str], list[tuple[int, Problem]]] = {}
    for row, problems in rows:
        for one in problems:
            by_kind.setdefault((one.column, one.kind), []).append((row.number, one))
    found: list[dict[str, Any]] = []
    for (column, _), some in by_kind.items():
        numbers, (first, problem) = [number for number, _ in some], some[0]
        # Where the rows differ in it, as in how long a text is, the first one stands for all.
        is_one = all(one.text == problem.text for _, one in some)
        message = problem.text if is_one else f"{problem.text} (row {first})"
        found.append({"rows": numbers, "column": column, "message": message})
    if found:
        say(painted(title, "bold"))
        shown = [{"Rows": _ranges(one["rows"]), "Column": one["column"], "Problem": one["message"]} for one in found]
        say_all(table(shown, indent="  "))
        say()
    return found


def show_outcomes(rows: Sequence[Row], result: dict[str, Any], *, can_go_on: bool) -> None:
    """Says how many rows had which outcome, and names those that did not become an agent."""
    for outcome in ("rejected", "unknown"):
        # The message of the first one stands for all that have its reason, and the report has each.
        by_reason: dict[Hashable, list[Row]] = {}
        for row in rows:
            if row.outcome == outcome:
                by_reason.setdefault(row.reason or row.message, []).append(row)
        if by_reason:
            groups = [([row.number for row in some], some[0].message) for some in by_reason.values()]
            say(painted(outcome.capitalize(), OUTCOMES[outcome][0]))
            say_all(table([{"Rows": _ranges(numbers), "Reason": message} for numbers, message in groups], indent="  "))
            say()
            result["errors"] += [
                {"rows": numbers, "outcome": outcome, "message": message} for numbers, message in groups
            ]
    shown = {}
    for outcome, (colour, meaning) in OUTCOMES.items():
        some = [row for row in rows if row.outcome == outcome]
        earlier = sum(row.was_earlier for row in some)
        result["counts"][outcome.replace(" ", "_")] = len(some)
        notes = [f"{earlier:,} of them in an earlier run"] if earlier and outcome != IN_PROGRESS else []
        notes += [meaning] if meaning and some and (can_go_on or outcome != "not sent") else []
        if some or outcome in ("created", "rejected", "unknown"):
            name = painted(outcome.capitalize(), colour) if some else outcome.capitalize()
            shown[name] = f"{len(some):,}  {'; '.join(notes)}".rstrip()
    say_all(pairs(shown))


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
