"""The exceptions of dealkit. All can be pickled with their attributes.

``DealkitError`` is the base class. Its message is one line: method, path template, event and, if the service responded, the
status, title, detail and request id. It never contains the service key. Except for the service's title and detail, it never
contains values that were sent or received.

Tests can construct every class, with its attributes as keywords: ``APITimeoutError("timed out", attempts=3)`` has the outcome
``unknown``, like a timeout of a real call.
"""

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
    """A violation of the rules by a request."""

    pointer: str
    """The location, as a JSON pointer (RFC 6901) into the request body; empty for the body itself. It can contain names from the
    request. Messages show ``*`` in place of undocumented names."""
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
    """The violations in the request: the first 100."""
    omitted_errors: int
    """Number of further violations, which were not read."""
    extra: dict[str, Any]
    """Other fields of the first 64 KiB, by name."""

    def __repr__(self) -> str:
        # Without title and detail, which may repeat values of the request.
        return f"Problem(status={self.status!r}, errors={self.errors!r})"


def _positional(*, default: Any, kw_only: bool, alias: str) -> Any:
    """Declares a positional argument of the constructor that is not an attribute."""
    return default


@dataclass_transform(kw_only_default=True, field_specifiers=(_positional,))
class _Facts(Exception):
    """Makes the attributes of a subclass keywords of its constructor. The class body, or a keyword of the class statement, has
    the default of an attribute."""

    _defaults: dict[str, Any] = {}

    def __init_subclass__(cls, **defaults: Any) -> None:
        plain = {name: value for name, value in vars(cls).items() if not hasattr(value, "__get__")}
        own = {name: value for name, value in plain.items() if not name.startswith("_")}
        cls._defaults = cls._defaults | own | defaults

    def __init__(self, message: str = "", **given: Any) -> None:
        super().__init__(message)
        for name in given.keys() - self._defaults.keys():
            raise TypeError(f"{type(self).__name__}() got an unexpected keyword argument {name!r}")
        facts = self._defaults | given
        facts["may_have_acted"] = given.get("may_have_acted", facts["outcome"] in ("unknown", "succeeded"))
        vars(self).update(facts)


class DealkitError(_Facts):
    """The base class of dealkit's exceptions.

    ``kind`` is the kind of failure, such as ``timeout``. ``outcome`` is the effect of the call at the service: none if it is
    ``not_sent`` or ``rejected``, a possible effect if it is ``unknown``, and a certain one if it is ``succeeded``. Send a
    create again only if ``may_have_acted`` is false. The service's support can find the request by ``request_id``.
    """

    _message: str = _positional(default="", kw_only=False, alias="message")
    # The default for errors that a program constructs, and for results of `cancel` of `create_many`. Calls raise other kinds.
    kind: str = "cancelled"
    """``config``, ``validation``, ``connect`` (no connection was made), ``interrupted`` (it broke), ``too_large``,
    ``timeout``, ``throttled``, ``decode``, ``status``, ``cancelled``, ``ledger``, ``already_attempted``, ``duplicate_key``,
    ``service_key`` (no key was available) or ``stopped``. Later versions may add others."""
    outcome: Outcome = "not_sent"
    """``not_sent``: nothing reached the service. ``rejected``: the service responded that it did not act (a 4xx except 408, or
    a 307 or 308). ``unknown``: no complete response arrived, or a 408, a 5xx, or another status. ``succeeded``: a 2xx whose
    body could not be read. If the service may have acted on an earlier attempt, the outcome is at least ``unknown``."""
    # The constructor computes the default from the outcome.
    may_have_acted: bool = False
    """True if the service may have changed data: after a create, the agent may exist. Always false after a read."""
    attempts: int = 0
    """Number of attempts; 0 if the call failed before the first one."""
    request_id: str | None = None
    """The request's id in the service's logs: quote it to the service's support."""
    retry_after: float | None = None
    """Number of seconds to wait: from ``Retry-After``, or, for a ``ThrottledError``, until the call could be admitted."""
    index: int | None = None
    """The position of the identifier or row in the input of ``retrieve_many`` or ``create_many``, or of the entry in the input of
    ``dealkit.ledger.resolve``, from 0."""
    setting: str | None = None
    """The keyword of the setting that the error concerns, such as ``base_url``. If the setting is invalid, the message begins
    with this name. Otherwise the message ends with a reference to it, such as ``[see max_response_bytes]``."""
    details: str | None = None
    """The messages of the HTTP, TLS and socket libraries if a connection failed. They end the message."""
    id: str | None = None
    """The identifier that was passed to ``retrieve`` or ``retrieve_many``. No message contains it."""


class ConfigError(DealkitError, ValueError, kind="config"):
    """A setting of the client or the call is invalid. ``setting`` is its keyword."""


class ValidationError(DealkitError, ValueError, kind="validation"):
    """The request breaks the rules, so it was not sent. ``errors`` has every violation."""

    errors: tuple[Violation, ...] = ()
    """The violations, in the order of the specification's tables."""


class APIConnectionError(DealkitError, ConnectionError, kind="interrupted", outcome="unknown"):
    """No connection could be made, or it broke before the complete response had arrived."""


class APITimeoutError(APIConnectionError, TimeoutError, kind="timeout"):
    """The call timed out. ``outcome`` says whether the service may have acted."""


class ThrottledError(DealkitError, kind="throttled"):
    """The call was not sent, because the rate limiter could not have admitted it before its timeout, but only in
    ``retry_after`` seconds. The limit is the client's ``rate_limit``, or follows from the service's responses. (A 429 is a
    ``RateLimitError``.)"""


