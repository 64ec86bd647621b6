"""`dealkit agents import`: creates an agent for each row of a table."""

from __future__ import annotations

from argparse import Namespace
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from dealkit import APIConnectionError, AuthenticationError
from dealkit._cli.excel_files import can_write_workbooks
from dealkit._cli.excel_tables import is_workbook
from dealkit._cli.exit_codes import DONE, INCOMPLETE, CommandError
from dealkit._cli.files import file_display_name, reject_outputs_that_are_inputs
from dealkit._cli.import_plan import ImportPlan
from dealkit._cli.import_preview import (
    list_decisions,
    next_command,
    print_counts,
    print_samples,
    print_table,
    print_undecided_counts,
)
from dealkit._cli.import_report import NO_AGENT_ENTRY, load_last_report, unused_path, write_rejects, write_report
from dealkit._cli.import_rows import SKIPPED, ImportRows, RowResult
from dealkit._cli.import_run import ImportRun
from dealkit._cli.import_summary import ImportOutputs, advise_on_rejects, print_summary
from dealkit._cli.ledger_lookup import (
    CHANGE_NOT_SENT,
    choose_ledger,
    find_changed_keys,
    find_other_ledgers,
    record_earlier_outcomes,
)
from dealkit._cli.row_problems import format_row_numbers
from dealkit._cli.service import NO_BASE_URL_MESSAGE, make_client, probe_service, service_url
from dealkit._cli.shells import quote
from dealkit._cli.terminal import (
    confirm,
    escape_controls,
    format_command,
    format_count,
    ledger_display_name,
    print_result,
)

_RUNNING_MESSAGE = (
    "the import has not finished: the ledger has the row's outcome, and the same command resumes the import"
)


def run(options: Namespace) -> int:
    """Prints the columns, all problems and three rows. Then creates the agents, unless this is a dry run."""
    own_ledger = choose_ledger(options)
    outputs = _choose_outputs(options, own_ledger)
    plan = ImportPlan(options)
    outputs = outputs._replace(delimiter=options.delimiter or plan.source.delimiter or ",")
    rows, result = plan.rows, options.result
    load_last_report(outputs.report, rows)
    print_table(plan)
    result["files"] = {"table": str(plan.path)}
    result["errors"] += rows.problems.print_table("Cannot be sent", "invalid")
    if warnings := rows.warnings.print_table("Worth a look", "worth a look"):
        result["worth_a_look"] = warnings
    if skipped := rows.skipped.print_table("Worth a look: skipped, and not sent", SKIPPED):
        result["skipped"] = skipped
    print_counts(plan, result)
    questions = _compare_with_ledgers(plan, own_ledger, outputs.report, options)
    unsent_count = rows.count_unsent()
    if options.limit is not None:
        left_count = rows.limit_to(options.limit)
        unsent_count -= left_count
        if left_count:
            print_result(f"--limit: {format_count(left_count, 'row')} will be left for a later run.")
    result["counts"]["to_send"] = unsent_count
    # The values of rows are personal data. They are shown to a person who checks them, but not to a script's log.
    decisions = [*list_decisions(plan)]
    if not (options.yes or options.json):
        print_samples(plan)
        _print_list("To decide", decisions)
    else:
        print_undecided_counts(plan)
    _print_list("To confirm", plan.confirmations)
    if options.dry_run:
        return _end_dry_run(plan, outputs, options, has_decisions=bool(decisions))
    if decisions:
        # The questions are about entries in this file.
        plan.write_mapping()
    if decisions and not result["counts"]["sendable"]:
        print_result("\nNothing was sent: first answer the questions of a dry run (--dry-run).")
        return INCOMPLETE
    if not result["counts"]["sendable"]:
        _write_rejects(plan, outputs, options)
        advise_on_rejects(plan, outputs, options)
        return INCOMPLETE if result["counts"]["invalid"] else DONE
    return _send(plan, own_ledger, outputs, questions, options)


def _choose_outputs(options: Namespace, own_ledger: str | Path | None) -> ImportOutputs:
    """Chooses the output files. Rejects an output file that is also an input file or one of the ledger's files."""
    table = Path(options.file)
    report = Path(options.report or f"{options.file}.report.{'xlsx' if is_workbook(table) else 'csv'}")
    # A spreadsheet program opens a workbook without changing cells such as 00123.
    suffix = "xlsx" if can_write_workbooks() else "csv"
    rejects = Path(options.rejects) if options.rejects else unused_path(Path(f"{options.file}.rejects.{suffix}"))
    file = own_ledger if isinstance(own_ledger, Path) else None
    inputs = [table, options.ca_file, options.client_cert, options.mapping]
    reject_outputs_that_are_inputs([report, rejects, *([file] if file else [])], inputs)
    reject_outputs_that_are_inputs([report, rejects], [file])
    reject_outputs_that_are_inputs([rejects], [report])
    for output in (report, rejects):
        if file and output.name.startswith(f"{file.name}-") and output.parent.resolve() == file.parent.resolve():
            raise CommandError(
                f"{file_display_name(output)} would be one of the files of the ledger {file_display_name(file)}: name another file"
            )
    return ImportOutputs(report, rejects, ",")


