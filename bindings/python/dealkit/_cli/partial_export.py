"""Partial exports: files such as `deals.csv.part`, with the results of an unfinished export, from which it can be
resumed.

A partial export is an SQLite database. It holds the deals in order, in groups that are already encoded for the output
file. It also holds the failures of the deals that could not be retrieved.
"""

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
from typing import IO, Any

from dealkit._cli.csv_tables import DELIMITERS, encode_header, escape_formula, escape_key, write_table
from dealkit._cli.deal_ids import FAILED_COLUMNS, DealIds
from dealkit._cli.excel_files import is_workbook_name
from dealkit._cli.excel_tables import SHEET_NAME, is_workbook, read_sheet, write_workbook
from dealkit._cli.exit_codes import UNWRITABLE, CommandError
from dealkit._cli.export_formats import ExportFormat
from dealkit._cli.files import explain_os_error, file_display_name, open_replacement, output_file_exists

# Identifies the file type and its version in SQLite's header.
_APPLICATION_ID = int.from_bytes(b"dea7")

# SQLite's codes for damaged content. A damaged file may lack tables, for which SQLite reports the general code
# SQLITE_ERROR.
_DAMAGE_CODES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_MISMATCH)

_WORKBOOK = ".xlsx"

# Results are saved after this many seconds, or when there are this many unsaved bytes.
_SAVE_INTERVAL, _MAX_UNSAVED_BYTES = 1.0, 4 << 20


def partial_path(out: Path) -> Path:
    """Returns the path of the partial export for an output file."""
    return out.with_name(out.name + ".part")


def failures_path(out: Path) -> Path:
    """Returns the path of the list of deals that could not be retrieved. It is a workbook if the output file is one."""
    return out.with_name(f"{out.name}.failed{_WORKBOOK if is_workbook_name(out) else '.csv'}")


class DamagedPartialExport(CommandError):
    """The partial export is damaged, so the export cannot be resumed."""


class _LockedByOtherProcess(CommandError):
    """Another process is writing the partial export."""


