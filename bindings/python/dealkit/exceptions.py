"""The exceptions that a call can raise: one tree; each can be pickled and keeps its attributes.

``DealkitError`` is the root. Its text is one line: method, path template, what happened and, if the service responded,
the status, title, detail and request id. It never contains the service key, and dealkit's own words in it never contain
values that were sent or received.

Every class can be constructed with its attributes as keywords, as in tests: ``APITimeoutError("timed out",
attempts=3)`` has the outcome ``unknown``, like that of a real call.
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
    """One way in which a request breaks the rules."""

    pointer: str
    """Where, as a JSON pointer (RFC 6901) into the request body; empty for the body itself. It is exact, and can hold
    names from the request: the texts of a violation show ``*`` in place of undocumented ones."""
    code: str
    """Which rule: ``required``, ``wrong_type``, ``too_long``, ``invalid_email`` and so on."""
    detail: str
    """What is wrong, and what would be right, for people."""

    def __str__(self) -> str:
        return _native.violation_texts(*self)[1]

    def __repr__(self) -> str:
        pointer = _native.violation_texts(*self)[0]
        return f"Violation(pointer={pointer!r}, code={self.code!r})"


class Problem(NamedTuple):
    """The body of an error response, with the field names of RFC 9457, in the service's own words."""

    type: str | None
    """A URI that names the kind of problem."""
    title: str | None
    """The kind of problem, in a few words."""
    status: int | None
    """The HTTP status."""
    detail: str | None
    """What went wrong this time."""
    request_id: str | None
    """The request's id in the service's logs."""
    errors: tuple[Violation, ...]
    """What is wrong with the request, field by field: the first 100 entries."""
    omitted_errors: int
    """How many more entries of ``errors`` there were; they were not read."""
    extra: dict[str, Any]
    """Any other fields, by name: those in the first 64 KiB."""

    def __repr__(self) -> str:
        # Without the service's words: they may repeat what was sent.
        return f"Problem(status={self.status!r}, errors={self.errors!r})"


def _positional(*, default: Any, kw_only: bool, alias: str) -> Any:
    """A field that is not an attribute, but an argument by position."""
    return default


@dataclass_transform(kw_only_default=True, field_specifiers=(_positional,))
class _Facts(Exception):
    """The attributes of a class are the keywords of its constructor, for type checkers too. Their defaults are where they are
    stated, or are keywords of the class."""

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

    ``kind`` is the kind of failure in one word, such as ``timeout``. ``outcome`` is what the call may have done at the
    service: ``not_sent`` and ``rejected`` mean nothing, ``unknown`` means perhaps something, and ``succeeded`` means
    that it acted. Send a create again only if ``may_have_acted`` is false. The service's support can find the request
    by ``request_id``.
    """

    _message: str = _positional(default="", kw_only=False, alias="message")
    # One that is made by hand is by default like those that `cancel` of `create_many` returns, and that no call raises.
    kind: str = "cancelled"
    """``config``, ``validation``, ``connect`` (no connection was made), ``interrupted`` (it broke), ``too_large``,
    ``timeout``, ``throttled``, ``decode``, ``status``, ``cancelled``, ``ledger``, ``already_attempted``, ``duplicate_key``,
    ``service_key`` (there was none to send) or ``stopped``. More may be added."""
    outcome: Outcome = "not_sent"
    """``not_sent``: nothing reached the service. ``rejected``: it responded that it did not act (a 4xx except 408, or a
    307 or 308). ``unknown``: no whole response came, or a 408, a 5xx, or another status. ``succeeded``: a 2xx whose body
    could not be read. If the service may have acted on an earlier attempt, the outcome is at least ``unknown``."""
    # By default it follows from the outcome.
    may_have_acted: bool = False
    """Whether the service may have changed anything: after a create, whether the agent may exist. Always false after a
    read."""
    attempts: int = 0
    """How often the request was attempted; 0 if it never got that far."""
    request_id: str | None = None
    """The request's id in the service's logs: quote it to the service's support."""
    retry_after: float | None = None
    """How many seconds to wait: as the service asks, or, for a ``ThrottledError``, until the call could be sent."""
    index: int | None = None
    """In ``retrieve_many`` and ``create_many``: the position of the identifier or row among those given, from 0. In
    ``dealkit.ledger.resolve``: the position of the entry."""
    setting: str | None = None
    """The keyword of the setting that the error concerns, such as ``base_url``. If the setting is invalid, the message begins
    with this name. Otherwise the message ends with a reference to it, such as ``[see max_response_bytes]``."""
    details: str | None = None
    """The messages of the libraries below when no connection was made or a connection broke: the end of the text."""
    id: str | None = None
    """The requested identifier, as passed to ``retrieve`` or ``retrieve_many``. No message contains it."""


class ConfigError(DealkitError, ValueError, kind="config"):
    """A setting of the client or the call is invalid. ``setting`` is its keyword."""


class ValidationError(DealkitError, ValueError, kind="validation"):
    """The request breaks the rules, so it was not sent: ``errors`` has every violation, not just the first."""

    errors: tuple[Violation, ...] = ()
    """What is wrong, in the order of the specification's tables."""


class APIConnectionError(DealkitError, ConnectionError, kind="interrupted", outcome="unknown"):
    """No connection was made, or it broke before the whole response arrived."""


