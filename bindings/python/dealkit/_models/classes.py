"""The models: the native classes, completed with the methods that run Python code, since native code runs none."""

from __future__ import annotations

import atexit
import gc
import sys
from decimal import Context, Decimal, Inexact
from types import GenericAlias
from typing import TYPE_CHECKING

from dealkit import _native
from dealkit._core.failure import unwrap
from dealkit._core.private import sealed
from dealkit._models.methods import ModelMethods, arguments
from dealkit._models.types import NAMES, given_type
from dealkit._native import RawJson, RawResponse, _Model
from dealkit.enums import Role

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MODELS: tuple[type[Any], ...] = tuple(_Model.__subclasses__())

_BY_NAME = {model.__name__: model for model in MODELS}


def _constructor(model: Any) -> Callable[..., Any]:
    """A constructor with the model's fields as its arguments: required ones have no default."""

    def build(given: dict[str, Any]) -> Any:
        del given["cls"]
        return unwrap(model._build(arguments(model, given)))

    fields = [
        f"{name}: {given_type(kind, need)}{'' if need == 'required' else ' = None'}"
        for name, _, kind, need, _, _ in model.__dealkit_fields__
    ]
    # As namedtuple does: there is no other way to make a function whose arguments are data.
    source = (
        f"def __new__(cls, *, {', '.join(fields)}, extra: Mapping[str, object] | None = None):\n"
        f"    return build({{**locals()}})\n"
    )
    namespace: dict[str, Any] = {**_BY_NAME, **NAMES, "build": build, "__name__": "dealkit"}
    # Not inherited, so that the annotations are types rather than strings.
    exec(compile(source, "<dealkit>", "exec", dont_inherit=True), namespace)
    constructor: Callable[..., Any] = namespace["__new__"]
    constructor.__qualname__ = f"{model.__name__}.__new__"
    return constructor


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
    _add_methods(_Model, ModelMethods)
    for model in MODELS:
        model.__match_args__ = tuple(name for name, *_ in model.__dealkit_fields__)  # type: ignore[misc]
        model.__new__ = staticmethod(sealed(_constructor(model)))
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
