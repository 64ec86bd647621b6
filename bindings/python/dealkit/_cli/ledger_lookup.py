"""Looks up the rows of an import in ledgers, before anything is sent."""

from __future__ import annotations

import re
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from dealkit import LedgerError, ledger
from dealkit._cli.error_messages import exit_code_for, format_error
from dealkit._cli.exit_codes import CommandError
from dealkit._cli.files import file_display_name
from dealkit._cli.import_rows import BATCH_SIZE, ImportRows, RowResult, import_outcome
from dealkit._cli.service import service_url
from dealkit._cli.terminal import escape_controls, format_command, ledger_display_name, print_result


def choose_ledger(options: Namespace) -> str | Path | None:
    """Returns the ledger of the import: a file, or the URL of a database. By default, each service has one ledger file
    per folder, for all tables. Returns None if neither a ledger nor a base URL is given.
    """
    if options.ledger is not None:
        if not options.ledger:
            raise CommandError("--ledger is empty. Give it the name of a file, or the URL of a database.")
        return ledger.path(options.ledger) or options.ledger
    service_name = re.sub(r"[^a-z0-9.]+", "-", service_url(options).lower().partition("://")[2])[:100].strip("-.")
    return Path(options.file).parent / f"agents-{service_name}.ledger" if service_name else None


def record_earlier_outcomes(
    path: str | Path | None, rows: ImportRows, options: Namespace
) -> tuple[Counter[str], list[int]]:
    """Records the outcomes that the ledger has from earlier runs. Returns two values: for each outcome, how many valid
    rows have it and are not sent again; and the numbers of the rows whose content has changed since they were sent.
    """
    known_counts: Counter[str] = Counter()
    changed_numbers: list[int] = []
    if path is None:
        return known_counts, changed_numbers
    if isinstance(path, Path) and not path.exists():
        ledger.look_up(path, [])  # raises an error if the ledger was lost
        return known_counts, changed_numbers
    if isinstance(path, Path):
        # Reads the whole ledger, so that a damaged one raises an error before any result is shown or written.
        ledger.summary(path)
    base_url = service_url(options) or None
    _reject_unsuitable_ledger(path, rows.key_name, base_url)
    for batch in _batches(rows):
        keys = [row.key for row, _ in batch]
        ledger_rows = ledger.look_up(
            path, keys, key_name=rows.key_name, service=base_url, requests=[agent for _, agent in batch]
        )
        for (row, _), ledger_row in zip(batch, ledger_rows, strict=True):
            if ledger_row is None or (options.resend_unknown and ledger_row.outcome == "unknown"):
                continue
            if ledger_row.outcome == "rejected" and ledger_row.request_differs:
                continue  # the row was corrected, and is sent again
            result = _result_from_ledger(row, ledger_row, ROW_CHANGED if ledger_row.request_differs else "")
            rows.record_result(result)
            known_counts[result.outcome] += 1
            if ledger_row.request_differs:
                changed_numbers.append(row.number)
    # Also looks up invalid rows: an earlier run may have created the agent of a row that has become invalid since.
    invalid_rows = rows.invalid()
    while invalid_batch := [*islice(invalid_rows, BATCH_SIZE)]:
        ledger_rows = ledger.look_up(path, [row.key for row in invalid_batch], key_name=rows.key_name, service=base_url)
        for row, ledger_row in zip(invalid_batch, ledger_rows, strict=True):
            if ledger_row is not None:
                rows.record_result(
                    _result_from_ledger(
                        row,
                        ledger_row,
                        f"The row was sent earlier, but is no longer valid. Nothing was sent: {row.message}",
                    )
                )
    return known_counts, changed_numbers


def _reject_unsuitable_ledger(path: str | Path, key_name: str, base_url: str | None) -> None:
    """Raises CommandError if the ledger identifies rows by another column, or is for another service."""
    try:
        ledger.look_up(path, [], key_name=key_name, service=base_url)
    except LedgerError as error:
        if error.reason not in ("other_keys", "other_service"):
            raise
        summary, name = ledger.summary(path), ledger_display_name(path)
        message = f"Nothing was sent: {name}, the ledger (the list of rows already sent), "
        if error.reason == "other_keys":
            message += (
                f"identifies rows by the column {escape_controls(summary.key_name or '')}, but this import by {escape_controls(key_name)}. "
                "By another column, it would find none of its rows, and every agent would be created again. Choose the earlier "
                "column with --key. If that column has been renamed, give it its old name again."
            )
        else:
            message += (
                f"is for the service {escape_controls(summary.service)}, but this import is for {escape_controls(base_url or '')}. If the "
                "service only has a new address, and still has the same agents, record the new address, then repeat the import:\n"
                f"  {format_command(['ledger', 'set-base-url', str(path), base_url or ''])}\n"
                "If it is a different service, with other agents, leave out --ledger, and the variable DEALKIT_LEDGER: each service "
                "has its own ledger. If you are not sure, ask the service's operator first."
            )
        raise CommandError(message, exit_code_for(error)) from None


