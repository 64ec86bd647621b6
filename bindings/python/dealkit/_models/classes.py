"""The models: the native classes, completed with the methods that run Python code, since native code runs none."""

from __future__ import annotations

import atexit
import gc
import sys
from decimal import Context, Decimal, Inexact
from operator import attrgetter
from types import GenericAlias, MappingProxyType
from typing import TYPE_CHECKING

from dealkit import _native
from dealkit._core.errors import sealed, unwrap
from dealkit._models.methods import ModelMethods, made
from dealkit._native import RawJson, RawResponse, _Model
from dealkit.enums import Role

if TYPE_CHECKING:
    from typing import Any

MODELS: tuple[type[Any], ...] = tuple(_Model.__subclasses__())


@sealed
def _made(cls: Any, **given: Any) -> Any:
    return made(cls, given)


_NEW: Any = staticmethod(_made)


def _object(wire: str, doc: str) -> property:
    """The attribute for a free-form JSON object: a fresh copy each time."""

    def attribute(self: Any) -> Any:
        found = unwrap(self._get(wire))
        # Anything else could not be read, and is in `extra`.
        return MappingProxyType(found) if isinstance(found, dict) else None

    return property(attribute, doc=doc)


class _RawResponseMethods:
    """The methods of RawResponse."""

    @property
    def headers(self: Any) -> Any:
        """The headers; names are case-insensitive."""
        from dealkit._core.headers import Headers

        return Headers(self._headers())

    def parse(self: Any) -> Any:
        """Returns the body as the model that the call returns. Raises DecodeError if the body is invalid."""
        return unwrap(self._parse())

    def json(self: Any) -> Any:
        """Returns the body as plain Python objects: int, Decimal, str, bool, None, list and dict.

        Values nested deeper than 127 levels are RawJson objects.
        """
        return unwrap(self._json())

    def __repr__(self: Any) -> str:
        shown = f"status_code={self.status_code}, request_id={self.request_id!r}, attempts={self.attempts}"
        return f"RawResponse({shown}, body=<{len(self.body)} bytes>)"


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
        model.__new__ = _NEW
        fields = model.__dealkit_fields__
        for name, wire, kind, _, _, doc in fields:
            if kind == "object":
                setattr(model, name, _object(wire, doc))
        model._compared = attrgetter(*(name for name, *_ in fields), "extra")
        model._hashed = attrgetter(*(name for name, _, kind, *_ in fields if kind not in ("object", "strings")))
    _add_methods(RawResponse, _RawResponseMethods)
    response: Any = RawResponse
    response.__class_getitem__ = classmethod(GenericAlias)
    _add_methods(RawJson, _RawJsonMethods)
    # Registered as early as possible, so that it runs as late as possible.
    atexit.register(_end)


def _end() -> None:
    # At the end of the process, CPython runs this in a subinterpreter that the program has not destroyed. There, a thread that
    # gives up the GIL never gets it back, and the background threads cannot take the GIL.
    if not sys.is_finalizing():
        _native.shut_down()


_complete_all()
