"""What became of each row of an import, on the screen and as a CSV file."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from dealkit._cli.columns import Mistake
from dealkit._cli.flat import csv_line, header_line
from dealkit._cli.screen import bold, say, table

_MEANINGS = {
    "created": "",
    "rejected": "refused by the service; a row that you mend needs another key (--key), or another --ledger",
    "unknown": "may be there or not: look them up; --resend-unknown sends them again",
    "not sent": "run the command again, and they are",
    "invalid": "mend them, and run the command again",
}
"""What a row can come to, and what that means."""


class Result(NamedTuple):
    """What became of one row. Nothing in it is a value of the row."""

    row: int
    came_to: str
    """One of `created`, `rejected`, `unknown`, `not sent` and `invalid`."""
    agent_id: str = ""
    status: str = ""
    message: str = ""
    was_earlier: bool = False
    """Whether an earlier run came to it."""


def show_mistakes(mistakes: list[Mistake]) -> None:
    """Lists what is wrong with the rows, row by row."""
    say(bold("What is wrong"))
    rows = [(f"row {mistake.row}", mistake.column, mistake.text) for mistake in mistakes]
    for line in table(rows, indent="  "):
        say(line)


def show(results: Iterable[Result]) -> None:
    """Says how many rows came to what, and names those that did not become an agent."""
    by_kind: dict[str, list[Result]] = {kind: [] for kind in _MEANINGS}
    for result in results:
        by_kind[result.came_to].append(result)
    for kind in ("rejected", "unknown"):
        if by_kind[kind]:
            say(bold(kind.capitalize()))
            for line in table(_grouped(by_kind[kind]), indent="  "):
                say(line)
            say()
    rows = []
    for kind, meaning in _MEANINGS.items():
        found = by_kind[kind]
        earlier = sum(one.was_earlier for one in found)
        notes = [f"{earlier:,} of them in an earlier run"] if earlier else []
        notes += [meaning] if meaning and found else []
        if found or kind in ("created", "rejected", "unknown"):
            rows.append((kind.capitalize(), f"{len(found):,}", "; ".join(notes)))
    for line in table(rows, right=frozenset({1})):
        say(line)


def _grouped(results: list[Result]) -> list[tuple[str, str]]:
    """Rows with the same message together. What is different in each, the id of the request, is in the report."""
    by_message: dict[str, list[int]] = {}
    for one in sorted(results):
        by_message.setdefault(one.message.partition(" [request id ")[0], []).append(one.row)
    return [(_rows(rows), message) for message, rows in by_message.items()]


def _rows(rows: list[int]) -> str:
    """`row 7`, `rows 7-9, 12`."""
    spans: list[list[int]] = []
    for row in rows:
        if spans and spans[-1][-1] == row - 1:
            spans[-1] = [spans[-1][0], row]
        else:
            spans.append([row])
    return f"row{'s' * (len(rows) > 1)} {', '.join('-'.join(map(str, span)) for span in spans)}"


def check(path: Path) -> None:
    """Finds out whether a report can be written, before there is something to report."""
    new = path.with_name(path.name + ".new")
    with open(new, "w"):
        pass
    new.unlink()


def write(path: Path, results: Iterable[Result]) -> None:
    """Writes what became of each row into a CSV file, which is there as a whole or not at all."""
    new = path.with_name(path.name + ".new")
    with open(new, "w", encoding="utf-8", newline="") as file:
        file.write(header_line(["row", "outcome", "agent_id", "status", "message", "earlier_run"]))
        for one in sorted(results):
            earlier = "yes" if one.was_earlier else ""
            file.write(csv_line([str(one.row), one.came_to, one.agent_id, one.status, one.message, earlier]))
    os.replace(new, path)
