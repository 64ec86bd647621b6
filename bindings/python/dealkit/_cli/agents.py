"""`dealkit agents import`: creates an agent for each row of a table."""

from __future__ import annotations

import shlex
from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice, pairwise
from pathlib import Path

from dealkit import APIConnectionError, AuthenticationError, LedgerError
from dealkit._cli.advice import code_of, explanation, failure_of
from dealkit._cli.columns import Columns, field_said
from dealkit._cli.creates import Creates
from dealkit._cli.exits import DONE, INCOMPLETE, INTERRUPTED, Failed
from dealkit._cli.files import named, refuse_inputs
from dealkit._cli.known import elsewhere, ledger_of, note_earlier, outcomes
from dealkit._cli.report import Report
from dealkit._cli.rows import Groups, Row, Rows, checked, into, show_outcomes, show_problems
from dealkit._cli.screen import ask, command_line, counted, masked, safe, say, say_all, table
from dealkit._cli.service import NO_ADDRESS, address, connect, probe
from dealkit._cli.tables import read_table
from dealkit._cli.values import Values, proposed

_RUNNING = "the import has not finished: the ledger has the row's outcome, and the same command resumes the import"
# The reasons of a LedgerError after which the ledger does not know what was sent.
_LOST = ("broken", "moved", "not_a_ledger")

# From how many different cells of a field it is told what they may mean.
_MOST_CELLS = 10_000


def run(options: Namespace) -> int:
    """Shows which column goes where and what is wrong, and creates the agents unless this is a dry run."""
    path, own, result = Path(options.file), ledger_of(options), options.result
    report_path = Path(options.report or f"{options.file}.report.csv")
    _refuse_inputs(path, own, report_path, options)
    found = read_table(path, options)
    columns = _columns(found.header, options)
    rows = Rows(columns, options.key)
    report = Report(report_path, found.delimiter, rows)
    wrong: Groups = {}
    doubtful: Groups = {}
    cells: dict[str, Counter[str]] = {}
    number = invalid = 0
    for row, of_row in () if columns.missing else checked(found.rows, columns, rows):
        number += 1
        invalid += bool(row.problems)
        rows.add(row, of_row)
        for groups, some in ((wrong, row.problems), (doubtful, row.doubts)):
            for one in some:
                into(groups, (one.column, one.kind), row.number, one.text)
        _count_wrong(cells, row)
    # Where a column is missing, they are only counted.
    number += sum(1 for _ in found.rows)
    say(f"{safe(str(path))}: {counted(number, 'row')}, {found.understood}")
    say()
    say_all(table([*columns.shown()], indent="  "))
    say()
    if columns.missing:
        raise Failed(
            f"{named(path)}: no column holds {' or '.join(columns.missing)}, which every agent needs. Name the column: "
            f"{columns.options_for_missing()}"
        )
    fit = number - invalid
    result["files"] = {"table": str(path)}
    result["errors"] += show_problems("What is wrong", wrong)
    show_problems("Worth a look", doubtful)
    result["counts"] = {"rows": number, "sendable": fit, "invalid": invalid}
    say(f"{counted(fit, 'row')} can be sent, {invalid:,} cannot")
    _propose(rows, number, cells, columns, options)
    known = _earlier(own, rows, options)
    to_send = fit - known.total()
    if known and own is not None:
        verb = "is" if known.total() == 1 else "are"
        say(f"{masked(own)} already has {known.total():,} of them, which {verb} not sent again: {outcomes(known)}")
    if to_send and isinstance(own, Path) and not own.exists():
        say(f"{safe(str(own))} will be a new, empty ledger: all of these rows will be sent.")
    others = elsewhere(own, rows, options)
    # Without a service, no ledger has been asked.
    lost = rows.lost() if own is not None else 0
    if lost:
        say(
            f"{named(report.path)}, the report of an earlier import, says that {lost:,} of these rows were "
            "created, but the ledger does not know them."
        )
    result["counts"]["to_send"] = to_send
    if options.dry_run:
        if options.report:
            report.write(rows.results())
            result["files"]["report"] = str(report.path)
        say("This was a dry run: nothing was sent.")
    if options.dry_run or not fit:
        return INCOMPLETE if invalid else DONE
    with connect(options) as client:
        if own is None:
            raise Failed(NO_ADDRESS)
        _refuse_unasked(others, lost, options)
        if to_send and not options.yes:
            question = f"Create {counted(to_send, 'agent')} at {safe(address(options))}?"
            ask(question, check="check it with --dry-run", declined="nothing was sent")
        # Detects a refused key or an unreachable service before a row is used up.
        if isinstance(response := probe(client), AuthenticationError | APIConnectionError):
            raise response
        # Anything filled in for a row that is sent again is no longer true, even if this ends in a crash. In that
        # case, only the ledger has the result of the row.
        report.write(
            row if row.outcome == "invalid" or row.was_earlier else row._replace(outcome="running", message=_RUNNING)
            for row in rows.results()
        )
        creates = Creates(client, rows, fit, own, options)
        with suppress(KeyboardInterrupt):
            creates.run(options)
    creates.note_unseen()
    return _finish(rows, creates, own, report, options)


def _columns(header: Sequence[str], options: Namespace) -> Columns:
    return Columns(header, options.map, Values(options, field_said))


def _count_wrong(cells: dict[str, Counter[str]], row: Row) -> None:
    """Counts the cells about which there are complaints, by their fields."""
    for one in row.problems:
        if isinstance(cell := row.cell(one.field), str):
            some = cells.setdefault(one.field, Counter())
            if cell in some or len(some) < _MOST_CELLS:
                some[cell] += 1


