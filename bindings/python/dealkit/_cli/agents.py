"""`dealkit agents import`: creates an agent for each row of a table."""

from __future__ import annotations

import shlex
from argparse import Namespace
from contextlib import suppress
from pathlib import Path

from dealkit import APIConnectionError, AuthenticationError, LedgerError
from dealkit._cli import report
from dealkit._cli.advice import code_of, explanation, failure_of
from dealkit._cli.columns import Columns
from dealkit._cli.creates import Creates
from dealkit._cli.exits import DONE, INCOMPLETE, INTERRUPTED, UNWRITABLE, Failed
from dealkit._cli.files import named, refuse_inputs
from dealkit._cli.known import NOT_SENT, changed_keys, elsewhere, ledger_of, note_earlier
from dealkit._cli.rows import Result, Rows, first_rows, show_outcomes
from dealkit._cli.screen import ask, command_line, counted, masked, safe, say, table
from dealkit._cli.service import NO_ADDRESS, address, connect, probe
from dealkit._cli.tables import read_table

_RUNNING = "the import has not finished: the ledger has the row's outcome, and the same command resumes the import"
# The reasons of a LedgerError after which the ledger does not know what was sent.
_LOST = ("broken", "moved", "not_a_ledger")

_ADVICE = {
    "unknown": "Look up the unknown rows at the service, and enter what you find in the report's column agent_id: the agent's id, or "
    "none if there is no agent an hour after the import: a request that was held up may still arrive.",
    "rejected": "For a rejected row, enter none in the report's column agent_id once the row is corrected.",
}
"""The advice about rows of each outcome, before they are resolved."""

# Which options read cells that the service does not take, by the kind of problem.
_OPTIONS = {
    "invalid_date": "--date-format says how the dates are written, as in --date-format %d.%m.%Y",
    "invalid_phone": "--phone-country adds the country to phone numbers without one, as in --phone-country DE",
    "unknown_value": "--map-value says what a cell means, as in --map-value role:Makler=AGENT",
}


def run(options: Namespace) -> int:
    """Shows which column goes where and what is wrong, and creates the agents unless this is a dry run."""
    path, own, result = Path(options.file), ledger_of(options), options.result
    report_path = Path(options.report or f"{options.file}.report.csv")
    _refuse_inputs(path, own, report_path, options)
    found = read_table(path, options.encoding)
    columns = Columns(found.header, options)
    rows = Rows(columns, options.key)
    report.take_last(report_path, rows)
    rows.check(found.rows)
    say(f"{safe(str(path))}:\n{table(columns.shown())}\n")
    invalid = rows.counts()["invalid", False]
    fit = rows.counts().total() - invalid
    result["files"] = {"table": str(path)}
    result["errors"] += rows.wrong.show("Invalid")
    if doubts := rows.doubtful.show("Worth a look"):
        result["worth_a_look"] = doubts
    for kind, said in _OPTIONS.items():
        if any(kind == of for _, of in rows.wrong):
            say(f"{said}.")
    result["counts"] = {"rows": fit + invalid, "sendable": fit, "invalid": invalid}
    say(f"{counted(fit, 'row')} can be sent, {invalid:,} cannot")
    known, changed = note_earlier(own, rows, options)
    to_send = fit - known.total()
    if known and own is not None:
        outcomes = ", ".join(f"{number:,} {outcome}" for outcome, number in sorted(known.items()))
        say(f"{masked(own)} already has {known.total():,} of them, not to be sent again: {outcomes}")
    if changed:
        say(
            f"{counted(len(changed), 'row')} changed since an earlier run sent {'it' if len(changed) == 1 else 'them'}: {NOT_SENT} "
            f"({first_rows(changed)})."
        )
        result["changed_rows"] = changed
    if to_send and isinstance(own, Path) and not own.exists():
        say(f"{safe(str(own))} will be a new, empty ledger: all of these rows will be sent.")
    # Without a service, no ledger has been asked.
    others = [] if own is None else elsewhere(own, rows, options)
    renamed = [] if own is None else changed_keys(own, rows)
    if renamed and own is not None:
        say(
            f"{counted(len(renamed), 'row')} would be sent again under another key: {masked(own)} knows the e-mail address, but "
            f"not the key ({first_rows(renamed)}). Has a spreadsheet changed the keys, as in 123 for 00123?"
        )
        result["renamed_rows"] = renamed
    lost = 0 if own is None else rows.lost(is_new=isinstance(own, Path) and not own.exists())
    if lost:
        say(
            f"{named(report_path)}, the report of an earlier import, says that {lost:,} of these rows were created, or may have been, but the "
            "ledger does not know them: it was lost, or replaced with an older copy."
        )
    result["counts"]["to_send"] = to_send
    if options.dry_run:
        if options.report:
            report.write(report_path, rows.results(), found.delimiter)
            result["files"]["report"] = str(report_path)
        say("This was a dry run: nothing was sent.")
    if options.dry_run or not fit:
        return INCOMPLETE if invalid else DONE
    with connect(options) as client:
        if own is None:
            raise Failed(NO_ADDRESS)
        _refuse_unasked(others, lost, options)
        if renamed and options.yes:
            raise Failed(
                "nothing was sent: --yes cannot confirm that the rows with other keys are other agents. Give them "
                "their old keys, or leave out --yes"
            )
        if options.yes and (damaged := rows.damaged()):
            raise Failed(
                "nothing was sent: --yes cannot confirm that rows are to be sent with errors of a spreadsheet or lost "
                f"letters ({first_rows(damaged)}). Correct them, or leave out --yes"
            )
        if to_send and not options.yes:
            ask(f"Create {counted(to_send, 'agent')} at {safe(address(options))}?")
        # Detects a refused key or an unreachable service before a row is used up.
        if isinstance(response := probe(client), AuthenticationError | APIConnectionError):
            raise response
        # Anything filled in for a row that is sent again is no longer true, even if this ends in a crash. In that
        # case, only the ledger has the result of the row.
        report.write(report_path, map(_running, rows.results()), found.delimiter)
        creates = Creates(client, rows, fit, own, options)
        with suppress(KeyboardInterrupt):
            creates.run(options)
    creates.note_unseen()
    # Written first: whoever reads the screen may have stopped reading.
    failure = None
    try:
        report.write(report_path, rows.results(), found.delimiter)
        result["files"]["report"] = str(report_path)
    except Failed as failed:
        failure = failed
    return _finish(rows, creates, own, report_path, failure, options)


