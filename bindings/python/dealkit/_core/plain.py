"""Arguments converted to Python's built-in types, which the native half takes."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

_LEAVES = frozenset({str, int, float, bool, type(None), Decimal})

# Tuples rather than unions, which would be built anew each time.
_LISTS = (list, tuple)
_CONTAINERS = (dict, *_LISTS, Mapping)

# The native half looks no deeper: whatever is nested deeper is refused.
_DEEPEST = 128


def plain(value: Any) -> Any:
    """A value with its mappings as dicts, and scalars of subclasses as the type that they are a subclass of.

    Values that JSON cannot hold stay as they are; the native half refuses them and says where they are. A container
    that contains itself still does.
    """
    return value if type(value) in _LEAVES else _plain(value, {}, 0)


def _plain(value: Any, seen: dict[int, Any], depth: int) -> Any:
    if type(value) in _LEAVES:
        return value
    if isinstance(value, _CONTAINERS):
        # A container may occur in many places: converting it once is enough, and ends what would recurse for ever.
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
    # The value is kept with its conversion, so that its id is not reused.
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
