"""What has come of an export, on disk, so that a stopped run can be resumed: `deals.csv.part`, an SQLite database with the
deals in order, in groups as the file will have them, and why others could not be retrieved."""

from __future__ import annotations

import json
import sqlite3
import time
import zlib
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

from dealkit._cli.exits import UNWRITABLE, Failed
from dealkit._cli.files import is_there, named, replacing
from dealkit._cli.formats import Format
from dealkit._cli.ids import FAILED_COLUMNS, Ids
from dealkit._cli.tables import harmless, header_line, protect, write_table

# What tells the file from other databases, and its version.
_APPLICATION = int.from_bytes(b"dea7")

# The codes of SQLite for a file with damaged or missing content. It does not have the statement's tables then, either.
_DAMAGES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_MISMATCH)

# What has come is put on disk after so many seconds, or as soon as it is so large.
_SAVED_EVERY, _MOST_BYTES = 1.0, 4 << 20


def part_of(out: Path) -> Path:
    """What has come so far."""
    return out.with_name(out.name + ".part")


def failed_of(out: Path) -> Path:
    """The deals that could not be retrieved."""
    return out.with_name(out.name + ".failed.csv")


class Damaged(Failed):
    """The file cannot be read, now or later."""


class _Busy(Failed):
    """Another process is writing the file."""


