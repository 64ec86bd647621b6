"""Exit codes, and the exception that ends a command early."""

from __future__ import annotations

DONE = 0
INCOMPLETE = 1
WRONG = 2
NO_SERVICE = 3
UNWRITABLE = 4
INTERRUPTED = 130


class Failed(Exception):
    """The command cannot go on; the text tells the user why, and what to do."""

    def __init__(self, text: str, code: int = WRONG) -> None:
        super().__init__(text)
        self.code = code
