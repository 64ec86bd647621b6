"""CSV tables in the dialects that spreadsheets write and read."""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, NamedTuple

from dealkit._cli.exit_codes import CommandError
from dealkit._cli.files import MAX_INPUT_BYTES, file_display_name, read_lines
from dealkit._cli.terminal import escape_controls

# A single cell may be as long as the largest accepted file.
csv.field_size_limit(MAX_INPUT_BYTES)

DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}
"""The possible delimiters, by name."""

_DELIMITERS = "".join(DELIMITERS.values())
# A first line that sets the delimiter, as Excel writes it.
_SEPARATOR_LINE = re.compile(rf'"?sep=([{_DELIMITERS}])"?\s*', re.IGNORECASE)

_MAX_HEADER_LINES = 100

# The number of lines, from the start of a table, in which the delimiter is searched.
_SAMPLE_LINES = 100

REASON_COLUMN = "dealkit: reason"
"""The name of the column that an import adds to the rows that could not be sent. It has the reasons."""

MAX_COLUMNS_SHOWN = 20
"""The number of columns of one kind that are shown. A table may have a million."""

# The beginning of a cell that a spreadsheet would evaluate as a formula.
_FORMULA = re.compile(r"'*\s*[=+\-@\uff0b\uff0d\uff1d\uff20\t\r\n]")

# Text that looks like personal data: an e-mail address, a date, or a number of at least seven characters, such as a
# phone number.
_PERSONAL_DATA = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+|\d{1,4}[./-]\d{1,2}[./-]\d{1,4}|\+?[\d ()./-]{7,}")

# Names and abbreviations of months in several languages, because a spreadsheet reads SEPT2 and 1-MAR as dates.
_MONTH = (
    "(?:jan(?:uary|uar|vier)?|feb(?:ruary|ruar)?|f[ée]v(?:rier)?|mar(?:ch|s|zo)?|märz?|mrz|apr(?:ile?)?|avr(?:il)?|abr(?:il)?|ma[yij]|"
    "jun[ei]?|juin|jul[yi]?|juil(?:let)?|aug(?:ust)?|ao[uû]t?|ago(?:sto)?|sept?(?:ember|embre)?|set|o[ck]t(?:ober|obre)?|out|"
    "ott(?:obre)?|nov(?:ember|embre)?|d[eé][cz](?:ember|embre)?|dic(?:embre)?|ene(?:ro)?|gen(?:naio)?|mag(?:gio)?|giu(?:gno)?|"
    "lug(?:lio)?)[.]?"
)

# A string that a spreadsheet reads as a number, date, time or truth value, and then saves in a different form. Matches
# every string of digits and the characters of numbers and dates, except numbers of up to eleven digits without a
# leading zero: spreadsheets preserve such numbers.
_REWRITTEN_BY_SPREADSHEET = re.compile(
    rf"""'*(?!(?:0|[1-9]\d{{0,10}})\Z)(?:
        (?=.*\d)[\d\s.,:/()%$€£¥’-]+
        | \d[\d.,]*E[+-]?\d+
        | \d[\d:]*\s+[ap]m?
        | (?:\d{{1,4}}[\s./,-]*)?{_MONTH}[\s/,-]*\d{{1,4}}
        | \d{{1,4}}[\s./,-]*{_MONTH}
        | true | false
    )""",
    re.IGNORECASE | re.VERBOSE,
)


class TableRow(NamedTuple):
    """A row that is not blank."""

    number: int
    """The row number in a spreadsheet, where the header is row 1."""
    cells: list[str]
    """The cells, without surrounding spaces."""


class Table(NamedTuple):
    """A table with a header."""

    header: list[str]
    rows: Iterator[TableRow]
    """The rows, which are read one by one. The iterator raises CommandError at a malformed row."""
    delimiter: str | None
    """The delimiter of a CSV file; None for a worksheet."""


def read_table(path: Path, encoding: str | None = None) -> Table:
    """Reads a CSV file. A first line such as `sep=;`, which Excel writes, sets the delimiter. Without such a line, the
    delimiter is the most frequent of the possible delimiters in the header.

    Errors name the file and the line, but show none of the file's content.
    """
    lines = read_lines(path, encoding)
    line = next(lines, "")
    separator_line = _SEPARATOR_LINE.fullmatch(line)
    if separator_line:
        line = next(lines, "")
    header_lines = [line]
    # A cell of the header may contain line breaks.
    while "".join(header_lines).count('"') % 2 and len(header_lines) < _MAX_HEADER_LINES and (line := next(lines, "")):
        header_lines.append(line)
    unquoted_header = re.sub('"[^"]*"?', "", "".join(header_lines))
    delimiter = separator_line[1] if separator_line else max(_DELIMITERS, key=unquoted_header.count)
    records = _read_records(
        path, csv.reader(chain(header_lines, lines), delimiter=delimiter, strict=True), int(bool(separator_line))
    )
    header = next(records, [])
    if not any(header):
        raise CommandError(f"{file_display_name(path)}: the first row is empty; it must contain the column names")
    return Table(header, (TableRow(number, cells) for number, cells in enumerate(records, 2) if any(cells)), delimiter)


