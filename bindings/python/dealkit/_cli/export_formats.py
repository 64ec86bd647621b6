"""The file formats of exports: NDJSON, CSV and Parquet."""

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
from dealkit._cli.csv_tables import encode_header, escape_formula
from dealkit._cli.exit_codes import CommandError
from dealkit._cli.terminal import escape_controls
from dealkit.arrow import deals_to_arrow, schema

# The size of a Parquet row group, in bytes of Arrow columns. It holds about ten thousand deals.
_ROW_GROUP_BYTES = 16 << 20


class ExportFormat(NamedTuple):
    """A file format. Retrieved deals are stored in encoded groups, and the output file is written from the groups."""

    encode: Callable[[Any], bytes]
    """Encodes a retrieved deal."""
    encode_group: Callable[[list[bytes]], tuple[bytes, dict[int, list[str]]]]
    """Encodes a group of deals. Also returns the failures of deals that cannot be encoded, by position in the group:
    kind, status, outcome and message.
    """
    write_file: Callable[[IO[bytes], Iterator[bytes]], None]
    """Writes the output file from its groups."""
    is_raw: bool = False
    """True if `encode` takes a raw response instead of a model."""


def choose_format(out: Path, on_unreadable: str | None) -> ExportFormat:
    """Returns the format for the output file's extension. Raises CommandError if the format is unavailable, so that the
    command ends before any call.
    """
    match out.suffix.lower():
        case ".csv":
            return _text_format(_encode_csv_row, encode_header(COLUMNS))
        case ".parquet":
            return _parquet_format(import_pyarrow(), on_unreadable or "raise")
        case ".ndjson":
            return _text_format(_encode_json_line)
    raise CommandError(
        "--out must end in .csv (for a spreadsheet), .parquet or .ndjson: the end of the name selects the file's format."
    )


def import_pyarrow() -> Any:
    """Imports pyarrow, which is an optional dependency."""
    try:
        import pyarrow.ipc  # type: ignore[import-untyped, unused-ignore]
        import pyarrow.parquet  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        raise CommandError(
            "Parquet files need the package pyarrow, which is not installed. Install it, or use a file whose name ends in .csv:\n"
            '  pip install "dealkit[parquet]"'
        ) from None
    return pyarrow


def _text_format(encode_line: Callable[[Deal], bytes], header: bytes = b"") -> ExportFormat:
    """Returns a format whose files have a header and one line for each deal."""

    def write_file(file: IO[bytes], groups: Iterator[bytes]) -> None:
        file.write(header)
        file.writelines(groups)

    return ExportFormat(encode_line, lambda lines: (b"".join(lines), {}), write_file)


def _encode_json_line(deal: Deal) -> bytes:
    return deal.to_json().encode() + b"\n"


def _parquet_format(pyarrow: Any, on_unreadable: Any) -> ExportFormat:
    """Returns the Parquet format. A group of response bodies is converted to Arrow columns. Several groups then form a
    Parquet row group.
    """
    columns = pyarrow.schema(schema())
    options = pyarrow.ipc.IpcWriteOptions(compression="lz4")

    def encode_group(deals: list[bytes]) -> tuple[bytes, dict[int, list[str]]]:
        # `deals_to_arrow` skips blank documents. An empty body is therefore replaced with invalid JSON, so that its
        # deal is reported as a failure.
        lines = [deal.strip() or b"?" for deal in deals]
        table = deals_to_arrow(lines, on_error="return", on_unreadable=on_unreadable)
        errors = pyarrow.table(table.errors).to_pylist()
        # The service responded with the deal; only its conversion failed.
        failures = {item["index"]: [item["kind"], "", "succeeded", escape_controls(item["message"])] for item in errors}
        sink = pyarrow.BufferOutputStream()
        with pyarrow.ipc.new_stream(sink, columns, options=options) as stream:
            stream.write_table(pyarrow.table(table))
        return sink.getvalue().to_pybytes(), failures

    def write_file(file: IO[bytes], groups: Iterator[bytes]) -> None:
        with pyarrow.parquet.ParquetWriter(file, columns) as parquet:
            tables: list[Any] = []
            for group in groups:
                tables.append(pyarrow.ipc.open_stream(group).read_all())
                if sum(table.nbytes for table in tables) >= _ROW_GROUP_BYTES:
                    parquet.write_table(pyarrow.concat_tables(tables))
                    tables.clear()
            if tables:
                parquet.write_table(pyarrow.concat_tables(tables))

    return ExportFormat(lambda response: response.body, encode_group, write_file, is_raw=True)


def _column_paths(model: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yields the attribute paths that are columns, in the specification's order."""
    for field in fields(model):
        # A list of models is one column.
        types = get_args(field.type) if get_origin(field.type) is UnionType else (field.type,)
        nested_model = next((item for item in types if hasattr(item, "from_json")), None)
        if nested_model is None:
            yield (*path, field.name)
        else:
            yield from _column_paths(nested_model, (*path, field.name))
    yield (*path, "extra")


COLUMNS = {".".join(path): path for path in _column_paths(Deal)}
"""The columns of a CSV file: names and attribute paths. A single value has a column named after its path, such as
`listing_contract.address.city`. Lists, metadata and undocumented fields are JSON in one cell.
"""


# The columns, grouped by the path of the model that has their attributes.
_COLUMNS_BY_MODEL = [
    (model_path, [path[-1] for path in paths])
    for model_path, paths in groupby(COLUMNS.values(), lambda path: path[:-1])
]

_NEEDS_QUOTES = re.compile('[,"\r\n]')


def _encode_csv_row(deal: Deal) -> bytes:
    """Encodes a row. Numbers have all their digits, and a missing value is an empty cell."""
    cells: list[str] = []
    for path, names in _COLUMNS_BY_MODEL:
        model: Any = deal
        for name in path:
            model = model and getattr(model, name)
        cells += [_format_cell(getattr(model, name)) if model else "" for name in names]
    # Does not use the csv module, which inspects each character and takes three times as long for cells of JSON.
    quoted_cells = ('"' + cell.replace('"', '""') + '"' if _NEEDS_QUOTES.search(cell) else cell for cell in cells)
    return (",".join(quoted_cells) + "\n").encode()


def _format_cell(value: Any) -> str:
    match value:
        case None:
            return ""
        case str():
            return escape_formula(value)
        case Decimal():
            return f"{value:f}"
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case tuple():
            return f"[{','.join(model.to_json() for model in value)}]" if value else ""
        case Mapping():
            return _encode_json(value) if value else ""
    return str(value)


def _encode_json(value: Any) -> str:
    """Encodes metadata or undocumented fields as JSON."""
    match value:
        case Mapping():
            return "{" + ",".join(f"{_encode_json(name)}:{_encode_json(item)}" for name, item in value.items()) + "}"
        case tuple() | list():
            return "[" + ",".join(map(_encode_json, value)) + "]"
        case Decimal():
            return str(value)
        case RawJson():
            return value.text
    return json.dumps(value, ensure_ascii=False)
