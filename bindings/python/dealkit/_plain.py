"""Arguments as objects of Python's own types, which is what the native half takes."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

# What follows is for type checkers: importing typing takes longer than all of dealkit.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LEAVES = frozenset({str, int, float, bool, type(None), Decimal})

# Not unions, which would be made anew each time that they are asked.
_LISTS = (list, tuple)
_CONTAINERS = (dict, *_LISTS, Mapping)

# The native half looks no deeper: what is nested deeper is refused whatever it is.
_DEEPEST = 128


def plain(value: Any) -> Any:
    """A value with its mappings as dicts and its scalars of subclasses as what they are a subclass of.

    What has no place in JSON stays as it is, and is refused by the native half, which says where it is.
    What contains itself still does.
    """
    return value if type(value) in _LEAVES else _plain(value, {}, 0)


def _plain(value: Any, seen: dict[int, Any], depth: int) -> Any:
    if type(value) in _LEAVES:
        return value
    if isinstance(value, _CONTAINERS):
        # A container may stand in many places: once is enough, and ends what would not.
        if depth > _DEEPEST or id(value) in seen:
            return seen.get(id(value), (value,))[0]
        return _container(value, seen, depth + 1)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__pos__(value)
    if isinstance(value, float):
        return float.__pos__(value)
    if isinstance(value, Decimal):
        return Decimal(value)
    return value


def _container(value: Any, seen: dict[int, Any], depth: int) -> Any:
    made: Any
    # The value is kept with what is made of it, so that its id stays its own.
    if isinstance(value, _LISTS):
        made = []
        seen[id(value)] = (made, value)
        made.extend(_plain(item, seen, depth) for item in value)
    else:
        made = {}
        seen[id(value)] = (made, value)
        for name, item in dict(value).items():
            made[_plain(name, seen, depth)] = _plain(item, seen, depth)
    return made
