"""The files that a command reads and writes. What it reads is bounded, and it replaces nothing but its own files."""

from __future__ import annotations

import codecs
import os
import secrets
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO

from dealkit._cli.exits import UNWRITABLE, Failed
from dealkit._cli.screen import safe

STANDARD_INPUT = "-"

MOST_BYTES = 256 << 20
"""What a list of ids or a table may have at most: some millions of ids, or a million agents."""

_AT_A_TIME = 1 << 20

# A shorter file that is not text is told apart once it has been read: it may be UTF-16 that does not say so.
_LEAST_ZEROS = _AT_A_TIME - 1

_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}

_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

_OTHER_FILES = {b"PK\x03\x04": "an .xlsx or .zip file", b"\xd0\xcf\x11\xe0": "an .xls file", b"PAR1": "a Parquet file"}


def named(path: str | Path) -> str:
    """The name of a file in a text."""
    return "standard input" if str(path) == STANDARD_INPUT else safe(str(path))


def read_text(path: str | Path, encoding: str | None = None, advice: str = "") -> tuple[str, str]:
    """The text of a file or of standard input, and how it was read.

    An encoding that is not given is detected: by a byte-order mark, or else it is UTF-8. The advice comes after what is
    wrong with another one. Errors name the file and the line, but show none of its content.
    """
    name = named(path)
    data = read_bytes(path, may_have_zeros=encoding is not None)
    for beginning, kind in _OTHER_FILES.items():
        if data.startswith(beginning):
            raise Failed(f'{name} is {kind}, not text; in a spreadsheet, save it as "CSV UTF-8"')
    marked = next((of for mark, of in _BYTE_ORDER_MARKS.items() if data.startswith(mark)), None)
    encoding = encoding or marked or "utf-8"
    known_as = encoding.upper().removesuffix("-SIG")
    try:
        text = data.decode(encoding)
    except LookupError:
        raise Failed(
            f"--encoding {safe(encoding)} is not a known encoding; try utf-8, cp1252, latin-1 or utf-16"
        ) from None
    except UnicodeError as error:
        start = error.start if isinstance(error, UnicodeDecodeError) else 0
        line = data.count(b"\n", 0, start) + 1
        raise Failed(f"{name}: line {line} is not {known_as}{advice}") from None
    if "\0" in text:
        raise Failed(f"{name} is not text in {known_as}{advice}")
    if marked is None:
        return text, encoding.upper()
    # If another encoding was named, the byte-order mark is a character, which is not part of the first line.
    return text.removeprefix("\ufeff"), f"{known_as} with a byte-order mark"


def read_bytes(path: str | Path, *, may_have_zeros: bool = False) -> bytes:
    """The content of a file that the user has named, or of standard input: not without end, as of a device. It may have
    zeros if it is in UTF-16, or if the user has named another encoding; nothing else that is text has any."""
    found = bytearray()
    try:
        with _opened(path) as file:
            while some := file.read(_AT_A_TIME):
                found += some
                has_zeros = b"\0" in some and not may_have_zeros and not found.startswith(_UTF_16)
                if len(found) > MOST_BYTES or (has_zeros and len(found) > _LEAST_ZEROS):
                    raise Failed(
                        f"{named(path)} is not a list or a table: it is not text, or longer than {MOST_BYTES >> 20} MiB. "
                        "Is it the right file? If so, split it"
                    )
    except OSError as error:
        raise Failed(f"{named(path)} cannot be read: {error.strerror}") from None
    return bytes(found)


@contextmanager
def _opened(path: str | Path) -> Iterator[IO[bytes]]:
    if str(path) != STANDARD_INPUT:
        with open(path, "rb") as file:
            yield file
    elif sys.stdin is None:
        raise Failed("standard input is closed")
    else:
        yield sys.stdin.buffer


def refuse_inputs(outputs: Iterable[Path], inputs: Iterable[str | Path | None]) -> None:
    """Refuses to write a file that is also read, under whatever name."""
    read = [(one, found) for one in inputs if one is not None and (found := _status(one)) is not None]
    for output in outputs:
        there = _status(output)
        for one, found in read:
            if there is not None and os.path.samestat(there, found):
                raise Failed(
                    f"{named(output)} would be written, but is the same file as {named(one)}, which is read: choose "
                    "another name"
                )


def _status(path: str | Path) -> os.stat_result | None:
    try:
        if str(path) != STANDARD_INPUT:
            return os.stat(path)
        return None if sys.stdin is None else os.fstat(sys.stdin.fileno())
    except (OSError, ValueError):
        return None


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


def open_own(path: Path) -> BinaryIO:
    """Opens a file to be written in its place, and creates it if it is not there. A link is not followed, and a file that
    has another name too is refused."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    file = open(os.open(path, flags, 0o666), "r+b", buffering=0)
    if os.fstat(file.fileno()).st_nlink > 1:
        file.close()
        raise Failed(f"{named(path)} cannot be written: it has another name, too; choose another name", UNWRITABLE)
    return file


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
