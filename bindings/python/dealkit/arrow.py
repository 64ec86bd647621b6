"""Deals as Apache Arrow tables: exact, with one schema, for polars, pandas, pyarrow, DuckDB and anything else that
reads Arrow. dealkit depends on none of them.

>>> polars.DataFrame(client.deals.retrieve_many(ids).to_arrow())
>>> polars.DataFrame(dealkit.arrow.deals_to_arrow(open("deals.ndjson", "rb")))
>>> print(dealkit.arrow.schema())
"""

from __future__ import annotations

from itertools import islice, zip_longest

from dealkit import _native
from dealkit._core.arguments import check_int, check_on_error
from dealkit._core.closing import AsyncClosing, Closing
from dealkit._core.failure import exception, unwrap
from dealkit._native import Deal, Schema, Table
from dealkit._observe import log, watch

# For type checkers only: importing typing takes longer than importing all of dealkit.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator
    from typing import Any, Literal

    from dealkit._bulk.progress import Display
    from dealkit._calls.service import Service
    from dealkit._observe.trace import Description
    from dealkit._observe.watch import Watched

__all__ = ["AsyncDealTable", "DealTable", "Schema", "Table", "deals_to_arrow", "schema"]

# How many deals make up a batch if no size is given.
_BATCH_SIZE = 65_536

# How many documents or identifiers are handed over at a time.
_AT_A_TIME = 1_000


def schema(*, decimals: Literal["decimal128", "string"] = "decimal128", scale: int = 10) -> Schema:
    """The columns of a table of deals, for people (``print``) and for libraries (``pyarrow.schema``).

    Args:
        decimals: How decimal numbers are kept: as ``decimal128(38, scale)``, or as strings.
        scale: How many digits there are after the point, 0 to 38.
    """
    return unwrap(_native.deal_schema(_native_scale(decimals, scale)))


def deals_to_arrow(
    deals: Iterable[Deal | bytes | bytearray | str],
    *,
    decimals: Literal["decimal128", "string"] = "decimal128",
    scale: int = 10,
    on_error: Literal["raise", "return"] = "raise",
) -> Table:
    """Turns deals that you already have into a table: models, or JSON documents such as the lines of an export.

    Documents are read straight into columns. Blank lines are skipped.

    Args:
        deals: The deals: models or documents, or a mixture of both.
        decimals: How decimal numbers are kept: as ``decimal128(38, scale)``, or as strings with the digits that came.
        scale: How many digits there are after the point, 0 to 38.
        on_error: Whether a deal that cannot be read, or that has a number that does not fit, raises DecodeError, with
            its ``index``, or becomes a row of the table's ``errors``.
    """
    if isinstance(deals, Deal | str | bytes | bytearray):
        raise TypeError(f"deals must be an iterable of deals, not a {type(deals).__name__}")
    check_on_error(on_error)
    builder = unwrap(_native.open_table_builder(_native_scale(decimals, scale), on_error == "return"))
    documents = _documents(deals)
    while some := [*islice(documents, _AT_A_TIME)]:
        failed = unwrap(builder.push(some))
        if failed is not None:
            index, failure = failed
            raise _failed(index, None, failure)
    return unwrap(builder.finish())


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


def _failed(index: int, id: str | None, failure: _native.Failure) -> Exception:
    error: Any = exception(failure, id)
    error.index = index
    return error  # type: ignore[no-any-return]


