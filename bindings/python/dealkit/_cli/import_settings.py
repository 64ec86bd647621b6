"""The settings with which an import reads its table: from the command line, from a mapping file, and from the table.

The command line takes precedence over the mapping file, and the mapping file over settings that the dry run finds in the
table.
"""

from __future__ import annotations

import json
import tomllib
from argparse import Namespace
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from dealkit import Role
from dealkit._cli.agent_fields import ALL_FIELDS, FIELDS, FULL_NAME, FULL_NAMES, METADATA
from dealkit._cli.csv_tables import normalize_column_name
from dealkit._cli.date_formats import display_format, to_strptime
from dealkit._cli.exit_codes import UNWRITABLE, CommandError
from dealkit._cli.files import explain_os_error, file_display_name, open_replacement, output_file_exists
from dealkit._cli.role_words import match_role, normalize_word
from dealkit._cli.terminal import escape_controls

IGNORED = "ignore"
"""In a mapping file, the field of a column that is deliberately not sent."""

UNDECIDED = "?"
"""In a mapping file, the value of a word whose meaning only the user knows."""

_FILE_COMMENT = """\
# The settings with which dealkit imports this table. `dealkit agents import … --mapping` reads and rewrites this file.
"""

_MAX_FILE_BYTES = 1 << 20


@dataclass
class ImportSettings:
    """The settings of an import."""

    sheet: str | None = None
    header_rows: tuple[int, int] | None = None
    """The first and the last row of the column names; None if they are detected."""
    encoding: str | None = None
    columns: dict[str, str] = field(default_factory=dict)
    """The field of each column, `FULL_NAME` or `IGNORED`, by the column's name or letter."""
    words: dict[str, dict[str, str]] = field(default_factory=dict)
    """The values of words, by field and word. An empty value means that nothing is sent."""
    constants: dict[str, str] = field(default_factory=dict)
    """The values for empty or missing cells, by field."""
    date_formats: list[str] = field(default_factory=list)
    """The formats of dates, as for `datetime.strptime`."""
    phone_country: str | None = None
    key: list[str] = field(default_factory=list)
    """The columns or fields that together identify a row."""

    def find_word(self, field: str, cell: str) -> str | None:
        """Returns the value of a cell that is a known word. Ignores letter case, blanks and punctuation."""
        words = self.words.get(field)
        if not words:
            return None
        if (value := words.get(cell)) is None:
            normalized_cell = normalize_word(cell)
            value = next((value for word, value in words.items() if normalize_word(word) == normalized_cell), None)
        return None if value == UNDECIDED else value

    def merged_with(self, other: ImportSettings) -> ImportSettings:
        """Returns these settings, completed by the settings in `other`."""
        # A column that the user names for a field replaces the column of the mapping file. A format replaces all formats
        # of the file, because two formats are ambiguous.
        own_fields = {name for target in self.columns.values() for name in target.split("+")}
        other_columns = {
            column: target for column, target in other.columns.items() if own_fields.isdisjoint(target.split("+"))
        }
        return ImportSettings(
            self.sheet or other.sheet,
            self.header_rows or other.header_rows,
            self.encoding or other.encoding,
            other_columns | self.columns,
            {name: other.words.get(name, {}) | self.words.get(name, {}) for name in {**other.words, **self.words}},
            other.constants | self.constants,
            self.date_formats or other.date_formats,
            self.phone_country or other.phone_country,
            self.key or other.key,
        )

    def options(self) -> Iterator[str]:
        """Yields the options that have the same effect on the command line."""
        if self.sheet:
            yield from ("--sheet", self.sheet)
        if self.header_rows:
            first, last = self.header_rows
            yield from ("--header-row", str(first) if first == last else f"{first}-{last}")
        if self.encoding:
            yield from ("--encoding", self.encoding)
        for column, target in self.columns.items():
            yield from ("--ignore", column) if target == IGNORED else ("--map", f"{column}={target}")
        for date_format in self.date_formats:
            yield from ("--date-format", display_format(date_format))
        if self.phone_country:
            yield from ("--phone-country", self.phone_country)
        for name, words in self.words.items():
            for word, value in words.items():
                if value == UNDECIDED:
                    continue
                yield from ("--map-value", f"{name}:{word}={value}")
        for name, value in self.constants.items():
            yield from ("--map-value", f"{name}:={value}")
        for column in self.key:
            yield from ("--key", column)


