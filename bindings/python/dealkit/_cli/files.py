"""Files that a command reads and writes. The size of input files is limited. Only regular files are replaced."""

from __future__ import annotations

import codecs
import errno
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

from dealkit._cli.exit_codes import UNWRITABLE, CommandError
from dealkit._cli.terminal import escape_controls

STANDARD_INPUT = "-"
"""Stands for standard input in place of a file."""

MAX_INPUT_BYTES = 256 << 20
"""The maximum size of a list of ids or a table, enough for several million ids or a million agents."""

# The limit allows a cell with an embedded picture, but not a file that is one endless line.
_MAX_LINE_LENGTH = 16 << 20

_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}

_OTHER_FILE_TYPES = {
    b"PK\x03\x04": "an Excel workbook (.xlsx) or a .zip file",
    b"\xd0\xcf\x11\xe0": "an Excel workbook (.xls)",
    b"PAR1": "a Parquet file",
}

# The action to take if a table has another format.
_SAVE_ADVICE = 'In Excel or another spreadsheet program, save the original table as "CSV UTF-8".'

# Explanations of errors of the operating system, with the action to take.
_OS_ERRORS = {
    errno.ENOENT: "it does not exist. Check its name and its folder.",
    errno.EISDIR: "it is a folder.",
    errno.EACCES: "access is denied. Is it open in another program, such as Excel?",
    errno.EPERM: "access is denied. Is it open in another program, such as Excel?",
    errno.ENOSPC: "the disk is full. Free some space.",
}


def file_display_name(path: str | Path) -> str:
    """Returns the name of a file for messages."""
    return "standard input" if str(path) == STANDARD_INPUT else escape_controls(str(path))


def explain_os_error(error: OSError) -> str:
    """Returns the reason of an error of the operating system, for the end of a message."""
    return _OS_ERRORS.get(error.errno or 0) or f"{error.strerror or error}."


def read_lines(path: str | Path, encoding: str | None = None) -> Iterator[str]:
    """Reads the lines of a file or of standard input, with their line ends.

    A byte-order mark takes precedence over `encoding`. Without either, the encoding is UTF-8. Errors name the file and
    the line, but show none of the file's content.
    """
    name, line_number, total_length = file_display_name(path), 0, 0
    if str(path) == STANDARD_INPUT and sys.stdin is None:
        raise CommandError("Standard input is closed, so no ids can be read from it. Name a file instead of -.")
    try:
        # BufferedReader accepts any stream by which a test or a program may have replaced standard input.
        source: Any = sys.stdin.buffer if str(path) == STANDARD_INPUT else open(path, "rb", buffering=0)
        with io.BufferedReader(source) as file:
            first_bytes = file.peek(4)
            if kind := next((kind for mark, kind in _OTHER_FILE_TYPES.items() if first_bytes.startswith(mark)), None):
                raise CommandError(f"{name} is {kind}, not a text file. {_SAVE_ADVICE}")
            detected_encoding = next(
                (codec for mark, codec in _BYTE_ORDER_MARKS.items() if first_bytes.startswith(mark)), None
            )
            encoding = detected_encoding or encoding or "utf-8"
            text = io.TextIOWrapper(file, encoding, newline="")
            while line := text.readline(_MAX_LINE_LENGTH):
                line_number, total_length = line_number + 1, total_length + len(line)
                if "\0" in line:
                    raise CommandError(
                        f"{name} is not a text file in {encoding.upper()}. Is it the right file? {_SAVE_ADVICE}"
                    )
                if total_length >= MAX_INPUT_BYTES or len(line) >= _MAX_LINE_LENGTH:
                    raise CommandError(
                        f"{name} is larger than {MAX_INPUT_BYTES >> 20} MB, or has a line of more than "
                        f"{_MAX_LINE_LENGTH >> 20} MB. Is it the right file? If so, split it into smaller files."
                    )
                yield line
    except LookupError:
        raise CommandError(
            "--encoding does not name a known encoding. Use utf-8, cp1252 (Windows in western Europe), latin-1 or utf-16."
        ) from None
    except UnicodeError as error:
        # The decoder reads several lines at a time, so the invalid line may come later than the line after the last
        # yielded line.
        lines_before = error.object.count(b"\n", 0, error.start) if isinstance(error, UnicodeDecodeError) else 0
        raise CommandError(
            f"{name}: line {line_number + 1 + lines_before} cannot be read as {(encoding or '').upper()}. {_SAVE_ADVICE}"
        ) from None
    except OSError as error:
        raise CommandError(f"{name} cannot be read: {explain_os_error(error)}") from None


def is_utf8(path: Path) -> bool:
    """Returns whether a file is in UTF-8. Also returns true if it cannot be read, which the reader reports."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                decoder.decode(block)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    except OSError:
        pass
    return True


def reject_outputs_that_are_inputs(outputs: Iterable[Path], inputs: Iterable[str | Path | None]) -> None:
    """Rejects an output file that is also an input file, even if the two paths differ."""
    for output, input_path in product(outputs, inputs):
        input_file = "/dev/stdin" if input_path == STANDARD_INPUT else input_path
        if input_file is not None and output.exists() and os.path.exists(input_file) and output.samefile(input_file):
            raise CommandError(
                f"{file_display_name(output)} would be overwritten, but it is the same file as "
                f"{file_display_name(input_path or input_file)}, which the command reads. Choose another name for the output."
            )


def output_file_exists(path: Path) -> bool:
    """Returns whether the output file exists. Raises CommandError for a link, a folder or a device, because writing
    could then affect another file or a device.
    """
    if not path.parent.is_dir():
        folder = file_display_name(path.parent)
        raise CommandError(
            f"{file_display_name(path)} cannot be written: the folder {folder} does not exist. Create it first.",
            UNWRITABLE,
        )
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return False
    if stat.S_ISREG(mode):
        return True
    kind = "a link" if stat.S_ISLNK(mode) else "a folder" if stat.S_ISDIR(mode) else "a device, not a file"
    raise CommandError(f"{file_display_name(path)} cannot be written: it is {kind}. Choose another name.", UNWRITABLE)


@contextmanager
def open_replacement(path: Path, mode: int = 0o666) -> Iterator[IO[bytes]]:
    """Opens a temporary file. After the `with` block, the temporary file replaces the file at `path` in one step."""
    new_path = path.with_name(f"{path.name}.{secrets.token_hex(4)}.new")
    try:
        with open(new_path, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(new_path, path)
    except BaseException:
        new_path.unlink(missing_ok=True)
        raise


def open_temporary_database(tables: str) -> sqlite3.Connection:
    """Opens an empty temporary database and creates tables."""
    # SQLite deletes the temporary file right after opening it, so no other process uses the file. Nothing is rolled
    # back, so a journal is unnecessary.
    database = sqlite3.connect("", isolation_level=None)
    database.executescript(f"PRAGMA journal_mode = OFF; {tables}; BEGIN")
    return database
