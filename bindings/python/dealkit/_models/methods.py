"""What the models can do beside holding values, stated once: `classes.py` adds it to the native classes, and their stub inherits
it. Native code runs no Python code.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING

from dealkit import _native
from dealkit._core.arguments import skips
from dealkit._core.failure import unwrap
from dealkit._core.plain import plain
from dealkit._core.private import sealed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, ClassVar, Literal, Self

    from dealkit._models.unreadable import UnreadableField


def _argument(label: str, kind: str, value: Any) -> Any:
    """An argument as the built-in type that the native half takes; anything else is refused there."""
    if value is None:
        return None
    if kind.startswith("[") and hasattr(value, "__iter__"):
        return tuple(value)
    if kind in ("object", "strings", "extra"):
        return plain(value)
    if kind == "decimal" and isinstance(value, Decimal):
        return Decimal(value)
    if kind == "timestamp" and isinstance(value, datetime):
        return _in_utc(label, value)
    if kind == "date" and isinstance(value, date) and not isinstance(value, datetime):
        return date(value.year, value.month, value.day)
    return value


def _in_utc(label: str, value: datetime) -> datetime:
    if value.utcoffset() is None:
        return value.replace(tzinfo=None)  # The native half refuses it.
    try:
        moment = value.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{label} must be in the years 1 to 9999 in UTC") from None
    return datetime(*moment.timetuple()[:6], moment.microsecond, UTC)


def arguments(model: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a model as the native half takes them."""
    kinds = {name: kind for name, _, kind, _, _, _ in model.__dealkit_fields__}
    kinds["extra"] = "extra"
    label = model.__name__
    return {name: _argument(f"{label}.{name}", kinds.get(name, ""), value) for name, value in given.items()}


class ModelMethods:
    """The methods of every model that are Python code."""

    # What is native.
    __dealkit_fields__: ClassVar[tuple[tuple[str, str, str, str, str, str], ...]]
    _read: ClassVar[Any]
    _read_list: ClassVar[Any]
    _build: ClassVar[Any]
    _replace: Any
    _unreadable: Any
    _to_json: Any
    _get: Any

    @classmethod
    def from_json(
        cls, document: str | bytes | bytearray, /, *, on_unreadable: Literal["raise", "none"] = "raise"
    ) -> Self:
        """Reads a model from a JSON document, bytes or str.

        Raises DecodeError, which names the path of the value that could not be read and keeps the document.

        Args:
            on_unreadable: What becomes of an optional field that cannot be read: ``"raise"`` raises DecodeError, ``"none"``
                reads it as None, or as empty, and lists it in ``unreadable``.
        """
        outcome = cls._read(document, skips(on_unreadable))
        del document
        return unwrap(outcome)  # type: ignore[no-any-return]

    @classmethod
    def list_from_json(
        cls, document: str | bytes | bytearray, /, *, on_unreadable: Literal["raise", "none"] = "raise"
    ) -> list[Self]:
        """Reads a list of models from a JSON document that is an array.

        Raises DecodeError, as ``from_json`` does; the path begins with the index, as in ``[2].expiry_date``.

        Args:
            on_unreadable: As in ``from_json``.
        """
        outcome = cls._read_list(document, skips(on_unreadable))
        del document
        return list(unwrap(outcome))

    @property
    def unreadable(self) -> tuple[UnreadableField, ...]:
        """The optional fields that could not be read, here and at any depth: there are some only where
        ``on_unreadable="none"`` was asked for.

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

    @classmethod
    @sealed
    def from_dict(cls, attributes: Mapping[str, Any], /, *, on_unreadable: Literal["raise", "none"] = "raise") -> Self:
        """Makes a model from what ``to_dict`` returns: attributes by name, nested models as dicts or as models.

        Args:
            on_unreadable: What becomes of a documented field in ``extra`` that cannot be read, as in ``from_json``.
        """
        if not hasattr(attributes, "keys"):
            raise TypeError(f"{cls.__name__}.from_dict takes a mapping, not {type(attributes).__name__}")
        return _from_dict(dict(attributes), cls, skips(on_unreadable))  # type: ignore[no-any-return]

    def to_dict(self: Any) -> dict[str, Any]:
        """The attributes as a dict: nested models as dicts, tuples as lists, and undocumented fields, if there are
        any, under ``extra``. ``from_dict`` turns it back into a model.
        """
        attributes = {name: _plain_value(kind, getattr(self, name)) for name, _, kind, *_ in self.__dealkit_fields__}
        if self.extra:
            attributes["extra"] = dict(self.extra)
        return attributes

    def replace(self, /, **changes: Any) -> Self:
        """A copy with other values for these attributes; since Python 3.13, ``copy.replace`` does the same."""
        return unwrap(self._replace(arguments(type(self), changes)))  # type: ignore[no-any-return]

    if not TYPE_CHECKING:
        replace = sealed(replace)

    __replace__ = replace

    def __repr__(self) -> str:
        from dealkit._models.show import line

        return line(self)

    def _repr_pretty_(self, printer: Any, cycle: bool, /) -> None:
        from dealkit._models.show import tree

        printer.text(tree(self))

    def _repr_html_(self) -> str:
        from dealkit._models.show import html

        return html(self)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any, /) -> Any:
        from dealkit._models.pydantic import model_schema

        return model_schema(cls, handler)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any, /) -> Any:
        from dealkit._models.pydantic import describe_model

        return describe_model(cls, handler(schema), handler)

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
            return (partial(read, on_unreadable="none") if self.unreadable else read, (self.to_json(),))


def _frozen(model: Any, name: str, done: str) -> AttributeError:
    """The exception for an attempt to change a model."""
    label = type(model).__name__
    if name not in model.__match_args__:
        return AttributeError(f"{label} is frozen, and has no field {name!r}", name=name)
    return AttributeError(f"{label} is frozen: {name} cannot be {done}; use replace({name}=…)", name=name)


def _from_dict(given: dict[str, Any], model: Any, skips: bool) -> Any:
    for name, _, kind, *_ in model.__dealkit_fields__:
        value = given.get(name)
        if kind.startswith("[") and isinstance(value, list | tuple):
            of_class = getattr(_native, kind[1:-1])
            given[name] = [_from_dict({**item}, of_class, skips) if isinstance(item, dict) else item for item in value]
        elif kind[0].isupper() and isinstance(value, dict):
            given[name] = _from_dict({**value}, getattr(_native, kind), skips)
    extra = given.pop("extra", None) if skips else None
    made = model(**given)
    return made if extra is None else unwrap(made._replace(arguments(model, {"extra": extra}), True))


def _plain_value(kind: str, value: Any) -> Any:
    """The value of a field as plain containers hold it."""
    if value is None:
        return None
    if kind.startswith("["):
        return [item.to_dict() for item in value]
    if kind in ("object", "strings"):
        return dict(value)
    return value.to_dict() if kind[0].isupper() else value
