"""The type of unreadable fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

# The stubs of the native module import this module.
if TYPE_CHECKING:
    from dealkit._native import RawJson

__all__ = ["UnreadableField"]


class UnreadableField(NamedTuple):
    """An optional field that could not be read. A model's ``unreadable`` lists these fields."""

    pointer: str
    """The location in the model, as a JSON pointer (RFC 6901) that contains only names of documented fields and
    indexes."""
    expected: str
    """A description of the expected value, such as ``a date YYYY-MM-DD``."""
    json: RawJson
    """The actual value. ``json.text`` is its exact JSON text, which the ``repr`` of this object hides."""
