"""The kinds of file that deals can be exported to, except for Parquet files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

from dealkit import Client, DealkitError
from dealkit._cli import flat


class Came(NamedTuple):
    """What has come for an id: the line of its deal, or the line that says why there is none."""

    id: str
    line: bytes
    failed: bytes = b""


class Form:
    """NDJSON, and what every kind of file has: deals are kept as one line each until all have come."""

    header = b""
    own_file: Path | None = None
    """A file that it writes meanwhile."""

    def __init__(self, out: Path) -> None:
        self.out = out

    def retrieve(
        self, client: Client, ids: Iterable[str], concurrency: int
    ) -> AbstractContextManager[Iterator[Any | DealkitError]]:
        """The deals, in the order of the ids, with an error in place of each that failed."""
        return client.deals.retrieve_many(ids, concurrency=concurrency, on_error="return")

    def line(self, deal: Any) -> bytes:
        """The line of a deal. Raises DecodeError for one that cannot be written."""
        text: str = deal.to_json()
        return text.encode() + b"\n"

    def begin(self, lines: Path, length: int) -> None:
        """Takes what an earlier run has left: so much of the lines."""

    def settled(self, come: list[Came]) -> list[Came]:
        """What has come, with failures in place of deals that cannot be written after all."""
        return come

    def finish(self, lines: Path) -> None:
        """Makes the file from the lines, and removes them. The file gets its name once it is complete."""
        os.replace(lines, self.out)

    def abandon(self) -> None:
        """Leaves only the lines behind."""


class Csv(Form):
    """A table."""

    header = flat.header().encode()

    def line(self, deal: Any) -> bytes:
        return flat.row(deal).encode()
