"""Many deals: the iterators of ``retrieve_many``."""

from __future__ import annotations

from _thread import get_ident
from collections.abc import Sized
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from dealkit import _native
from dealkit._bulk.window import AsyncWindow, SyncWindow, Window, check_arguments
from dealkit._calls.service import native_options
from dealkit._core.failure import exception, unwrap
from dealkit._native import Failure, Table
from dealkit._observe import watch
from dealkit.arrow import AsyncDealTable, DealTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Literal

    from dealkit._bulk.progress import Display, Progress
    from dealkit._calls.service import Service
    from dealkit._core.options import CallOptions

T = TypeVar("T")
A = TypeVar("A")

# How many identifiers are handed over at a time, if all of them are.
_AT_A_TIME = 1_000


class _Deals(Window[T], Generic[T, A]):
    """What both iterators have in common."""

    __slots__ = ("_options", "_ordered", "_service")

    _in_batches: ClassVar[type[Retrieval]]
    _table: ClassVar[Any]

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
        check_arguments(concurrency, ordered, on_error)
        try:
            source = iter(ids)
        except TypeError:
            raise TypeError(f"ids must be an iterable of str, not {type(ids).__name__}") from None
        engine = service.open()
        self._service = service
        self._ordered = ordered
        self._options = native_options(options)
        many = unwrap(engine.many(ordered, self._options, raw))
        description = engine.describe(unwrap(_native.retrieve(_native.Deal, "id")))
        super().__init__(source, many, description, concurrency, on_error)
        self._show(progress, len(ids) if isinstance(ids, Sized) else None, "deal")

    def _result(self, index: int, id: str | None, value: Any, record: object) -> T:
        if isinstance(value, Failure):
            value = exception(value, id, index)
            self._unwatch(index, value)
        else:
            self._unwatch(index, None)
        return value  # type: ignore[no-any-return]

    def _hand_over(self) -> T:
        """Hands over the next deal, or raises the error instead."""
        result = self._handing.pop(get_ident())
        if isinstance(result, Exception) and not self._returns_errors:
            try:
                raise result
            finally:
                # The exception holds a reference to this frame, which must not hold one to the exception.
                del result
        return result

    def to_arrow(
        self,
        *,
        decimals: Literal["decimal128", "string"] = "decimal128",
        scale: int = 10,
        batch_size: int | None = None,
    ) -> A:
        """The deals as a table, for every library that reads Apache Arrow.

        >>> ids = ["d_1", "d_2"]
        >>> polars.DataFrame(client.deals.retrieve_many(ids).to_arrow())
        >>> pyarrow.table(client.deals.retrieve_many(ids).to_arrow())
        >>> pandas.DataFrame.from_arrow(client.deals.retrieve_many(ids).to_arrow())

        With an async client, the table is awaited, or taken in batches:

        >>> polars.DataFrame(await client.deals.retrieve_many(ids).to_arrow())
        >>> async for batch in client.deals.retrieve_many(ids).to_arrow(batch_size=10_000):
        ...     writer.write_table(pyarrow.table(batch))

        The iterator itself yields no more deals. ``dealkit.arrow.schema()`` lists the columns, and ``DealTable`` says
        when the deals are retrieved.

        Args:
            decimals: How decimal numbers are kept: as ``decimal128(38, scale)``, or as strings with the digits that
                came. No number is rounded: a deal with a number that does not fit is an error.
            scale: How many digits there are after the point, 0 to 38.
            batch_size: How many deals make up a batch, for more deals than fit into memory. The deals are then
                retrieved while the batches are taken; otherwise all at once.
        """
        return self._table(self, decimals, scale, batch_size)  # type: ignore[no-any-return]

    def _hand_on(self) -> Iterator[str]:
        """The identifiers, for a table to retrieve instead. The iterator has then ended."""
        with self._lock:
            many, ids = self._many, self._source
            if many is None or ids is None or self._taken or many.pushed:
                raise RuntimeError("call to_arrow() before taking any deal from the iterator")
            self._many = self._source = None
        many.close()
        return ids

    def _retrieval(self, ids: Iterator[str], batch_size: int, scale: int | None, own_thread: bool) -> Retrieval:
        """What does the work of the iterator for a table, with nothing in flight."""
        table = self._concurrency, batch_size, scale, self._returns_errors, own_thread
        native = unwrap(self._service.open().many(self._ordered, self._options, False, table))
        progress, self._progress = self._progress, None
        return self._in_batches(ids, native, self._description, self._concurrency, progress)

    def _close(self) -> None:
        super()._close()
        # A deal that was interrupted on its way to the caller does not come either.
        self._handing.pop(get_ident(), None)
        self._hide_progress()


