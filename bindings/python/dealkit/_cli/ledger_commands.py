"""`dealkit ledger`: shows an import's ledger, and records the outcomes of rows that a person has looked up."""

from __future__ import annotations

import re
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC
from pathlib import Path

from dealkit import LedgerError, ledger
from dealkit._cli.error_messages import exit_code_for
from dealkit._cli.exit_codes import DONE, CommandError
from dealkit._cli.files import file_display_name
from dealkit._cli.import_report import NO_AGENT_ENTRY, ReportRow, parse_report_rows, read_report
from dealkit._cli.terminal import (
    confirm,
    escape_controls,
    format_command,
    format_count,
    format_pairs,
    format_table,
    is_terminal,
    ledger_display_name,
    print_result,
)

# The maximum number of unresolved rows, or of suspicious entries, that are printed.
_MAX_UNRESOLVED_SHOWN = 20
_NO_AGENT_CONDITION = (
    "if the service's operator has confirmed, an hour or more after the import, that there is no agent"
)
"""The condition under which a row can be sent again. A delayed request may still create the agent for a while."""
_COUNT_LABELS = {
    "resolved_with_agent": "found by you",
    "resolved_without_agent": "without an agent",
    "in_flight": "being sent now",
}
# Words, such as `pending` or `To do`. Few services have identifiers that consist of words.
_WORDS = re.compile(r"[^\W\d_]{1,20}( [^\W\d_]{1,20})*")


def _get_existing_ledger(options: Namespace) -> str:
    """Returns the ledger in the command line. Raises CommandError if its file does not exist."""
    path: str = options.ledger
    if options.run != "ledger_commands.init" and (file := ledger.path(path)) and not file.exists():
        raise CommandError(
            f"There is no ledger {escape_controls(path)}. An import prints the name of its ledger (the list of rows already sent) when "
            "it ends. Check the name and the folder."
        )
    options.result["files"] = {"ledger": ledger_display_name(path)}
    return path


def show(options: Namespace) -> int:
    """Prints the number of rows by outcome, and lists the unresolved rows."""
    summary = ledger.summary(_get_existing_ledger(options))
    counts = {
        "created": summary.succeeded,
        "resolved_with_agent": summary.resolved_with_agent,
        "resolved_without_agent": summary.resolved_without_agent,
        "rejected": summary.rejected,
        "in_flight": summary.in_flight,
        "unknown": len(summary.unresolved),
    }
    unresolved = [
        {
            "sent_at": row.sent_at.isoformat(timespec="milliseconds") if row.sent_at else "",
            "status": str(row.status_code or ""),
            "request_id": escape_controls(row.request_id or ""),
            "label": escape_controls(row.label or ""),
        }
        for row in summary.unresolved
    ]
    options.result.update(service=summary.service, key=summary.key_name, counts=counts, unresolved=unresolved)
    print_result(
        f"{ledger_display_name(options.ledger)} is the ledger (the list of rows already sent) for {escape_controls(summary.service)}.\n"
        f"Key (identifies a row): {escape_controls(summary.key_name or 'without a name')}\n"
    )
    print_result(
        format_pairs({_COUNT_LABELS.get(name, name): f"{number:,}" for name, number in counts.items()}, indent="  ")
    )
    if unresolved:
        print_result("\nThese agents may exist. Ask the service's operator to look for them. Their requests:")
        shown_rows = summary.unresolved[:_MAX_UNRESOLVED_SHOWN]
        print_result(format_table([_describe_request(row) for row in shown_rows]))
        if len(unresolved) > _MAX_UNRESOLVED_SHOWN:
            print_result(f"  … and {len(unresolved) - _MAX_UNRESOLVED_SHOWN:,} more. Use --json to list all of them.")
        print_result(
            "Enter the results in the report of the import or, for a program, in a CSV file with the columns key and agent_id. Then record them with "
            "dealkit ledger resolve."
        )
    return DONE


