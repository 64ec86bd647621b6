"""The exceptions of dealkit. All can be pickled with their attributes.

``DealkitError`` is the base class. The message of an exception is one line: method, path template, event and, if the
service responded, the status, title, detail and request id. A message never contains the service key. Except for the
service's title and detail, it never contains values that were sent or received.

Tests can construct an exception of every class, with its attributes as keywords: ``APITimeoutError("timed out",
attempts=3)`` has the outcome ``unknown``, like a timeout of a real call.
"""

from datetime import datetime
from typing import Any, Literal, NamedTuple, dataclass_transform

from dealkit import _native
from dealkit._core.headers import Headers

__all__ = [
    "APIConnectionError",
    "APIStatusError",
    "APITimeoutError",
    "AuthenticationError",
    "BadRequestError",
    "ConfigError",
    "ConflictError",
    "DealkitError",
    "DecodeError",
    "DuplicateKeyError",
    "IdempotencyKeyReusedError",
    "IdempotencyKeyReusedWarning",
    "InternalServerError",
    "LedgerError",
    "NotFoundError",
    "PermissionDeniedError",
    "Problem",
    "RateLimitError",
    "AlreadyAttemptedError",
    "ServiceKeyError",
    "StoppedError",
    "ThrottledError",
    "UnprocessableEntityError",
    "ValidationError",
    "Violation",
]

Outcome = Literal["not_sent", "rejected", "unknown", "succeeded"]


class Violation(NamedTuple):
    """A violation of the specification's rules by a request."""

    pointer: str
    """The location, as a JSON pointer (RFC 6901) into the request body; empty for the body itself. The pointer can
    contain names from the request. Messages show ``*`` in place of undocumented names."""
    code: str
    """The violated rule: ``required``, ``wrong_type``, ``too_long``, ``invalid_email`` and so on."""
    detail: str
    """An explanation for people."""

    def __str__(self) -> str:
        return _native.violation_texts(*self)[1]

    def __repr__(self) -> str:
        pointer = _native.violation_texts(*self)[0]
        return f"Violation(pointer={pointer!r}, code={self.code!r})"


class Problem(NamedTuple):
    """The body of an error response (problem details, RFC 9457), unchanged."""

    type: str | None
    """A URI that names the kind of problem."""
    title: str | None
    """The kind of problem, in a few words."""
    status: int | None
    """The HTTP status."""
    detail: str | None
    """The service's explanation of this error."""
    request_id: str | None
    """The request's id in the service's logs."""
    errors: tuple[Violation, ...]
    """The first 100 violations in the request."""
    omitted_errors: int
    """The number of further violations, which are not in ``errors``."""
    extra: dict[str, Any]
    """The undocumented fields in the first 64 KiB of the body, by name."""

    def __repr__(self) -> str:
        # Without title and detail, which may repeat values of the request.
        return f"Problem(status={self.status!r}, errors={self.errors!r})"


def _positional(*, default: Any, kw_only: bool, alias: str) -> Any:
    """Declares, for type checkers, a positional argument of the constructor that is not an attribute."""
    return default


def _may_have_acted(outcome: str | None) -> bool:
    return outcome in ("unknown", "succeeded")


@dataclass_transform(kw_only_default=True, field_specifiers=(_positional,))
class _ExceptionWithAttributes(Exception):
    """An exception whose constructor takes its attributes as keywords. A subclass sets the default of an attribute in
    its class body, or as a keyword of its class statement.
    """

    _defaults: dict[str, Any] = {}
    may_have_acted: bool

    def __init_subclass__(cls, **defaults: Any) -> None:
        plain_attributes = {name: value for name, value in vars(cls).items() if not hasattr(value, "__get__")}
        own_attributes = {name: value for name, value in plain_attributes.items() if not name.startswith("_")}
        cls._defaults = cls._defaults | own_attributes | defaults
        # `help` shows the attributes of the class.
        for name, value in defaults.items():
            setattr(cls, name, value)
        cls.may_have_acted = _may_have_acted(cls._defaults.get("outcome"))

    def __init__(self, message: str = "", **keywords: Any) -> None:
        super().__init__(message)
        for name in keywords.keys() - self._defaults.keys():
            raise TypeError(f"{type(self).__name__}() got an unexpected keyword argument {name!r}")
        attributes = self._defaults | keywords
        attributes["may_have_acted"] = keywords.get("may_have_acted", _may_have_acted(attributes["outcome"]))
        vars(self).update(attributes)


