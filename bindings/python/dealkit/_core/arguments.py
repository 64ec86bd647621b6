"""Checks of common arguments."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike, fsdecode


def check_int(name: str, value: object, least: int, most: int | None = None, *, or_none: bool = False) -> None:
    """Checks that a value is an int within bounds."""
    if value is None and or_none:
        return
    # A bool is an int in Python, but no option accepts one as a number.
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int{' or None' if or_none else ''}, not {type(value).__name__}")
    if most is not None and not least <= value <= most:
        raise ValueError(f"{name} must be from {least} to {most}, not {value}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, not {value}")


def check_bools(**arguments: object) -> None:
    """Checks that all arguments are bools."""
    for name, value in arguments.items():
        if not isinstance(value, bool):
            raise TypeError(f"{name} must be a bool, not {type(value).__name__}")


def check_on_error(on_error: object) -> None:
    """Checks that ``on_error`` is ``"raise"`` or ``"return"``."""
    if on_error not in ("raise", "return"):
        raise ValueError('on_error must be "raise" or "return"')


def file_path(name: str, value: object, alternative: str = "") -> str:
    """Converts a path to a str. ``alternative`` names other types that the argument accepts, for the error message."""
    if not isinstance(value, str | bytes | PathLike):
        raise TypeError(f"{name} must be the path of a file{alternative}, not {type(value).__name__}")
    return fsdecode(value)


def describe_unexpected_keyword(label: str, name: str, keywords: Iterable[str]) -> str:
    """Returns the message of the TypeError for an unexpected keyword of a function that takes these keywords."""
    return f"{label}() got an unexpected keyword argument {name!r}{suggest_name(name, keywords)}"


def suggest_name(name: str, names: Iterable[str]) -> str:
    """Returns the end of a message about an unknown name: the most similar of the known names, if there is one."""
    # Imported here, because only errors need it.
    from difflib import get_close_matches

    similar_names = get_close_matches(name, names, n=1)
    return f"; did you mean {similar_names[0]!r}?" if similar_names else ""
