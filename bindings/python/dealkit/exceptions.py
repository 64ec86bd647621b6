"""The exceptions that a call can raise: one tree; each can be pickled and keeps its attributes.

``DealkitError`` is the root. Its text is one line: method, path template, what happened and, if the service
responded, its status, title, detail and request id. It never contains the service key, and dealkit's own words in it
never contain a value that was given or read.

Every class can be constructed by hand, with its attributes as keywords; in tests, the functions of
``dealkit.testing`` (``status_error``, ``timeout_error`` and so on) make the errors that a call would raise.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple, TypedDict, Unpack

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
    "RecordedError",
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
    """What is wrong and what would be right, for humans."""

    def __str__(self) -> str:
        return _native.violation_texts(*self)[1]

    def __repr__(self) -> str:
        pointer = _native.violation_texts(*self)[0]
        return f"Violation(pointer={pointer!r}, code={self.code!r})"


class Problem(NamedTuple):
    """The body of an error response, with the field names of RFC 9457. The texts are the service's own."""

    type: str | None
    """A URI that names the kind of problem."""
    title: str | None
    """What kind of problem it is, in a few words."""
    status: int | None
    """The HTTP status."""
    detail: str | None
    """What went wrong this time."""
    request_id: str | None
    """The request's id in the service's logs."""
    errors: tuple[Violation, ...]
    """What is wrong with the request, field by field: the first 100 entries."""
    omitted_errors: int
    """How many entries of ``errors`` came after those and were not read."""
    extra: dict[str, Any]
    """Any other fields, by name: those in the first 64 KiB."""

    def __repr__(self) -> str:
        # Without the service's words: they may repeat what was sent.
        return f"Problem(status={self.status!r}, errors={self.errors!r})"


class _Facts(TypedDict, total=False):
    """The arguments that every exception can be made with."""

    kind: str
    outcome: Outcome | None
    may_have_acted: bool | None
    attempts: int
    request_id: str | None
    retry_after: float | None