def read_csv_rows(
    path: Path, encoding: str | None, count_known_names: Callable[[Sequence[str]], int]
) -> tuple[Iterator[TableRow], str]:
    """Reads the rows of a CSV file, including the header and the rows above it, but without blank rows. Returns the
    rows and the delimiter. `count_known_names` counts the column names in a row: the delimiter that yields the most
    names is used, and the most frequent delimiter if there are no names.

    Errors name the file and the line, but show none of the file's content.
    """
    lines = read_lines(path, encoding)
    first_lines = [*islice(lines, _SAMPLE_LINES)]
    separator_line = _SEPARATOR_LINE.fullmatch(first_lines[0]) if first_lines else None
    if separator_line:
        delimiter = separator_line[1]
        del first_lines[0]
    else:

        def rate(delimiter: str) -> tuple[int, int]:
            records = [*csv.reader(first_lines, delimiter=delimiter)]
            return max((count_known_names([cell.strip() for cell in record]), len(record)) for record in records)

        delimiter = max(_DELIMITERS, key=rate) if first_lines else ","
    reader = csv.reader(chain(first_lines, lines), delimiter=delimiter, strict=True)
    records = _read_records(path, reader, int(bool(separator_line)))
    return (TableRow(number, cells) for number, cells in enumerate(records, 1) if any(cells)), delimiter


def _read_records(path: Path, reader: Any, skipped_lines: int) -> Iterator[list[str]]:
    """Reads the records of a table. `skipped_lines` is the number of lines of the file before the reader's first line,
    for the line numbers in errors.
    """
    try:
        for record in reader:
            yield [cell.strip() for cell in record]
    except csv.Error as error:
        raise CommandError(
            f"{file_display_name(path)}: line {skipped_lines + reader.line_num} is not valid CSV ({error}); is a quotation mark missing, or is "
            "there one too many?"
        ) from None


def normalize_column_name(name: str) -> str:
    """Removes punctuation and letter case from a column name, so that `E-mail`, `e_mail` and `EMail` are equal."""
    return re.sub(r"[\W_]", "", name).casefold()


def display_column_names(header: Sequence[str]) -> list[str]:
    """Returns the column names for the screen. If the first row looks like data, which may be personal, returns column
    numbers instead.
    """
    if looks_like_data(header):
        return [f"column {number}" for number in range(1, len(header) + 1)]
    return [escape_controls(normalize_spaces(name)) or "(no name)" for name in header]


def normalize_spaces(name: str) -> str:
    """Returns a column name as a user can type it: in NFC, with single spaces in place of line breaks and no-break
    spaces.
    """
    return " ".join(unicodedata.normalize("NFC", name).split())


def list_column_names(header: Sequence[str]) -> str:
    """Formats the column names for the end of a message."""
    names = join_names(display_column_names(header))
    if looks_like_data(header):
        names += ". The first row looks like data and is not shown: is the row of column names missing?"
    return names


def join_names(names: Sequence[str]) -> str:
    """Joins names with commas. If there are many, includes only the first names and the number of the remaining
    names."""
    omitted_count = len(names) - MAX_COLUMNS_SHOWN
    return ", ".join(names[:MAX_COLUMNS_SHOWN]) + (f" and {omitted_count:,} more" if omitted_count > 0 else "")


def looks_like_data(header: Sequence[str]) -> bool:
    """Returns whether a cell of the first row is an e-mail address, a number of many digits or a date."""
    return any(_PERSONAL_DATA.fullmatch(name) for name in header)


def write_table(file: IO[bytes], rows: Iterable[Iterable[object]], delimiter: str = ",") -> None:
    """Writes a CSV file with a byte-order mark. Without this mark, Excel does not read the file as UTF-8."""
    text = io.TextIOWrapper(file, "utf-8-sig", newline="")
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows(rows)
    text.detach()


def encode_header(names: Iterable[str], delimiter: str = ",") -> bytes:
    """Returns the first line of a CSV file, with the byte-order mark."""
    return ("\ufeff" + delimiter.join(names) + "\n").encode()


def escape_formula(text: str) -> str:
    """Escapes text against CSV injection: puts an apostrophe before text that a spreadsheet would evaluate as a
    formula.
    """
    return f"'{text}" if _FORMULA.match(text) else text


def unescape_formula(cell: str) -> str:
    """Reverts `escape_formula`."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def escape_key(key: str) -> str:
    """Escapes a key against changes by a spreadsheet: puts an apostrophe before a formula, and before text that the
    spreadsheet would save in a different form, such as 00123 (saved as 123) or 1E5 (saved as 1.00E+05).
    """
    return f"'{key}" if _would_be_rewritten(key) else key


def unescape_key(cell: str) -> str:
    """Reverts `escape_key`."""
    return cell[1:] if cell.startswith("'") and _would_be_rewritten(cell) else cell


def _would_be_rewritten(key: str) -> bool:
    return _FORMULA.match(key) is not None or _REWRITTEN_BY_SPREADSHEET.fullmatch(key) is not None