_FIELDS_BY_NAME = {normalize_column_name(field): field for field in FIELDS}


def _parse_field(name: str, option: str) -> str:
    """Returns the field that an option names."""
    name = name.strip()
    if name.lower().startswith(METADATA) and len(name) > len(METADATA):
        return METADATA + name[len(METADATA) :]
    if (field := _FIELDS_BY_NAME.get(normalize_column_name(name))) is None:
        similar = get_close_matches(name, FIELDS, 1)
        hint = f" Did you mean {similar[0]}?" if similar else ""
        raise CommandError(
            f"{option}: {escape_controls(name)} is not a field of an agent.{hint} The fields are: {', '.join(ALL_FIELDS)}"
        )
    return field


def _parse_target(text: str, option: str) -> str:
    """Returns the field, or the two fields, that an option names for a column."""
    names = [_parse_field(name, option) for name in text.split("+")]
    target = "+".join(names)
    if len(names) > 1 and target not in FULL_NAMES:
        raise CommandError(
            f'{option}: only a column with names can go to two fields, as in --map "Agent Name={FULL_NAME}"'
        )
    return target


def settings_from_options(options: Namespace) -> ImportSettings:
    """Reads the settings on the command line."""
    settings = ImportSettings(
        sheet=options.sheet,
        header_rows=_parse_header_rows(options.header_row) if options.header_row else None,
        encoding=options.encoding,
        date_formats=[_parse_date_format(text, "--date-format") for text in options.date_format],
        phone_country=options.phone_country,
        key=list(options.key),
    )
    for mapping in options.map:
        # The name of a column may contain an equals sign; the name of a field does not.
        name, equals_sign, target = (part.strip() for part in mapping.rpartition("="))
        if not equals_sign:
            raise CommandError('--map takes a column and a field, as in --map "Mail=email"')
        if name in settings.columns:
            raise CommandError(
                f"--map names the column {escape_controls(name)} twice, but its cells can go to one field only"
            )
        settings.columns[name] = _parse_target(target, "--map")
    for name in options.ignore:
        if settings.columns.setdefault(name.strip(), IGNORED) != IGNORED:
            raise CommandError(f"--map and --ignore both name the column {escape_controls(name)}: keep one of them")
    for mapping in options.map_value:
        name, _, rest = mapping.partition(":")
        word, equals_sign, value = (part.strip() for part in rest.rpartition("="))
        if not equals_sign:
            raise CommandError(
                '--map-value takes a field, what the table has, and the value, as in --map-value "role:Makler=AGENT"'
            )
        name = _parse_field(name, "--map-value")
        _check_role(name, value, "--map-value")
        if word:
            settings.words.setdefault(name, {})[word] = value
        else:
            settings.constants[name] = value
    return settings


def _check_role(field: str, value: str, option: str) -> None:
    """Raises CommandError for a role that does not exist."""
    if field == "role" and value not in ("", UNDECIDED) and match_role(value) is None:
        raise CommandError(f"{option}: {escape_controls(value)} is no role. The roles are {', '.join(Role)}")