class PartialExport:
    """The unfinished export of some ids into a file."""

    def __init__(self, out: Path, export_format: ExportFormat, ids: DealIds, service: str, options: Namespace) -> None:
        self._out, self._format, self._ids, self._path = out, export_format, ids, partial_path(out)
        self.saved = 0
        """The number of ids whose results are on disk, counted from the first id."""
        # Results that are not on disk yet, by the position of the id: the encoded deal, or the columns of the failure.
        self._deals: dict[int, bytes] = {}
        self._failures: dict[int, list[str]] = {}
        self._size = 0
        existed_before = output_file_exists(self._path) and self._path.stat().st_size > 0
        # SQLite writes a journal next to the database. Raises an error if the journal's path is a link, a folder or a
        # device.
        output_file_exists(self._path.with_name(self._path.name + "-journal"))
        if output_file_exists(failures_path(out)) and not existed_before:
            _reject_existing_failures(failures_path(out), overwrite=options.overwrite)
        with self._translate_errors():
            self._database = sqlite3.connect(self._path, timeout=0)
            try:
                self._lock(existed_before=existed_before)
                delimiter = "" if export_format.delimiter == "," else f" {export_format.delimiter}"
                self._start_or_resume(f"{ids.digest()} {service}{delimiter}", is_new=not existed_before)
            except BaseException as error:
                self.close()
                if not (existed_before or isinstance(error, _LockedByOtherProcess)):
                    self._path.unlink()
                raise
        self._saved_at = time.monotonic()

    def _lock(self, *, existed_before: bool) -> None:
        """Locks the file against other processes. Rejects a file that is not a partial export."""
        execute = self._database.execute
        try:
            if existed_before and execute("PRAGMA application_id").fetchone() != (_APPLICATION_ID,):
                raise sqlite3.DatabaseError
            execute("PRAGMA locking_mode = EXCLUSIVE")
            execute("BEGIN EXCLUSIVE")
        except sqlite3.DatabaseError as error:
            code = getattr(error, "sqlite_errorcode", None)
            if code == sqlite3.SQLITE_BUSY:
                raise _LockedByOtherProcess(
                    f"{file_display_name(self._out)} is being written by another dealkit command. Wait until that command has ended."
                ) from None
            if code not in (None, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
                raise
            raise CommandError(
                f"{file_display_name(self._path)} was not written by dealkit, so it was left unchanged. Move it to another folder, or choose "
                "another name with --out."
            ) from None

    def _start_or_resume(self, job: str, *, is_new: bool) -> None:
        """Creates the tables of a new export, or finds the position at which an earlier run stopped."""
        execute = self._database.execute
        if is_new:
            execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            execute("CREATE TABLE deal_groups (first INTEGER PRIMARY KEY, next INTEGER, deals BLOB, checksum INTEGER)")
            execute("CREATE TABLE failed (position INTEGER PRIMARY KEY, failure TEXT)")
            execute("CREATE TABLE job AS SELECT ? AS job", [job])
        elif execute("SELECT job FROM job").fetchone() != (job,):
            raise CommandError(
                f"{file_display_name(self._path)} belongs to a stopped export of other ids or from another service, or with another --delimiter. To "
                "continue that export, repeat its command. To keep it for later, choose another name with --out. To start over, delete the file."
            )
        self.saved = execute("SELECT coalesce(max(next), 0) FROM deal_groups").fetchone()[0]
        execute("COMMIT")

    @property
    def done(self) -> int:
        """The number of ids with a result, counted from the first id."""
        # There is no separate counter, because a KeyboardInterrupt between two statements could make it wrong.
        return self.saved + len(self._deals) + len(self._failures)

    @property
    def failed(self) -> int:
        """The number of ids on disk whose deals could not be retrieved."""
        with self._translate_errors():
            return int(self._database.execute("SELECT count(*) FROM failed").fetchone()[0])

    def add(self, deal: Any, failure: list[str] | None = None) -> None:
        """Adds the deal of the next id, or its failure."""
        position = self.done
        if failure is not None:
            self._failures[position] = failure
        else:
            self._deals[position] = encoded = self._format.encode(deal)
            self._size += len(encoded)
        if self._size >= _MAX_UNSAVED_BYTES or time.monotonic() - self._saved_at >= _SAVE_INTERVAL:
            self.save()

    def save(self) -> None:
        """Writes the results since the last save to disk."""
        next_position = self.done
        if self.saved < next_position:
            group, failures_in_group = self._format.encode_group([*self._deals.values()])
            positions = [*self._deals]
            failures = self._failures | {positions[index]: failure for index, failure in failures_in_group.items()}
            failure_rows = [(position, json.dumps(failure)) for position, failure in failures.items()]
            with self._translate_errors(), self._database:
                # A KeyboardInterrupt may be raised after the commit, before `saved` changes. The next save then writes
                # the same deals again, and replaces this group.
                row = (self.saved, next_position, group, zlib.crc32(group))
                self._database.execute("INSERT OR REPLACE INTO deal_groups VALUES (?, ?, ?, ?)", row)
                self._database.executemany("INSERT OR REPLACE INTO failed VALUES (?, ?)", failure_rows)
            self.saved, self._deals, self._failures, self._size = next_position, {}, {}, 0
        self._saved_at = time.monotonic()

    def complete(self) -> list[dict[str, str]]:
        """Writes the output files, replacing each existing file in one step, and removes the partial export. Returns
        the failures.
        """
        self.save()
        with self._translate_errors():
            failures = self._load_failures()
            with open_replacement(self._out) as file:
                self._format.write_file(file, self._read_groups())
                if failures:
                    with open_replacement(failures_path(self._out)) as failures_file:
                        self._write_failures(failures_file, failures)
                else:
                    failures_path(self._out).unlink(missing_ok=True)
            self.remove()
        return failures

    def _write_failures(self, file: IO[bytes], failures: list[dict[str, str]]) -> None:
        if is_workbook_name(self._out):
            # The cells of a workbook are text, so spreadsheets do not change them.
            write_workbook(file, chain([FAILED_COLUMNS], (failure.values() for failure in failures)))
        else:
            write_table(file, chain([FAILED_COLUMNS], map(_failure_row, failures)), self._format.delimiter)

    def _load_failures(self) -> list[dict[str, str]]:
        failure_rows = self._database.execute("SELECT position, failure FROM failed ORDER BY position")
        try:
            return [
                dict(zip(FAILED_COLUMNS, [next(self._ids.from_position(position)), *json.loads(failure)], strict=True))
                for position, failure in failure_rows
            ]
        except (ValueError, TypeError, StopIteration):
            raise self._damage_error() from None

    def _read_groups(self) -> Iterator[bytes]:
        """Reads the groups of encoded deals and verifies their checksums. SQLite alone does not detect all damage, such
        as a changed digit in a deal.
        """
        expected_position = 0
        for first, next_position, group, checksum in self._database.execute("SELECT * FROM deal_groups ORDER BY first"):
            if first != expected_position or zlib.crc32(group) != checksum:
                raise self._damage_error()
            expected_position = next_position
            yield group

    def close(self) -> None:
        self._database.close()

    def remove(self) -> None:
        """Removes the partial export from disk."""
        self.close()
        self._path.unlink(missing_ok=True)

    def _damage_error(self) -> DamagedPartialExport:
        return DamagedPartialExport(
            f"{file_display_name(self._path)}, which has the deals of a stopped export, is damaged. Move it to another folder, and repeat "
            "the command to retrieve all deals again.",
            UNWRITABLE,
        )

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            # The lowest byte of SQLite's extended code is the primary code.
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGE_CODES:
                raise self._damage_error() from None
            reason = explain_os_error(error) if isinstance(error, OSError) else error
            raise CommandError(f"{file_display_name(self._out)} cannot be written: {reason}", UNWRITABLE) from error


def _failure_row(failure: dict[str, str]) -> list[str]:
    id, *texts = failure.values()
    return [escape_key(id), *map(escape_formula, texts)]


def _reject_existing_failures(failures_file: Path, *, overwrite: bool) -> None:
    """Raises an error instead of overwriting a list of failures, which may still be needed."""
    if not _is_failure_list(failures_file):
        raise CommandError(
            f"{file_display_name(failures_file)} was not written by dealkit, so it was left unchanged. Move it to another "
            "folder, or choose another name with --out."
        )
    if not overwrite:
        raise CommandError(
            f"{file_display_name(failures_file)}, the list of failed deals of an earlier export, already exists. Choose another name "
            "with --out, or use --overwrite to replace the list."
        )


def _is_failure_list(path: Path) -> bool:
    """Returns whether a file is a list of failures or empty."""
    if is_workbook(path):
        try:
            header = next(read_sheet(path, SHEET_NAME).rows, None)
        except CommandError:
            return False
        return header is not None and header.cells == FAILED_COLUMNS
    with open(path, "rb") as file:
        first_line = file.readline(100)
    return first_line in (b"", *(encode_header(FAILED_COLUMNS, delimiter) for delimiter in DELIMITERS.values()))
