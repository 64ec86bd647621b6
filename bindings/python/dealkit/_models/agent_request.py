"""An agent to create: the call that the native half makes from the arguments, and the rules that they break."""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from dealkit import _native
from dealkit._core.arguments import check_bools
from dealkit._core.failure import exception, unwrap
from dealkit._core.options import OMITTED
from dealkit._core.plain import plain

if TYPE_CHECKING:
    from dealkit.exceptions import Violation


def create_agent(given: dict[str, Any], validate: bool) -> _native.Call:
    """The call that creates an agent from the arguments of ``create``."""
    check_bools(validate=validate)
    outcome = agent_row(given, validate)
    if isinstance(outcome, Exception):
        raise outcome
    return unwrap(outcome)


def agent_violations(given: Any) -> list[Violation]:
    """Every way in which arguments of ``create`` break the rules."""
    outcome = agent_row(given, True)
    if isinstance(outcome, _native.Call):
        return []
    from dealkit.exceptions import ValidationError

    error = exception(outcome) if isinstance(outcome, _native.Failure) else outcome
    if isinstance(error, ValidationError):
        return list(error.errors)
    raise error


def agent_row(given: dict[str, Any], validate: bool) -> _native.Call | _native.Failure | Exception:
    """The call that creates an agent from these arguments, or why there is none; also what their own code raises."""
    outcome = _native.create_agent(given, OMITTED, validate, False)
    if outcome is None:
        try:
            given = {name: _argument(value) for name, value in given.items()}
        except Exception as error:
            return error
        outcome = _native.create_agent(given, OMITTED, validate, True)
    return outcome


def _argument(value: Any) -> Any:
    if type(value) is str:
        return value
    if isinstance(value, date) and not isinstance(value, datetime):
        return date(value.year, value.month, value.day)
    return plain(value)
