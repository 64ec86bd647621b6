"""Ctrl-C, and the signals that ask a command to end."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self


def is_stopping() -> bool:
    """Returns whether a signal has asked the running command to stop."""
    return _entered is not None and _entered.is_stopping


class Signals:
    """While it is entered, SIGTERM, and SIGHUP when the terminal or the connection to it ends, stop the command as
    Ctrl-C does: with KeyboardInterrupt, or as ``stopping`` says.
    """

    def __init__(self) -> None:
        self.code: int | None = None
        """The exit code, once a signal other than Ctrl-C has come."""
        self.is_stopping = False
        """Whether a signal has come."""
        self._stop: Callable[[], None] | None = None
        self._is_ending = False
        self._before: dict[int, Any] = {}

    @contextmanager
    def stopping(self, stop: Callable[[], None]) -> Iterator[None]:
        """While it is entered, the first signal only calls ``stop``. An exception could come between a result and the
        line that takes it, and the result would be lost.
        """
        self._stop = stop
        try:
            yield
        finally:
            self._stop = None

    def begin_to_end(self) -> None:
        """Has signals raise nothing from now on, because only the output is left to be written: they end the wait for its reader."""
        self._is_ending = True

    def _come(self, number: int, _frame: object) -> None:
        was_stopping, self.is_stopping = self.is_stopping, True
        if self._is_ending:
            self.code = self.code or 128 + number
            return
        if number != signal.SIGINT:
            if was_stopping:
                # Each of them often comes more than once; only Ctrl-C gives up what is in flight.
                return
            self.code = 128 + number
        if self._stop is None or was_stopping:
            raise KeyboardInterrupt
        self._stop()

    def __enter__(self) -> Self:
        global _entered
        _entered = self
        # Windows has no SIGHUP.
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            # As nohup leaves it.
            if number is not None and signal.getsignal(number) != signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._come)
        return self

    def __exit__(self, *raised: object) -> None:
        global _entered
        for number, handler in self._before.items():
            signal.signal(number, handler)
        _entered = None


_entered: Signals | None = None
