"""Functions that say which keywords they take if they are called with anything else."""

from __future__ import annotations

from functools import wraps

# For type checkers only: importing typing takes longer than importing all of dealkit.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    F = TypeVar("F", bound=Callable[..., Any])

# How many keywords a text names.
_SHOWN = 4

# The same values as in inspect, which takes long to import.
_CO_VARARGS = 0x04
_CO_COROUTINE = 0x80


def keywords(function: F) -> F:
    """A method that names its keywords if it gets too many positional arguments, and that refuses unknown keywords;
    its options count as known.
    """
    code = function.__code__
    most = 1_000_000 if code.co_flags & _CO_VARARGS else code.co_argcount
    positional = code.co_varnames[1 : code.co_argcount]
    named_only = [*code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount], *_options(function)]
    known = frozenset((*positional, *named_only))

    def refusal(owner: Any, count: int, names: set[str]) -> TypeError:
        what, shown = _label(function, owner), ", ".join(f"{name}=" for name in named_only[:_SHOWN])
        shown += ", …" if len(named_only) > _SHOWN else ""
        if count > most:
            after = f" after {', '.join(positional)}" if positional else ""
            return TypeError(f"{what} takes keywords{after}: {shown}")
        name = min(names - known)
        close = close_match(name, known)
        hint = f"did you mean {close!r}?" if close else f"it takes {shown}"
        return TypeError(f"{what}() got an unexpected keyword argument {name!r}; {hint}")

    # No frame may hold secrets or personal data when an exception leaves dealkit.
    @wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        try:
            if len(given) > most or not known.issuperset(named):
                raise refusal(given[0], len(given), {*named})
            return function(*given, **named)
        finally:
            del given, named

    return awaited(call) if code.co_flags & _CO_COROUTINE else call  # type: ignore[return-value]


def awaited(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same method, which returns a coroutine, as a coroutine function: nothing happens before it is awaited."""

    @wraps(function)
    async def call(*given: Any, **named: Any) -> Any:
        try:
            return await function(*given, **named)
        finally:
            # No frame may hold secrets or personal data when an exception leaves dealkit.
            del given, named

    return call


def close_match(name: str, known: frozenset[str]) -> str | None:
    """The name that may have been meant, if there is one."""
    from difflib import get_close_matches

    # The service's own name of the field is a likely mistake.
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
    close = get_close_matches(snake, known, 1)
    return close[0] if close else None


def _options(function: Any) -> list[str]:
    """The names of a function's options: those of the TypedDict that it unpacks."""
    annotations = [str(annotation) for annotation in function.__annotations__.values()]
    unpacked = [text.removeprefix("Unpack[").removesuffix("]") for text in annotations if text.startswith("Unpack[")]
    return [option for name in unpacked for option in function.__globals__[name].__annotations__]


def _label(function: Any, owner: Any) -> str:
    """The class, if it is what is being called, or the class and the method."""
    name = (owner if isinstance(owner, type) else type(owner)).__name__
    return name if function.__name__ in ("__init__", "__new__") else f"{name}.{function.__name__}"
