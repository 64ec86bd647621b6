"""Progress displays of ``retrieve_many`` and ``create_many``."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from itertools import count
from typing import NamedTuple

Progress = bool | Callable[[int, int | None], object]
"""True shows the progress on one line, and False shows nothing. A callable is called with two arguments: the number of
items so far, and the total number, or None if the total is unknown."""

# Minimum interval in seconds between two updates of the line.
_UPDATE_INTERVAL = 0.2


class Display(NamedTuple):
    """A progress display."""

    advance: Callable[[], object]
    """Counts one more item."""
    end: Callable[[], object]
    """Ends the display after the last item."""


def make_display(progress: Progress, total: int | None, unit: str) -> Display | None:
    """Makes the display for the option ``progress``. ``unit`` names the items."""
    if progress is False:
        return None
    if callable(progress):
        counter, callback = count(1), progress
        return Display(lambda: callback(next(counter), total), lambda: None)
    if progress is not True:
        raise TypeError(f"progress must be a bool or a callable, not {type(progress).__name__}")
    return _make_line(f"{'' if total is None else f'/{total}'} {unit}s")


def _make_line(suffix: str) -> Display:
    """Makes a display that rewrites one line on standard error. The line has the number of items, followed by
    ``suffix``. If standard error is not a terminal, only the last line is written."""
    done_count, shown_at = 0, 0.0

    def show(end: str) -> None:
        # Standard error is None in a Windows program without a console.
        if sys.stderr is None:
            return
        if sys.stderr.isatty():
            print(f"\r{done_count}{suffix}", end=end, file=sys.stderr, flush=True)
        elif end:
            print(f"{done_count}{suffix}", file=sys.stderr, flush=True)

    def advance() -> None:
        nonlocal done_count, shown_at
        done_count += 1
        now = time.monotonic()
        if now - shown_at >= _UPDATE_INTERVAL:
            shown_at = now
            show("")

    return Display(advance, lambda: show("\n"))
