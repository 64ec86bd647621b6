"""What ledgers know of the rows of an import, before anything is sent."""

from __future__ import annotations

import re
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from dealkit import ledger
from dealkit._cli.exits import Failed
from dealkit._cli.files import named
from dealkit._cli.rows import AT_A_TIME, Result, Rows, word_of
from dealkit._cli.screen import say
from dealkit._cli.service import address


def ledger_of(options: Namespace) -> str | Path | None:
    """The file or the URL of the database that records what was sent and its outcome: by default, there is one for a service
    and a folder, whatever the table is called. None if nobody has said which service it is."""
    if options.ledger is not None:
        if not options.ledger:
            raise Failed("--ledger needs the name of a file, or the URL of a database")
        return ledger.path(options.ledger) or options.ledger
    service = re.sub(r"[^a-z0-9.]+", "-", address(options).lower().partition("://")[2])[:100].strip("-.")
    return Path(options.file).parent / f"agents-{service}.ledger" if service else None


def note_earlier(path: str | Path | None, rows: Rows, options: Namespace) -> Counter[str]:
    """Notes the outcomes of earlier runs, and counts the rows that have one and are not sent again."""
    known: Counter[str] = Counter()
    if path is None or (isinstance(path, Path) and not path.exists()):
        return known
    if isinstance(path, Path):
        # Reads all of it, and refuses a ledger that is damaged before anything that it says is shown or written.
        ledger.show(path)
    for some in _some(rows):
        keys = [row.key for row, _ in some]
        found = ledger.look_up(path, keys, key=rows.key_name, service=address(options) or None)
        for (row, _), one in zip(some, found, strict=True):
            if one is None or (options.resend_unknown and one.outcome == "unknown"):
                continue
            word = word_of(one.outcome, in_flight=one.in_flight)
            rows.note(
                Result(row.number, row.key, word, one.agent_id or "", str(one.status_code or ""), was_earlier=True)
            )
            known[word] += 1
    return known


def elsewhere(own: str | Path, rows: Rows, options: Namespace) -> list[Path]:
    """The other ledgers that know some of the rows to be sent, by whichever column, in the folders of the table and of the
    import's own ledger. Says how many they know."""
    folders = {Path(options.file).parent, *([own.parent] if isinstance(own, Path) else [])}
    found = []
    for path in (path for folder in sorted(folders) for path in ledger.in_folder(folder)):
        if isinstance(own, Path) and own.exists() and own.samefile(path):
            continue
        if number := sum(_known(path, some) for some in _some(rows)):
            found.append(path)
            say(
                f"{named(path)}, another ledger, has {number:,} of these rows. This import does not use it, so it would send "
                "all of its rows."
            )
    return found


def _known(path: Path, some: list[tuple[Result, dict[str, Any]]]) -> int:
    """How many of these rows a ledger knows by their keys, addresses or external ids."""
    new = [(row.key, agent) for row, agent in some if not row.was_earlier]
    columns = (
        [key for key, _ in new],
        [str(agent["email"]) for _, agent in new],
        [str(agent["profile"].get("external_id", "")) for _, agent in new],
    )
    return sum(map(any, zip(*(ledger.look_up(path, column) for column in columns), strict=True)))


def _some(rows: Rows) -> Iterator[list[tuple[Result, dict[str, Any]]]]:
    """The rows to be sent, some at a time."""
    each = rows.to_send()
    return iter(lambda: [*islice(each, AT_A_TIME)], [])
