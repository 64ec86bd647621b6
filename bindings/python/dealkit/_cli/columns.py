"""Maps the columns of a table to the fields of an agent, and violations back to columns.

Options convert dates, phone numbers and words from the table's notation to values that the service accepts.
"""

from __future__ import annotations

import re
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from typing import Any, get_type_hints

from dealkit import AgentProfileParams, CreateAgentParams
from dealkit._cli.agent_fields import ALL_FIELDS as ALL_FIELDS
from dealkit._cli.agent_fields import FIELDS as FIELDS
from dealkit._cli.agent_fields import METADATA as METADATA
from dealkit._cli.agent_fields import PROFILE as _PROFILE
from dealkit._cli.csv_tables import (
    MAX_COLUMNS_SHOWN,
    display_column_names,
    join_names,
    list_column_names,
    normalize_column_name,
    normalize_spaces,
)
from dealkit._cli.exit_codes import CommandError
from dealkit._cli.terminal import escape_controls

_FIELDS_BY_NAME = {normalize_column_name(field): field for field in FIELDS}

_BOOLEAN_FIELDS = frozenset(
    f"profile.{name}" for name, kind in get_type_hints(AgentProfileParams).items() if kind is bool
)
_BOOLEANS = {"true": True, "false": False}
_SAMPLE_DATE = date(1987, 6, 5)