class DealkitError(_ExceptionWithAttributes):
    """The base class of dealkit's exceptions.

    ``kind`` is the kind of failure, such as ``timeout``. ``outcome`` says whether the service has acted on the call:
    ``not_sent`` and ``rejected`` mean that it has not, ``unknown`` that it may have, and ``succeeded`` that it has.
    Send a create again only if ``may_have_acted`` is false. The service's support can find the request by
    ``request_id``.
    """

    _message: str = _positional(default="", kw_only=False, alias="message")
    # The default is for errors that tests construct, and for rows that `cancel` of `create_many` has abandoned. Errors
    # that calls raise have other kinds.
    kind: str = "cancelled"
    """The kind of failure: ``config``, ``validation``, ``connect`` (no connection was made), ``interrupted`` (the
    connection broke), ``too_large`` (the response exceeds ``max_response_bytes``), ``timeout``, ``throttled``,
    ``decode``, ``status``, ``cancelled``, ``ledger``, ``already_attempted``, ``idempotency_key_reused``,
    ``duplicate_key``, ``service_key`` (no key was available) or ``stopped``. Later versions may add kinds."""
    outcome: Outcome = "not_sent"
    """The effect of the call at the service. ``not_sent``: nothing reached the service. ``rejected``: the service
    responded that it did not act (a 4xx except 408, or a 307 or 308). ``unknown``: no complete response arrived, or the
    status does not say whether the service acted (a 408 or a 5xx, for example). ``succeeded``: the service acted, but
    its response could not be read. If an earlier attempt may have had an effect, the outcome is ``unknown`` even if the
    last attempt was rejected or not sent."""
    # The constructor computes the default from `outcome`.
    may_have_acted: bool = False
    """True if the service may have changed data: after a create, the agent may exist. Always false after a read."""
    attempts: int = 0
    """The number of attempts; 0 if the call failed before its first attempt."""
    request_id: str | None = None
    """The request's id in the service's logs: quote it to the service's support."""
    retry_after: float | None = None
    """The number of seconds to wait, from the header ``Retry-After``. For a ``ThrottledError``, the number of seconds
    until the rate limit would have let the call through."""
    index: int | None = None
    """The position in the input, from 0: of the identifier (``retrieve_many``), the row (``create_many``) or the entry
    (``dealkit.ledger.resolve`` and ``mark_unknown``)."""
    setting: str | None = None
    """The keyword of the setting that the error concerns, such as ``base_url``. If the setting is invalid, the message
    begins with this keyword. Otherwise the message ends with a reference to the setting, such as ``[see
    max_response_bytes]``."""
    details: str | None = None
    """The messages of the HTTP, TLS and socket libraries, if a connection failed. The exception's message ends with
    them."""
    id: str | None = None
    """The identifier that was passed to ``retrieve`` or ``retrieve_many``. No message contains this identifier."""


class ConfigError(DealkitError, ValueError, kind="config"):
    """A setting of the client or the call is invalid. ``setting`` is its keyword."""


class ValidationError(DealkitError, ValueError, kind="validation"):
    """The request breaks the specification's rules. It was not sent. ``errors`` has every violation."""

    errors: tuple[Violation, ...] = ()
    """The violations, in the order of the specification's tables."""


class APIConnectionError(DealkitError, ConnectionError, kind="interrupted", outcome="unknown"):
    """No connection could be made, or the connection broke before the complete response had arrived."""


class APITimeoutError(APIConnectionError, TimeoutError, kind="timeout"):
    """The call timed out. ``outcome`` says whether the service may have acted."""


class ThrottledError(DealkitError, kind="throttled"):
    """The call was not sent, because it would have had to wait for a rate limit for ``retry_after`` seconds, which
    exceeds its timeout. The limit is the client's ``rate_limit``, or follows from the service's responses. (A 429 is a
    ``RateLimitError``.)"""


class DecodeError(DealkitError, ValueError, kind="decode"):
    """A document, such as a response, is invalid. The message has the path of the invalid value, and the kind of that
    value."""

    path: str = ""
    """The location of the invalid value, such as ``application.offers[1].expiry_date_time``; empty for the whole
    document. If a name in the path is itself data, its position stands for it: ``metadata[entry 2]``."""
    pointer: str = ""
    """The location as a JSON pointer, such as ``/application/offers/1/expiry_date_time``. The pointer can contain names
    from the document."""
    found: str = ""
    """The kind of the invalid value: ``null``, ``a string`` and so on, ``nothing`` if it is missing, or ``not
    JSON``."""
    body: bytes = b""
    """The whole document, as received."""
    detail: str = ""
    """The message without the path: ``expected a string, found null``."""


class APIStatusError(DealkitError, kind="status", outcome="unknown"):
    """The service responded with an unsuccessful status. That includes redirects, which are never followed."""

    status_code: int = 0
    """The HTTP status of the response."""
    http_version: str | None = None
    """The HTTP version of the response: ``HTTP/1.1`` or ``HTTP/2``."""
    headers: Headers = Headers()
    """The headers of the response, with case-insensitive names."""
    body: bytes = b""
    """The first 64 KiB of the response body."""
    problem: Problem | None = None
    """The response body, if it is problem details (RFC 9457)."""
    errors: tuple[Violation, ...] = ()
    """The first 100 violations in the service's response."""


class BadRequestError(APIStatusError, status_code=400, outcome="rejected"):
    """400: the service could not understand the request."""


class AuthenticationError(APIStatusError, status_code=401, outcome="rejected"):
    """401: the service key is missing or unknown. Check that it is the key of this service."""


class PermissionDeniedError(APIStatusError, status_code=403, outcome="rejected"):
    """403: the key does not permit this call."""


