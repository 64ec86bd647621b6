"""Errors made by hand: the same as a call would raise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from dealkit import Agent, Deal, _native
from dealkit._core.failure import exception, unwrap
from dealkit._core.options import check_names, pairs
from dealkit._core.plain import plain

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Unpack

    from dealkit import APIConnectionError, APIStatusError, APITimeoutError, DecodeError, ThrottledError
    from dealkit.exceptions import Outcome


class ErrorOptions(TypedDict, total=False):
    """The options of an error that is made by hand. Those not given follow from the others, as in a call."""

    operation: str
    """The operation: a method and the path with placeholders, such as ``POST /v1/agents``."""
    attempts: int
    """How many times the request was tried. Default: 1."""
    outcome: Outcome
    """The outcome, instead of the one that follows from the rest."""
    retry_after: float
    """How many seconds to wait before the next attempt, instead of what the headers say."""
    request_id: str
    """The request's id in the service's logs. Like the headers, it is part of a response: an error without a response
    is given the beginning of a 200, and so the outcome ``succeeded``."""
    headers: Mapping[str, str]
    """The headers of the response."""
    id: str
    """The identifier that was requested."""
    index: int
    """The position of the identifier among those given to ``retrieve_many``."""


def status_error(
    status_code: int, body: Mapping[str, object] | str | bytes = b"", **options: Unpack[ErrorOptions]
) -> APIStatusError:
    """The exception for a response whose status is not a success, of the class for that status.

    >>> error = status_error(422, {"title": "Invalid", "errors": [{"pointer": "/email", "code": "invalid_email"}]})
    >>> error
    UnprocessableEntityError('422 Unprocessable Entity: Invalid: /email invalid_email')
    >>> error.outcome, error.errors[0].pointer
    ('rejected', '/email')

    Args:
        status_code: The status, from 100 to 999.
        body: The body: a mapping, which is written as JSON, a text or bytes.
        options: See ``ErrorOptions``.
    """
    return _made("status", options, status_code=status_code, body=_bytes(body))  # type: ignore[no-any-return]


def timeout_error(seconds: float = 60, **options: Unpack[ErrorOptions]) -> APITimeoutError:
    """The exception for a call that timed out after it was sent, without a response: its outcome is ``unknown``.

    For one that timed out before a connection was made, pass ``outcome="not_sent"``.

    Args:
        seconds: The time after which it timed out.
        options: See ``ErrorOptions``.
    """
    return _made("timeout", options, seconds=seconds)  # type: ignore[no-any-return]


def throttled_error(seconds: float = 30, **options: Unpack[ErrorOptions]) -> ThrottledError:
    """The exception for a call that was not sent, because the service has asked for fewer requests and the call's turn
    would have come too late.

    Args:
        seconds: How long it would have had to wait.
        options: See ``ErrorOptions``.
    """
    return _made("throttled", options, seconds=seconds)  # type: ignore[no-any-return]


def connection_error(
    reason: str = "connection refused", *, sent: bool = False, **options: Unpack[ErrorOptions]
) -> APIConnectionError:
    """The exception for a connection that could not be made, with the outcome ``not_sent``.

    Args:
        reason: The reason, shown at the end of the text.
        sent: Whether there was a connection that broke before a response came: the outcome is then ``unknown``.
        options: See ``ErrorOptions``.
    """
    if not isinstance(sent, bool):
        raise TypeError(f"sent must be a bool, not {type(sent).__name__}")
    return _made("interrupted" if sent else "connect", options, reason=reason)  # type: ignore[no-any-return]


def decode_error(
    body: Mapping[str, object] | str | bytes,
    *,
    model: type[Deal] | type[Agent] = Deal,
    status_code: int | None = None,
    **options: Unpack[ErrorOptions],
) -> DecodeError:
    """The exception for a success whose body cannot be read, with the outcome ``succeeded``.

    >>> decode_error({"id": 5}).path
    'id'

    Args:
        body: The body: a mapping, which is written as JSON, a text or bytes.
        model: The model that it cannot be read as: ``Deal`` or ``Agent``.
        status_code: The status of the response. Default: 201 for an ``Agent`` and 200 for a ``Deal``.
        options: See ``ErrorOptions``.

    Raises:
        ValueError: The body can be read.
    """
    if model is not Deal and model is not Agent:
        raise TypeError("model must be Deal or Agent")
    if status_code is None:
        status_code = 201 if model is Agent else 200
    kind = "agent" if model is Agent else "deal"
    return _made(kind, options, status_code=status_code, body=_bytes(body))  # type: ignore[no-any-return]


def _made(kind: str, options: ErrorOptions, **given: object) -> Any:
    told: dict[str, Any] = {**options}
    check_names("an error", told, ErrorOptions)
    id, index = told.pop("id", None), told.pop("index", None)
    told["headers"] = pairs("headers", told.get("headers"))
    (failure,) = unwrap(_native.made_error(kind, {**told, **given}))
    error: Any = exception(failure)
    error.id, error.index = id, index
    return error


def _bytes(body: Mapping[str, object] | str | bytes) -> bytes:
    if isinstance(body, bytes | bytearray):
        return bytes(body)
    if isinstance(body, str):
        return body.encode()
    if not hasattr(body, "keys"):
        raise TypeError(f"body must be a mapping, a str or bytes, not {type(body).__name__}")
    return unwrap(_native.json_text("body", plain(body))).encode()