class ColumnMapping:
    """Maps the columns of a table to the fields that they hold. A column may hold no field."""

    def __init__(self, header: Sequence[str], options: Namespace) -> None:
        """Maps the header's columns by their names, and then by options such as `--map Mail=email`."""
        self.header = header
        self._cell_parser = _CellParser(options)
        self.fields = [_find_field(name) for name in header]
        """The field of each column, or None."""
        mapped_indexes: set[int] = set()
        for mapping in options.map:
            # The name of a column may contain an equals sign; the name of a field does not.
            name, equals_sign, field = (part.strip() for part in mapping.rpartition("="))
            if not equals_sign:
                raise CommandError("--map takes a column and a field, as in --map Mail=email")
            index = self._find_column(name, "--map")
            if index in mapped_indexes:
                raise CommandError(
                    f"--map names the column {escape_controls(name)} twice, but its cells can go to one field only"
                )
            mapped_indexes.add(index)
            self.fields[index] = _parse_field(field, "--map")
        self._index_by_field = {field: index for index, field in enumerate(self.fields) if field is not None}
        field_counts = Counter(self.fields)
        if duplicate_field := next((field for field in self._index_by_field if field_counts[field] > 1), None):
            names = [name for name, field in zip(header, self.fields, strict=True) if field == duplicate_field]
            duplicates = display_column_names(names)
            advice = (
                "Rename all but one of them in the table" if len({*duplicates}) < len(duplicates) else "Only one may"
            )
            raise CommandError(f"{len(names):,} columns go to {duplicate_field}: {join_names(duplicates)}. {advice}")
        self._field_by_pointer = {
            normalize_column_name(field): field for field in (*reversed(FIELDS), *reversed(self._index_by_field))
        }
        if missing_fields := CreateAgentParams.__required_keys__ - {
            "profile",
            *self.fields,
            *self._cell_parser.constants,
        }:
            raise CommandError(
                f"no column holds {' or '.join(sorted(missing_fields))}, which every agent needs. Name the column, as in --map "
                f'"COLUMN={min(missing_fields)}". The columns are {list_column_names(header)}'
            )

    def _find_column(self, name: str, option: str) -> int:
        """Returns the index of the column that an option names."""
        indexes = [
            index for index, column in enumerate(self.header) if normalize_spaces(column) == normalize_spaces(name)
        ]
        if not indexes:
            raise CommandError(
                f"{option}: there is no column {escape_controls(name)}; the columns are {list_column_names(self.header)}"
            )
        if len(indexes) > 1:
            raise CommandError(
                f"{option}: {len(indexes)} columns are named {escape_controls(name)}; rename all but one of them in the table"
            )
        return indexes[0]

    def key_name(self, index: int) -> str:
        """Returns the name that a ledger records for the idempotency keys in a column. It is the name of the column's
        field, because each table may name its columns differently.
        """
        return self.fields[index] or self.header[index]

    def key_index(self, key: str | None) -> int:
        """Returns the index of the column that identifies rows: the column named by `--key`, or else the column with
        the external id or the e-mail address.
        """
        usual_keys = (field for field in ("profile.external_id", "email") if field in self.fields)
        key_field = key if key is not None else next(usual_keys, None)
        if key_field is None:
            raise CommandError(
                "no column holds email or profile.external_id, so --key must name one that tells the rows apart"
            )
        return self.fields.index(key_field) if key_field in self.fields else self._find_column(key_field, "--key")

    def describe(self) -> list[dict[str, str]]:
        """Lists each column and its field for the screen. If many columns go to metadata, or are not sent, lists only
        the first of them.
        """
        rows: list[dict[str, str]] = []
        counts: Counter[str] = Counter()
        for name, field in zip(display_column_names(self.header), self.fields, strict=True):
            kind = "not sent" if field is None else f"{METADATA}…" if field.startswith(METADATA) else field
            counts[kind] += 1
            if counts[kind] <= MAX_COLUMNS_SHOWN:
                rows.append({"Column": name, "goes to": field or kind})
        for kind, number in counts.items():
            if number > MAX_COLUMNS_SHOWN:
                rows.append({"Column": f"… and {number - MAX_COLUMNS_SHOWN:,} more", "goes to": kind})
        return rows

    def read_values(self, cells: list[str]) -> dict[str, Any]:
        """Parses the cells of a row. Returns the values by field, without empty cells."""
        texts = dict(self._cell_parser.constants)
        for cell, field in zip(cells, self.fields, strict=False):
            if cell and field is not None:
                texts[field] = cell
        values = {field: self._cell_parser.parse(field, text) for field, text in texts.items()}
        return {field: value for field, value in values.items() if value != ""}

    def agent_arguments(self, cells: list[str]) -> dict[str, Any]:
        """Returns the arguments with which a row's agent is created."""
        return nest_agent_fields(self.read_values(cells))

    def display_name(self, index: int) -> str:
        """Returns the name of a column for messages."""
        return escape_controls(normalize_spaces(self.header[index]))

    def column_for_pointer(self, pointer: str) -> str:
        """Returns the column that a violation concerns, or the field if no column holds it."""
        # The pointer contains the service's names, such as clientMetadata for client_metadata.
        field = self._field_by_pointer.get(normalize_column_name(pointer.replace("~1", "/")), "")
        return self.column_for_field(field)

    def column_for_field(self, field: str) -> str:
        """Returns the column that holds a field, or the field's name if no column holds it."""
        return self.display_name(self._index_by_field[field]) if field in self._index_by_field else field


def nest_agent_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """Converts values by field to the nested arguments of `create`."""
    arguments: dict[str, Any] = {"profile": {}}
    for field, value in values.items():
        if field.startswith(METADATA):
            arguments["profile"].setdefault("client_metadata", {})[field.removeprefix(METADATA)] = value
        elif field.startswith(_PROFILE):
            arguments["profile"][field.removeprefix(_PROFILE)] = value
        else:
            arguments[field] = value
    return arguments


def _parse_field(name: str, option: str) -> str:
    """Returns the field that an option names."""
    if (field := _find_field(name)) is None:
        raise CommandError(
            f"{option}: {escape_controls(name)} is not a field of an agent, which are: {', '.join(ALL_FIELDS)}"
        )
    return field


def _find_field(name: str) -> str | None:
    """Returns the field with the name of a column, or None. Ignores letter case, spaces and punctuation."""
    if name.lower().startswith(METADATA) and len(name) > len(METADATA):
        return METADATA + name[len(METADATA) :]
    return _FIELDS_BY_NAME.get(normalize_column_name(name))


