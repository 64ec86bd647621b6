"""Survey of a sheet's XML: everything that the library for workbooks does not report, such as hidden rows."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import IO, Any, NamedTuple
from xml.parsers import expat

_NAMESPACE = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_ROW, _CELL, _FORMULA, _VALUE, _INLINE_STRING, _COLUMN, _MERGE = (
    f"{_NAMESPACE} {name}" for name in ("row", "c", "f", "v", "is", "col", "mergeCell")
)

_MAX_ROW, _MAX_COLUMN = 1 << 20, 1 << 14
_BLOCK_BYTES = 1 << 16
_MAX_CELLS_LISTED = 1000

# The maximum number of elements in a row, and outside of rows: openpyxl stores them all.
_MAX_ELEMENTS = 1_000_000

# The number of digits that Excel stores.
_MAX_DIGITS = 15

_CELL_NAME = re.compile(r"([A-Z]{1,3})([1-9]\d{0,6})")
_CELL_RANGE = re.compile(rf"{_CELL_NAME.pattern}(?::{_CELL_NAME.pattern})?")


class MalformedSheet(Exception):
    """The sheet's XML is not as the specification of workbooks requires."""


class MergedRange(NamedTuple):
    """Cells that are merged into one."""

    first_row: int
    last_row: int
    first_column: int
    last_column: int

    def __str__(self) -> str:
        first = f"{column_letters(self.first_column)}{self.first_row}"
        return f"{first}:{column_letters(self.last_column)}{self.last_row}"


class SheetSurvey:
    """The properties of a sheet. Positions of rows and columns are counted from 1."""

    def __init__(self) -> None:
        self.cell_count = 0
        """The number of cells, counted up to the last cell of each row."""
        self.used_columns: set[int] = set()
        self.hidden_rows: list[int] = []
        """The hidden rows that contain values."""
        self.hidden_columns: set[int] = set()
        """The hidden columns, whether or not they contain values."""
        self.first_table_row = 0
        """The first row with at least two values. The rows above it are titles and notes. 0 if there is none."""
        self.merged_ranges: list[MergedRange] = []
        self.formulas_without_value: list[str] = []
        """The names of cells, such as B2, at most 1,000."""
        self.long_numbers: list[str] = []
        """The names of cells whose numbers have more digits than Excel stores, at most 1,000."""

    @property
    def is_empty(self) -> bool:
        """True if no cell has a value."""
        return not (self.used_columns or self.formulas_without_value)


def survey_sheet(source: IO[bytes], max_cells: int) -> SheetSurvey:
    """Surveys a sheet. Ends early after `max_cells` cells.

    Raises:
        MalformedSheet: A row or a cell is not in order, or outside of a sheet's size. openpyxl would skip it silently.
    """
    survey = SheetSurvey()
    handler = _Handler(survey)
    while (block := source.read(_BLOCK_BYTES)) and survey.cell_count <= max_cells:
        handler.parser.Parse(block, False)
    if not block:
        handler.parser.Parse(b"", True)
    return survey


def column_letters(column: int) -> str:
    """Returns the name of a column, such as AB for 28."""
    letters = ""
    while column:
        column, letter = divmod(column - 1, 26)
        letters = chr(ord("A") + letter) + letters
    return letters


def column_position(letters: str) -> int:
    """Returns the position of a column, such as 28 for AB."""
    position = 0
    for letter in letters:
        position = position * 26 + ord(letter) - ord("A") + 1
    return position


