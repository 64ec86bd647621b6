"""Exit codes, and the exceptions that end a command early."""

from __future__ import annotations

DONE = 0
INCOMPLETE = 1
WRONG = 2
NO_SERVICE = 3
UNWRITABLE = 4
INTERRUPTED = 130

EXIT_CODES = {
    "0": "everything was done",
    "1": "finished, but incomplete: a deal does not exist or could not be retrieved, a row has mistakes, an agent was not "
    "created or may not have been, or the service breaks the contract",
    "2": "wrong usage, or one of your files cannot be used; nothing was sent",
    "3": "the service cannot be reached, rejects the key, or fails",
    "4": "a file could not be written",
    "130": "stopped with Ctrl-C (143: by SIGTERM, 129: the terminal was closed); the last line says how to continue",
    "141": "the program that was reading the output has stopped",
}


class Failed(Exception):
    """The command cannot go on; the text tells the user why, and what to do."""

    def __init__(self, text: str, code: int = WRONG) -> None:
        super().__init__(text)
        self.code = code
