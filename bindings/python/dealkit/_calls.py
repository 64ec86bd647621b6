"""What each call sends: values that the native half makes of arguments."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

from dealkit import _native
from dealkit._failure import unwrap
from dealkit._options import OMITTED, pairs
from dealkit._plain import plain
from dealkit._private import private


@private
def create_agent(given: dict[str, Any]) -> _native.Call[_native.Agent]:
    """The call that creates an agent of the arguments of ``create``."""
    validate = given.pop("validate")
    if not isinstance(validate, bool):
        raise TypeError(f"validate must be a bool, not {type(validate).__name__}")
    fields = {name: _argument(value) for name, value in given.items() if value is not OMITTED}
    return unwrap(_native.create_agent(fields, validate))


def _argument(value: Any) -> Any:
    if isinstance(value, date) and not isinstance(value, datetime):
        return date(value.year, value.month, value.day)
    return plain(value)


def retrieve_deal(id: str) -> _native.Call[_native.Deal]:
    """The call that retrieves a deal."""
    return unwrap(_native.retrieve_deal(id))


@private
def raw_request(given: dict[str, Any]) -> _native.Call[Any]:
    """The call of the arguments of ``request``."""
    body = None if given["json"] is OMITTED else (plain(given["json"]),)
    query, headers = pairs("query", given["query"]), pairs("headers", given["headers"])
    return unwrap(_native.raw_request(given["method"], given["segments"], body, query, headers))
