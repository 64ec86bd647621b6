"""`dealkit ledger`: shows the ledger of imports, and records in it what people have found out."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dealkit import LedgerError, ledger
from dealkit._cli import report
from dealkit._cli.advice import code_of, in_words
from dealkit._cli.exits import DONE, Failed
from dealkit._cli.report import Entry
from dealkit._cli.screen import ask, counted, label, masked, pairs, safe, say, say_all, table

_NO_AGENT = "none"
# How many rows of a preview are shown, and how many rows in doubt.
_MOST_SHOWN = 20


def _which(options: Namespace) -> dict[str, Any]:
    """The ledger that is meant. A database may have several."""
    path = options.ledger
    if options.run != "ledger.init" and (file := ledger.path(path)) and not file.exists():
        raise Failed(
            f"there is no ledger {safe(path)}: an import prints the name of its ledger when it ends; its --ledger option "
            "sets another"
        )
    options.result["files"] = {"ledger": masked(path)}
    return {"path": path, "service": options.base_url, "key": options.key}


def show(options: Namespace) -> int:
    """Shows how many rows there are of each kind, and those in doubt."""
    summary = ledger.show(**_which(options))
    counts = {
        "created": summary.succeeded,
        "settled_with_agent": summary.settled_with_agent,
        "settled_without_agent": summary.settled_without_agent,
        "rejected": summary.rejected,
        "in_flight": summary.in_flight,
        "unknown": len(summary.in_doubt),
    }
    doubts = [
        {
            "sent_at": row.sent_at.isoformat(timespec="milliseconds"),
            "status": str(row.status_code or ""),
            "request_id": row.request_id or "",
        }
        for row in summary.in_doubt
    ]
    options.result.update(service=summary.service, key=summary.key, counts=counts, in_doubt=doubts)
    say(
        f"{masked(options.ledger)}: the ledger of {safe(summary.service)}, by {safe(summary.key or 'keys without a name')}"
    )
    say()
    say_all(pairs({label(name): f"{number:,}" for name, number in counts.items()}, indent="  "))
    if doubts:
        say()
        say("Nobody knows whether these rows have an agent. Whoever runs the service can look for the requests:")
        say_all(
            table(
                [{label(name): safe(text) for name, text in row.items()} for row in doubts[:_MOST_SHOWN]], indent="  "
            )
        )
        if len(doubts) > _MOST_SHOWN:
            say(f"  … and {len(doubts) - _MOST_SHOWN:,} more; --json has all of them")
    return DONE


def settle(options: Namespace) -> int:
    """Records what somebody has found out about rows and entered in the report of the import."""
    which = _which(options)
    path = Path(options.file)
    entries = report.read(path, options)
    filled = [entry for entry in entries if entry.agent_id.strip()]
    if not filled:
        raise Failed(
            f"no row of {path} has anything in agent_id. Fill in what you have found: the agent's id, or {_NO_AGENT} if "
            "there is no agent"
        )
    first: dict[str, Entry] = {}
    for entry in filled:
        # They may contradict each other.
        if (of := first.setdefault(entry.key, entry)) is not entry:
            raise Failed(
                f"{path}: row {entry.row} has the same key as row {of.row}; fill in agent_id in only one of them"
            )
    counts = _undo(which, path, filled, options) if options.undo else _settle(which, path, filled, options)
    counts["unchanged"] = len(entries) - sum(counts.values())
    options.result["counts"] = counts
    say_all(pairs({label(name): f"{number:,}" for name, number in counts.items()}))
    if counts.get("without_agent"):
        say("The next import sends those without an agent.")
    return DONE


def _settle(which: dict[str, Any], path: Path, filled: list[Entry], options: Namespace) -> dict[str, int]:
    known = ledger.look_up(which["path"], [entry.key for entry in filled], key=which["key"], service=which["service"])
    # The report has the agents of created rows from the beginning.
    news = [
        (entry, one) for entry, one in zip(filled, known, strict=True) if one is None or one.agent_id != entry.agent_id
    ]
    found = {entry.key: None if entry.agent_id.strip().lower() == _NO_AGENT else entry.agent_id for entry, _ in news}
    with _naming(path, [entry for entry, _ in news]):
        if not ledger.settle(**which, found=found, dry_run=True):
            return {"with_agent": 0, "without_agent": 0}
        rows = []
        for entry, one in news[:_MOST_SHOWN]:
            agent_id = found[entry.key]
            rows.append(
                {
                    "Row": str(entry.row),
                    "Key": safe(entry.key),
                    "So far": _so_far(one),
                    "From now on": "no agent: the next import sends it"
                    if agent_id is None
                    else f"agent {safe(agent_id)}",
                }
            )
        say_all(table(rows, indent="  "))
        if len(news) > _MOST_SHOWN:
            say(f"  … and {len(news) - _MOST_SHOWN:,} more")
        say()
        _ask(f"Record this in {masked(options.ledger)}?", options)
        ledger.settle(**which, found=found)
    none = sum(agent_id is None for agent_id in found.values())
    return {"with_agent": len(found) - none, "without_agent": none}


def _so_far(one: ledger.Recorded | None) -> str:
    if one is None:
        return "no agent"
    if one.outcome == "succeeded":
        return f"agent {safe(one.agent_id)}" if one.agent_id else "created"
    return one.outcome


def _undo(which: dict[str, Any], path: Path, filled: list[Entry], options: Namespace) -> dict[str, int]:
    """Makes rows again what imports have recorded of them."""
    with _naming(path, filled):
        _ask(f"Undo what was settled of {counted(len(filled), 'row')} of {safe(str(path))}?", options)
        return {"undone": ledger.unsettle(**which, keys=[entry.key for entry in filled])}


def _ask(question: str, options: Namespace) -> None:
    """Asks for confirmation that something is to be recorded."""
    if not options.yes:
        ask(question, check="check what is shown above", declined="nothing was recorded")


def move(options: Namespace) -> int:
    """Records that the service has another address from now on."""
    ledger.move(**_which(options), base_url=options.url)
    say(f"{masked(options.ledger)} is the ledger of {safe(options.url)} from now on.")
    return DONE


def init(options: Namespace) -> int:
    """Makes the tables in a database, and perhaps a ledger."""
    ledger.init(**_which(options))
    of = f" It has a ledger of {safe(options.base_url)}." if options.base_url else ""
    say(f"{masked(options.ledger)} is ready.{of}")
    return DONE


def copy(options: Namespace) -> int:
    """Copies a ledger into another."""
    rows = ledger.copy(**_which(options), target=options.target)
    options.result["counts"] = {"copied": rows}
    options.result["files"]["target"] = masked(options.target)
    say(
        f"{counted(rows, 'row')} copied. From now on, use {masked(options.target)} only: what is sent with one of the two "
        "ledgers, the other does not know."
    )
    return DONE


@contextmanager
def _naming(path: Path, entries: Sequence[Entry]) -> Iterator[None]:
    """Names the entries from a file by their rows, in what is wrong with them."""
    try:
        yield
    except LedgerError as error:
        rows = {index: f"row {entry.row} of {path}" for index, entry in enumerate(entries)}
        raise Failed(in_words(error, rows), code_of(error)) from None
