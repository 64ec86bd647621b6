"""Raises failures of native code as exceptions, explains unexpected keywords, and keeps secrets out of tracebacks.

Error trackers, `cgitb` and `rich` show the local variables of every frame of a traceback. In dealkit's frames, these
include the service key and an agent's data. Public functions that take such arguments are therefore decorated with
`sealed`: when a sealed function raises, the variables of dealkit's frames are cleared.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, get_args

from dealkit._core.arguments import describe_unexpected_keyword
from dealkit._native import Failure

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any, TypeVar

    F = TypeVar("F", bound=Callable[..., Any])
    T = TypeVar("T")

# Flags of a code object, from the module inspect, which takes long to import.
CO_VARARGS, CO_VARKEYWORDS = 0x04, 0x08

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
    """Decorates a function: when it raises, the variables of dealkit's frames in the traceback are cleared. If a keyword
    is unexpected, the error names the method, the keyword and the most similar keyword.
    """

    @wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        try:
            return function(*arguments, **options)
        except BaseException as error:
            if type(error) is TypeError:
                _explain_keywords(error, function, arguments[:1], [*options])
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
        owner, keywords = arguments[:1], [*options]
        try:
            try:
                coroutine = function(*arguments, **options)
            finally:
                del arguments, options
            return await coroutine
        except BaseException as error:
            if type(error) is TypeError:
                _explain_keywords(error, function.__wrapped__, owner, keywords)  # type: ignore[attr-defined]
            clear_own_frames(error)
            raise

    return call


def clear_own_frames(error: BaseException) -> None:
    """Clears the variables of dealkit's frames in the tracebacks of an exception and its context. Keeps the line numbers.
    But the traceback of a failed call, or of a failed check of the sandbox, loses dealkit's frames: the message says all
    that they would.
    """
    current_error: BaseException | None = error
    while current_error is not None:
        clear_frames(current_error, only_own=True)
        current_error = current_error.__context__
    # Imports nothing, because an import fails while the interpreter shuts down.
    is_expected = type(error).__module__ == "dealkit.exceptions" or type(error) in (AssertionError, TimeoutError)
    if is_expected and _has_only_own_frames(error):
        # A bare `raise` then adds the frames of the caller only.
        error.__traceback__ = None


def _has_only_own_frames(error: BaseException) -> bool:
    traceback = error.__traceback__
    while traceback is not None:
        if not _is_own_frame(traceback.tb_frame):
            return False
        traceback = traceback.tb_next
    return True


def _is_own_frame(frame: FrameType) -> bool:
    return bool(frame.f_globals.get("__name__", "").partition(".")[0] == "dealkit")


def _explain_keywords(
    error: TypeError, function: Callable[..., Any], owner: tuple[Any, ...], given_keywords: list[str]
) -> None:
    """Rewrites the message of a TypeError if the call has an unexpected keyword, or lacks an argument. ``owner`` has the
    object or the class of a method.
    """
    if not _has_only_own_frames(error):
        return  # The error of the caller's code.
    label = _format_label(function, owner)
    keywords = _list_keywords(function)
    unexpected_names = [] if keywords is None else [name for name in given_keywords if name not in keywords]
    if unexpected_names:
        error.args = (describe_unexpected_keyword(label, unexpected_names[0], keywords or ()),)
        error.__traceback__ = None
    elif error.__traceback__ is not None and error.__traceback__.tb_next is None:
        # Python itself has raised the error, with a private name of the function.
        message = str(error).replace(function.__qualname__, label)
        if function.__code__.co_argcount <= 1 and message.endswith("given"):
            message = f"{label}() takes only keyword arguments; pass the fields of a mapping as {label}(**mapping)"
        error.args = (message,)
        error.__traceback__ = None


def _format_label(function: Callable[..., Any], owner: tuple[Any, ...]) -> str:
    """Returns the name of a function as its callers know it: ``agents.create``, ``Client``, ``Client.shared``. ``owner`` has
    the object or the class of a method.
    """
    if "." not in function.__qualname__ or not owner:
        return function.__qualname__
    owner_class = owner[0] if isinstance(owner[0], type) else type(owner[0])
    owner_name = getattr(owner_class, "_resource_name", owner_class.__name__)
    return owner_name if function.__name__ == "__init__" else f"{owner_name}.{function.__name__}"


def _list_keywords(function: Callable[..., Any]) -> list[str] | None:
    """Returns the keywords that a function takes, including the fields of the TypedDict of its ``**options``. Returns None
    if it takes any keyword.
    """
    code = function.__code__
    count = code.co_argcount + code.co_kwonlyargcount
    keywords = [name for name in code.co_varnames[:count] if name not in ("self", "cls")]
    if code.co_flags & CO_VARKEYWORDS:
        options_name = code.co_varnames[count + bool(code.co_flags & CO_VARARGS)]
        annotation = function.__annotations__.get(options_name, "")
        typed_dicts = get_args(eval(annotation, function.__globals__)) if annotation.startswith("Unpack[") else ()
        if not typed_dicts:
            return None
        keywords += typed_dicts[0].__annotations__
    return keywords


def clear_frames(error: BaseException, *, only_own: bool = False) -> None:
    """Clears the variables of all frames in an exception's traceback, or of dealkit's frames only."""
    traceback = error.__traceback__
    while traceback is not None:
        frame = traceback.tb_frame
        if not only_own or _is_own_frame(frame):
            try:
                frame.clear()
            except RuntimeError:
                pass  # The frame of the decorator is still running. The decorator itself deletes its variables.
        traceback = traceback.tb_next
