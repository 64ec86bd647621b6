"""`dealkit agents import`: creates an agent for each row of a table."""

from __future__ import annotations

import shlex
from argparse import Namespace
from contextlib import suppress
from pathlib import Path

from dealkit import APIConnectionError, AuthenticationError, Client, LedgerError
from dealkit._cli import report
from dealkit._cli.advice import NO_ADDRESS, code_of, explanation
from dealkit._cli.columns import Columns
from dealkit._cli.connection import address, connect, probe
from dealkit._cli.creates import Creates
from dealkit._cli.exits import DONE, INCOMPLETE, INTERRUPTED, Failed
from dealkit._cli.files import named, refuse_inputs
from dealkit._cli.known import Elsewhere, earlier, elsewhere, in_words, ledger_of, outcomes, verify
from dealkit._cli.plan import Plan, plan_of
from dealkit._cli.report import Report, Result
from dealkit._cli.screen import ask, bold, command_line, counted, masked, safe, say, table
from dealkit._cli.table_file import Table, read_table

_RUNNING = (
    "the import has not ended: the ledger records what became of the row, and the same command resumes the import"
)
# The reasons of a LedgerError after which the ledger does not know what was sent.
_LOST = ("broken", "moved", "not_a_ledger")


def run(options: Namespace) -> int:
    """Shows which column goes where and what is wrong, and creates the agents unless this is a dry run."""
    path = Path(options.file)
    _refuse_inputs(path, options)
    rows = read_table(path, options)
    columns = Columns(rows.header, options.map)
    _show_table(path, rows, columns)
    if columns.missing:
        raise Failed(
            f"{named(path)}: no column holds {' or '.join(columns.missing)}, which every agent needs. Say which does: "
            f"{columns.options_for_missing()}"
        )
    plan = plan_of(rows, columns, columns.key_index(options.key))
    if plan.mistakes:
        report.show_mistakes("What is wrong", plan.mistakes)
    if plan.doubts:
        report.show_mistakes("Worth a look", plan.doubts)
    invalid = plan.invalid()
    say(f"{counted(len(plan.lines), 'row')} can be sent, {len(invalid):,} cannot")
    own = ledger_of(options)
    verify(own)
    known = earlier(own, plan, address(options), resend_unknown=options.resend_unknown)
    if known and own is not None:
        _show_known(known, own)
    to_send = [line for line in plan.lines if line.number not in known]
    others = elsewhere(own, to_send, options)
    for other in others:
        say(in_words(other, own))
    report_path = _report_of(options)
    # Without a service, no ledger has been asked.
    created = set() if own is None else report.created(report_path)
    lost = sum(line.key in created for line in to_send)
    if lost:
        say(
            f"{named(report_path)}, the report of an earlier import, calls {lost:,} of these rows created, and the "
            "ledger does not know them."
        )
    before = [*invalid, *known.values()]
    if options.dry_run:
        if options.report:
            Report(Path(options.report), rows.delimiter).write([*before, *plan.unsent(to_send)])
        say("Nothing was sent: this was a dry run.")
        return INCOMPLETE if invalid else DONE
    if not plan.lines:
        return INCOMPLETE if invalid else DONE
    with connect(options) as client:
        if own is None:
            raise Failed(NO_ADDRESS)
        _refuse_unasked(others, lost, options)
        if to_send and not options.yes:
            question = f"Create {counted(len(to_send), 'agent')} at {safe(address(options))}?"
            ask(question, check="check it with --dry-run", declined="nothing was sent")
        written = Report(report_path, rows.delimiter)
        _see_whether_it_can_work(client)
        # Anything filled in for a row that is sent again is no longer true, even if this ends in a crash. In that
        # case, only the ledger has the result of the row.
        written.write([*before, *(Result(line.number, line.key, "running", message=_RUNNING) for line in to_send)])
        return _import(client, plan, known, own, options, written)


def _report_of(options: Namespace) -> Path:
    return Path(options.report or f"{options.file}.report.csv")


def _refuse_inputs(path: Path, options: Namespace) -> None:
    """Refuses files to be written that are read, or that are one and the same."""
    own, written = ledger_of(options), _report_of(options)
    file = own if isinstance(own, Path) else None
    refuse_inputs([written, *([file] if file else [])], [path, options.ca_file, options.client_cert])
    refuse_inputs([written], [file])
    if file and written.name.startswith(f"{file.name}-") and written.parent.resolve() == file.parent.resolve():
        raise Failed(f"{named(written)} would be one of the files of the ledger {named(file)}: name another file")