class Retrieval:
    """The work of ``retrieve_many``, for a table to do instead."""

    native: _native.Many

    def __init__(
        self,
        service: Service,
        options: _native.Options | None,
        ids: Iterator[str],
        concurrency: int,
        ordered: bool,
        returns_errors: bool,
        progress: Display | None,
        description: Description | _native.Failure,
    ) -> None:
        self._service = service
        self._options = options
        self._ids = ids
        self._concurrency = concurrency
        self._ordered = ordered
        self._returns_errors = returns_errors
        self._progress = progress
        self._description = description
        self._pushed = 0
        self.done: int = 0
        """How many deals have come, as far as is known."""
        # The watched calls in flight, by index.
        self._watched: dict[int, Watched] = {}

    def begin(self, batch_size: int | None, scale: int | None, own_thread: bool) -> None:
        """Opens the stream, with nothing in flight."""
        engine = self._service.open()
        table = self._concurrency, batch_size or _BATCH_SIZE, scale, self._returns_errors, own_thread
        self.native = unwrap(engine.many(self._ordered, self._options, False, table))

    def advance(self) -> bool:
        """Does what there is to do; returns whether all deals have come."""
        come, wants_ids, watched, has_ended = unwrap(self.native.news())
        for index, failure in watched:
            # It is missing if the table was closed in the meantime, by another thread or by the code that logs this.
            if (ended := self._watched.pop(index, None)) is not None:
                ended.end(None if failure is None else exception(failure))
        self.flush()
        self.done += come
        if self._progress is not None:
            for _ in range(come):
                self._progress.advance()
        if wants_ids:
            self._push(self._concurrency, self._watches)
        return has_ended

    @property
    def is_watched(self) -> bool:
        """Whether any call in flight is watched."""
        return bool(self._watched)

    def flush(self) -> None:
        """Logs what has been traced for the calls in flight."""
        for one in [*self._watched.values()]:
            one.flush()

    def _push(self, count: int, watches: Callable[[range], Any]) -> bool:
        """Hands over the next identifiers; returns whether they were the last."""
        ids = [*islice(self._ids, count)]
        first = self._pushed
        self._pushed += len(ids)
        is_last = len(ids) < count
        inputs = [*zip_longest(ids, watches(range(first, self._pushed)))]
        unwrap(self.native.push(inputs, first, is_last))
        return is_last

    def _watches(self, indexes: range) -> list[_native.Watch]:
        """The watches of the first of these calls, up to one that is not watched: usually all of them, or none."""
        watches = []
        for index in indexes:
            watched = watch.begin(watch.described, self._description)
            if watched is None:
                break
            self._watched[index] = watched
            watches.append(watched.native)
        return watches

    def raise_failure(self) -> None:
        """Raises the exception of the deal that failed, unless it is to be returned or there is none."""
        failed = unwrap(self.native.failed())
        if failed is not None:
            raise _failed(*failed)

    def close(self) -> None:
        """Cancels the calls in flight."""
        self.native.close()
        while self._watched:
            self._watched.popitem()[1].end(None)
        self.hide_progress()

    def hide_progress(self) -> None:
        """Stops showing progress."""
        progress, self._progress = self._progress, None
        if progress is not None:
            progress.end()

    def capsule(self) -> object:
        """The stream for another library, which takes the batches from any thread and perhaps with the GIL held:
        everything that it needs from Python is handed over now.
        """
        log = _Log.begin()
        native = None if log is None else log.native
        while not self._push(_AT_A_TIME, lambda indexes: [native] * len(indexes)):
            pass
        capsule = unwrap(self.native.capsule())
        if self._progress is not None or log is not None:
            from threading import Thread

            Thread(target=self._look_after, args=(log,), name="dealkit-arrow", daemon=True).start()
        return capsule

    def _look_after(self, log: _Log | None) -> None:
        """Shows progress, and writes the log, while another library takes the batches."""
        has_ended, progress = False, self._progress
        try:
            while not has_ended:
                self.native.wait_for_end()
                come, _, _, has_ended = unwrap(self.native.news())
                self.done += come
                if log is not None:
                    log.flush()
                if progress is not None:
                    for _ in range(come):
                        progress.advance()
        finally:
            self.close()


class _Log:
    """The log of calls that all belong to one stream: they have no spans of their own."""

    def __init__(self, level: int) -> None:
        self._level = level
        self.native = unwrap(_native.watch(level, []))

    @classmethod
    def begin(cls) -> _Log | None:
        """Begins, if anybody reads the log."""
        level = log.level()
        return None if level == log.NEVER else cls(level)

    def flush(self) -> None:
        """Logs what has been traced since the last time."""
        for level, fields in unwrap(self.native.take()):
            if level >= self._level:
                log.write(level, fields)


