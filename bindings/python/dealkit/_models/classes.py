"""The models: the native classes, completed with the methods that run Python code, since native code runs none."""

from __future__ import annotations

import atexit
import gc
import sys
from datetime import UTC, date, datetime
from decimal import Context, Decimal, Inexact
from functools import partial
from types import GenericAlias

from dealkit import _native
from dealkit._core.arguments import skips
from dealkit._core.failure import unwrap
from dealkit._core.keywords import keywords
from dealkit._core.plain import plain
from dealkit._core.private import private
from dealkit._models.types import NAMES, given_type
from dealkit._native import RawJson, RawResponse, _Model
from dealkit.enums import Role

# For type checkers only: importing typing takes longer than importing all of dealkit.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any, Literal

    from dealkit._models.unreadable import UnreadableField

MODELS: tuple[type[Any], ...] = tuple(_Model.__subclasses__())

_BY_NAME = {model.__name__: model for model in MODELS}


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


def _arguments(model: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    kinds = {name: kind for name, _, kind, _, _, _ in model.__dealkit_fields__}
    kinds["extra"] = "extra"
    label = model.__name__
    return {name: _argument(f"{label}.{name}", kinds.get(name, ""), value) for name, value in given.items()}


def _constructor(model: Any) -> Callable[..., Any]:
    """A constructor with the model's fields as its arguments: required ones have no default."""

    @private
    def build(given: dict[str, Any]) -> Any:
        return unwrap(model._build(_arguments(model, given)))

    fields = [
        f"{name}: {given_type(kind, need)}{'' if need == 'required' else ' = None'}"
        for name, _, kind, need, _, _ in model.__dealkit_fields__
    ]
    # As namedtuple does: there is no other way to make a function whose arguments are data.
    names = ", ".join(name for name, *_ in model.__dealkit_fields__)
    source = (
        f"def __new__(cls, *, {', '.join(fields)}, extra: Mapping[str, object] | None = None):\n"
        f"    given = {{**locals()}}\n"
        f"    del given['cls'], extra, {names}\n"
        f"    return build(given)\n"
    )
    namespace: dict[str, Any] = {**_BY_NAME, **NAMES, "build": build, "__name__": "dealkit"}
    # Not inherited, so that the annotations are types rather than strings.
    exec(compile(source, "<dealkit>", "exec", dont_inherit=True), namespace)
    constructor: Callable[..., Any] = namespace["__new__"]
    constructor.__qualname__ = f"{model.__name__}.__new__"
    return constructor


class _ModelMethods:
    """The methods of every model; `self` and `cls` are those of the model."""

    __dealkit_fields__: tuple[tuple[str, str, str, str, str, str], ...]

    @classmethod
    def from_json(
        cls: Any, document: str | bytes | bytearray, /, *, on_unreadable: Literal["raise", "none"] = "raise"
    ) -> Any:
        """Reads a model from a JSON document, bytes or str.

        Raises DecodeError, which names the path of the value that could not be read and keeps the document.

        Args:
            on_unreadable: What becomes of an optional field that cannot be read: ``"raise"`` raises DecodeError, ``"none"``
                reads it as None, or as empty, and lists it in ``unreadable``.
        """
        outcome = cls._read(document, None, skips(on_unreadable))
        del document
        return unwrap(outcome)

    @classmethod
    def list_from_json(
        cls: Any, document: str | bytes | bytearray, /, *, on_unreadable: Literal["raise", "none"] = "raise"
    ) -> list[Any]:
        """Reads a list of models from a JSON document that is an array.

        Raises DecodeError, as ``from_json`` does; the path begins with the index, as in ``[2].expiry_date``.

        Args:
            on_unreadable: As in ``from_json``.
        """
        outcome = cls._read_list(document, skips(on_unreadable))
        del document
        return list(unwrap(outcome))

    @classmethod
    def from_json_lines(
        cls: Any, lines: Iterable[str | bytes], /, *, on_unreadable: Literal["raise", "none"] = "raise"
    ) -> Iterator[Any]:
        """Reads documents, one per line (NDJSON), such as an export, holding one line at a time.

        Blank lines are skipped. A line that cannot be read raises DecodeError, which has its number in ``line`` and
        its text in ``body``; after that, ``next()`` continues with the following line.

        >>> with open("deals.ndjson", "rb") as lines:
        ...     for deal in Deal.from_json_lines(lines):
        ...         print(deal.id)

        Args:
            lines: The lines: an open file, or any other iterable.
            on_unreadable: As in ``from_json``.
        """
        from dealkit._models.json_lines import JsonLines

        return JsonLines(cls, lines, skips(on_unreadable))

    @property
    def unreadable(self: Any) -> tuple[UnreadableField, ...]:
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

    def to_json(self: Any, *, indent: int | None = None) -> str:
        """The JSON, with the names that the service uses and every digit of every number.

        It holds every value, every undocumented field, and what was in place of those that could not be read, but not whether the service sent null, an empty list or
        nothing at all.

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

    def get(self: Any, name: str, /) -> Any:
        """A field as JSON by its name on the wire, documented or not; None if there is none, or null.

        A documented list or mapping that was absent is empty. A program that reads an undocumented field in this way survives
        the day on which it is documented. The value is what ``json.loads`` would give, with exact numbers: a date is a str,
        and a nested model is a dict.
        """
        return self._get(name)

    @classmethod
    def from_dict(
        cls: Any, attributes: Mapping[str, Any], /, *, on_unreadable: Literal["raise", "none"] = "raise"
    ) -> Any:
        """Makes a model from what ``to_dict`` returns: attributes by name, nested models as dicts or as models.

        Args:
            on_unreadable: What becomes of a documented field in ``extra`` that cannot be read, as in ``from_json``.
        """
        if not hasattr(attributes, "keys"):
            raise TypeError(f"{cls.__name__}.from_dict takes a mapping, not {type(attributes).__name__}")
        given = dict(attributes)
        del attributes
        return _from_dict(given, cls, skips(on_unreadable))

    def to_dict(self: Any) -> dict[str, Any]:
        """The attributes as a dict: nested models as dicts, tuples as lists, and undocumented fields, if there are
        any, under ``extra``. ``from_dict`` turns it back into a model.
        """
        attributes = {name: _plain_value(kind, getattr(self, name)) for name, _, kind, *_ in self.__dealkit_fields__}
        if self.extra:
            attributes["extra"] = dict(self.extra)
        return attributes

    def __setattr__(self: Any, name: str, value: Any) -> None:
        del value
        raise _frozen(self, name, "set")

    def __delattr__(self: Any, name: str) -> None:
        raise _frozen(self, name, "deleted")

    def replace(self: Any, /, **changes: Any) -> Any:
        """A copy with other values for these attributes; since Python 3.13, ``copy.replace`` does the same."""
        return _replaced(changes, self)

    __replace__ = replace

    def __reduce__(self: Any) -> tuple[Any, ...]:
        # By way of the JSON, which holds everything.
        read = type(self).from_json
        return (partial(read, on_unreadable="none") if self.unreadable else read, (self.to_json(),))

    def __repr__(self: Any) -> str:
        from dealkit._models.show import line

        return line(self)

    def _repr_pretty_(self: Any, printer: Any, cycle: bool, /) -> None:
        from dealkit._models.show import lines

        printer.text(lines(self, printer.max_width))

    def _repr_html_(self: Any) -> str:
        from dealkit._models.show import table

        return table(self)

    @classmethod
    def __get_pydantic_core_schema__(cls: Any, source: Any, handler: Any, /) -> Any:
        from dealkit._models.pydantic import model_schema

        return model_schema(cls, handler)

    @classmethod
    def __get_pydantic_json_schema__(cls: Any, schema: Any, handler: Any, /) -> Any:
        from dealkit._models.pydantic import describe_model

        return describe_model(cls, handler(schema), handler)


def _frozen(model: Any, name: str, done: str) -> AttributeError:
    """The exception for an attempt to change a model."""
    label = type(model).__name__
    if name not in model.__match_args__:
        return AttributeError(f"{label} is frozen, and has no field {name!r}", name=name)
    return AttributeError(f"{label} is frozen: {name} cannot be {done}; use replace({name}=…)", name=name)


@private
def _replaced(given: dict[str, Any], model: Any) -> Any:
    return unwrap(model._replace(_arguments(type(model), given)))


@private
def _from_dict(given: dict[str, Any], model: Any, skips: bool) -> Any:
    for name, _, kind, *_ in model.__dealkit_fields__:
        value = given.get(name)
        if kind.startswith("[") and isinstance(value, list | tuple):
            of_class: Any = _BY_NAME[kind[1:-1]]
            given[name] = [_from_dict({**item}, of_class, skips) if isinstance(item, dict) else item for item in value]
        elif kind[0].isupper() and isinstance(value, dict):
            given[name] = _from_dict({**value}, _BY_NAME[kind], skips)
    extra = given.pop("extra", None) if skips else None
    made = model(**given)
    return made if extra is None else unwrap(made._replace(_arguments(model, {"extra": extra}), True))


def _plain_value(kind: str, value: Any) -> Any:
    """The value of a field as plain containers hold it."""
    if value is None:
        return None
    if kind.startswith("["):
        return [item.to_dict() for item in value]
    if kind in ("object", "strings"):
        return dict(value)
    return value.to_dict() if kind[0].isupper() else value


def _object(at: int, doc: str) -> property:
    """The attribute for a free-form JSON object: a fresh copy each time."""
    return property(lambda self: unwrap(self._attribute(at)), doc=doc)


class _RawResponseMethods:
    """The methods of RawResponse."""

    @property
    def headers(self: Any) -> Any:
        """The headers; names are case-insensitive."""
        from dealkit._core.headers import Headers

        return Headers(self._headers())

    def parse(self: Any) -> Any:
        """The body as the model that the call returns. Raises DecodeError if it is something else."""
        return unwrap(self._parse())

    def json(self: Any) -> Any:
        """The body as any JSON: ints, Decimals, strings, booleans, None, lists and dicts.

        Values nested deeper than 127 levels are a RawJson.
        """
        return unwrap(self._json())


class _RawJsonMethods:
    """The methods of RawJson."""

    def __new__(cls: Any, text: str, /) -> Any:
        outcome = _native.raw_json(text)
        del text
        return unwrap(outcome)

    def __reduce__(self: Any) -> tuple[Any, ...]:
        return (RawJson, (self.text,))


def _add_methods(native: Any, methods: type) -> None:
    for name, method in vars(methods).items():
        if name not in ("__module__", "__dict__", "__weakref__", "__doc__", "__annotations__"):
            setattr(native, name, method)


def _complete_all() -> None:
    # Native code imports nothing: an import runs Python code.
    # A number in a document has at most 29 digits, so it fits; rounding would raise an exception.
    context = Context(prec=38, Emin=-99, Emax=99, clamp=0, traps=[Inexact])
    _native.prepare(Decimal, context, {role.value: role for role in Role}, gc)
    _add_methods(_Model, _ModelMethods)
    for model in MODELS:
        model.__match_args__ = tuple(name for name, *_ in model.__dealkit_fields__)  # type: ignore[misc]
        model.__new__ = staticmethod(keywords(_constructor(model)))
        for at, (name, _, kind, _, _, doc) in enumerate(model.__dealkit_fields__):
            if kind == "object":
                setattr(model, name, _object(at, doc))
    _add_methods(RawResponse, _RawResponseMethods)
    response: Any = RawResponse
    response.__class_getitem__ = classmethod(GenericAlias)
    _add_methods(RawJson, _RawJsonMethods)
    # Registered as early as possible, so that it runs as late as possible.
    atexit.register(_end)


def _end() -> None:
    # A subinterpreter that nobody has destroyed gets here when the process ends. Whoever gave up the GIL now would never
    # have it back, and the background thread cannot take it any more.
    if not sys.is_finalizing():
        _native.end()


_complete_all()