class Part:
    """The unfinished export of some ids into a file."""

    def __init__(self, out: Path, form: Format, ids: Ids, service: str, options: Namespace) -> None:
        self._out, self._form, self._ids, self._path = out, form, ids, part_of(out)
        self.saved = 0
        """How many ids are done on disk, counted from the first."""
        # What has come since, by the position of the id: its deal, or why there is none.
        self._deals: dict[int, bytes] = {}
        self._failures: dict[int, list[str]] = {}
        self._size = 0
        was_there = is_there(self._path) and self._path.stat().st_size > 0
        # SQLite writes this one, too.
        is_there(self._path.with_name(self._path.name + "-journal"))
        if is_there(failed_of(out)) and not was_there:
            _refuse_earlier(failed_of(out), overwrite=options.overwrite)
        with self._writing():
            self._file = sqlite3.connect(self._path, timeout=0)
            try:
                self._lock(was_there=was_there)
                self._take(f"{ids.digest()} {service}", is_new=not was_there)
            except BaseException as error:
                self.close()
                if not (was_there or isinstance(error, _Busy)):
                    self._path.unlink()
                raise
        self._saved_at = time.monotonic()

    def _lock(self, *, was_there: bool) -> None:
        """Keeps other processes away from the file, and refuses one that is not of an export."""
        one = self._file.execute
        try:
            if was_there and one("PRAGMA application_id").fetchone() != (_APPLICATION,):
                raise sqlite3.DatabaseError
            one("PRAGMA locking_mode = EXCLUSIVE")
            one("BEGIN EXCLUSIVE")
        except sqlite3.DatabaseError as error:
            code = getattr(error, "sqlite_errorcode", None)
            if code == sqlite3.SQLITE_BUSY:
                raise _Busy(f"another dealkit process is writing {named(self._out)}") from None
            if code not in (None, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
                raise
            raise Failed(
                f"{named(self._path)} is not of a stopped export: move it away, or choose another --out"
            ) from None

    def _take(self, job: str, *, is_new: bool) -> None:
        """Begins a job, or resumes it."""
        one = self._file.execute
        if is_new:
            one(f"PRAGMA application_id = {_APPLICATION}")
            one("CREATE TABLE come (first INTEGER PRIMARY KEY, until INTEGER, deals BLOB, checksum INTEGER)")
            one("CREATE TABLE failed (at INTEGER PRIMARY KEY, why TEXT)")
            one("CREATE TABLE job AS SELECT ? AS job", [job])
        elif one("SELECT job FROM job").fetchone() != (job,):
            raise Failed(
                f"{named(self._path)} belongs to a stopped export of other ids or from another service. Run that "
                "one again to continue it, choose another --out, or remove the file to start over"
            )
        self.saved = one("SELECT coalesce(max(until), 0) FROM come").fetchone()[0]
        one("COMMIT")

    @property
    def done(self) -> int:
        """How many ids are done, counted from the first."""
        # An interrupt may come anywhere, so what has come is counted by what is there.
        return self.saved + len(self._deals) + len(self._failures)

    @property
    def failed(self) -> int:
        """How many of the ids that are done on disk could not be retrieved."""
        with self._writing():
            return int(self._file.execute("SELECT count(*) FROM failed").fetchone()[0])

    def add(self, deal: Any, failure: list[str] | None = None) -> None:
        """Adds the deal of the next id, or why there is none."""
        at = self.done
        if failure is not None:
            self._failures[at] = failure
        else:
            self._deals[at] = kept = self._form.kept(deal)
            self._size += len(kept)
        if self._size >= _MOST_BYTES or time.monotonic() - self._saved_at >= _SAVED_EVERY:
            self.save()

    def save(self) -> None:
        """Puts what has come on disk."""
        until = self.done
        if self.saved < until:
            group, unfit = self._form.group([*self._deals.values()])
            at = [*self._deals]
            failures = self._failures | {at[n]: why for n, why in unfit.items()}
            failed = [(at, json.dumps(why)) for at, why in failures.items()]
            with self._writing(), self._file:
                # If this is interrupted before it is known here, the same group is saved again, perhaps with more in it.
                row = (self.saved, until, group, zlib.crc32(group))
                self._file.execute("INSERT OR REPLACE INTO come VALUES (?, ?, ?, ?)", row)
                self._file.executemany("INSERT OR REPLACE INTO failed VALUES (?, ?)", failed)
            self.saved, self._deals, self._failures, self._size = until, {}, {}, 0
        self._saved_at = time.monotonic()

    def complete(self) -> list[dict[str, str]]:
        """Makes the files, each as a whole, and removes what they were made from. Returns why deals could not be
        retrieved."""
        self.save()
        with self._writing():
            failures = self._failures_on_disk()
            with replacing(self._out) as file:
                self._form.join(file, self._groups())
                if failures:
                    with replacing(failed_of(self._out)) as listed:
                        write_table(listed, chain([FAILED_COLUMNS], map(_cells, failures)))
                else:
                    failed_of(self._out).unlink(missing_ok=True)
            self.discard()
        return failures

    def _failures_on_disk(self) -> list[dict[str, str]]:
        failed = self._file.execute("SELECT at, why FROM failed ORDER BY at")
        try:
            return [
                dict(zip(FAILED_COLUMNS, [next(self._ids.since(at)), *json.loads(why)], strict=True))
                for at, why in failed
            ]
        except (ValueError, TypeError, StopIteration):
            raise self._damage() from None

    def _groups(self) -> Iterator[bytes]:
        """The groups of deals. SQLite itself does not notice all damage, such as a changed digit in a deal."""
        done = 0
        for first, until, group, checksum in self._file.execute("SELECT * FROM come ORDER BY first"):
            if first != done or zlib.crc32(group) != checksum:
                raise self._damage()
            done = until
            yield group

    def close(self) -> None:
        self._file.close()

    def discard(self) -> None:
        """Removes the file."""
        self.close()
        self._path.unlink(missing_ok=True)

    def _damage(self) -> Damaged:
        return Damaged(
            f"{named(self._path)}, which has what an earlier run has retrieved, is damaged: move it away, and run the same command "
            "again to retrieve all deals",
            UNWRITABLE,
        )

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            # The last byte of SQLite's code is that of the kind.
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGES:
                raise self._damage() from None
            why = getattr(error, "strerror", None) or error
            raise Failed(f"{named(self._out)} cannot be written: {why}", UNWRITABLE) from error


def _cells(failure: dict[str, str]) -> list[str]:
    id, *texts = failure.values()
    return [protect(id), *map(harmless, texts)]


def _refuse_earlier(failed: Path, *, overwrite: bool) -> None:
    """Refuses to write over a list of failures that may be needed."""
    header = header_line(FAILED_COLUMNS)
    with open(failed, "rb") as file:
        if file.read(len(header)) not in (header, b""):
            raise Failed(f"{named(failed)} is not the list of an export: move it away, or choose another --out")
    if not overwrite:
        raise Failed(f"{named(failed)} exists; choose another --out, or replace it with --overwrite")
