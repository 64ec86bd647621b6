"""Tables: CSV files from spreadsheets, in any of the forms that spreadsheets write, and for them."""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import IO, Any, NamedTuple

from dealkit._cli.exits import Failed
from dealkit._cli.files import MOST_BYTES, lines_of, named
from dealkit._cli.screen import safe

# A cell may be as long as the file.
csv.field_size_limit(MOST_BYTES)

_DELIMITERS = ",;\t|"

_MOST_HEADER_LINES = 100

MOST_COLUMNS_SHOWN = 20
"""How many columns of a kind are shown: a table may have a million."""

# A spreadsheet takes a cell that begins like this for a formula, and runs it.
_FORMULA = re.compile(r"'*\s*[=+\-@\uff0b\uff0d\uff1d\uff20\t\r\n]")

# An e-mail address, a date, and a phone number or another number of at least seven characters.
_DATA = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+|\d{1,4}[./-]\d{1,2}[./-]\d{1,4}|\+?[\d ()./-]{7,}")

# The names and abbreviations of months in some languages, which a spreadsheet takes for dates: SEPT2, 1-MAR.
_MONTH = (
    "(?:jan(?:uary|uar|vier)?|feb(?:ruary|ruar)?|f[ée]v(?:rier)?|mar(?:ch|s|zo)?|märz?|mrz|apr(?:ile?)?|avr(?:il)?|abr(?:il)?|ma[yij]|"
    "jun[ei]?|juin|jul[yi]?|juil(?:let)?|aug(?:ust)?|ao[uû]t?|ago(?:sto)?|sept?(?:ember|embre)?|set|o[ck]t(?:ober|obre)?|out|"
    "ott(?:obre)?|nov(?:ember|embre)?|d[eé][cz](?:ember|embre)?|dic(?:embre)?|ene(?:ro)?|gen(?:naio)?|mag(?:gio)?|giu(?:gno)?|"
    "lug(?:lio)?)[.]?"
)

# Text that a spreadsheet takes for a number, date, time or truth value, and then saves in another form: anything made of digits
# and the characters of numbers and dates, other than a number of at most eleven digits that does not begin with a zero.
_CHANGED = re.compile(
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


class Cells(NamedTuple):
    """A row that is not blank."""

    number: int
    """The number of the row, as a spreadsheet counts: the header is 1."""
    cells: list[str]
    """The texts, without surrounding spaces."""


class Table(NamedTuple):
    """A table with a header."""

    header: list[str]
    rows: Iterator[Cells]
    """The rows, which are read one by one: what is wrong with one of them is an error then."""
    delimiter: str


def read_table(path: Path, encoding: str | None = None) -> Table:
    """Reads a CSV file. The delimiter is detected by a first line such as `sep=;`, as Excel reads and writes it, or else it
    is the one that is most frequent in the header.

    Errors name the file and the line, but show none of its content.
    """
    lines = lines_of(path, encoding)
    line = next(lines, "")
    said = re.fullmatch(rf'"?sep=([{_DELIMITERS}])"?\s*', line, re.IGNORECASE)
    if said:
        line = next(lines, "")
    header_lines = [line]
    # A cell of the header may have line breaks.
    while "".join(header_lines).count('"') % 2 and len(header_lines) < _MOST_HEADER_LINES and (line := next(lines, "")):
        header_lines.append(line)
    unquoted = re.sub('"[^"]*"?', "", "".join(header_lines))
    delimiter = said[1] if said else max(_DELIMITERS, key=unquoted.count)
    records = _records(path, csv.reader(chain(header_lines, lines), delimiter=delimiter, strict=True), int(bool(said)))
    header = next(records, [])
    if not any(header):
        raise Failed(f"{named(path)}: the first row is empty; it must contain the column names")
    return Table(header, (Cells(number, cells) for number, cells in enumerate(records, 2) if any(cells)), delimiter)


def _records(path: Path, reader: Any, before: int) -> Iterator[list[str]]:
    """The records of a table, and after how many lines they begin."""
    try:
        for record in reader:
            yield [cell.strip() for cell in record]
    except csv.Error as error:
        raise Failed(
            f"{named(path)}: line {before + reader.line_num} is not valid CSV ({error}); is a quotation mark missing, or is "
            "there one too many?"
        ) from None


def plain(name: str) -> str:
    """The name of a column without what differs between tables: `E-mail`, `e_mail` and `EMail` are the same."""
    return re.sub(r"[\W_]", "", name).casefold()


def shown_names(header: Sequence[str]) -> list[str]:
    """The names of columns, for people. The columns are numbered if the first row looks like data, which may be personal."""
    if _is_data(header):
        return [f"column {number}" for number in range(1, len(header) + 1)]
    return [safe(in_one_line(name)) or "(no name)" for name in header]


def in_one_line(name: str) -> str:
    """The name of a column as a user can type it: in NFC, with one space for line breaks, no-break spaces and the like."""
    return " ".join(unicodedata.normalize("NFC", name).split())


def listed(header: Sequence[str]) -> str:
    """The names of columns, at the end of a message."""
    names = joined(shown_names(header))
    if _is_data(header):
        names += ". The first row looks like data and is not shown: is the row of column names missing?"
    return names


def joined(names: Sequence[str]) -> str:
    """The first of some names."""
    more = len(names) - MOST_COLUMNS_SHOWN
    return ", ".join(names[:MOST_COLUMNS_SHOWN]) + (f" and {more:,} more" if more > 0 else "")


def _is_data(header: Sequence[str]) -> bool:
    """Returns whether a cell of the first row is an e-mail address, a number of many digits or a date."""
    return any(_DATA.fullmatch(name) for name in header)


def write_table(file: IO[bytes], rows: Iterable[Iterable[object]], delimiter: str = ",") -> None:
    """Writes a CSV file, with the byte-order mark without which Excel does not read it as UTF-8."""
    text = io.TextIOWrapper(file, "utf-8-sig", newline="")
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows(rows)
    text.detach()


def header_line(names: Iterable[str]) -> bytes:
    """The first line of such a file."""
    return ("\ufeff" + ",".join(names) + "\n").encode()


def harmless(text: str) -> str:
    """Returns a text from elsewhere as a cell that no spreadsheet runs: with an apostrophe before what would be a formula."""
    return f"'{text}" if _FORMULA.match(text) else text


def as_it_was(cell: str) -> str:
    """Returns the text of a cell that `harmless` has made."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def protect(key: str) -> str:
    """Returns a key as a cell that a spreadsheet neither runs nor changes: with an apostrophe before what would become another
    text when the spreadsheet saves it, such as 123 for 00123 or 1.00E+05 for 1E5.
    """
    return f"'{key}" if _is_changed(key) else key


def unprotect(cell: str) -> str:
    """Returns the key in a cell that `protect` has made."""
    return cell[1:] if cell.startswith("'") and _is_changed(cell) else cell


def _is_changed(key: str) -> bool:
    return _FORMULA.match(key) is not None or _CHANGED.fullmatch(key) is not None
