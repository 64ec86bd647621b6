"""`dealkit ledger`: shows the ledger of imports, and records in it what people have found out."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypedDict

from dealkit import LedgerError, ledger
from dealkit._cli import report
from dealkit._cli.advice import code_of, in_words
from dealkit._cli.exits import DONE, Failed
from dealkit._cli.report import Entry
from dealkit._cli.screen import DATABASES, ask, counted, masked, safe, say, say_table

_NO_AGENT = "none"
# How many rows of a preview are shown, and how many rows in doubt.
_MOST_SHOWN = 20


def show(options: Namespace) -> int:
    """Shows how many rows there are of each kind, and those in doubt."""
    _refuse_missing(options.ledger)
    with _failures():
        summary = ledger.show(options.ledger, **_which(options))
    numbers = {
        "created": summary.succeeded,
        "settled with an agent": summary.settled_with_agent,
        "settled without an agent": summary.settled_without_agent,
        "rejected": summary.rejected,
        "in flight": summary.in_flight,
        "unknown": len(summary.in_doubt),
    }
    doubts = [
        (row.sent_at.isoformat(timespec="milliseconds"), str(row.status_code or ""), row.request_id or "")
        for row in summary.in_doubt
    ]
    if options.json:
        unknown = [
            {"sent_at": row.sent_at.isoformat(), "status": row.status_code, "request_id": row.request_id}
            for row in summary.in_doubt
        ]
        counts = {name.replace(" ", "_"): number for name, number in numbers.items()}
        shown = {"service": summary.service, "key": summary.key, **counts, "in_doubt": unknown}
        say(json.dumps(shown, indent=2))
        return DONE
    say(
        f"{safe(masked(options.ledger))}: the ledger of {safe(summary.service)}, by {safe(summary.key or 'keys without a name')}"
    )
    say()
    say_table([(f"{number:,}", name) for name, number in numbers.items()], indent="  ", right=frozenset({0}))
    if doubts:
        say()
        say("Nobody knows whether these rows have an agent. Whoever runs the service can look for the requests:")
        header = ("sent at", "status", "request id")
        say_table([header, *((at, status, safe(request)) for at, status, request in doubts[:_MOST_SHOWN])], indent="  ")
        if len(doubts) > _MOST_SHOWN:
            say(f"  … and {len(doubts) - _MOST_SHOWN:,} more; --json has all of them")
    return DONE


def settle(options: Namespace) -> int:
    """Records what somebody has found out about rows and entered in the report of the import."""
    _refuse_missing(options.ledger)
    path = Path(options.file)
    entries = report.read(path, options)
    filled = [entry for entry in entries if entry.agent_id.strip()]
    if not filled:
        raise Failed(
            f"no row of {path} has anything in agent_id. Fill in what you have found: the agent's id, or {_NO_AGENT} if "
            "there is no agent"
        )
    _refuse_doubles(path, filled)
    if options.undo:
        return _undo(options, path, filled)
    with _failures():
        known = ledger.look_up(options.ledger, [entry.key for entry in filled], **_which(options))
        # The report has the agents of created rows from the beginning.
        pairs = [
            (entry, one)
            for entry, one in zip(filled, known, strict=True)
            if one is None or one.agent_id != entry.agent_id
        ]
    news = [entry for entry, _ in pairs]
    found = {entry.key: _found(entry) for entry in news}
    with _failures(path, news):
        changed = ledger.settle(options.ledger, found, dry_run=True, **_which(options))
        if changed:
            _preview(pairs)
            _ask(f"Record this in {safe(masked(options.ledger))}?", options)
            ledger.settle(options.ledger, found, **_which(options))
    none = sum(agent_id is None for agent_id in found.values())
    if changed:
        say(
            f"{safe(masked(options.ledger))} updated: {counted(len(news) - none, 'row')} with an agent, {none:,} without."
        )
    else:
        say(f"{safe(masked(options.ledger))} is up to date: agent_id contains nothing new.")
    if left := len(entries) - len(filled):
        say(f"{counted(left, 'row')} had nothing in agent_id and did not change.")
    if none:
        say("The next import sends those without an agent.")
    return DONE


def _found(entry: Entry) -> str | None:
    return None if entry.agent_id.strip().lower() == _NO_AGENT else entry.agent_id


def _preview(pairs: list[tuple[Entry, ledger.Recorded | None]]) -> None:
    """Shows what the ledger has, and what it is to have."""
    rows = [("row", "key", "so far", "from now on")]
    for entry, one in pairs[:_MOST_SHOWN]:
        agent_id = _found(entry)
        becomes = "no agent: the next import sends it" if agent_id is None else f"agent {safe(agent_id)}"
        rows.append((str(entry.row), safe(entry.key), _so_far(one), becomes))
    say_table(rows, indent="  ")
    if len(pairs) > _MOST_SHOWN:
        say(f"  … and {len(pairs) - _MOST_SHOWN:,} more")


def _so_far(one: ledger.Recorded | None) -> str:
    if one is None:
        return "no agent"
    if one.outcome == "succeeded":
        return f"agent {safe(one.agent_id)}" if one.agent_id else "created"
    return one.outcome


def _undo(options: Namespace, path: Path, filled: list[Entry]) -> int:
    """Makes rows again what imports have recorded of them."""
    with _failures(path, filled):
        _ask(f"Undo what was settled of {counted(len(filled), 'row')} of {safe(str(path))}?", options)
        undone = ledger.unsettle(options.ledger, [entry.key for entry in filled], **_which(options))
    say(f"{safe(masked(options.ledger))} updated: {counted(undone, 'row')} as recorded by imports again.")
    if left := len(filled) - undone:
        say(f"{counted(left, 'row')} had not been settled and did not change.")
    return DONE


def _ask(question: str, options: Namespace) -> None:
    """Asks for confirmation that something is to be recorded."""
    if not options.yes:
        ask(question, check="check what is shown above", declined="nothing was recorded")


def move(options: Namespace) -> int:
    """Records that the service has another address from now on."""
    _refuse_missing(options.ledger)
    with _failures():
        ledger.move(options.ledger, options.url, **_which(options))
    say(f"{safe(masked(options.ledger))} is the ledger of {safe(options.url)} from now on.")
    return DONE


def init(options: Namespace) -> int:
    """Makes the tables in a database, and perhaps a ledger."""
    with _failures():
        ledger.init(options.ledger, **_which(options))
    of = f" It has a ledger of {safe(options.base_url)}." if options.base_url else ""
    say(f"{safe(masked(options.ledger))} is ready.{of}")
    return DONE


def copy(options: Namespace) -> int:
    """Copies a ledger into another."""
    _refuse_missing(options.ledger)
    with _failures():
        rows = ledger.copy(options.ledger, options.target, **_which(options))
    say(
        f"{counted(rows, 'row')} copied. From now on, use {safe(masked(options.target))} only: what is sent with one of the"
    )
    say("two ledgers, the other does not know.")
    return DONE


class _Which(TypedDict):
    service: str | None
    key: str | None


def _which(options: Namespace) -> _Which:
    """Which ledger is meant, if a database has several."""
    return {"service": options.base_url, "key": options.key}


def _refuse_missing(path: str) -> None:
    if not path.startswith(DATABASES) and not Path(path).exists():
        raise Failed(
            f"there is no ledger {safe(path)}: an import prints the name of its ledger when it ends; its --ledger option "
            "sets another"
        )


@contextmanager
def _failures(path: Path | None = None, entries: Sequence[Entry] = ()) -> Iterator[None]:
    """Rewords failures of a ledger for the command, which names the entries from a file by their rows."""
    try:
        yield
    except LedgerError as error:
        rows = {index: f"row {entry.row} of {path}" for index, entry in enumerate(entries)}
        raise Failed(in_words(error, rows), code_of(error)) from None


def _refuse_doubles(path: Path, filled: list[Entry]) -> None:
    """Refuses two rows with the same key, since they may contradict each other."""
    first: dict[str, Entry] = {}
    for entry in filled:
        if (of := first.setdefault(entry.key, entry)) is not entry:
            raise Failed(
                f"{path}: row {entry.row} has the same key as row {of.row}; fill in agent_id in only one of them"
            )
