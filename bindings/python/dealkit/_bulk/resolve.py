"""Asking the program whether the agent of an unresolved row exists."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NamedTuple

from dealkit.params import CreateAgentParams

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class UnresolvedRow(NamedTuple):
    """A row of which nobody knows whether it has an agent, as ``resolve`` of ``create_many`` is asked about it.

    Its repr shows nothing personal.
    """

    key: str
    """The row's key in the ledger."""
    row: CreateAgentParams
    """The row, as this run was given it."""
    sent_at: datetime
    """When it was sent, by the clock of the machine that sent it."""
    status_code: int | None = None
    """The status of the response, if there was one."""
    request_id: str | None = None
    """The service's id for the request, if it gave one."""

    def __repr__(self) -> str:
        return (
            f"UnresolvedRow(sent_at={self.sent_at!r}, status_code={self.status_code!r}, request_id={self.request_id!r})"
        )


Answer = str | Literal[False] | None
Resolve = Callable[[UnresolvedRow], Answer | Awaitable[Answer]]
"""A function that is asked whether the agent of a row exists: its id, False if there is none, None if it cannot tell."""


def unresolved(key: str, row: Any, sent: int, status: int | None, request: str | None) -> UnresolvedRow:
    """The row of a question, as the program is asked about it."""
    return UnresolvedRow(key, row, _EPOCH + timedelta(milliseconds=sent), status, request)


def said(answer: object) -> tuple[str, str | None]:
    """An answer as the native half takes it."""
    if answer is None:
        return "unknown", None
    if answer is False:
        return "no_agent", None
    if isinstance(answer, str):
        answer.encode()
        return "agent", str.__str__(answer)
    close = getattr(answer, "close", None)
    if close is not None and hasattr(answer, "__await__"):
        close()
    raise TypeError(f"resolve must return the id of an agent, False or None, not {type(answer).__name__}")