class NotFoundError(APIStatusError, status_code=404, outcome="rejected"):
    """404: the service has no such resource. Check the identifier. If the base URL has a path, check that too."""


class ConflictError(APIStatusError, status_code=409, outcome="rejected"):
    """409: the request conflicts with an existing resource."""


class UnprocessableEntityError(APIStatusError, status_code=422, outcome="rejected"):
    """422: the service rejected the request's content; see ``errors``."""


class RateLimitError(APIStatusError, status_code=429, outcome="rejected"):
    """429: too many requests; see ``retry_after``."""


class InternalServerError(APIStatusError, status_code=500):
    """5xx: the service failed."""


class LedgerError(DealkitError, kind="ledger"):
    """The ledger cannot be used, or cannot be written, so nothing is sent. The message advises what to do."""

    reason: str = "io"
    """The reason why the ledger cannot be used:

    - ``in_use``: it was locked for half a minute, or the parent of this forked process has it open.
    - ``other_service``: it belongs to a different service.
    - ``other_keys``: its idempotency keys have a different name.
    - ``not_a_ledger``: the file or database is not a ledger, or the operation does not exist for it.
    - ``newer_format``: a later version of dealkit has written it.
    - ``broken``: another program or the disk has changed it.
    - ``moved``: it was moved, deleted or replaced.
    - ``rejected``: an entry for it is invalid; ``index`` is the entry's position.
    - ``io``: the operating system or the database denied access.
    - ``unreachable``: the database cannot be reached.
    """


class AlreadyAttemptedError(DealkitError, kind="already_attempted", outcome="unknown"):
    """The row was not sent, because the ledger has its idempotency key from an earlier request or from another job.
    ``outcome`` is ``rejected`` or ``unknown``."""

    status_code: int | None = None
    """The status of the response to the earlier request, if there was a response."""
    in_flight: bool = False
    """True if another call or job is sending the row now. Its outcome is not known yet."""


class IdempotencyKeyReusedError(DealkitError, ValueError, kind="idempotency_key_reused", outcome="succeeded"):
    """``create_once`` sent nothing, because an agent was created earlier with the same idempotency key from other data.
    ``agent_id`` is that agent, which the API cannot change. If another agent was meant, use another key."""

    agent_id: str | None = None
    """The identifier of the agent that was created earlier, if the ledger has it."""
    sent_at: datetime | None = None
    """The time, in UTC, at which the request for that agent was sent."""


class IdempotencyKeyReusedWarning(UserWarning):
    """A row of ``create_many`` has the idempotency key of an agent that was created earlier from other data. The change was
    not sent: ``request_differs`` of the row's ``Creation`` is true. Each job warns once."""


class DuplicateKeyError(DealkitError, ValueError, kind="duplicate_key"):
    """This row was not sent, because an earlier row of the job has the same idempotency key."""

    first_index: int | None = None
    """The index of the first row with the idempotency key."""


class ServiceKeyError(DealkitError, kind="service_key"):
    """No service key was available, so nothing was sent. The key function failed or took too long, or the key file is
    empty: the message has the reason. If the function raised an exception, the message names only its class, because
    the exception's own message may contain a key."""


class StoppedError(DealkitError, kind="stopped"):
    """The job has stopped, because the service rejected the service key for an earlier row (401, 403), or no service
    key was available. This row was not sent, and no further rows are taken. Correct the service key and continue from
    this row."""

    first_index: int | None = None
    """The index of the earlier row at which the job stopped."""
    status_code: int | None = None
    """The status of the response to the earlier row, 401 or 403; None if no service key was available."""


_CLASSES: tuple[type[DealkitError], ...] = (*DealkitError.__subclasses__(), APITimeoutError)
_BY_KIND = {exception_class._defaults["kind"]: exception_class for exception_class in _CLASSES}
_BY_KIND["connect"] = _BY_KIND["too_large"] = APIConnectionError
_BY_STATUS = {
    exception_class._defaults["status_code"]: exception_class for exception_class in APIStatusError.__subclasses__()
}


def _violations(violations: Any) -> tuple[Violation, ...]:
    return tuple(Violation(*violation) for violation in violations)


def _make_exception(kind: str, message: str, **attributes: Any) -> DealkitError:
    """Makes the exception for an error of the native core. An attribute that is None gets the default of its class."""
    attributes = {name: value for name, value in attributes.items() if value is not None}
    exception_class = _BY_KIND.get(kind, DealkitError)
    if exception_class is APIStatusError:
        status = attributes["status_code"]
        exception_class = InternalServerError if status >= 500 else _BY_STATUS.get(status, APIStatusError)
    if "errors" in attributes:
        attributes["errors"] = _violations(attributes["errors"])
    if "headers" in attributes:
        attributes["headers"] = Headers(attributes["headers"])
    if problem := attributes.get("problem"):
        attributes["problem"] = Problem(**{**problem, "errors": _violations(problem["errors"])})
    return exception_class(
        message, kind=kind, **{name: attributes[name] for name in attributes.keys() & exception_class._defaults}
    )
