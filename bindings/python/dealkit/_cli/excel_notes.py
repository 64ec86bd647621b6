"""Notes for the user about a sheet: hidden rows, merged cells and similar. They contain no cell of the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from dealkit._cli.csv_tables import join_names
from dealkit._cli.excel_survey import SheetSurvey, column_letters
from dealkit._cli.terminal import format_count

_MAX_MERGED_SHOWN = 3


def describe_survey(survey: SheetSurvey, *, is_from_1904: bool) -> Iterator[str]:
    """Yields the notes about a sheet."""
    if rows := survey.hidden_rows:
        count, verb = format_count(len(rows), "hidden or filtered row"), "is" if len(rows) == 1 else "are"
        yield f"{count} {verb} included: {'row' if len(rows) == 1 else 'rows'} {_join_ranges(rows, str)}."
    if columns := sorted(survey.hidden_columns & survey.used_columns):
        count, verb = format_count(len(columns), "hidden column"), "is" if len(columns) == 1 else "are"
        ranges = _join_ranges(columns, column_letters)
        yield f"{count} {verb} included: {'column' if len(columns) == 1 else 'columns'} {ranges}."
    yield from _describe_merged_cells(survey)
    if cells := survey.long_numbers:
        yield (
            "Excel stores only the first 15 digits of a number, and zeros in place of the others. Compare these cells with the "
            f"original: {join_names(cells)}."
        )
    if is_from_1904:
        yield (
            "The workbook counts days from 1904, as Excel for Mac did. The dates are read accordingly; compare one of them with Excel."
        )


def _describe_merged_cells(survey: SheetSurvey) -> Iterator[str]:
    """Yields notes about merged cells in the table. Titles above it are usually merged, which changes nothing."""
    merged_ranges = [item for item in sorted(survey.merged_ranges) if item.last_row >= survey.first_table_row]
    over_rows = [str(item) for item in merged_ranges if item.last_row > item.first_row]
    over_columns = [str(item) for item in merged_ranges if item.last_row == item.first_row]
    for ranges, kind, meaning in (
        (over_rows, "rows", "each of these rows"),
        (over_columns, "columns", "the first column"),
    ):
        if ranges:
            more_count = len(ranges) - _MAX_MERGED_SHOWN
            more = f" and {more_count:,} more" if more_count > 0 else ""
            shown_ranges = ", ".join(ranges[:_MAX_MERGED_SHOWN])
            yield f"The value of cells that are merged over several {kind} counts for {meaning}: {shown_ranges}{more}."


def _join_ranges(numbers: Sequence[int], format_number: Callable[[int], str]) -> str:
    """Joins ascending numbers, and shortens consecutive numbers to a range such as 4-9."""
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return join_names(
        [
            format_number(first) if first == last else f"{format_number(first)}-{format_number(last)}"
            for first, last in ranges
        ]
    )