def _describe_request(row: ledger.LedgerRow) -> dict[str, str]:
    """Returns the columns of a table of requests."""
    sent_at = f"{row.sent_at.astimezone(UTC):%Y-%m-%d %H:%M:%S}" if row.sent_at else ""
    return {
        "sent at (UTC)": sent_at,
        "status": str(row.status_code or ""),
        "request id": escape_controls(row.request_id or ""),
        "label": escape_controls(row.label or ""),
    }


def resolve(options: Namespace) -> int:
    """Records the outcomes that the user has entered in the import's report."""
    ledger_path = _get_existing_ledger(options)
    path = Path(options.file)
    report_rows = [*parse_report_rows(path, read_report(path, options.encoding))]
    filled_rows = [row for row in report_rows if row.agent_id.strip()]
    if not filled_rows:
        raise CommandError(
            f"Nothing was recorded: no row of {file_display_name(path)} has an entry in agent_id. For each unknown row (its agent may exist), "
            f"enter the agent's id, or {NO_AGENT_ENTRY} {_NO_AGENT_CONDITION}."
        )
    resolutions = {row.key: None if row.has_no_agent_entry() else row.agent_id for row in filled_rows}
    if len(resolutions) < len(filled_rows):
        # Two rows with one key may have contradicting entries.
        raise CommandError(
            f"Nothing was recorded: {file_display_name(path)} has several rows with the same key (the value that identifies a row). Fill in "
            "agent_id in only one of them. If a spreadsheet has changed the keys, correct them first."
        )
    with _name_rows_in_errors(ledger_path, path, filled_rows, resolutions):
        # The report also has the agents of created rows, which the ledger already knows. The dry run counts only the
        # entries that are new.
        changed_count = ledger.resolve(ledger_path, resolutions, dry_run=True)
        if changed_count:
            _confirm_entries(options, ledger_path, filled_rows, changed_count)
            ledger.resolve(ledger_path, resolutions)
    options.result["counts"] = {"resolved": changed_count, "unchanged": len(report_rows) - changed_count}
    has_rows_to_send = None in resolutions.values()
    next_import = f" The next import sends the rows with the entry {NO_AGENT_ENTRY}." if has_rows_to_send else ""
    print_result(f"{format_count(changed_count, 'row')} recorded.{next_import}")
    return DONE


def mark_unknown(options: Namespace) -> int:
    """Marks the rows of a report as unknown that were sent without the ledger's knowledge."""
    ledger_path = _get_existing_ledger(options)
    path = Path(options.file)
    report_rows = parse_report_rows(path, read_report(path, options.encoding))
    # A table that is not a complete report has no outcomes: its rows are the ones to be marked.
    keys = [row.key for row in report_rows if not row.outcome or row.existence()]
    if not options.yes:
        confirm(
            f"Mark {format_count(len(keys), 'row')} of {file_display_name(path)} as sent in {ledger_display_name(ledger_path)}, unless it has "
            "them already?"
        )
    changed_count = ledger.mark_unknown(ledger_path, keys)
    options.result["counts"] = {"marked": changed_count, "unchanged": len(keys) - changed_count}
    print_result(
        f"{format_count(changed_count, 'row')} marked as unknown. The next import does not send them. To record the agents in the report:\n"
        f"  {format_command(['ledger', 'resolve', options.ledger, options.file])}"
    )
    return DONE


def _confirm_entries(options: Namespace, ledger_path: str, rows: Sequence[ReportRow], changed_count: int) -> None:
    """Asks the user to confirm entries before they are recorded. Asks separately about identifiers that look like
    words. With ``--yes``, raises CommandError for such identifiers.
    """
    suspicious_rows = [
        row
        for row in rows
        if _looks_like_words(row.agent_id.strip())
        # An identifier that the ledger already has comes from the service, so it is not suspicious.
        and ledger.resolve(ledger_path, {row.key: row.agent_id}, dry_run=True)
    ]
    if suspicious_rows:
        shown_entries = ", ".join(
            f"{escape_controls(row.agent_id.strip())!r} in row {row.row}"
            for row in suspicious_rows[:_MAX_UNRESOLVED_SHOWN]
        )
        hidden_count = len(suspicious_rows) - _MAX_UNRESOLVED_SHOWN
        more_text = f" and {hidden_count:,} more" if hidden_count > 0 else ""
        # Without a terminal, the advice to use --yes would lead here again.
        if options.yes or not is_terminal(sys.stdin):
            raise CommandError(
                f"Nothing was recorded: these entries in agent_id do not look like ids of agents: {shown_entries}{more_text}. If you do not "
                f"know yet whether there is an agent, leave agent_id empty. Enter {NO_AGENT_ENTRY} {_NO_AGENT_CONDITION}. If the entries are "
                "ids, repeat the command in a terminal, without --yes, and confirm them."
            )
        confirm(
            f"These entries in agent_id do not look like ids of agents: {shown_entries}{more_text}. Are they ids of agents?"
        )
    if not options.yes:
        confirm(
            f"Record the entries for {format_count(changed_count, 'row')} in {ledger_display_name(options.ledger)}?"
        )


