"""Deals as Apache Arrow tables: exact, with one schema, for polars, pandas, pyarrow, DuckDB and anything else that
reads Arrow. dealkit depends on none of them.

>>> polars.DataFrame(client.deals.retrieve_many(ids).to_arrow())
>>> polars.DataFrame(dealkit.arrow.deals_to_arrow(open("deals.ndjson", "rb")))
>>> print(dealkit.arrow.schema())
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from dealkit import _native
from dealkit._core.arguments import check_int, check_on_error
from dealkit._core.closing import AsyncClosing, Closing
from dealkit._core.failure import exception, unwrap
from dealkit._native import Deal, Schema, Table

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator, Iterable, Iterator
    from typing import Any, Literal

__all__ = ["AsyncDealTable", "DealTable", "Schema", "Table", "deals_to_arrow", "schema"]

# How many deals make up a batch if no size is given.
_BATCH_SIZE = 65_536

# How many documents are handed over at a time.
_AT_A_TIME = 1_000


def schema(*, decimals: Literal["decimal128", "string"] = "decimal128", scale: int = 10) -> Schema:
    """The columns of a table of deals, for people (``print``) and libraries (``pyarrow.schema``).

    Args:
        decimals: How to store decimal numbers: as ``decimal128(38, scale)``, or as strings.
        scale: How many digits there are after the point, 0 to 38.
    """
    return unwrap(_native.deal_schema(_native_scale(decimals, scale)))


def deals_to_arrow(
    deals: Iterable[Deal | bytes | bytearray | str],
    *,
    decimals: Literal["decimal128", "string"] = "decimal128",
    scale: int = 10,
    on_error: Literal["raise", "return"] = "raise",
    on_unreadable: Literal["raise", "skip"] = "raise",
) -> Table:
    """Turns deals you already have into a table: models, or JSON documents such as the lines of an export.

    Documents become columns without going through Python objects. Blank lines are skipped.

    Args:
        deals: The deals: models or documents, or a mixture of both.
        decimals: How to store decimal numbers: as ``decimal128(38, scale)``, or as strings with the digits as received.
        scale: How many digits there are after the point, 0 to 38.
        on_error: Whether a deal that is unreadable, or has a number that does not fit, raises DecodeError with its
            ``index``, or becomes a row of the table's ``errors``.
        on_unreadable: Whether an unreadable optional field is an error of its deal, or is null or empty, with the
            original in the column ``extra`` of its struct. A model's own unreadable fields are never errors.
    """
    if isinstance(deals, Deal | str | bytes | bytearray):
        raise TypeError(f"deals must be an iterable of deals, not a {type(deals).__name__}")
    check_on_error(on_error)
    builder = unwrap(_native.open_table_builder(_native_scale(decimals, scale), on_error == "return", _BATCH_SIZE))
    documents = _documents(deals)
    while some := [*islice(documents, _AT_A_TIME)]:
        failed = unwrap(builder.push(some, on_unreadable))
        if failed is not None:
            index, failure = failed
            raise exception(failure, index=index)
    table: Table = unwrap(builder.finish())
    return table


def _documents(deals: Iterable[Any]) -> Iterator[str | bytes | bytearray]:
    for index, deal in enumerate(deals):
        if isinstance(deal, Deal):
            yield deal._to_json()
        elif not isinstance(deal, str | bytes | bytearray):
            raise TypeError(f"deals[{index}] must be a Deal, or a JSON document, not {type(deal).__name__}")
        else:
            yield deal


def _native_scale(decimals: str, scale: int) -> int | None:
    check_int("scale", scale, 0, 38)
    if decimals not in ("decimal128", "string"):
        raise ValueError('decimals must be "decimal128" or "string"')
    return None if decimals == "string" else scale


class _Deals:
    """What the tables of the sync and the async client have in common."""

    def __init__(self, deals: Any, decimals: str, scale: int, batch_size: int | None) -> None:
        self._scale = _native_scale(decimals, scale)
        check_int("batch_size", batch_size, 1, or_none=True)
        builder = _native.open_table_builder(self._scale, deals._returns_errors, batch_size or _BATCH_SIZE)
        self._retrieval: Any = deals._retrieval(unwrap(builder))
        # All deals, or the last batch.
        self._last: Table | None = None

    @property
    def schema(self) -> Schema:
        """The columns."""
        return unwrap(_native.deal_schema(self._scale))

    @property
    def errors(self) -> Table | None:
        """The deals that failed, as a table with the columns ``index``, ``id``, ``kind``, ``status``, ``outcome`` and
        ``message``, if ``on_error="return"`` was given; otherwise None.

        It is available once the last deal has arrived; before that, it raises RuntimeError.
        """
        if self._last is None:
            raise RuntimeError("not all deals have been retrieved: the errors are known after the last one")
        return self._last.errors

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._retrieval.done} done>"

    def _begin(self, in_batches: bool) -> Any:
        if self._retrieval.in_batches is not None:
            raise RuntimeError("these deals have already been taken: call retrieve_many() again")
        self._retrieval.in_batches = in_batches
        return self._retrieval

    def _whole(self) -> Table:
        if self._last is None:
            raise RuntimeError("the table was closed before the last deal had come")
        return self._last

    def _end(self) -> None:
        self._retrieval._close()


class DealTable(_Deals, Closing):
    """A table of deals that are still being retrieved, as returned by ``client.deals.retrieve_many(…).to_arrow()``.

    It has Arrow's PyCapsule interface, so other libraries accept it directly: ``polars.DataFrame(table)``,
    ``pyarrow.table(table)``, ``pandas.DataFrame.from_arrow(table)``. All deals are then retrieved when first needed,
    and kept, so you can use the table many times.

    In a loop, ``for batch in table``, they are retrieved as you take the batches, once only, with just a few in memory.
    Each batch is a ``Table``, which other libraries accept as well.

    Ctrl-C ends the retrieval at once, and a deal that fails raises its exception, unless errors are returned.
    """

    def __arrow_c_schema__(self) -> object:
        """The schema for another library, as Arrow's PyCapsule interface has it."""
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The deals for another library, as Arrow's PyCapsule interface has it."""
        if self._last is None or self._retrieval.in_batches:
            with self._begin(in_batches=False) as retrieval:
                for self._last in retrieval:
                    pass
        return self._whole().__arrow_c_stream__(requested_schema)

    def __iter__(self) -> Iterator[Table]:
        """The batches. Leaving the loop cancels the calls in flight."""
        with self._begin(in_batches=True) as retrieval:
            last = None
            for last in retrieval:
                if len(last) > 0:
                    yield last
        self._last = last


class AsyncDealTable(_Deals, AsyncClosing):
    """A table of deals that are still being retrieved, as returned by ``to_arrow()`` of an async client.

    ``await`` it for all deals in one ``Table``, or take a ``Table`` for each batch with ``async for``.
    """

    def __await__(self) -> Generator[Any, None, Table]:
        return self._collected().__await__()

    async def _collected(self) -> Table:
        if self._last is None or self._retrieval.in_batches:
            async with self._begin(in_batches=False) as retrieval:
                async for self._last in retrieval:
                    pass
        return self._whole()

    async def __aiter__(self) -> AsyncIterator[Table]:
        """The batches. Leaving the loop cancels the calls in flight."""
        async with self._begin(in_batches=True) as retrieval:
            last = None
            async for last in retrieval:
                if len(last) > 0:
                    yield last
        self._last = last
