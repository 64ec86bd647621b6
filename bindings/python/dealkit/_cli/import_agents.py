"""`dealkit agents import`: creates an agent for each row of a table."""

from __future__ import annotations

import shlex
from argparse import Namespace
from contextlib import suppress
from pathlib import Path

from dealkit import APIConnectionError, AuthenticationError, LedgerError
from dealkit._cli.columns import ColumnMapping
from dealkit._cli.csv_tables import read_table
from dealkit._cli.error_messages import exit_code_for, format_error_with_advice, to_command_error
from dealkit._cli.exit_codes import DONE, INCOMPLETE, INTERRUPTED, UNWRITABLE, CommandError
from dealkit._cli.files import file_display_name, reject_outputs_that_are_inputs
from dealkit._cli.import_report import load_last_report, write_report
from dealkit._cli.import_rows import ImportRows, RowResult, format_row_numbers, print_outcomes
from dealkit._cli.import_run import ImportRun
from dealkit._cli.ledger_lookup import (
    CHANGE_NOT_SENT,
    choose_ledger,
    find_changed_keys,
    find_other_ledgers,
    record_earlier_outcomes,
)
from dealkit._cli.service import NO_BASE_URL_MESSAGE, make_client, probe_service, service_url
from dealkit._cli.terminal import (
    confirm,
    escape_controls,
    format_command,
    format_count,
    format_table,
    ledger_display_name,
    print_result,
)

_RUNNING_MESSAGE = (
    "the import has not finished: the ledger has the row's outcome, and the same command resumes the import"
)
# Reasons of a LedgerError that mean that the ledger no longer knows the rows that were sent.
_LEDGER_LOST = ("broken", "moved", "not_a_ledger")

_ADVICE_BY_OUTCOME = {
    "unknown": "Look up the unknown rows at the service, and enter what you find in the report's column agent_id: the agent's id, or "
    "none if there is no agent an hour after the import: a request that was held up may still arrive.",
    "rejected": "For a rejected row, enter none in the report's column agent_id once the row is corrected.",
}
"""The advice for unresolved rows, by outcome."""

# Advice about the option that may be able to parse a rejected cell, by the problem's code.
_OPTIONS_BY_PROBLEM = {
    "invalid_date": "--date-format says how the dates are written, as in --date-format %d.%m.%Y",
    "invalid_phone": "--phone-country adds the country to phone numbers without one, as in --phone-country DE",
    "unknown_value": "--map-value says what a cell means, as in --map-value role:Makler=AGENT",
}


