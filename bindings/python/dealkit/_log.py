"""Whether anybody reads the log."""

from __future__ import annotations

import sys

from dealkit import _native

_DEBUG = 10


def look() -> None:
    """Tells the native half whether what it traces is to be logged."""
    # A program that has not imported logging has not set it up either.
    logging = sys.modules.get("logging")
    _native.note_log(logging is not None and logging.getLogger("dealkit").isEnabledFor(_DEBUG))
