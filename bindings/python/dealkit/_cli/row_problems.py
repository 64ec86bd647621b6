"""Problems of rows, grouped for the screen."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

from dealkit._cli.terminal import colorize, format_table, print_result

_MAX_NUMBERS = 3
"""The maximum number of row numbers printed for one message."""

_MAX_SHOWN = 10
"""The maximum number of messages printed for one kind of problem."""

_MAX_MESSAGES = 1000
"""The maximum number of different messages for one kind of problem that are stored and, with --json, printed."""

_REQUEST_ID = re.compile(r" \[request id [^\]]*\]")

_SIMILAR_MESSAGE = "similar problems: the file named with --report has the message of each row"

_MAX_LINES = 100
"""The maximum number of lines with problems that are printed, because a table may have thousands of columns."""


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

    def print_table(self, title: str, outcome: str) -> list[dict[str, Any]]:
        """Prints the first messages of each kind with their first row numbers. Returns all stored messages, with the
        outcome of their rows, for --json.
        """
        lines = []
        for (column, _), group in self.items():
            for text, numbers in group.messages(_MAX_SHOWN):
                more_text = f", … ({len(numbers):,} rows)" if len(numbers) > _MAX_NUMBERS else ""
                first_numbers = ", ".join(map(str, numbers[:_MAX_NUMBERS]))
                lines.append({"Rows": f"{first_numbers}{more_text}", "Column": column, "Message": text})
        if len(lines) > _MAX_LINES:
            more_text = f"… and {len(lines) - _MAX_LINES:,} more lines: the file named with --report has all problems"
            lines[_MAX_LINES:] = [{"Rows": "", "Column": "", "Message": more_text}]
        if lines:
            print_result(colorize(title, "bold"))
            print_result(f"{format_table(lines)}\n")
        return [
            {"outcome": outcome, "rows": numbers.tolist(), "column": column, "message": text}
            for (column, _), group in self.items()
            for text, numbers in group.messages(_MAX_MESSAGES)
        ]


def format_row_numbers(numbers: Sequence[int]) -> str:
    """Formats the first row numbers for the screen."""
    more_text = ", …" if len(numbers) > _MAX_NUMBERS else ""
    return f"row{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers[:_MAX_NUMBERS]))}{more_text}"
