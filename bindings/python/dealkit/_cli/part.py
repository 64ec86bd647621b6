"""The progress of an export, on disk, so that a stopped run can be resumed.

Next to the file to be written, `deals.csv`, there is `deals.csv.part` with the lines that have come, and
`deals.csv.part.json`, which says how far they can be trusted: it is replaced as a whole, after they are on disk.
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
from types import TracebackType
from typing import NamedTuple, Self

from dealkit._cli.exits import Failed

_FORMAT = "dealkit export 1"

# How often the lines are put on disk, in seconds, and how much is buffered until then, in bytes.
_SAVED_EVERY = 1.0
_HELD_BACK = 1 << 20


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


class Part:
    """The unfinished export of some ids into a file. As a context manager, it is saved at the end, whatever ends it."""

    def __init__(self, out: Path, ids: list[str], service: str, *, restart: bool) -> None:
        self._state = out.with_name(out.name + ".part.json")
        self._job = {"format": _FORMAT, "ids": _fingerprint(ids), "service": service}
        self._part = _Appender(part_of(out))
        try:
            if not self._part.lock():
                raise Failed(f"another dealkit process is writing {out}")
            if restart:
                self._state.unlink(missing_ok=True)
            self.at = self._found()
            """How far it has got, and which part of the files belongs to that."""
            self._failed = _Appender(failed_of(out))
        except BaseException:
            self._part.close()
            raise
        self._part.cut(self.at.part_bytes)
        self._failed.cut(self.at.failed_bytes)
        self.save()

    def add(self, line: str, failed_line: str = "") -> None:
        """Adds the result for one more id: the line of its deal, or the line that says why there is none."""
        part_bytes = self._part.write(line)
        failed_bytes = self._failed.write(failed_line)
        # In one step, so that an interrupt leaves all of it or nothing.
        self.at = Position(self.at.done + 1, self.at.failed + bool(failed_line), part_bytes, failed_bytes)
        if time.monotonic() - self._saved_at >= _SAVED_EVERY or self._part.held_back >= _HELD_BACK:
            self.save()

    def begin(self, line: str, failed_line: str) -> None:
        """Writes the headers, if there is nothing yet."""
        if not self.at.part_bytes and not self.at.failed_bytes:
            at = Position(0, 0, self._part.write(line), self._failed.write(failed_line))
            self.at = at

    def save(self) -> None:
        """Puts the lines that have come on disk."""
        at = self.at
        self._part.flush()
        self._failed.flush()
        _write_whole(self._state, json.dumps({**self._job, **at._asdict()}) + "\n")
        self._saved_at = time.monotonic()

    def close(self) -> None:
        """Closes the files, which stay for the next run."""
        self._part.close()
        self._failed.close()

    def discard(self) -> None:
        """Removes the files that are not needed once the export is complete, or if there is nothing to resume."""
        self.close()
        for path in (self._state, self._part.path, *(() if self.at.failed else (self._failed.path,))):
            path.unlink(missing_ok=True)

    def _found(self) -> Position:
        try:
            state = json.loads(self._state.read_bytes())
        except FileNotFoundError:
            return Position()
        except ValueError:
            raise Failed(f"{self._state} cannot be read; start over with --restart") from None
        if any(state.get(name) != value for name, value in self._job.items()):
            raise Failed(
                f"{self._part_name()} belongs to a stopped export of other ids or from another service. Run that one "
                "again to continue it, choose another --out, or start over with --restart"
            )
        return Position(**{name: state[name] for name in Position._fields})

    def _part_name(self) -> str:
        return str(self._state).removesuffix(".json")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._part.is_closed:
            return
        try:
            self.save()
        except OSError:
            # What was saved before counts; if something else has failed, that says why it cannot be saved.
            if value is None:
                raise
        finally:
            self.close()


class _Appender:
    """A file that is appended to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._length = 0
        self._held: list[bytes] = []
        self.held_back = 0
        self._file = open(path, "r+b" if path.exists() else "w+b", buffering=0)

    def cut(self, length: int) -> None:
        """Truncates the file to this length."""
        if os.fstat(self._file.fileno()).st_size < length:
            raise Failed(f"{self.path} is shorter than the last run left it; start over with --restart")
        self._file.truncate(length)
        self._file.seek(length)
        self._length = length

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

    def write(self, line: str) -> int:
        """Adds a line, and returns the new length of the file."""
        data = line.encode()
        self._held.append(data)
        self.held_back += len(data)
        self._length += len(data)
        return self._length

    def flush(self) -> None:
        """Puts the added lines on disk."""
        if not self._held:
            return
        rest = memoryview(b"".join(self._held))
        while rest:
            rest = rest[self._file.write(rest) :]
        self._held.clear()
        self.held_back = 0
        os.fsync(self._file.fileno())

    @property
    def is_closed(self) -> bool:
        return self._file.closed

    def close(self) -> None:
        self._file.close()


def _write_whole(path: Path, text: str) -> None:
    """Writes a file so that either the old or the new one exists, whenever the machine stops."""
    new = path.with_name(path.name + ".new")
    with open(new, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)


def _fingerprint(ids: list[str]) -> str:
    digest = hashlib.sha256()
    for id in ids:
        digest.update(f"{len(id)}:{id}".encode(errors="surrogatepass"))
    return digest.hexdigest()
