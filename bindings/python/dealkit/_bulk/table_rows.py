"""Rows of data frames, for ``create_many``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime, time
from typing import TYPE_CHECKING, Any, Protocol

from dealkit._core.arguments import suggest_name
from dealkit.params import AgentProfileParams, CreateAgentParams

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# The number of rows of a pandas data frame that are converted together.
_CHUNK_SIZE = 1000

_ROW_FIELDS = frozenset(CreateAgentParams.__annotations__)
_PROFILE_FIELDS = frozenset(f"profile.{name}" for name in AgentProfileParams.__annotations__)
# Objects with any fields. A column can have one of them, such as `extra.note`.
_FREE_FORM_FIELDS = ("extra", "profile.extra", "profile.client_metadata")


class ArrowTable(Protocol):
    """A data frame of polars or pandas, or a table of pyarrow. Each has this method of the Arrow PyCapsule interface."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...


def iterate_table(table: Any) -> Iterator[dict[str, Any]] | None:
    """Returns the rows of a table, without empty cells. Returns None for an object of another library.

    Raises:
        ValueError: The table has a column that is not named like a field, or two columns with one name.
    """
    if hasattr(table, "iter_rows"):
        columns, records = table.columns, table.iter_rows(named=True)
    elif hasattr(table, "to_batches"):
        columns = table.column_names
        records = (record for batch in table.to_batches() for record in batch.to_pylist())
    elif hasattr(table, "iloc"):
        columns, records = table.columns, _iterate_pandas(table)
    else:
        return None
    for column, count in Counter(columns).items():
        _check_column(column)
        if count > 1:
            raise ValueError(f"there are {count} columns {column!r}; drop or rename all but one of them")
    return map(_make_row, records)


def _check_column(name: Any) -> None:
    if name not in _ROW_FIELDS and name not in _PROFILE_FIELDS and not _is_free_form(str(name)):
        in_profile = f"profile.{name}"
        similar_name = in_profile if in_profile in _PROFILE_FIELDS else str(name)
        suggestion = suggest_name(similar_name, _ROW_FIELDS | _PROFILE_FIELDS)
        raise ValueError(f"the column {name!r} is not a field of an agent{suggestion or '; drop or rename it'}")


def _is_free_form(name: str) -> bool:
    return any(name.startswith(f"{field}.") for field in _FREE_FORM_FIELDS)


def _iterate_pandas(frame: Any) -> Iterator[dict[str, Any]]:
    for start in range(0, len(frame), _CHUNK_SIZE):
        chunk = frame.iloc[start : start + _CHUNK_SIZE].astype(object)
        yield from chunk.where(chunk.notna(), None).to_dict("records")


def _make_row(record: Mapping[str, Any]) -> dict[str, Any]:
    """Makes a row from the cells of a record. The column ``profile.tier`` becomes a field of the profile."""
    row: dict[str, Any] = {"profile": {}}
    for name, cell in _present_cells(record):
        fields, field = row, name
        for parent in ("profile", "extra", "client_metadata"):
            if field.startswith(f"{parent}."):
                fields, field = fields.setdefault(parent, {}), field.removeprefix(f"{parent}.")
        if isinstance(cell, Mapping) and name == "profile":
            row["profile"] |= _present_cells(cell)
        # Tables often have timestamps in place of dates.
        elif isinstance(cell, datetime) and cell.time() == time():
            fields[field] = cell.date()
        else:
            fields[field] = cell
    return row


def _present_cells(record: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    return [(name, cell) for name, cell in record.items() if cell is not None]
