"""The files that deals are exported to: NDJSON, CSV and Parquet."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from itertools import islice
from pathlib import Path
from types import UnionType
from typing import IO, Any, get_args, get_origin

from dealkit import Deal, RawJson, fields
from dealkit._cli.exits import Failed
from dealkit._cli.files import STANDARD
from dealkit._cli.tables import csv_line, harmless, header_line
from dealkit.arrow import deals_to_arrow, schema

# How many deals are in a row group, as in the guide.
_ROW_GROUP = 10_000

Write = Callable[[IO[bytes], Iterator[tuple[int, bytes]]], dict[int, list[str]]]
"""Writes a file from deals, each the position of its id and its JSON. Returns why deals cannot be written after all, by
position: the kind of the failure, the status, the outcome and the text."""


def writer_of(out: Path) -> Write:
    """What writes the kind of file that the extension of its name asks for. Makes sure that it can be written, before
    anything is retrieved."""
    match out.suffix.lower():
        case ".csv":
            return _write_csv
        case ".parquet":
            with_pyarrow()
            return _write_parquet
        case ".ndjson":
            return _write_lines
    if str(out) == STANDARD:
        return _write_lines
    raise Failed("--out must end in .ndjson or .csv or .parquet, which selects the format, or be - for standard output")


def with_pyarrow() -> Any:
    """The package pyarrow, which is not a dependency of dealkit."""
    try:
        import pyarrow.parquet  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        raise Failed(
            "Parquet files are written and read with pyarrow, which is not installed here. Install it:\n"
            "  pip install 'dealkit[parquet]'\nor export to .ndjson or .csv, which need no other package"
        ) from None
    return pyarrow


def _write_lines(file: IO[bytes], deals: Iterator[tuple[int, bytes]]) -> dict[int, list[str]]:
    file.writelines(deal + b"\n" for _, deal in deals)
    return {}


def _write_parquet(file: IO[bytes], deals: Iterator[tuple[int, bytes]]) -> dict[int, list[str]]:
    pyarrow = with_pyarrow()
    unfit: dict[int, list[str]] = {}
    positions: list[int] = []

    def group() -> Iterator[bytes]:
        for at, deal in islice(deals, _ROW_GROUP):
            positions.append(at)
            yield deal

    with pyarrow.parquet.ParquetWriter(file, pyarrow.schema(schema())) as parquet:
        while len(table := deals_to_arrow(group(), on_error="return", on_unreadable="none")) or positions:
            parquet.write_table(pyarrow.table(table))
            for error in pyarrow.table(table.errors).to_pylist():
                # The service has responded with a deal.
                unfit[positions[error["index"]]] = [error["kind"], "", "succeeded", error["message"]]
            positions.clear()
    return unfit


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
"""The columns of a CSV file: their names, and the attributes that they hold. A single value has a column named by its path
(`listing_contract.address.city`); lists, metadata and undocumented fields are JSON in one cell."""


def _write_csv(file: IO[bytes], deals: Iterator[tuple[int, bytes]]) -> dict[int, list[str]]:
    """Writes a row for each deal. Numbers have all their digits; a missing value is an empty cell."""
    file.write(header_line(COLUMNS))
    for _, text in deals:
        deal = Deal.from_json(text, on_unreadable="none")
        file.write(csv_line(_cell(deal, path) for path in COLUMNS.values()))
    return {}


def _cell(value: Any, path: tuple[str, ...]) -> str:
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
            return _json(value) if value else ""
    return str(value)


def _json(value: Any) -> str:
    """A model, or what it has in its lists, its metadata and its undocumented fields, as JSON."""
    match value:
        case Mapping():
            return "{" + ",".join(f"{_json(name)}:{_json(one)}" for name, one in value.items()) + "}"
        case tuple() | list():
            return "[" + ",".join(map(_json, value)) + "]"
        case Decimal():
            return str(value)
        case RawJson():
            return value.text
        case str() | int() | None:
            return json.dumps(value, ensure_ascii=False)
    text: str = value.to_json()
    return text
