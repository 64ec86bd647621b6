"""The creates of an import, and what has become of each row."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any

from dealkit import (
    Agent,
    APIStatusError,
    AuthenticationError,
    Client,
    Creation,
    DealkitError,
    LedgerError,
    PermissionDeniedError,
    StoppedError,
)
from dealkit._cli.advice import OF_THE_SERVICE, in_words
from dealkit._cli.plan import Plan
from dealkit._cli.report import WORDS, Result
from dealkit._cli.screen import Progress, tell
from dealkit._cli.signals import Signals
from dealkit.ledger import KeyOf

# After this many consecutive failures that would be the same for any row, nothing more is sent: each may leave behind
# an agent that nobody knows about.
_IN_A_ROW = 5


_NOT_REACHED = "stopped before its turn"


class Creates:
    """The creates for some rows."""

    def __init__(self, client: Client, plan: Plan, path: str | Path, options: Namespace) -> None:
        self._lines = lines = plan.lines
        self._came_to: list[Result | None] = [None] * len(lines)
        self._in_a_row = 0
        self.stopped_by: DealkitError | None = None
        """The error of the service or the ledger that made it pointless to go on."""
        # How many rows were taken for sending.
        self._taken = 0
        # The key may be in a column that is not sent.
        keys = {id(line.agent): line.key for line in lines}
        self._creations = client.agents.create_many(
            self._agents(),
            concurrency=options.concurrency,
            ordered=False,
            on_error="return",
            ledger=path,
            key=KeyOf(plan.key_name, lambda agent: keys[id(agent)]),
            resend_unknown=options.resend_unknown,
        )

    def run(self, signals: Signals) -> None:
        """Creates the agents. After Ctrl-C, it waits for the rows in flight; a second Ctrl-C gives them up."""
        progress = Progress("agent", len(self._lines))

        def stop() -> None:
            progress.end()
            tell("stopping: nothing more is sent; waiting for the requests in flight (Ctrl-C again gives them up)")
            self._creations.stop()

        try:
            with signals.stopping(stop):
                self._take(progress)
        finally:
            for creation in self._given_up():
                self._note(creation)
            progress.end()

    def results(self) -> list[Result]:
        """What has become of each row."""
        return [result or self._unseen(index) for index, result in enumerate(self._came_to)]

    def _agents(self) -> Iterator[Any]:
        for line in self._lines:
            self._taken += 1
            yield line.agent

    def _given_up(self) -> list[Creation[Agent]]:
        """What is known of the rows in flight, however often Ctrl-C is pressed."""
        while True:
            try:
                return self._creations.cancel()
            except KeyboardInterrupt:
                continue

    def _unseen(self, index: int) -> Result:
        """The result of a row for which nothing has come."""
        row, key = self._lines[index].number, self._lines[index].key
        if index < self._taken:
            # Ctrl-C came at the same moment as the response.
            message = "stopped as its response arrived: run the command again; the ledger has recorded its outcome"
            return Result(row, key, "unknown", message=message)
        return Result(row, key, "not sent", message=_NOT_REACHED)

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
        if creation.recorded:
            return None
        is_of_service = isinstance(error, OF_THE_SERVICE)
        self._in_a_row = self._in_a_row + 1 if is_of_service else 0
        return error if self._in_a_row >= _IN_A_ROW else None

    def _note(self, creation: Creation[Agent]) -> None:
        error = creation.error
        message = _NOT_REACHED if isinstance(error, StoppedError) else "" if error is None else in_words(error)
        self._came_to[creation.index] = Result(
            row=self._lines[creation.index].number,
            key=self._lines[creation.index].key,
            came_to=WORDS[creation.outcome],
            agent_id=creation.agent_id or "",
            status="" if isinstance(error, StoppedError) else str(getattr(error, "status_code", None) or ""),
            message=message,
            was_earlier=creation.recorded,
            reason=_reason(error),
        )


def _reason(error: DealkitError | None) -> Hashable:
    """What the errors of rows that failed for the same reason have in common."""
    if not isinstance(error, APIStatusError):
        return None
    said = error.problem and (error.problem.title, error.problem.detail)
    return (error.status_code, said, error.errors)
