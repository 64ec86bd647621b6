"""The hooks that pydantic calls on the models and on the arguments of requests. Imported when pydantic calls one.

The core decides how a document is read and what a request may hold: the pydantic schemas here only describe that.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from functools import partial, update_wrapper
from math import isfinite
from typing import Any, get_type_hints

from pydantic import GetCoreSchemaHandler, ValidationError
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, core_schema

from dealkit import _native
from dealkit._core.builtin_types import to_builtin_types
from dealkit._models.agent_request import list_violations
from dealkit._models.fields import fields

Location = tuple[str | int, ...]

# The number of digits up to which any decimal number survives conversion to a binary float and back.
_CERTAIN_DIGITS = 15


def model_schema(model: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
    """The schema of a model: an instance or a document as a mapping, written to JSON as the service writes it."""
    described = {}
    for field in fields(model):
        schema = handler.generate_schema(field.type)
        described[field.wire_name] = core_schema.typed_dict_field(
            schema if field.required else core_schema.nullable_schema(schema),
            required=field.required,
            metadata={"pydantic_js_updates": {"description": field.doc}},
        )
    return core_schema.no_info_wrap_validator_function(
        _named(_validated, model),
        core_schema.typed_dict_schema(described, cls=model, extra_behavior="allow"),
        ref=_reference(model),
        serialization=core_schema.plain_serializer_function_ser_schema(_serialized, info_arg=True),
    )


def _named(validate: Callable[..., Any], of_class: Any) -> Callable[..., Any]:
    """The validator of a class, with the class's name, which pydantic shows in its texts."""
    return update_wrapper(partial(validate, of_class), of_class, ("__name__", "__qualname__"), ())


def _reference(of_class: Any) -> str:
    # It begins with the name that the definition has in a JSON schema.
    return f"dealkit.{of_class.__name__}:{id(of_class)}"


def _validated(model: Any, value: Any, _: object) -> Any:
    if isinstance(value, model):
        return value
    if not isinstance(value, Mapping):
        raise _refused(model, [("model_type", f"Input should be a {model.__name__} or an object", ())])
    json_text = _native.json_text(model.__name__, _document(model, value, ()))
    if isinstance(json_text, _native.Failure):
        raise _refused(model, [("dealkit_decode", "Input contains a value that cannot be written as JSON", ())])
    outcome = model._read(json_text, "raise")
    if not isinstance(outcome, _native.Failure):
        return outcome
    _, _, facts = outcome.parts()
    raise _refused(model, [("dealkit_decode", facts["detail"], _location(facts["pointer"]))])


def _refused(of_class: Any, problems: Iterable[tuple[str, str, Location]]) -> ValidationError:
    """The error that says what is wrong, and where. The input, which pydantic shows in its texts, may be personal."""
    details: list[Any] = [
        InitErrorDetails(type=_custom(kind, text), loc=location, input="<hidden>") for kind, text, location in problems
    ]
    return ValidationError.from_exception_data(of_class.__name__, details)


def _custom(kind: Any, text: Any) -> PydanticCustomError:
    # pydantic asks for literals so that they can be translated; there are no translations.
    return PydanticCustomError(kind, text)


def _document(model: Any, given: Mapping[Any, Any], at: Location) -> dict[Any, Any]:
    """The JSON document of a mapping."""
    kinds = {wire: kind for _, wire, kind, *_ in model.__dealkit_fields__}
    return {
        wire: _json_value(model, kinds.get(wire, "object"), value, (*at, wire if wire in kinds else "*"))
        for wire, value in given.items()
    }


def _json_value(model: Any, kind: str, value: Any, at: Location) -> Any:
    if kind.startswith("[") and isinstance(value, list | tuple):
        return [_json_value(model, kind[1:-1], item, (*at, index)) for index, item in enumerate(value)]
    if kind[0].isupper():
        of_class = getattr(_native, kind)
        if isinstance(value, of_class):
            return _native.RawJson(value.to_json())
        return _document(of_class, value, at) if isinstance(value, Mapping) else to_builtin_types(value)
    if kind == "decimal" and isinstance(value, str):
        return _number(value)
    value = to_builtin_types(value)
    if _has_lost_digits(value):
        text = "A number has lost digits as a float: send a string, or read the JSON with from_json"
        raise _refused(model, [("dealkit_inexact", text, at)])
    return value


