"""`dealkit ledger`: shows the ledger of imports, and records in it what people have found out."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from dealkit import LedgerError, ledger
from dealkit._cli import report
from dealkit._cli.advice import code_of, in_words
from dealkit._cli.exits import DONE, Failed
from dealkit._cli.files import named
from dealkit._cli.report import Entry
from dealkit._cli.screen import ask, counted, masked, pairs, safe, say, table

_NO_AGENT = "none"
# How many unresolved rows are shown.
_MOST_SHOWN = 20


def _which(options: Namespace) -> str:
    """The ledger that is meant."""
    path: str = options.ledger
    if options.run != "ledger.init" and (file := ledger.path(path)) and not file.exists():
        raise Failed(
            f"there is no ledger {safe(path)}: an import prints the name of its ledger when it ends; its --ledger option "
            "sets another"
        )
    options.result["files"] = {"ledger": masked(path)}
    return path


def show(options: Namespace) -> int:
    """Shows how many rows there are of each kind, and those unresolved."""
    summary = ledger.summary(_which(options))
    counts = {
        "created": summary.succeeded,
        "resolved_with_agent": summary.resolved_with_agent,
        "resolved_without_agent": summary.resolved_without_agent,
        "rejected": summary.rejected,
        "in_flight": summary.in_flight,
        "unknown": len(summary.unresolved),
    }
    doubts = [
        {
            "sent_at": row.sent_at.isoformat(timespec="milliseconds"),
            "status": str(row.status_code or ""),
            "request_id": safe(row.request_id or ""),
        }
        for row in summary.unresolved
    ]
    options.result.update(service=summary.service, key=summary.key_name, counts=counts, unresolved=doubts)
    say(
        f"{masked(options.ledger)}: the ledger of {safe(summary.service)}, by {safe(summary.key_name or 'keys without a name')}\n"
    )
    say(pairs({name.replace("_", " "): f"{number:,}" for name, number in counts.items()}, indent="  "))
    if doubts:
        say("\nNobody knows whether these rows have an agent. Whoever runs the service can look for the requests:")
        say(table(doubts[:_MOST_SHOWN]))
        if len(doubts) > _MOST_SHOWN:
            say(f"  … and {len(doubts) - _MOST_SHOWN:,} more; --json has all of them")
    return DONE


def resolve(options: Namespace) -> int:
    """Records what somebody has found out about rows and entered in the report of the import."""
    which = _which(options)
    path = Path(options.file)
    entries = [*report.entries(path, report.read(path, options.encoding))]
    filled = [entry for entry in entries if entry.agent_id.strip()]
    if not filled:
        raise Failed(
            f"no row of {named(path)} has anything in agent_id. Fill in what you have found: the agent's id, or {_NO_AGENT} if "
            "there is no agent"
        )
    found = {entry.key: None if entry.agent_id.strip().lower() == _NO_AGENT else entry.agent_id for entry in filled}
    if len(found) < len(filled):
        # They may contradict each other.
        raise Failed(
            f"{named(path)} has rows with the same key; fill in agent_id in only one of them, or correct the "
            "keys if a spreadsheet has changed them"
        )
    with _naming(path, filled):
        # The report has the agents of created rows from the beginning, which are no news.
        news = ledger.resolve(which, found, dry_run=True)
        if news and not options.yes:
            ask(f"Record what became of {counted(news, 'row')} in {masked(options.ledger)}?")
        if news:
            ledger.resolve(which, found)
    options.result["counts"] = {"resolved": news, "unchanged": len(entries) - news}
    say(f"{counted(news, 'row')} resolved. The next import sends those without an agent.")
    return DONE


def set_base_url(options: Namespace) -> int:
    """Records that the service has another address from now on."""
    ledger.set_base_url(_which(options), options.url)
    say(f"{masked(options.ledger)} is the ledger of {safe(options.url)} from now on.")
    return DONE


def backup(options: Namespace) -> int:
    """Copies a ledger to a new file."""
    ledger.backup(_which(options), options.file)
    say(
        f"{safe(options.file)} is a copy of {masked(options.ledger)}. Keep it as a backup only: it does not know rows that are sent later."
    )
    return DONE


def init(options: Namespace) -> int:
    """Makes the tables in a database."""
    ledger.init(_which(options))
    say(f"{masked(options.ledger)} is ready.")
    return DONE


@contextmanager
def _naming(path: Path, entries: Sequence[Entry]) -> Iterator[None]:
    """Names the row of the file in an error about one of its entries."""
    try:
        yield
    except LedgerError as error:
        text = in_words(error)
        if error.index is not None:
            row = f"row {entries[error.index].row} of {named(path)}"
            text = text.replace(f"the entry at index {error.index}", row)
        raise Failed(text, code_of(error)) from None
