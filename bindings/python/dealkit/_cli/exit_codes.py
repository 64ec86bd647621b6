"""Exit codes, and the exception that ends a command."""

from __future__ import annotations

DONE = 0
INCOMPLETE = 1
WRONG_USAGE = 2
SERVICE_FAILED = 3
UNWRITABLE = 4
INTERRUPTED = 130

MEANINGS = {
    DONE: "everything was done",
    INCOMPLETE: "finished, but not everything was done: a deal does not exist or could not be retrieved, a row has mistakes, an "
    "agent was not created or may not have been created, the service violates the specification, or the answer to a question was "
    "not y",
    WRONG_USAGE: "the command line is wrong, or one of your files cannot be used; nothing was sent",
    SERVICE_FAILED: "the service cannot be reached, rejects the service key, or fails, or check cannot find out whether the key is "
    "accepted",
    UNWRITABLE: "a file or a ledger could not be written, or a ledger's database could not be reached",
    INTERRUPTED: "stopped with Ctrl-C; the last lines of the output say how to continue (143: stopped by SIGTERM, 129: the terminal "
    "was closed)",
    141: "the program that was reading the output has ended",
}
"""The exit codes of all commands, with their meanings."""


class CommandError(Exception):
    """Ends the command. The message states the cause and the action to take."""

    def __init__(self, text: str, code: int = WRONG_USAGE) -> None:
        super().__init__(text)
        self.code = code
