"""Rows of data frames, for ``create_many``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime, time
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from dealkit._core.arguments import suggest_name
from dealkit.params import AgentProfileParams, CreateAgentParams

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# The number of rows of a pandas data frame that are converted together.
_CHUNK_SIZE = 1000

_FIELDS = frozenset(CreateAgentParams.__annotations__) | {
    f"profile.{name}" for name in AgentProfileParams.__annotations__
}
# Objects with any fields: a column can hold one of them, such as `extra.note`.
_FREE_FORM_OBJECTS = ("profile.client_metadata", "profile.extra", "extra")


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
    locations: dict[Any, _Location] = {}
    for column, count in Counter(columns).items():
        locations[column] = _locate(column)
        if count > 1:
            raise ValueError(f"there are {count} columns {column!r}; drop or rename all but one of them")
    return (_make_row(record, locations) for record in records)


class _Location(NamedTuple):
    """The field that a column holds."""

    objects: tuple[str, ...]
    """The names of the objects that contain the field, outermost first."""
    field: str


def _locate(column: Any) -> _Location:
    """Returns the location of a column's field. Raises ValueError if there is no such field."""
    name = str(column)
    for parent in (*_FREE_FORM_OBJECTS, "profile"):
        if name.startswith(f"{parent}.") and (parent in _FREE_FORM_OBJECTS or name in _FIELDS):
            return _Location((*parent.split("."),), name.removeprefix(f"{parent}."))
    if name in _FIELDS:
        return _Location((), name)
    similar_name = f"profile.{name}" if f"profile.{name}" in _FIELDS else name
    suggestion = suggest_name(similar_name, _FIELDS)
    raise ValueError(f"the column {column!r} is not a field of an agent{suggestion or '; drop or rename it'}")


def _iterate_pandas(frame: Any) -> Iterator[dict[str, Any]]:
    for start in range(0, len(frame), _CHUNK_SIZE):
        chunk = frame.iloc[start : start + _CHUNK_SIZE].astype(object)
        yield from chunk.where(chunk.notna(), None).to_dict("records")


def _make_row(record: Mapping[Any, Any], locations: Mapping[Any, _Location]) -> dict[str, Any]:
    """Makes a row from the cells of a record."""
    row: dict[str, Any] = {"profile": {}}
    for column, cell in _present_cells(record):
        objects, field = locations[column]
        fields: Any = row
        for name in objects:
            fields = fields.setdefault(name, {}) if isinstance(fields, dict) else None
        if not isinstance(fields, dict):
            pass  # Another column has a value that is no object. The rules reject the row.
        elif isinstance(cell, Mapping):
            # Other columns may hold fields of the same object.
            members = _present_cells(cell) if column == "profile" else cell
            fields[field] = {**fields.get(field, {}), **dict(members)}
        # Tables often have timestamps in place of dates.
        elif isinstance(cell, datetime) and cell.time() == time():
            fields[field] = cell.date()
        else:
            fields[field] = cell
    return row


def _present_cells(record: Mapping[Any, Any]) -> Iterable[tuple[Any, Any]]:
    return [(column, cell) for column, cell in record.items() if cell is not None]
