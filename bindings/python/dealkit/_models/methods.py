"""What the models can do beside holding values, stated once: `classes.py` adds it to the native classes, and their stub inherits
it. Native code runs no Python code.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING

from dealkit import _native
from dealkit._core.builtin_types import to_builtin_types
from dealkit._core.errors import sealed, unwrap

if TYPE_CHECKING:
    from typing import Any, ClassVar, Literal, Self

    from dealkit._models.unreadable import UnreadableField


# What an argument of each kind must be.
_TAKEN: dict[str, tuple[Any, str]] = {
    "text": (str, "a str"),
    "role": (str, "a Role or a str"),
    "boolean": (bool, "a bool"),
    "integer": (int, "an int"),
    "decimal": ((Decimal, int), "a Decimal or an int"),
    "date": (date, "a date"),
    "timestamp": (datetime, "a datetime"),
    "object": (Mapping, "a mapping"),
    "strings": (Mapping, "a mapping"),
}


def _json(label: str, kind: str, value: Any) -> Any:
    """The JSON of an argument, in Python's built-in types."""
    of = type(value)
    found = of.__name__
    if kind.startswith("["):
        if isinstance(value, str | bytes | Mapping) or not hasattr(value, "__iter__"):
            raise TypeError(f"{label} must be an iterable of {kind[1:-1]}, not {found}")
        return [_json(f"{label}[{at}]", kind[1:-1], item) for at, item in enumerate(value)]
    if kind[0].isupper():
        of_class = getattr(_native, kind)
        if isinstance(value, of_class):
            return _native.raw_json(value._to_json())
        if isinstance(value, Mapping):
            return _document(of_class, value)
        raise TypeError(f"{label} must be of type {kind}, not {found}")
    taken, expected = _TAKEN[kind]
    # A subclass that means something else.
    is_other = issubclass(of, bool) and kind != "boolean" or issubclass(of, datetime) and kind == "date"
    if is_other or not issubclass(of, taken):
        raise TypeError(f"{label} must be {expected}, not {found}")
    if kind == "date":
        return value.isoformat()
    if kind == "timestamp":
        if value.utcoffset() is None:
            raise ValueError(f"{label} must be an aware datetime; give it a tzinfo such as timezone.utc")
        try:
            return value.astimezone(UTC).isoformat()
        except OverflowError:
            raise ValueError(f"{label} must be in the years 1 to 9999 in UTC") from None
    return _raw(label, value) if taken is Mapping else to_builtin_types(value)


def _text(label: str, value: Any) -> str:
    text = _native.json_text(label, to_builtin_types(value))
    if isinstance(text, str):
        return text
    # The failure names what may be personal.
    raise ValueError(f"{label} holds something that JSON cannot, such as a set, a NaN or an unpaired surrogate")


def _raw(label: str, value: Any) -> Any:
    return unwrap(_native.raw_json(_text(label, value)))