class DealkitError(Exception):
    """The base class of all of dealkit's own exceptions."""

    kind: str
    """The kind of failure, in one word, as in the column ``kind`` of a table of errors: ``config``, ``validation``,
    ``connect`` (no connection could be made), ``interrupted`` (it broke), ``too_large`` (the response is larger than
    the client's limit), ``timeout``, ``throttled`` (its turn to be sent would have come too late), ``decode``,
    ``status``, ``cancelled``, ``ledger``, ``recorded``, ``duplicate_key`` or ``stopped``. More may be added."""
    outcome: Outcome
    """What the call may have done at the service. ``not_sent``: nothing, because nothing reached it; this is the
    outcome of every error that is found before sending. ``rejected``: nothing; it responded that it did not act (a
    4xx except 408, or a 307 or 308). ``unknown``: it may have acted (no whole response came, or a 408, a 5xx, or
    another status). ``succeeded``: it acted (a 2xx whose body could not be read, was too large, or broke off). If an
    earlier attempt may have made it act, the outcome is never ``not_sent`` or ``rejected``."""
    may_have_acted: bool
    """Whether the service may have changed something: after a create, whether the agent may exist. Always false after a
    read, which changes nothing, whatever its outcome."""
    attempts: int
    """How many times the request was tried; 0 if it never got that far."""
    request_id: str | None
    """The request's id in the service's logs: include it when contacting support."""
    retry_after: float | None
    """How many seconds to wait before the next attempt: as the service asks, or, of a ``ThrottledError``, until the turn of
    the call would have come."""
    index: int | None
    """In ``retrieve_many`` and ``create_many``: the position of the identifier or row among those given, from 0. In
    ``dealkit.ledger.settle``: the position of the entry."""
    details: str | None
    """What the libraries below said when no connection was made, or one broke: the end of the text."""
    id: str | None
    """The identifier that was requested, as it was given to ``retrieve`` or ``retrieve_many``. No text contains it."""

    # The kind of the errors that ``cancel`` of ``create_many`` returns, and that no call raises.
    _default_kind = "cancelled"
    _default_outcome: Outcome = "not_sent"

    def __init__(
        self,
        message: str = "",
        *,
        kind: str | None = None,
        outcome: Outcome | None = None,
        may_have_acted: bool | None = None,
        attempts: int = 0,
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = self._default_kind if kind is None else kind
        # For an error that only a call raises, the cautious outcome.
        self.outcome = self._default_outcome if outcome is None else outcome
        self.may_have_acted = self.outcome in ("unknown", "succeeded") if may_have_acted is None else may_have_acted
        self.attempts = attempts
        self.request_id = request_id
        self.retry_after = retry_after
        self.details = None
        self.index = None
        self.id = None
        # The text without the details, in pieces, each with whether it is the name of a setting.
        self._words: tuple[tuple[str, bool], ...] = ((message, False),)

    def text(self, names: Mapping[str, str]) -> str:
        """The text without its details, with other names for the settings in it: for programs whose users know them by
        other names, such as a command with options.

        >>> ConfigError("rate_limit must be a number").text({"rate_limit": "--rate-limit"})
        'rate_limit must be a number'

        (In an error that was made by hand, as here, nothing is known to be a setting.)
        """
        return "".join(names.get(piece, piece) if is_setting else piece for piece, is_setting in self._words)


class ConfigError(DealkitError, ValueError):
    """The client or the call is set up in a way that cannot work. The text names the setting."""

    _default_kind = "config"


class ValidationError(DealkitError, ValueError):
    """The request breaks the rules, so it was not sent: ``errors`` has every violation, not just the first."""

    errors: tuple[Violation, ...]
    """What is wrong, in the order of the specification's tables."""

    _default_kind = "validation"

    def __init__(self, message: str = "", *, errors: Iterable[Violation] = (), **facts: Unpack[_Facts]) -> None:
        super().__init__(message, **facts)
        self.errors = tuple(errors)


class APIConnectionError(DealkitError, ConnectionError):
    """No connection could be made, or it broke before the whole response had arrived."""

    _default_kind = "interrupted"
    _default_outcome: Outcome = "unknown"


class APITimeoutError(APIConnectionError, TimeoutError):
    """The call timed out. ``outcome`` says whether the service may have acted."""

    _default_kind = "timeout"


class ThrottledError(DealkitError):
    """The call was not sent, because its turn would have come after its timeout: the client's own ``rate_limit`` allows it
    no earlier, or the service has asked for fewer requests. ``retry_after`` says how long to wait; with a longer timeout
    the call waits by itself. (A request that was sent and got a 429 is a ``RateLimitError``.)"""

    _default_kind = "throttled"


class DecodeError(DealkitError, ValueError):
    """A document does not have the expected form: the text names the path and the kind of JSON value found."""

    path: str
    """Where, such as ``application.offers[1].expiry_date_time``; empty for the whole document. A name that is itself
    data is shown as its position: ``metadata[entry 2]``."""
    pointer: str
    """The same place as a JSON pointer, such as ``/application/offers/1/expiry_date_time``. It is exact, and
    can hold names from the document."""
    found: str
    """What was found there: ``null``, ``a string`` and so on, ``nothing``, or ``not JSON``."""
    body: bytes
    """The whole document, as it was received."""
    line: int | None
    """The number of the line, from 1, if the document is one of ``from_json_lines``."""

    _default_kind = "decode"

    def __init__(
        self,
        message: str = "",
        *,
        path: str = "",
        pointer: str = "",
        found: str = "",
        body: bytes = b"",
        line: int | None = None,
        **facts: Unpack[_Facts],
    ) -> None:
        super().__init__(message, **facts)
        self.line = line
        self.path = path
        self.pointer = pointer
        self.found = found
        self.body = body


class APIStatusError(DealkitError):
    """The service responded with a status that is not a success. Redirects are included: they are never followed."""

    status_code: int
    """The status."""
    http_version: str | None
    """The HTTP version of the response: ``HTTP/1.1`` or ``HTTP/2``."""
    headers: Headers
    """The headers; names in any case."""
    body: bytes
    """The first 64 KiB of the body."""
    problem: Problem | None
    """The body as problem details (RFC 9457), if it has that form."""
    errors: tuple[Violation, ...]
    """What the service says is wrong with the request, field by field: the first 100 entries."""

    _default_kind = "status"
    _default_outcome: Outcome = "unknown"
    # The status of a class that stands for a single status.
    _default_status = 0

    def __init__(
        self,
        message: str = "",
        *,
        status_code: int | None = None,
        http_version: str | None = None,
        headers: Headers | None = None,
        body: bytes = b"",
        problem: Problem | None = None,
        errors: Iterable[Violation] = (),
        **facts: Unpack[_Facts],
    ) -> None:
        super().__init__(message, **facts)
        self.status_code = self._default_status if status_code is None else status_code
        self.http_version = http_version
        self.headers = Headers() if headers is None else headers
        self.body = body
        self.problem = problem
        self.errors = tuple(errors)


class BadRequestError(APIStatusError):
    """400: the service could not make sense of the request."""

    _default_status = 400


class AuthenticationError(APIStatusError):
    """401: the service key is missing or unknown. Is it the key of this service?"""

    _default_status = 401


class PermissionDeniedError(APIStatusError):
    """403: the key may not do this."""

    _default_status = 403


class NotFoundError(APIStatusError):
    """404: the service has no such resource. Is the identifier right, and the path of the base URL, if it has one?"""

    _default_status = 404


class ConflictError(APIStatusError):
    """409: the request conflicts with what already exists."""

    _default_status = 409


class UnprocessableEntityError(APIStatusError):
    """422: the service refuses the request's content; see ``errors``."""

    _default_status = 422


class RateLimitError(APIStatusError):
    """429: too many requests; see ``retry_after``."""

    _default_status = 429


class InternalServerError(APIStatusError):
    """5xx: the service failed."""

    _default_status = 500


class LedgerError(DealkitError):
    """The ledger of a job cannot be used or written, so nothing is sent. The text says what to do."""

    reason: str
    """``in_use``: another program has kept it locked for half a minute, or this process was forked from one that had a
    ledger open. ``other_service``: it is the ledger of another service. ``other_keys``: its keys have another name than
    those of the job. ``not_a_ledger``: the file is something else. ``newer_format``: it was created by a newer version
    of dealkit. ``broken``: something other than dealkit has changed it, or the disk has. ``moved``: the file was moved,
    deleted or replaced while it was open. ``refused``: an entry that ``dealkit.ledger`` was to record in it cannot be
    right; if there are several, ``index`` says which. ``io``: the system refuses to open, read or write it."""

    _default_kind = "ledger"

    def __init__(
        self,
        message: str = "",
        *,
        reason: str = "io",
        index: int | None = None,
        **facts: Unpack[_Facts],
    ) -> None:
        super().__init__(message, **facts)
        self.reason = reason
        self.index = index


class RecordedError(DealkitError):
    """The result that the ledger has from an earlier run for a row, which was not sent again: ``outcome`` is
    ``rejected`` or ``unknown``."""

    status_code: int | None
    """The status of the response to that run, if there was one."""
    in_flight: bool
    """Whether another job is sending the row right now: its outcome is unknown here, but that job will know it."""

    _default_kind = "recorded"
    _default_outcome: Outcome = "unknown"

    def __init__(
        self,
        message: str = "",
        *,
        status_code: int | None = None,
        in_flight: bool = False,
        **facts: Unpack[_Facts],
    ) -> None:
        super().__init__(message, **facts)
        self.status_code = status_code
        self.in_flight = in_flight


class DuplicateKeyError(DealkitError, ValueError):
    """Another row of the job has the same key, so this one was not sent."""

    first_index: int | None
    """The index of the first row that has it."""

    _default_kind = "duplicate_key"

    def __init__(self, message: str = "", *, first_index: int | None = None, **facts: Unpack[_Facts]) -> None:
        super().__init__(message, **facts)
        self.first_index = first_index


class StoppedError(DealkitError):
    """The service refused an earlier row of the job with a 401 or 403, which concerns the key more than the row. So this
    row was not sent, and no further rows are taken: once the key is right, go on from this row."""

    first_index: int | None
    """The index of the row that the service refused."""
    status_code: int | None
    """The status of that response: 401 or 403."""

    _default_kind = "stopped"

    def __init__(
        self,
        message: str = "",
        *,
        first_index: int | None = None,
        status_code: int | None = None,
        **facts: Unpack[_Facts],
    ) -> None:
        super().__init__(message, **facts)
        self.first_index = first_index
        self.status_code = status_code


def _by_status(*classes: type[APIStatusError]) -> dict[int, type[APIStatusError]]:
    """The classes of one status each; for one made by hand, too, the outcome is that the service did not act."""
    for of_class in classes:
        of_class._default_outcome = "rejected"
    return {of_class._default_status: of_class for of_class in classes}


_BY_STATUS = _by_status(
    BadRequestError,
    AuthenticationError,
    PermissionDeniedError,
    NotFoundError,
    ConflictError,
    UnprocessableEntityError,
    RateLimitError,
)


def _by_kind(*classes: type[DealkitError]) -> dict[str, type[DealkitError]]:
    """The classes of one kind each."""
    return {of_class._default_kind: of_class for of_class in classes}


_BY_KIND = _by_kind(
    ConfigError,
    ValidationError,
    APIConnectionError,
    APITimeoutError,
    ThrottledError,
    DecodeError,
    LedgerError,
    RecordedError,
    DuplicateKeyError,
    StoppedError,
)
_BY_KIND["connect"] = _BY_KIND["too_large"] = APIConnectionError

# The attributes that only some of the classes have.
_OWN_ATTRIBUTES: dict[type[DealkitError], frozenset[str]] = {
    ValidationError: frozenset({"errors"}),
    DecodeError: frozenset({"path", "pointer", "found", "body", "line"}),
    APIStatusError: frozenset({"status_code", "http_version", "headers", "body", "problem", "errors"}),
    LedgerError: frozenset({"reason", "index"}),
    RecordedError: frozenset({"status_code", "in_flight"}),
    DuplicateKeyError: frozenset({"first_index"}),
    StoppedError: frozenset({"first_index", "status_code"}),
}
_SHARED_ATTRIBUTES = frozenset({"outcome", "may_have_acted", "attempts", "request_id", "retry_after"})


def _violations(violations: Iterable[tuple[str, str, str]]) -> tuple[Violation, ...]:
    return tuple(Violation(*violation) for violation in violations)


def _problem(fields: Mapping[str, Any]) -> Problem:
    return Problem(**{**fields, "errors": _violations(fields["errors"])})


def _make(kind: str, message: str, **facts: Any) -> DealkitError:
    """The exception for an error of the core."""
    if kind == "status":
        status: int = facts["status_code"]
        by_class = InternalServerError if status >= 500 else APIStatusError
        of_class: type[DealkitError] = _BY_STATUS.get(status, by_class)
    else:
        of_class = _BY_KIND.get(kind, DealkitError)
    if "errors" in facts:
        facts["errors"] = _violations(facts["errors"])
    if "headers" in facts:
        facts["headers"] = Headers(facts["headers"])
    if "problem" in facts:
        facts["problem"] = _problem(facts["problem"])
    own = (names for parent, names in _OWN_ATTRIBUTES.items() if issubclass(of_class, parent))
    wanted = _SHARED_ATTRIBUTES.union(*own)
    error = of_class(message, kind=kind, **{name: value for name, value in facts.items() if name in wanted})
    error.details = facts.get("details")
    error._words = facts.get("words", error._words)
    return error
