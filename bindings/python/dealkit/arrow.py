"""Apache Arrow tables of deals, for polars, pandas, pyarrow, DuckDB and other libraries that read Arrow. All tables
have the same schema and exact values. dealkit itself requires none of these libraries.

>>> polars.DataFrame(client.deals.retrieve_many(ids).to_arrow())
>>> polars.DataFrame(dealkit.arrow.deals_to_arrow(open("deals.ndjson", "rb")))
>>> print(dealkit.arrow.schema())
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from dealkit import _native
from dealkit._core.arguments import check_int, check_on_error
from dealkit._core.closing import AsyncClosable, Closable
from dealkit._core.errors import make_exception, unwrap
from dealkit._native import Deal, Schema, Table

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator, Iterable, Iterator
    from typing import Any, Literal

__all__ = ["AsyncDealTable", "DealTable", "Schema", "Table", "deals_to_arrow", "schema"]

# The default number of deals in a batch.
_BATCH_SIZE = 65_536

# The number of documents that are passed to native code together.
_DOCUMENTS_PER_PUSH = 1_000


def schema(*, decimals: Literal["decimal128", "string"] = "decimal128", scale: int = 10) -> Schema:
    """Returns the columns of a table of deals. ``print`` lists them, and libraries can read them:
    ``pyarrow.schema(schema())``.

    Args:
        decimals: The type of decimal numbers: ``"decimal128"`` for ``decimal128(38, scale)``, or ``"string"`` for
            strings.
        scale: The number of digits after the point, 0 to 38.
    """
    return unwrap(_native.deal_schema(_check_scale(decimals, scale)))


def deals_to_arrow(
    deals: Iterable[Deal | bytes | bytearray | str],
    *,
    decimals: Literal["decimal128", "string"] = "decimal128",
    scale: int = 10,
    on_error: Literal["raise", "return"] = "raise",
    on_unreadable: Literal["raise", "skip"] = "raise",
) -> Table:
    """Makes a table of deals that you already have: models, or JSON documents such as the lines of an export.

    Native code converts documents to columns, without making Python objects. Blank documents are skipped.

    Args:
        deals: The deals: models, documents, or both.
        decimals: The type of decimal numbers: ``"decimal128"`` stores them as ``decimal128(38, scale)``, and
            ``"string"`` as strings with the digits as received.
        scale: The number of digits after the point, 0 to 38.
        on_error: The handling of a deal that is unreadable, or has a number that does not fit. ``"raise"`` raises
            DecodeError with the deal's ``index``. ``"return"`` adds a row to the table's ``errors``.
        on_unreadable: The handling of an optional field of a document that cannot be read. ``"raise"`` makes it an
            error of its deal. ``"skip"`` stores null, or an empty value, and the field's JSON in the column ``extra``
            of its struct. Unreadable fields of models are always skipped.
    """
    if isinstance(deals, Deal | str | bytes | bytearray):
        raise TypeError(f"deals must be an iterable of deals, not a {type(deals).__name__}")
    check_on_error(on_error)
    builder = _open_builder(_check_scale(decimals, scale), on_error == "return", _BATCH_SIZE)
    documents = _iterate_documents(deals)
    while document_batch := [*islice(documents, _DOCUMENTS_PER_PUSH)]:
        failed_document = unwrap(builder.push(document_batch, on_unreadable))
        if failed_document is not None:
            index, failure = failed_document
            raise make_exception(failure, index=index)
    table: Table = unwrap(builder.finish())
    return table


def _iterate_documents(deals: Iterable[Any]) -> Iterator[str | bytes | bytearray]:
    for index, deal in enumerate(deals):
        if isinstance(deal, Deal):
            yield deal._to_json()
        elif not isinstance(deal, str | bytes | bytearray):
            raise TypeError(f"deals[{index}] must be a Deal, or a JSON document, not {type(deal).__name__}")
        else:
            yield deal


def _open_builder(scale: int | None, returns_errors: bool, batch_size: int) -> _native.TableBuilder:
    return unwrap(_native.open_table_builder(scale=scale, returns_errors=returns_errors, batch_size=batch_size))


def _check_scale(decimals: str, scale: int) -> int | None:
    """Checks the arguments. Returns the scale, or None for decimals as strings."""
    check_int("scale", scale, 0, 38)
    if decimals not in ("decimal128", "string"):
        raise ValueError('decimals must be "decimal128" or "string"')
    return None if decimals == "string" else scale


class _DealTableBase:
    """The common base class of DealTable and AsyncDealTable."""

    def __init__(self, deals: Any, decimals: str, scale: int, batch_size: int | None) -> None:
        self._scale = _check_scale(decimals, scale)
        check_int("batch_size", batch_size, 1, or_none=True)
        builder = _open_builder(self._scale, deals._returns_errors, batch_size or _BATCH_SIZE)
        self._window: Any = deals._make_batch_window(builder)
        # The table of all deals, or the last batch of a loop over batches. None until the last deal has arrived.
        self._last_table: Table | None = None

    @property
    def schema(self) -> Schema:
        """The columns."""
        return unwrap(_native.deal_schema(self._scale))

    @property
    def errors(self) -> Table | None:
        """The deals that failed, as a table with the columns ``index``, ``id``, ``kind``, ``status``, ``outcome`` and
        ``message``. None unless ``on_error="return"`` was given.

        Raises RuntimeError if the last deal has not arrived yet.
        """
        if self._last_table is None:
            raise RuntimeError("not all deals have been retrieved: the errors are known after the last one")
        return self._last_table.errors

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._window.done_count} done>"

    def _start(self, in_batches: bool) -> Any:
        if self._window.in_batches is not None:
            raise RuntimeError("these deals have already been taken: call retrieve_many() again")
        self._window.in_batches = in_batches
        return self._window

    def _require_table(self) -> Table:
        if self._last_table is None:
            raise RuntimeError("the table was closed before the last deal had arrived")
        return self._last_table

    def _end(self) -> None:
        self._window._close()


class DealTable(_DealTableBase, Closable):
    """A table of deals that are still being retrieved, as returned by ``client.deals.retrieve_many(…).to_arrow()``.

    The table has Arrow's PyCapsule interface, so libraries accept it directly: ``polars.DataFrame(table)``,
    ``pyarrow.table(table)``, ``pandas.DataFrame.from_arrow(table)``. The first use retrieves all deals and caches them,
    so you can use the table many times.

    A loop, ``for batch in table``, retrieves the deals while you take the batches. Only a few batches are then in
    memory, and only one loop is possible. Each batch is a ``Table``, which libraries accept as well.

    Ctrl-C ends the retrieval immediately. A deal that fails raises its exception, unless ``on_error="return"`` was
    given.
    """

    def __arrow_c_schema__(self) -> object:
        """Exports the schema as an Arrow schema (PyCapsule)."""
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Exports the deals as an Arrow stream (PyCapsule)."""
        if self._last_table is None or self._window.in_batches:
            with self._start(in_batches=False) as window:
                for self._last_table in window:
                    pass
        return self._require_table().__arrow_c_stream__(requested_schema)

    def __iter__(self) -> Iterator[Table]:
        """Yields the batches. Leaving the loop cancels the calls in flight."""
        with self._start(in_batches=True) as window:
            last_batch = None
            for last_batch in window:
                if len(last_batch) > 0:
                    yield last_batch
        self._last_table = last_batch


class AsyncDealTable(_DealTableBase, AsyncClosable):
    """A table of deals that are still being retrieved, as returned by ``to_arrow()`` of an async client.

    ``await`` the table to get one ``Table`` with all deals. Or loop over it with ``async for``: each batch is a
    ``Table``.
    """

    def __await__(self) -> Generator[Any, None, Table]:
        return self._collect().__await__()

    async def _collect(self) -> Table:
        if self._last_table is None or self._window.in_batches:
            async with self._start(in_batches=False) as window:
                async for self._last_table in window:
                    pass
        return self._require_table()

    async def __aiter__(self) -> AsyncIterator[Table]:
        """Yields the batches. Leaving the loop cancels the calls in flight."""
        async with self._start(in_batches=True) as window:
            last_batch = None
            async for last_batch in window:
                if len(last_batch) > 0:
                    yield last_batch
        self._last_table = last_batch
