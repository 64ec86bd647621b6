"""The progress of ``retrieve_many`` or ``create_many``, shown as the caller wants it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Protocol

Progress = bool | Callable[[int, int | None], object]
"""How progress is shown: a bar or a line, not at all, or by a callable that is called with the number of items so far
and the total, if that is known."""


class Display(Protocol):
    """Something that shows progress."""

    def advance(self) -> None:
        """Counts one more item."""

    def end(self) -> None:
        """Ends the display: no more items will come."""


def begin(progress: Progress, total: int | None, unit: str) -> Display:
    """The display that ``progress`` asks for; ``total`` is None if it is not known, ``unit`` names the items."""
    if progress is False:
        return _Nothing()
    if callable(progress):
        return _Callback(progress, total)
    if progress is not True:
        raise TypeError(f"progress must be a bool or a callable, not {type(progress).__name__}")
    try:
        from tqdm.auto import tqdm  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        return _Line(total, unit)
    return _Bar(tqdm(total=total, unit=unit))


class _Nothing:
    def advance(self) -> None:
        pass

    def end(self) -> None:
        pass


class _Callback:
    def __init__(self, callback: Callable[[int, int | None], object], total: int | None) -> None:
        self._callback = callback
        self._total = total
        self._done = 0

    def advance(self) -> None:
        self._done += 1
        self._callback(self._done, self._total)

    def end(self) -> None:
        pass


class _TqdmBar(Protocol):
    def update(self) -> object: ...

    def close(self) -> None: ...


class _Bar:
    def __init__(self, bar: _TqdmBar) -> None:
        self._bar = bar

    def advance(self) -> None:
        self._bar.update()

    def end(self) -> None:
        self._bar.close()


class _Line:
    """One line on standard error, rewritten a few times a second."""

    _INTERVAL = 0.2

    def __init__(self, total: int | None, unit: str) -> None:
        self._of = f"{'' if total is None else f'/{total}'} {unit}s"
        self._done = 0
        self._shown_at = 0.0

    def advance(self) -> None:
        self._done += 1
        now = time.monotonic()
        if now - self._shown_at >= self._INTERVAL:
            self._shown_at = now
            self._show("")

    def end(self) -> None:
        self._show("\n")

    def _show(self, end: str) -> None:
        # A program without a console has no standard error.
        if sys.stderr is not None:
            print(f"\r{self._done}{self._of}", end=end, file=sys.stderr, flush=True)
