"""The fields of a model as data, for exports."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from dealkit import _native
from dealkit.enums import Role

__all__ = ["Field", "fields"]

# The annotation of a field, by its kind.
_TYPES = {
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

# The names that the annotations in `_TYPES` use.
_TYPE_NAMESPACE = {
    **vars(_native),
    **{"Any": Any, "Decimal": Decimal, "Mapping": Mapping, "Role": Role, "datetime": datetime},
}


def format_type(kind: str, presence: str) -> str:
    """Returns a field's annotation as source code."""
    if kind.startswith("["):
        return f"tuple[{kind[1:-1]}, ...]"
    annotation = _TYPES.get(kind, kind)
    return annotation if presence == "required" or kind == "strings" else f"{annotation} | None"


_FIELDS_HEADING = "\n\nAttributes:\n"


def describe_model(model: Any) -> str:
    """Returns the docstring of a model with the types and descriptions of its fields, for ``help()``."""
    lines = [
        f"    {name} ({format_type(kind, presence)}): {' '.join(doc.split())}"
        for name, _, kind, presence, _, doc in model.__dealkit_fields__
    ]
    return f"{model.__doc__}{_FIELDS_HEADING}" + "\n".join(lines)


def read_summary(model: Any) -> str:
    """Returns the docstring of a model without the descriptions of its fields."""
    return str(model.__doc__).partition(_FIELDS_HEADING)[0]


class Field(NamedTuple):
    """A field of a model; ``fields`` lists them."""

    name: str
    """The name of the attribute."""
    wire_name: str
    """The name that the service uses and ``to_json`` writes."""
    type: Any
    """The type of the attribute, such as ``str``, ``Decimal | None`` or ``tuple[Offer, ...]``."""
    required: bool
    """True if the field is always present. A missing optional field is read as None, or as empty."""
    personal: bool
    """True if the value is personal or of unknown content, so that ``repr`` hides it."""
    doc: str
    """A description."""


def fields(model: Any, /) -> tuple[Field, ...]:
    """Returns the documented fields of a model or a model class, in the specification's order.

    >>> columns = [field.name for field in dealkit.fields(dealkit.Deal)]
    """
    field_rows = getattr(model, "__dealkit_fields__", None)
    if field_rows is None:
        raise TypeError(f"fields() takes a model such as Deal, not {type(model).__name__}")
    return tuple(
        Field(
            name,
            wire_name,
            eval(format_type(kind, presence), _TYPE_NAMESPACE),
            presence == "required",
            visibility == "hidden",
            doc,
        )
        for name, wire_name, kind, presence, visibility, doc in field_rows
    )
