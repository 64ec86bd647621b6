"""Failures of the native half, which are values, as exceptions."""

from __future__ import annotations

from dealkit._native import Failure

# What follows is for type checkers: importing typing takes longer than all of dealkit.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    T = TypeVar("T")

_BUILT_IN = {"type": TypeError, "value": ValueError, "runtime": RuntimeError}


def unwrap(outcome: T | Failure, id: str | None = None) -> T:
    """The value, or the failure as an exception that is raised; ``id`` is what was asked for."""
    if isinstance(outcome, Failure):
        raise exception(outcome, id)
    return outcome


def exception(failure: Failure, id: str | None = None) -> Exception:
    """The exception of a failure; ``id`` is what was asked for."""
    kind, text, attributes = failure.parts()
    if kind in _BUILT_IN:
        return _BUILT_IN[kind](text)
    from dealkit.exceptions import _make

    error = _make(kind, text, **attributes)
    error.id = id
    return error
