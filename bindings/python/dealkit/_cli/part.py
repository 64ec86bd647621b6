"""What has come of an export, on disk, so that a stopped run can be resumed.

Next to the file to be written, `deals.csv`, there is `deals.csv.part`: a line that says which ids are exported from which
service, and then a line for each id, in their order: the deal as JSON, or the cells of the list of failures. Each line
begins with a checksum of all that comes before its end. A run that resumes goes on after the lines whose checksums hold,
so neither a line that was being written, nor one that somebody has changed, is taken for a deal.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Self

from dealkit._cli.exits import Failed
from dealkit._cli.files import is_there, named, open_own, replacing
from dealkit._cli.ids import FAILED_HEADER, failed_line

_FORMAT = "dealkit export 3"

# How often what has come is put on disk, in seconds, and how much is held back until it is written, in bytes.
_SAVED_EVERY = 1.0
_HELD_BACK = 8 << 20

Write = Callable[[IO[bytes], Iterator[tuple[int, bytes]]], dict[int, list[str]]]
"""Writes a file from deals, each the position of its id and its JSON. Returns why deals cannot be written after all, by
position: the kind of the failure, the status, the outcome and the text."""


def part_of(out: Path) -> Path:
    """What has come so far."""
    return out.with_name(out.name + ".part")


def failed_of(out: Path) -> Path:
    """The deals that could not be retrieved."""
    return out.with_name(out.name + ".failed.csv")


class Part:
    """The unfinished export of some ids into a file. As a context manager, it is saved at the end, whatever ends it."""

    def __init__(self, out: Path, ids: list[str], service: str, *, restart: bool, overwrite: bool) -> None:
        self._out, self._ids = out, ids
        self._path, self._failed = part_of(out), failed_of(out)
        job = json.dumps({"format": _FORMAT, "ids": _fingerprint(ids), "service": service}).encode()
        was_there, has_failed = is_there(self._path), is_there(self._failed)
        self.done = self.failed = 0
        """How many ids are done, counted from the first, and how many of them could not be retrieved."""
        # The lines that have come, but are not written yet, and their length; where to write them, and the checksum so far.
        self._come: list[bytes] = []
        self._length = self._end = self._checksum = 0
        self._file = open_own(self._path)
        is_new = not was_there
        try:
            if not _lock(self._file):
                is_new = False
                raise Failed(f"another dealkit process is writing {named(out)}")
            lines = self._lines()
            known = next(lines, None)
            if known is None or _FORMAT.encode() not in known:
                if os.fstat(self._file.fileno()).st_size:
                    raise Failed(
                        f"{named(self._path)} is not of a stopped export: move it away, or choose another --out"
                    )
                if has_failed:
                    self._refuse_earlier(overwrite=overwrite)
            elif known != job and not restart:
                raise Failed(
                    f"{named(self._path)} belongs to a stopped export of other ids or from another service. Run that one "
                    "again to continue it, choose another --out, or start over with --restart"
                )
            if known == job and not restart:
                for line in lines:
                    self._count(line)
            else:
                self._end = self._checksum = 0
                self._add(job)
            self._file.truncate(self._end)
            self.save()
        except BaseException:
            self._file.close()
            if is_new:
                self._path.unlink(missing_ok=True)
            raise

    def add(self, deal: str) -> None:
        """Adds the deal of the next id, as JSON."""
        self._take(deal.encode())

    def add_failed(self, cells: list[str]) -> None:
        """Adds why there is no deal of the next id."""
        self._take(json.dumps(cells).encode())

    def next_id(self) -> str:
        """The next id."""
        return self._ids[self.done]

    def _take(self, line: bytes) -> None:
        self._add(line)
        self._count(line)
        if time.monotonic() - self._saved_at >= _SAVED_EVERY:
            self.save()
        elif self._length >= _HELD_BACK:
            self._write()

    def _add(self, line: bytes) -> None:
        self._checksum = zlib.crc32(line, self._checksum)
        self._come.append(b"%08x %s\n" % (self._checksum, line))
        self._length += len(line)

    def _count(self, line: bytes) -> None:
        self.done += 1
        self.failed += line.startswith(b"[")

    def _lines(self) -> Iterator[bytes]:
        """The lines as far as their checksums hold, which is where the next one is written."""
        self._file.seek(0)
        self._end = self._checksum = 0
        with open(self._file.fileno(), "rb", closefd=False) as file:
            for whole in file:
                line = whole[9:-1]
                checksum = zlib.crc32(line, self._checksum)
                if whole != b"%08x %s\n" % (checksum, line):
                    return
                self._end += len(whole)
                self._checksum = checksum
                yield line

    def _refuse_earlier(self, *, overwrite: bool) -> None:
        """Refuses to write over a file that may be needed."""
        with open(self._failed, "rb") as file:
            if file.read(len(FAILED_HEADER)) not in (FAILED_HEADER, b""):
                raise Failed(
                    f"{named(self._failed)} is not the list of an export: move it away, or choose another --out"
                )
        if not overwrite:
            raise Failed(f"{named(self._failed)} exists; choose another --out, or replace it with --overwrite")

    def save(self) -> None:
        """Puts what has come on disk, unless the file is closed because all of it is."""
        if self._file.closed:
            return
        self._write()
        os.fsync(self._file.fileno())
        self._saved_at = time.monotonic()

    def _write(self) -> None:
        # From where the file was last known to end, so an interrupt at any moment does no harm.
        self._file.seek(self._end)
        data = b"".join(self._come)
        rest = memoryview(data)
        while rest:
            rest = rest[self._file.write(rest) :]
        self._end, self._come, self._length = self._end + len(data), [], 0

    def complete(self, write: Write) -> None:
        """Makes the files, each as a whole, and removes what they were made from."""
        self.save()
        with replacing(self._out) as file:
            lines = enumerate(self._lines(), -1)
            unfit = write(file, ((at, line) for at, line in lines if at >= 0 and line.startswith(b"{")))
            if self.failed or unfit:
                self._write_failed(unfit)
            else:
                self._failed.unlink(missing_ok=True)
        self.failed += len(unfit)
        self._file.close()
        self._path.unlink()

    def _write_failed(self, unfit: dict[int, list[str]]) -> None:
        with replacing(self._failed) as file:
            file.write(FAILED_HEADER)
            for at, line in enumerate(self._lines(), -1):
                if line.startswith(b"["):
                    file.write(failed_line(json.loads(line)))
                elif at in unfit:
                    file.write(failed_line([self._ids[at], *unfit[at]]))

    def discard(self) -> None:
        """Removes the file, if there is nothing to resume."""
        self._file.close()
        self._path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        try:
            self.save()
        except OSError:
            # What was saved before counts; if something else has failed, that says why it cannot be saved.
            if error is None:
                raise
        finally:
            self._file.close()


def _lock(file: IO[bytes]) -> bool:
    """Keeps other processes away for as long as the file is open; returns False if one of them was first."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        pass  # The file system has no locks.
    return True


def _fingerprint(ids: list[str]) -> str:
    digest = hashlib.sha256()
    for id in ids:
        digest.update(f"{len(id)}:{id}".encode(errors="surrogatepass"))
    return digest.hexdigest()
