"""Excel workbooks (.xlsx) as tables, read and written with openpyxl."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import chain, islice
from math import isfinite
from pathlib import Path
from typing import IO, Any, NamedTuple
from zipfile import ZIP_DEFLATED, ZipFile

from dealkit._cli.csv_tables import TableRow, join_names
from dealkit._cli.excel_files import (
    MAX_CELL_LENGTH,
    damaged_workbook,
    import_openpyxl,
    is_workbook,
    open_archive,
)
from dealkit._cli.excel_notes import describe_survey
from dealkit._cli.excel_survey import MergedRange, SheetSurvey, column_letters
from dealkit._cli.exit_codes import CommandError
from dealkit._cli.files import file_display_name
from dealkit._cli.terminal import choose, escape_controls

__all__ = ["MAX_DATA_ROWS", "SHEET_NAME", "ExcelSheet", "fits_into_cell", "is_workbook", "read_sheet", "write_workbook"]

SHEET_NAME = "Sheet1"
"""The name of the sheet that `write_workbook` writes."""

MAX_DATA_ROWS = (1 << 20) - 1
"""The maximum number of rows of a sheet, without the header."""

MAX_CELL_TEXT = 32_767
"""The maximum length of a text that Excel accepts in a cell, in UTF-16 code units."""

# Methods that read parts of a workbook without a table. openpyxl rejects a workbook if one of these parts has errors.
_SKIPPED_STEPS = ("read_properties", "read_custom", "read_theme", "read_chartsheet")

# The relationship type of a sheet with cells. Charts have another.
_WORKSHEET_TYPE = "/worksheet"

# A number format whose digits are all zeros, such as 00000 or "+"0 or 000-0000: Excel displays at least as many digits.
# Its other characters are displayed unchanged.
_DIGIT_MASK = re.compile(r'(?:"[^"]*"|\\.|[0+\-() :])+')
_MASK_PART = re.compile(r'"([^"]*)"|\\(.)|([0+\-() :])')

# The characters that Excel writes as escapes such as _x000D_, and text that looks like such an escape.
_ESCAPE = re.compile(r"_x([0-9A-Fa-f]{4})_")
_TO_ESCAPE = re.compile("_(?=x[0-9A-Fa-f]{4}_)|[\x00-\x08\x0b-\x1f\ud800-\udfff\ufffe\uffff]")

# A column is as wide as its longest text in the first rows, within limits.
_MEASURED_ROWS, _MIN_WIDTH, _MAX_WIDTH = 200, 8, 50


class ExcelSheet(NamedTuple):
    """The table in a sheet of a workbook."""

    name: str
    """The name of the sheet."""
    rows: Iterator[TableRow]
    """The rows that are not blank, with the row numbers of the sheet. They are read one by one. The iterator raises
    CommandError at damaged content.
    """
    notes: list[str]
    """Sentences for the user about hidden rows, merged cells and similar. They contain no cell of the table."""
    was_chosen: bool = False
    """True if the sheet was chosen among several."""


def read_sheet(
    path: Path, sheet: str | None, choose_sheet: Callable[[list[str]], str | None] | None = None
) -> ExcelSheet:
    """Reads a sheet of a workbook: the sheet with the given name, in any case, or else the only visible sheet that has
    cells. If several have cells, calls `choose_sheet` with their names. Without `choose_sheet`, or if it returns None, asks
    the user.

    Errors name the file and cells, but show none of the file's content except the names of sheets.
    """
    openpyxl = import_openpyxl()
    with ExitStack() as stack:
        archive = stack.enter_context(open_archive(path))
        reader = openpyxl.reader.excel.ExcelReader(archive.fp, read_only=True, data_only=True, keep_links=False)
        reader.archive = archive
        for step in _SKIPPED_STEPS:
            setattr(reader, step, lambda *_: None)
        reader.read()
        parts = {
            item.name: relation.target
            for item, relation in reader.parser.find_sheets()
            if relation.Type.endswith(_WORKSHEET_TYPE)
        }
        if not {*parts.values()} <= {*reader.valid_files}:
            raise damaged_workbook(path)
        worksheets = {worksheet.title: worksheet for worksheet in reader.wb.worksheets if worksheet.title in parts}

        surveys = {name: archive.surveys[part] for name, part in parts.items()}
        name, was_chosen = _choose_sheet(path, sheet, worksheets, lambda name: not surveys[name].is_empty, choose_sheet)
        survey = surveys[name]
        _reject_unreadable(path, name, survey)
        is_from_1904 = reader.wb.epoch == openpyxl.utils.datetime.CALENDAR_MAC_1904
        rows = _read_rows(path, worksheets[name], survey.merged_ranges, stack.pop_all())
    # Starts the generator, so that the file is closed even if no row is read.
    next(rows)
    notes = [*describe_survey(survey, is_from_1904=is_from_1904)]
    return ExcelSheet(name, rows, notes, was_chosen=was_chosen)


def _choose_sheet(
    path: Path,
    sheet: str | None,
    worksheets: dict[str, Any],
    is_used: Callable[[str], bool],
    choose_sheet: Callable[[list[str]], str | None] | None,
) -> tuple[str, bool]:
    """Returns the name of the sheet to read, and whether it was chosen among several."""
    if sheet is not None:
        wanted = sheet.strip().casefold()
        for name in worksheets:
            if name.strip().casefold() == wanted:
                if not is_used(name):
                    raise CommandError(f'{file_display_name(path)}: the sheet "{escape_controls(name)}" is empty')
                return name, False
        known_names = ", ".join(f'"{escape_controls(name)}"' for name in worksheets)
        raise CommandError(
            f'{file_display_name(path)} has no sheet "{escape_controls(sheet)}". Its sheets are: {known_names or "none"}. Name one of them '
            "with --sheet"
        )
    names = [name for name, worksheet in worksheets.items() if worksheet.sheet_state == "visible" and is_used(name)]
    if not names:
        raise CommandError(
            f"{file_display_name(path)} has no visible sheet with a table. Is it the right file? To read a hidden sheet, name it with "
            "--sheet"
        )
    if len(names) == 1:
        return names[0], False
    if choose_sheet is not None and (chosen := choose_sheet(names)) is not None:
        return chosen, True
    name_by_choice = {escape_controls(name): name for name in names}
    choice = choose(
        f"{file_display_name(path)} has several sheets. Which one has the table?",
        [*name_by_choice],
        f'Name it with --sheet, as in --sheet "{next(iter(name_by_choice))}".',
    )
    return name_by_choice[choice], True


def _reject_unreadable(path: Path, name: str, survey: SheetSurvey) -> None:
    sheet_text = f'{file_display_name(path)}, sheet "{escape_controls(name)}"'
    if cells := survey.formulas_without_value:
        raise CommandError(
            f"{sheet_text}: the result of {'a formula is' if len(cells) == 1 else 'formulas is'} not saved in the file: "
            f"{'cell' if len(cells) == 1 else 'cells'} {join_names(cells)}. Open the file in Excel or LibreOffice, save it, and run the "
            "command again"
        )


def _read_rows(path: Path, worksheet: Any, merged_ranges: list[MergedRange], stack: ExitStack) -> Iterator[Any]:
    """Reads the rows of a sheet. The first item is None; it precedes the first row."""
    with stack:
        yield None
        # A wrong size, as some programs write it, would hide rows.
        worksheet.reset_dimensions()
        merges = _MergedCells(merged_ranges)
        for number, row in enumerate(worksheet.iter_rows(), 1):
            texts = [_format_cell(cell).strip() if cell.value is not None else "" for cell in row]
            if any(len(text) > MAX_CELL_LENGTH for text in texts):
                raise CommandError(
                    f"{file_display_name(path)}: a cell in row {number:,} has more than {MAX_CELL_LENGTH:,} characters. Shorten it"
                )
            merges.apply(number, texts)
            while texts and not texts[-1]:
                texts.pop()
            if texts:
                yield TableRow(number, texts)


class _MergedCells:
    """Merged cells. Their value counts for each row, in the first column of the merged cells. The other cells are blank, even if
    they have a value, because Excel does not display it. A row that has no other value remains blank.
    """

    def __init__(self, merged_ranges: list[MergedRange]) -> None:
        self._remaining = sorted(merged_ranges, reverse=True)
        self._active: list[tuple[MergedRange, str]] = []

    def apply(self, number: int, texts: list[str]) -> None:
        """Applies the merged cells to the texts of a row. The rows must be ascending."""
        if not (self._active or (self._remaining and self._remaining[-1].first_row <= number)):
            return
        self._active = [(item, text) for item, text in self._active if item.last_row >= number]
        for item, _ in self._active:
            self._clear(item, texts)
        is_blank = not any(texts)
        while self._remaining and self._remaining[-1].first_row <= number:
            item = self._remaining.pop()
            text = "".join(texts[item.first_column - 1 : item.first_column]) if item.first_row == number else ""
            self._clear(item, texts)
            self._active.append((item, text))
        for item, text in self._active:
            if text and not (is_blank and item.first_row < number):
                texts.extend([""] * (item.first_column - len(texts)))
                texts[item.first_column - 1] = text

    @staticmethod
    def _clear(item: MergedRange, texts: list[str]) -> None:
        covered = slice(item.first_column - 1, item.last_column)
        texts[covered] = [""] * len(texts[covered])


def _format_cell(cell: Any) -> str:
    """Formats the value of a cell: text unchanged, a number with all digits, a date as in 2026-12-31."""
    value = cell.value
    match value:
        case str():
            # openpyxl leaves escapes in the text.
            return _ESCAPE.sub(_unescape, value) if "_x" in value else value
        case bool():
            return "TRUE" if value else "FALSE"
        case int() | float():
            return _format_number(value, _number_format(cell))
        case datetime():
            return value.date().isoformat() if value.time() == time() else value.isoformat(timespec="seconds")
        case date():
            return value.isoformat()
        case time():
            return value.isoformat(timespec="seconds")
        case timedelta():
            minutes, seconds = divmod(round(value.total_seconds()), 60)
            return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
    return str(value)


def _number_format(cell: Any) -> str:
    try:
        return str(cell.number_format)
    except (IndexError, TypeError):
        return "General"  # some programs write no formats, or an empty one


def _unescape(match: re.Match[str]) -> str:
    code = int(match[1], 16)
    # An unpaired surrogate is not a character.
    return "\ufffd" if 0xD800 <= code < 0xE000 else chr(code)


def _format_number(value: float, number_format: str) -> str:
    if not isfinite(value):
        return "#NUM!"
    if isinstance(value, float) and not value.is_integer():
        # Excel displays 15 digits; the others are rounding errors, as in 0.30000000000000004.
        return f"{Decimal(f'{value:.15g}'):f}"
    digits = f"{Decimal(repr(value)).to_integral_value():f}"
    mask = _parse_digit_mask(number_format)
    return _apply_digit_mask(mask, digits) if mask and not digits.startswith("-") else digits


def _parse_digit_mask(number_format: str) -> list[str]:
    """Returns the characters of a number format of zeros, in which "0" stands for a digit and other texts for themselves. Returns
    an empty list for any other format.
    """
    positive_format = number_format.split(";")[0]
    if "0" not in positive_format or not _DIGIT_MASK.fullmatch(positive_format):
        return []
    return [quoted or escaped or plain for quoted, escaped, plain in _MASK_PART.findall(positive_format)]


def _apply_digit_mask(mask: list[str], digits: str) -> str:
    """Formats a number as Excel displays it. Digits that exceed the format precede its first digit."""
    digit_count = mask.count("0")
    digits = digits.rjust(digit_count, "0")
    excess = len(digits) - digit_count
    remaining = iter([digits[: excess + 1], *digits[excess + 1 :]])
    return "".join(next(remaining) if part == "0" else part for part in mask)


def write_workbook(file: IO[bytes], rows: Iterable[Iterable[object]], sheet: str | None = None) -> None:
    """Writes a workbook with one sheet, whose first row is the header. Writes the rows one by one.

    Strings become text cells, which Excel neither evaluates nor rewrites. Numbers and dates become cells of their type. `None`
    and empty strings become empty cells.
    """
    openpyxl = import_openpyxl()
    workbook = openpyxl.Workbook(write_only=True)
    worksheet = workbook.create_sheet(sheet or SHEET_NAME)
    worksheet.freeze_panes = "A2"
    all_rows = iter(rows)
    first_rows = [[*row] for row in islice(all_rows, _MEASURED_ROWS)]
    for column in range(1, max(map(len, first_rows), default=0) + 1):
        lengths = (len(str(cell)) for row in first_rows for cell in row[column - 1 : column] if cell is not None)
        width = min(max(max(lengths, default=0) + 2, _MIN_WIDTH), _MAX_WIDTH)
        worksheet.column_dimensions[column_letters(column)].width = width
    make_cell = _CellFactory(openpyxl, worksheet)
    try:
        for number, row in enumerate(chain(first_rows, all_rows)):
            if number > MAX_DATA_ROWS:
                raise CommandError(
                    f"A sheet of Excel holds at most {MAX_DATA_ROWS:,} rows and a header. Write a .csv file instead"
                )
            worksheet.append([make_cell(value, is_header=not number) for value in row])
        # Unlike `workbook.save`, closes the archive if an error occurs.
        with ZipFile(file, "w", ZIP_DEFLATED) as archive:
            openpyxl.writer.excel.ExcelWriter(workbook, archive).save()
    except BaseException:
        # Ends openpyxl's generators, which would otherwise print errors when they are deleted.
        with suppress(Exception):
            worksheet.close()
        raise


class _CellFactory:
    """Makes the cells of a sheet that is written row by row."""

    def __init__(self, openpyxl: Any, worksheet: Any) -> None:
        self._openpyxl, self._worksheet = openpyxl, worksheet
        self._bold = openpyxl.styles.Font(bold=True)

    def __call__(self, value: object, *, is_header: bool) -> Any:
        if value is None or value == "":
            return None
        cell = self._openpyxl.cell.WriteOnlyCell(self._worksheet)
        match value:
            case Decimal() | int() if not isinstance(value, bool):
                # A string preserves all digits. The format displays as many decimals as the number has.
                text = f"{value:f}" if isinstance(value, Decimal) else str(value)
                decimals = len(text.partition(".")[2])
                cell.value, cell.data_type = text, "n"
                cell.number_format = f"0.{'0' * decimals}" if decimals else "0"
            case date() if not isinstance(value, datetime):
                cell.value, cell.number_format = value, "yyyy-mm-dd"
            case _:
                cell.value, cell.data_type = _escape_text(str(value)), "s"
                cell.number_format = "@"
        if is_header:
            cell.font = self._bold
        return cell


def fits_into_cell(text: str) -> bool:
    """Returns whether Excel accepts the whole text in one cell."""
    return len(text.encode("utf-16-le", "surrogatepass")) <= 2 * MAX_CELL_TEXT


def _escape_text(text: str) -> str:
    """Escapes characters that XML cannot contain, as Excel does. Shortens text to the length that Excel accepts."""
    return _TO_ESCAPE.sub(lambda match: f"_x{ord(match[0]):04X}_", text[:MAX_CELL_TEXT])
