"""The base classes of the iterators of ``retrieve_many`` and ``create_many``. They limit the number of calls in
flight."""

from __future__ import annotations

import sys
from _thread import RLock, get_ident
from itertools import islice
from os import getpid
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from dealkit import _native
from dealkit._calls.key_provider import answer_queued_requests
from dealkit._core.arguments import check_bools, check_int, check_on_error
from dealkit._core.closing import AsyncClosable, Closable
from dealkit._core.errors import clear_own_frames, unwrap
from dealkit._core.threads import wait_cooperatively
from dealkit._observe.observer import CallObserver, may_be_observed, observe_call

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dealkit._bulk.progress import Display

R = TypeVar("R")

# The maximum number of inputs that are passed to native code together, because passing several costs as much as passing
# one. A small window passes an eighth of its capacity.
_MAX_BATCH = 32


def check_arguments(concurrency: int, ordered: bool, on_error: str) -> None:
    """Checks the arguments of every bulk job."""
    check_int("concurrency", concurrency, 1)
    check_bools(ordered=ordered)
    check_on_error(on_error)


class Window(Generic[R]):
    """Takes inputs from the caller's iterator, makes a bounded number of calls at a time, and hands their results to
    the caller.

    Nothing is lost if a signal handler raises an exception. A signal handler can run wherever a function is called or
    has just returned, but not between two lines that call no function. An object that moves from one container to
    another therefore stays in the first until it is in the second. An input stays in ``_taken_inputs`` until native
    code has accepted it. A result stays in ``_ready_results`` or ``_outgoing_results`` until the caller has it.
    """

    __slots__ = (
        "_attributes",
        "_batch_size",
        "_calls",
        "_closing_calls",
        "_first_index",
        "_outgoing_results",
        "_is_raw",
        "_is_taking",
        "_lock",
        "_observers",
        "_process_id",
        "_progress",
        "_ready_results",
        "_row_requests",
        "_returns_errors",
        "_source",
        "_taken_inputs",
    )

    _source: Iterator[Any] | None
    _calls: _native.BulkCalls | None

    def __init__(
        self,
        source: Iterator[Any],
        *,
        calls: _native.BulkCalls,
        attributes: dict[str, Any],
        on_error: str,
        raw: bool,
    ) -> None:
        # The caller's iterator of inputs. None after its end, or if no more inputs are wanted.
        self._source = source
        # The native calls of the job. None if the window is closed.
        self._calls = calls
        # Several threads may take results. The lock is reentrant, because the caller's iterator may itself use this
        # window.
        self._lock = RLock()
        self._batch_size = min(max(calls.capacity // 8, 1), _MAX_BATCH)
        # Inputs that the window has taken and native code has not accepted yet, and the index of the first of these
        # inputs.
        self._taken_inputs: list[Any] = []
        self._first_index = 0
        # True while the caller's iterator is running.
        self._is_taking = False
        # Results of native code, and its requests to resolve rows. The last item is the next to be handled.
        self._ready_results: list[Any] = []
        # Results that are being handed to the caller, by the id of the caller's thread.
        self._outgoing_results: dict[int, R] = {}
        # Requests to resolve a row, by the id of the thread that calls `resolve` for it.
        self._row_requests: dict[int, _native.ResolveRequest] = {}
        # Calls whose ledger is being closed.
        self._closing_calls: _native.BulkCalls | None = None
        self._process_id = getpid()
        self._returns_errors = on_error == "return"
        self._is_raw = raw
        self._progress: Display | None = None
        # The OpenTelemetry attributes of each call.
        self._attributes = attributes
        # Observers of the calls in flight, by index.
        self._observers: dict[int, CallObserver] = {}

    def _make_input(self, index: int, caller_input: Any) -> Any:
        """Converts an input of the caller to an input of native code."""
        return caller_input

    def _is_sent(self, index: int) -> bool:
        """Returns whether the call of this input is sent. Calls of invalid inputs are not sent."""
        return True

    def _make_result(self, result: _native.BulkResult) -> R:
        """Converts a result of native code to a result for the caller."""
        raise NotImplementedError

    def _hand_over(self) -> R:
        """Returns the result of this thread in ``_outgoing_results`` to the caller, or raises the result's error."""
        raise NotImplementedError

    def _resolve_row(self, request: _native.ResolveRequest) -> None:
        """Calls the caller's function ``resolve`` for a row."""

    def _raise_last_error(self) -> None:
        """Called after the last result: raises an error that no result has reported, if there is one."""

    def _stop_on_exception(self) -> None:
        """Stops the job because the iterator raises an exception."""
        self._close()

    def _end(self) -> None:
        """Implements ``close`` and the end of a ``with`` block."""
        self._close()

    def _advance(self) -> _native.BulkCalls | None:
        """Sends inputs and prepares this thread's next result.

        Returns the calls to wait for, or None if the result is in ``_outgoing_results`` or there are no more results.
        """
        thread = get_ident()
        while True:
            if thread not in self._row_requests:
                calls = self._take_ready(thread)
                if thread not in self._row_requests:
                    return calls
            # Does not hold the lock: the function `resolve` may take long, or hang, and meanwhile another thread may
            # cancel the job. If `resolve` raises, the next call of this method calls it again.
            self._resolve_row(self._row_requests[thread])
            del self._row_requests[thread]

    def _take_ready(self, thread: int) -> _native.BulkCalls | None:
        """Like ``_advance``, but does not call ``resolve``: moves a request to resolve a row to ``_row_requests``."""
        with self._lock:
            calls = self._calls
            # If there is a result already, a signal handler has interrupted its handover to the caller.
            if calls is None or thread in self._outgoing_results:
                return None
            self._fill_window(calls)
            while (
                not self._ready_results
                or isinstance(self._ready_results[-1], _native.ResolveRequest)
                or getpid() != self._process_id
            ):
                if self._ready_results and isinstance(self._ready_results[-1], _native.ResolveRequest):
                    self._row_requests[thread] = self._ready_results[-1]
                    del self._ready_results[-1]
                    return None
                if calls.in_flight == 0 and not self._ready_results:
                    if not self._is_taking:
                        self._close()
                    return None
                # `take` fails in a forked child: only the parent process may deliver the results.
                unwrap(calls.take(self._ready_results, raw=self._is_raw))
                if not self._ready_results:
                    return calls
            # `_make_result` may run a logging filter, which may close this window and so replace `_ready_results`.
            ready = self._ready_results
            result = self._make_result(ready[-1])
            self._outgoing_results[thread] = result
            del ready[-1]
            if self._progress is not None:
                self._progress.advance()
            return None

    def _fill_window(self, calls: _native.BulkCalls) -> None:
        """Sends inputs until the window is full."""
        while True:
            if self._taken_inputs:
                self._push_inputs(calls)
            if calls.has_stopped:
                self._source = None
            free = calls.capacity - calls.in_flight - len(self._ready_results)
            if self._source is None or free < self._batch_size:
                return
            self._take_inputs(self._source)

    def _take_inputs(self, source: Iterator[Any]) -> None:
        """Takes a batch of inputs from the caller's iterator."""
        count = 0
        was_taking, self._is_taking = self._is_taking, True
        try:
            for caller_input in islice(source, self._batch_size):
                self._taken_inputs.append(caller_input)
                count += 1
        finally:
            self._is_taking = was_taking
        if count < self._batch_size:
            self._source = None

    def _push_inputs(self, calls: _native.BulkCalls) -> None:
        """Sends the inputs in ``_taken_inputs``."""
        inputs, traces = self._make_inputs(calls)
        unwrap(calls.push(inputs, traces=traces, first_index=self._first_index))
        self._forget_pushed_inputs(calls)

    def _make_inputs(
        self, calls: _native.BulkCalls, *, are_sent: bool = True
    ) -> tuple[list[Any], list[_native.CallTrace | None] | None]:
        """Converts the inputs in ``_taken_inputs`` for native code. Also returns the trace of each input, if calls are
        observed."""
        while True:
            self._forget_pushed_inputs(calls)
            first = self._first_index
            inputs = [
                self._make_input(index, caller_input) for index, caller_input in enumerate(self._taken_inputs[:], first)
            ]
            traces = None
            if are_sent and may_be_observed():
                indices = range(first, first + len(inputs))
                traces = [self._observe_call(index) if self._is_sent(index) else None for index in indices]
            # Both steps may run code of the caller, and that code may use this window. If it has pushed inputs, start
            # again.
            if calls.pushed == first:
                return inputs, traces

    def _forget_pushed_inputs(self, calls: _native.BulkCalls) -> None:
        """Removes the inputs that native code has accepted from ``_taken_inputs``."""
        pushed = calls.pushed
        del self._taken_inputs[: pushed - self._first_index]
        self._first_index = pushed

    def _observe_call(self, index: int) -> _native.CallTrace | None:
        """Makes the observer of the call with this index, unless the call has one already. Returns its trace."""
        observer = self._observers.get(index) or observe_call(lambda: self._attributes)
        if isinstance(observer, CallObserver):
            self._observers[index] = observer
        return observer.trace

    def _end_observer(self, index: int, error: Exception | None) -> None:
        if self._observers and (observer := self._observers.pop(index, None)) is not None:
            observer.end(error)

    def _flush_observers(self) -> None:
        for observer in [*self._observers.values()]:
            observer.flush()

    def _hide_progress(self) -> None:
        progress, self._progress = self._progress, None
        if progress is not None:
            progress.end()

    def _close(self) -> None:
        with self._lock:
            calls, self._calls, self._source = self._calls, None, None
            self._taken_inputs, self._ready_results = [], []
        if calls is not None:
            self._release_calls(calls)
            while self._observers:
                self._observers.popitem()[1].end(None)
            self._hide_progress()

    def _release_calls(self, calls: _native.BulkCalls) -> None:
        """Aborts calls whose results are no longer wanted."""
        calls.close()

    def __repr__(self) -> str:
        calls, name = getattr(self, "_calls", None), type(self).__name__
        if calls is None:
            return f"<{name}: ended>"
        in_flight = calls.in_flight + len(self._ready_results)
        return f"<{name}: {calls.pushed - in_flight} done, {in_flight} in flight>"

    def __del__(self) -> None:
        # If the constructor has raised an error, there are no attributes.
        if getattr(self, "_calls", None) is not None and not sys.is_finalizing():
            # Aborts the calls in flight, and does not wait until the ledger is closed.
            self._calls.close()  # type: ignore[union-attr]
            self._close()


class SyncWindow(Window[R], Closable):
    """A window for ``for`` loops."""

    __slots__ = ()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> R:
        try:
            while (calls := self._advance()) is not None:
                # Waits in short steps. Between the steps, signal handlers run, and another thread may take the last
                # result.
                answer_queued_requests()
                unwrap(wait_cooperatively(calls.wait))
                self._flush_observers()
            if get_ident() in self._outgoing_results:
                return self._hand_over()
            self._wait_for_end()
            self._raise_last_error()
        except BaseException as error:
            self._stop_on_exception()
            clear_own_frames(error)
            raise
        raise StopIteration

    def _wait_for_end(self) -> None:
        """Waits until the ledger is closed, so that the next job, or a forked child, can open it."""
        while (calls := self._closing_calls) is not None:
            if wait_cooperatively(calls.wait_for_end):
                self._closing_calls = None


class AsyncWindow(Window[R], AsyncClosable):
    """A window for ``async for`` loops."""

    __slots__ = ()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> R:
        try:
            while (calls := self._advance()) is not None:
                await self._wait_for_event(calls)
            if get_ident() in self._outgoing_results:
                return self._hand_over()
            await self._wait_for_end_async()
            self._raise_last_error()
        except BaseException as error:
            self._stop_on_exception()
            clear_own_frames(error)
            raise
        raise StopAsyncIteration

    async def _wait_for_end_async(self) -> None:
        """Waits until the ledger is closed, so that the next job, or a forked child, can open it."""
        from dealkit._calls.event_loop import wait_for

        while (calls := self._closing_calls) is not None:
            if calls.has_ended:
                self._closing_calls = None
            else:
                await wait_for(calls.notify_end, None)

    async def _wait_for_event(self, calls: _native.BulkCalls) -> None:
        """Waits until there is a result, or a request to resolve a row."""
        from dealkit._calls.event_loop import wait_for

        await wait_for(calls.notify, self._flush_observers if self._observers else None)
