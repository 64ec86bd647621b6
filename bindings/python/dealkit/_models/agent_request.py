"""An agent to create: the call that the native half makes from the arguments, and the rules that they break."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

from dealkit import _native
from dealkit._core.arguments import check_bools
from dealkit._core.failure import exception, unwrap
from dealkit._core.options import OMITTED
from dealkit._core.plain import plain
from dealkit._core.private import private

# For type checkers only: importing typing takes longer than importing all of dealkit.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from dealkit.exceptions import Violation


@private
def create_agent(given: dict[str, Any]) -> _native.Call[_native.Agent]:
    """The call that creates an agent from the arguments of ``create``."""
    validate = given.pop("validate")
    check_bools(validate=validate)
    return unwrap(_create_agent(given, validate))


@private
def agent_row(given: dict[str, Any], validate: bool) -> _native.Call[_native.Agent] | _native.Failure | Exception:
    """The call that creates an agent from these arguments, or why there is none; also what their own code raises."""
    outcome = _native.create_agent(given, OMITTED, validate, False)
    if outcome is None:
        try:
            given = {name: _argument(value) for name, value in given.items()}
        except Exception as error:
            return error
        outcome = _native.create_agent(given, OMITTED, validate, True)
    return outcome  # type: ignore[return-value]


@private
def agent_violations(given: dict[str, Any]) -> list[Violation]:
    """Every way in which arguments of ``create`` break the rules."""
    outcome = _create_agent(given, True)
    if not isinstance(outcome, _native.Failure):
        return []
    from dealkit.exceptions import ValidationError

    error = exception(outcome)
    if isinstance(error, ValidationError):
        return list(error.errors)
    raise error


def _create_agent(given: dict[str, Any], validate: bool) -> _native.Call[_native.Agent] | _native.Failure:
    outcome = _native.create_agent(given, OMITTED, validate, False)
    if outcome is None:
        converted = {name: _argument(value) for name, value in given.items()}
        outcome = _native.create_agent(converted, OMITTED, validate, True)
    return outcome  # type: ignore[return-value]


def _argument(value: Any) -> Any:
    if type(value) is str:
        return value
    if isinstance(value, date) and not isinstance(value, datetime):
        return date(value.year, value.month, value.day)
    return plain(value)
