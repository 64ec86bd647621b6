"""Deals as a CSV file, each a row.

The columns follow the fields: a single value has a column named by its path (`listing_contract.address.city`), and
lists, metadata and undocumented fields are JSON in one cell. A new field in the core's table is a new column.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from types import UnionType
from typing import IO, Any, get_args, get_origin

from dealkit import Deal, fields
from dealkit._cli.json_text import json_text
from dealkit._cli.table_file import csv_line, harmless, header_line


def _paths(model: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The attributes that are columns, in the order of the specification."""
    for field in fields(model):
        # A list of models is one column.
        of = get_args(field.type) if get_origin(field.type) is UnionType else (field.type,)
        inner = next((one for one in of if hasattr(one, "from_json")), None)
        if inner is None:
            yield (*path, field.name)
        else:
            yield from _paths(inner, (*path, field.name))
    yield (*path, "extra")


COLUMNS = {".".join(path): path for path in _paths(Deal)}
"""The columns: their names, and the attributes that they hold."""


def write(file: IO[bytes], deals: Iterator[tuple[int, bytes]]) -> dict[int, list[str]]:
    """Writes a table of deals. Numbers have all their digits; a missing value is an empty cell."""
    file.write(header_line(COLUMNS).encode())
    for _, json in deals:
        deal = Deal.from_json(json, on_unreadable="none")
        file.write(csv_line(_cell(deal, path) for path in COLUMNS.values()).encode())
    return {}


def _cell(deal: Deal, path: tuple[str, ...]) -> str:
    value: Any = deal
    for name in path:
        value = getattr(value, name)
        if value is None:
            return ""
    match value:
        case str():
            return harmless(value)
        case Decimal():
            return f"{value:f}"
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case tuple() | Mapping():
            return json_text(value) if value else ""
    return str(value)
