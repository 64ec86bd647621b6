"""How a client is set up: its arguments, and what of them a call can have in its place."""

from __future__ import annotations

# What follows is for type checkers: importing typing takes longer than all of dealkit.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Final


class Timeout:
    """How long things may take, in seconds. What is not given keeps its default.

    ``connect`` bounds making a connection (5), ``attempt`` one attempt, connecting included (30), and
    ``total`` the whole call, all attempts included (60).
    """

    __slots__ = ("attempt", "connect", "total")

    def __init__(
        self,
        *,
        connect: float | None = None,
        attempt: float | None = None,
        total: float | None = None,
    ) -> None:
        self.connect: Final = connect
        self.attempt: Final = attempt
        self.total: Final = total

    def _key(self) -> tuple[float | None, float | None, float | None]:
        return (self.connect, self.attempt, self.total)

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Timeout) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"Timeout(connect={self.connect}, attempt={self.attempt}, total={self.total})"


class Omitted:
    """The type of ``OMITTED``."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "OMITTED"

    def __reduce__(self) -> str:
        return "OMITTED"


OMITTED: Final = Omitted()
"""The default of an argument that is not sent: omitted is not the same as None, which is sent as null."""


# What can differ between clients that share their connections.
_OF_CALLS = frozenset({"timeout", "max_retries"})


def settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a client as the native half takes them."""
    settings = {name: value for name, value in given.items() if value is not None}
    timeout = settings.pop("timeout", None)
    if isinstance(timeout, Timeout):
        settings.update(connect=timeout.connect, attempt=timeout.attempt, timeout=timeout.total)
    elif timeout is not None:
        settings["timeout"] = timeout
    for name in ("connect", "attempt", "timeout"):
        if name in settings:
            settings[name] = _seconds(settings[name])
    if "headers" in settings:
        settings["headers"] = pairs("headers", settings["headers"])
    return settings


def _seconds(value: Any) -> Any:
    """A number of any class as a float; what is not a number is refused by the native half."""
    is_other_number = not isinstance(value, bool | int | float | str) and hasattr(type(value), "__float__")
    return float(value) if is_other_number else value


def pairs(what: str, value: Any) -> list[tuple[Any, Any]]:
    """The items of a mapping, or the pairs that an iterable holds."""
    if value is None:
        return []
    if hasattr(value, "items"):
        return list(value.items())
    found: list[Any] = list(value) if hasattr(value, "__iter__") else [None]
    if not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in found):
        raise TypeError(f"{what} must be a mapping or an iterable of pairs, not {type(value).__name__}")
    return [(name, value) for name, value in found]


def shares_connections(changes: Mapping[str, Any]) -> bool:
    """Whether a client with these changes can use the connections of the one that it is made of."""
    # None asks for the default, and a Timeout for other connections: the ones there have neither.
    return _OF_CALLS.issuperset(changes) and all(isinstance(value, int | float) for value in changes.values())
