"""The request that creates an agent: conversion of its arguments and validation."""

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


def make_create_call(given: dict[str, Any], validate: bool) -> _native.Call:
    """Makes the call that creates an agent from the arguments of ``create``. Raises ValidationError if the arguments
    are invalid.
    """
    check_bools(validate=validate)
    outcome = try_create_call(given, validate)
    if isinstance(outcome, Exception):
        raise outcome
    return unwrap(outcome)


def find_violations(given: Any) -> list[Violation]:
    """Returns all violations of the validation rules in arguments of ``create``."""
    outcome = try_create_call(given, True)
    if isinstance(outcome, _native.Call):
        return []
    from dealkit.exceptions import ValidationError

    error = exception(outcome) if isinstance(outcome, _native.Failure) else outcome
    if isinstance(error, ValidationError):
        return list(error.errors)
    raise error


def try_create_call(given: dict[str, Any], validate: bool) -> _native.Call | _native.Failure | Exception:
    """Makes the call that creates an agent, or returns the reason why it cannot be made. That reason may be an
    exception from the arguments' own code.
    """
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
