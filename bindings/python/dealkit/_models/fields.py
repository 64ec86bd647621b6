"""The fields of a model as data, for exports."""

from __future__ import annotations

from typing import Any, NamedTuple

from dealkit._models.classes import MODELS
from dealkit._models.types import NAMES, read_type

__all__ = ["Field", "fields"]


class Field(NamedTuple):
    """A field of a model; ``fields`` lists them."""

    name: str
    """The attribute."""
    wire_name: str
    """The name that the service uses and ``to_json`` writes."""
    type: Any
    """The type of the attribute, such as ``str``, ``Decimal | None`` or ``tuple[Offer, ...]``."""
    required: bool
    """Whether it is always present; a missing field is read as None, or as empty."""
    personal: bool
    """Whether its value is personal or of unknown content, so that ``repr`` hides it."""
    doc: str
    """A description."""


def fields(model: Any, /) -> tuple[Field, ...]:
    """The documented fields of a model, or of its class, in the specification's order.

    >>> columns = [field.name for field in dealkit.fields(dealkit.Deal)]
    """
    stated = getattr(model, "__dealkit_fields__", None)
    if stated is None:
        raise TypeError(f"fields() takes a model such as Deal, not {type(model).__name__}")
    names = {**NAMES, **{of.__name__: of for of in MODELS}, "Any": Any}
    return tuple(
        Field(name, wire, eval(read_type(kind, need), names), need == "required", show == "hidden", doc)
        for name, wire, kind, need, show, doc in stated
    )
