"""The iterators of ``create_many``."""

from __future__ import annotations

from _thread import get_ident
from collections.abc import Mapping, Sized
from os import getpid
from sys import maxsize
from typing import TYPE_CHECKING, Any, TypeVar
from warnings import warn

from dealkit import _native
from dealkit._bulk.callbacks import Resolver, check_resolve, key_function, make_key, make_label
from dealkit._bulk.creation import CreationOfRow, make_creation
from dealkit._bulk.progress import make_display
from dealkit._bulk.table_rows import iterate_table
from dealkit._bulk.window import AsyncWindow, SyncWindow, Window, check_arguments
from dealkit._calls.session import native_options
from dealkit._core.arguments import check_bools, file_path
from dealkit._core.errors import clear_frames, clear_own_frames, make_exception, sealed, unwrap
from dealkit._core.threads import wait_cooperatively
from dealkit._models.agent_request import try_create_call
from dealkit._native import Failure
from dealkit._observe.log import find_stack_level
from dealkit.exceptions import (
    DealkitError,
    DuplicateKeyError,
    IdempotencyKeyReusedWarning,
    ValidationError,
    Violation,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator

    from dealkit._bulk.callbacks import Resolve
    from dealkit._bulk.progress import Progress
    from dealkit._calls.session import Session
    from dealkit._core.options import CallOptions

T = TypeVar("T")


class _CreationIteratorBase(Window[CreationOfRow[T]]):
    """The common base class of CreationIterator and AsyncCreationIterator."""

    __slots__ = (
        "_cancelled_creations",
        "_has_warned",
        "_key_function",
        "_key_name",
        "_label_function",
        "_ledger_error",
        "_rejections",
        "_resolve_tasks",
        "_resolver",
        "_validate",
    )

    _key_function: Callable[[Any], object] | None
    _label_function: Callable[[Any], object] | None
    _resolver: Resolver | None

    def __init__(
        self,
        session: Session,
        rows: Any,
        *,
        ledger: Any,
        key: str | Callable[[Any], str] | None,
        label: Callable[[Any], str | None] | None,
        resend_unknown: bool,
        resend_corrected: bool,
        resolve: Resolve | None,
        wait_in_flight: bool,
        validate: bool,
        concurrency: int,
        ordered: bool,
        on_error: str,
        progress: Progress,
        options: CallOptions,
        raw: bool,
    ) -> None:
        source, total = _check_rows(rows)
        path = _check_ledger_arguments(
            ledger,
            key,
            label,
            resolve,
            resend_unknown=resend_unknown,
            resend_corrected=resend_corrected,
            wait_in_flight=wait_in_flight,
        )
        check_arguments(concurrency, ordered, on_error)
        check_bools(validate=validate)
        self._key_function, self._key_name = key_function(key)
        self._label_function = label
        ledger_options: _native.LedgerOptions | None = None
        if path is not None:
            ledger_options = unwrap(
                _native.ledger_options(
                    ledger=path,
                    key_name=self._key_name,
                    resend_unknown=resend_unknown,
                    resend_corrected=resend_corrected,
                    resolve=resolve is not None,
                    wait_in_flight=wait_in_flight,
                )
            )
        calls = unwrap(
            session.require_client().create_many(
                ordered=ordered,
                concurrency=min(concurrency, maxsize),
                options=native_options(options),
                ledger=ledger_options,
            )
        )
        call: Any = try_create_call({}, False)
        attributes = session.describe(call)
        super().__init__(source, calls=calls, attributes=attributes, on_error=on_error, raw=raw)
        self._validate = validate
        # The error of the latest result that could not be written to the ledger.
        self._ledger_error: DealkitError | None = None
        # Errors of rows that are not sent, by index, until the caller has the rows' results.
        self._rejections: dict[int, DealkitError] = {}
        # Results of `cancel`, by index.
        self._cancelled_creations: dict[int, CreationOfRow[T]] = {}
        # True once the job has warned of a changed row.
        self._has_warned = False
        self._resolver = None if resolve is None else Resolver(resolve)
        # Tasks that call `resolve` on an event loop, by the request of native code that they answer.
        self._resolve_tasks: dict[_native.ResolveRequest, asyncio.Future[None]] = {}
        self._progress = make_display(progress, total, "agent")

    def _make_input(self, index: int, caller_input: Any) -> _native.Call | _native.CreateRow:
        call: Any = _make_call(caller_input, self._validate)
        key: Any = None
        if self._key_function is not None:
            key = make_key(self._key_function, self._key_name, caller_input)
        label: Any = None
        if self._label_function is not None:
            label = make_label(self._label_function, caller_input)
        # An error of the row itself takes precedence over an error of its key, and that one over an error of its label.
        if isinstance(key, DealkitError):
            call = call if isinstance(call, DealkitError) else key
            key = None
        if isinstance(label, DealkitError):
            call = call if isinstance(call, DealkitError) else label
            label = None
        if isinstance(call, DealkitError):
            self._rejections[index] = call
            call = None
        elif key is None:
            return call
        elif self._resolver is not None:
            self._resolver.rows_by_key.setdefault(key, (index, caller_input))
        return _native.create_row(call=call, idempotency_key=key, label=label)

    def _is_sent(self, index: int) -> bool:
        return index not in self._rejections

    def _make_result(self, result: _native.BulkResult) -> CreationOfRow[T]:
        index, value = result.index, result.value
        agent: Any
        error: Any
        if isinstance(value, Failure):
            agent, error = None, make_exception(value, index=index)
        else:
            agent, error = value, None
        if self._resolver is not None and index in self._resolver.errors:
            error.__cause__ = self._resolver.errors[index]
        record = result.ledger_record
        is_earlier = record is not None and record.is_earlier
        rejection = self._rejections.get(index)
        # A result that the ledger has for the row's key takes precedence over an error of the row itself.
        if rejection is not None and not (is_earlier or isinstance(error, DuplicateKeyError)):
            if error is not None:
                rejection.outcome = error.outcome  # An earlier run may have created the agent.
            error = rejection
        if error is not None:
            error.index = index
        if is_earlier:
            if (observer := self._observers.pop(index, None)) is not None:
                observer.discard()  # Nothing was sent.
        else:
            self._end_observer(index, error)
        creation: Any = make_creation(result, agent, error)
        self._ledger_error = creation.ledger_error or self._ledger_error
        return creation  # type: ignore[no-any-return]

    def stop(self) -> None:
        """Takes no further rows. Rows in flight still finish: continue to iterate for their results. A signal handler
        may call this method.
        """
        self._source = None

    def _start_cancel(self) -> _native.BulkCalls | None:
        """Cancels the rows in flight. Returns the calls whose results must be collected, or None if the iterator is
        closed."""
        with self._lock:
            calls = self._calls
            if calls is not None:
                self._source = None
                inputs, _ = self._make_inputs(calls, are_sent=False)
                unwrap(calls.cancel(inputs, first_index=self._first_index))
                self._forget_pushed_inputs(calls)
            return calls

    def _collect_cancelled_results(self, calls: _native.BulkCalls) -> bool:
        """Moves ready results to ``_cancelled_creations``. Returns whether more results will arrive."""
        with self._lock:
            if self._calls is None:
                return False
            while True:
                while self._ready_results:
                    if not isinstance(self._ready_results[-1], _native.ResolveRequest):
                        creation = self._make_result(self._ready_results[-1])
                        self._cancelled_creations[creation.index] = creation
                    del self._ready_results[-1]
                if calls.in_flight == 0:
                    self._close()
                    return False
                unwrap(calls.take(self._ready_results, raw=self._is_raw))
                if not self._ready_results:
                    return True

    def _list_cancelled_results(self) -> list[CreationOfRow[T]]:
        """Returns the results of ``cancel``, in the order of their rows."""
        with self._lock:
            thread = get_ident()
            if thread in self._outgoing_results:  # A signal handler has interrupted its handover to the caller.
                creation = self._outgoing_results[thread]
                self._cancelled_creations[creation.index] = creation
                del self._outgoing_results[thread]
            return [self._cancelled_creations[index] for index in sorted(self._cancelled_creations)]

    def _hand_over(self) -> CreationOfRow[T]:
        thread = get_ident()
        creation = self._outgoing_results[thread]
        if creation.request_differs and creation.error is None and not self._has_warned:
            self._has_warned = True
            _warn_of_changed_row(creation.index)
        is_raised = creation.error is not None and not self._returns_errors
        if is_raised:
            self._stop_on_exception()
        # Signal handlers run only at function calls. The remaining lines call no function, so the caller gets the
        # result.
        del self._outgoing_results[thread]
        if creation.index in self._rejections:
            del self._rejections[creation.index]
        if self._resolver is not None:
            rows_by_key, errors = self._resolver.rows_by_key, self._resolver.errors
            if creation.index in errors:
                del errors[creation.index]
            if creation.key in rows_by_key and rows_by_key[creation.key][0] == creation.index:
                del rows_by_key[creation.key]
        if is_raised:
            raise creation.error  # type: ignore[misc]
        return creation

    def _resolve_row(self, request: _native.ResolveRequest) -> None:
        self._resolver.resolve_row(request)  # type: ignore[union-attr]

    def _raise_last_error(self) -> None:
        """With ``on_error="raise"``, raises the error of a result that could not be written to the ledger."""
        error, self._ledger_error = self._ledger_error, None
        if error is not None and not self._returns_errors:
            raise error

    def _close(self) -> None:
        super()._close()
        for task in [*self._resolve_tasks.values()]:
            task.cancel()

    def _release_calls(self, calls: _native.BulkCalls) -> None:
        if self._key_function is None:
            super()._release_calls(calls)
        elif getpid() == self._process_id:
            # There is a ledger: native code still records the outcomes of the rows in flight, and then closes the
            # ledger.
            unwrap(calls.finish())
            self._closing_calls = calls

    def _stop_on_exception(self) -> None:
        # Calls in flight continue. Ends the progress line, so that the traceback begins on a new line.
        self._source = None
        self._hide_progress()


class CreationIterator(_CreationIteratorBase[T], SyncWindow[CreationOfRow[T]]):
    """The results of ``client.agents.create_many``: one ``Creation`` for each row that the job takes.

    An exception stops the job from sending more rows: the first error with ``on_error="raise"``, Ctrl-C, or an
    exception of the iterable. The rows in flight at that time are not lost. Continue to iterate to wait for them, or
    call ``cancel`` to abandon them and get their known outcomes. ``close`` and the end of a ``with`` block also abandon
    them; ``cancel`` then still returns the known outcomes. If you drop the iterator without any of these calls, the
    rows in flight are abandoned, and no outcomes are reported.
    """

    __slots__ = ()

    @sealed
    def cancel(self) -> list[CreationOfRow[T]]:
        """Abandons the rows in flight, ends the iterator, and returns the rows taken but not yet returned, by index.

        If the response to a row has arrived, the row's result has the agent or the service's error. Otherwise
        ``outcome`` says whether the agent exists. ``not_sent`` and ``rejected`` mean that there is certainly no agent.
        ``unknown`` means that there may be an agent: look it up before you send the row again.

        With a ledger, ``cancel`` waits until the ledger has the outcome of each row. You can call ``cancel`` again,
        even after ``close``, with the same result.
        """
        calls = self._start_cancel()
        while calls is not None and self._collect_cancelled_results(calls):
            unwrap(wait_cooperatively(calls.wait))
        self._wait_for_end()
        return self._list_cancelled_results()

    def _end(self) -> None:
        """Cancels the rows in flight, except in a forked child: they belong to its parent."""
        if getpid() == self._process_id:
            self.cancel()


class AsyncCreationIterator(_CreationIteratorBase[T], AsyncWindow[CreationOfRow[T]]):
    """The results of ``client.agents.create_many``: one ``Creation`` for each row that the job takes.

    An exception stops the job from sending more rows: the first error with ``on_error="raise"``, cancellation of the
    task, or an exception of the iterable. The rows in flight at that time are not lost. Continue to iterate to wait for
    them, or call ``cancel`` to abandon them and get their known outcomes. ``aclose`` and the end of an ``async with``
    block also abandon them; ``cancel`` then still returns the known outcomes. If you drop the iterator without any of
    these calls, the rows in flight are abandoned, and no outcomes are reported.
    """

    __slots__ = ()

    async def cancel(self) -> list[CreationOfRow[T]]:
        """Abandons the rows in flight, ends the iterator, and returns the rows taken but not yet returned, by index.

        If the response to a row has arrived, the row's result has the agent or the service's error. Otherwise
        ``outcome`` says whether the agent exists. ``not_sent`` and ``rejected`` mean that there is certainly no agent.
        ``unknown`` means that there may be an agent: look it up before you send the row again.

        With a ledger, ``cancel`` waits until the ledger has the outcome of each row, without blocking the event loop.
        You can call ``cancel`` again, even after ``aclose`` or if its task was cancelled, with the same result.
        """
        try:
            calls = self._start_cancel()
            while calls is not None and self._collect_cancelled_results(calls):
                await self._wait_for_event(calls)
            await self._wait_for_end_async()
            return self._list_cancelled_results()
        except BaseException as error:
            clear_own_frames(error)
            raise

    async def _end_async(self) -> None:
        """Cancels the rows in flight, except in a forked child: they belong to its parent."""
        if getpid() == self._process_id:
            await self.cancel()

    def _resolve_row(self, request: _native.ResolveRequest) -> None:
        from asyncio import ensure_future

        if request not in self._resolve_tasks:
            self._resolve_tasks[request] = ensure_future(self._resolve_row_async(request))

    async def _resolve_row_async(self, request: _native.ResolveRequest) -> None:
        try:
            await self._resolver.resolve_row_async(request)  # type: ignore[union-attr]
        finally:
            del self._resolve_tasks[request]


def _check_rows(rows: Any) -> tuple[Iterator[Any], int | None]:
    """Checks the rows. Returns their iterator, and the number of rows, or None if it is unknown."""
    kind = type(rows).__name__
    if isinstance(rows, Mapping):
        raise TypeError(f"rows must be an iterable of mappings, not a {kind}; for one agent use create()")
    # Iterating over a data frame would yield its columns instead of its rows. The results of SQLAlchemy, which are iterables
    # of mappings, have a method with this name.
    columns = getattr(type(rows), "columns", None)
    if columns is not None and not callable(columns):
        table_rows = iterate_table(rows)
        if table_rows is None:
            raise TypeError(
                f"rows must be an iterable of mappings, or a data frame of polars or pandas, or a table of pyarrow, not a {kind}"
                f"{'; collect() it first' if hasattr(rows, 'collect') else ''}"
            )
        return table_rows, len(rows)
    if isinstance(rows, str | bytes) or not hasattr(rows, "__iter__"):
        raise TypeError(f"rows must be an iterable of mappings, not {kind}")
    return iter(rows), len(rows) if isinstance(rows, Sized) else None


def _warn_of_changed_row(index: int) -> None:
    message = (
        f"the agent of row {index} was created earlier from other data; the change was not sent. Further such rows of this "
        "job are not reported here: see request_differs of their results"
    )
    warn(message, IdempotencyKeyReusedWarning, stacklevel=find_stack_level())


def _check_ledger_arguments(ledger: Any, key: Any, label: Any, resolve: Any, **flags: Any) -> str | None:
    """Checks the arguments that concern a ledger. Returns the path or URL of the ledger, or None without one."""
    check_resolve(resolve, resend_unknown=flags["resend_unknown"])
    if label is not None and not callable(label):
        raise TypeError(f"label must be a function of a row, not {type(label).__name__}")
    if ledger is None:
        for name, value in {"key": key, "label": label, "resolve": resolve, **flags}.items():
            if value:
                raise TypeError(f"{name} needs a ledger: name its file with ledger=")
        return None
    check_bools(**flags)
    if key is None:
        raise TypeError('with a ledger each row needs a key: name its field with key=, such as key="email"')
    return file_path("ledger", ledger)


def _make_call(row: Any, validate: bool) -> _native.Call | DealkitError:
    """Makes the call that creates the agent of a row. Returns the error of an invalid row."""
    # Like `create(**row)`, accepts every object with the method `keys`.
    if not hasattr(type(row), "keys"):
        return _make_row_error(f"must be a mapping, not {type(row).__name__}")
    try:
        arguments = {**row}
    except Exception as error:
        if type(row) is dict:
            raise  # Copying a dict runs no code of the caller, so a signal handler has raised the exception.
        return _make_unreadable_error(error)
    call = try_create_call(arguments, validate)
    if isinstance(call, Failure):
        rejection = make_exception(call)
        return rejection if isinstance(rejection, ValidationError) else _make_row_error(str(rejection))
    return _make_unreadable_error(call) if isinstance(call, Exception) else call


def _make_unreadable_error(cause: Exception) -> ValidationError:
    """Makes the error of a row whose own code has raised ``cause``. Clears the frames of ``cause``: they may contain
    personal data.
    """
    clear_frames(cause)
    error = _make_row_error(f"cannot be read: {type(cause).__name__}")
    error.__cause__ = cause
    return error


def _make_row_error(detail: str) -> ValidationError:
    violation = Violation("", "wrong_type", detail)
    return ValidationError(f"the request breaks the rules: {violation}", errors=(violation,))
