"""Many deals: the iterators of ``retrieve_many``."""

from __future__ import annotations

from _thread import get_ident
from collections.abc import Sized
from sys import maxsize
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from dealkit import _native
from dealkit._bulk.progress import begin
from dealkit._bulk.retrieval import AsyncRetrieval, Retrieval, SyncRetrieval
from dealkit._bulk.window import AsyncWindow, SyncWindow, Window, check_arguments
from dealkit._calls.service import native_options
from dealkit._core.failure import exception, unwrap
from dealkit._native import Failure
from dealkit.arrow import AsyncDealTable, DealTable

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Literal

    from dealkit._bulk.progress import Progress
    from dealkit._calls.service import Service
    from dealkit._core.options import CallOptions

T = TypeVar("T")
A = TypeVar("A")


class _Deals(Window[T], Generic[T, A]):
    """What both iterators have in common."""

    __slots__ = ()

    _of_table: ClassVar[type[Retrieval]]
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
        many = unwrap(engine.many(ordered, min(concurrency, maxsize), native_options(options)))
        description = engine.describe(unwrap(_native.retrieve_deal("id")))
        super().__init__(source, many, description, on_error, raw)
        self._progress = begin(progress, len(ids) if isinstance(ids, Sized) else None, "deal")

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
            raise result
        return result

    def to_arrow(
        self,
        *,
        decimals: Literal["decimal128", "string"] = "decimal128",
        scale: int = 10,
        batch_size: int | None = None,
    ) -> A:
        """The deals as a table, for any library that reads Apache Arrow.

        >>> ids = ["d_1", "d_2"]
        >>> polars.DataFrame(client.deals.retrieve_many(ids).to_arrow())
        >>> pyarrow.table(client.deals.retrieve_many(ids).to_arrow())
        >>> pandas.DataFrame.from_arrow(client.deals.retrieve_many(ids).to_arrow())

        With an async client, await the table, or take it in batches:

        >>> polars.DataFrame(await client.deals.retrieve_many(ids).to_arrow())
        >>> async for batch in client.deals.retrieve_many(ids).to_arrow(batch_size=10_000):
        ...     writer.write_table(pyarrow.table(batch))

        The iterator itself yields no more deals. ``dealkit.arrow.schema()`` lists the columns, and ``DealTable`` says
        when the deals are retrieved.

        Args:
            decimals: How to store decimal numbers: as ``decimal128(38, scale)``, or as strings with the digits as
                received. Numbers are never rounded: a deal with a number that does not fit is an error.
            scale: How many digits there are after the point, 0 to 38.
            batch_size: How many deals make up a batch, if they do not all fit into memory. The deals are then retrieved
                as you take the batches; otherwise all at once.
        """
        return self._table(self, decimals, scale, batch_size)  # type: ignore[no-any-return]

    def _retrieval(self, builder: _native.TableBuilder) -> Retrieval:
        """What does the work of the iterator for a table, with nothing in flight. The iterator itself has then ended."""
        with self._lock:
            many, ids = self._many, self._source
            if many is None or ids is None or self._taken or many.pushed:
                raise RuntimeError("call to_arrow() before taking any deal from the iterator")
            self._many = self._source = None
            progress, self._progress = self._progress, None
        on_error = "return" if self._returns_errors else "raise"
        return self._of_table(ids, many, self._description, on_error, progress, builder)

    def _close(self) -> None:
        super()._close()
        # A deal that was interrupted on its way to the caller does not come either.
        self._handing.pop(get_ident(), None)
        self._hide_progress()


class DealIterator(_Deals[T, DealTable], SyncWindow[T]):
    """The deals of ``client.deals.retrieve_many``. Closing it, or leaving the loop, cancels the calls in flight."""

    __slots__ = ()
    _of_table = SyncRetrieval
    _table = DealTable


class AsyncDealIterator(_Deals[T, AsyncDealTable], AsyncWindow[T]):
    """The deals of ``client.deals.retrieve_many``. Closing it, or leaving the loop, cancels the calls in flight."""

    __slots__ = ()
    _of_table = AsyncRetrieval
    _table = AsyncDealTable
