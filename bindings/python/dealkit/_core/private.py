"""Keeps secrets and personal data out of the frames that an exception leaves behind.

Error trackers, `cgitb` and `rich` show the local variables of every frame of a traceback, and the service key and an
agent's data are arguments of dealkit's own functions. So a public function that takes them is sealed: when it fails, the
variables of dealkit's frames are cleared.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    F = TypeVar("F", bound=Callable[..., Any])


def sealed(function: F) -> F:
    """A function that leaves no variables of dealkit's behind when it fails, whatever its arguments are."""

    @wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        try:
            return function(*given, **named)
        except BaseException as error:
            clear(error)
            raise
        finally:
            del given, named

    return call  # type: ignore[return-value]


def awaited(function: Callable[..., Any]) -> Callable[..., Any]:
    """A sealed method that returns a coroutine, as a coroutine function: nothing happens before it is awaited."""

    @wraps(function)
    async def call(*given: Any, **named: Any) -> Any:
        try:
            try:
                coroutine = function(*given, **named)
            finally:
                del given, named
            return await coroutine
        except BaseException as error:
            clear(error)
            raise

    return call


def clear(error: BaseException) -> None:
    """Clears the variables of dealkit's frames that the exception, and those before it, have left; the line numbers stay."""
    chained: BaseException | None = error
    while chained is not None:
        clear_frames(chained, "dealkit")
        chained = chained.__context__


def clear_frames(error: BaseException, package: str | None = None) -> None:
    """Clears the variables of the frames that the exception has left so far: all of them, or those of a package."""
    traceback = error.__traceback__
    while traceback is not None:
        frame = traceback.tb_frame
        if package in (None, frame.f_globals.get("__name__", "").partition(".")[0]):
            try:
                frame.clear()
            except RuntimeError:
                pass  # It is still running: it is the function above, which has nothing left that matters.
        traceback = traceback.tb_next
