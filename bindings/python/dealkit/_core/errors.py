"""Raises failures of native code as exceptions, and keeps secrets out of their tracebacks.

Error trackers, `cgitb` and `rich` show the local variables of every frame of a traceback. In dealkit's frames, these
include the service key and an agent's data. Public functions that take such arguments are therefore decorated with
`sealed`: when a sealed function raises, the variables of dealkit's frames are cleared.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING

from dealkit._native import Failure

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    F = TypeVar("F", bound=Callable[..., Any])
    T = TypeVar("T")

_BUILT_IN_EXCEPTIONS = {"type": TypeError, "value": ValueError, "runtime": RuntimeError}


def unwrap(result: T | Failure, id: str | None = None) -> T:
    """Returns the result of a native function, or raises its failure. ``id`` is the requested identifier."""
    if isinstance(result, Failure):
        raise make_exception(result, id)
    return result


def make_exception(failure: Failure, id: str | None = None, index: int | None = None) -> Exception:
    """Makes the exception for a failure. ``id`` is the requested identifier, ``index`` the position of the item in a
    bulk job."""
    kind, message, attributes = failure.parts()
    if kind in _BUILT_IN_EXCEPTIONS:
        return _BUILT_IN_EXCEPTIONS[kind](message)
    from dealkit.exceptions import _make_exception

    error = _make_exception(kind, message, **attributes)
    error.id = id
    if index is not None:
        error.index = index
    return error


def sealed(function: F) -> F:
    """Decorates a function: when it raises, the variables of dealkit's frames in the traceback are cleared."""

    @wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        try:
            return function(*arguments, **options)
        except BaseException as error:
            clear_own_frames(error)
            raise
        finally:
            del arguments, options

    return call  # type: ignore[return-value]


def sealed_coroutine(function: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a coroutine function from a sealed function that returns a coroutine. The sealed function is called on
    await."""

    @wraps(function)
    async def call(*arguments: Any, **options: Any) -> Any:
        try:
            try:
                coroutine = function(*arguments, **options)
            finally:
                del arguments, options
            return await coroutine
        except BaseException as error:
            clear_own_frames(error)
            raise

    return call


def clear_own_frames(error: BaseException) -> None:
    """Clears the variables of dealkit's frames in the tracebacks of an exception and its context. Keeps the line
    numbers."""
    current_error: BaseException | None = error
    while current_error is not None:
        clear_frames(current_error, "dealkit")
        current_error = current_error.__context__


def clear_frames(error: BaseException, package: str | None = None) -> None:
    """Clears the variables of all frames in an exception's traceback, or of a package's frames only."""
    traceback = error.__traceback__
    while traceback is not None:
        frame = traceback.tb_frame
        if package in (None, frame.f_globals.get("__name__", "").partition(".")[0]):
            try:
                frame.clear()
            except RuntimeError:
                pass  # The frame of the decorator is still running. The decorator itself deletes its variables.
        traceback = traceback.tb_next