class _Questions(NamedTuple):
    """Findings in ledgers that a person must confirm before rows are sent."""

    other_ledgers: list[Path]
    """Other ledgers that have some of the rows."""
    missing_count: int
    """The number of rows that the last report, but not the ledger, has as created."""
    rows_with_new_keys: list[int]
    """The numbers of rows whose e-mail address, but not the key, the ledger has."""


def _compare_with_ledgers(
    plan: ImportPlan, own_ledger: str | Path | None, report: Path, options: Namespace
) -> _Questions:
    """Prints what ledgers and the last report know about the rows."""
    rows, result = plan.rows, options.result
    earlier_counts, changed_rows = record_earlier_outcomes(own_ledger, rows, options)
    if own_ledger is None:
        # Without a base URL, the import has no ledger yet, and other ledgers are not searched.
        return _Questions([], 0, [])
    ledger_name = ledger_display_name(own_ledger)
    if earlier_counts:
        outcomes = ", ".join(f"{number:,} {outcome}" for outcome, number in sorted(earlier_counts.items()))
        print_result(
            f"{ledger_name}, the list of rows already sent (ledger), has {earlier_counts.total():,} of them, which are not sent again: {outcomes}"
        )
    if changed_rows:
        print_result(
            f"{format_count(len(changed_rows), 'row')} changed since the last import ({format_row_numbers(changed_rows)}): {CHANGE_NOT_SENT}."
        )
        result["changed_rows"] = changed_rows
    is_new = isinstance(own_ledger, Path) and not own_ledger.exists()
    if rows.count_unsent() and is_new:
        print_result(
            f"{ledger_name}, the list of rows already sent (ledger), does not exist yet: no row was sent from this folder before."
        )
    other_ledgers = find_other_ledgers(own_ledger, rows, options)
    rows_with_new_keys = find_changed_keys(own_ledger, rows)
    if rows_with_new_keys:
        print_result(
            f"{format_count(len(rows_with_new_keys), 'row')} would be sent again under another key: the ledger {ledger_name} has the e-mail address, but "
            f"not the key ({format_row_numbers(rows_with_new_keys)}). Has a spreadsheet changed the keys, as in 123 for 00123? Or is a row for a "
            "person who was already sent? Then delete the row."
        )
        result["renamed_rows"] = rows_with_new_keys
    # An existing ledger has the unknown rows, but --resend-unknown sends them.
    missing_count = rows.count_missing_from_ledger(with_unknown=is_new or not options.resend_unknown)
    if missing_count:
        print_result(
            f"{file_display_name(report)}, the report of an earlier import, says that {missing_count:,} of these rows were created, or may have been, but the "
            f"ledger does not have them: it was lost, or replaced with an older copy. If you have resolved them as rows without an agent, enter {NO_AGENT_ENTRY} "
            "in the report's column agent_id."
        )
        if is_new:
            print_result(
                "If the ledger was moved, put it back. If it is lost, answer n, and delete these rows from the table."
            )
        else:
            print_result("To record these rows in the ledger, answer n, and run:")
            for name in ("mark-unknown", "resolve"):
                print_result(f"  {format_command(['ledger', name, str(own_ledger), str(report)])}")
    return _Questions(other_ledgers, missing_count, rows_with_new_keys)


def _print_list(title: str, texts: list[str]) -> None:
    if texts:
        print_result(f"\n{title}:")
        for text in texts:
            print_result(text)


def _end_dry_run(plan: ImportPlan, outputs: ImportOutputs, options: Namespace, *, has_decisions: bool) -> int:
    counts, files = options.result["counts"], options.result["files"]
    if options.report:
        write_report(outputs.report, plan.rows.results(), outputs.delimiter)
        files["report"] = str(outputs.report)
    if options.rejects:
        _write_rejects(plan, outputs, options)
    plan.write_mapping()
    if plan.mapping_path:
        files["mapping"] = str(plan.mapping_path)
        print_result(f"\n{file_display_name(plan.mapping_path)} has all settings of this dry run.")
    print_result("\nThis was a dry run: nothing was sent.")
    if counts["to_send"]:
        options.result["next_command"] = command = next_command(plan, options)
        first = 'First answer the questions under "To decide". Then send' if has_decisions else "To send"
        print_result(f"{first} the rows that can be sent (add --limit 5 to try five rows first):\n  {command}")
    return INCOMPLETE if counts["invalid"] else DONE