class APITimeoutError(APIConnectionError, TimeoutError, kind="timeout"):
    """The call timed out. ``outcome`` says whether the service may have acted."""


class ThrottledError(DealkitError, kind="throttled"):
    """The call was not sent before its timeout: because of the client's own ``rate_limit``, or because the service asked
    for fewer requests, it would have to wait ``retry_after`` seconds. (A 429 is a ``RateLimitError``.)"""


class DecodeError(DealkitError, ValueError, kind="decode"):
    """A document does not have the expected form. The message names the path and the kind of JSON value found there."""

    path: str = ""
    """Where, such as ``application.offers[1].expiry_date_time``; empty for the whole document. A name that is itself
    data is shown as its position: ``metadata[entry 2]``."""
    pointer: str = ""
    """The same place as a JSON pointer, such as ``/application/offers/1/expiry_date_time``. It is exact, and
    can hold names from the document."""
    found: str = ""
    """What was found there: ``null``, ``a string`` and so on, ``nothing``, or ``not JSON``."""
    body: bytes = b""
    """The whole document, as received."""
    detail: str = ""
    """What is wrong there, without the path: ``expected a string, found null``."""


class APIStatusError(DealkitError, kind="status", outcome="unknown"):
    """The service responded with an unsuccessful status. That includes redirects, which are never followed."""

    status_code: int = 0
    """The status."""
    http_version: str | None = None
    """The HTTP version of the response: ``HTTP/1.1`` or ``HTTP/2``."""
    headers: Headers = Headers()
    """The headers; names in any case."""
    body: bytes = b""
    """The first 64 KiB of the body."""
    problem: Problem | None = None
    """The body as problem details (RFC 9457), if it has that form."""
    errors: tuple[Violation, ...] = ()
    """What the service says is wrong with the request, field by field: the first 100 entries."""


class BadRequestError(APIStatusError, status_code=400, outcome="rejected"):
    """400: the service could not understand the request."""


class AuthenticationError(APIStatusError, status_code=401, outcome="rejected"):
    """401: the service key is missing or unknown. Is it the key of this service?"""


class PermissionDeniedError(APIStatusError, status_code=403, outcome="rejected"):
    """403: the key does not allow this."""


class NotFoundError(APIStatusError, status_code=404, outcome="rejected"):
    """404: the service has no such resource. Is the identifier right, and the path of the base URL, if it has one?"""


class ConflictError(APIStatusError, status_code=409, outcome="rejected"):
    """409: the request conflicts with what already exists."""


class UnprocessableEntityError(APIStatusError, status_code=422, outcome="rejected"):
    """422: the service rejected the request's content; see ``errors``."""


class RateLimitError(APIStatusError, status_code=429, outcome="rejected"):
    """429: too many requests; see ``retry_after``."""


class InternalServerError(APIStatusError, status_code=500):
    """5xx: the service failed."""


class LedgerError(DealkitError, kind="ledger"):
    """A job's ledger cannot be used or written, so nothing is sent. The message says what to do."""

    reason: str = "io"
    """``in_use`` (locked for half a minute, or by the process that this one was forked from), ``other_service``,
    ``other_keys``, ``not_a_ledger``, ``newer_format``, ``broken`` (changed by something else, or by the disk), ``moved``
    (or deleted, or replaced), ``rejected`` (an entry is invalid; ``index`` is its position), ``io`` (the system or the
    database denied access) or ``unreachable``."""


class AlreadyAttemptedError(DealkitError, kind="already_attempted", outcome="unknown"):
    """The ledger has a result for the row from an earlier run, so it was not sent again: ``outcome`` is ``rejected`` or
    ``unknown``."""

    status_code: int | None = None
    """The status of that run's response, if there was one."""
    in_flight: bool = False
    """Whether another job is sending the row right now. Its outcome is unknown here, but that job will know it."""


class DuplicateKeyError(DealkitError, ValueError, kind="duplicate_key"):
    """Another row of the job has the same key, so this one was not sent."""

    first_index: int | None = None
    """The index of the first row that has it."""


class ServiceKeyError(DealkitError, kind="service_key"):
    """There was no service key, so nothing was sent: the function that provides it failed or took too long, or the file
    is empty. The message says which. Of the function's exception it names only the class, because its text may contain
    a key."""


class StoppedError(DealkitError, kind="stopped"):
    """The service rejected the key for an earlier row (401, 403), or there was none. So this row was not sent, and no
    further rows are taken. Once the key is right, continue from this row."""

    first_index: int | None = None
    """The index of that row."""
    status_code: int | None = None
    """The status of the response, 401 or 403, if there was a key to send."""


_CLASSES: tuple[type[DealkitError], ...] = (*DealkitError.__subclasses__(), APITimeoutError)
_BY_KIND = {of_class._defaults["kind"]: of_class for of_class in _CLASSES}
_BY_KIND["connect"] = _BY_KIND["too_large"] = APIConnectionError
_BY_STATUS = {of_class._defaults["status_code"]: of_class for of_class in APIStatusError.__subclasses__()}


def _violations(violations: Any) -> tuple[Violation, ...]:
    return tuple(Violation(*violation) for violation in violations)


def _make(kind: str, message: str, **facts: Any) -> DealkitError:
    """The exception for an error of the core. A fact that is None is not known, and has its default."""
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
