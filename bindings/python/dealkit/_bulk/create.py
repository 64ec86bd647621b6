"""Many agents to create: the iterators of ``create_many``."""

from __future__ import annotations

from _thread import get_ident
from collections.abc import Mapping, Sized
from os import getpid
from sys import maxsize
from typing import TYPE_CHECKING, Any, TypeVar

from dealkit import _native
from dealkit._bulk.creation import Creation, creation_of
from dealkit._bulk.keys import key_of, named
from dealkit._bulk.progress import begin
from dealkit._bulk.resolve import said, unresolved
from dealkit._bulk.window import AsyncWindow, SyncWindow, Window, check_arguments
from dealkit._calls.service import native_options
from dealkit._core.arguments import check_bools, file_path
from dealkit._core.failure import exception, unwrap
from dealkit._core.private import clear, clear_frames, sealed
from dealkit._core.threads import wait_cooperatively
from dealkit._models.agent_request import try_create_call
from dealkit._native import Failure
from dealkit.exceptions import (
    DealkitError,
    DuplicateKeyError,
    ValidationError,
    Violation,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator

    from dealkit._bulk.progress import Progress
    from dealkit._bulk.resolve import Resolve, UnresolvedRow
    from dealkit._calls.service import Service
    from dealkit._core.options import CallOptions

T = TypeVar("T")


class _Creations(Window[Creation[T]]):
    """What both iterators have in common."""

    __slots__ = (
        "_asking",
        "_key",
        "_key_name",
        "_left",
        "_refused",
        "_resolve",
        "_rows",
        "_unanswered",
        "_unrecorded",
        "_validate",
    )

    _key: Callable[[Any], object] | None
    _resolve: Resolve | None

    def __init__(
        self,
        service: Service,
        rows: Any,
        ledger: Any,
        concurrency: int,
        ordered: bool,
        on_error: str,
        progress: Progress,
        validate: bool,
        key: str | Callable[[Any], str] | None,
        resend_unknown: bool,
        resolve: Resolve | None,
        wait_in_flight: bool,
        options: CallOptions,
        *,
        raw: bool,
    ) -> None:
        when_in_doubt = "resend" if resend_unknown else "report" if resolve is None else "ask"

        source, total = _checked_rows(rows)
        path = _checked_path(ledger, key, resend_unknown, resolve, wait_in_flight)
        check_arguments(concurrency, ordered, on_error)
        check_bools(validate=validate, resend_unknown=resend_unknown, wait_in_flight=wait_in_flight)
        self._key, self._key_name = named(key)
        ledger = None
        if path is not None:
            ledger = path, self._key_name, when_in_doubt, wait_in_flight
        many = unwrap(service.open().create_many(ordered, min(concurrency, maxsize), native_options(options), ledger))
        call: Any = try_create_call({}, False)
        super().__init__(source, many, service.describe(call), on_error, raw)
        self._validate = validate
        # Why the ledger lacks the result of some row.
        self._unrecorded: DealkitError | None = None
        # The errors of rows that are not sent, by index, until they are handed over.
        self._refused: dict[int, DealkitError] = {}
        # The results of `cancel`.
        self._left: dict[int, Creation[T]] = {}
        self._resolve = resolve
        # The rows in flight about which somebody may be asked, by key, each with its index.
        self._rows: dict[str, tuple[int, Any]] = {}
        # The questions that are being answered on an event loop.
        self._asking: dict[_native.Question, asyncio.Future[None]] = {}
        # Why there was no answer about a row, by index.
        self._unanswered: dict[int, Exception] = {}
        self._progress = begin(progress, total, "agent")

    def _input(self, index: int, given: Any) -> Any:
        call: Any = _call(given, self._validate)
        key: Any = None if self._key is None else key_of(self._key, self._key_name, given)
        # An error of the row itself takes precedence.
        if isinstance(key, DealkitError):
            call = call if isinstance(call, DealkitError) else key
            key = None
        if isinstance(call, DealkitError):
            self._refused[index] = call
            return None, key
        if self._resolve is not None:
            self._rows.setdefault(key, (index, given))
        return call, key

    def _goes_out(self, input: Any) -> bool:
        return input[0] is not None

    def _result(self, index: int, id: str | None, value: Any, record: Any) -> Creation[T]:
        agent: Any
        error: Any
        if isinstance(value, Failure):
            agent, error = None, exception(value, index=index)
        else:
            agent, error = value, None
        if index in self._unanswered:
            error.__cause__ = self._unanswered[index]
        recorded = record is not None and record[0]
        refused = self._refused.get(index)
        # The ledger may know the row's key, whatever is wrong with the row now.
        if refused is not None and not (recorded or isinstance(error, DuplicateKeyError)):
            if error is not None:
                refused.outcome = error.outcome  # An earlier run may have created it.
            error = refused
        if error is not None:
            error.index = index
        if recorded:
            if (watched := self._watched.pop(index, None)) is not None:
                watched.forget()  # Nothing was sent.
        else:
            self._unwatch(index, error)
        creation: Creation[T] = creation_of(index, id, agent, error, record)
        self._unrecorded = creation.ledger_error or self._unrecorded
        return creation

    def stop(self) -> None:
        """Takes no further rows. Those in flight still finish, so continue to iterate. A signal handler may call it."""
        self._source = None

    def _begin_to_cancel(self) -> _native.Many | None:
        """Cancels the rows in flight; returns the calls whose results are to be collected, if there are any."""
        with self._lock:
            many = self._many
            if many is not None:
                self._source = None
                inputs = self._inputs(many, is_sent=False)
                unwrap(many.cancel(inputs, self._first))
                self._forget_pushed(many)
            return many

    def _collect(self, many: _native.Many) -> bool:
        """Moves the results that have come to those of `cancel`; returns whether more are to come."""
        with self._lock:
            if self._many is None:
                return False
            while True:
                while self._ready:
                    if not isinstance(self._ready[-1], _native.Question):
                        creation = self._result(*self._ready[-1])
                        self._left[creation.index] = creation
                    del self._ready[-1]
                if many.in_flight == 0:
                    self._close()
                    return False
                unwrap(many.take(self._ready, self._is_raw))
                if not self._ready:
                    return True

    def _cancelled(self) -> list[Creation[T]]:
        """The results of `cancel`."""
        with self._lock:
            thread = get_ident()
            if thread in self._handing:  # It was interrupted on its way to the caller.
                creation = self._handing[thread]
                self._left[creation.index] = creation
                del self._handing[thread]
            return [self._left[index] for index in sorted(self._left)]

    def _hand_over(self) -> Creation[T]:
        """Hands over the next creation, or raises its error instead."""
        thread = get_ident()
        creation = self._handing[thread]
        is_raised = creation.error is not None and not self._returns_errors
        if is_raised:
            self._break_off()
        # From here on nothing is called, so no signal handler can intervene before the caller has it.
        del self._handing[thread]
        if creation.index in self._refused:
            del self._refused[creation.index]
        if creation.index in self._unanswered:
            del self._unanswered[creation.index]
        if creation.key in self._rows and self._rows[creation.key][0] == creation.index:
            del self._rows[creation.key]
        if is_raised:
            raise creation.error  # type: ignore[misc]
        return creation

    def _ask(self, question: _native.Question) -> None:
        try:
            self._answer(question, self._resolve(self._doubt(question)))  # type: ignore[misc]
        except Exception as error:
            self._fail(question, error)

    def _doubt(self, question: _native.Question) -> UnresolvedRow:
        key, sent, status, request = unwrap(question.row())
        return unresolved(key, self._rows[key][1], sent, status, request)

    def _answer(self, question: _native.Question, answer: object) -> None:
        unwrap(question.answer(*said(answer)))

    def _fail(self, question: _native.Question, error: Exception) -> None:
        # Its frames may hold what is personal.
        clear_frames(error)
        self._unanswered[self._rows[unwrap(question.row())[0]][0]] = error
        unwrap(question.answer("failed"))

    def _finish(self) -> None:
        """At the end, if errors are raised, raises the reason why the ledger lacks a result."""
        error, self._unrecorded = self._unrecorded, None
        if error is not None and not self._returns_errors:
            raise error

    def _close(self) -> None:
        super()._close()
        for asking in [*self._asking.values()]:
            asking.cancel()

    def _release(self, many: _native.Many) -> None:
        if self._key is None:
            super()._release(many)
        elif getpid() == self._process:
            unwrap(many.finish())
            self._closing = many

    def _break_off(self) -> None:
        """Takes no further rows, because an exception is about to leave. Its text begins on a line of its own."""
        self._source = None
        self._hide_progress()


class CreationIterator(_Creations[T], SyncWindow[Creation[T]]):
    """The results of ``client.agents.create_many``: exactly one ``Creation`` for each row.

    An exception stops the sending: the first error with ``on_error="raise"``, Ctrl-C, or one from the iterable. The
    rows then in flight are not lost: continue to iterate to wait for them, or call ``cancel`` to abandon them and get
    what is known about them. ``close`` and leaving a ``with`` block abandon them too; ``cancel`` then returns what is
    known. Merely dropping the iterator also abandons them, and reports nothing.
    """

    __slots__ = ()

    @sealed
    def cancel(self) -> list[Creation[T]]:
        """Abandons the rows in flight, ends the iterator, and returns the rows taken but not yet returned, by index.

        If the response had arrived, the result has the agent, or the service's error. Otherwise ``outcome`` says how
        far the create got: ``not_sent`` or ``rejected`` if there is certainly no agent, ``unknown`` if there may be
        one: find out before you send it again.

        It waits until the ledger, if there is one, has what is known of each row. You can call it again, even after ``close``, with
        the same result.
        """
        many = self._begin_to_cancel()
        while many is not None and self._collect(many):
            unwrap(wait_cooperatively(many.wait))
        self._wait_for_end()
        return self._cancelled()

    def _end(self) -> None:
        """Cancels the rows in flight, if they are this process's."""
        if getpid() == self._process:
            self.cancel()


class AsyncCreationIterator(_Creations[T], AsyncWindow[Creation[T]]):
    """The results of ``client.agents.create_many``: exactly one ``Creation`` for each row.

    An exception stops the sending: the first error with ``on_error="raise"``, cancellation of the task, or one from the
    iterable. The rows then in flight are not lost: continue to iterate to wait for them, or call ``cancel`` to abandon
    them and get what is known about them. ``aclose`` and leaving an ``async with`` block abandon them too; ``cancel``
    then returns what is known. Merely dropping the iterator also abandons them, and reports nothing.
    """

    __slots__ = ()

    async def cancel(self) -> list[Creation[T]]:
        """Abandons the rows in flight, ends the iterator, and returns the rows taken but not yet returned, by index.

        If the response had arrived, the result has the agent, or the service's error. Otherwise ``outcome`` says how
        far the create got: ``not_sent`` or ``rejected`` if there is certainly no agent, ``unknown`` if there may be
        one: find out before you send it again.

        It waits until the ledger, if there is one, has what is known of each row, without blocking the event loop. You can call it
        again, even after ``aclose`` or if its task was cancelled, with the same result.
        """
        try:
            many = self._begin_to_cancel()
            while many is not None and self._collect(many):
                await self._news(many)
            await self._await_end()
            return self._cancelled()
        except BaseException as error:
            clear(error)
            raise

    async def _end_async(self) -> None:
        """Cancels the rows in flight, if they are this process's."""
        if getpid() == self._process:
            await self.cancel()

    def _ask(self, question: _native.Question) -> None:
        from asyncio import ensure_future

        if question not in self._asking:
            self._asking[question] = ensure_future(self._asked(question))

    async def _asked(self, question: _native.Question) -> None:
        try:
            answer: Any = self._resolve(self._doubt(question))  # type: ignore[misc]
            self._answer(question, await answer if hasattr(answer, "__await__") else answer)
        except Exception as error:
            self._fail(question, error)
        except BaseException:
            # It was cancelled: the row stays unknown.
            unwrap(question.answer("failed"))
            raise
        finally:
            del self._asking[question]


def _checked_rows(rows: Any) -> tuple[Iterator[Any], int | None]:
    """The iterator of the rows, and their number, if it is known."""
    kind = type(rows).__name__
    if isinstance(rows, Mapping):
        raise TypeError(f"rows must be an iterable of mappings, not a {kind}; for one agent use create()")
    if hasattr(rows, "columns"):
        # A data frame, which would iterate over its columns.
        how = 'its rows are to_dict("records") in pandas, and to_dicts() in polars'
        raise TypeError(f"rows must be an iterable of mappings, not a {kind}; {how}")
    if isinstance(rows, str | bytes) or not hasattr(rows, "__iter__"):
        raise TypeError(f"rows must be an iterable of mappings, not {kind}")
    return iter(rows), len(rows) if isinstance(rows, Sized) else None


def _checked_path(ledger: Any, key: Any, resend_unknown: Any, resolve: Any, wait_in_flight: Any) -> str | None:
    """The ledger's path, once everything that a ledger needs is known to be given and valid."""
    if resolve is not None and not callable(resolve):
        raise TypeError(f"resolve must be a function of an UnresolvedRow, not {type(resolve).__name__}")
    if resolve is not None and resend_unknown:
        raise TypeError(
            "resolve and resend_unknown exclude each other: resolve says of each row whether it is sent again"
        )
    if ledger is None:
        needing = {"key": key, "resend_unknown": resend_unknown, "resolve": resolve, "wait_in_flight": wait_in_flight}
        for name, value in needing.items():
            if value:
                raise TypeError(f"{name} needs a ledger: name its file with ledger=")
        return None
    if key is None:
        raise TypeError('with a ledger each row needs a key: name its field with key=, such as key="email"')
    return file_path("ledger", ledger)


def _call(row: Any, validate: bool) -> _native.Call | DealkitError:
    """The call that creates the agent of a row, or why the row cannot be sent."""
    # The same condition as for `create(**row)`.
    if not hasattr(type(row), "keys"):
        return _invalid(f"must be a mapping, not {type(row).__name__}")
    try:
        given = {**row}
    except Exception as error:
        if type(row) is dict:
            raise  # A dict runs no code of its own: a signal handler has raised this.
        return _unreadable(error)
    call = try_create_call(given, validate)
    if isinstance(call, Failure):
        refusal = exception(call)
        return refusal if isinstance(refusal, ValidationError) else _invalid(str(refusal))
    return _unreadable(call) if isinstance(call, Exception) else call


def _unreadable(error: Exception) -> ValidationError:
    """The error for an exception that a row's own code has raised: its text and its frames may be personal."""
    clear_frames(error)
    refusal = _invalid(f"cannot be read: {type(error).__name__}")
    refusal.__cause__ = error
    return refusal


def _invalid(detail: str) -> ValidationError:
    violation = Violation("", "wrong_type", detail)
    return ValidationError(f"the request breaks the rules: {violation}", errors=(violation,))
