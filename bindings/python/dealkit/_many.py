"""Many deals: the iterators of ``retrieve_many``."""

from __future__ import annotations

import sys
from _thread import RLock
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from dealkit import _native, _watch
from dealkit._failure import exception, unwrap
from dealkit._progress import begin
from dealkit._service import native_options

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType

    from dealkit._options import CallOptions
    from dealkit._progress import Progress
    from dealkit._service import Service

T = TypeVar("T")


class _Window(Generic[T]):
    """What both iterators have in common: identifiers go in, deals come out, a bounded number between."""

    __slots__ = (
        "_concurrency",
        "_description",
        "_ids",
        "_lock",
        "_many",
        "_out",
        "_progress",
        "_pushed",
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
        self._progress = begin(progress, ids)
        self._many = unwrap(engine.many(ordered, native_options(options), raw))
        # Several threads may take deals. The same thread may come again: from a generator of identifiers.
        self._lock = RLock()
        self._concurrency = concurrency
        self._returns_errors = on_error == "return"
        # How many identifiers were pushed, and how many of them have no deal yet.
        self._pushed = 0
        self._out = 0
        self._description = engine.describe(unwrap(_native.retrieve_deal("id")))
        # Those in flight that somebody watches, by their index.
        self._watched: dict[int, _watch.Unwatched] = {}

    def _next(self) -> tuple[_native.Many, tuple[int, str, Any] | None]:
        """Sends the next identifiers, and takes a deal if one has come.

        Raises StopIteration when there is nothing left to wait for.
        """
        with self._lock:
            many = self._many
            if many is None:
                raise StopIteration
            try:
                self._fill(many)
                if self._out == 0:
                    raise StopIteration
                item = unwrap(many.take())
            except BaseException:
                self._close()
                raise
            if item is not None:
                self._out -= 1
            return many, item

    def _fill(self, many: _native.Many) -> None:
        # Not of this object, which ends what is in flight when nobody holds it any more.
        description = self._description
        while self._ids is not None and self._out < self._concurrency:
            try:
                id = next(self._ids)
            except StopIteration:
                self._ids = None
            else:
                watched = _watch.begin(lambda: description)
                unwrap(many.push(id, self._pushed, watched.native))
                if watched is not _watch.UNWATCHED:
                    self._watched[self._pushed] = watched
                self._pushed += 1
                self._out += 1

    def _hand_over(self, index: int, id: str, value: Any) -> T:
        watched, error = self._watched.pop(index, _watch.UNWATCHED), None
        if isinstance(value, _native.Failure):
            error = value = exception(value)
            value.index, value.id = index, id
        watched.end(error)
        if error is not None:
            if not self._returns_errors:
                self._close()
                try:
                    raise value
                finally:
                    # The exception holds on to this frame, which must not hold on to the exception.
                    del value, error
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
            many, self._many, self._ids = self._many, None, None
        if many is not None:
            many.close()
            while self._watched:
                self._watched.popitem()[1].end(None)
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
