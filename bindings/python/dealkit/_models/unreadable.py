"""The type of unreadable fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

# The stubs of the native module import this module.
if TYPE_CHECKING:
    from dealkit._native import RawJson

__all__ = ["UnreadableField"]


class UnreadableField(NamedTuple):
    """An optional field that could not be read; the ``unreadable`` of a model lists them."""

    pointer: str
    """The location in the model, as a JSON pointer (RFC 6901) that contains only names of documented fields and indexes."""
    expected: str
    """A description of the expected value, such as ``a date YYYY-MM-DD``."""
    json: RawJson
    """The actual value; ``json.text`` is the exact text, which ``repr`` does not show."""