def _number(text: str) -> Any:
    """The number in a text; any other text is returned as it is, and the reader refuses it."""
    try:
        return _native.RawJson(text) if text[:1] in tuple("-0123456789") else text
    except ValueError:
        return text


def _has_lost_digits(value: Any) -> bool:
    """Whether a value holds a float from which the original number cannot be recovered."""
    seen = set()
    rest = [value]
    while rest:
        value = rest.pop()
        if isinstance(value, float) and not _is_certain(value):
            return True
        if isinstance(value, dict | list) and id(value) not in seen:
            seen.add(id(value))
            rest.extend(value.values() if isinstance(value, dict) else value)
    return False


def _is_certain(number: float) -> bool:
    digits = Decimal(repr(number)).normalize().as_tuple().digits
    return isfinite(number) and len(digits) <= _CERTAIN_DIGITS


def _serialized(model: Any, info: core_schema.SerializationInfo[Any]) -> Any:
    if not info.mode_is_json():
        return model
    try:
        return _json_form(model, json.loads(model.to_json(), parse_float=str))
    except RecursionError:
        reason = "an undocumented field is nested too deep for pydantic: send the text of to_json()"
    except ValueError as error:
        reason = str(error)
    # Raised here, so that no frame that the error leaves holds the document in a variable.
    raise ValueError(reason)


def _json_form(model: Any, document: dict[str, Any]) -> dict[str, Any]:
    """The document with its decimal numbers as strings, which no reader rounds."""
    kinds = {wire: kind for _, wire, kind, *_ in model.__dealkit_fields__}
    return {wire: _written(kinds.get(wire, "object"), value) for wire, value in document.items()}


def _written(kind: str, value: Any) -> Any:
    # A field that could not be read may hold anything.
    if kind == "decimal" and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if kind.startswith("[") and isinstance(value, list):
        return [_written(kind[1:-1], item) for item in value]
    return _json_form(getattr(_native, kind), value) if kind[0].isupper() and isinstance(value, dict) else value


def params_schema(typed_dict: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
    """The schema of the arguments of a request, or of its profile; the core checks both."""
    fields = {
        name: core_schema.typed_dict_field(handler.generate_schema(hint), required=name in typed_dict.__required_keys__)
        for name, hint in get_type_hints(typed_dict).items()
    }
    return core_schema.no_info_wrap_validator_function(
        _named(_checked if "profile" in fields else _checked_profile, typed_dict),
        core_schema.typed_dict_schema(fields, cls=typed_dict, extra_behavior="forbid"),
        ref=_reference(typed_dict),
    )


def _checked(typed_dict: Any, value: Any, _: object) -> dict[str, Any]:
    """The arguments, if they follow every rule of the core."""
    if not isinstance(value, Mapping):
        raise _refused(typed_dict, [("dict_type", "Input should be an object", ())])
    known = {name: item for name, item in value.items() if name in typed_dict.__annotations__}
    problems: list[tuple[str, str, Location]] = [
        ("extra_forbidden", "Extra inputs are not permitted", (str(name),)) for name in value if name not in known
    ]
    try:
        violations = list_violations({**known})
    except (TypeError, ValueError) as error:
        problems.append(("dealkit_invalid", str(error), ()))
    else:
        problems += [(violation.code, violation.detail, _location(violation.pointer)) for violation in violations]
    if problems:
        raise _refused(typed_dict, problems)
    return known


def _checked_profile(typed_dict: Any, value: Any, _: object) -> dict[str, Any]:
    """A profile, if it follows every rule of the core."""
    violations = [found for found in list_violations({"profile": value}) if found.pointer.startswith("/profile")]
    if violations:
        raise _refused(typed_dict, [(found.code, found.detail, _location(found.pointer)[1:]) for found in violations])
    return {**value}


def _location(pointer: str) -> Location:
    """The steps of a pointer, with ``*`` in place of undocumented names."""
    masked = _native.violation_texts(pointer, "", "")[0]
    return tuple(int(name) if name.isdecimal() else name for name in masked.split("/")[1:])
