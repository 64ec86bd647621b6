"""What ledgers know of the rows of an import, before anything is sent."""

from __future__ import annotations

import re
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from dealkit import LedgerError, ledger
from dealkit._cli.connection import address
from dealkit._cli.exits import Failed
from dealkit._cli.files import named
from dealkit._cli.plan import Line, Plan
from dealkit._cli.report import WORDS, Result
from dealkit._cli.screen import DATABASES
from dealkit.ledger import Recorded

_DEFAULT_PORTS = {"http": 80, "https": 443}


class Elsewhere(NamedTuple):
    """What a ledger knows that this import does not use."""

    ledger: Path
    rows: int
    """How many rows it knows."""
    outcomes: str


def ledger_of(options: Namespace) -> str | Path | None:
    """The file or the URL of the database that records what was sent and its outcome: by default, there is one for a service and a folder, whatever
    the table is called. None if nobody has said which service it is."""
    if options.ledger is not None:
        if not options.ledger:
            raise Failed("--ledger needs the name of a file, or the URL of a database")
        return options.ledger if options.ledger.startswith(DATABASES) else Path(options.ledger)
    if not (service := _in_a_name(address(options))):
        return None
    return Path(options.file).parent / f"agents-{service}.ledger"


def _in_a_name(url: str) -> str:
    """The host of a service, its port and its path, as a part of a file's name."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return ""
    where = parts.hostname or ""
    if port and port != _DEFAULT_PORTS.get(parts.scheme):
        where += f"-{port}"
    return re.sub(r"[^a-z0-9.]+", "-", f"{where}{parts.path.lower()}").strip("-.")[:100]


def earlier(path: str | Path | None, plan: Plan, service: str, *, resend_unknown: bool) -> dict[int, Result]:
    """The results of earlier runs, by row number, for the rows that the next run does not send."""
    if path is None:
        return {}
    keys = [line.key for line in plan.lines]
    recorded = ledger.look_up(path, keys, key=plan.key_name, service=_service(path, service))
    return {
        line.number: Result(
            row=line.number,
            key=line.key,
            came_to=WORDS[one.outcome],
            agent_id=one.agent_id or "",
            status=str(one.status_code or ""),
            was_earlier=True,
        )
        for line, one in zip(plan.lines, recorded, strict=True)
        if one is not None and not (resend_unknown and one.outcome == "unknown")
    }


def _service(path: str | Path, service: str) -> str | None:
    """A file belongs to one service, and says itself if that is another one."""
    return None if isinstance(path, Path) else service or None


def verify(path: str | Path | None) -> None:
    """Refuses a ledger that is damaged, before anything that it says is shown or written. Reads all of it."""
    if isinstance(path, Path) and path.exists():
        ledger.show(path)


def elsewhere(own: str | Path | None, lines: Sequence[Line], options: Namespace) -> list[Elsewhere]:
    """What other ledgers know of these rows: those in the folders of the table and of the import's own ledger."""
    folders = [Path(options.file).parent]
    if isinstance(own, Path) and own.parent not in folders:
        folders.append(own.parent)
    found: list[Elsewhere] = []
    for path in (path for folder in folders for path in ledger.in_folder(folder)):
        if isinstance(own, Path) and own.exists() and own.samefile(path):
            continue
        try:
            known = [one for one in map(_first, _look_up(path, lines)) if one is not None]
        except LedgerError:
            found.append(Elsewhere(path, len(lines), "it cannot be read"))
            continue
        if known:
            found.append(Elsewhere(path, len(known), outcomes(WORDS[one.outcome] for one in known)))
    return found


def _look_up(path: Path, lines: Sequence[Line]) -> Iterable[tuple[Recorded | None, ...]]:
    """What a ledger knows of each row, whichever column its keys are from."""
    keys = [line.key for line in lines]
    emails = [line.agent["email"] for line in lines]
    ids = [line.agent["profile"].get("external_id", "") for line in lines]
    return zip(*(ledger.look_up(path, some) for some in (keys, emails, ids)), strict=True)


def _first(known: tuple[Recorded | None, ...]) -> Recorded | None:
    return next((one for one in known if one is not None), None)


def outcomes(words: Iterable[str]) -> str:
    """`2 created, 1 unknown`."""
    kinds = Counter(words)
    return ", ".join(f"{kinds[kind]:,} {kind}" for kind in ("created", "rejected", "unknown") if kinds[kind])


def in_words(found: Elsewhere, own: str | Path | None) -> str:
    """What another ledger knows, and what follows from that."""
    rows = f"{found.rows:,} of these rows" if found.rows > 1 else "1 of these rows"
    if own is None:
        return f"{named(found.ledger)} has {rows}: {found.outcomes}. --base-url decides whether it is used."
    return (
        f"{named(found.ledger)}, another ledger, has {rows}: {found.outcomes}. This import does not use it, so it would "
        "send them."
    )
