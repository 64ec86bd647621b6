"""Results of ``create_many`` and ``create_once``, and the call of ``create_once``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Literal, TypeAlias, TypeVar, overload

from dealkit import _native
from dealkit._bulk.callbacks import Resolver, check_resolve
from dealkit._core.arguments import check_bools, file_path
from dealkit._core.errors import make_exception, unwrap
from dealkit.exceptions import AlreadyAttemptedError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Coroutine
    from datetime import datetime

    from dealkit._bulk.callbacks import Resolve
    from dealkit._calls.session import Session
    from dealkit._core.options import CallOptions
    from dealkit.exceptions import DealkitError, LedgerError, Outcome

T = TypeVar("T")

# The arguments of a Creation, from which its other attributes are computed.
_ARGUMENTS = ("index", "agent", "agent_id", "error", "key", "from_ledger", "ledger_error", "sent_at", "request_differs")


class Creation(Generic[T]):
    """The result of one row of ``client.agents.create_many``, or of ``create_once``.

    In annotations, ``CreationOfRow[Agent]`` lets type checkers infer from ``result`` which attributes are not None. The
    repr shows no personal data, except in the title of an error response. For tests, construct one: ``Creation(index=0, agent=agent)``, ``Creation(index=1,
    error=APITimeoutError())``.

    >>> match creation.result:
    ...     case "created":
    ...         print("created now:", creation.agent)
    ...     case "already_created":
    ...         print("already created, says the ledger:", creation.agent_id, creation.sent_at)
    ...     case "failed":
    ...         print(creation.outcome, creation.error)
    """

    if not TYPE_CHECKING:
        __slots__ = (
            "agent",
            "agent_id",
            "error",
            "index",
            "key",
            "ledger_error",
            "outcome",
            "from_ledger",
            "request_differs",
            "sent_at",
        )

    def __init__(
        self,
        *,
        index: int,
        agent: T | None = None,
        agent_id: str | None = None,
        error: DealkitError | None = None,
        key: str | None = None,
        from_ledger: bool = False,
        ledger_error: LedgerError | None = None,
        sent_at: datetime | None = None,
        request_differs: bool = False,
    ) -> None:
        self.index: Final = index
        """The position of the row in the input, from 0. For ``create_once``, 0."""
        self.outcome: Final[Outcome] = "succeeded" if error is None else error.outcome
        """``"succeeded"`` if the agent was created, or the outcome of the error. ``"not_sent"`` and ``"rejected"``:
        there is no agent. ``"unknown"``: there may be an agent. ``"succeeded"`` with an error: there is an agent, but
        the response could not be read."""

        self.key: Final = key
        """The idempotency key, if there is one. It may be personal data, so no message contains it."""
        self.from_ledger: Final = from_ledger
        """True if the ledger had the result from an earlier run. Nothing was sent then. If the agent was created,
        ``agent_id`` and ``sent_at`` are set, provided that the ledger has them. If the row was rejected, or its outcome
        is unknown, ``error`` is an ``AlreadyAttemptedError``."""
        self.sent_at: Final = sent_at
        """The time, in UTC, at which an earlier run sent the row and created its agent."""
        self.request_differs: Final = request_differs
        """True if the row has changed since an earlier run sent it. The change was not sent."""
        self.ledger_error: Final = ledger_error
        """The error of writing the result to the ledger, if that failed. A later run treats the outcome as unknown."""
        if not TYPE_CHECKING:
            self.agent = agent
            self.agent_id = agent_id if agent_id is not None else getattr(agent, "id", None)
            self.error = error

    if TYPE_CHECKING:
        # Type checkers infer from `result` which of these attributes are not None.
        result: Literal["created", "already_created", "failed"]
        agent: ClassVar[_AgentOrNone]
        """The agent that this run created, or None. With ``with_raw_response``, the whole response."""
        agent_id: ClassVar[_AgentIdOrNone]
        """The identifier of the agent, if it is known. (With ``with_raw_response``, use ``agent.parse().id``.)"""
        error: ClassVar[_ErrorOrNone]
        """The error of a failed create, with its ``index``. None if the agent was created."""
    else:

        @property
        def result(self) -> Literal["created", "already_created", "failed"]:
            """``"created"``: this run created the agent. ``"already_created"``: an earlier run created it. ``"failed"``:
            there is an ``error``, whose ``outcome`` says whether the agent may exist."""
            if self.error is not None:
                return "failed"
            return "already_created" if self.from_ledger else "created"

    def _arguments(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in _ARGUMENTS)

    def __eq__(self, other: object) -> bool:
        return self._arguments() == other._arguments() if isinstance(other, Creation) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._arguments())

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restore, self._arguments())

    def __repr__(self) -> str:
        shown = f"index={self.index!r}, agent_id={self.agent_id!r}, result={self.result!r}, outcome={self.outcome!r}"
        error = "" if self.error is None else f", error={self.error!r}"
        return f"Creation({shown}{error}{', from_ledger=True' if self.from_ledger else ''})"


if TYPE_CHECKING:

    class CreatedNow(Creation[T]):
        """A ``Creation`` whose agent was created by this run."""

        result: Literal["created"]  # pyright: ignore[reportIncompatibleVariableOverride]

    class CreatedEarlier(Creation[T]):
        """A ``Creation`` whose agent was created by an earlier run."""

        result: Literal["already_created"]  # pyright: ignore[reportIncompatibleVariableOverride]

    class FailedCreation(Creation[T]):
        """A ``Creation`` with an error."""

        result: Literal["failed"]  # pyright: ignore[reportIncompatibleVariableOverride]

    class _AgentOrNone:
        """The type of ``agent``, which depends on ``result``."""

        @overload
        def __get__(self, creation: CreatedNow[T], creation_class: object = None) -> T: ...
        @overload
        def __get__(self, creation: CreatedEarlier[T] | FailedCreation[T], creation_class: object = None) -> None: ...
        @overload
        def __get__(self, creation: Creation[T], creation_class: object = None) -> T | None: ...
        def __get__(self, creation: Any, creation_class: object = None) -> Any: ...

    class _AgentIdOrNone:
        """The type of ``agent_id``, which depends on ``result``."""

        @overload
        def __get__(self, creation: CreatedNow[_native.Agent], creation_class: object = None) -> str: ...
        @overload
        def __get__(self, creation: Creation[Any], creation_class: object = None) -> str | None: ...
        def __get__(self, creation: Any, creation_class: object = None) -> Any: ...

    class _ErrorOrNone:
        """The type of ``error``, which depends on ``result``."""

        @overload
        def __get__(self, creation: CreatedNow[Any] | CreatedEarlier[Any], creation_class: object = None) -> None: ...
        @overload
        def __get__(self, creation: FailedCreation[Any], creation_class: object = None) -> DealkitError: ...
        @overload
        def __get__(self, creation: Creation[Any], creation_class: object = None) -> DealkitError | None: ...
        def __get__(self, creation: Any, creation_class: object = None) -> Any: ...

    CreationOfRow: TypeAlias = CreatedNow[T] | CreatedEarlier[T] | FailedCreation[T]
else:
    CreatedNow = CreatedEarlier = FailedCreation = CreationOfRow = Creation


def _restore(*arguments: Any) -> Creation[Any]:
    return Creation(**dict(zip(_ARGUMENTS, arguments, strict=True)))


def make_creation(result: _native.BulkResult, agent: Any, error: DealkitError | None) -> Creation[Any]:
    """Makes a Creation from a result of native code. ``agent`` and ``error`` are the converted value of the result."""
    record = result.ledger_record
    if record is None:
        return Creation(index=result.index, agent=agent, error=error, key=result.id)
    ledger_error: Any = None if record.error is None else make_exception(record.error)
    return Creation(
        index=result.index,
        agent=agent,
        agent_id=record.agent_id,
        error=error,
        key=result.id,
        from_ledger=record.is_earlier,
        sent_at=record.sent_at,
        ledger_error=ledger_error,
        request_differs=record.request_differs,
    )


def make_create_once(
    call: _native.Call,
    fields: dict[str, Any],
    *,
    idempotency_key: object,
    ledger: object,
    key_name: object,
    label: object,
    resend_unknown: bool,
    resend_corrected: bool,
    resolve: Resolve | None,
    wait_in_flight: bool,
) -> tuple[_native.CreateOnce, Resolver | None]:
    """Makes the call of ``create_once``, and the resolver of its key, if there is a function ``resolve``. ``call`` is the
    call that creates the agent with these fields."""
    check_bools(resend_unknown=resend_unknown, resend_corrected=resend_corrected, wait_in_flight=wait_in_flight)
    check_resolve(resolve, resend_unknown=resend_unknown)
    if not isinstance(idempotency_key, str):
        raise TypeError(f"idempotency_key must be a str, not {type(idempotency_key).__name__}")
    if key_name is not None:
        if not isinstance(key_name, str):
            raise TypeError(f"key_name must be a str or None, not {type(key_name).__name__}")
        key_name = str.__str__(key_name)
    if label is not None:
        if not isinstance(label, str):
            raise TypeError(f"label must be a str or None, not {type(label).__name__}")
        label = str.__str__(label)
        label.encode()  # Raises for a str that is not valid text.
    options = _native.ledger_options(
        ledger=file_path("ledger", ledger),
        key_name=key_name,
        resend_unknown=resend_unknown,
        resend_corrected=resend_corrected,
        resolve=resolve is not None,
        wait_in_flight=wait_in_flight,
    )
    key = str.__str__(idempotency_key)
    resolver = None
    if resolve is not None:
        resolver = Resolver(resolve)
        resolver.rows_by_key[key] = 0, fields
    return unwrap(_native.create_once(call, idempotency_key=key, ledger=unwrap(options), label=label)), resolver


def send_create_once(
    session: Session,
    call: _native.CreateOnce,
    options: CallOptions,
    *,
    resolver: Resolver | None,
    raw: bool,
    detached: bool,
) -> Creation[Any]:
    """Sends a call of ``create_once`` and waits for its end."""
    check_bools(detached=detached)
    if detached:
        raise TypeError("detached is only for AsyncClient: a call of Client cannot continue without its caller")
    answer_request = None if resolver is None else resolver.resolve_row
    try:
        result = session.send(call, options, raw=raw, answer_request=answer_request)
    except AlreadyAttemptedError as error:
        _add_cause(error, resolver)
        raise
    return make_creation(result, result.value, None)


def _add_cause(error: AlreadyAttemptedError, resolver: Resolver | None) -> None:
    """Makes the exception of ``resolve`` the cause of the call's error, if ``resolve`` has raised one."""
    if resolver is not None and resolver.errors:
        error.__cause__ = resolver.errors[0]


