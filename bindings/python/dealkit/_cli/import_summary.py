"""The end of an import's output: the outcomes of the rows, and the next steps."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any, NamedTuple

from dealkit import LedgerError
from dealkit._cli.error_messages import exit_code_for, format_error_with_advice, to_command_error
from dealkit._cli.excel_files import is_workbook_name
from dealkit._cli.exit_codes import DONE, INCOMPLETE, INTERRUPTED, UNWRITABLE, CommandError
from dealkit._cli.files import file_display_name
from dealkit._cli.import_plan import ImportPlan
from dealkit._cli.import_preview import corrected_rows_command, rest_command
from dealkit._cli.import_rows import IN_PROGRESS, OUTCOMES, SKIPPED, ImportRows
from dealkit._cli.import_run import ImportRun
from dealkit._cli.row_problems import ProblemGroups
from dealkit._cli.terminal import colorize, format_command, format_pairs, ledger_display_name, print_result

# Reasons of a LedgerError that mean that the ledger no longer knows the rows that were sent.
_LEDGER_LOST = ("broken", "moved", "not_a_ledger")

_UNKNOWN_ADVICE = (
    "The agents of unknown rows may exist. Look for them at the service, or ask its operator, and enter what you find in the "
    "report's column agent_id: the agent's id, or none if the operator confirms, an hour after the import, that there is no agent "
    "(a request that was held up may still arrive). Then record your entries, and send the rows without an agent:"
)
_REJECTED_ADVICE = (
    "The service did not accept the rejected rows. Correct them: a row whose data differ is sent again. To send a row again "
    "unchanged, enter none in the report's column agent_id, and record it with dealkit ledger resolve."
)


class ImportOutputs(NamedTuple):
    """The files that an import writes."""

    report: Path
    rejects: Path
    delimiter: str
    """The delimiter of CSV files: by default the delimiter of the table, which the user's spreadsheet program can read."""


def print_summary(
    plan: ImportPlan,
    import_run: ImportRun,
    own_ledger: str | Path,
    outputs: ImportOutputs,
    file_error: CommandError | None,
    options: Namespace,
) -> int:
    """Prints the outcomes and the next steps, and returns the exit code. `file_error` is the error of writing the
    report, if any.
    """
    stopped_by = import_run.stopped_by
    # If the ledger is lost, running the command again would create every agent twice.
    can_resume = not (isinstance(stopped_by, LedgerError) and stopped_by.reason in _LEDGER_LOST)
    print_result()
    _print_outcomes(plan.rows, options.result, can_resume=can_resume)
    print_result()
    if file_error is None:
        print_result(f"{file_display_name(outputs.report)}, the report, has the outcome of each row.")
    repeat_command = f"  {format_command(options.arguments)}"
    outcomes = {outcome for outcome, _ in plan.rows.count_outcomes()} - {SKIPPED}
    if can_resume:
        options.result["files"]["ledger"] = ledger_display_name(own_ledger)
        print_result(
            f"{ledger_display_name(own_ledger)}, the list of rows already sent (ledger), has them too: repeating the command creates no agent twice."
        )
        _print_advice(plan, outcomes, own_ledger, outputs, options)
    resume_text = f"To continue, run the same command again:\n{repeat_command}"
    if stopped_by is not None and not can_resume:
        reason = to_command_error(stopped_by)
        # The exit code WRONG_USAGE would mean that nothing was sent.
        code = UNWRITABLE if outcomes & {"created", "unknown", "rejected"} else reason.code
        raise CommandError(f"{file_error or ''}\n{reason}".lstrip(), code)
    if file_error is not None:
        raise CommandError(f"{file_error}\n{resume_text}", file_error.code)
    if options.signals.is_stopping:
        raise CommandError(f"stopped. {resume_text}", INTERRUPTED)
    if stopped_by is not None:
        raise CommandError(f"{format_error_with_advice(stopped_by)}\n{resume_text}", exit_code_for(stopped_by))
    if plan.rows.count_left():
        if outcomes <= {"created", "not sent"}:
            outcomes.discard("not sent")
        print_result(f"\nCheck the new agents at the service. Then send the other rows:\n  {rest_command(options)}")
    return DONE if outcomes <= {"created"} else INCOMPLETE


def _print_advice(
    plan: ImportPlan, outcomes: set[str], own_ledger: str | Path, outputs: ImportOutputs, options: Namespace
) -> None:
    """Prints what to do about rows that were not created."""
    advise_on_rejects(plan, outputs, options)
    if "rejected" in outcomes:
        print_result(f"\n{_REJECTED_ADVICE}")
    if "unknown" in outcomes:
        resolve = format_command(["ledger", "resolve", str(own_ledger), str(outputs.report)])
        print_result(f"\n{_UNKNOWN_ADVICE}\n  {resolve}\n  {format_command(options.arguments)}")


def advise_on_rejects(plan: ImportPlan, outputs: ImportOutputs, options: Namespace) -> None:
    """Prints what to do with the rows that have to be corrected, if they were written."""
    if "rejects" in options.result["files"]:
        command = corrected_rows_command(plan, options, str(outputs.rejects))
        apostrophes = (
            ""
            if is_workbook_name(outputs.rejects)
            else " An apostrophe at the beginning of a cell keeps a spreadsheet from changing it: leave it there."
        )
        print_result(
            f"\n{file_display_name(outputs.rejects)} has the rows that have to be corrected, with the reasons.{apostrophes} Correct the rows there, save the "
            f"file, and import it:\n  {command}"
        )


def _print_outcomes(rows: ImportRows, result: dict[str, Any], *, can_resume: bool) -> None:
    """Prints the number of rows by outcome, and lists the rejected and unknown rows."""
    groups = {"rejected": ProblemGroups(), "unknown": ProblemGroups()}
    for row in rows.results():
        if row.outcome in groups:
            groups[row.outcome].add("", row.status, row.number, row.message)
    for outcome, group in groups.items():
        result["errors"] += group.print_table(outcome.capitalize(), outcome)
    count_outcomes, count_texts = rows.count_outcomes(), {}
    for outcome, (colour, outcome_explanation) in OUTCOMES.items():
        earlier_count = count_outcomes[outcome, True]
        total_count = earlier_count + count_outcomes[outcome, False]
        result["counts"][outcome.replace(" ", "_")] = total_count
        earlier_note = ""
        if earlier_count and outcome != IN_PROGRESS:
            earlier_note = f" ({total_count - earlier_count:,} now, {earlier_count:,} in an earlier run)"
        explanation = outcome_explanation if total_count and (can_resume or outcome != "not sent") else ""
        if outcome == "not sent" and rows.count_left():
            explanation = "left for a later run, because of --limit"
        if total_count or outcome in ("created", "rejected", "unknown"):
            count = colorize(f"{total_count:,}", colour) if total_count else "0"
            label = "Cannot be sent" if outcome == "invalid" else outcome.capitalize()
            count_texts[label] = f"{count}{earlier_note}  {explanation}".rstrip()
    print_result(format_pairs(count_texts))
