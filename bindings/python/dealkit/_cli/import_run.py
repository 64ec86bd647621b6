"""Creates the agents of an import and records the outcome of each row."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Sequence
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
from dealkit._cli.error_messages import SERVICE_ERRORS, format_error
from dealkit._cli.import_rows import ImportRows, RowResult, import_outcome
from dealkit._cli.ledger_lookup import ROW_CHANGED
from dealkit._cli.terminal import Progress, print_message_in_handler
from dealkit.ledger import KeyOf

# The import stops after this many consecutive errors of the service, because each error may leave an agent whose id the
# ledger does not have.
_MAX_CONSECUTIVE_FAILURES = 5

# The events in office words, before the technical message, which the service's operator needs.
_MESSAGE_STARTS = {
    "rejected": "The service did not accept the row: ",
    "unknown": "The answer was lost, so the agent may exist: ",
}

_INTERRUPTED_MESSAGE = "stopped as its response arrived: run the command again; the ledger has recorded its outcome"


def _outcome_name(creation: Creation[Agent]) -> str:
    """Returns the import's name for the outcome of a row. A rejected row that was cancelled before its retry counts as
    not sent, because the next run sends it.
    """
    error = creation.error
    if error is not None and error.kind == "cancelled" and creation.outcome == "rejected":
        return "not sent"
    return import_outcome(creation.outcome, in_flight=getattr(error, "in_flight", False))


def _result_message(creation: Creation[Agent]) -> str:
    if creation.error is None:
        return ROW_CHANGED if creation.request_differs else ""
    message = format_error(creation.error)
    if creation.from_ledger:
        return f"{message} {ROW_CHANGED}." if creation.request_differs else message
    return _MESSAGE_STARTS.get(_outcome_name(creation), "") + message


class _KeyedAgent(dict[str, Any]):
    """The arguments of `create`, and the row's key in an attribute, because the key may be in a column that is not
    sent."""

    __slots__ = ("key",)
    key: str


class ImportRun:
    """Creates agents for the sendable rows."""

    def __init__(self, client: Client, rows: ImportRows, total: int, ledger: str | Path, options: Namespace) -> None:
        self._rows, self._total = rows, total
        self._consecutive_failures = 0
        self.stopped_by: DealkitError | None = None
        """The error of the service or the ledger that stopped the import, if any."""
        # Rows that `create_many` has taken and that have no result yet, by index.
        self._awaited_rows: dict[int, RowResult] = {}
        rows.set_unsent_message("stopped before its turn")
        self._creations = client.agents.create_many(
            self._iterate_agents(),
            concurrency=options.concurrency,
            ordered=False,
            on_error="return",
            ledger=ledger,
            key=KeyOf(rows.key_name, lambda agent: agent.key),
            resend_unknown=options.resend_unknown,
            resend_corrected=True,
            wait_in_flight=options.wait_in_flight,
        )

    def run(self, options: Namespace) -> None:
        """Creates the agents. After Ctrl-C, waits for the rows in flight; a second Ctrl-C cancels them."""
        progress = Progress("agent", self._total)

        def stop() -> None:
            self._creations.stop()
            progress.end()
            print_message_in_handler(
                "Stopping: nothing more is sent. Waiting for the last answers (press Ctrl-C again to stop at once; those rows "
                "then have an unknown outcome)"
            )

        try:
            with options.signals.call_on_first_signal(stop):
                self._record_creations(progress)
        finally:
            for creation in self._cancel():
                self._record(creation)
            progress.end()

    def record_interrupted(self) -> None:
        """Records the outcome unknown for rows whose result was lost."""
        for row in self._awaited_rows.values():
            # A KeyboardInterrupt was raised between the arrival of the result and its recording.
            self._rows.record_result(RowResult(row.number, row.key, "unknown", message=_INTERRUPTED_MESSAGE))

    def _iterate_agents(self) -> Iterator[Any]:
        for index, (row, agent) in enumerate(self._rows.sendable()):
            keyed_agent = _KeyedAgent(agent)
            keyed_agent.key = row.key
            self._awaited_rows[index] = row
            yield keyed_agent

    def _cancel(self) -> Sequence[Creation[Agent]]:
        """Cancels the rows in flight and returns their results. If a further Ctrl-C interrupts the cancellation,
        cancels again."""
        while True:
            with suppress(KeyboardInterrupt):
                return self._creations.cancel()

    def _record_creations(self, progress: Progress) -> None:
        for creation in self._creations:
            self._record(creation)
            progress.advance(failed=creation.error is not None)
            if self.stopped_by is None:
                self.stopped_by = self._reason_to_stop(creation)
                # After a rejected service key, `create_many` itself stops, and its error has the index of the first
                # unsent row.
                if not isinstance(self.stopped_by, AuthenticationError | PermissionDeniedError | None):
                    self._creations.stop()

    def _reason_to_stop(self, creation: Creation[Agent]) -> DealkitError | None:
        """Returns the error of a result, if the following rows are likely to fail in the same way."""
        error = creation.error
        if creation.ledger_error is not None:
            return creation.ledger_error
        if isinstance(error, AuthenticationError | PermissionDeniedError | LedgerError):
            return error
        if creation.from_ledger:
            return None
        self._consecutive_failures = self._consecutive_failures + 1 if isinstance(error, SERVICE_ERRORS) else 0
        return error if self._consecutive_failures >= _MAX_CONSECUTIVE_FAILURES else None

    def _record(self, creation: Creation[Agent]) -> None:
        error = creation.error
        if (row := self._awaited_rows.get(creation.index)) is None:
            return
        # If the job stopped before it reached the row, the outcome of an earlier run remains valid.
        if not (isinstance(error, StoppedError) and creation.outcome == "not_sent"):
            result = RowResult(
                row.number,
                row.key,
                _outcome_name(creation),
                creation.agent_id or "",
                str(getattr(error, "status_code", None) or ""),
                _result_message(creation),
                creation.from_ledger,
            )
            self._rows.record_result(result)
        self._awaited_rows.pop(creation.index, None)
