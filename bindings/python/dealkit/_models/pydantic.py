"""The hooks with which pydantic validates and serializes models and request arguments. Imported only when pydantic
calls a hook.

The native core reads documents and validates requests. The pydantic schemas here describe the core's rules.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from functools import partial, update_wrapper
from inspect import cleandoc
from math import isfinite
from typing import Any

from pydantic import GetCoreSchemaHandler, ValidationError
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, core_schema

from dealkit import _native
from dealkit._core.builtin_types import to_builtin_types
from dealkit._models.agent_request import list_violations
from dealkit._models.fields import fields, read_summary
from dealkit._models.request_schema import CREATE_AGENT, PROFILE, PROFILE_EXAMPLES, PROFILE_NAMES
from dealkit.enums import Role

Location = tuple[str | int, ...]

# The number of digits up to which any decimal number survives conversion to a binary float and back.
_MAX_EXACT_DIGITS = 15


def model_schema(model: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
    """Returns the schema of a model. The schema accepts an instance of the model, or a document as a mapping. It writes
    JSON as the service does.
    """
    field_schemas = {}
    for field in fields(model):
        schema = handler.generate_schema(field.type)
        field_schemas[field.wire_name] = core_schema.typed_dict_field(
            schema if field.required else core_schema.nullable_schema(schema),
            required=field.required,
            metadata={"pydantic_js_updates": {"description": field.doc}},
        )
    return core_schema.no_info_wrap_validator_function(
        _name_validator(_validate_model, model),
        core_schema.typed_dict_schema(field_schemas, cls=model, extra_behavior="allow"),
        ref=_schema_reference(model),
        metadata={"pydantic_js_updates": {"description": cleandoc(read_summary(model))}},
        serialization=core_schema.plain_serializer_function_ser_schema(_serialize, info_arg=True),
    )


def _name_validator(validate: Callable[..., Any], validated_class: Any) -> Callable[..., Any]:
    """Names a validator after its class, because pydantic shows the name in error messages."""
    return update_wrapper(partial(validate, validated_class), validated_class, ("__name__", "__qualname__"), ())


def _schema_reference(validated_class: Any) -> str:
    # pydantic derives the name of the JSON schema's definition from the part before the colon.
    return f"dealkit.{validated_class.__name__}:{id(validated_class)}"


def _validate_model(model: Any, value: Any, _: object) -> Any:
    if isinstance(value, model):
        return value
    if not isinstance(value, Mapping):
        raise _validation_error(model, [("model_type", f"Input should be a {model.__name__} or an object", ())])
    json_text = _native.json_text(model.__name__, _build_document(model, value, ()))
    if isinstance(json_text, _native.Failure):
        raise _validation_error(
            model, [("dealkit_decode", "Input contains a value that cannot be written as JSON", ())]
        )
    outcome = model._read(json_text, "raise")
    if not isinstance(outcome, _native.Failure):
        return outcome
    _, _, attributes = outcome.parts()
    # Undocumented names become ``*``.
    location = _parse_pointer(_native.violation_texts(attributes["pointer"], "", "")[0])
    raise _validation_error(model, [("dealkit_decode", attributes["detail"], location)])


def _validation_error(validated_class: Any, problems: Iterable[tuple[str, str, Location]]) -> ValidationError:
    """Makes the error that pydantic raises for these problems. The error hides the input, which may be personal."""
    details: list[Any] = [
        InitErrorDetails(type=_custom_error(kind, text), loc=location, input="<hidden>")
        for kind, text, location in problems
    ]
    return ValidationError.from_exception_data(validated_class.__name__, details)


def _custom_error(kind: Any, text: Any) -> PydanticCustomError:
    # For type checkers, pydantic requires literal strings here, so that messages can be translated. These are not
    # literal.
    return PydanticCustomError(kind, text)


def _build_document(model: Any, values: Mapping[Any, Any], location: Location) -> dict[Any, Any]:
    """Builds a model's JSON document from a mapping of its fields."""
    kinds = {wire_name: kind for _, wire_name, kind, *_ in model.__dealkit_fields__}
    return {
        wire_name: _to_json_value(
            model, kinds.get(wire_name, "object"), value, (*location, wire_name if wire_name in kinds else "*")
        )
        for wire_name, value in values.items()
    }


def _to_json_value(model: Any, kind: str, value: Any, location: Location) -> Any:
    if kind.startswith("[") and isinstance(value, list | tuple):
        return [_to_json_value(model, kind[1:-1], item, (*location, index)) for index, item in enumerate(value)]
    if kind[0].isupper():
        validated_class = getattr(_native, kind)
        if isinstance(value, validated_class):
            return _native.RawJson(value.to_json())
        return (
            _build_document(validated_class, value, location) if isinstance(value, Mapping) else to_builtin_types(value)
        )
    if kind == "decimal" and isinstance(value, str):
        return _parse_number(value)
    value = to_builtin_types(value)
    if _has_lost_digits(value):
        text = "A number has lost digits as a float: send a string, or read the JSON with from_json"
        raise _validation_error(model, [("dealkit_inexact", text, location)])
    return value


