"""The files that a command reads and writes. What it reads is bounded, and it replaces nothing but its own files."""

from __future__ import annotations

import codecs
import io
import os
import secrets
import sqlite3
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import IO, Any

from dealkit._cli.exits import UNWRITABLE, Failed
from dealkit._cli.screen import safe

STANDARD = "-"
"""Standard input in place of a file."""

MOST_BYTES = 256 << 20
"""What a list of ids or a table may have at most: some millions of ids, or a million agents."""

# A cell may be as long as a picture, but no line is without end.
_LONGEST_LINE = 16 << 20

_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}

_OTHER_FILES = {b"PK\x03\x04": "an .xlsx or .zip file", b"\xd0\xcf\x11\xe0": "an .xls file", b"PAR1": "a Parquet file"}

# What to do about a table in another form.
_SAVE = 'in a spreadsheet, save it as "CSV UTF-8"'


def named(path: str | Path) -> str:
    """The name of a file in a text."""
    return "standard input" if str(path) == STANDARD else safe(str(path))


def lines_of(path: str | Path, encoding: str | None = None) -> Iterator[str]:
    """The lines of a file or of standard input, with their ends.

    Without an encoding, or with a byte-order mark, it is the mark's, or else UTF-8. Errors name the file and the line, but
    show none of its content.
    """
    name, number, length = named(path), 0, 0
    if str(path) == STANDARD and sys.stdin is None:
        raise Failed("standard input is closed")
    try:
        # BufferedReader reads whatever a program has put in place of standard input.
        source: Any = sys.stdin.buffer if str(path) == STANDARD else open(path, "rb", buffering=0)
        with io.BufferedReader(source) as file:
            beginning = file.peek(4)
            if kind := next((kind for mark, kind in _OTHER_FILES.items() if beginning.startswith(mark)), None):
                raise Failed(f"{name} is {kind}, not text; {_SAVE}")
            marked = next((of for mark, of in _BYTE_ORDER_MARKS.items() if beginning.startswith(mark)), None)
            encoding = marked or encoding or "utf-8"
            text = io.TextIOWrapper(file, encoding, newline="")
            while line := text.readline(_LONGEST_LINE):
                number, length = number + 1, length + len(line)
                if "\0" in line:
                    raise Failed(f"{name} is not text in {encoding.upper()}")
                if length >= MOST_BYTES or len(line) >= _LONGEST_LINE:
                    raise Failed(
                        f"{name} is longer than {MOST_BYTES >> 20} MiB, or has a line of more than "
                        f"{_LONGEST_LINE >> 20} MiB. Is it the right file? If so, split it"
                    )
                yield line
    except LookupError:
        raise Failed(
            f"--encoding {safe(encoding or '')} is not a known encoding; try utf-8, cp1252, latin-1 or utf-16"
        ) from None
    except UnicodeError as error:
        # What was read together with it begins after the last line.
        before = error.object.count(b"\n", 0, error.start) if isinstance(error, UnicodeDecodeError) else 0
        raise Failed(f"{name}: line {number + 1 + before} is not {(encoding or '').upper()}; {_SAVE}") from None
    except OSError as error:
        raise Failed(f"{name} cannot be read: {error.strerror}") from None


def refuse_inputs(outputs: Iterable[Path], inputs: Iterable[str | Path | None]) -> None:
    """Refuses to write a file that is also read, under whatever name."""
    for output, one in product(outputs, inputs):
        read = "/dev/stdin" if one == STANDARD else one
        if read is not None and output.exists() and os.path.exists(read) and output.samefile(read):
            raise Failed(
                f"{named(output)} would be written, but is the same file as {named(one or read)}, which is read: choose "
                "another name"
            )


def is_there(path: Path) -> bool:
    """Whether there is a file that would be replaced. Anything that is no file of its own is refused: it is not known
    what would be overwritten through a link, or whose device it is."""
    if not path.parent.is_dir():
        folder = named(path.parent)
        raise Failed(f"{named(path)} cannot be written: there is no folder {folder}; create it first", UNWRITABLE)
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return False
    if stat.S_ISREG(mode):
        return True
    kind = "a link" if stat.S_ISLNK(mode) else "a folder" if stat.S_ISDIR(mode) else "not a file"
    raise Failed(f"{named(path)} cannot be written: it is {kind}; choose another name", UNWRITABLE)


@contextmanager
def replacing(path: Path, mode: int = 0o666) -> Iterator[IO[bytes]]:
    """A file that takes the place of another as a whole, once it is written."""
    new = path.with_name(f"{path.name}.{secrets.token_hex(4)}.new")
    try:
        with open(new, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def temporary_database(tables: str) -> sqlite3.Connection:
    """An empty database with these tables."""
    # SQLite removes its file as soon as it is open. Nothing else opens it, and nothing needs to be undone.
    database = sqlite3.connect("", isolation_level=None)
    database.executescript(f"PRAGMA journal_mode = OFF; {tables}; BEGIN")
    return database
