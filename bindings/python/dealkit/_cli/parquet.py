"""Deals as a Parquet file, written by pyarrow, which is not a dependency of dealkit."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from dealkit._cli.exits import Failed
from dealkit._models.classes import Deal
from dealkit.arrow import deals_to_arrow, schema

# How many deals are in memory at a time, and in a row group.
_AT_A_TIME = 10_000

_NO_PYARROW = """\
Parquet files are written with pyarrow, which is not installed here. Install it:
  pip install 'dealkit[parquet]'
or export to .ndjson or .csv, which need no other package"""


def require() -> None:
    """Makes sure that a file can be written, before anything is retrieved."""
    _pyarrow()


def line(deal: Deal) -> str:
    """The line that is kept for a deal. Raises DecodeError if it has a number that does not fit into the table."""
    json = deal.to_json()
    deals_to_arrow([json])
    return json + "\n"


def finish(lines: Path, out: Path) -> None:
    """Makes the file from the lines, and removes them. The file gets its name once it is complete."""
    pyarrow, parquet = _pyarrow()
    new = out.with_name(out.name + ".new")
    try:
        with open(lines, "rb") as documents, parquet.ParquetWriter(new, pyarrow.schema(schema())) as writer:
            for some in _batches(documents):
                writer.write_table(pyarrow.table(deals_to_arrow(some)))
        os.replace(new, out)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    lines.unlink()


def _batches(lines: Iterator[bytes]) -> Iterator[list[bytes]]:
    while some := [*islice(lines, _AT_A_TIME)]:
        yield some


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow  # type: ignore[import-untyped, unused-ignore]
        import pyarrow.parquet  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        raise Failed(_NO_PYARROW) from None
    return pyarrow, pyarrow.parquet
