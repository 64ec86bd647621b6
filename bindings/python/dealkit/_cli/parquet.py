"""Deals as a Parquet file, written by pyarrow, which is not a dependency of dealkit."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import IO, Any

from dealkit._cli.exits import Failed
from dealkit._cli.part import Write
from dealkit.arrow import deals_to_arrow, schema

# How many deals are in a row group, as in the guide.
_ROW_GROUP = 10_000

_NO_PYARROW = """\
Parquet files are written with pyarrow, which is not installed here. Install it:
  pip install 'dealkit[parquet]'
or export to .ndjson or .csv, which need no other package"""


def writer() -> Write:
    """Writes a Parquet file. Makes sure that it can be written, before anything is retrieved."""
    try:
        import pyarrow  # type: ignore[import-untyped, unused-ignore]
        import pyarrow.parquet  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        raise Failed(_NO_PYARROW) from None
    arrow: Any = pyarrow

    def write(file: IO[bytes], deals: Iterator[tuple[int, bytes]]) -> dict[int, list[str]]:
        unfit: dict[int, list[str]] = {}
        positions: list[int] = []

        def group() -> Iterator[bytes]:
            for at, deal in islice(deals, _ROW_GROUP):
                positions.append(at)
                yield deal

        with arrow.parquet.ParquetWriter(file, arrow.schema(schema())) as parquet:
            while len(table := deals_to_arrow(group(), on_error="return", on_unreadable="none")) or positions:
                parquet.write_table(arrow.table(table))
                for error in arrow.table(table.errors).to_pylist():
                    # The service has responded with a deal.
                    unfit[positions[error["index"]]] = [error["kind"], "", "succeeded", error["message"]]
                positions.clear()
        return unfit

    return write
