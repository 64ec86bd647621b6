"""The report of an import, with the outcome of each row, and the file with the rows to be corrected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, count
from pathlib import Path
from typing import NamedTuple

from dealkit._cli.csv_tables import (
    REASON_COLUMN,
    Table,
    escape_formula,
    escape_key,
    list_column_names,
    normalize_column_name,
    read_table,
    unescape_key,
    write_table,
)
from dealkit._cli.excel_files import is_workbook_name
from dealkit._cli.excel_tables import is_workbook, read_sheet, write_workbook
from dealkit._cli.exit_codes import UNWRITABLE, CommandError
from dealkit._cli.files import explain_os_error, file_display_name, is_utf8, open_replacement, output_file_exists
from dealkit._cli.import_rows import ImportRows, RowResult
from dealkit._cli.terminal import escape_controls

_HEADER = ["row", "key", "outcome", "agent_id", "status", "message", "earlier_run"]
# The entry in agent_id of a person who has found out that there is no agent.
NO_AGENT_ENTRY = "none"
# The likelihood that the agent of a row exists, by outcome: 2 certain, 1 possible, 0 for other outcomes.
_EXISTENCE_BY_OUTCOME = {"created": 2, "unknown": 1}


class ReportRow(NamedTuple):
    """A row of a report. The user may have filled in the agent_id."""

    row: int
    """The row number in the report, as in a spreadsheet."""
    key: str
    agent_id: str
    outcome: str = ""
    """The outcome in the report; empty if the table is not a complete report."""

    def has_no_agent_entry(self) -> bool:
        """Returns whether the user has entered that there is no agent."""
        return self.agent_id.strip().lower() == NO_AGENT_ENTRY

    def existence(self) -> int:
        """Returns the likelihood that the agent exists: 2 certain, 1 possible, 0 for other rows."""
        return 0 if self.has_no_agent_entry() else _EXISTENCE_BY_OUTCOME.get(self.outcome, 0)


def read_report(path: Path, encoding: str | None = None) -> Table:
    """Reads a report. Excel may have saved a CSV file in a Windows code page instead of UTF-8."""
    if is_workbook(path):
        rows = read_sheet(path, None).rows
        header = next(rows, None)
        return Table(header.cells if header else [], rows, None)
    return read_table(path, encoding or (None if is_utf8(path) else "cp1252"))


def parse_report_rows(path: Path, report_table: Table) -> Iterator[ReportRow]:
    """Parses the rows of a report, or of another table with the columns `key` and `agent_id`."""
    position_by_name = {normalize_column_name(name): position for position, name in enumerate(report_table.header)}
    for name in ("key", "agentid"):
        if sum(normalize_column_name(column) == name for column in report_table.header) > 1:
            column = report_table.header[position_by_name[name]]
            raise CommandError(
                f"{file_display_name(path)} has several columns {escape_controls(column)}; rename or remove all but one of them"
            )
    if not {"key", "agentid"} <= {*position_by_name}:
        raise CommandError(
            f"{file_display_name(path)} must have the columns key and agent_id, like the report of an import; it has "
            f"{list_column_names(report_table.header)}"
        )
    is_complete_report = report_table.header == _HEADER
    positions = [
        position_by_name["key"],
        position_by_name["agentid"],
        *([position_by_name["outcome"]] if is_complete_report else []),
    ]
    # A CSV file with the report's column names is a report, perhaps with some columns removed, so its keys are escaped. A
    # table from elsewhere, such as one with a column "Agent ID", has no escaped keys.
    is_escaped = report_table.delimiter is not None and {"key", "agent_id"} <= {*report_table.header}
    unescape = unescape_key if is_escaped else str
    for number, cells in report_table.rows:
        yield ReportRow(number, *(unescape(cells[position]) if position < len(cells) else "" for position in positions))


def load_last_report(path: Path, rows: ImportRows) -> None:
    """Loads the report of the last run into the rows. Raises CommandError if the file is not a report."""
    if not output_file_exists(path) or not path.stat().st_size:
        return
    report_table = read_report(path)
    if report_table.header != _HEADER:
        raise CommandError(
            f"{file_display_name(path)} exists and is not a report of an import, so the report of this one cannot replace it. Name another "
            "file with --report"
        )
    rows.load_last_report((row.key, row.existence(), row.agent_id) for row in parse_report_rows(path, report_table))


def write_report(path: Path, results: Iterable[RowResult], delimiter: str) -> None:
    """Writes a report, and replaces an existing file in one step. `delimiter` is the delimiter of a CSV file."""
    is_csv = not is_workbook_name(path)
    _write_file(path, chain([_HEADER], (_format_row(row, is_csv) for row in results)), delimiter)


def write_rejects(
    path: Path, header: Sequence[str], rows: Iterable[tuple[list[str], str]], delimiter: str, sheet: str | None
) -> None:
    """Writes the rows to be corrected, with the columns of the table and the reasons."""
    columns = [index for index, name in enumerate(header) if name != REASON_COLUMN]
    escape = str if is_workbook_name(path) else escape_key
    lines = (
        [*(escape(cells[index]) if index < len(cells) else "" for index in columns), reason] for cells, reason in rows
    )
    _write_file(path, chain([[*(header[index] for index in columns), REASON_COLUMN]], lines), delimiter, sheet)


def _write_file(path: Path, rows: Iterable[Iterable[object]], delimiter: str, sheet: str | None = None) -> None:
    try:
        # Only the owner may read the file, because the keys and the cells may be personal data.
        with open_replacement(path, 0o600) as file:
            if is_workbook_name(path):
                write_workbook(file, rows, sheet)
            else:
                write_table(file, rows, delimiter)
    except OSError as error:
        raise CommandError(
            f"{file_display_name(path)} cannot be written: {explain_os_error(error)}", UNWRITABLE
        ) from error


def unused_path(path: Path) -> Path:
    """Returns the path, or the path with a number if a file exists there, which a person may be correcting."""
    candidates = (path.with_name(f"{path.stem}-{number}{path.suffix}") for number in count(2))
    return (
        path if not output_file_exists(path) else next(other for other in candidates if not output_file_exists(other))
    )


def _format_row(row: RowResult, is_csv: bool) -> list[object]:
    escape_identifier, escape_text = (escape_key, escape_formula) if is_csv else (str, str)
    identifiers = escape_identifier(row.key), escape_identifier(row.agent_id)
    texts = map(escape_text, (row.status, row.message))
    return [row.number, identifiers[0], row.outcome, identifiers[1], *texts, "yes" if row.was_earlier else ""]
