"""The progress of an export, on disk, so that a stopped run can be resumed.

Next to the file to be written, `deals.csv`, there is `deals.csv.part` with the lines that have come, and
`deals.csv.part.json`, whose last whole line says how far they can be trusted: it is added after they are on disk.
Anything after that is cut off when the next run resumes. Deals that could not be retrieved are in
`deals.csv.failed.csv`.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple, Self

from dealkit._cli.exits import Failed
from dealkit._cli.files import is_there, named, open_own, read_bytes
from dealkit._cli.forms import Came, Form
from dealkit._cli.ids import FAILED_HEADER

_FORMAT = "dealkit export 2"

# How often what has come is put on disk, in seconds, and how much is held back until it is written, in bytes and in ids.
_SAVED_EVERY = 1.0
_HELD_BACK = 8 << 20
_AT_A_TIME = 1_000


class Position(NamedTuple):
    """How far an export has got."""

    done: int = 0
    """How many of the ids are done, counted from the first."""
    failed: int = 0
    """How many of them could not be retrieved."""
    part_bytes: int = 0
    failed_bytes: int = 0


def part_of(out: Path) -> Path:
    """The lines that have come so far."""
    return out.with_name(out.name + ".part")


def failed_of(out: Path) -> Path:
    """The deals that could not be retrieved."""
    return out.with_name(out.name + ".failed.csv")


def files_of(out: Path) -> list[Path]:
    """All that an export writes."""
    return [out, part_of(out), failed_of(out), _state_of(out)]


def _state_of(out: Path) -> Path:
    return out.with_name(out.name + ".part.json")


class Part:
    """The unfinished export of some ids into a file. As a context manager, it is saved at the end, whatever ends it."""

    def __init__(
        self,
        out: Path,
        ids: list[str],
        service: str,
        form: Form,
        *,
        restart: bool,
        overwrite: bool,
    ) -> None:
        job = {"format": _FORMAT, "ids": _fingerprint(ids), "service": service}
        self._form = form
        _, *paths = files_of(out)
        was_there = [is_there(path) for path in paths]
        # What has come, but is not written yet, and its length.
        self._come: list[Came] = []
        self._length = 0
        self._files = [_Own(paths[0])]
        self._part = self._files[0]
        own = [] if was_there[0] else [paths[0]]
        try:
            if not self._part.lock():
                own = []
                raise Failed(f"another dealkit process is writing {named(out)}")
            record = _Record.read(paths[2], job)
            if record is None:
                _refuse_foreign(paths[0], form.own_file, failed=paths[1], overwrite=overwrite)
            elif not restart:
                record.refuse_another(named(out))
            found = None if record is None or restart else record.position
            self.at = found or Position(0, 0, len(form.header), len(FAILED_HEADER))
            """How far it has got, and which part of the files belongs to that."""
            own = [] if found else paths
            self._files += map(_Own, paths[1:])
            _, self._failed, self._state = self._files
            if record is None or found is None:
                # From here on, the record says that nothing else counts.
                self._end = self._state.write(_line(job), 0)
                self._state.cut(self._end)
                self._part.write(form.header, 0)
                self._failed.write(FAILED_HEADER, 0)
            else:
                self._end = record.end
            self._part.cut(self.at.part_bytes)
            self._failed.cut(self.at.failed_bytes)
            form.begin(paths[0], self.at.part_bytes)
            self.save()
        except BaseException:
            self._close()
            for path in own:
                path.unlink(missing_ok=True)
            raise

    def add(self, come: Came) -> None:
        """Adds what has come for the next id."""
        self._come.append(come)
        self._length += len(come.line) + len(come.failed)
        if time.monotonic() - self._saved_at >= _SAVED_EVERY:
            self.save()
        elif len(self._come) >= _AT_A_TIME or self._length >= _HELD_BACK:
            self._write()

    def save(self) -> None:
        """Puts what has come on disk, unless the files are closed because all of it is."""
        if self._part.is_closed:
            return
        self._write()
        self._part.sync()
        self._failed.sync()
        end = self._state.write(_line(self.at._asdict()), self._end)
        self._state.cut(end)
        self._state.sync()
        self._end = end
        self._saved_at = time.monotonic()

    def _write(self) -> None:
        # Each file is written from where it was last known to end, so an interrupt at any moment does no harm.
        come = self._form.settled(self._come)
        at = Position(
            self.at.done + len(come),
            self.at.failed + sum(bool(one.failed) for one in come),
            self._part.write(b"".join(one.line for one in come), self.at.part_bytes),
            self._failed.write(b"".join(one.failed for one in come), self.at.failed_bytes),
        )
        self.at, self._come, self._length = at, [], 0

    def complete(self) -> None:
        """Makes the file, and removes those that are not needed any more."""
        self.save()
        self._close_files()
        self._form.finish(self._part.path)
        self._remove()

    def discard(self) -> None:
        """Removes all files, if there is nothing to resume."""
        self._close()
        self._part.path.unlink(missing_ok=True)
        self._remove()

    def _remove(self) -> None:
        for own in (self._state, *(() if self.at.failed else (self._failed,))):
            own.path.unlink(missing_ok=True)

    def _close(self) -> None:
        """Closes the files, which stay for the next run."""
        self._form.abandon()
        self._close_files()

    def _close_files(self) -> None:
        for own in self._files:
            own.close()

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
            self._close()


class _Record(NamedTuple):
    """What an earlier run has recorded."""

    is_same: bool
    """Whether it was the same job."""
    position: Position | None
    end: int
    """The length of the lines that are whole."""

    @classmethod
    def read(cls, path: Path, job: dict[str, str]) -> _Record | None:
        """Reads the record, if there is one."""
        text = read_bytes(path) if is_there(path) else b""
        if not text:
            return None
        try:
            # The last line may be torn: it does not count.
            lines = text.split(b"\n")[:-1]
            known = json.loads(lines[0])
            position = Position(**json.loads(lines[-1])) if len(lines) > 1 else None
            if known["format"] == _FORMAT:
                return cls(known == job, position, text.rindex(b"\n") + 1)
        except (ValueError, TypeError, KeyError, IndexError):
            pass
        raise Failed(f"{named(path)} is not the record of an export: move it away, or choose another --out")

    def refuse_another(self, out: str) -> None:
        """Refuses to go on with the export of another job."""
        if not self.is_same:
            raise Failed(
                f"{out}.part belongs to a stopped export of other ids or from another service. Run that one again to "
                "continue it, choose another --out, or start over with --restart"
            )


def _refuse_foreign(*own: Path | None, failed: Path, overwrite: bool) -> None:
    """Refuses to write over files that no stopped export has left."""
    for path in own:
        if path is not None and is_there(path) and path.stat().st_size:
            raise Failed(f"{named(path)} is not of a stopped export: move it away, or choose another --out")
    if not is_there(failed) or not failed.stat().st_size:
        return
    with open(failed, "rb") as file:
        if file.read(len(FAILED_HEADER)) != FAILED_HEADER:
            raise Failed(f"{named(failed)} is not the list of an export: move it away, or choose another --out")
    if not overwrite:
        raise Failed(f"{named(failed)} exists; choose another --out, or replace it with --overwrite")


class _Own:
    """A file that is written in its place."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = open_own(path)

    @property
    def size(self) -> int:
        return os.fstat(self._file.fileno()).st_size

    def cut(self, length: int) -> None:
        """Truncates the file to this length."""
        if self.size < length:
            raise Failed(f"{named(self.path)} is shorter than the last run left it; start over with --restart")
        self._file.truncate(length)

    def lock(self) -> bool:
        """Keeps other processes away for as long as the file is open; returns False if one of them was first."""
        try:
            if sys.platform == "win32":
                import msvcrt

                msvcrt.locking(self._file.fileno(), msvcrt.LK_NBLCK, 1)
            else:
                import fcntl

                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            return False
        except OSError:
            pass  # The file system has no locks.
        return True

    def write(self, data: bytes, at: int) -> int:
        """Writes from this place on, and returns where that ends."""
        self._file.seek(at)
        rest = memoryview(data)
        while rest:
            rest = rest[self._file.write(rest) :]
        return at + len(data)

    def sync(self) -> None:
        """Puts the file on disk."""
        os.fsync(self._file.fileno())

    @property
    def is_closed(self) -> bool:
        return self._file.closed

    def close(self) -> None:
        self._file.close()


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode() + b"\n"


def _fingerprint(ids: list[str]) -> str:
    digest = hashlib.sha256()
    for id in ids:
        digest.update(f"{len(id)}:{id}".encode(errors="surrogatepass"))
    return digest.hexdigest()
