"""Failures of the native half, which are values, turned into exceptions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dealkit._native import Failure

if TYPE_CHECKING:
    from typing import TypeVar

    from dealkit._native import Call

    T = TypeVar("T")

_BUILT_IN = {"type": TypeError, "value": ValueError, "runtime": RuntimeError}


def unwrap(outcome: T | Failure, call: Call | None = None) -> T:
    """Returns the value, or raises the failure, of this call, as an exception."""
    if isinstance(outcome, Failure):
        raise exception(outcome, None if call is None else call.id)
    return outcome


def exception(failure: Failure, id: str | None = None, index: int | None = None) -> Exception:
    """The exception for a failure; ``id`` is the identifier that was requested, and ``index`` its position."""
    kind, text, attributes = failure.parts()
    if kind in _BUILT_IN:
        return _BUILT_IN[kind](text)
    from dealkit.exceptions import _make

    error = _make(kind, text, **attributes)
    error.id = id
    if index is not None:
        error.index = index
    return error