def run(options: Namespace) -> int:
    """Prints the mapping of columns and all problems. Then creates the agents, unless this is a dry run."""
    path, own_ledger, result = Path(options.file), choose_ledger(options), options.result
    report_path = Path(options.report or f"{options.file}.report.csv")
    _reject_conflicting_paths(path, own_ledger, report_path, options)
    input_table = read_table(path, options.encoding)
    mapping = ColumnMapping(input_table.header, options)
    rows = ImportRows(mapping, options.key)
    load_last_report(report_path, rows)
    rows.check_and_store(input_table.rows)
    print_result(f"{escape_controls(str(path))}:\n{format_table(mapping.describe())}\n")
    invalid_count = rows.count_outcomes()["invalid", False]
    sendable_count = rows.count_outcomes().total() - invalid_count
    result["files"] = {"table": str(path)}
    result["errors"] += rows.problems.print_table("Invalid")
    if warnings := rows.warnings.print_table("Worth a look"):
        result["worth_a_look"] = warnings
    for kind, advice in _OPTIONS_BY_PROBLEM.items():
        if any(kind == problem_kind for _, problem_kind in rows.problems):
            print_result(f"{advice}.")
    result["counts"] = {"rows": sendable_count + invalid_count, "sendable": sendable_count, "invalid": invalid_count}
    print_result(f"{format_count(sendable_count, 'row')} can be sent, {invalid_count:,} cannot")
    earlier_counts, changed_rows = record_earlier_outcomes(own_ledger, rows, options)
    unsent_count = sendable_count - earlier_counts.total()
    if earlier_counts and own_ledger is not None:
        outcomes = ", ".join(f"{number:,} {outcome}" for outcome, number in sorted(earlier_counts.items()))
        print_result(
            f"{ledger_display_name(own_ledger)} already has {earlier_counts.total():,} of them, not to be sent again: {outcomes}"
        )
    if changed_rows:
        print_result(
            f"{format_count(len(changed_rows), 'row')} changed since an earlier run sent {'it' if len(changed_rows) == 1 else 'them'}: {CHANGE_NOT_SENT} "
            f"({format_row_numbers(changed_rows)})."
        )
        result["changed_rows"] = changed_rows
    if unsent_count and isinstance(own_ledger, Path) and not own_ledger.exists():
        print_result(f"{escape_controls(str(own_ledger))} will be a new, empty ledger: all of these rows will be sent.")
    # Without a base URL, the import has no ledger yet, and other ledgers are not searched.
    other_ledgers = [] if own_ledger is None else find_other_ledgers(own_ledger, rows, options)
    rows_with_new_keys = [] if own_ledger is None else find_changed_keys(own_ledger, rows)
    if rows_with_new_keys and own_ledger is not None:
        print_result(
            f"{format_count(len(rows_with_new_keys), 'row')} would be sent again under another key: {ledger_display_name(own_ledger)} knows the e-mail address, but "
            f"not the key ({format_row_numbers(rows_with_new_keys)}). Has a spreadsheet changed the keys, as in 123 for 00123?"
        )
        result["renamed_rows"] = rows_with_new_keys
    missing_count = (
        0
        if own_ledger is None
        else rows.count_missing_from_ledger(is_new=isinstance(own_ledger, Path) and not own_ledger.exists())
    )
    if missing_count:
        print_result(
            f"{file_display_name(report_path)}, the report of an earlier import, says that {missing_count:,} of these rows were created, or may have been, but the "
            "ledger does not know them: it was lost, or replaced with an older copy."
        )
    result["counts"]["to_send"] = unsent_count
    if options.dry_run:
        if options.report:
            write_report(report_path, rows.results(), input_table.delimiter)
            result["files"]["report"] = str(report_path)
        print_result("This was a dry run: nothing was sent.")
    if options.dry_run or not sendable_count:
        return INCOMPLETE if invalid_count else DONE
    with make_client(options) as client:
        if own_ledger is None:
            raise CommandError(NO_BASE_URL_MESSAGE)
        _reject_unconfirmed_rows(other_ledgers, missing_count, options)
        if rows_with_new_keys and options.yes:
            raise CommandError(
                "nothing was sent: --yes cannot confirm that the rows with other keys are other agents. Give them "
                "their old keys, or leave out --yes"
            )
        if options.yes and (damaged_rows := rows.damaged_row_numbers()):
            raise CommandError(
                "nothing was sent: --yes cannot confirm that rows are to be sent with errors of a spreadsheet or lost "
                f"letters ({format_row_numbers(damaged_rows)}). Correct them, or leave out --yes"
            )
        if unsent_count and not options.yes:
            confirm(f"Create {format_count(unsent_count, 'agent')} at {escape_controls(service_url(options))}?")
        # Detects a rejected key or an unreachable service before any row is sent.
        if isinstance(response := probe_service(client), AuthenticationError | APIConnectionError):
            raise response
        # Writes a report before sending, because the process may crash, and only the ledger then has the outcomes. The
        # user's entries in the last report become invalid for rows that are sent again, so this report omits those
        # entries.
        write_report(report_path, map(_mark_running, rows.results()), input_table.delimiter)
        import_run = ImportRun(client, rows, sendable_count, own_ledger, options)
        with suppress(KeyboardInterrupt):
            import_run.run(options)
    import_run.record_interrupted()
    # Writes the report before the output is printed, because printing fails if the reader of the output has closed the
    # pipe.
    report_error = None
    try:
        write_report(report_path, rows.results(), input_table.delimiter)
        result["files"]["report"] = str(report_path)
    except CommandError as error:
        report_error = error
    return _print_report_and_advice(rows, import_run, own_ledger, report_path, report_error, options)


