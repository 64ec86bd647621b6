"""What the other calls send: values that the native half makes from arguments."""

from __future__ import annotations

from typing import Any

from dealkit import _native
from dealkit._core.failure import unwrap
from dealkit._core.options import OMITTED, pairs
from dealkit._core.plain import plain
from dealkit._core.private import private


@private
def raw_request(given: dict[str, Any]) -> _native.Call[Any]:
    """The call for the arguments of ``request``."""
    body = None if given["json"] is OMITTED else (plain(given["json"]),)
    query, headers = pairs("query", given["query"]), pairs("headers", given["headers"])
    return unwrap(_native.raw_request(given["method"], given["segments"], body, query, headers))