# Tasks of detached calls in flight, each with the family of its session. Event loops have only weak references to their
# tasks, so these keep the tasks alive.
_detached_tasks: dict[asyncio.Task[Any], object] = {}


async def send_create_once_async(
    session: Session,
    call: _native.CreateOnce,
    options: CallOptions,
    *,
    resolver: Resolver | None,
    raw: bool,
    detached: bool,
) -> Creation[Any]:
    """Like ``send_create_once``, for asyncio. A detached call continues if this coroutine is cancelled."""
    check_bools(detached=detached)
    answer_request = None if resolver is None else resolver.resolve_row_async
    send = session.send_async(call, options, raw=raw, detached=detached, answer_request=answer_request)
    try:
        result = await (_wait_for_detached_call(session, send) if detached else send)
    except AlreadyAttemptedError as error:
        _add_cause(error, resolver)
        raise
    return make_creation(result, result.value, None)


async def _wait_for_detached_call(session: Session, send: Coroutine[Any, Any, Any]) -> Any:
    """Sends a call in a task of its own, which continues if this coroutine is cancelled. Waits for its end."""
    # Imported here, because asyncio takes long to import.
    from asyncio import create_task, wait

    task = create_task(send)
    _detached_tasks[task] = session.family
    task.add_done_callback(_forget_task)
    # Unlike `await task`, cancelling `wait` does not cancel the task.
    await wait([task])
    return task.result()


async def wait_for_detached_calls(session: Session) -> None:
    """Waits for the detached calls of a session's family in the running event loop."""
    if _detached_tasks:
        from asyncio import get_running_loop, wait

        loop = get_running_loop()
        tasks = [
            task for task, family in [*_detached_tasks.items()] if family is session.family and task.get_loop() is loop
        ]
        if tasks:
            await wait(tasks)


def _forget_task(task: asyncio.Task[Any]) -> None:
    _detached_tasks.pop(task, None)
    if not task.cancelled():
        # Retrieves the exception, because asyncio would report it otherwise. The log already has the call's failure.
        task.exception()
