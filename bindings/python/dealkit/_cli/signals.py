"""Signal handling: Ctrl-C, SIGTERM and SIGHUP."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self


def is_stopping() -> bool:
    """Returns whether a signal has asked the running command to stop."""
    return _active_signals is not None and _active_signals.is_stopping


class Signals:
    """A context manager that installs signal handlers. SIGTERM and SIGHUP then stop the command as Ctrl-C does: they
    raise KeyboardInterrupt, or call the callback of ``call_on_first_signal``.

    The system sends SIGHUP when the terminal or the connection to it closes.
    """

    def __init__(self) -> None:
        self.code: int | None = None
        """The exit code after a signal other than Ctrl-C; None if no such signal has arrived."""
        self.is_stopping = False
        """True once a signal has arrived."""
        self._on_first_signal: Callable[[], None] | None = None
        self._is_finishing = False
        self._previous_handlers: dict[int, Any] = {}

    @contextmanager
    def call_on_first_signal(self, on_first_signal: Callable[[], None]) -> Iterator[None]:
        """Calls a function at the first signal, instead of raising KeyboardInterrupt. A KeyboardInterrupt between the
        statements that receive a result and store it would lose the result.
        """
        self._on_first_signal = on_first_signal
        try:
            yield
        finally:
            self._on_first_signal = None

    def mark_finishing(self) -> None:
        """Stops raising KeyboardInterrupt, because only output remains to be written. From now on, a signal only ends
        the wait for the reader of the output.
        """
        self._is_finishing = True

    def _handle_signal(self, number: int, _frame: object) -> None:
        was_stopping, self.is_stopping = self.is_stopping, True
        if self._is_finishing:
            self.code = self.code or 128 + number
            return
        if number != signal.SIGINT:
            if was_stopping:
                # SIGTERM and SIGHUP often arrive more than once, so only a second Ctrl-C cancels the calls in flight.
                return
            self.code = 128 + number
        if self._on_first_signal is None or was_stopping:
            raise KeyboardInterrupt
        self._on_first_signal()

    def __enter__(self) -> Self:
        global _active_signals
        _active_signals = self
        # Windows has no SIGHUP.
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            # A signal that the parent process ignores stays ignored, such as SIGHUP under nohup.
            if number is not None and signal.getsignal(number) != signal.SIG_IGN:
                self._previous_handlers[number] = signal.signal(number, self._handle_signal)
        return self

    def __exit__(self, *exception_details: object) -> None:
        global _active_signals
        for number, handler in self._previous_handlers.items():
            signal.signal(number, handler)
        _active_signals = None


_active_signals: Signals | None = None