class _CellParser:
    """Parses cells according to the options `--date-format`, `--phone-country` and `--map-value`."""

    def __init__(self, options: Namespace) -> None:
        self._date_formats: list[str] = options.date_format
        for date_format in self._date_formats:
            # A format without a day, a month or a year does not reproduce the sample date.
            if _parse_date(_SAMPLE_DATE.strftime(date_format), date_format) != _SAMPLE_DATE:
                raise CommandError("--date-format must have a day, a month and a year, such as %d.%m.%Y")
        self._parse_phone = _make_phone_parser(options.phone_country) if options.phone_country else None
        self._mapped_cells: dict[tuple[str, str], str] = {}
        for mapping in options.map_value:
            field, _, rest = mapping.partition(":")
            mapped_cell, equals_sign, value = rest.rpartition("=")
            if not equals_sign:
                raise CommandError(
                    '--map-value takes a field, what the table has, and the value, as in --map-value "role:Makler=AGENT"'
                )
            self._mapped_cells[_parse_field(field, "--map-value"), mapped_cell.strip()] = value.strip()
        self.constants = {field: value for (field, mapped_cell), value in self._mapped_cells.items() if not mapped_cell}
        """The values for empty or missing cells, by field, as in `--map-value role:=AGENT`."""

    def parse(self, field: str, cell: str) -> Any:
        """Returns the value in a cell. If no option can parse the cell, returns it unchanged. Validation then reports
        the cell.
        """
        text = self._mapped_cells.get((field, cell), cell)
        if field in _BOOLEAN_FIELDS:
            return _BOOLEANS.get(text.lower(), text)
        if field == "date_of_birth":
            dates = {day for date_format in self._date_formats if (day := _parse_date(text, date_format))}
            # If two formats give different dates, the date is ambiguous, and the cell stays unchanged.
            return dates.pop().isoformat() if len(dates) == 1 else text
        return self._parse_phone(text) if field == "phone" and self._parse_phone is not None else text


def _parse_date(text: str, date_format: str) -> date | None:
    try:
        moment = datetime.strptime(text, date_format)
    except ValueError:
        return None
    # strptime also accepts dates without separators, such as 199021. Such a date differs from the date formatted again.
    if re.sub(r"\b0+(?=\d)", "", moment.strftime(date_format)).casefold() != re.sub(r"\b0+(?=\d)", "", text).casefold():
        return None
    day = moment.date()
    # A date of birth with a two-digit year cannot be in the future.
    return day.replace(year=day.year - 100) if "%y" in date_format and day > date.today() else day


# Long numbers in the notation of spreadsheets, such as 4915100000012.0 or 4.9151E+12.
_SPREADSHEET_NUMBER = re.compile(r"\d+\.0*|[\d.,]+[eE][+-]?\d+")


def _make_phone_parser(country: str) -> Callable[[str], str]:
    """Returns a function that formats the phone numbers of a country as +, country code and digits. If the function
    cannot parse a number, it returns the number unchanged, and validation reports the number.
    """
    try:
        import phonenumbers
    except ImportError:
        raise CommandError(
            "--phone-country needs phonenumbers, which is not installed here: pip install 'dealkit[phone]'"
        ) from None
    if country.upper() not in phonenumbers.SUPPORTED_REGIONS:
        raise CommandError("--phone-country must be a country's code of two letters, such as DE")
    code = str(phonenumbers.country_code_for_region(country.upper()))

    def parse(text: str) -> str:
        if _SPREADSHEET_NUMBER.fullmatch(text):
            return text
        number = format_number(text)
        # The number may already start with the country code and lack only the plus sign, as in 4915100000012.
        international = format_number(f"+{text}") if text.startswith(code) else None
        return text if number is None or international not in (None, number) else number

    def format_number(text: str) -> str | None:
        try:
            number = phonenumbers.parse(text, country.upper())
        except phonenumbers.NumberParseException:
            return None
        # The E.164 format would drop the extension.
        if not phonenumbers.is_valid_number(number) or number.extension:
            return None
        return str(phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164))

    return parse