def _send(
    plan: ImportPlan, own_ledger: str | Path | None, outputs: ImportOutputs, questions: _Questions, options: Namespace
) -> int:
    rows, counts = plan.rows, options.result["counts"]
    with make_client(options) as client:
        if own_ledger is None:
            raise CommandError(NO_BASE_URL_MESSAGE)
        _reject_unconfirmed_rows(questions, rows, options)
        if counts["to_send"] and not options.yes:
            warned_count = rows.count_warned()
            worth_a_look = f" ({warned_count:,} worth a look)" if warned_count else ""
            confirm(
                f"\nCreate {format_count(counts['to_send'], 'agent')}{worth_a_look} at {escape_controls(service_url(options))}? This cannot be undone."
            )
        # Detects a rejected key or an unreachable service before any row is sent.
        if isinstance(response := probe_service(client), AuthenticationError | APIConnectionError):
            raise response
        plan.write_mapping()
        # Writes a report before sending, because the process may crash, and only the ledger then has the outcomes. The
        # user's entries in the last report become invalid for rows that are sent again, so this report omits those
        # entries.
        write_report(outputs.report, map(_mark_running, rows.results()), outputs.delimiter)
        import_run = ImportRun(client, rows, rows.count_sendable(), own_ledger, options)
        with suppress(KeyboardInterrupt):
            import_run.run(options)
    import_run.record_interrupted()
    # Writes the files before the output is printed, because printing fails if the reader of the output has closed the
    # pipe.
    file_error = None
    try:
        write_report(outputs.report, rows.results(), outputs.delimiter)
        options.result["files"]["report"] = str(outputs.report)
        _write_rejects(plan, outputs, options)
    except CommandError as error:
        file_error = error
    return print_summary(plan, import_run, own_ledger, outputs, file_error, options)


def _write_rejects(plan: ImportPlan, outputs: ImportOutputs, options: Namespace) -> None:
    """Writes the rows that have to be corrected, if there are any. If rows remain to be sent, the next run writes them."""
    if not options.dry_run and (plan.rows.count_unsent() or plan.rows.count_left()):
        return
    outcomes = {outcome for outcome, _ in plan.rows.count_outcomes()}
    if outcomes & {"invalid", "rejected"}:
        reasons = (
            (cells, f"row {number} of {plan.path.name}: {message}") for number, cells, message in plan.rows.rejects()
        )
        write_rejects(outputs.rejects, plan.source.header, reasons, outputs.delimiter, plan.source.sheet)
        options.result["files"]["rejects"] = str(outputs.rejects)


def _mark_running(row: RowResult) -> RowResult:
    """Marks a row as running, for the report that is written before the import starts, unless the row is not sent."""
    is_known = row.outcome != "not sent" or row.was_earlier
    return row if is_known else row._replace(outcome="running", message=_RUNNING_MESSAGE)


def _reject_unconfirmed_rows(questions: _Questions, rows: ImportRows, options: Namespace) -> None:
    """Raises CommandError with --yes if a person must confirm some of the rows."""
    if questions.missing_count or questions.other_ledgers:
        use = (
            f"use it: add {quote(['--ledger', escape_controls(str(questions.other_ledgers[0]))])}"
            if questions.other_ledgers
            else "put it back"
        )
        print_result(
            f"If the agents of that ledger were created at this service, perhaps under an old URL, {use}. If they were created at "
            "another service, such as a sandbox, these rows are new here."
        )
        if options.yes:
            raise CommandError(
                "Nothing was sent: --yes cannot confirm that these rows are new at this service. If you "
                "are sure that they are, run the command on a terminal, leave out --yes, and confirm them there"
            )
    if questions.rows_with_new_keys and options.yes:
        raise CommandError(
            "Nothing was sent: --yes cannot confirm that the rows with other keys are other agents. Give them "
            "their old keys. Or, if they are other agents, run the command on a terminal, leave out --yes, and confirm them there"
        )
    if options.yes and (damaged_rows := rows.damaged_row_numbers()):
        raise CommandError(
            "Nothing was sent: --yes cannot confirm that rows are to be sent with errors of a spreadsheet or lost "
            f"letters ({format_row_numbers(damaged_rows)}). Correct them. Or run the command on a terminal, leave out --yes, and "
            "confirm them there"
        )
