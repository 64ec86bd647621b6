"""Exit codes, and the exception that ends a command."""

from __future__ import annotations

DONE = 0
INCOMPLETE = 1
WRONG_USAGE = 2
SERVICE_FAILED = 3
UNWRITABLE = 4
INTERRUPTED = 130


class CommandError(Exception):
    """Ends the command. The message states the cause and the action to take."""

    def __init__(self, text: str, code: int = WRONG_USAGE) -> None:
        super().__init__(text)
        self.code = code
