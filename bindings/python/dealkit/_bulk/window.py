"""Many calls, a bounded number at a time: the common part of the iterators of ``retrieve_many`` and ``create_many``."""

from __future__ import annotations

import sys
from _thread import RLock, get_ident
from itertools import islice
from os import getpid
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from dealkit import _native
from dealkit._calls.key_provider import ask_here
from dealkit._core.arguments import check_bools, check_int, check_on_error
from dealkit._core.closing import AsyncClosing, Closing
from dealkit._core.failure import unwrap
from dealkit._core.private import clear
from dealkit._core.threads import wait_cooperatively
from dealkit._observe import watch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dealkit._bulk.progress import Display

    # What the ledger says about a result; see Many.take.
    _Record = tuple[bool, str | None, int | None, _native.Failure | None]

R = TypeVar("R")

# How many calls are sent at a time, or an eighth of those that may be in flight if that is fewer: sending one costs
# as much as sending several.
_AT_A_TIME = 32


def check_arguments(concurrency: int, ordered: bool, on_error: str) -> None:
    """Refuses arguments with which no job can begin."""
    check_int("concurrency", concurrency, 1)
    check_bools(ordered=ordered)
    check_on_error(on_error)


class Window(Generic[R]):
    """Inputs go in, results come out, with a bounded number in between.

    A signal handler may run, and raise, wherever a function is called or has just returned. So that nothing is lost
    then, whatever moves from one place to the next is in both until it has arrived: an input taken from the caller's
    iterator stays in ``_taken`` until the native half has counted it, and a result stays in ``_ready`` or
    ``_handing`` until the caller has it. No handler runs between two lines that call nothing.
    """

    __slots__ = (
        "_being_asked",
        "_at_a_time",
        "_closing",
        "_description",
        "_first",
        "_handing",
        "_is_raw",
        "_is_taking",
        "_lock",
        "_many",
        "_process",
        "_progress",
        "_ready",
        "_returns_errors",
        "_source",
        "_taken",
        "_watched",
    )

    _source: Iterator[Any] | None
    _many: _native.Many | None

    def __init__(
        self,
        source: Iterator[Any],
        many: _native.Many,
        description: Any,
        on_error: str,
        raw: bool,
    ) -> None:
        self._source = source
        self._many = many
        # Several threads may take results. The same thread may come here again, from the caller's iterator of inputs.
        self._lock = RLock()
        self._at_a_time = min(max(many.held // 8, 1), _AT_A_TIME)
        # The inputs that were taken from the iterator and are not in flight yet, and the index of the first.
        self._taken: list[Any] = []
        self._first = 0
        # Whether an input is being taken: the iterator itself may come here.
        self._is_taking = False
        # The results that have come and were read, the next one last.
        self._ready: list[Any] = []
        # The results on their way to the caller, by thread.
        self._handing: dict[int, R] = {}
        # The questions that threads are asking the program, by thread.
        self._being_asked: dict[int, _native.Question] = {}
        # The calls whose ledger is being closed.
        self._closing: _native.Many | None = None
        self._process = getpid()
        self._returns_errors = on_error == "return"
        self._is_raw = raw
        self._progress: Display | None = None
        self._description = description
        # The watched calls in flight, by index.
        self._watched: dict[int, watch.Watched] = {}

    def _input(self, index: int, given: Any) -> Any:
        """The input of the native half for what the caller gave."""
        return given

    def _goes_out(self, input: Any) -> bool:
        """Whether a call is made for an input of the native half."""
        return True

    def _result(self, index: int, id: str | None, value: Any, record: _Record | None) -> R:
        """The result for the caller."""
        raise NotImplementedError

    def _hand_over(self) -> R:
        """Hands over this thread's next result, or raises its error instead."""
        raise NotImplementedError

    def _ask(self, question: _native.Question) -> None:
        """Asks the program about an unresolved row."""

    def _finish(self) -> None:
        """Raises what is still to be raised once nothing is left."""

    def _break_off(self) -> None:
        """What an exception that is about to leave ends."""
        self._close()

    def _end(self) -> None:
        """What `close` and the end of a `with` block do."""
        self._close()

    def _next(self) -> _native.Many | None:
        """Sends the next inputs. Returns the calls to wait for, or None once this thread's next result is in
        ``_handing``, or nothing is left.
        """
        thread = get_ident()
        while True:
            if thread not in self._being_asked:
                many = self._take_next(thread)
                if thread not in self._being_asked:
                    return many
            # Without the lock, because the program's function may take long, or hang, while another thread cancels the job. If this
            # is interrupted, it is asked again.
            self._ask(self._being_asked[thread])
            del self._being_asked[thread]

    def _take_next(self, thread: int) -> _native.Many | None:
        """Does what `_next` says, but leaves a question to be asked in ``_being_asked``."""
        with self._lock:
            many = self._many
            # If there already is one, it was interrupted on its way to the caller.
            if many is None or thread in self._handing:
                return None
            self._fill(many)
            while not self._ready or isinstance(self._ready[-1], _native.Question) or getpid() != self._process:
                if self._ready and isinstance(self._ready[-1], _native.Question):
                    self._being_asked[thread] = self._ready[-1]
                    del self._ready[-1]
                    return None
                if many.in_flight == 0 and not self._ready:
                    if not self._is_taking:
                        self._close()
                    return None
                # In the child of a fork, the results that were read belong to the parent too: the native half refuses
                # this.
                unwrap(many.take(self._ready, self._is_raw))
                if not self._ready:
                    return many
            # What logs a call may close this.
            ready = self._ready
            result = self._result(*ready[-1])
            self._handing[thread] = result
            del ready[-1]
            if self._progress is not None:
                self._progress.advance()
            return None

    def _fill(self, many: _native.Many) -> None:
        while True:
            if self._taken:
                self._push(many)
            if many.has_stopped:
                self._source = None
            room = many.held - many.in_flight - len(self._ready)
            if self._source is None or room < self._at_a_time:
                return
            self._take(self._source)

    def _take(self, source: Iterator[Any]) -> None:
        count = 0
        outer, self._is_taking = self._is_taking, True
        try:
            for given in islice(source, self._at_a_time):
                self._taken.append(given)
                count += 1
        finally:
            self._is_taking = outer
        if count < self._at_a_time:
            self._source = None

    def _push(self, many: _native.Many) -> None:
        inputs = self._inputs(many)
        unwrap(many.push(inputs, self._first))
        self._forget_pushed(many)

    def _inputs(self, many: _native.Many, *, is_sent: bool = True) -> list[tuple[Any, _native.Watch | None]]:
        """The inputs that were taken but not pushed, in the form that the native half takes."""
        while True:
            self._forget_pushed(many)
            first = self._first
            inputs = []
            for index, given in enumerate(self._taken[:], first):
                input = self._input(index, given)
                inputs.append((input, self._watch(index) if is_sent and self._goes_out(input) else None))
            # Reading an input may run the caller's code, which may itself have come here.
            if many.pushed == first:
                return inputs

    def _forget_pushed(self, many: _native.Many) -> None:
        pushed = many.pushed
        del self._taken[: pushed - self._first]
        self._first = pushed

    def _watch(self, index: int) -> _native.Watch | None:
        watched = self._watched.get(index) or watch.begin(lambda: self._description)
        if isinstance(watched, watch.Watched):
            self._watched[index] = watched
        return watched.native

    def _unwatch(self, index: int, error: Exception | None) -> None:
        if self._watched and (watched := self._watched.pop(index, None)) is not None:
            watched.end(error)

    def _flush(self) -> None:
        for watched in [*self._watched.values()]:
            watched.flush()

    def _hide_progress(self) -> None:
        progress, self._progress = self._progress, None
        if progress is not None:
            progress.end()

    def _close(self) -> None:
        with self._lock:
            many, self._many, self._source = self._many, None, None
            self._taken, self._ready = [], []
        if many is not None:
            self._release(many)
            while self._watched:
                self._watched.popitem()[1].end(None)
            self._hide_progress()

    def _release(self, many: _native.Many) -> None:
        """Ends calls whose results are not wanted any more."""
        many.close()

    def __repr__(self) -> str:
        many, name = getattr(self, "_many", None), type(self).__name__
        if many is None:
            return f"<{name}: ended>"
        in_flight = many.in_flight + len(self._ready)
        return f"<{name}: {many.pushed - in_flight} done, {in_flight} in flight>"

    def __del__(self) -> None:
        # The attributes are missing if the arguments were refused.
        if getattr(self, "_many", None) is not None and not sys.is_finalizing():
            # The end of a ledger is not waited for.
            self._many.close()  # type: ignore[union-attr]
            self._close()


class SyncWindow(Window[R], Closing):
    """A window whose results are waited for, in a ``for`` loop."""

    __slots__ = ()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> R:
        try:
            while (many := self._next()) is not None:
                # In short waits: signals are handled in between, and another thread may take the last one.
                ask_here()
                unwrap(wait_cooperatively(many.wait))
                self._flush()
            if get_ident() in self._handing:
                return self._hand_over()
            self._wait_for_end()
            self._finish()
        except BaseException as error:
            self._break_off()
            clear(error)
            raise
        raise StopIteration

    def _wait_for_end(self) -> None:
        """Waits until the ledger is closed, so that the next job, or the child of a fork, can open it."""
        while (many := self._closing) is not None:
            if wait_cooperatively(many.wait_for_end):
                self._closing = None


class AsyncWindow(Window[R], AsyncClosing):
    """A window whose results are awaited, in an ``async for`` loop."""

    __slots__ = ()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> R:
        try:
            while (many := self._next()) is not None:
                await self._news(many)
            if get_ident() in self._handing:
                return self._hand_over()
            await self._await_end()
            self._finish()
        except BaseException as error:
            self._break_off()
            clear(error)
            raise
        raise StopAsyncIteration

    async def _await_end(self) -> None:
        """Waits until the ledger is closed, so that the next job, or the child of a fork, can open it."""
        from dealkit._calls.event_loop import news

        while (many := self._closing) is not None:
            if many.has_ended:
                self._closing = None
            else:
                await news(many.tell_end, None)

    async def _news(self, many: _native.Many) -> None:
        """Waits on an event loop until a result has come."""
        from dealkit._calls.event_loop import news

        await news(many.tell, self._flush if self._watched else None)
