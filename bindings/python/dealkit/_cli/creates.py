"""The creates of an import, which note in each row what became of it."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from dealkit import (
    Agent,
    AuthenticationError,
    Client,
    Creation,
    DealkitError,
    LedgerError,
    PermissionDeniedError,
    StoppedError,
)
from dealkit._cli.advice import OF_THE_SERVICE, in_words
from dealkit._cli.known import CHANGED
from dealkit._cli.rows import Result, Rows, word_of
from dealkit._cli.screen import Progress, tell_in_handler
from dealkit.ledger import KeyOf

# After this many consecutive failures that would be the same for any row, nothing more is sent: each may leave behind
# an agent that nobody knows about.
_IN_A_ROW = 5

_UNSEEN = "stopped as its response arrived: run the command again; the ledger has recorded its outcome"


def _word(creation: Creation[Agent]) -> str:
    """The word for a row's outcome. A row that waited to be sent again when it was cancelled is sent by the next run."""
    error = creation.error
    if error is not None and error.kind == "cancelled" and creation.outcome == "rejected":
        return "not sent"
    return word_of(creation.outcome, in_flight=getattr(error, "in_flight", False))


def _message(creation: Creation[Agent]) -> str:
    if creation.error is not None:
        return in_words(creation.error)
    return CHANGED if creation.request_differs else ""


class _Agent(dict[str, Any]):
    """The arguments of a create. The key may be in a column that is not sent."""

    __slots__ = ("key",)
    key: str


class Creates:
    """The creates for some rows."""

    def __init__(self, client: Client, rows: Rows, number: int, path: str | Path, options: Namespace) -> None:
        self._rows, self._number = rows, number
        self._in_a_row = 0
        self.stopped_by: DealkitError | None = None
        """The error of the service or the ledger that made it pointless to go on."""
        # The rows that were taken for sending, and of which nothing has come so far, by index.
        self._unseen: dict[int, Result] = {}
        rows.note_unsent("stopped before its turn")
        self._creations = client.agents.create_many(
            self._agents(),
            concurrency=options.concurrency,
            ordered=False,
            on_error="return",
            ledger=path,
            key=KeyOf(rows.key_name, lambda agent: agent.key),
            resend_unknown=options.resend_unknown,
            wait_in_flight=options.wait_in_flight,
        )

    def run(self, options: Namespace) -> None:
        """Creates the agents. After Ctrl-C, it waits for the rows in flight; a second Ctrl-C gives them up."""
        progress = Progress("agent", self._number)

        def stop() -> None:
            self._creations.stop()
            progress.end()
            tell_in_handler(
                "stopping: nothing more is sent; waiting for the requests in flight (Ctrl-C again gives them up)"
            )

        try:
            with options.signals.stopping(stop):
                self._take(progress)
        finally:
            for creation in self._given_up():
                self._note(creation)
            progress.end()

    def note_unseen(self) -> None:
        """Notes what is known of rows of which nothing has come."""
        for row in self._unseen.values():
            # Ctrl-C came at the same moment as the response.
            self._rows.note(Result(row.number, row.key, "unknown", message=_UNSEEN))

    def _agents(self) -> Iterator[Any]:
        for index, (row, agent) in enumerate(self._rows.to_send()):
            found = _Agent(agent)
            found.key = row.key
            self._unseen[index] = row
            yield found

    def _given_up(self) -> list[Creation[Agent]]:
        """What is known of the rows in flight, however often Ctrl-C is pressed."""
        while True:
            with suppress(KeyboardInterrupt):
                return self._creations.cancel()

    def _take(self, progress: Progress) -> None:
        for creation in self._creations:
            self._note(creation)
            progress.advance(failed=creation.error is not None)
            if self.stopped_by is None:
                self.stopped_by = self._reason_to_stop(creation)
                # After a refusal, create_many stops by itself and says which row was the first not to be sent.
                if not isinstance(self.stopped_by, AuthenticationError | PermissionDeniedError | None):
                    self._creations.stop()

    def _reason_to_stop(self, creation: Creation[Agent]) -> DealkitError | None:
        """The reason why the following rows are likely to fail in the same way, if there is one."""
        error = creation.error
        if creation.ledger_error is not None:
            return creation.ledger_error
        if isinstance(error, AuthenticationError | PermissionDeniedError | LedgerError):
            return error
        if creation.from_ledger:
            return None
        self._in_a_row = self._in_a_row + 1 if isinstance(error, OF_THE_SERVICE) else 0
        return error if self._in_a_row >= _IN_A_ROW else None

    def _note(self, creation: Creation[Agent]) -> None:
        error = creation.error
        if (row := self._unseen.get(creation.index)) is None:
            return
        # A row that was not reached is still what an earlier run has made of it.
        if not (isinstance(error, StoppedError) and creation.outcome == "not_sent"):
            noted = Result(
                row.number,
                row.key,
                _word(creation),
                creation.agent_id or "",
                str(getattr(error, "status_code", None) or ""),
                _message(creation),
                creation.from_ledger,
            )
            self._rows.note(noted)
        self._unseen.pop(creation.index, None)
