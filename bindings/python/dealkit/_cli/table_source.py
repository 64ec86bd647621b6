"""The table of an import: a CSV file or a worksheet, with its header, and with what is above the header."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from dealkit._cli.csv_tables import (
    REASON_COLUMN,
    TableRow,
    normalize_column_name,
    normalize_spaces,
    read_csv_rows,
    unescape_key,
)
from dealkit._cli.excel_tables import is_workbook, read_sheet
from dealkit._cli.exit_codes import CommandError
from dealkit._cli.files import STANDARD_INPUT, file_display_name
from dealkit._cli.import_settings import ImportSettings

# The number of rows, without blank rows, in which the column names are searched.
_MAX_ROWS_ABOVE = 50


class TableSource(NamedTuple):
    """A table to import."""

    header: list[str]
    rows: Iterator[TableRow]
    """The rows below the header, without blank rows. The iterator raises CommandError at a malformed row."""
    delimiter: str | None
    """The delimiter of a CSV file; None for a worksheet."""
    sheet: str | None
    """The name of a worksheet; None for a CSV file."""
    was_sheet_chosen: bool
    """True if the worksheet was chosen among several."""
    has_reasons: bool
    """True if dealkit wrote the table: the rows of another table that could not be sent, with the reasons."""
    notes: list[str]
    """Sentences for the user about the table."""


def open_table(
    path: Path, settings: ImportSettings, is_known: Callable[[str], bool], *, may_suggest_sheet: bool
) -> TableSource:
    """Opens a table and finds its header. `is_known` returns whether a text is a known column name. With
    `may_suggest_sheet`, the sheet with the most known column names is read if the settings name none.
    """
    if str(path) != STANDARD_INPUT and is_workbook(path):
        suggest = (lambda names: _suggest_sheet(path, names, is_known)) if may_suggest_sheet else None
        sheet = read_sheet(path, settings.sheet, suggest)
        rows, delimiter, name, was_sheet_chosen, notes = sheet.rows, None, sheet.name, sheet.was_chosen, [*sheet.notes]
    else:
        rows, delimiter = read_csv_rows(path, settings.encoding, lambda cells: _count_known_names(cells, is_known))
        name, was_sheet_chosen, notes = None, False, []
    first_rows = [*islice(rows, _MAX_ROWS_ABOVE)]
    if not first_rows:
        raise CommandError(f"{file_display_name(path)} is empty; it must have a row with the column names")
    has_reasons = REASON_COLUMN in first_rows[0].cells
    if has_reasons:
        # The table was written without the rows above the header, which the settings may describe.
        header, header_end = first_rows[0].cells, 1
    elif settings.header_rows:
        header, header_end = _header_at(path, first_rows, settings.header_rows)
    else:
        header, header_end = _find_header(first_rows, is_known)
        if header_end > 1:
            notes.append(_describe_header(first_rows, header_end, header))
    remaining_rows: Iterator[TableRow] = chain(first_rows[header_end:], rows)
    if has_reasons:
        remaining_rows = (TableRow(row.number, [*map(unescape_key, row.cells)]) for row in remaining_rows)
    return TableSource(header, remaining_rows, delimiter, name, was_sheet_chosen, has_reasons, notes)


def _suggest_sheet(path: Path, names: Sequence[str], is_known: Callable[[str], bool]) -> str | None:
    """Returns the sheet with the most known column names, or None if several sheets have as many."""
    counts = {}
    for name in names:
        first_rows = [*islice(read_sheet(path, name).rows, _MAX_ROWS_ABOVE)]
        counts[name] = _count_known_names(_find_header(first_rows, is_known)[0], is_known)
    best = max(counts.values())
    best_names = [name for name, count in counts.items() if count == best]
    return best_names[0] if best > 1 and len(best_names) == 1 else None


def _count_known_names(cells: Sequence[str], is_known: Callable[[str], bool]) -> int:
    return len({normalize_column_name(cell) for cell in cells if cell and is_known(cell)})


def _find_header(rows: Sequence[TableRow], is_known: Callable[[str], bool]) -> tuple[list[str], int]:
    """Finds the row, or the two rows, with the most known column names. Returns the names, and the number of rows up to
    the header's end. Without any known name, the first row is the header.
    """
    best_count, best_header, best_end = 0, rows[0].cells, 1
    for index, row in enumerate(rows):
        count = _count_known_names(row.cells, is_known)
        # A single known name above the table may be part of a title.
        if count > max(best_count, 1 if index else 0):
            best_count, best_header, best_end = count, row.cells, index + 1
    for index, (upper, lower) in enumerate(zip(rows, rows[1:], strict=False)):
        header = _join_header_rows(upper.cells, lower.cells)
        # A row of people below the names would not form known names with them.
        joined_count = _count_known_names(
            [name for name, first, second in zip(header, upper.cells, lower.cells, strict=False) if first and second],
            is_known,
        )
        count = _count_known_names(header, is_known)
        is_best = count > best_count or (count == best_count and joined_count > 1 and best_end == index + 1)
        if lower.number == upper.number + 1 and joined_count and is_best:
            best_count, best_header, best_end = count, header, index + 2
    return best_header, best_end


def _header_at(path: Path, rows: Sequence[TableRow], numbers: tuple[int, int]) -> tuple[list[str], int]:
    found = [(index, row) for index, row in enumerate(rows) if numbers[0] <= row.number <= numbers[1]]
    if len(found) != numbers[1] - numbers[0] + 1:
        raise CommandError(
            f"--header-row: {file_display_name(path)} has no column names there: the row is blank, or it is not among the "
            f"first {_MAX_ROWS_ABOVE} rows"
        )
    end = found[-1][0] + 1
    return (found[0][1].cells if len(found) == 1 else _join_header_rows(found[0][1].cells, found[1][1].cells)), end


def _join_header_rows(upper: Sequence[str], lower: Sequence[str]) -> list[str]:
    """Joins the cells of two rows, such as `First` above `name`. A cell that is merged over both rows counts once."""
    width = max(len(upper), len(lower))
    pairs = zip([*upper, *[""] * (width - len(upper))], [*lower, *[""] * (width - len(lower))], strict=True)
    return [normalize_spaces(first if first == second else f"{first} {second}") for first, second in pairs]


def _describe_header(rows: Sequence[TableRow], header_end: int, header: Sequence[str]) -> str:
    last = rows[header_end - 1]
    is_joined = last.cells != header
    first = rows[header_end - 2] if is_joined else last
    where = f"Rows {first.number} and {last.number} have" if is_joined else f"Row {last.number} has"
    above = " The rows above are skipped." if first.number > 1 else ""
    return f"{where} the column names.{above} If that is wrong, name the row with --header-row."
