"""The caller's functions that ``create_many`` calls: ``key=`` makes a row's idempotency key, ``label=`` its label, and
``resolve=``, which ``create_once`` has too, looks up whether the agent of a row exists."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from dealkit._core.errors import clear_frames
from dealkit.exceptions import ConfigError, DealkitError
from dealkit.params import CreateAgentParams

if TYPE_CHECKING:
    from dealkit import _native

ROW_FIELDS = frozenset(CreateAgentParams.__annotations__) - {"extra"}
"""The fields of a row."""


class KeyOf:
    """A named function that makes each row's idempotency key, for keys that are not in a field. The ledger records the
    name, as it records the name of the field with ``key="email"``. It rejects a later job whose keys have a different
    name.

    >>> client.agents.create_many(rows, ledger="agents.ledger", key=KeyOf("Number", lambda row: numbers[row["email"]]))
    """

    __slots__ = ("_function", "name")

    def __init__(self, name: str, function: Callable[[Any], str]) -> None:
        self.name: Final = name
        """The name that the ledger records for the idempotency keys."""
        self._function = function

    def __call__(self, row: Any) -> str:
        return self._function(row)


def key_function(key: str | Callable[[Any], object] | None) -> tuple[Callable[[Any], object] | None, str | None]:
    """Returns the function that makes a row's idempotency key, and the name of the keys, or None if they have no
    name."""
    if isinstance(key, KeyOf):
        return key, key.name
    if not isinstance(key, str):
        if key is not None and not callable(key):
            raise TypeError(f"key must be the name of a field, or a function of a row, not {type(key).__name__}")
        return key, None
    field, *nested_names = key.split(".")
    if field not in ROW_FIELDS or any("\ud800" <= character <= "\udfff" for character in key):
        raise ValueError(f"key does not name a field of a row: {key!r}")

    def get_field(row: Any) -> object:
        value = row[field]
        for name in nested_names:
            value = value[name]
        return value

    return get_field, str.__str__(key)


def make_key(function: Callable[[Any], object], key_name: str | None, row: Any) -> str | DealkitError:
    """Returns the idempotency key of a row, or the error of a row without a valid key."""
    try:
        key: Any = function(row)
        if isinstance(key, str):
            key = str.__str__(key)
            key.encode()
            return key  # type: ignore[no-any-return]
        problem_text = (
            "key must return a str for each row"
            if key_name is None
            else f"{key_name} is the key of the row and must be a str"
        )
        return ConfigError(f"not sent: {problem_text}, not {type(key).__name__}")
    except Exception as error:
        # The exception's message and frames may contain personal data.
        clear_frames(error)
        problem_text = (
            f"the key of the row cannot be determined: {type(error).__name__}"
            if key_name is None
            else f"the row has no {key_name} to use as its key"
        )
        rejection = ConfigError(f"not sent: {problem_text}")
        rejection.__cause__ = error
        return rejection


def make_label(function: Callable[[Any], object], row: Any) -> str | None | DealkitError:
    """Returns the label of a row, or the error of a row for which the function returns no valid label."""
    try:
        label: Any = function(row)
        if label is None:
            return None
        if isinstance(label, str):
            label = str.__str__(label)
            label.encode()
            return label  # type: ignore[no-any-return]
        return ConfigError(f"not sent: label must return a str or None for each row, not {type(label).__name__}")
    except Exception as error:
        # The exception's message and frames may contain personal data.
        clear_frames(error)
        rejection = ConfigError(f"not sent: the label of the row cannot be determined: {type(error).__name__}")
        rejection.__cause__ = error
        return rejection


class UnresolvedRow(NamedTuple):
    """A row whose outcome is unknown. ``create_many`` and ``create_once`` pass it to the function ``resolve``.

    Its repr shows no personal data.
    """

    key: str
    """The row's idempotency key."""
    row: CreateAgentParams
    """The row that was passed to this run of ``create_many``, or the agent's fields that were passed to ``create_once``."""
    sent_at: datetime
    """The time at which the row was sent, by the clock of the machine that sent it."""
    status_code: int | None = None
    """The status of the response, if there was one."""
    request_id: str | None = None
    """The service's id for the request, if it gave one."""
    label: str | None = None
    """The label with which the row was sent, if it had one."""

    def __repr__(self) -> str:
        return (
            f"UnresolvedRow(sent_at={self.sent_at!r}, status_code={self.status_code!r}, request_id={self.request_id!r}, "
            f"label={self.label!r})"
        )


Answer = str | Literal[False] | None
Resolve = Callable[[UnresolvedRow], Answer | Awaitable[Answer]]
"""A function that looks up whether the agent of a row exists. It returns the agent's id, False if there is no agent, or
None if the function cannot know."""


def check_resolve(resolve: Any, *, resend_unknown: bool) -> None:
    """Checks the argument ``resolve``."""
    if resolve is not None and not callable(resolve):
        raise TypeError(f"resolve must be a function of an UnresolvedRow, not {type(resolve).__name__}")
    if resolve is not None and resend_unknown:
        raise TypeError(
            "resolve and resend_unknown exclude each other: resolve decides for each row whether it is sent again"
        )


class Resolver:
    """Answers the requests of native code to resolve rows, with the caller's function ``resolve``."""

    __slots__ = ("_resolve", "errors", "rows_by_key")

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self.rows_by_key: dict[str, tuple[int, Any]] = {}
        """The index and the row of each row in flight, by idempotency key."""
        self.errors: dict[int, Exception] = {}
        """Exceptions of ``resolve``, by index: the causes of the rows' errors."""

    def resolve_row(self, request: _native.ResolveRequest) -> None:
        """Calls ``resolve`` for a row, and answers the request with the result."""
        try:
            _send_answer(request, self._call_resolve(request))
        except Exception as error:
            self._fail_request(request, error)

    async def resolve_row_async(self, request: _native.ResolveRequest) -> None:
        """Like ``resolve_row``, for asyncio: ``resolve`` may be a coroutine function."""
        try:
            answer: Any = self._call_resolve(request)
            _send_answer(request, await answer if hasattr(answer, "__await__") else answer)
        except Exception as error:
            self._fail_request(request, error)
        except BaseException:
            # The task was cancelled. The row's outcome stays unknown.
            request.fail()
            raise

    def _call_resolve(self, request: _native.ResolveRequest) -> Any:
        row = UnresolvedRow(
            key=request.key,
            row=self.rows_by_key[request.key][1],
            sent_at=request.sent_at,
            status_code=request.status_code,
            request_id=request.request_id,
            label=request.label,
        )
        return self._resolve(row)

    def _fail_request(self, request: _native.ResolveRequest, error: Exception) -> None:
        """Answers a request for which ``resolve`` has raised an exception."""
        # The exception's frames may contain personal data.
        clear_frames(error)
        self.errors[self.rows_by_key[request.key][0]] = error
        request.fail()


def _send_answer(request: _native.ResolveRequest, answer: object) -> None:
    """Answers a request with the value that the caller's function ``resolve`` has returned."""
    if answer is None:
        request.answer_unknown()
    elif answer is False:
        request.answer_no_agent()
    elif isinstance(answer, str):
        answer.encode()  # Raises for a str that is not valid text.
        request.answer_agent(str.__str__(answer))
    else:
        close_coroutine = getattr(answer, "close", None)
        if close_coroutine is not None and hasattr(answer, "__await__"):
            close_coroutine()  # Otherwise Python warns that the coroutine was never awaited.
        raise TypeError(f"resolve must return the id of an agent, False or None, not {type(answer).__name__}")
