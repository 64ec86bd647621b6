"""`dealkit ledger`: notes facts in the ledger of an import between two runs."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dealkit import ledger
from dealkit._cli import report
from dealkit._cli.advice import code_of, in_words
from dealkit._cli.exits import DONE, Failed
from dealkit._cli.report import Entry
from dealkit._cli.screen import counted, safe, say
from dealkit.exceptions import LedgerError

_NO_AGENT = "none"


def settle(options: Namespace) -> int:
    """Notes what somebody has found out about rows and entered in the report of the import."""
    _refuse_missing(options.ledger)
    path = Path(options.file)
    entries = report.read(path, options)
    filled = [entry for entry in entries if entry.agent_id]
    if not filled:
        raise Failed(
            f"no row of {path} has anything in agent_id. Fill in what you have found: the agent's id, or {_NO_AGENT} if "
            "there is no agent"
        )
    _refuse_doubles(path, filled)
    with _failures(lambda index: f"row {news[index].row} of {safe(str(path))}"):
        known = ledger.look_up(options.ledger, [entry.key for entry in filled])
        # The report has the agents of created rows from the beginning.
        pairs = zip(filled, known, strict=True)
        news = [entry for entry, one in pairs if one is None or one.agent_id != entry.agent_id]
        found = {entry.key: None if entry.agent_id.lower() == _NO_AGENT else entry.agent_id for entry in news}
        ledger.settle(options.ledger, found)
    none = sum(agent_id is None for agent_id in found.values())
    if news:
        say(f"{safe(options.ledger)} updated: {counted(len(news) - none, 'row')} with an agent, {none:,} without.")
    else:
        say(f"{safe(options.ledger)} is up to date: agent_id contains nothing new.")
    if left := len(entries) - len(filled):
        say(f"{counted(left, 'row')} had nothing in agent_id and did not change.")
    if none:
        say("The next import sends those without an agent.")
    return DONE


def move(options: Namespace) -> int:
    """Notes that the service has another address from now on."""
    _refuse_missing(options.ledger)
    with _failures():
        ledger.move(options.ledger, options.url)
    say(f"{safe(options.ledger)} is the ledger of {safe(options.url)} from now on.")
    return DONE


def _refuse_missing(path: str) -> None:
    if not Path(path).exists():
        raise Failed(
            f"there is no ledger {safe(path)}: an import prints the name of its ledger when it ends; its --ledger option "
            "sets another"
        )


@contextmanager
def _failures(row_of: Callable[[int], str] = str) -> Iterator[None]:
    """Rewords failures of a ledger for the command, which names entries by their rows, and sends nothing anyway."""
    try:
        yield
    except LedgerError as error:
        text = in_words(error)
        if error.index is not None:
            text = text.replace(f"the entry at index {error.index}", row_of(error.index))
        raise Failed(text, code_of(error)) from None


def _refuse_doubles(path: Path, filled: list[Entry]) -> None:
    """Refuses two rows with the same key, since they may contradict each other."""
    first: dict[str, Entry] = {}
    for entry in filled:
        if (of := first.setdefault(entry.key, entry)) is not entry:
            raise Failed(
                f"{path}: row {entry.row} has the same key as row {of.row}; fill in agent_id in only one of them"
            )
