"""What has come of an export, on disk, so that a stopped run can be resumed: `deals.csv.part`, an SQLite database with a row
for each id in order, the JSON of its deal or the cells of the list of failures."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from dealkit._cli.exits import UNWRITABLE, Failed
from dealkit._cli.files import is_there, named, replacing
from dealkit._cli.formats import Write
from dealkit._cli.ids import FAILED_COLUMNS
from dealkit._cli.tables import csv_line, harmless, header_line

# What tells the file from other databases, and its version.
_APPLICATION = int.from_bytes(b"dea4")

# How often what has come is put on disk, in seconds.
_SAVED_EVERY = 1.0


def part_of(out: Path) -> Path:
    """What has come so far."""
    return out.with_name(out.name + ".part")


def failed_of(out: Path) -> Path:
    """The deals that could not be retrieved."""
    return out.with_name(out.name + ".failed.csv")


class Part:
    """The unfinished export of some ids into a file. As a context manager, it is saved at the end, whatever ends it."""

    def __init__(self, out: Path, ids: list[str], service: str, *, restart: bool, overwrite: bool) -> None:
        self._out, self._ids, self._path = out, ids, part_of(out)
        self.done = self.failed = 0
        """How many ids are done, counted from the first, and how many of them could not be retrieved."""
        self.failures: list[dict[str, str]] = []
        """Why deals could not be retrieved, once the files are made."""
        self.kept = (0, 0)
        """The same numbers, of what is on disk."""
        job = f"{hashlib.sha256(json.dumps(ids).encode()).hexdigest()} {service}"
        was_there = is_there(self._path) and self._path.stat().st_size > 0
        # SQLite writes this one, too.
        is_there(self._path.with_name(self._path.name + "-journal"))
        if is_there(failed_of(out)) and not was_there:
            _refuse_earlier(failed_of(out), overwrite=overwrite)
        with self._writing():
            self._file = sqlite3.connect(self._path, timeout=0, isolation_level=None)
            self._is_own = not was_there
            try:
                if not self._take(job, was_there=was_there, restart=restart):
                    raise Failed(
                        f"{named(self._path)} belongs to a stopped export of other ids or from another service. Run that "
                        "one again to continue it, choose another --out, or start over with --restart"
                    )
                self.save()
            except BaseException:
                self._file.close()
                if self._is_own:
                    self._path.unlink()
                raise

    def _take(self, job: str, *, was_there: bool, restart: bool) -> bool:
        """Takes the file for a job, and keeps other processes away from it. Returns False if it has another job."""
        one = self._file.execute
        try:
            if was_there and one("PRAGMA application_id").fetchone() != (_APPLICATION,):
                raise sqlite3.DatabaseError
            one("PRAGMA locking_mode = EXCLUSIVE")
            one("BEGIN EXCLUSIVE")
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY:
                self._is_own = False
                raise Failed(f"another dealkit process is writing {named(self._out)}") from None
            if getattr(error, "sqlite_errorcode", None) not in (None, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
                raise
            raise Failed(
                f"{named(self._path)} is not of a stopped export: move it away, or choose another --out"
            ) from None
        if was_there and not restart:
            if one("SELECT job FROM job").fetchone() != (job,):
                return False
            self.done, self.failed = self.count()
            return True
        for table in ("job", "come"):
            one(f"DROP TABLE IF EXISTS {table}")
        one(f"PRAGMA application_id = {_APPLICATION}")
        one("CREATE TABLE come (at INTEGER PRIMARY KEY, deal BLOB, failure TEXT)")
        one("CREATE TABLE job AS SELECT ? AS job", [job])
        return True

    def count(self) -> tuple[int, int]:
        """How many ids have come, and how many of them failed."""
        done, failed = self._file.execute("SELECT count(*), count(failure) FROM come").fetchone()
        return done, failed

    def add(self, deal: str | None, failure: list[str] | None = None) -> None:
        """Adds the deal of the next id, as JSON, or why there is none."""
        with self._writing():
            row = (self.done, deal and deal.encode(), failure and json.dumps(failure))
            self._file.execute("INSERT INTO come VALUES (?, ?, ?)", row)
            self.done += 1
            self.failed += failure is not None
            if time.monotonic() - self._saved_at >= _SAVED_EVERY:
                self.save()

    def save(self) -> None:
        """Puts what has come on disk."""
        # An interrupt may have come between the two.
        if self._file.in_transaction:
            self._file.execute("COMMIT")
        self._file.execute("BEGIN EXCLUSIVE")
        self._saved_at = time.monotonic()
        self.kept = (self.done, self.failed)

    def complete(self, write: Write) -> None:
        """Makes the files, each as a whole, and removes what they were made from."""
        with self._writing():
            self.save()
            with replacing(self._out) as file:
                deals = self._file.execute("SELECT at, deal FROM come WHERE deal IS NOT NULL ORDER BY at")
                unfit = write(file, deals)
                for at, why in unfit.items():
                    row = (json.dumps([self._ids[at], *why]), at)
                    self._file.execute("UPDATE come SET deal = NULL, failure = ? WHERE at = ?", row)
                self.failed += len(unfit)
                if self.failed:
                    self._write_failed()
                else:
                    failed_of(self._out).unlink(missing_ok=True)
            self.discard()

    def _write_failed(self) -> None:
        with replacing(failed_of(self._out)) as file:
            file.write(header_line(FAILED_COLUMNS))
            for (cells,) in self._file.execute("SELECT failure FROM come WHERE failure IS NOT NULL ORDER BY at"):
                why = json.loads(cells)
                file.write(csv_line(map(harmless, why)))
                self.failures.append(dict(zip(FAILED_COLUMNS, why, strict=True)))

    def discard(self) -> None:
        """Removes the file."""
        self._file.close()
        self._path.unlink(missing_ok=True)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            why = getattr(error, "strerror", None) or error
            raise Failed(f"{named(self._out)} cannot be written: {why}", UNWRITABLE) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        try:
            self.save()
        except sqlite3.Error:
            pass  # It is closed, or what was saved before counts.
        finally:
            self._file.close()


def _refuse_earlier(failed: Path, *, overwrite: bool) -> None:
    """Refuses to write over a list of failures that may be needed."""
    header = header_line(FAILED_COLUMNS)
    with open(failed, "rb") as file:
        if file.read(len(header)) not in (header, b""):
            raise Failed(f"{named(failed)} is not the list of an export: move it away, or choose another --out")
    if not overwrite:
        raise Failed(f"{named(failed)} exists; choose another --out, or replace it with --overwrite")