def _refuse_inputs(path: Path, own: str | Path | None, report: Path, options: Namespace) -> None:
    """Refuses files to be written that are read, or that are one and the same."""
    file = own if isinstance(own, Path) else None
    refuse_inputs([report, *([file] if file else [])], [path, options.ca_file, options.client_cert])
    refuse_inputs([report], [file])
    if file and report.name.startswith(f"{file.name}-") and report.parent.resolve() == file.parent.resolve():
        raise Failed(f"{named(report)} would be one of the files of the ledger {named(file)}: name another file")


def _propose(rows: Rows, number: int, wrong: dict[str, Counter[str]], columns: Columns, options: Namespace) -> None:
    """Says which options would make complaints go away, and how many rows could be sent with them."""
    phones = (str(columns.agent(cells).get("phone", "")) for _, cells in rows.cells())
    more, remarks = proposed(wrong, islice(phones, _MOST_CELLS))
    given = [*pairwise(options.arguments)]
    more = [part for pair in zip(more[::2], more[1::2], strict=True) if pair not in given for part in pair]
    if more:
        # Parsed like what somebody adds to the command.
        with_more = options.parse([*options.arguments[:2], *more, *options.arguments[2:]])
        columns = _columns(columns.header, with_more)
        fit = sum(not row.problems for row, _ in checked(rows.cells(), columns, Rows(columns, with_more.key)))
        say()
        say(f"With these options, {fit:,} of {counted(number, 'row')} could be sent. Are they correct?")
        say(f"  {shlex.join(more)}")
        options.result["proposed"] = {"options": more, "sendable": fit}
    for remark in remarks:
        say(remark)


def _refuse_unasked(others: list[Path], lost: int, options: Namespace) -> None:
    """Refuses to send rows that another ledger or a report has, unless somebody is asked."""
    if others:
        say(
            "If it belongs to this service, perhaps under an old URL, use it: add --ledger "
            f"{shlex.quote(str(others[0]))}. If it belongs to another service, such as a sandbox, these rows are new here."
        )
    elif lost:
        say(
            "If the ledger was lost, or replaced with an older copy, these agents would be created a second "
            "time: put the ledger back, or remove these rows from the table. If they were created at another "
            "service, such as a sandbox, they are new here."
        )
    if options.yes and (lost or others):
        raise Failed(
            "nothing was sent: with --yes, nobody can confirm that these rows are new at this service. If you "
            "are sure that they are, leave out --yes"
        )


def _earlier(path: str | Path | None, rows: Rows, options: Namespace) -> Counter[str]:
    try:
        return note_earlier(path, rows, options)
    except LedgerError as error:
        if error.reason != "other_service" or not isinstance(path, Path):
            raise
        move = command_line(["ledger", "move", str(path), address(options)])
        raise Failed(
            f"{explanation(error)}\nIf this is a different service, leave out --ledger: each service has its own. "
            f"If it is the same service, with the same agents, record its new URL:\n  {move}"
        ) from None


def _finish(rows: Rows, creates: Creates, path: str | Path, report: Report, options: Namespace) -> int:
    """Writes the report, and says what became of the rows and what to do now."""
    stopped_by = creates.stopped_by
    # With a ledger that is lost, running the command again would create everybody again.
    can_go_on = not (isinstance(stopped_by, LedgerError) and stopped_by.reason in _LOST)
    # Written first: whoever reads the screen may have stopped reading.
    failure = None
    try:
        report.write(rows.results())
        options.result["files"]["report"] = str(report.path)
    except Failed as failed:
        failure = failed
    say()
    show_outcomes(rows, options.result, can_go_on=can_go_on)
    say()
    if failure is None:
        say(f"{safe(str(report.path))} says what became of each row.")
    again = f"  {command_line(options.arguments)}"
    if can_go_on:
        options.result["files"]["ledger"] = masked(path)
        say(f"{masked(path)} records this: repeating the command creates no agent twice.")
        found = {outcome for outcome, _ in rows.counts()}
        if found & {"unknown", "rejected"}:
            say()
            say(_how_to_settle(path, report.path, found))
            say(again)
    go_on = f"To continue, run the same command again:\n{again}"
    if stopped_by is not None and not can_go_on:
        reason = failure_of(stopped_by)
        raise Failed(f"{failure or ''}\n{reason}".lstrip(), reason.code)
    if failure is not None:
        raise Failed(f"{failure}\n{go_on}", failure.code)
    if options.signals.is_stopping:
        raise Failed(f"stopped. {go_on}", INTERRUPTED)
    if stopped_by is not None:
        raise Failed(f"{explanation(stopped_by)}\n{go_on}", code_of(stopped_by))
    return DONE if {outcome for outcome, _ in rows.counts()} == {"created"} else INCOMPLETE


def _how_to_settle(ledger: str | Path, written: Path, outcomes: set[str]) -> str:
    """What to do about rows that running the same command again would leave as they are."""
    parts = []
    if "unknown" in outcomes:
        parts.append(
            "Look up the unknown rows at the service, and enter what you find in the report's column agent_id: the "
            "agent's id, or none if there is no agent an hour after the import: a request that was held up may still arrive."
        )
    if "rejected" in outcomes:
        parts.append("Once a rejected row is corrected, enter none for it.")
    settle = command_line(["ledger", "settle", str(ledger), str(written)])
    return f"{' '.join(parts)} Then:\n  {settle}"
