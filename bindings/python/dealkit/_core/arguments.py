"""Checks of arguments that several methods take."""

from __future__ import annotations

from os import PathLike, fsdecode


def check_int(name: str, value: object, least: int, most: int | None = None, *, or_none: bool = False) -> None:
    """Refuses anything but an int within these bounds."""
    if value is None and or_none:
        return
    # True is an int, but never meant as one.
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int{' or None' if or_none else ''}, not {type(value).__name__}")
    if most is not None and not least <= value <= most:
        raise ValueError(f"{name} must be from {least} to {most}, not {value}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, not {value}")


def check_bools(**given: object) -> None:
    """Refuses anything but a bool for these arguments."""
    for name, value in given.items():
        if not isinstance(value, bool):
            raise TypeError(f"{name} must be a bool, not {type(value).__name__}")


def check_on_error(on_error: object) -> None:
    """Refuses any other value of ``on_error`` than ``"raise"`` and ``"return"``."""
    if on_error not in ("raise", "return"):
        raise ValueError('on_error must be "raise" or "return"')


def file_path(name: str, value: object, or_else: str = "") -> str:
    """A path as a str."""
    if not isinstance(value, str | bytes | PathLike):
        raise TypeError(f"{name} must be the path of a file{or_else}, not {type(value).__name__}")
    return fsdecode(value)