class _Deals:
    """What the tables of the sync and the async client have in common."""

    def __init__(self, hand_on: Callable[[], Retrieval], decimals: str, scale: int, batch_size: int | None) -> None:
        self._scale = _native_scale(decimals, scale)
        check_int("batch_size", batch_size, 1, or_none=True)
        self._batch_size = batch_size
        self._retrieval = hand_on()
        self._has_begun = False
        # All deals, once they have been retrieved at once.
        self._whole: Table | None = None

    @property
    def schema(self) -> Schema:
        """The columns."""
        return unwrap(_native.deal_schema(self._scale))

    @property
    def errors(self) -> Table | None:
        """The deals that failed, as a table with the columns ``index``, ``id``, ``kind``, ``status``, ``outcome`` and
        ``message``, where ``on_error="return"`` was asked for; otherwise None.

        It is available once the last deal has come; before that, it raises RuntimeError. If a deal that failed has
        ended the stream, it raises that deal's exception.
        """
        if not self._has_begun:
            raise RuntimeError("no deal has been retrieved yet: the errors are known after the last one")
        self._retrieval.raise_failure()
        return unwrap(self._retrieval.native.errors())

    def __repr__(self) -> str:
        how_far = f"{self._retrieval.done} done" if self._has_begun else "not begun"
        return f"<{type(self).__name__}: {how_far if self._whole is None else f'{len(self._whole)} deals'}>"

    def _begin(self, own_thread: bool = False) -> Retrieval:
        if self._has_begun:
            raise RuntimeError("these deals have already been taken: call retrieve_many() again")
        self._retrieval.begin(self._batch_size, self._scale, own_thread)
        self._has_begun = True
        return self._retrieval

    def _end(self) -> None:
        if self._has_begun:
            self._retrieval.close()
        else:
            self._retrieval.hide_progress()


class DealTable(_Deals, Closing):
    """Deals on their way into a table, as returned by ``client.deals.retrieve_many(…).to_arrow()``.

    It has Arrow's PyCapsule interface, so other libraries accept it as it is: ``polars.DataFrame(table)``,
    ``pyarrow.table(table)``, ``pandas.DataFrame.from_arrow(table)``.

    * Without ``batch_size``, all deals are retrieved when they are first needed, and then kept: the table can be used
      many times. Ctrl-C ends the retrieval at once, and a deal that fails raises its exception.
    * With ``batch_size``, they are retrieved while the batches are taken, once only, and memory holds a few batches.
      If the batches are taken in Python (``for batch in table``), Ctrl-C and exceptions work in the same way, and
      each batch is a ``Table``. If a library takes them through the interface, all identifiers are handed over first,
      Ctrl-C waits until the library returns to Python, and the library raises its own exception for the stream's
      error, whose text says which deal failed and why; ``errors`` then raises the original exception. The calls are
      logged, but have no spans.

    In every case, each call has its own deadline: a stream never waits longer than the deadline of one deal.
    """

    def __arrow_c_schema__(self) -> object:
        """The schema for another library, as Arrow's PyCapsule interface has it."""
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The deals for another library, as Arrow's PyCapsule interface has it."""
        if self._batch_size is not None:
            return self._begin(own_thread=True).capsule()
        if self._whole is None:
            batches = [*self._batches()]
            self._whole = unwrap(self._retrieval.native.whole(batches))
        return self._whole.__arrow_c_stream__(requested_schema)

    def __iter__(self) -> Iterator[Table]:
        """The batches. Leaving the loop cancels the calls in flight."""
        return self._batches()

    def _batches(self) -> Iterator[Table]:
        retrieval = self._begin()
        native = retrieval.native
        try:
            while True:
                has_ended = retrieval.advance()
                while (batch := unwrap(native.batch())) is not None:
                    yield batch
                if has_ended:
                    break
                # In short waits: signals are handled in between.
                unwrap(native.wait())
            retrieval.raise_failure()
        finally:
            retrieval.close()


class AsyncDealTable(_Deals, AsyncClosing):
    """Deals on their way into a table, as returned by ``to_arrow()`` of an async client.

    ``await`` it for all deals in one ``Table``, or take a ``Table`` for each batch with ``async for``.
    """

    def __await__(self) -> Generator[Any, None, Table]:
        return self._collected().__await__()

    async def _collected(self) -> Table:
        if self._whole is None:
            batches = [batch async for batch in self._batches()]
            self._whole = unwrap(self._retrieval.native.whole(batches))
        return self._whole

    def __aiter__(self) -> AsyncIterator[Table]:
        """The batches. Leaving the loop cancels the calls in flight."""
        return self._batches()

    async def _batches(self) -> AsyncIterator[Table]:
        from dealkit._calls.event_loop import news

        retrieval = self._begin()
        native = retrieval.native
        try:
            while True:
                has_ended = retrieval.advance()
                while (batch := unwrap(native.batch())) is not None:
                    yield batch
                if has_ended:
                    break
                await news(native.tell, retrieval.flush if retrieval.is_watched else None)
            retrieval.raise_failure()
        finally:
            retrieval.close()
