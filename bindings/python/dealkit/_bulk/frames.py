"""Data frames of pandas and polars as rows by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, time
from typing import Any, Protocol


class Frame(Protocol):
    """A data frame of pandas or polars."""

    @property
    def columns(self) -> Any:
        """The names of the columns."""
        ...

    def __len__(self) -> int: ...


def rows_of(given: Any) -> Iterable[Any]:
    """The rows of a data frame; anything else as it is."""
    is_frame = type(given).__name__ == "DataFrame" and type(given).__module__.startswith(("pandas", "polars"))
    return _rows(given) if is_frame else given


def _rows(frame: Any) -> Iterator[dict[str, Any]]:
    """A cell without a value is left out. The fields of the profile are columns such as ``profile.tier``."""
    names = [str(name).partition(".") for name in frame.columns]
    values = frame.iter_rows() if hasattr(frame, "iter_rows") else frame.itertuples(index=False, name=None)
    for cells in values:
        row: dict[str, Any] = {"profile": {}}
        for (name, _, below), cell in zip(names, cells, strict=True):
            if _is_missing(cell):
                continue
            # pandas has no other type for a date.
            value = cell.date() if isinstance(cell, datetime) and cell.time() == time() else cell
            if below:
                row.setdefault(name, {})[below] = value
            else:
                row[name] = value
        yield row


def _is_missing(cell: Any) -> bool:
    is_nan = isinstance(cell, float) and cell != cell
    return cell is None or is_nan or type(cell).__name__ in ("NAType", "NaTType")