def _mark_running(row: RowResult) -> RowResult:
    """Marks a row as running, for the report that is written before the import starts, unless the row is not sent."""
    is_known = row.outcome == "invalid" or row.was_earlier
    return row if is_known else row._replace(outcome="running", message=_RUNNING_MESSAGE)


def _reject_conflicting_paths(path: Path, own_ledger: str | Path | None, report: Path, options: Namespace) -> None:
    """Rejects an output file that is also an input file, and a report that is also the ledger or one of the ledger's
    files."""
    file = own_ledger if isinstance(own_ledger, Path) else None
    reject_outputs_that_are_inputs([report, *([file] if file else [])], [path, options.ca_file, options.client_cert])
    reject_outputs_that_are_inputs([report], [file])
    if file and report.name.startswith(f"{file.name}-") and report.parent.resolve() == file.parent.resolve():
        raise CommandError(
            f"{file_display_name(report)} would be one of the files of the ledger {file_display_name(file)}: name another file"
        )


def _reject_unconfirmed_rows(other_ledgers: list[Path], missing_count: int, options: Namespace) -> None:
    """Warns if another ledger or the last report has some of the rows, but the import's ledger does not. Raises
    CommandError with --yes, because a person must confirm that these rows are new.
    """
    if not (missing_count or other_ledgers):
        return
    use = (
        f"use it: add --ledger {shlex.quote(escape_controls(str(other_ledgers[0])))}"
        if other_ledgers
        else "put it back"
    )
    print_result(
        f"If the agents of that ledger were created at this service, perhaps under an old URL, {use}. If they were created at "
        "another service, such as a sandbox, these rows are new here."
    )
    if options.yes:
        raise CommandError(
            "nothing was sent: --yes cannot confirm that these rows are new at this service. If you "
            "are sure that they are, leave out --yes"
        )


def _print_report_and_advice(
    rows: ImportRows,
    import_run: ImportRun,
    own_ledger: str | Path,
    report: Path,
    report_error: CommandError | None,
    options: Namespace,
) -> int:
    """Prints the outcomes and the next steps, and returns the exit code. `report_error` is the error of writing the
    report, if any.
    """
    stopped_by = import_run.stopped_by
    # If the ledger is lost, running the command again would create every agent twice.
    can_resume = not (isinstance(stopped_by, LedgerError) and stopped_by.reason in _LEDGER_LOST)
    print_result()
    print_outcomes(rows, options.result, can_resume=can_resume)
    print_result()
    if report_error is None:
        print_result(f"{file_display_name(report)} says what became of each row.")
    repeat_command = f"  {format_command(options.arguments)}"
    outcomes = {outcome for outcome, _ in rows.count_outcomes()}
    if can_resume:
        options.result["files"]["ledger"] = ledger_display_name(own_ledger)
        print_result(f"{ledger_display_name(own_ledger)} records this: repeating the command creates no agent twice.")
        if advice_texts := [text for outcome, text in _ADVICE_BY_OUTCOME.items() if outcome in outcomes]:
            print_result(
                f"\n{' '.join(advice_texts)} Then:\n  {format_command(['ledger', 'resolve', str(own_ledger), str(report)])}\n{repeat_command}"
            )
    resume_text = f"To continue, run the same command again:\n{repeat_command}"
    if stopped_by is not None and not can_resume:
        reason = to_command_error(stopped_by)
        # The exit code WRONG_USAGE would mean that nothing was sent.
        code = UNWRITABLE if outcomes & {"created", "unknown", "rejected"} else reason.code
        raise CommandError(f"{report_error or ''}\n{reason}".lstrip(), code)
    if report_error is not None:
        raise CommandError(f"{report_error}\n{resume_text}", report_error.code)
    if options.signals.is_stopping:
        raise CommandError(f"stopped. {resume_text}", INTERRUPTED)
    if stopped_by is not None:
        raise CommandError(f"{format_error_with_advice(stopped_by)}\n{resume_text}", exit_code_for(stopped_by))
    return DONE if outcomes == {"created"} else INCOMPLETE
