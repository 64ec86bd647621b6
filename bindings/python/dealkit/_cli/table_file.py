"""Tables from users: CSV files from spreadsheets, in any of the forms that spreadsheets write."""

from __future__ import annotations

import codecs
import csv
import io
import re
from pathlib import Path
from typing import NamedTuple

from dealkit._cli.exits import UNWRITABLE, Failed

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
"""The usual delimiters, which are detected."""

_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}

_OTHER_FILES = {b"PK\x03\x04": "an .xlsx or .zip file", b"\xd0\xcf\x11\xe0": "an .xls file", b"PAR1": "a Parquet file"}


class Row(NamedTuple):
    """A row that is not blank."""

    number: int
    """The number of the row, as a spreadsheet counts: the header is 1."""
    cells: list[str]
    """The texts, without surrounding spaces."""


class Table(NamedTuple):
    """A table with a header."""

    header: list[str]
    rows: list[Row]
    delimiter: str
    understood: str
    """How the file was read: its encoding and its delimiter."""


def read_table(path: Path, encoding: str | None = None, delimiter: str | None = None) -> Table:
    """Reads a CSV file. An encoding or delimiter that is not given is detected: the encoding by a byte-order mark, or
    else UTF-8; the delimiter by a first line such as `sep=;`, as Excel reads and writes it, or else by the header.

    Errors name the file and the line, but show none of its content.
    """
    text, understood = _decoded(path, encoding)
    said, text, lines_before = _said_delimiter(text)
    delimiter = delimiter or said or _delimiter(text)
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise Failed("--delimiter must be one character, such as ;")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        records = [[cell.strip() for cell in record] for record in reader]
    except csv.Error as error:
        raise Failed(
            f"{path}: line {lines_before + reader.line_num} is not valid CSV ({error}); is a quotation mark missing, or is there one too many?"
        ) from None
    if not records or not any(records[0]):
        raise Failed(f"{path}: the first row is empty; it must contain the column names")
    rows = [Row(number, cells) for number, cells in enumerate(records[1:], 2) if any(cells)]
    if len(records[0]) > 1:
        separator = DELIMITERS.get(delimiter, f'"{delimiter}"')
        understood += f", separated by {separator}"
        if delimiter == said:
            understood += ", as its sep= line says"
    else:
        understood += ", one column"
    return Table(records[0], rows, delimiter, understood)


def _decoded(path: Path, encoding: str | None) -> tuple[str, str]:
    data = read_bytes(path)
    for beginning, kind in _OTHER_FILES.items():
        if data.startswith(beginning):
            raise Failed(f'{path} is {kind}, not CSV; in a spreadsheet, save it as "CSV UTF-8"')
    marked = next((name for mark, name in _BYTE_ORDER_MARKS.items() if data.startswith(mark)), None)
    encoding = encoding or marked or "utf-8"
    try:
        text = data.decode(encoding)
    except LookupError:
        raise Failed(f"--encoding {encoding} is not a known encoding; try utf-8, cp1252, latin-1 or utf-16") from None
    except UnicodeError as error:
        start = error.start if isinstance(error, UnicodeDecodeError) else 0
        line = data.count(b"\n", 0, start) + 1
        raise Failed(
            f'{path}: line {line} is not {encoding.upper()}; in a spreadsheet, save it as "CSV UTF-8", or name the '
            "encoding: --encoding cp1252 is that of Windows in western Europe and America"
        ) from None
    if "\0" in text:
        raise Failed(f"{path} is not text in {encoding.upper()}; if it is CSV, name its encoding: --encoding utf-16-le")
    if marked is None:
        return text, encoding.upper()
    # If another encoding was named, the byte-order mark is a character, which is not part of the first name.
    return text.removeprefix("\ufeff"), f"{encoding.upper().removesuffix('-SIG')} with a byte-order mark"


def letters(name: str) -> str:
    """The name of a column reduced to its letters: `E-mail`, `e_mail` and `EMail` are the same."""
    return "".join(letter for letter in name.casefold() if letter.isalpha())


def refuse_no_folder(path: Path) -> None:
    """Refuses a file to be written whose folder is missing, and names that folder."""
    if not path.parent.is_dir():
        raise Failed(f"{path} cannot be written: there is no folder {path.parent}; create it first", UNWRITABLE)


def read_bytes(path: Path) -> bytes:
    """The content of a file that the user has named."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise Failed(f"{path} cannot be read: {error.strerror}") from None


def _said_delimiter(text: str) -> tuple[str | None, str, int]:
    """The delimiter in a first line such as `sep=;`, the text after it, and how many lines come before that text."""
    line, end, rest = text.partition("\n")
    said = re.fullmatch(r'"?sep=(.)"?', line.removesuffix("\r"), re.IGNORECASE)
    return (said[1], rest, 1) if said and end else (None, text, 0)


def _delimiter(text: str) -> str:
    """The delimiter: the one of the usual delimiters that is most frequent in the header."""
    header, quoted = [], False
    for letter in text:
        if letter == '"':
            quoted = not quoted
        elif letter in "\r\n" and not quoted:
            break
        elif not quoted:
            header.append(letter)
    return max(DELIMITERS, key=header.count)
