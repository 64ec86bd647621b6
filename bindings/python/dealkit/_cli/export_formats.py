"""The file formats of exports: NDJSON, CSV, Excel workbooks and Parquet."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from itertools import chain, groupby
from pathlib import Path
from types import UnionType
from typing import IO, Any, NamedTuple, get_args, get_origin

from dealkit import Deal, RawJson, fields
from dealkit._cli.csv_tables import DELIMITERS, encode_header, escape_formula
from dealkit._cli.excel_files import import_openpyxl
from dealkit._cli.excel_tables import MAX_DATA_ROWS, fits_into_cell, write_workbook
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
    delimiter: str = ","
    """The delimiter of a CSV file, and of the list of failures."""
    max_deals: int | None = None


def choose_format(out: Path, on_unreadable: str | None, delimiter: str | None = None) -> ExportFormat:
    """Returns the format for the output file's extension. Raises CommandError if the format is unavailable, so that the
    command ends before any call.
    """
    extension = out.suffix.lower()
    if delimiter is not None and extension != ".csv":
        raise CommandError("--delimiter is only for .csv files: omit it, or name a .csv file with --out")
    match extension:
        case ".csv":
            return _csv_format(delimiter or ",")
        case ".xlsx":
            import_openpyxl()
            return ExportFormat(_encode_workbook_row, _encode_workbook_group, _write_workbook, max_deals=MAX_DATA_ROWS)
        case ".parquet":
            return _parquet_format(import_pyarrow(), on_unreadable or "raise")
        case ".ndjson":
            return _text_format(_encode_json_line)
    raise CommandError(
        "--out must end in .csv or .xlsx (for a spreadsheet), .parquet or .ndjson: the end of the name selects the file's format."
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


def _csv_format(delimiter: str) -> ExportFormat:
    text_format = _text_format(partial(_encode_csv_row, delimiter), encode_header(COLUMNS, delimiter))
    return text_format._replace(delimiter=delimiter)


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

# A cell with one of these characters is quoted. A comma always is, because programs that ignore the delimiter split at commas.
_NEEDS_QUOTES = {delimiter: re.compile(f'[{re.escape(delimiter)},"\r\n]') for delimiter in DELIMITERS.values()}


def _list_values(deal: Deal) -> Iterator[Any]:
    """Yields the value of each column. A missing value is None."""
    for path, names in _COLUMNS_BY_MODEL:
        model: Any = deal
        for name in path:
            model = model and getattr(model, name)
        for name in names:
            yield getattr(model, name) if model else None


def _encode_csv_row(delimiter: str, deal: Deal) -> bytes:
    """Encodes a row. Numbers have all their digits, and a missing value is an empty cell."""
    cells = (escape_formula(value) if isinstance(value, str) else _format_cell(value) for value in _list_values(deal))
    needs_quotes = _NEEDS_QUOTES[delimiter].search
    # Does not use the csv module, which inspects each character and takes three times as long for cells of JSON.
    quoted_cells = ('"' + cell.replace('"', '""') + '"' if needs_quotes(cell) else cell for cell in cells)
    return (delimiter.join(quoted_cells) + "\n").encode()


# The type of a cell in the rows of a stored group, which are JSON. Text cells are strings.
_NUMBER, _DATE = "number", "date"

# Begins the row of a deal that does not fit into a workbook. The name of the column follows.
_OVERLONG = b"!"

# Excel stores this many digits of a number. It counts days from 1900 but has a February 29 in that year, so its earlier dates
# are wrong.
_MAX_DIGITS, _FIRST_DATE = 15, date(1900, 3, 1)


def _encode_workbook_row(deal: Deal) -> bytes:
    """Encodes a row of a workbook."""
    cells = [_encode_workbook_cell(value) for value in _list_values(deal)]
    for name, cell in zip(COLUMNS, cells, strict=True):
        if isinstance(cell, str) and not fits_into_cell(cell):
            return _OVERLONG + name.encode()
    return json.dumps(cells).encode()


def _encode_workbook_cell(value: Any) -> str | list[str]:
    """Returns a number or a date if Excel stores it exactly, or else text. A timestamp is text, because Excel's have no time
    zone.
    """
    match value:
        case Decimal() if len(value.as_tuple().digits) <= _MAX_DIGITS and abs(value.adjusted()) < _MAX_DIGITS:
            return [_NUMBER, f"{value:f}"]
        case int() if not isinstance(value, bool) and len(str(abs(value))) <= _MAX_DIGITS:
            return [_NUMBER, str(value)]
        case date() if not isinstance(value, datetime) and value >= _FIRST_DATE:
            return [_DATE, value.isoformat()]
    return _format_cell(value)


def _encode_workbook_group(rows: list[bytes]) -> tuple[bytes, dict[int, list[str]]]:
    # The service responded with the deal; only its conversion failed.
    failures = {
        index: [
            "decode",
            "",
            "succeeded",
            f"{row[len(_OVERLONG) :].decode()} is too long for a cell of Excel: use .csv or .ndjson",
        ]
        for index, row in enumerate(rows)
        if row.startswith(_OVERLONG)
    }
    return b"".join(row + b"\n" for index, row in enumerate(rows) if index not in failures), failures


def _write_workbook(file: IO[bytes], groups: Iterator[bytes]) -> None:
    rows = (map(_decode_workbook_cell, json.loads(line)) for group in groups for line in group.splitlines())
    write_workbook(file, chain([COLUMNS], rows))


def _decode_workbook_cell(cell: str | list[str]) -> object:
    match cell:
        case [kind, text]:
            return Decimal(text) if kind == _NUMBER else date.fromisoformat(text)
    return cell


def _format_cell(value: Any) -> str:
    match value:
        case None:
            return ""
        case str():
            return value
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