def _running(row: Result) -> Result:
    """A row in the report of an import that has not finished."""
    is_known = row.outcome == "invalid" or row.was_earlier
    return row if is_known else row._replace(outcome="running", message=_RUNNING)


def _refuse_inputs(path: Path, own: str | Path | None, report: Path, options: Namespace) -> None:
    """Refuses files to be written that are read, or that are one and the same."""
    file = own if isinstance(own, Path) else None
    refuse_inputs([report, *([file] if file else [])], [path, options.ca_file, options.client_cert])
    refuse_inputs([report], [file])
    if file and report.name.startswith(f"{file.name}-") and report.parent.resolve() == file.parent.resolve():
        raise Failed(f"{named(report)} would be one of the files of the ledger {named(file)}: name another file")


def _refuse_unasked(others: list[Path], lost: int, options: Namespace) -> None:
    """Refuses to send rows that another ledger or a report has, unless somebody is asked."""
    if not (lost or others):
        return
    use = f"use it: add --ledger {shlex.quote(safe(str(others[0])))}" if others else "put it back"
    say(
        f"If the agents of that ledger were created at this service, perhaps under an old URL, {use}. If they were created at "
        "another service, such as a sandbox, these rows are new here."
    )
    if options.yes:
        raise Failed(
            "nothing was sent: --yes cannot confirm that these rows are new at this service. If you "
            "are sure that they are, leave out --yes"
        )


def _finish(
    rows: Rows, creates: Creates, own: str | Path, report: Path, failure: Failed | None, options: Namespace
) -> int:
    """Says what became of the rows, and what to do now; the failure is that of writing the report."""
    stopped_by = creates.stopped_by
    # With a ledger that is lost, running the command again would create everybody again.
    can_go_on = not (isinstance(stopped_by, LedgerError) and stopped_by.reason in _LOST)
    say()
    show_outcomes(rows, options.result, can_go_on=can_go_on)
    say()
    if failure is None:
        say(f"{named(report)} says what became of each row.")
    again = f"  {command_line(options.arguments)}"
    found = {outcome for outcome, _ in rows.counts()}
    if can_go_on:
        options.result["files"]["ledger"] = masked(own)
        say(f"{masked(own)} records this: repeating the command creates no agent twice.")
        if to_do := [text for outcome, text in _ADVICE.items() if outcome in found]:
            say(f"\n{' '.join(to_do)} Then:\n  {command_line(['ledger', 'resolve', str(own), str(report)])}\n{again}")
    go_on = f"To continue, run the same command again:\n{again}"
    if stopped_by is not None and not can_go_on:
        reason = failure_of(stopped_by)
        # The code for a wrong use says that nothing was sent.
        code = UNWRITABLE if found & {"created", "unknown", "rejected"} else reason.code
        raise Failed(f"{failure or ''}\n{reason}".lstrip(), code)
    if failure is not None:
        raise Failed(f"{failure}\n{go_on}", failure.code)
    if options.signals.is_stopping:
        raise Failed(f"stopped. {go_on}", INTERRUPTED)
    if stopped_by is not None:
        raise Failed(f"{explanation(stopped_by)}\n{go_on}", code_of(stopped_by))
    return DONE if found == {"created"} else INCOMPLETE
