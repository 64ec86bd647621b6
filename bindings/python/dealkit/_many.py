"""Many deals: the iterators of ``retrieve_many``."""

from __future__ import annotations

import sys
from _thread import RLock
from itertools import islice
from os import getpid
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from dealkit import _native, _watch
from dealkit._failure import exception, unwrap
from dealkit._native import Failure
from dealkit._progress import begin
from dealkit._service import native_options

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType

    from dealkit._options import CallOptions
    from dealkit._progress import Progress
    from dealkit._service import Service

T = TypeVar("T")

# Identifiers are sent so many at a time, or the eighth part of those that may be in flight if that is less: sending
# one costs as much as sending some.
_AT_A_TIME = 32


class _Window(Generic[T]):
    """What both iterators have in common: identifiers go in, deals come out, a bounded number between."""

    __slots__ = (
        "_at_a_time",
        "_concurrency",
        "_description",
        "_ids",
        "_lock",
        "_many",
        "_out",
        "_process",
        "_progress",
        "_pushed",
        "_ready",
        "_returns_errors",
        "_watched",
    )

    _ids: Iterator[str] | None
    _many: _native.Many | None

    def __init__(
        self,
        service: Service,
        ids: Iterable[str],
        concurrency: int,
        ordered: bool,
        on_error: str,
        progress: Progress,
        options: CallOptions,
        *,
        raw: bool,
    ) -> None:
        if isinstance(ids, str | bytes):
            raise TypeError(f"ids must be an iterable of str, not a {type(ids).__name__}; for one deal use retrieve()")
        if isinstance(concurrency, bool) or not isinstance(concurrency, int):
            raise TypeError(f"concurrency must be an int, not {type(concurrency).__name__}")
        if concurrency < 1:
            raise ValueError(f"concurrency must be at least 1, not {concurrency}")
        if not isinstance(ordered, bool):
            raise TypeError(f"ordered must be a bool, not {type(ordered).__name__}")
        if on_error not in ("raise", "return"):
            raise ValueError('on_error must be "raise" or "return"')
        try:
            self._ids = iter(ids)
        except TypeError:
            raise TypeError(f"ids must be an iterable of str, not {type(ids).__name__}") from None
        engine = service.open()
        self._progress = None if progress is False else begin(progress, ids)
        self._many = unwrap(engine.many(ordered, native_options(options), raw))
        # Several threads may take deals. The same thread may come again: from a generator of identifiers.
        self._lock = RLock()
        self._concurrency = concurrency
        self._at_a_time = min(max(concurrency // 8, 1), _AT_A_TIME)
        # Deals that have come and were read, the next one last.
        self._ready: list[tuple[int, str, Any]] = []
        self._process = getpid()
        self._returns_errors = on_error == "return"
        # How many identifiers were pushed, and how many of them have no deal yet.
        self._pushed = 0
        self._out = 0
        self._description = engine.describe(unwrap(_native.retrieve_deal("id")))
        # Those in flight that somebody watches, by their index.
        self._watched: dict[int, _watch.Watched] = {}

    def _next(self) -> tuple[_native.Many, tuple[int, str, Any] | None]:
        """Sends the next identifiers, and takes a deal if one has come.

        Raises StopIteration when there is nothing left to wait for.
        """
        with self._lock:
            many = self._many
            if many is None:
                raise StopIteration
            try:
                while self._ids is not None and self._concurrency - self._out >= self._at_a_time:
                    self._fill(many, self._ids)
                # In the child of a fork, what was read belongs to the parent, too: the native half refuses it.
                if not self._ready or getpid() != self._process:
                    if self._out == 0:
                        raise StopIteration
                    self._ready = unwrap(many.take())
                    self._ready.reverse()
                    if not self._ready:
                        return many, None
                self._out -= 1
                return many, self._ready.pop()
            except BaseException:
                self._close()
                raise

    def _fill(self, many: _native.Many, ids: Iterator[str]) -> None:
        wanted = [*islice(ids, self._at_a_time)]
        if len(wanted) < self._at_a_time:
            self._ids = None
        # Read here: from an iterator of identifiers, too, the same thread may come again.
        first = self._pushed
        self._pushed += len(wanted)
        self._out += len(wanted)
        unwrap(many.push([(id, self._watch(index)) for index, id in enumerate(wanted, first)], first))

    def _watch(self, index: int) -> _native.Watch | None:
        watched = _watch.begin(_watch.described, self._description)
        if watched is None:
            return None
        self._watched[index] = watched
        return watched.native

    def _hand_over(self, index: int, id: str, value: Any) -> T:
        error = None
        if isinstance(value, Failure):
            error = value = exception(value)
            value.index, value.id = index, id
        if self._watched and (watched := self._watched.pop(index, None)) is not None:
            watched.end(error)
        if error is not None:
            if not self._returns_errors:
                self._close()
                try:
                    raise value
                finally:
                    # The exception holds on to this frame, which must not hold on to the exception.
                    del value, error
        if self._progress is not None:
            try:
                self._progress.advance()
            except BaseException:
                self._close()
                raise
        return value  # type: ignore[no-any-return]

    def _flush(self) -> None:
        for watched in [*self._watched.values()]:
            watched.flush()

    def _close(self) -> None:
        with self._lock:
            many, self._many, self._ids, self._ready = self._many, None, None, []
        if many is not None:
            many.close()
            while self._watched:
                self._watched.popitem()[1].end(None)
            if self._progress is not None:
                self._progress.end()

    def __del__(self) -> None:
        # The attributes are not there when the arguments were refused.
        if getattr(self, "_many", None) is not None and not sys.is_finalizing():
            self._close()


class DealIterator(_Window[T]):
    """The deals of ``client.deals.retrieve_many``. Closing it, or leaving the loop, cancels what is in flight."""

    __slots__ = ()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        try:
            while True:
                many, item = self._next()
                if item is not None:
                    return self._hand_over(*item)
                # Not for long: signals are handled in between, and another thread may take the last deal.
                unwrap(many.wait())
                self._flush()
        except StopIteration:
            raise
        except BaseException:
            self._close()
            raise

    def close(self) -> None:
        """Cancels what is in flight. The iterator has then ended."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._close()


class AsyncDealIterator(_Window[T]):
    """The deals of ``client.deals.retrieve_many``. Closing it, or leaving the loop, cancels what is in flight."""

    __slots__ = ()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        try:
            while True:
                many, item = self._next()
                if item is not None:
                    return self._hand_over(*item)
                await self._news(many)
        except StopIteration:
            raise StopAsyncIteration from None
        except BaseException:
            self._close()
            raise

    async def _news(self, many: _native.Many) -> None:
        import asyncio

        from dealkit._async import mailbox

        loop = asyncio.get_running_loop()
        future = loop.create_future()
        unwrap(many.tell(mailbox(loop), future))
        flushing = _watch.Flushing(loop, self._flush) if self._watched else None
        try:
            await future
        finally:
            if flushing is not None:
                flushing.close()

    async def aclose(self) -> None:
        """Cancels what is in flight. The iterator has then ended."""
        self._close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._close()
