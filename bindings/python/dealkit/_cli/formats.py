"""The files that deals are exported to: NDJSON, CSV and Parquet."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from itertools import groupby
from pathlib import Path
from types import UnionType
from typing import IO, Any, NamedTuple, get_args, get_origin

from dealkit import Deal, RawJson, fields
from dealkit._cli.exits import Failed
from dealkit._cli.screen import safe
from dealkit._cli.tables import harmless, header_line
from dealkit.arrow import deals_to_arrow, schema

# How many bytes of columns are in a row group: those of some ten thousand deals.
_ROW_GROUP = 16 << 20


class Format(NamedTuple):
    """How deals are written. They are kept in groups, from which the file is made at the end."""

    kept: Callable[[Any], bytes]
    """What is kept of a deal as it comes."""
    group: Callable[[list[bytes]], tuple[bytes, dict[int, list[str]]]]
    """A group of deals, and why some cannot be written after all, by position: the kind of the failure, the status, the
    outcome and the text."""
    join: Callable[[IO[bytes], Iterator[bytes]], None]
    """Writes the file from its groups."""
    is_raw: bool = False
    """Whether deals come as whole responses, in place of models."""


def format_of(out: Path, on_unreadable: str | None) -> Format:
    """The format that the extension of a file's name asks for. Makes sure that it can be written, before anything is
    retrieved."""
    match out.suffix.lower():
        case ".csv":
            return _text(_csv_row, header_line(COLUMNS))
        case ".parquet":
            return _parquet(with_pyarrow(), on_unreadable or "raise")
        case ".ndjson":
            return _text(_json_line)
    raise Failed("--out must end in .ndjson or .csv or .parquet, which selects the format")


def with_pyarrow() -> Any:
    """The package pyarrow, which is not a dependency of dealkit."""
    try:
        import pyarrow.ipc  # type: ignore[import-untyped, unused-ignore]
        import pyarrow.parquet  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        raise Failed(
            "Parquet files need pyarrow, which is not installed here: pip install 'dealkit[parquet]', or use .ndjson or .csv"
        ) from None
    return pyarrow


def _text(line: Callable[[Deal], bytes], header: bytes = b"") -> Format:
    """A line for each deal, below a header."""

    def join(file: IO[bytes], groups: Iterator[bytes]) -> None:
        file.write(header)
        file.writelines(groups)

    return Format(line, lambda lines: (b"".join(lines), {}), join)


def _json_line(deal: Deal) -> bytes:
    return deal.to_json().encode() + b"\n"


def _parquet(pyarrow: Any, on_unreadable: Any) -> Format:
    """The bodies of responses become columns at once, and Parquet's row groups once there are enough of them."""
    columns = pyarrow.schema(schema())
    options = pyarrow.ipc.IpcWriteOptions(compression="lz4")

    def group(deals: list[bytes]) -> tuple[bytes, dict[int, list[str]]]:
        # A blank line would be no deal, rather than one that cannot be read.
        lines = [deal.strip() or b"?" for deal in deals]
        table = deals_to_arrow(lines, on_error="return", on_unreadable=on_unreadable)
        errors = pyarrow.table(table.errors).to_pylist()
        # The service has responded with a deal.
        unfit = {one["index"]: [one["kind"], "", "succeeded", safe(one["message"])] for one in errors}
        sink = pyarrow.BufferOutputStream()
        with pyarrow.ipc.new_stream(sink, columns, options=options) as stream:
            stream.write_table(pyarrow.table(table))
        return sink.getvalue().to_pybytes(), unfit

    def join(file: IO[bytes], groups: Iterator[bytes]) -> None:
        with pyarrow.parquet.ParquetWriter(file, columns) as parquet:
            tables: list[Any] = []
            for group in groups:
                tables.append(pyarrow.ipc.open_stream(group).read_all())
                if sum(table.nbytes for table in tables) >= _ROW_GROUP:
                    parquet.write_table(pyarrow.concat_tables(tables))
                    tables.clear()
            if tables:
                parquet.write_table(pyarrow.concat_tables(tables))

    return Format(lambda response: response.body, group, join, is_raw=True)


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


# The columns in a row, by the model that has them.
_BY_MODEL = [(at, [path[-1] for path in paths]) for at, paths in groupby(COLUMNS.values(), lambda path: path[:-1])]

_QUOTED = re.compile('[,"\r\n]')


def _csv_row(deal: Deal) -> bytes:
    """A row. Numbers have all their digits; a missing value is an empty cell."""
    cells: list[str] = []
    for path, names in _BY_MODEL:
        model: Any = deal
        for name in path:
            model = model and getattr(model, name)
        cells += [_cell(getattr(model, name)) if model else "" for name in names]
    # Python's own writer looks at each character, and takes three times as long for cells of JSON.
    quoted = ('"' + cell.replace('"', '""') + '"' if _QUOTED.search(cell) else cell for cell in cells)
    return (",".join(quoted) + "\n").encode()


def _cell(value: Any) -> str:
    match value:
        case None:
            return ""
        case str():
            return harmless(value)
        case Decimal():
            return f"{value:f}"
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case tuple():
            return f"[{','.join(model.to_json() for model in value)}]" if value else ""
        case Mapping():
            return _json(value) if value else ""
    return str(value)


def _json(value: Any) -> str:
    """What a model has in its metadata and its undocumented fields, as JSON."""
    match value:
        case Mapping():
            return "{" + ",".join(f"{_json(name)}:{_json(one)}" for name, one in value.items()) + "}"
        case tuple() | list():
            return "[" + ",".join(map(_json, value)) + "]"
        case Decimal():
            return str(value)
        case RawJson():
            return value.text
    return json.dumps(value, ensure_ascii=False)