class Retrieval(Window[Table]):
    """The work of ``retrieve_many``, done for a table, in batches."""

    __slots__ = ("_log", "done", "native")

    def __init__(
        self, ids: Iterator[str], native: _native.Many, description: Any, concurrency: int, progress: Display | None
    ) -> None:
        super().__init__(ids, native, description, concurrency, "raise")
        self.native = native
        self.done: int = 0
        """How many deals have come, as far as is known."""
        self._progress = progress
        self._at_a_time = concurrency
        # The log of calls that all belong to one stream: they have no spans of their own.
        self._log: watch.Watched | None = None

    def _watch(self, index: int) -> _native.Watch | None:
        return super()._watch(index) if self._log is None else self._log.native

    def _flush(self) -> None:
        super()._flush()
        if self._log is not None:
            self._log.flush()

    def _next(self) -> _native.Many | None:
        with self._lock:
            many = self._many
            if many is None:
                return None
            has_ended = self._advance()
            batch = unwrap(many.batch())
            if batch is not None:
                self._handing[get_ident()] = batch
            elif has_ended:
                self.raise_failure()
                self._close()
            else:
                return many
            return None

    def _hand_over(self) -> Table:
        return self._handing.pop(get_ident())

    def _advance(self) -> bool:
        """Does what there is to do; returns whether all deals have come."""
        come, wants_ids, watched, has_ended = unwrap(self.native.news())
        for index, failure in watched:
            self._unwatch(index, None if failure is None else exception(failure))
        self._flush()
        self.done += come
        if self._progress is not None:
            for _ in range(come):
                self._progress.advance()
        if wants_ids and self._source is not None:
            self._push_next(self._source)
        return has_ended

    def _push_next(self, source: Iterator[str]) -> None:
        """Hands over the next identifiers, and says whether they are the last."""
        self._take(source)
        inputs = self._inputs(self.native)
        unwrap(self.native.push(inputs, self._first, self._source is None))
        self._forget_pushed(self.native)

    def raise_failure(self) -> None:
        """Raises the exception of the deal that failed, unless it is to be returned or there is none."""
        failed = unwrap(self.native.failed())
        if failed is not None:
            index, id, failure = failed
            raise exception(failure, id, index)

    def capsule(self) -> object:
        """The stream for another library, which takes the batches from any thread and perhaps with the GIL held:
        everything that it needs from Python is handed over now.
        """
        self._log = watch.of_many()
        self._at_a_time = _AT_A_TIME
        while self._source is not None:
            self._push_next(self._source)
        capsule = unwrap(self.native.capsule())
        # From here on, the stream is ended by its reader, or by `close`.
        self._many = None
        if self._progress is not None or self._log is not None:
            from threading import Thread

            Thread(target=self._look_after, name="dealkit-arrow", daemon=True).start()
        return capsule

    def _look_after(self) -> None:
        """Shows progress, and writes the log, while another library takes the batches."""
        try:
            while not self._advance():
                self.native.wait_for_end()
        finally:
            self._close()

    def _close(self) -> None:
        super()._close()
        self.native.close()
        self._hide_progress()


class _SyncRetrieval(Retrieval, SyncWindow[Table]):
    """The batches of a table that are waited for."""

    __slots__ = ()


class _AsyncRetrieval(Retrieval, AsyncWindow[Table]):
    """The batches of a table that are awaited."""

    __slots__ = ()


class DealIterator(_Deals[T, DealTable], SyncWindow[T]):
    """The deals of ``client.deals.retrieve_many``. Closing it, or leaving the loop, cancels the calls in flight."""

    __slots__ = ()
    _in_batches = _SyncRetrieval
    _table = DealTable


class AsyncDealIterator(_Deals[T, AsyncDealTable], AsyncWindow[T]):
    """The deals of ``client.deals.retrieve_many``. Closing it, or leaving the loop, cancels the calls in flight."""

    __slots__ = ()
    _in_batches = _AsyncRetrieval
    _table = AsyncDealTable
