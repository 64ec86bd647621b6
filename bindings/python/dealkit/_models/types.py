"""The Python types of the fields of models, as source text: for signatures, `dealkit.fields` and the stubs."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING

from dealkit.enums import Role

if TYPE_CHECKING:
    from typing import Any

# The type that a field of each kind is read as, and the type of its argument where that differs.
_READ = {
    "text": "str",
    "role": "Role | str",
    "boolean": "bool",
    "integer": "int",
    "decimal": "Decimal",
    "date": "datetime.date",
    "timestamp": "datetime.datetime",
    "object": "Mapping[str, Any]",
    "strings": "Mapping[str, str]",
}
_GIVEN = _READ | {"role": "str", "decimal": "Decimal | int", "object": "Mapping[str, object]"}

NAMES: dict[str, Any] = {
    "datetime": datetime,
    "Decimal": Decimal,
    "Iterable": Iterable,
    "Mapping": Mapping,
    "Role": Role,
}
"""What the names in these types refer to, except for Any and the models."""


def read_type(kind: str, need: str) -> str:
    """The type of an attribute."""
    if kind.startswith("["):
        return f"tuple[{kind[1:-1]}, ...]"
    of = _READ.get(kind, kind)
    return of if need == "required" or kind == "strings" else f"{of} | None"


def given_type(kind: str, need: str) -> str:
    """The type of an argument."""
    of = f"Iterable[{kind[1:-1]}]" if kind.startswith("[") else _GIVEN.get(kind, kind)
    return of if need == "required" else f"{of} | None"
