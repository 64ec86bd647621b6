"""The iterators of ``retrieve_many``: over deals, or over batches of a table."""

from __future__ import annotations

from _thread import get_ident
from collections.abc import Sized
from sys import maxsize
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from dealkit import _native
from dealkit._bulk.progress import make_display
from dealkit._bulk.window import AsyncWindow, SyncWindow, Window, check_arguments
from dealkit._calls.session import native_options
from dealkit._core.errors import make_exception, unwrap
from dealkit._native import Failure, Table
from dealkit.arrow import AsyncDealTable, DealTable
from dealkit.exceptions import DealkitError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Literal

    from dealkit._bulk.progress import Display, Progress
    from dealkit._calls.session import Session
    from dealkit._core.options import CallOptions

T = TypeVar("T")
A = TypeVar("A")


class BatchWindow(Window[Table]):
    """Retrieves deals into a table. Native code reads the responses into columns, without making an object for each
    deal.

    With ``in_batches``, it yields each batch as soon as the batch is full, and at the end the remaining deals as a last
    batch. Otherwise it yields one table.
    """

    __slots__ = ("_builder", "done_count", "in_batches")

    def __init__(
        self,
        ids: Iterator[str],
        *,
        calls: _native.BulkCalls,
        attributes: dict[str, Any],
        on_error: str,
        progress: Display | None,
        builder: _native.TableBuilder,
    ) -> None:
        super().__init__(ids, calls=calls, attributes=attributes, on_error=on_error, raw=True)
        self._progress = progress
        self._builder = builder
        self.in_batches: bool | None = None
        """True if the window yields batches. None before its first use."""
        self.done_count: int = 0
        """The number of deals that the table has so far."""

    def _make_result(self, result: _native.BulkResult) -> Any:
        """Adds a response to the table. Returns a batch if the response has filled one."""
        failure = self._builder.add(result.index, result.id or "", result.value)
        error = None if failure is None else make_exception(failure, result.id, result.index)
        self._end_observer(result.index, error)
        if error is not None and not (self._returns_errors and isinstance(error, DealkitError)):
            raise error
        self.done_count += 1
        return unwrap(self._builder.batch()) if self.in_batches else None

    def _advance(self) -> _native.BulkCalls | None:
        thread = get_ident()
        with self._lock:
            while True:
                was_open = self._calls is not None
                calls = super()._advance()
                if thread not in self._outgoing_results:
                    # Finishes the table only after the last deal, because an incomplete table must not look complete.
                    if was_open and self._calls is None:
                        self._outgoing_results[thread] = unwrap(self._builder.finish())
                    return calls
                if self._outgoing_results[thread] is not None:
                    return None
                del self._outgoing_results[thread]

    def _hand_over(self) -> Table:
        return self._outgoing_results.pop(get_ident())


class SyncBatchWindow(BatchWindow, SyncWindow[Table]):
    """A ``BatchWindow`` for ``for`` loops."""

    __slots__ = ()


class AsyncBatchWindow(BatchWindow, AsyncWindow[Table]):
    """A ``BatchWindow`` for ``async for`` loops."""

    __slots__ = ()


