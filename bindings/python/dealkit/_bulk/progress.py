"""The progress of ``retrieve_many`` or ``create_many``, shown as the caller wants it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from itertools import count
from typing import NamedTuple

Progress = bool | Callable[[int, int | None], object]
"""How progress is shown: in a line, not at all, or by a callable that is called with the number of items so far
and the total, if that is known."""

# How often the line is rewritten, in seconds.
_INTERVAL = 0.2


class Display(NamedTuple):
    """Something that shows progress."""

    advance: Callable[[], object]
    """Counts one more item."""
    end: Callable[[], object]
    """Ends the display: no more items will come."""


def begin(progress: Progress, total: int | None, unit: str) -> Display | None:
    """The display that ``progress`` asks for; ``total`` is None if it is not known, ``unit`` names the items."""
    if progress is False:
        return None
    if callable(progress):
        done, callback = count(1), progress
        return Display(lambda: callback(next(done), total), lambda: None)
    if progress is not True:
        raise TypeError(f"progress must be a bool or a callable, not {type(progress).__name__}")
    return _line(f"{'' if total is None else f'/{total}'} {unit}s")


def _line(of: str) -> Display:
    """One line on standard error, rewritten a few times a second."""
    done, shown_at = 0, 0.0

    def show(end: str) -> None:
        # A program without a console has no standard error.
        if sys.stderr is not None:
            print(f"\r{done}{of}", end=end, file=sys.stderr, flush=True)

    def advance() -> None:
        nonlocal done, shown_at
        done += 1
        now = time.monotonic()
        if now - shown_at >= _INTERVAL:
            shown_at = now
            show("")

    return Display(advance, lambda: show("\n"))
