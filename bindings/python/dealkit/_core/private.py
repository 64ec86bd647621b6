"""Keeps secrets and personal data out of the frames that an exception leaves behind.

Error trackers, `cgitb` and `rich` show the local variables of every frame of a traceback, and the service key and an
agent's data are arguments of dealkit's own functions. A public method puts them into a dict and deletes its own
variables; a private function empties the dict, whatever happens. Where speed does not matter, a public function is sealed.
"""

from __future__ import annotations

from functools import wraps

# For type checkers only: importing typing takes longer than importing all of dealkit.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    F = TypeVar("F", bound=Callable[..., Any])


def private(function: F) -> F:
    """A function that empties its first argument, and leaves no variables behind when it fails."""

    @wraps(function)
    def call(given: dict[str, Any], /, *rest: Any) -> Any:
        try:
            return function(given, *rest)
        except BaseException as error:
            clear_frames(error)
            raise
        finally:
            given.clear()
            del rest

    return call  # type: ignore[return-value]


def clear_frames(error: BaseException) -> None:
    """Clears the variables of the frames that the exception has left so far; the line numbers stay."""
    traceback = error.__traceback__
    while traceback is not None:
        try:
            traceback.tb_frame.clear()
        except RuntimeError:
            pass  # The frame is still running: it is the function above, which has nothing left that matters.
        traceback = traceback.tb_next


def sealed(function: F) -> F:
    """A function that leaves no variables behind when it fails, whatever its arguments are."""

    @wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        try:
            return function(*given, **named)
        except BaseException as error:
            clear_frames(error)
            raise
        finally:
            del given, named

    return call  # type: ignore[return-value]
