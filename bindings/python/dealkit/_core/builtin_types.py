"""Converts arguments to Python's built-in types, which native code requires."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

_SCALAR_TYPES = frozenset({str, int, float, bool, type(None), Decimal})

# Tuples for isinstance: an expression such as `list | tuple` would make a new union each time.
_LIST_TYPES = (list, tuple)
_CONTAINER_TYPES = (dict, *_LIST_TYPES, Mapping)

# The maximum nesting of values. Native code rejects values that are nested deeper.
_MAX_DEPTH = 128


def to_builtin_types(value: Any) -> Any:
    """Converts mappings to dicts, and instances of scalar subclasses to their built-in base class.

    Values that JSON cannot represent stay unchanged: native code rejects them and reports their location. If a
    container contains itself, its copy contains itself too.
    """
    return value if type(value) in _SCALAR_TYPES else _convert(value, {}, 0)


def _convert(value: Any, copies_by_id: dict[int, Any], depth: int) -> Any:
    if type(value) in _SCALAR_TYPES:
        return value
    if isinstance(value, _CONTAINER_TYPES):
        # A container that occurs several times is converted only once. This also ends the recursion at a container that
        # contains itself.
        if depth > _MAX_DEPTH or id(value) in copies_by_id:
            return copies_by_id.get(id(value), (value,))[0]
        return _convert_container(value, copies_by_id, depth + 1)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__pos__(value)
    if isinstance(value, float):
        return float.__pos__(value)
    if isinstance(value, Decimal):
        return Decimal(value)
    return value


def _convert_container(value: Any, copies_by_id: dict[int, Any], depth: int) -> Any:
    copy: Any
    # The original is stored with its copy: as long as the original exists, Python gives its id to no other object.
    if isinstance(value, _LIST_TYPES):
        copy = []
        copies_by_id[id(value)] = (copy, value)
        copy.extend(_convert(item, copies_by_id, depth) for item in value)
    else:
        copy = {}
        copies_by_id[id(value)] = (copy, value)
        for name, item in dict(value).items():
            copy[_convert(name, copies_by_id, depth)] = _convert(item, copies_by_id, depth)
    return copy