def _show_table(path: Path, rows: Table, columns: Columns) -> None:
    say(f"{safe(str(path))}: {counted(len(rows.rows), 'row')}, {rows.understood}")
    say()
    head, *body = table([("Column", "goes to"), *columns.shown()], indent="  ")
    say(bold(head))
    for line in body:
        say(line)
    say()


def _show_known(known: dict[int, Result], ledger: str | Path) -> None:
    """Says how many rows are not sent because an earlier run has sent them."""
    verb = "is" if len(known) == 1 else "are"
    words = outcomes(result.came_to for result in known.values())
    say(f"{safe(masked(ledger))} already has {len(known):,} of them, which {verb} not sent again: {words}")


def _refuse_unasked(others: list[Elsewhere], lost: int, options: Namespace) -> None:
    """Refuses to send rows that another ledger or a report has, unless somebody is asked."""
    if lost:
        say(
            "If the ledger was lost, or replaced by an older copy, these agents would be created a second time: put the ledger "
            "back, or leave these rows out of the table. If they were created at another service, such as a sandbox, they are "
            "new here."
        )
    elif others:
        say(
            "If it is the ledger of this service, perhaps under an old address, use it: add --ledger "
            f"{shlex.quote(str(others[0].ledger))}. If it is of another service, such as a sandbox, these rows are new here."
        )
    if options.yes and (lost or others):
        other = "name another file with --report" if lost else "move the ledger of the other service to another folder"
        raise Failed(
            "nothing was sent: with --yes, nobody is asked whether these rows are new at this service. If they are, leave "
            f"out --yes, or {other}"
        )


def _see_whether_it_can_work(client: Client) -> None:
    """Detects a refused key or an unreachable service before a row is used up."""
    response = probe(client)
    if isinstance(response, AuthenticationError | APIConnectionError):
        raise response


def _import(
    client: Client, plan: Plan, known: dict[int, Result], path: str | Path, options: Namespace, written: Report
) -> int:
    try:
        creates = Creates(client, plan, path, options)
    except LedgerError as error:
        if error.reason != "other_service" or not isinstance(path, Path):
            raise
        move = command_line(["ledger", "move", str(path), address(options)])
        raise Failed(
            f"{explanation(error)}\nIf it is another service, leave out --ledger: each service has its own. If it is the same "
            f"service, with the same agents, record that with:\n  {move}"
        ) from None
    signals = options.signals
    with suppress(KeyboardInterrupt):
        creates.run(signals)
    stopped_by = creates.stopped_by
    # With a ledger that is lost, running the command again would create everybody again.
    can_go_on = not (isinstance(stopped_by, LedgerError) and stopped_by.reason in _LOST)
    # A row that was not reached is still what an earlier run has made of it.
    results = [known.get(one.row, one) if one.came_to == "not sent" else one for one in creates.results()]
    results += plan.invalid()
    # Written first: whoever reads the screen may have stopped reading.
    unwritten = None
    try:
        written.write(results)
    except Failed as failed:
        unwritten = failed
    say()
    report.show(results, can_go_on=can_go_on)
    say()
    if unwritten is None:
        say(f"{safe(str(written.path))} says what became of each row.")
    if stopped_by is not None and not can_go_on:
        raise Failed(f"{unwritten or ''}\n{explanation(stopped_by)}".lstrip(), code_of(stopped_by))
    say(f"{safe(masked(path))} records it: the same command creates no agent twice.")
    again = f"  {command_line(options.arguments)}"
    if any(result.came_to in ("unknown", "rejected") for result in results):
        say()
        say(_how_to_settle(path, written.path, results))
        say(again)
    go_on = f"To continue, run the same command again:\n{again}"
    if unwritten is not None:
        raise Failed(f"{unwritten}\n{go_on}", unwritten.code)
    if signals.is_stopping:
        raise Failed(f"stopped. {go_on}", INTERRUPTED)
    if stopped_by is not None:
        raise Failed(f"{explanation(stopped_by)}\n{go_on}", code_of(stopped_by))
    return DONE if all(result.came_to == "created" for result in results) else INCOMPLETE


def _how_to_settle(ledger: str | Path, written: Path, results: list[Result]) -> str:
    """What to do about rows that running the same command again would leave as they are."""
    parts = []
    if any(result.came_to == "unknown" for result in results):
        parts.append(
            "Look up the unknown rows at the service, and enter what you find in the report's column agent_id: the "
            "agent's id, or none if there is no agent."
        )
    if any(result.came_to == "rejected" for result in results):
        parts.append("Once a rejected row is corrected, enter none for it.")
    settle = command_line(["ledger", "settle", str(ledger), str(written)])
    return f"{' '.join(parts)} Then:\n  {settle}"