CHANGE_NOT_SENT = "not sent: this interface cannot change an agent"
ROW_CHANGED = f"Changed since the last import; {CHANGE_NOT_SENT}"
"""The message for a row that has changed since it was sent."""


def _result_from_ledger(row: RowResult, ledger_row: ledger.LedgerRow, change: str) -> RowResult:
    """Converts a ledger's row to the result of a table's row. `change` is the message about a change of the row, or
    empty."""
    reason = ": ".join(part for part in (ledger_row.title, ledger_row.code) if part)
    parts = [f"the service rejected it: {escape_controls(reason)}"] if reason else []
    message = "; ".join([*parts, *([change] if change else [])])
    outcome = import_outcome(ledger_row.outcome, in_flight=ledger_row.in_flight)
    return RowResult(
        row.number,
        row.key,
        outcome,
        ledger_row.agent_id or "",
        str(ledger_row.status_code or ""),
        message,
        was_earlier=True,
    )


def find_changed_keys(own_ledger: str | Path, rows: ImportRows) -> list[int]:
    """Returns the numbers of sendable rows whose key is not in the ledger, although their e-mail address is. A
    spreadsheet may have changed their keys.
    """
    if isinstance(own_ledger, Path) and not own_ledger.exists():
        return []
    emails_by_row: dict[int, str] = {}
    known_emails: set[str] = set()
    for batch in _batches(rows):
        # `record_earlier_outcomes` has already looked up all rows by their keys.
        known_emails |= {str(agent["email"]).casefold() for row, agent in batch if row.was_earlier}
        new_rows = [(row, str(agent["email"])) for row, agent in batch if not row.was_earlier]
        rows_by_email = ledger.look_up_emails(own_ledger, [email for _, email in new_rows])
        sent_rows = [
            row_and_email
            for row_and_email, ledger_row in zip(new_rows, rows_by_email, strict=True)
            if ledger_row is not None
        ]
        # Looks up the keys of these rows again, after the addresses: another import may have sent a row in the
        # meantime, and the ledger then has its key.
        rows_by_key = ledger.look_up(own_ledger, [row.key for row, _ in sent_rows], key_name=rows.key_name)
        for (row, email), ledger_row in zip(sent_rows, rows_by_key, strict=True):
            if ledger_row is None:
                emails_by_row[row.number] = email.casefold()
            else:
                known_emails.add(email.casefold())
    # Two rows may have the same address. If the ledger knows one of them by its key, the address belongs to that row.
    return [number for number, email in emails_by_row.items() if email not in known_emails]


def find_other_ledgers(own_ledger: str | Path, rows: ImportRows, options: Namespace) -> list[Path]:
    """Searches the folders of the table and of the import's ledger for other ledgers. Returns the ledgers that have
    some of the sendable rows, or that cannot be read. Prints the number of rows that each ledger has.
    """
    folders = {Path(options.file).parent, *([own_ledger.parent] if isinstance(own_ledger, Path) else [])}
    other_ledgers = []
    for path in (path for folder in sorted(folders) for path in ledger.in_folder(folder)):
        if isinstance(own_ledger, Path) and own_ledger.exists() and own_ledger.samefile(path):
            continue
        try:
            number = sum(_count_known(path, batch) for batch in _batches(rows))
        except LedgerError as error:
            other_ledgers.append(path)
            print_result(
                f"{file_display_name(path)}, another ledger (list of rows already sent), cannot be read. It may have some of these rows. Reason: {format_error(error)}."
            )
            continue
        if number:
            other_ledgers.append(path)
            print_result(
                f"{file_display_name(path)}, another ledger (list of rows already sent), has {number:,} of these rows. This import does not use "
                "that ledger, so it would send these rows again."
            )
    return other_ledgers


def _count_known(path: Path, batch: list[tuple[RowResult, dict[str, Any]]]) -> int:
    """Counts the rows whose key, e-mail address or external id a ledger has."""
    new_rows = [(row.key, agent) for row, agent in batch if not row.was_earlier]
    emails = [str(agent["email"]) for _, agent in new_rows]
    columns = (
        [key for key, _ in new_rows],
        emails,
        [str(agent["profile"].get("external_id", "")) for _, agent in new_rows],
    )
    rows_by_key = [ledger.look_up(path, column, wait=False) for column in columns]
    return sum(map(any, zip(*rows_by_key, ledger.look_up_emails(path, emails, wait=False), strict=True)))


def _batches(rows: ImportRows) -> Iterator[list[tuple[RowResult, dict[str, Any]]]]:
    """Yields the sendable rows in batches."""
    sendable = rows.sendable()
    return iter(lambda: [*islice(sendable, BATCH_SIZE)], [])
