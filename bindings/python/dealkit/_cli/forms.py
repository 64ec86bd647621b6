"""The kinds of file that deals can be exported to."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from dealkit._cli import flat
from dealkit._cli.exits import Failed
from dealkit._models.classes import Deal


class Form(NamedTuple):
    """A kind of file, and how to make it from lines: deals are kept as one line each until all have come."""

    header: str
    line: Callable[[Deal], str]
    """Returns the line of a deal, or raises DecodeError for one that cannot be written."""
    finish: Callable[[Path, Path], None]
    """Makes the file from the lines, and removes the lines."""


def _json_line(deal: Deal) -> str:
    return deal.to_json() + "\n"


def _parquet_line(deal: Deal) -> str:
    from dealkit._cli import parquet

    return parquet.line(deal)


def _finish_parquet(lines: Path, out: Path) -> None:
    from dealkit._cli import parquet

    parquet.finish(lines, out)


_FORMS = {
    ".ndjson": Form("", _json_line, os.replace),
    ".csv": Form(flat.header(), flat.row, os.replace),
    ".parquet": Form("", _parquet_line, _finish_parquet),
}


def form_of(out: Path) -> Form:
    """The kind of file that the extension of its name asks for."""
    ending = out.suffix.lower()
    if ending not in _FORMS:
        raise Failed(f"--out must end in {' or '.join(_FORMS)}, which selects the format")
    if ending == ".parquet":
        from dealkit._cli import parquet

        parquet.require()
    return _FORMS[ending]
