"""The logger ``dealkit``: what the native half traces, logged by Python code."""

from __future__ import annotations

import sys

from dealkit import _native

_DEBUG = 10


class _State:
    """Whether anybody reads the log."""

    is_read = False


def sync_log_level() -> None:
    """Tells the native half whether what it traces is to be logged."""
    # A program that has not imported logging has not set it up either.
    logging = sys.modules.get("logging")
    _State.is_read = logging is not None and logging.getLogger("dealkit").isEnabledFor(_DEBUG)
    _native.sync_log_level(_State.is_read)


def is_read() -> bool:
    """Whether anybody read the log when the last call began."""
    return _State.is_read


def flush() -> None:
    """Logs what has been traced since the last time."""
    if _State.is_read:
        import logging

        logger = logging.getLogger("dealkit")
        for level, message in _native.take_log():
            try:
                logger.log(level, "%s", message)
            except Exception:
                # A filter or a handler of the program's that raises must not cost the outcome of a call.
                _report()


def _report() -> None:
    import logging
    import traceback

    if logging.raiseExceptions and sys.stderr is not None:
        traceback.print_exc()
