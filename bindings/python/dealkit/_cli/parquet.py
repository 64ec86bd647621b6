"""Deals as a Parquet file, written by pyarrow, which is not a dependency of dealkit.

Responses go straight into columns, as in `retrieve_many(…).to_arrow()`, and row groups are written as they come. A
Parquet file that was not finished cannot be read, so the responses are kept as lines, too: a stopped export writes the
row groups anew from them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from dealkit import Client, DealkitError, RawResponse
from dealkit._cli.exits import Failed
from dealkit._cli.files import open_own
from dealkit._cli.forms import Came, Form
from dealkit._cli.ids import failed_line
from dealkit.arrow import deals_to_arrow, schema

# How many deals are in a row group, as in the guide.
_ROW_GROUP = 10_000

# How many lines of a stopped export become columns at a time.
_AT_A_TIME = 1_000

_NO_PYARROW = """\
Parquet files are written with pyarrow, which is not installed here. Install it:
  pip install 'dealkit[parquet]'
or export to .ndjson or .csv, which need no other package"""

_SPACES = bytes.maketrans(b"\r\n", b"  ")


class Parquet(Form):
    """A Parquet file."""

    def __init__(self, out: Path) -> None:
        """Makes sure that a file can be written, before anything is retrieved."""
        super().__init__(out)
        try:
            import pyarrow  # type: ignore[import-untyped, unused-ignore]
            import pyarrow.parquet  # type: ignore[import-untyped, unused-ignore]
        except ImportError:
            raise Failed(_NO_PYARROW) from None
        self._pyarrow: Any = pyarrow
        self.own_file = out.with_name(out.name + ".part.parquet")
        self._file: BinaryIO | None = None
        self._writer: Any = None
        # Columns that are not written yet.
        self._tables: list[Any] = []
        self._rows = 0

    def retrieve(
        self, client: Client, ids: Iterable[str], concurrency: int
    ) -> AbstractContextManager[Iterator[Any | DealkitError]]:
        return client.with_raw_response.deals.retrieve_many(ids, concurrency=concurrency, on_error="return")

    def line(self, deal: RawResponse[Any]) -> bytes:
        body = deal.body
        if b"\n" in body or b"\r" in body:
            # In JSON, they are between values.
            body = body.translate(_SPACES)
        if not body or body.isspace():
            deal.parse()
        return body + b"\n"

    def begin(self, lines: Path, length: int) -> None:
        assert self.own_file is not None
        self._file = open_own(self.own_file)
        self._file.truncate(0)
        self._writer = self._pyarrow.parquet.ParquetWriter(self._file, self._pyarrow.schema(schema()))
        with open(lines, "rb") as file:
            while file.tell() < length:
                self._add(deals_to_arrow(islice(iter(file.readline, b""), _AT_A_TIME)))

    def settled(self, come: list[Came]) -> list[Came]:
        there = [at for at, one in enumerate(come) if one.line]
        table = deals_to_arrow([come[at].line for at in there], on_error="return")
        self._add(table)
        assert table.errors is not None
        if not len(table.errors):
            return come
        come = [*come]
        for error in self._pyarrow.table(table.errors).to_pylist():
            at = there[error["index"]]
            # The service has responded with a deal.
            cells = [come[at].id, error["kind"], "", "succeeded", error["message"]]
            come[at] = Came(come[at].id, b"", failed_line(cells))
        return come

    def _add(self, table: Any) -> None:
        self._tables.append(self._pyarrow.table(table))
        self._rows += len(table)
        if self._rows >= _ROW_GROUP:
            self._write()

    def _write(self) -> None:
        tables, self._tables, self._rows = self._tables, [], 0
        if tables:
            self._writer.write_table(self._pyarrow.concat_tables(tables))

    def finish(self, lines: Path) -> None:
        assert self._file is not None and self.own_file is not None
        self._write()
        self._writer.close()
        os.fsync(self._file.fileno())
        self._file.close()
        os.replace(self.own_file, self.out)
        self._file = None
        lines.unlink()

    def abandon(self) -> None:
        if self._file is None or self.own_file is None:
            return
        self.own_file.unlink(missing_ok=True)
        try:
            # Otherwise it would be closed later, and write to a closed file.
            if self._writer is not None:
                self._writer.close()
            self._file.close()
        except OSError:
            pass  # The disk is full.
