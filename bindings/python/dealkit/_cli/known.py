"""What ledgers know of the rows of an import, before anything is sent."""

from __future__ import annotations

import re
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from dealkit import LedgerError, ledger
from dealkit._cli.exits import Failed
from dealkit._cli.files import named
from dealkit._cli.rows import IN_PROGRESS, Row, word_of
from dealkit._cli.screen import say
from dealkit._cli.service import address


def ledger_of(options: Namespace) -> str | Path | None:
    """The file or the URL of the database that records what was sent and its outcome: by default, there is one for a service
    and a folder, whatever the table is called. None if nobody has said which service it is."""
    if options.ledger is not None:
        if not options.ledger:
            raise Failed("--ledger needs the name of a file, or the URL of a database")
        return ledger.path(options.ledger) or options.ledger
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
    if port and port != {"http": 80, "https": 443}.get(parts.scheme):
        where += f"-{port}"
    return re.sub(r"[^a-z0-9.]+", "-", f"{where}{parts.path.lower()}").strip("-.")[:100]


def note_earlier(path: str | Path | None, key_name: str, rows: Sequence[Row], options: Namespace) -> list[Row]:
    """Notes the outcomes of earlier runs, and returns the rows that have one and are not sent again."""
    if path is None:
        return []
    if isinstance(path, Path) and path.exists():
        # Reads all of it, and refuses a ledger that is damaged before anything that it says is shown or written.
        ledger.show(path)
    known = []
    found = ledger.look_up(path, [row.key for row in rows], key=key_name, service=address(options) or None)
    for row, one in zip(rows, found, strict=True):
        if one is None or (options.resend_unknown and one.outcome == "unknown"):
            continue
        row.outcome, row.agent_id, row.was_earlier = (
            word_of(one.outcome, in_flight=one.in_flight),
            one.agent_id or "",
            True,
        )
        row.status, row.message = str(one.status_code or ""), ""
        known.append(row)
    return known


def elsewhere(own: str | Path | None, rows: Sequence[Row], options: Namespace) -> list[Path]:
    """The other ledgers that know some of these rows, by whichever column, in the folders of the table and of the import's
    own ledger. Says what they know."""
    folders = [Path(options.file).parent]
    if isinstance(own, Path) and own.parent not in folders:
        folders.append(own.parent)
    found = []
    for path in (path for folder in folders for path in ledger.in_folder(folder)):
        if isinstance(own, Path) and own.exists() and own.samefile(path):
            continue
        keys = [row.key for row in rows]
        emails = [str(row.agent["email"]) for row in rows]
        ids = [row.agent["profile"].get("external_id", "") for row in rows]
        try:
            looked_up = zip(*(ledger.look_up(path, some) for some in (keys, emails, ids)), strict=True)
            known = [next(one for one in some if one is not None) for some in looked_up if any(some)]
            words = outcomes(word_of(one.outcome, in_flight=one.in_flight) for one in known)
            number = len(known)
        except LedgerError:
            words, number = "it cannot be read", len(rows)
        if not number:
            continue
        found.append(path)
        some = f"{number:,} of these rows: {words}."
        if own is None:
            say(f"{named(path)} has {some} --base-url decides whether it is used.")
        else:
            say(f"{named(path)}, another ledger, has {some} This import does not use it, so it would send them.")
    return found


def outcomes(words: Iterable[str]) -> str:
    """`2 created, 1 unknown`."""
    kinds = Counter(words)
    return ", ".join(
        f"{kinds[kind]:,} {kind}" for kind in ("created", "rejected", "unknown", IN_PROGRESS) if kinds[kind]
    )
