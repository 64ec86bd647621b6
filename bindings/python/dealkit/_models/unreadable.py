"""A field that could not be read."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

# The stubs of the native module need this one.
if TYPE_CHECKING:
    from dealkit._native import RawJson

__all__ = ["UnreadableField"]


class UnreadableField(NamedTuple):
    """An optional field that could not be read; the ``unreadable`` of a model lists them."""

    pointer: str
    """Where it is in the model, as a JSON pointer (RFC 6901). It holds names of documented fields and indexes only."""
    expected: str
    """What was expected there, in words, such as ``a date YYYY-MM-DD``."""
    json: RawJson
    """What was there instead; ``json.text`` is the exact text, which ``repr`` does not show."""