class _Handler:
    """Handler of XML events. Its methods are called for each cell, so they do as little as possible."""

    def __init__(self, survey: SheetSurvey) -> None:
        self._survey = survey
        self._row = self._column = self._column_range_count = 0
        # The elements of the current row, and the elements that are not in a row.
        self._element_count = self._elements_before_row = 0
        self._type = ""
        self._is_hidden = self._has_formula = self._has_value = False
        self._value_count = 0
        self._value: list[str] = []
        self._columns: dict[str, int] = {}
        starts: dict[str, Callable[[dict[str, str]], None]] = {
            _ROW: self._start_row,
            _CELL: self._start_cell,
            _FORMULA: self._start_formula,
            _VALUE: self._start_value,
            _INLINE_STRING: self._start_inline_string,
            _COLUMN: self._start_column,
            _MERGE: self._start_merge,
        }
        ends = {_ROW: self._end_row, _CELL: self._end_cell, _VALUE: self._end_value}

        def start(name: str, attributes: dict[str, str]) -> None:
            self._element_count += 1
            if self._element_count > _MAX_ELEMENTS:
                raise MalformedSheet
            if handler := starts.get(name):
                handler(attributes)

        def end(name: str) -> None:
            if handler := ends.get(name):
                handler()

        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.buffer_text = True
        self.parser.StartElementHandler = start
        self.parser.EndElementHandler = end

    def _start_row(self, attributes: dict[str, str]) -> None:
        number = int(attributes.get("r", self._row + 1))
        if not self._row < number <= _MAX_ROW:
            raise MalformedSheet
        self._row, self._column, self._value_count = number, 0, 0
        self._is_hidden = _is_true(attributes.get("hidden"))
        # There are at most _MAX_ROW rows, so these elements need not be counted.
        self._element_count = self._elements_before_row = self._element_count - 1

    def _start_cell(self, attributes: dict[str, str]) -> None:
        column = self._column + 1
        if cell_name := attributes.get("r"):
            letters = cell_name.rstrip("0123456789")
            if letters not in self._columns:
                match = _CELL_NAME.fullmatch(cell_name)
                if not match:
                    raise MalformedSheet
                self._columns[letters] = column_position(match[1])
            column = self._columns[letters]
        if not self._column < column <= _MAX_COLUMN:
            raise MalformedSheet
        self._survey.cell_count += column - self._column
        self._column, self._type = column, attributes.get("t", "n")
        self._has_formula = self._has_value = False
        self._value.clear()

    def _start_formula(self, attributes: dict[str, str]) -> None:
        self._has_formula = True

    def _start_value(self, attributes: dict[str, str]) -> None:
        self.parser.CharacterDataHandler = self._value.append

    def _start_inline_string(self, attributes: dict[str, str]) -> None:
        self._has_value = True

    def _start_column(self, attributes: dict[str, str]) -> None:
        if _is_true(attributes.get("hidden")):
            first, last = int(attributes["min"]), int(attributes["max"])
            self._column_range_count += 1
            if self._column_range_count > _MAX_COLUMN:
                raise MalformedSheet
            self._survey.hidden_columns.update(range(max(first, 1), min(last, _MAX_COLUMN) + 1))

    def _start_merge(self, attributes: dict[str, str]) -> None:
        self._survey.merged_ranges.append(_parse_range(attributes["ref"]))

    def _end_row(self) -> None:
        self._element_count = self._elements_before_row
        if self._is_hidden and self._value_count:
            self._survey.hidden_rows.append(self._row)
        if self._value_count > 1 and not self._survey.first_table_row:
            self._survey.first_table_row = self._row

    def _end_value(self) -> None:
        self.parser.CharacterDataHandler = None

    def _end_cell(self) -> None:
        survey, value = self._survey, "".join(self._value)
        if value or self._has_value:
            self._value_count += 1
            survey.used_columns.add(self._column)
            if self._type == "n" and len(value) > _MAX_DIGITS and _count_digits(value) > _MAX_DIGITS:
                self._list_cell(survey.long_numbers)
        elif self._has_formula and self._type != "str":
            self._list_cell(survey.formulas_without_value)

    def _list_cell(self, names: list[str]) -> None:
        if len(names) < _MAX_CELLS_LISTED:
            names.append(f"{column_letters(self._column)}{self._row}")


def _is_true(attribute: str | None) -> bool:
    return attribute in ("1", "true")


def _count_digits(number: str) -> int:
    """Returns the number of digits before the point, which may be negative."""
    try:
        exponent: Any = Decimal(number).adjusted()
    except InvalidOperation:
        raise MalformedSheet from None
    return int(exponent) + 1


def _parse_range(text: str) -> MergedRange:
    match = _CELL_RANGE.fullmatch(text)
    if not match:
        raise MalformedSheet
    first_letters, first_row, last_letters, last_row = match.groups()
    first_column = column_position(first_letters)
    if last_letters is None:
        return MergedRange(int(first_row), int(first_row), first_column, first_column)
    return MergedRange(int(first_row), int(last_row), first_column, column_position(last_letters))
