"""A deal as one row of a CSV file.

The columns follow the fields: a single value has a column named by its path (`listing_contract.address.city`), and
lists, metadata and undocumented fields are JSON in one cell. A new field in the core's table is a new column.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NamedTuple

from dealkit import _native
from dealkit._core.failure import unwrap
from dealkit._core.plain import plain
from dealkit._models.classes import MODELS, Deal

_BY_NAME: dict[str, Any] = {model.__name__: model for model in MODELS}


class Column(NamedTuple):
    """A column, and which attribute it holds."""

    path: tuple[str, ...]
    is_json: bool

    @property
    def name(self) -> str:
        """The name in the header."""
        return ".".join(self.path)


def columns(model: Any = Deal, path: tuple[str, ...] = ()) -> Iterator[Column]:
    """The columns of a deal, in the order of the specification."""
    for name, _, kind, *_ in model.__dealkit_fields__:
        if kind in _BY_NAME:
            yield from columns(_BY_NAME[kind], (*path, name))
        else:
            yield Column((*path, name), is_json=kind.startswith("[") or kind == "strings")
    yield Column((*path, "extra"), is_json=True)


COLUMNS = tuple(columns())


def header() -> str:
    """The line of column names."""
    return header_line(column.name for column in COLUMNS)


def header_line(names: Iterable[str], delimiter: str = ",") -> str:
    """The first line of a CSV file, with the byte-order mark without which Excel does not read it as UTF-8."""
    return "\ufeff" + csv_line(names, delimiter)


def row(deal: Deal) -> str:
    """The line of a deal. Numbers have all their digits; a missing value is an empty cell."""
    return csv_line(_cell(deal, column) for column in COLUMNS)


def csv_line(cells: Iterable[str], delimiter: str = ",") -> str:
    """Texts as a line of CSV."""
    line = io.StringIO(newline="")
    csv.writer(line, delimiter=delimiter, lineterminator="\n").writerow(cells)
    return line.getvalue()


def _cell(deal: Deal, column: Column) -> str:
    value: Any = deal
    for name in column.path:
        value = getattr(value, name)
        if value is None:
            return ""
    if column.is_json:
        return _json(value) if value else ""
    match value:
        case Decimal():
            return f"{value:f}"
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return str(value)


def _json(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{','.join(model.to_json() for model in value)}]"
    return unwrap(_native.json_text("value", plain(value)))
