"""Completes the native model classes with methods in Python. The native module itself runs no Python code."""

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
from dealkit._models.fields import describe_model, format_type
from dealkit._models.methods import ModelMethods, build_model
from dealkit._native import RawJson, RawResponse, _Model
from dealkit.enums import Role

if TYPE_CHECKING:
    from typing import Any

MODELS: tuple[type[Any], ...] = tuple(_Model.__subclasses__())


@sealed
def _construct(cls: Any, **attributes: Any) -> Any:
    return build_model(cls, attributes)


_CONSTRUCT: Any = staticmethod(_construct)


class _SignatureGetter:
    """Makes the signature of a model's constructor when ``help`` or an editor asks for it."""

    def __get__(self, model: object, model_class: Any) -> Any:
        # Imported here, because it takes long to import.
        from inspect import Parameter, Signature

        parameters = [
            Parameter(
                name,
                Parameter.KEYWORD_ONLY,
                default=Parameter.empty if presence == "required" else None,
                annotation=format_type(kind, presence),
            )
            for name, _, kind, presence, *_ in model_class.__dealkit_fields__
        ]
        parameters.append(
            Parameter("extra", Parameter.KEYWORD_ONLY, default=None, annotation="Mapping[str, Any] | None")
        )
        return Signature(parameters)


def _object_property(wire_name: str, doc: str) -> property:
    """Makes the property for a free-form JSON object. Each access returns a fresh copy."""

    def get_object(self: Any) -> Any:
        value = unwrap(self._get(wire_name))
        # A value of another type is unreadable, and `extra` holds it.
        return MappingProxyType(value) if isinstance(value, dict) else None

    return property(get_object, doc=doc)


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
        description = f"status_code={self.status_code}, request_id={self.request_id!r}, attempts={self.attempts}"
        return f"RawResponse({description}, body=<{len(self.body)} bytes>)"


class _RawJsonMethods:
    """The methods of RawJson."""

    def __new__(cls: Any, text: str, /) -> Any:
        raw_json = _native.raw_json(text)
        del text
        return unwrap(raw_json)

    def __reduce__(self: Any) -> tuple[Any, ...]:
        return (RawJson, (self.text,))


def _add_methods(native_class: Any, methods: type) -> None:
    for name, method in vars(methods).items():
        if name not in ("__module__", "__dict__", "__weakref__", "__doc__", "__annotations__"):
            setattr(native_class, name, method)


def _complete_native_classes() -> None:
    # The native module imports nothing itself, so it gets the Python objects that it needs here. A number in a document
    # has at most 29 digits, fewer than the precision of this context. The trap for Inexact reports any rounding.
    context = Context(prec=38, Emin=-99, Emax=99, clamp=0, traps=[Inexact])
    _native.prepare(Decimal, context, {role.value: role for role in Role}, gc)
    _add_methods(_Model, ModelMethods)
    base_class: Any = _Model
    base_class.__signature__ = _SignatureGetter()
    for model in MODELS:
        model.__new__ = _CONSTRUCT
        fields = model.__dealkit_fields__
        for name, wire_name, kind, _, _, doc in fields:
            if kind == "object":
                setattr(model, name, _object_property(wire_name, doc))
        model.__doc__ = describe_model(model)
        model._comparison_values = attrgetter(*(name for name, *_ in fields), "extra")
        model._hashable_values = attrgetter(
            *(name for name, _, kind, *_ in fields if kind not in ("object", "strings"))
        )
    _add_methods(RawResponse, _RawResponseMethods)
    response_class: Any = RawResponse
    response_class.__class_getitem__ = classmethod(GenericAlias)
    _add_methods(RawJson, _RawJsonMethods)
    # atexit runs functions in reverse order of registration. This function is registered early, and so runs late.
    atexit.register(_shut_down_native)


def _shut_down_native() -> None:
    # A subinterpreter that still exists when the process exits calls this function while Python is finalizing. A thread
    # that then releases the GIL never gets the GIL back, so shutting down would hang.
    if not sys.is_finalizing():
        _native.shut_down()


_complete_native_classes()
