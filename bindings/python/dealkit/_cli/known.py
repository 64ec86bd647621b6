"""What ledgers know of the rows of an import, before anything is sent."""

from __future__ import annotations

import re
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from dealkit import LedgerError, ledger
from dealkit._cli.advice import in_words
from dealkit._cli.exits import Failed
from dealkit._cli.files import named
from dealkit._cli.rows import AT_A_TIME, Result, Rows, word_of
from dealkit._cli.screen import safe, say
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


def note_earlier(path: str | Path | None, rows: Rows, options: Namespace) -> tuple[Counter[str], list[int]]:
    """Notes the outcomes of earlier runs. Returns how many of the valid rows have one and are not sent again, and the numbers of
    those that have changed since."""
    known: Counter[str] = Counter()
    changed: list[int] = []
    if path is None or (isinstance(path, Path) and not path.exists()):
        return known, changed
    if isinstance(path, Path):
        # Reads all of it, and refuses a ledger that is damaged before anything that it says is shown or written.
        ledger.summary(path)
    service = address(options) or None
    for some in _some(rows):
        keys = [row.key for row, _ in some]
        found = ledger.look_up(
            path, keys, key_name=rows.key_name, service=service, requests=[agent for _, agent in some]
        )
        for (row, _), one in zip(some, found, strict=True):
            if one is None or (options.resend_unknown and one.outcome == "unknown"):
                continue
            noted = _noted(row, one, CHANGED if one.request_differs else "")
            rows.note(noted)
            known[noted.outcome] += 1
            if one.request_differs:
                changed.append(row.number)
    # An agent that exists is not invalid because its row has become so.
    invalid = rows.invalid()
    while batch := [*islice(invalid, AT_A_TIME)]:
        found = ledger.look_up(path, [row.key for row in batch], key_name=rows.key_name, service=service)
        for row, one in zip(batch, found, strict=True):
            if one is not None:
                rows.note(_noted(row, one, f"the row has become invalid, and nothing was sent: {row.message}"))
    return known, changed


NOT_SENT = "this change is not sent"
CHANGED = f"the row has changed since it was sent: {NOT_SENT}"
"""The message about a row that has changed since its agent was created."""


def _noted(row: Result, found: ledger.LedgerRow, change: str) -> Result:
    """The result of a row that the ledger knows, with a note on how the row has changed."""
    reason = ": ".join(part for part in (found.title, found.code) if part)
    parts = [f"the service rejected it: {safe(reason)}"] if reason else []
    message = "; ".join([*parts, *([change] if change else [])])
    word = word_of(found.outcome, in_flight=found.in_flight)
    return Result(
        row.number, row.key, word, found.agent_id or "", str(found.status_code or ""), message, was_earlier=True
    )


def changed_keys(own: str | Path, rows: Rows) -> list[int]:
    """The numbers of rows to be sent whose keys are new, although requests with their e-mail addresses were sent before. A
    spreadsheet may have changed the keys."""
    if isinstance(own, Path) and not own.exists():
        return []
    addresses: dict[int, str] = {}
    known_addresses: set[str] = set()
    for some in _some(rows):
        # `note_earlier` has looked all rows up by their keys.
        known_addresses |= {str(agent["email"]).casefold() for row, agent in some if row.was_earlier}
        new = [(row, str(agent["email"])) for row, agent in some if not row.was_earlier]
        by_email = ledger.look_up_emails(own, [email for _, email in new])
        sent = [one for one, found in zip(new, by_email, strict=True) if found is not None]
        # Again, after the addresses: a row that another import has sent in between is then known by its key.
        by_key = ledger.look_up(own, [row.key for row, _ in sent], key_name=rows.key_name)
        for (row, email), found in zip(sent, by_key, strict=True):
            if found is None:
                addresses[row.number] = email.casefold()
            else:
                known_addresses.add(email.casefold())
    # Two rows of the table may have one address, of which the ledger knows one.
    return [number for number, address in addresses.items() if address not in known_addresses]


def elsewhere(own: str | Path, rows: Rows, options: Namespace) -> list[Path]:
    """The other ledgers that know some of the rows to be sent, by whichever column, in the folders of the table and of the
    import's own ledger, and those that cannot be read. Says how many rows they know."""
    folders = {Path(options.file).parent, *([own.parent] if isinstance(own, Path) else [])}
    found = []
    for path in (path for folder in sorted(folders) for path in ledger.in_folder(folder)):
        if isinstance(own, Path) and own.exists() and own.samefile(path):
            continue
        try:
            number = sum(_known(path, some) for some in _some(rows))
        except LedgerError as error:
            found.append(path)
            say(f"{named(path)}, another ledger, cannot be read: {in_words(error)}. It may have some of these rows.")
            continue
        if number:
            found.append(path)
            say(
                f"{named(path)}, another ledger, has {number:,} of these rows. This import does not use it, so it would send "
                "all of its rows."
            )
    return found


def _known(path: Path, some: list[tuple[Result, dict[str, Any]]]) -> int:
    """How many of these rows a ledger knows by their keys, addresses or external ids."""
    new = [(row.key, agent) for row, agent in some if not row.was_earlier]
    emails = [str(agent["email"]) for _, agent in new]
    columns = (
        [key for key, _ in new],
        emails,
        [str(agent["profile"].get("external_id", "")) for _, agent in new],
    )
    by_key = [ledger.look_up(path, column, wait=False) for column in columns]
    return sum(map(any, zip(*by_key, ledger.look_up_emails(path, emails, wait=False), strict=True)))


def _some(rows: Rows) -> Iterator[list[tuple[Result, dict[str, Any]]]]:
    """The rows to be sent, some at a time."""
    each = rows.to_send()
    return iter(lambda: [*islice(each, AT_A_TIME)], [])
