"""Reads the table of an import, and decides how each column and cell is read."""

from __future__ import annotations

import sys
from argparse import Namespace
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from dealkit._cli.cell_values import CellParser, ColumnEvidence
from dealkit._cli.columns import ColumnMapping, is_known_column
from dealkit._cli.csv_tables import normalize_column_name
from dealkit._cli.date_formats import display_format, is_order_certain
from dealkit._cli.excel_tables import is_workbook
from dealkit._cli.exit_codes import CommandError
from dealkit._cli.files import STANDARD_INPUT, file_display_name, is_utf8
from dealkit._cli.import_rows import ImportRows
from dealkit._cli.import_settings import UNDECIDED, ImportSettings, read_mapping, settings_from_options, write_mapping
from dealkit._cli.shells import quote
from dealkit._cli.table_source import TableSource, open_table
from dealkit._cli.terminal import escape_controls, format_count, is_terminal

# The encoding of CSV files that Windows spreadsheets in western Europe and America write, if it is not UTF-8.
_WINDOWS_ENCODING = "cp1252"

# The share of rows with an external id of their own from which on the ids identify the rows.
_MIN_SHARE_OF_KEYS = 0.9

_EXTERNAL_ID = "profile.external_id"


class ImportPlan:
    """A table with its settings, columns and checked rows."""

    def __init__(self, options: Namespace) -> None:
        self.path = Path(options.file)
        self.mapping_path = Path(options.mapping) if options.mapping else None
        own_settings = settings_from_options(options)
        file_settings = read_mapping(self.mapping_path) if self.mapping_path else ImportSettings()
        self.settings = own_settings.merged_with(file_settings)
        """The settings of the import, including those that were found in the table."""
        if own_settings.sheet and not is_workbook(self.path):
            raise CommandError(
                f"--sheet is for Excel workbooks, and {file_display_name(self.path)} is none: leave it out"
            )
        self.confirmations: list[str] = []
        """Sentences about settings that a dry run has found and that the user must confirm by using its command."""
        is_dry_run = options.dry_run
        if self.settings.encoding is None and self._is_in_windows_encoding():
            self._suggest_encoding(is_dry_run)
        # A mapping file may have names that this table lacks in its header, and that identify the header nevertheless.
        names = {normalize_column_name(name) for name in self.settings.columns}
        may_suggest_sheet = is_dry_run and not is_terminal(sys.stdin)
        self.source: TableSource = open_table(
            self.path,
            self.settings,
            lambda name: normalize_column_name(name) in names or is_known_column(name),
            may_suggest_sheet=may_suggest_sheet,
        )
        if self.source.was_sheet_chosen:
            self.settings.sheet = self.source.sheet
            if may_suggest_sheet:
                self.confirmations.append(
                    f"Of several sheets, {escape_controls(self.source.sheet or '')} is read, because its column names fit best."
                )
        self.rows = ImportRows(self.source.rows, len(self.source.header))
        optional = file_settings.columns.keys() - own_settings.columns.keys()
        self.mapping = ColumnMapping(self.source.header, self.settings, self.rows.filled_counts, optional)
        self._confirm_columns(is_dry_run)
        self._leave_out_repeated_ids()
        if is_dry_run:
            self._confirm_alternatives()
        self.evidence: ColumnEvidence = self.rows.collect_evidence(self.mapping, self.settings)
        self._add_found_settings(is_dry_run)
        self.parser = CellParser(self.settings, self.evidence, is_order_known=self.source.has_reasons)
        if is_dry_run:
            self._confirm_dates()
        if not self.settings.date_formats:
            self.settings.date_formats = self.parser.date_formats
        self.key = self.settings.key or self._choose_key()
        """The columns or fields that together identify a row."""
        self.rows.check(self.mapping, self.parser, self.key, allows_shared_email=options.allow_shared_email)

    def _suggest_encoding(self, is_dry_run: bool) -> None:
        """Reads the table in the usual encoding of Windows in a dry run, and otherwise raises CommandError."""
        if not is_dry_run:
            raise CommandError(
                f"Nothing was sent: {file_display_name(self.path)} is not in the encoding UTF-8. Run the command with --dry-run to see the "
                f"table in {_WINDOWS_ENCODING}, the usual encoding of Windows, or confirm it: add --encoding {_WINDOWS_ENCODING}"
            )
        self.settings.encoding = _WINDOWS_ENCODING
        self.confirmations.append(
            f"The table is not in UTF-8, and is read as {_WINDOWS_ENCODING}, the usual encoding of Windows: check the accents."
        )

    def _is_in_windows_encoding(self) -> bool:
        if str(self.path) == STANDARD_INPUT or is_workbook(self.path) or is_utf8(self.path):
            return False
        with open(self.path, "rb") as file:
            # A byte-order mark takes precedence.
            return not file.read(2).startswith((b"\xff\xfe", b"\xfe\xff"))

    def _confirm_columns(self, is_dry_run: bool) -> None:
        """Applies the suggested columns in a dry run, and otherwise raises CommandError if there are any."""
        suggestions = self.mapping.suggestions
        if not suggestions:
            return
        texts = [
            f"the column {name} has first and last names, which are split"
            if "+" in target
            else f"of the columns that fit, {name} is used for {target}"
            for name, target in suggestions.items()
        ]
        if not is_dry_run:
            raise CommandError(
                f"Nothing was sent, because these settings need your confirmation: {'; '.join(texts)}. Run the command "
                f"with --dry-run to see the result, or confirm them: add\n  {self.mapping.unconfirmed()}"
            )
        self.confirmations += [f"{text[0].upper()}{text[1:]}." for text in texts]
        self.settings.columns |= suggestions

    @cached_property
    def _external_id_counts(self) -> tuple[int, int, int]:
        """The number of rows, and of filled and different cells in the column of external ids."""
        return self.rows.count_cells(self.mapping.fields.index(_EXTERNAL_ID))

    def _leave_out_repeated_ids(self) -> None:
        """Leaves out a column of external ids that was found by its name, but has the same values in many rows."""
        if _EXTERNAL_ID not in self.mapping.fields or _EXTERNAL_ID in self.settings.columns.values():
            return
        _, filled_count, distinct_count = self._external_id_counts
        if filled_count > 2 * distinct_count:
            self.mapping.leave_out(_EXTERNAL_ID, "has the same value in many rows")

    def _confirm_alternatives(self) -> None:
        """Reports which of several columns is used for a field, with the options for the others."""
        for field, names in self.mapping.alternatives.items():
            options = "".join(f"\n  {quote(['--map', f'{name}={field}'])}" for name in names)
            self.confirmations.append(
                f"{self.mapping.column_for_field(field)} is used for {field}. If another column is right, add its option:{options}"
            )

    def _confirm_dates(self) -> None:
        """Reports the order of day and month that the dates show."""
        found = [text for text in self.parser.date_formats if not is_order_certain(text)]
        if found and not self.settings.date_formats:
            shown = " and ".join(map(display_format, found))
            self.confirmations.append(
                f"The dates in {self.mapping.column_for_field('date_of_birth')} are read as {shown}, because some days are above 12."
            )

    def _choose_key(self) -> list[str]:
        """Returns the field that identifies rows: the external id, if nearly all rows have one of their own, or else the
        e-mail address.
        """
        if _EXTERNAL_ID in self.mapping.fields:
            row_count, filled_count, distinct_count = self._external_id_counts
            if min(filled_count, distinct_count) >= _MIN_SHARE_OF_KEYS * row_count:
                return [_EXTERNAL_ID]
            if "email" in self.mapping.fields:
                self.source.notes.append(
                    f"Rows are identified by {self.mapping.column_for_field('email')}, because {self.mapping.column_for_field(_EXTERNAL_ID)} "
                    "is empty or repeated in many rows."
                )
        return ["email"] if "email" in self.mapping.fields else []

    def _add_found_settings(self, is_dry_run: bool) -> None:
        """Adds the settings that the cells show."""
        words = {name: dict(values) for name, values in self.settings.words.items()}
        for name, text in self.evidence.placeholders:
            words.setdefault(name, {})[text] = ""
        self.settings = replace(self.settings, words=words)
        if is_dry_run and self.settings.phone_country is None and (found := self.evidence.phones.suggest_country()):
            country, valid_count, count = found
            self.settings.phone_country = country
            self.confirmations.append(
                f"Phone numbers without a country code are read as numbers of the country {country}: {valid_count:,} of {count:,} numbers that were "
                "checked are valid there."
            )

    def undecided_words(self, field: str) -> dict[str, int]:
        """Returns the words of a column whose meaning only the user knows, with the number of their rows, most frequent
        first.
        """
        return dict(sorted(self.evidence.undecided_words(field), key=lambda item: -item[1]))

    def write_mapping(self) -> None:
        """Writes the mapping file, if there is one, with all settings."""
        if self.mapping_path is None:
            return
        words = {
            name: {word: value for word, value in values.items() if value != UNDECIDED}
            for name, values in self.settings.words.items()
        }
        comments = {}
        for field in ("role", "phone", "date_of_birth"):
            for word, count in self.undecided_words(field).items():
                words.setdefault(field, {})[word] = UNDECIDED
                comments[field, word] = f"  # {format_count(count, 'row')}"
        # Columns that this table does not have may be in the next one.
        missing = {name: target for name, target in self.settings.columns.items() if name in self.mapping.missing}
        columns = missing | self.mapping.column_settings()
        write_mapping(self.mapping_path, replace(self.settings, columns=columns, words=words, key=self.key), comments)