def _parse_header_rows(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    try:
        rows = int(first), int(last or first)
    except ValueError:
        rows = 0, 0
    if not 0 < rows[0] <= rows[1] <= rows[0] + 1:
        raise CommandError(
            "--header-row takes the number of the row with the column names, such as 4, or two rows, such as 4-5"
        )
    return rows


def _parse_date_format(text: str, option: str) -> str:
    try:
        return to_strptime(text)
    except ValueError:
        raise CommandError(f"{option} must have a day, a month and a year, such as DD.MM.YYYY or MM/DD/YYYY") from None


def read_mapping(path: Path) -> ImportSettings:
    """Reads the settings in a mapping file. Without the file, returns empty settings."""
    if not output_file_exists(path):
        return ImportSettings()
    name = file_display_name(path)
    try:
        with open(path, "rb") as file:
            content = file.read(_MAX_FILE_BYTES + 1)
        if len(content) > _MAX_FILE_BYTES:
            raise CommandError(f"{name} is too large for a mapping file: was it written by dealkit?")
        # Notepad may add a byte-order mark.
        document = tomllib.loads(content.decode("utf-8-sig"))
    except OSError as error:
        raise CommandError(f"{name} cannot be read: {explain_os_error(error)}") from None
    except UnicodeDecodeError:
        raise CommandError(f"{name} is not UTF-8: save it with this encoding") from None
    except tomllib.TOMLDecodeError as error:
        raise CommandError(
            f'{name} cannot be read: {error}. Correct this line, so that it looks like "Broker" = "BROKER_ADMIN", or delete the '
            "file, so that a dry run writes it again"
        ) from None
    try:
        settings = _settings_from_document(document, name)
    except (TypeError, AttributeError):
        raise CommandError(
            f"{name} is not a mapping file: each setting must have the form in which dealkit writes it. Correct it, or delete "
            "it, so that a dry run writes it again"
        ) from None
    for value in settings.words.get("role", {}).values():
        _check_role("role", value, name)
    return settings


def _settings_from_document(document: dict[str, Any], name: str) -> ImportSettings:
    known_names = {
        "sheet",
        "header_row",
        "encoding",
        "date_formats",
        "phone_country",
        "key",
        "columns",
        "words",
        "constants",
    }
    if unknown := next((key for key in document if key not in known_names), None):
        raise CommandError(
            f"{name}: there is no setting {escape_controls(unknown)}; the settings are {', '.join(sorted(known_names))}"
        )

    def strings(values: Any) -> dict[str, str]:
        return {_text(key): _text(value) for key, value in values.items()}

    header_row = document.get("header_row")
    return ImportSettings(
        sheet=_optional_text(document.get("sheet")),
        header_rows=_parse_header_rows(str(header_row)) if header_row else None,
        encoding=_optional_text(document.get("encoding")),
        columns={
            column: target if target == IGNORED else _parse_target(target, name)
            for column, target in strings(document.get("columns", {})).items()
        },
        words={_parse_field(key, name): strings(words) for key, words in document.get("words", {}).items()},
        constants={_parse_field(key, name): value for key, value in strings(document.get("constants", {})).items()},
        date_formats=[
            _parse_date_format(_text(text), f"{name}: date_formats") for text in document.get("date_formats", [])
        ],
        phone_country=_optional_text(document.get("phone_country")),
        key=[_text(column) for column in document.get("key", [])],
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _optional_text(value: object) -> str | None:
    return None if value is None else _text(value)


def write_mapping(path: Path, settings: ImportSettings, comments: Mapping[tuple[str, str], str]) -> None:
    """Writes a mapping file. `comments` has a comment for each undecided word, by field and word."""
    lines = [_FILE_COMMENT]
    first, last = settings.header_rows or (0, 0)
    values: dict[str, object] = {
        "sheet": settings.sheet,
        "header_row": f"{first}-{last}" if first != last else first or None,
        "encoding": settings.encoding,
        "date_formats": [display_format(text) for text in settings.date_formats],
        "phone_country": settings.phone_country,
        "key": settings.key,
    }
    lines += [f"{name} = {_to_toml(value)}\n" for name, value in values.items() if value]
    lines += _format_table("columns", settings.columns, {})
    for name, words in settings.words.items():
        texts = {word: text for (field_name, word), text in comments.items() if field_name == name}
        lines += _format_table(f"words.{_to_toml(name)}", words, texts)
    lines += _format_table("constants", settings.constants, {})
    try:
        with open_replacement(path) as file:
            file.write("".join(lines).encode())
    except OSError as error:
        raise CommandError(
            f"{file_display_name(path)} cannot be written: {explain_os_error(error)}", UNWRITABLE
        ) from error


def _format_table(name: str, values: Mapping[str, str], comments: Mapping[str, str]) -> list[str]:
    if not values:
        return []
    lines = [f"{_to_toml(key)} = {_to_toml(value)}{comments.get(key, '')}\n" for key, value in values.items()]
    return [f"\n[{name}]\n", *lines]


def _to_toml(value: object) -> str:
    # A JSON string is a TOML string, except that TOML does not allow DEL.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
