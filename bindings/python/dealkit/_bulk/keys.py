"""The keys of rows, by which a ledger recognises them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dealkit._core.private import clear_frames
from dealkit.exceptions import ConfigError, DealkitError
from dealkit.params import CreateAgentParams

if TYPE_CHECKING:
    from collections.abc import Callable

FIELDS = frozenset(CreateAgentParams.__annotations__) - {"extra"}
"""The fields of a row."""


class KeyOf:
    """A function that returns the key of a row, for keys that are not in a field, with a name for them: a job whose keys
    have another name is refused, as it is with ``key="email"``.

    >>> client.agents.create_many(rows, ledger="agents.ledger", key=KeyOf("Number", lambda row: numbers[row["email"]]))
    """

    __slots__ = ("_function", "name")

    def __init__(self, name: str, function: Callable[[Any], str]) -> None:
        self.name: Final = name
        """The name of the keys in the ledger."""
        self._function = function

    def __call__(self, row: Any) -> str:
        return self._function(row)


def named(key: str | Callable[[Any], object] | None) -> tuple[Callable[[Any], object] | None, str | None]:
    """The function that returns the key of a row, and the name of the keys, if they have one."""
    if isinstance(key, KeyOf):
        return key, key.name
    if not isinstance(key, str):
        if key is not None and not callable(key):
            raise TypeError(f"key must be the name of a field, or a function of a row, not {type(key).__name__}")
        return key, None
    field, *path = key.split(".")
    if field not in FIELDS or any("\ud800" <= character <= "\udfff" for character in key):
        raise ValueError(f"key does not name a field of a row: {key!r}")

    def value(row: Any) -> object:
        found = row[field]
        for name in path:
            found = found[name]
        return found

    return value, str.__str__(key)


def key_of(key: Callable[[Any], object], name: str | None, row: Any) -> str | DealkitError:
    """The key of a row, or why there is none."""
    try:
        found: Any = key(row)
        if isinstance(found, str):
            found = str.__str__(found)
            found.encode()
            return found  # type: ignore[no-any-return]
        what = (
            "key must return a str for each row" if name is None else f"{name} is the key of the row and must be a str"
        )
        return ConfigError(f"not sent: {what}, not {type(found).__name__}")
    except Exception as error:
        # Its text and its frames may be personal.
        clear_frames(error)
        what = "the key of the row cannot be determined" if name is None else f"the row has no {name} to use as its key"
        refusal = ConfigError(f"not sent: {what}: {type(error).__name__}")
        refusal.__cause__ = error
        return refusal