class _DealIteratorBase(Window[T], Generic[T, A]):
    """The common base class of DealIterator and AsyncDealIterator."""

    __slots__ = ()

    _batch_window: ClassVar[type[BatchWindow]]
    _table: ClassVar[Any]

    def __init__(
        self,
        session: Session,
        ids: Iterable[str],
        *,
        concurrency: int,
        ordered: bool,
        on_error: str,
        progress: Progress,
        options: CallOptions,
        raw: bool,
    ) -> None:
        if isinstance(ids, str | bytes):
            raise TypeError(f"ids must be an iterable of str, not a {type(ids).__name__}; for one deal use retrieve()")
        check_arguments(concurrency, ordered, on_error)
        try:
            source = iter(ids)
        except TypeError:
            raise TypeError(f"ids must be an iterable of str, not {type(ids).__name__}") from None
        client = session.require_client()
        calls = unwrap(
            client.retrieve_many(
                ordered=ordered, concurrency=min(concurrency, maxsize), options=native_options(options)
            )
        )
        attributes = client.describe(unwrap(_native.retrieve_deal("id")))
        super().__init__(source, calls=calls, attributes=attributes, on_error=on_error, raw=raw)
        self._progress = make_display(progress, len(ids) if isinstance(ids, Sized) else None, "deal")

    def _make_result(self, result: _native.BulkResult) -> T:
        value = result.value
        if isinstance(value, Failure):
            index = result.index
            value = make_exception(value, result.id, index)
            self._end_observer(index, value)
        elif self._observers:
            self._end_observer(result.index, None)
        return value  # type: ignore[no-any-return]

    def _hand_over(self) -> T:
        result = self._outgoing_results.pop(get_ident())
        if isinstance(result, Exception) and not self._returns_errors:
            raise result
        return result

    def to_arrow(
        self,
        *,
        decimals: Literal["decimal128", "string"] = "decimal128",
        scale: int = 10,
        batch_size: int | None = None,
    ) -> A:
        """Returns the deals as a table, for any library that reads Apache Arrow.

        >>> ids = ["d_1", "d_2"]
        >>> polars.DataFrame(client.deals.retrieve_many(ids).to_arrow())
        >>> pyarrow.table(client.deals.retrieve_many(ids).to_arrow())
        >>> pandas.DataFrame.from_arrow(client.deals.retrieve_many(ids).to_arrow())

        With an async client, await the table, or take it in batches:

        >>> polars.DataFrame(await client.deals.retrieve_many(ids).to_arrow())
        >>> async for batch in client.deals.retrieve_many(ids).to_arrow(batch_size=10_000):
        ...     writer.write_table(pyarrow.table(batch))

        After this call, the iterator itself yields no deals. ``dealkit.arrow.schema()`` lists the columns. The
        documentation of ``DealTable`` says when the deals are retrieved.

        Args:
            decimals: The type of decimal numbers: ``"decimal128"`` stores them as ``decimal128(38, scale)``, and
                ``"string"`` as strings with the digits as received. Numbers are never rounded: a number that does not
                fit is an error of its deal.
            scale: The number of digits after the point, 0 to 38.
            batch_size: The number of deals in a batch, if not all deals fit into memory at once.
        """
        return self._table(self, decimals, scale, batch_size)  # type: ignore[no-any-return]

    def _make_batch_window(self, builder: _native.TableBuilder) -> BatchWindow:
        """Moves the iterator's identifiers and calls to a window that fills a table. The iterator itself then yields
        nothing."""
        with self._lock:
            calls, ids = self._calls, self._source
            if calls is None or ids is None or self._taken_inputs or calls.pushed:
                raise RuntimeError("call to_arrow() before taking any deal from the iterator")
            self._calls = self._source = None
            progress, self._progress = self._progress, None
        return self._batch_window(
            ids,
            calls=calls,
            attributes=self._attributes,
            on_error="return" if self._returns_errors else "raise",
            progress=progress,
            builder=builder,
        )

    def _close(self) -> None:
        super()._close()
        # Discards a deal whose handover to the caller a signal handler has interrupted.
        self._outgoing_results.pop(get_ident(), None)
        self._hide_progress()


class DealIterator(_DealIteratorBase[T, DealTable], SyncWindow[T]):
    """The deals of ``client.deals.retrieve_many``. Closing the iterator, or leaving the loop, cancels the calls in
    flight."""

    __slots__ = ()
    _batch_window = SyncBatchWindow
    _table = DealTable


class AsyncDealIterator(_DealIteratorBase[T, AsyncDealTable], AsyncWindow[T]):
    """The deals of ``client.deals.retrieve_many``. Closing the iterator, or leaving the loop, cancels the calls in
    flight."""

    __slots__ = ()
    _batch_window = AsyncBatchWindow
    _table = AsyncDealTable
