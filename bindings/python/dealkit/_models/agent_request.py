"""Makes the call that creates an agent, and lists the violations of its arguments."""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from dealkit import _native
from dealkit._core.arguments import check_bools
from dealkit._core.builtin_types import to_builtin_types
from dealkit._core.errors import make_exception, unwrap
from dealkit._core.options import OMITTED

if TYPE_CHECKING:
    from dealkit.exceptions import Violation


def make_create_call(arguments: dict[str, Any], validate: bool) -> _native.Call:
    """Makes the call that creates an agent from the arguments of ``create``."""
    check_bools(validate=validate)
    result = try_create_call(arguments, validate)
    if isinstance(result, Exception):
        raise result
    return unwrap(result)


def list_violations(arguments: Any) -> list[Violation]:
    """Returns every violation of the rules in the arguments of ``create``."""
    result = try_create_call(arguments, True)
    if isinstance(result, _native.Call):
        return []
    from dealkit.exceptions import ValidationError

    error = make_exception(result) if isinstance(result, _native.Failure) else result
    if isinstance(error, ValidationError):
        return list(error.errors)
    raise error


def try_create_call(arguments: dict[str, Any], validate: bool) -> _native.Call | _native.Failure | Exception:
    """Makes the call that creates an agent. Returns a failure if the arguments are invalid, or the exception that an
    argument's own code has raised.
    """
    result = _native.create_agent(arguments, omitted=OMITTED, validate=validate, is_converted=False)
    if result is None:
        try:
            arguments = {name: _convert_argument(value) for name, value in arguments.items()}
        except Exception as error:
            return error
        result = _native.create_agent(arguments, omitted=OMITTED, validate=validate, is_converted=True)
    return result


def _convert_argument(value: Any) -> Any:
    if type(value) is str:
        return value
    if isinstance(value, date) and not isinstance(value, datetime):
        return date(value.year, value.month, value.day)
    return to_builtin_types(value)
