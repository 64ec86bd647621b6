"""`dealkit ledger`: shows an import's ledger, and records the outcomes of rows that a person has looked up."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from dealkit import LedgerError, ledger
from dealkit._cli.error_messages import exit_code_for, format_error
from dealkit._cli.exit_codes import DONE, CommandError
from dealkit._cli.files import file_display_name
from dealkit._cli.import_report import ReportRow, parse_report_rows, read_report
from dealkit._cli.terminal import (
    confirm,
    escape_controls,
    format_count,
    format_pairs,
    format_table,
    ledger_display_name,
    print_result,
)

_NO_AGENT_ENTRY = "none"
# The maximum number of unresolved rows, or of suspicious entries, that are printed.
_MAX_UNRESOLVED_SHOWN = 20
# Words, such as `pending` or `To do`. Few services have identifiers that consist of words.
_WORDS = re.compile(r"[^\W\d_]{1,20}( [^\W\d_]{1,20})*")


def _get_existing_ledger(options: Namespace) -> str:
    """Returns the ledger in the command line. Raises CommandError if its file does not exist."""
    path: str = options.ledger
    if options.run != "ledger_commands.init" and (file := ledger.path(path)) and not file.exists():
        raise CommandError(
            f"there is no ledger {escape_controls(path)}: an import prints the name of its ledger when it ends; its --ledger option "
            "sets another"
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
        }
        for row in summary.unresolved
    ]
    options.result.update(service=summary.service, key=summary.key_name, counts=counts, unresolved=unresolved)
    print_result(
        f"{ledger_display_name(options.ledger)}: the ledger of {escape_controls(summary.service)}, by {escape_controls(summary.key_name or 'keys without a name')}\n"
    )
    print_result(format_pairs({name.replace("_", " "): f"{number:,}" for name, number in counts.items()}, indent="  "))
    if unresolved:
        print_result(
            "\nNobody knows whether these rows have an agent. Whoever runs the service can look for the requests:"
        )
        print_result(format_table(unresolved[:_MAX_UNRESOLVED_SHOWN]))
        if len(unresolved) > _MAX_UNRESOLVED_SHOWN:
            print_result(f"  … and {len(unresolved) - _MAX_UNRESOLVED_SHOWN:,} more; --json has all of them")
    return DONE


def resolve(options: Namespace) -> int:
    """Records the outcomes that the user has entered in the import's report."""
    ledger_path = _get_existing_ledger(options)
    path = Path(options.file)
    report_rows = [*parse_report_rows(path, read_report(path, options.encoding))]
    filled_rows = [row for row in report_rows if row.agent_id.strip()]
    if not filled_rows:
        raise CommandError(
            f"no row of {file_display_name(path)} has anything in agent_id. Fill in what you have found: the agent's id, or {_NO_AGENT_ENTRY} if "
            "there is no agent"
        )
    resolutions = {
        row.key: None if row.agent_id.strip().lower() == _NO_AGENT_ENTRY else row.agent_id for row in filled_rows
    }
    if len(resolutions) < len(filled_rows):
        # Two rows with one key may have contradicting entries.
        raise CommandError(
            f"{file_display_name(path)} has rows with the same key; fill in agent_id in only one of them, or correct the "
            "keys if a spreadsheet has changed them"
        )
    with _name_rows_in_errors(path, filled_rows):
        # The report also has the agents of created rows, which the ledger already knows. The dry run counts only the
        # entries that are new.
        changed_count = ledger.resolve(ledger_path, resolutions, dry_run=True)
        if changed_count:
            _confirm_entries(options, ledger_path, filled_rows, changed_count)
            ledger.resolve(ledger_path, resolutions)
    options.result["counts"] = {"resolved": changed_count, "unchanged": len(report_rows) - changed_count}
    print_result(f"{format_count(changed_count, 'row')} resolved. The next import sends those without an agent.")
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
        if options.yes:
            raise CommandError(
                f"these entries in agent_id do not look like identifiers: {shown_entries}{more_text}. If there is no agent, write "
                f"{_NO_AGENT_ENTRY}. If they are identifiers, run the command without --yes, and confirm them"
            )
        confirm(
            f"These entries in agent_id do not look like identifiers: {shown_entries}{more_text}. Are they the identifiers of agents?"
        )
    if not options.yes:
        confirm(f"Record what became of {format_count(changed_count, 'row')} in {ledger_display_name(options.ledger)}?")


def _looks_like_words(identifier: str) -> bool:
    """Returns true for an identifier that looks like words, such as `pending`, and not like random letters, such as
    `aBcXyZ`."""
    has_usual_case = identifier.islower() or identifier.isupper() or identifier.capitalize() == identifier
    return identifier.lower() != _NO_AGENT_ENTRY and has_usual_case and _WORDS.fullmatch(identifier) is not None


def set_base_url(options: Namespace) -> int:
    """Records the service's new base URL."""
    ledger.set_base_url(_get_existing_ledger(options), options.url)
    print_result(f"{ledger_display_name(options.ledger)} is the ledger of {escape_controls(options.url)} from now on.")
    return DONE


def backup(options: Namespace) -> int:
    """Copies a ledger to a new file."""
    ledger.backup(_get_existing_ledger(options), options.file)
    print_result(
        f"{escape_controls(options.file)} is a copy of {ledger_display_name(options.ledger)}. Keep it as a backup only: it does not know rows that are sent later."
    )
    return DONE


def init(options: Namespace) -> int:
    """Creates the tables in a database."""
    ledger.init(_get_existing_ledger(options))
    print_result(f"{ledger_display_name(options.ledger)} is ready.")
    return DONE


@contextmanager
def _name_rows_in_errors(path: Path, report_rows: Sequence[ReportRow]) -> Iterator[None]:
    """Replaces the index of an entry in errors of the ledger with the number of the report's row."""
    try:
        yield
    except LedgerError as error:
        message = format_error(error)
        if error.index is not None:
            row = f"row {report_rows[error.index].row} of {file_display_name(path)}"
            message = message.replace(f"the entry at index {error.index}", row)
        raise CommandError(message, exit_code_for(error)) from None
