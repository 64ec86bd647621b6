"""Documents, one per line (NDJSON, JSON Lines), read one at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Self

from dealkit._core.failure import unwrap


class JsonLines(Iterator[Any]):
    """The models of lines; see ``from_json_lines``. An error does not end it: the next line is still read."""

    def __init__(self, model: Any, lines: Iterable[str | bytes], skips: bool) -> None:
        if isinstance(lines, str | bytes | bytearray):
            kind = type(lines).__name__
            raise TypeError(f"from_json_lines takes an iterable of lines, such as an open file, not {kind}")
        self._read, self._skips = model._read, skips
        self._lines = enumerate(lines, start=1)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        return unwrap(self._outcome())

    def _outcome(self) -> Any:
        # A separate function, so that no part of a line stays in a frame that an exception keeps alive.
        for number, line in self._lines:
            # White space around a document is not part of it, and neither is the end of the line.
            if isinstance(line, str):
                line = line.strip(" \t\r\n")
            elif isinstance(line, bytes):
                line = line.strip(b" \t\r\n")
            if line or not isinstance(line, str | bytes):
                return self._read(line, number, self._skips)
            del line
        raise StopIteration