def _document(model: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON document of a model with these attributes, in which nested models may be mappings, too."""
    label, fields = model.__name__, {name: (wire, kind) for name, wire, kind, *_ in model.__dealkit_fields__}
    extra = given.get("extra") or {}
    if not isinstance(extra, Mapping):
        raise TypeError(f"{label}.extra must be a mapping, not {type(extra).__name__}")
    found = {to_builtin_types(wire): _raw(f"{label}.extra", value) for wire, value in extra.items()}
    document: dict[str, Any] = dict(found)
    for name, value in given.items():
        if name == "extra" or value is None:
            continue
        if name not in fields:
            raise TypeError(f"{label} has no attribute {name}")
        wire, kind = fields[name]
        if wire not in found:
            document[wire] = _json(f"{label}.{name}", kind, value)
        elif value not in ((), [], {}):
            raise ValueError(f"{label}.extra must not hold {wire}, which is given as {name}")
    return document


def made(
    model: Any, given: Mapping[str, Any], kept: Mapping[str, Any] | None = None, on_unreadable: str = "raise"
) -> Any:
    """A model with these attributes, and what is kept of another one's JSON. It is read as a response is."""
    return unwrap(model._read(_text(model.__name__, {**(kept or {}), **_document(model, given)}), on_unreadable))


def _replaced(model: Any, changes: dict[str, Any]) -> Any:
    extra = model.extra.keys()
    changed = {wire for name, wire, *_ in model.__dealkit_fields__ if name in changes}
    if "extra" in changes:
        changed |= extra
    wires = {wire for _, wire, *_ in model.__dealkit_fields__} | extra
    kept = {wire: json for wire in wires - changed if (json := unwrap(model._get(wire, True))) is not None}
    return made(type(model), changes, kept, "skip" if model.unreadable else "raise")


class ModelMethods:
    """The methods of every model that are Python code."""

    # What is native.
    __dealkit_fields__: ClassVar[tuple[tuple[str, str, str, str, str, str], ...]]
    _read: ClassVar[Any]
    _unreadable: Any
    _to_json: Any
    _get: Any
    # The attributes that count for equality, and those of them that are hashable. They are read by C code: a frame of a
    # traceback would show them.
    _compared: ClassVar[Any]
    _hashed: ClassVar[Any]

    @classmethod
    def from_json(
        cls, document: str | bytes | bytearray, /, *, on_unreadable: Literal["raise", "skip"] = "raise"
    ) -> Self:
        """Reads a model from a JSON document, bytes or str.

        Raises DecodeError, which names the path of the value that could not be read and keeps the document.

        Args:
            on_unreadable: What becomes of an optional field that cannot be read: ``"raise"`` raises DecodeError, ``"skip"``
                reads it as None, or as empty, and lists it in ``unreadable``.
        """
        outcome = cls._read(document, on_unreadable)
        del document
        return unwrap(outcome)  # type: ignore[no-any-return]

    @property
    def unreadable(self) -> tuple[UnreadableField, ...]:
        """The optional fields that could not be read, here and at any depth: there are some only where
        ``on_unreadable="skip"`` was asked for.

        Such a field is None, or empty, and its JSON is kept as that of an undocumented field is: ``extra``, ``get`` and
        ``to_json`` have it.
        """
        found = unwrap(self._unreadable())
        if not found:
            return ()
        from dealkit._models.unreadable import UnreadableField

        return tuple(UnreadableField(*field) for field in found)

    def to_json(self, *, indent: int | None = None) -> str:
        """The JSON, with the names that the service uses and every digit of every number.

        It holds every value, every undocumented field, and what was in place of those that could not be read, but not whether
        the service sent null, an empty list or nothing at all.

        Args:
            indent: How many spaces each level is indented by; None writes one line.
        """
        json = self._to_json()
        if indent is None:
            return json  # type: ignore[no-any-return]
        if not isinstance(indent, int) or isinstance(indent, bool) or indent < 0:
            raise TypeError("indent must be a number of spaces, or None")
        from dealkit._models.indent import indented

        return indented(json, indent)

    def get(self, name: str, /) -> Any:
        """A field as JSON by its name on the wire, documented or not; None if there is none, or null.

        A documented list or mapping that was absent is empty. A program that reads an undocumented field in this way survives
        the day on which it is documented. The value is what ``json.loads`` would give, with exact numbers: a date is a str,
        and a nested model is a dict.
        """
        return self._get(name)

    def to_dict(self: Any) -> dict[str, Any]:
        """The attributes as a dict: nested models as dicts, tuples as lists, and undocumented fields, if there are
        any, under ``extra``: the model's class takes them all as keywords.
        """
        attributes = {name: _plain_value(kind, getattr(self, name)) for name, _, kind, *_ in self.__dealkit_fields__}
        if self.extra:
            attributes["extra"] = dict(self.extra)
        return attributes

    def replace(self, /, **changes: Any) -> Self:
        """A copy with other values for these attributes; since Python 3.13, ``copy.replace`` does the same."""
        return _replaced(self, changes)  # type: ignore[no-any-return]

    if not TYPE_CHECKING:
        replace = sealed(replace)

    __replace__ = replace

    def __eq__(self, other: object, /) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return self is other or bool(self._compared(self) == self._compared(other))

    def __hash__(self) -> int:
        return hash(self._hashed(self))

    def __copy__(self) -> Self:
        return self  # It cannot change.

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    def __repr__(self) -> str:
        from dealkit._models.show import line

        return line(self)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any, /) -> Any:
        from dealkit._models.pydantic import model_schema

        return model_schema(cls, handler)

    if not TYPE_CHECKING:
        # Type checkers would allow what is refused here.
        @sealed
        def __setattr__(self, name: str, value: Any) -> None:
            raise _frozen(self, name, "set")

        def __delattr__(self, name: str) -> None:
            raise _frozen(self, name, "deleted")

        def __reduce__(self) -> tuple[Any, ...]:
            # By way of the JSON, which holds everything.
            read = type(self).from_json
            return (partial(read, on_unreadable="skip") if self.unreadable else read, (self.to_json(),))


def _frozen(model: Any, name: str, done: str) -> AttributeError:
    """The exception for an attempt to change a model."""
    label = type(model).__name__
    if name not in (field for field, *_ in model.__dealkit_fields__):
        return AttributeError(f"{label} is frozen, and has no field {name!r}", name=name)
    return AttributeError(f"{label} is frozen: {name} cannot be {done}; use replace({name}=…)", name=name)


def _plain_value(kind: str, value: Any) -> Any:
    """The value of a field as plain containers hold it."""
    if value is None:
        return None
    if kind.startswith("["):
        return [item.to_dict() for item in value]
    if kind in ("object", "strings"):
        return dict(value)
    return value.to_dict() if kind[0].isupper() else value
