"""What retrieves deals for a table, in batches."""

from __future__ import annotations

from _thread import get_ident
from typing import TYPE_CHECKING, Any

from dealkit import _native
from dealkit._bulk.window import AsyncWindow, SyncWindow, Window
from dealkit._core.failure import exception, unwrap
from dealkit._native import Table
from dealkit._observe import watch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dealkit._bulk.progress import Display

# How many identifiers are handed over at a time, if all of them are.
_AT_A_TIME = 1_000


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
        self._log = watch.of_many(self._description)
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


class SyncRetrieval(Retrieval, SyncWindow[Table]):
    """The batches of a table that are waited for."""

    __slots__ = ()


class AsyncRetrieval(Retrieval, AsyncWindow[Table]):
    """The batches of a table that are awaited."""

    __slots__ = ()