def _parse_number(text: str) -> Any:
    """Parses a decimal number in a string. Any other string is returned unchanged, and the native reader rejects it."""
    try:
        return _native.RawJson(text) if text[:1] in tuple("-0123456789") else text
    except ValueError:
        return text


def _has_lost_digits(value: Any) -> bool:
    """Returns whether a value contains a float that may have lost digits of the original number."""
    visited_ids = set()
    pending_values = [value]
    while pending_values:
        value = pending_values.pop()
        if isinstance(value, float) and not _is_exact(value):
            return True
        if isinstance(value, dict | list) and id(value) not in visited_ids:
            visited_ids.add(id(value))
            pending_values.extend(value.values() if isinstance(value, dict) else value)
    return False


def _is_exact(number: float) -> bool:
    digits = Decimal(repr(number)).normalize().as_tuple().digits
    return isfinite(number) and len(digits) <= _MAX_EXACT_DIGITS


def _serialize(model: Any, info: core_schema.SerializationInfo[Any]) -> Any:
    if not info.mode_is_json():
        return model
    try:
        return _decimals_to_strings(model, json.loads(model.to_json(), parse_float=str))
    except RecursionError:
        reason = "an undocumented field is nested too deep for pydantic: send the text of to_json()"
    except ValueError as error:
        reason = str(error)
    # Raised outside the except block, so that no frame in the traceback holds the document in a variable.
    raise ValueError(reason)


def _decimals_to_strings(model: Any, document: dict[str, Any]) -> dict[str, Any]:
    """Converts the decimal numbers of a document to strings, because many JSON readers would round the numbers."""
    kinds = {wire_name: kind for _, wire_name, kind, *_ in model.__dealkit_fields__}
    return {wire_name: _serialize_field(kinds.get(wire_name, "object"), value) for wire_name, value in document.items()}


def _serialize_field(kind: str, value: Any) -> Any:
    # An unreadable field may hold a value of any type.
    if kind == "decimal" and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if kind.startswith("[") and isinstance(value, list):
        return [_serialize_field(kind[1:-1], item) for item in value]
    return (
        _decimals_to_strings(getattr(_native, kind), value) if kind[0].isupper() and isinstance(value, dict) else value
    )


def params_schema(typed_dict: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
    """Returns the schema of a request's arguments, or of its profile. The native core validates both. The JSON schema of
    each field is the contract's.
    """
    is_profile = "profile" not in typed_dict.__annotations__
    properties = PROFILE if is_profile else CREATE_AGENT
    nested_types = {} if is_profile else {"profile": typed_dict.__annotations__["profile"], "role": Role}
    field_schemas = {
        name: core_schema.typed_dict_field(
            handler.generate_schema(nested_types[name]) if name in nested_types else core_schema.any_schema(),
            required=name in typed_dict.__required_keys__,
            metadata={"pydantic_js_updates": properties[name]},
        )
        for name in typed_dict.__annotations__
    }
    return core_schema.no_info_wrap_validator_function(
        _name_validator(_validate_profile if is_profile else _validate_arguments, typed_dict),
        core_schema.typed_dict_schema(field_schemas, cls=typed_dict, extra_behavior="forbid"),
        ref=_schema_reference(typed_dict),
        metadata={"pydantic_js_updates": {"examples": PROFILE_EXAMPLES}} if is_profile else None,
    )


def _validate_arguments(typed_dict: Any, value: Any, _: object) -> dict[str, Any]:
    """Returns the arguments, if the native core accepts them."""
    if not isinstance(value, Mapping):
        raise _validation_error(typed_dict, [("dict_type", "Input should be an object", ())])
    arguments = {**value}
    try:
        problems = _list_problems(arguments)
    except (TypeError, ValueError) as error:
        problems = [("dealkit_invalid", str(error), ())]
    if problems:
        raise _validation_error(typed_dict, problems)
    return arguments


def _validate_profile(typed_dict: Any, value: Any, _: object) -> dict[str, Any]:
    """Returns the profile, if the native core accepts it."""
    problems = [
        (kind, text, location[1:])
        for kind, text, location in _list_problems({"profile": value})
        if location[:1] == ("profile",)
    ]
    if problems:
        raise _validation_error(typed_dict, problems)
    return {**value}


def _list_problems(arguments: dict[Any, Any]) -> list[tuple[str, str, Location]]:
    """Returns the violations of the rules in the arguments of ``create``. Their locations have the names that the
    arguments have.
    """
    problems: list[tuple[str, str, Location]] = []
    profile = arguments.get("profile")
    for violation in list_violations(arguments):
        kind = "extra_forbidden" if violation.code == "unknown_field" else violation.code
        location = _parse_pointer(_native.violation_texts(*violation)[0])
        if len(location) == 1 and kind == "extra_forbidden":
            location = (violation.pointer[1:].replace("~1", "/").replace("~0", "~"),)
        elif location[:1] == ("profile",) and isinstance(profile, Mapping):
            location = tuple(PROFILE_NAMES.get(step, step) if step not in profile else step for step in location)
        problems.append((kind, violation.detail, location))
    return problems


def _parse_pointer(pointer: str) -> Location:
    """Splits a JSON pointer into the steps of a pydantic location."""
    return tuple(int(name) if name.isdecimal() else name for name in pointer.split("/")[1:])