class DecodeError(DealkitError, ValueError, kind="decode"):
    """A document is invalid. The message has the path of the invalid value, and the kind of JSON value found there."""

    path: str = ""
    """The location, such as ``application.offers[1].expiry_date_time``; empty for the whole document. A name that is itself
    data is shown as its position: ``metadata[entry 2]``."""
    pointer: str = ""
    """The location as a JSON pointer, such as ``/application/offers/1/expiry_date_time``. It can contain names from the
    document."""
    found: str = ""
    """The kind of value found there: ``null``, ``a string`` and so on, ``nothing``, or ``not JSON``."""
    body: bytes = b""
    """The whole document, as received."""
    detail: str = ""
    """The message without the path: ``expected a string, found null``."""


class APIStatusError(DealkitError, kind="status", outcome="unknown"):
    """The service responded with an unsuccessful status. That includes redirects, which are never followed."""

    status_code: int = 0
    """The status."""
    http_version: str | None = None
    """The HTTP version of the response: ``HTTP/1.1`` or ``HTTP/2``."""
    headers: Headers = Headers()
    """The headers, with case-insensitive names."""
    body: bytes = b""
    """The first 64 KiB of the body."""
    problem: Problem | None = None
    """The body, if it is problem details (RFC 9457)."""
    errors: tuple[Violation, ...] = ()
    """The violations in the service's response: the first 100."""


class BadRequestError(APIStatusError, status_code=400, outcome="rejected"):
    """400: the service could not understand the request."""


class AuthenticationError(APIStatusError, status_code=401, outcome="rejected"):
    """401: the service key is missing or unknown. Check that it is the key of this service."""


class PermissionDeniedError(APIStatusError, status_code=403, outcome="rejected"):
    """403: the key does not permit this call."""


class NotFoundError(APIStatusError, status_code=404, outcome="rejected"):
    """404: the service has no such resource. Check the identifier, and the path of the base URL, if it has one."""


class ConflictError(APIStatusError, status_code=409, outcome="rejected"):
    """409: the request conflicts with an existing resource."""


class UnprocessableEntityError(APIStatusError, status_code=422, outcome="rejected"):
    """422: the service rejected the request's content; see ``errors``."""


class RateLimitError(APIStatusError, status_code=429, outcome="rejected"):
    """429: too many requests; see ``retry_after``."""


class InternalServerError(APIStatusError, status_code=500):
    """5xx: the service failed."""


class LedgerError(DealkitError, kind="ledger"):
    """The ledger cannot be used or written, so nothing is sent. The message has advice."""

    reason: str = "io"
    """``in_use`` (locked for half a minute, or by the process that this one was forked from), ``other_service``,
    ``other_keys``, ``not_a_ledger``, ``newer_format``, ``broken`` (changed by something else, or by the disk), ``moved``
    (or deleted, or replaced), ``rejected`` (an entry is invalid; ``index`` is its position), ``io`` (the system or the
    database denied access) or ``unreachable``."""


class AlreadyAttemptedError(DealkitError, kind="already_attempted", outcome="unknown"):
    """The ledger has the result of the row from an earlier run, so the row was not sent again. ``outcome`` is ``rejected`` or
    ``unknown``."""

    status_code: int | None = None
    """The status of the earlier run's response, if there was one."""
    in_flight: bool = False
    """True if another job is sending the row now, so that its outcome is not known yet."""


class DuplicateKeyError(DealkitError, ValueError, kind="duplicate_key"):
    """Another row of the job has the same idempotency key, so this row was not sent."""

    first_index: int | None = None
    """The index of the first row with the key."""


class ServiceKeyError(DealkitError, kind="service_key"):
    """No service key was available, so nothing was sent: the key function failed or took too long, or the key file is empty. The
    message has the reason. It names only the class of the function's exception, whose message may contain a key."""


class StoppedError(DealkitError, kind="stopped"):
    """The job has stopped, because the service rejected the key for an earlier row (401, 403), or no key was available. This row
    was not sent, and no further rows are taken. Correct the key and continue from this row."""

    first_index: int | None = None
    """The index of the earlier row."""
    status_code: int | None = None
    """The status of the response, 401 or 403; None if no key was available."""


_CLASSES: tuple[type[DealkitError], ...] = (*DealkitError.__subclasses__(), APITimeoutError)
_BY_KIND = {of_class._defaults["kind"]: of_class for of_class in _CLASSES}
_BY_KIND["connect"] = _BY_KIND["too_large"] = APIConnectionError
_BY_STATUS = {of_class._defaults["status_code"]: of_class for of_class in APIStatusError.__subclasses__()}


def _violations(violations: Any) -> tuple[Violation, ...]:
    return tuple(Violation(*violation) for violation in violations)


def _make(kind: str, message: str, **facts: Any) -> DealkitError:
    """Makes the exception for an error of the core. An attribute that is None is unknown, and gets its default."""
    facts = {name: fact for name, fact in facts.items() if fact is not None}
    of_class = _BY_KIND.get(kind, DealkitError)
    if of_class is APIStatusError:
        status = facts["status_code"]
        of_class = InternalServerError if status >= 500 else _BY_STATUS.get(status, APIStatusError)
    if "errors" in facts:
        facts["errors"] = _violations(facts["errors"])
    if "headers" in facts:
        facts["headers"] = Headers(facts["headers"])
    if problem := facts.get("problem"):
        facts["problem"] = Problem(**{**problem, "errors": _violations(problem["errors"])})
    return of_class(message, kind=kind, **{name: facts[name] for name in facts.keys() & of_class._defaults})