def _looks_like_words(identifier: str) -> bool:
    """Returns true for an identifier that looks like words, such as `pending`, and not like random letters, such as
    `aBcXyZ`."""
    has_usual_case = identifier.islower() or identifier.isupper() or identifier.capitalize() == identifier
    return identifier.lower() != NO_AGENT_ENTRY and has_usual_case and _WORDS.fullmatch(identifier) is not None


def set_base_url(options: Namespace) -> int:
    """Records the service's new base URL."""
    ledger.set_base_url(_get_existing_ledger(options), options.url)
    print_result(f"{ledger_display_name(options.ledger)} is now the ledger for {escape_controls(options.url)}.")
    return DONE


def backup(options: Namespace) -> int:
    """Copies a ledger to a new file."""
    ledger.backup(_get_existing_ledger(options), options.file)
    print_result(
        f"{escape_controls(options.file)} is a copy of {ledger_display_name(options.ledger)}. Keep it only as a backup: an import with the copy would send rows again that are sent after this moment."
    )
    return DONE


def init(options: Namespace) -> int:
    """Creates the tables in a database."""
    if ledger.path(options.ledger):
        print_result(f"{ledger_display_name(options.ledger)} is a file: the first import creates it. Nothing was done.")
        return DONE
    ledger.init(_get_existing_ledger(options))
    print_result(f"{ledger_display_name(options.ledger)} is ready for imports.")
    return DONE


@contextmanager
def _name_rows_in_errors(
    ledger_path: str, path: Path, rows: Sequence[ReportRow], resolutions: Mapping[str, str | None]
) -> Iterator[None]:
    """Converts errors of the ledger that concern an entry to messages about the report's row."""
    try:
        yield
    except LedgerError as error:
        if error.index is None:
            raise
        row = rows[error.index]
        reason = _explain_rejection(ledger_path, row.key, resolutions[row.key])
        message = f"Nothing was recorded. Row {row.row} of {file_display_name(path)}: {reason}"
        raise CommandError(message, exit_code_for(error)) from None


def _explain_rejection(ledger_path: str, key: str, agent_id: str | None) -> str:
    """Explains why the ledger rejects an entry, by checking the entry without the others, then without its agent."""
    if _is_accepted(ledger_path, key, agent_id):
        return "another row of the file has the same key or the same agent. Remove the entry of one of them."
    if _is_accepted(ledger_path, key, None):
        return (
            "agent_id is not the id of an agent, or the ledger has this agent for another row. Enter the id that the service "
            f"uses, or {NO_AGENT_ENTRY} {_NO_AGENT_CONDITION}."
        )
    (ledger_row,) = ledger.look_up(ledger_path, [key])
    if ledger_row is None:
        return (
            "the ledger (the list of rows already sent) does not have its key (the value that identifies the row). Enter the key "
            "exactly as in the report of the import. A spreadsheet may have changed it, as in 123 for 00123."
        )
    if ledger_row.in_flight:
        return "an import is sending this row now. Wait until that import has ended, then look at its report."
    return "the service has confirmed that it created this agent. Remove the entry, or enter the agent's id as in the report."


def _is_accepted(ledger_path: str, key: str, agent_id: str | None) -> bool:
    try:
        ledger.resolve(ledger_path, {key: agent_id}, dry_run=True)
    except LedgerError:
        return False
    return True
