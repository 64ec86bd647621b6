"""Methods of the models that need Python code.

`classes.py` adds these methods to the native classes. In the stub `_native.pyi`, the classes inherit from ModelMethods.
The native module itself runs no Python code.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING

from dealkit import _native
from dealkit._core.arguments import suggest_name
from dealkit._core.builtin_types import to_builtin_types
from dealkit._core.errors import sealed, unwrap

if TYPE_CHECKING:
    from collections.abc import Container, Iterator
    from typing import Any, ClassVar, Literal, Self

    from dealkit._models.unreadable import UnreadableField


# The accepted types of an argument and their description, by the field's kind.
_ARGUMENT_TYPES: dict[str, tuple[Any, str]] = {
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


def _to_json_value(label: str, kind: str, value: Any) -> Any:
    """Converts an argument to a JSON value made of built-in types."""
    value_type = type(value)
    type_name = value_type.__name__
    if kind.startswith("["):
        if isinstance(value, str | bytes | Mapping) or not hasattr(value, "__iter__"):
            raise TypeError(f"{label} must be an iterable of {kind[1:-1]}, not {type_name}")
        return [_to_json_value(f"{label}[{index}]", kind[1:-1], item) for index, item in enumerate(value)]
    if kind[0].isupper():
        model = getattr(_native, kind)
        if isinstance(value, model):
            return _native.raw_json(value._to_json())
        if isinstance(value, Mapping):
            return _build_document(model, value)
        raise TypeError(f"{label} must be of type {kind}, not {type_name}")
    accepted_types, expected_text = _ARGUMENT_TYPES[kind]
    # bool is a subclass of int, and datetime is a subclass of date. But a bool is not an integer field's value, and a
    # datetime is not a date field's value.
    has_other_meaning = (
        issubclass(value_type, bool) and kind != "boolean" or issubclass(value_type, datetime) and kind == "date"
    )
    if has_other_meaning or not issubclass(value_type, accepted_types):
        raise TypeError(f"{label} must be {expected_text}, not {type_name}")
    if kind == "date":
        return value.isoformat()
    if kind == "timestamp":
        if value.utcoffset() is None:
            raise ValueError(f"{label} must be an aware datetime; give it a tzinfo such as timezone.utc")
        try:
            return value.astimezone(UTC).isoformat()
        except OverflowError:
            raise ValueError(f"{label} must be in the years 1 to 9999 in UTC") from None
    return _to_raw_json(label, value) if accepted_types is Mapping else to_builtin_types(value)


def _encode_json(label: str, value: Any) -> str:
    text = _native.json_text(label, to_builtin_types(value))
    if isinstance(text, str):
        return text
    # The native error names the location of the value. The location may be personal, so this message omits it.
    raise ValueError(f"{label} holds something that JSON cannot, such as a set, a NaN or an unpaired surrogate")


def _to_raw_json(label: str, value: Any) -> Any:
    return unwrap(_native.raw_json(_encode_json(label, value)))


def _build_document(model: Any, attributes: Mapping[str, Any], unchanged_names: Container[str] = ()) -> dict[str, Any]:
    """Builds a model's JSON document from its attributes. A nested model may be given as a mapping. `unchanged_names` are
    the fields that the caller takes from another model.
    """
    label, fields = model.__name__, {name: (wire_name, kind) for name, wire_name, kind, *_ in model.__dealkit_fields__}
    extra = attributes.get("extra") or {}
    if not isinstance(extra, Mapping):
        raise TypeError(f"{label}.extra must be a mapping, not {type(extra).__name__}")
    extra_fields = {
        to_builtin_types(wire_name): _to_raw_json(f"{label}.extra", value) for wire_name, value in extra.items()
    }
    document: dict[str, Any] = dict(extra_fields)
    for name, value in attributes.items():
        if name == "extra" or value is None:
            continue
        if name not in fields:
            raise TypeError(f"{label} has no attribute {name!r}{suggest_name(name, (*fields, 'extra'))}")
        wire_name, kind = fields[name]
        if wire_name not in extra_fields:
            document[wire_name] = _to_json_value(f"{label}.{name}", kind, value)
        elif value not in ((), [], {}):
            raise ValueError(f"{label}.extra must not hold {wire_name}, which is given as {name}")
    missing_names = [
        name
        for name, wire_name, _, presence, *_ in model.__dealkit_fields__
        if presence == "required" and wire_name not in document and wire_name not in unchanged_names
    ]
    if missing_names:
        plural = "s" if len(missing_names) > 1 else ""
        raise TypeError(f"{label} lacks its required attribute{plural} {', '.join(missing_names)}")
    return document


def build_model(
    model: Any,
    attributes: Mapping[str, Any],
    unchanged_json: Mapping[str, Any] | None = None,
    on_unreadable: str = "raise",
) -> Any:
    """Builds a model: writes its attributes and the unchanged JSON of another model to a document, and reads the
    document as if it were a response.
    """
    unchanged_json = unchanged_json or {}
    document = {**unchanged_json, **_build_document(model, attributes, unchanged_json)}
    return unwrap(model._read(_encode_json(model.__name__, document), on_unreadable))


def _replace_attributes(model: Any, changes: dict[str, Any]) -> Any:
    extra_names = model.extra.keys()
    changed_names = {wire_name for name, wire_name, *_ in model.__dealkit_fields__ if name in changes}
    if "extra" in changes:
        changed_names |= extra_names
    wire_names = {wire_name for _, wire_name, *_ in model.__dealkit_fields__} | extra_names
    unchanged_json = {
        wire_name: json
        for wire_name in wire_names - changed_names
        if (json := unwrap(model._get(wire_name, True))) is not None
    }
    return build_model(type(model), changes, unchanged_json, "skip" if model.unreadable else "raise")


class ModelMethods:
    """The methods of every model that are written in Python."""

    # Implemented in the native class.
    __dealkit_fields__: ClassVar[tuple[tuple[str, str, str, str, str, str], ...]]
    _read: ClassVar[Any]
    _unreadable: Any
    _to_json: Any
    _get: Any
    # Getters of the attributes that `==` compares, and of the hashable attributes among them. They are attrgetters,
    # which are C code: the frame of a Python function would show the values in a traceback.
    _comparison_values: ClassVar[Any]
    _hashable_values: ClassVar[Any]

    @classmethod
    def from_json(
        cls, document: str | bytes | bytearray, /, *, on_unreadable: Literal["raise", "skip"] = "raise"
    ) -> Self:
        """Reads a model from a JSON document, bytes or str.

        Args:
            on_unreadable: The handling of an optional field that cannot be read: ``"raise"`` raises DecodeError,
                ``"skip"`` reads the field as None, or as empty, and lists it in ``unreadable``.

        Raises:
            DecodeError: A value cannot be read. The exception has the value's path and the document.
        """
        outcome = cls._read(document, on_unreadable)
        del document
        return unwrap(outcome)  # type: ignore[no-any-return]

    @property
    def unreadable(self) -> tuple[UnreadableField, ...]:
        """The optional fields of the model, and of its nested models, that could not be read. Empty unless
        ``on_unreadable="skip"`` was given.

        The attribute of an unreadable field is None, or empty. The field's JSON is in ``extra``, ``get`` and
        ``to_json``, like the JSON of an undocumented field.
        """
        unreadable_fields = unwrap(self._unreadable())
        if not unreadable_fields:
            return ()
        from dealkit._models.unreadable import UnreadableField

        return tuple(UnreadableField(*field) for field in unreadable_fields)

    def to_json(self, *, indent: int | None = None) -> str:
        """Returns the model as JSON, with the names that the service uses and every digit of every number.

        The JSON holds every value, every undocumented field, and the original JSON of unreadable fields. It does not
        show whether the service sent null, an empty list or nothing at all.

        Args:
            indent: The number of spaces per level; None writes one line.
        """
        json = self._to_json()
        if indent is None:
            return json  # type: ignore[no-any-return]
        if not isinstance(indent, int) or isinstance(indent, bool) or indent < 0:
            raise TypeError("indent must be a number of spaces, or None")
        from dealkit._models.indent import indent_json

        return indent_json(json, indent)

    def get(self, name: str, /) -> Any:
        """Returns the JSON value of a field, documented or not, by the name that the service uses. Returns None if the
        field is missing or null.

        A documented list or mapping that the service omitted is empty. The value is what ``json.loads`` would return,
        with exact numbers: a date is a str, and a nested model is a dict. Code that reads an undocumented field with
        this method still works when a later version documents the field.
        """
        return self._get(name)

    def to_dict(self: Any) -> dict[str, Any]:
        """Returns the attributes as a dict that the model's class accepts as keywords. Nested models become dicts,
        tuples become lists, and undocumented fields are under ``extra``.
        """
        attributes = {name: _to_plain_value(kind, getattr(self, name)) for name, _, kind, *_ in self.__dealkit_fields__}
        if self.extra:
            attributes["extra"] = dict(self.extra)
        return attributes

    if not TYPE_CHECKING:
        # The stub of each model has these methods, with the model's attributes as keywords.
        @sealed
        def replace(self, /, **changes: Any) -> Self:
            """Returns a copy with new values for the given attributes. From Python 3.13 on, ``copy.replace`` also
            works."""
            return _replace_attributes(self, changes)

        __replace__ = replace

    def __eq__(self, other: object, /) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return self is other or bool(self._comparison_values(self) == self._comparison_values(other))

    def __hash__(self) -> int:
        return hash(self._hashable_values(self))

    def __copy__(self) -> Self:
        return self  # models are immutable

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    def __repr__(self) -> str:
        from dealkit._models.model_repr import format_model

        return format_model(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Prints the model in IPython, with each attribute on a line of its own. Shows the values that ``repr`` shows."""
        from dealkit._models.model_repr import print_tree

        print_tree(self, printer)

    def _repr_html_(self) -> str:
        """Returns the model as HTML for a notebook: a tree whose nested models can be expanded. Shows the values that
        ``repr`` shows."""
        from dealkit._models.model_repr import format_html

        return format_html(self)

    def __rich_repr__(self) -> Iterator[tuple[str, Any]]:
        """Yields the attributes for ``rich.pretty``. Shows the values that ``repr`` shows."""
        from dealkit._models.model_repr import list_shown_attributes

        return list_shown_attributes(self)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any, /) -> Any:
        from dealkit._models.pydantic import model_schema

        return model_schema(cls, handler)

    if not TYPE_CHECKING:
        # Hidden from type checkers: they would allow assignments to a class with `__setattr__`.
        @sealed
        def __setattr__(self, name: str, value: Any) -> None:
            raise _frozen_error(self, name, "set")

        def __delattr__(self, name: str) -> None:
            raise _frozen_error(self, name, "deleted")

        def __reduce__(self) -> tuple[Any, ...]:
            # Pickles the JSON, which holds all values.
            read_model = type(self).from_json
            return (partial(read_model, on_unreadable="skip") if self.unreadable else read_model, (self.to_json(),))


def _frozen_error(model: Any, name: str, action: str) -> AttributeError:
    """Returns the error for an attempt to change a model."""
    label = type(model).__name__
    if name not in (field for field, *_ in model.__dealkit_fields__):
        return AttributeError(f"{label} is frozen, and has no field {name!r}", name=name)
    return AttributeError(f"{label} is frozen: {name} cannot be {action}; use replace({name}=…)", name=name)


def _to_plain_value(kind: str, value: Any) -> Any:
    """Returns the value of a field, with nested models and read-only mappings converted to dicts."""
    if value is None:
        return None
    if kind.startswith("["):
        return [item.to_dict() for item in value]
    if kind in ("object", "strings"):
        return dict(value)
    return value.to_dict() if kind[0].isupper() else value
