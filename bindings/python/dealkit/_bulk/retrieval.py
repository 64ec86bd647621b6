"""What retrieves deals for a table: their responses are read into columns, without any objects."""

from __future__ import annotations

from _thread import get_ident
from typing import TYPE_CHECKING, Any

from dealkit._bulk.window import AsyncWindow, SyncWindow, Window
from dealkit._core.failure import exception, unwrap
from dealkit._native import Table
from dealkit.exceptions import DealkitError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dealkit import _native
    from dealkit._bulk.progress import Display


class Retrieval(Window[Table]):
    """The work of ``retrieve_many``, done for a table: its batches as they are filled, if these are wanted, and at the end
    the rest of it.
    """

    __slots__ = ("_builder", "done", "in_batches")

    def __init__(
        self,
        ids: Iterator[str],
        many: _native.Many,
        description: Any,
        on_error: str,
        progress: Display | None,
        builder: _native.TableBuilder,
    ) -> None:
        super().__init__(ids, many, description, on_error, raw=True)
        self._progress = progress
        self._builder = builder
        self.in_batches: bool | None = None
        """Whether batches are wanted; None before it has begun."""
        self.done: int = 0
        """How many deals have come."""

    def _result(self, index: int, id: str | None, value: Any, record: object) -> Any:
        """A batch, if the result has filled one."""
        failure = self._builder.add(index, id or "", value)
        error = None if failure is None else exception(failure, id, index)
        self._unwatch(index, error)
        if error is not None and not (self._returns_errors and isinstance(error, DealkitError)):
            raise error
        self.done += 1
        return unwrap(self._builder.batch()) if self.in_batches else None

    def _next(self) -> _native.Many | None:
        thread = get_ident()
        with self._lock:
            while True:
                was_open = self._many is not None
                many = super()._next()
                if thread not in self._handing:
                    # Only at the end: a part of a table must not look like a whole one.
                    if was_open and self._many is None:
                        self._handing[thread] = unwrap(self._builder.finish())
                    return many
                if self._handing[thread] is not None:
                    return None
                del self._handing[thread]

    def _hand_over(self) -> Table:
        return self._handing.pop(get_ident())


class SyncRetrieval(Retrieval, SyncWindow[Table]):
    """A table that is waited for."""

    __slots__ = ()


class AsyncRetrieval(Retrieval, AsyncWindow[Table]):
    """A table that is awaited."""

    __slots__ = ()
