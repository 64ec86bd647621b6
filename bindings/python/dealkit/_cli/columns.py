"""Maps the columns of a table to the fields of an agent, and violations back to columns; and reads dates, phone numbers and words in
other forms than the service takes, as the options say."""

from __future__ import annotations

import re
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from typing import Any, get_type_hints

from dealkit import AgentProfileParams, CreateAgentParams
from dealkit._cli.exits import Failed
from dealkit._cli.screen import safe
from dealkit._cli.tables import MOST_COLUMNS_SHOWN, in_one_line, joined, listed, plain, shown_names

_PROFILE = "profile."
METADATA = "profile.client_metadata."

FIELDS = (
    *(name for name in CreateAgentParams.__annotations__ if name not in ("profile", "extra")),
    *(f"{_PROFILE}{name}" for name in AgentProfileParams.__annotations__ if name not in ("client_metadata", "extra")),
)
"""The fields that a column can hold, besides `profile.client_metadata.` followed by any name."""

ALL_FIELDS = (*FIELDS, f"{METADATA}NAME")

_BY_NAME = {plain(field): field for field in FIELDS}

_BOOLEAN = frozenset(f"profile.{name}" for name, kind in get_type_hints(AgentProfileParams).items() if kind is bool)
_BOOLEANS = {"true": True, "false": False}
_SOME_DAY = date(1987, 6, 5)


class Columns:
    """The columns of a table, each with its field, if it has one."""

    def __init__(self, header: Sequence[str], options: Namespace) -> None:
        """Takes the header, and what the user says about it, as in `--map Mail=email`."""
        self.header = header
        self._values = _Values(options)
        self.fields = [_field_named(name) for name in header]
        """The field of each column, or None."""
        mapped: set[int] = set()
        for one in options.map:
            # The name of a column may contain a =; that of a field does not.
            name, sign, field = (part.strip() for part in one.rpartition("="))
            if not sign:
                raise Failed("--map takes a column and a field, as in --map Mail=email")
            index = self._index(name, "--map")
            if index in mapped:
                raise Failed(f"--map names the column {safe(name)} twice, but its cells can go to one field only")
            mapped.add(index)
            self.fields[index] = _field_said(field, "--map")
        self._index_of = {field: at for at, field in enumerate(self.fields) if field is not None}
        numbers = Counter(self.fields)
        if double := next((field for field in self._index_of if numbers[field] > 1), None):
            names = [name for name, of in zip(header, self.fields, strict=True) if of == double]
            shown = shown_names(names)
            advice = "Rename all but one of them in the table" if len({*shown}) < len(shown) else "Only one may"
            raise Failed(f"{len(names):,} columns go to {double}: {joined(shown)}. {advice}")
        self._by_pointer = {plain(field): field for field in (*reversed(FIELDS), *reversed(self._index_of))}
        if missing := CreateAgentParams.__required_keys__ - {"profile", *self.fields, *self._values.constants}:
            raise Failed(
                f"no column holds {' or '.join(sorted(missing))}, which every agent needs. Name the column, as in --map "
                f'"COLUMN={min(missing)}". The columns are {listed(header)}'
            )

    def _index(self, name: str, option: str) -> int:
        """The index of a column that an option names."""
        found = [at for at, column in enumerate(self.header) if in_one_line(column) == in_one_line(name)]
        if not found:
            raise Failed(f"{option}: there is no column {safe(name)}; the columns are {listed(self.header)}")
        if len(found) > 1:
            raise Failed(
                f"{option}: {len(found)} columns are named {safe(name)}; rename all but one of them in the table"
            )
        return found[0]

    def key_name(self, index: int) -> str:
        """The name of a column's keys in a ledger: that of the field, since tables name their columns as they like."""
        return self.fields[index] or self.header[index]

    def key_index(self, key: str | None) -> int:
        """The index of the column that identifies rows: the one that is named, or one that usually does."""
        usual = (field for field in ("profile.external_id", "email") if field in self.fields)
        key_field = key if key is not None else next(usual, None)
        if key_field is None:
            raise Failed(
                "no column holds email or profile.external_id, so --key must name one that tells the rows apart"
            )
        return self.fields.index(key_field) if key_field in self.fields else self._index(key_field, "--key")

    def shown(self) -> list[dict[str, str]]:
        """Each column and where it goes, for people, without most of many columns that go to metadata or are not sent."""
        shown: list[dict[str, str]] = []
        numbers: Counter[str] = Counter()
        for name, field in zip(shown_names(self.header), self.fields, strict=True):
            kind = "not sent" if field is None else f"{METADATA}…" if field.startswith(METADATA) else field
            numbers[kind] += 1
            if numbers[kind] <= MOST_COLUMNS_SHOWN:
                shown.append({"Column": name, "goes to": field or kind})
        for kind, number in numbers.items():
            if number > MOST_COLUMNS_SHOWN:
                shown.append({"Column": f"… and {number - MOST_COLUMNS_SHOWN:,} more", "goes to": kind})
        return shown

    def values(self, cells: list[str]) -> dict[str, Any]:
        """The values of fields in a row. An empty cell is left out."""
        texts = dict(self._values.constants)
        for cell, field in zip(cells, self.fields, strict=False):
            if cell and field is not None:
                texts[field] = cell
        values = {field: self._values.read(field, text) for field, text in texts.items()}
        return {field: value for field, value in values.items() if value != ""}

    def agent(self, cells: list[str]) -> dict[str, Any]:
        """The arguments of the create for a row."""
        return agent_from(self.values(cells))

    def name(self, index: int) -> str:
        """The name of a column in messages."""
        return safe(in_one_line(self.header[index]))

    def at(self, pointer: str) -> str:
        """The column that a violation is about, or the field if no column holds it."""
        # A pointer has the names that are sent: clientMetadata is client_metadata.
        field = self._by_pointer.get(plain(pointer.replace("~1", "/")), "")
        return self.of_field(field)

    def of_field(self, field: str) -> str:
        """The column with a field, or the field if no column holds it."""
        return self.name(self._index_of[field]) if field in self._index_of else field


def agent_from(values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a create with these values of fields."""
    agent: dict[str, Any] = {"profile": {}}
    for field, value in values.items():
        if field.startswith(METADATA):
            agent["profile"].setdefault("client_metadata", {})[field.removeprefix(METADATA)] = value
        elif field.startswith(_PROFILE):
            agent["profile"][field.removeprefix(_PROFILE)] = value
        else:
            agent[field] = value
    return agent


def _field_said(name: str, option: str) -> str:
    """The field that an option names."""
    if (known := _field_named(name)) is None:
        raise Failed(f"{option}: {safe(name)} is not a field of an agent, which are: {', '.join(ALL_FIELDS)}")
    return known


def _field_named(name: str) -> str | None:
    """The field with the name of a column, in any letter case and with spaces or hyphens for underscores."""
    if name.lower().startswith(METADATA) and len(name) > len(METADATA):
        return METADATA + name[len(METADATA) :]
    return _BY_NAME.get(plain(name))


class _Values:
    """How cells are read."""

    def __init__(self, options: Namespace) -> None:
        self._forms: list[str] = options.date_format
        for form in self._forms:
            # Every part of a date must come from the cell.
            if _date_in(_SOME_DAY.strftime(form), form) != _SOME_DAY:
                raise Failed("--date-format must have a day, a month and a year, such as %d.%m.%Y")
        self._phone = _phones_of(options.phone_country) if options.phone_country else None
        self._words: dict[tuple[str, str], str] = {}
        for one in options.map_value:
            field, _, rest = one.partition(":")
            word, sign, value = rest.rpartition("=")
            if not sign:
                raise Failed(
                    '--map-value takes a field, what the table has, and the value, as in --map-value "role:Makler=AGENT"'
                )
            self._words[_field_said(field, "--map-value"), word.strip()] = value.strip()
        self.constants = {field: value for (field, word), value in self._words.items() if not word}
        """The values of fields that a row has nothing for."""

    def read(self, field: str, cell: str) -> Any:
        """The value in a cell, and the cell itself if no option reads it: the rules say then what is wrong."""
        text = self._words.get((field, cell), cell)
        if field in _BOOLEAN:
            return _BOOLEANS.get(text.lower(), text)
        if field == "date_of_birth":
            dates = {found for form in self._forms if (found := _date_in(text, form))}
            # Forms that read it differently cannot say which date it is.
            return dates.pop().isoformat() if len(dates) == 1 else text
        return self._phone(text) if field == "phone" and self._phone is not None else text


def _date_in(text: str, form: str) -> date | None:
    try:
        moment = datetime.strptime(text, form)
    except ValueError:
        return None
    # It takes 199021 for a date, too.
    if re.sub(r"\b0+(?=\d)", "", moment.strftime(form)).casefold() != re.sub(r"\b0+(?=\d)", "", text).casefold():
        return None
    found = moment.date()
    # A year of two digits: nobody is born in the future.
    return found.replace(year=found.year - 100) if "%y" in form and found > date.today() else found


# A long number as a spreadsheet writes it: 4915100000012.0, 4.9151E+12.
_SPREADSHEET_NUMBER = re.compile(r"\d+\.0*|[\d.,]+[eE][+-]?\d+")


def _phones_of(country: str) -> Callable[[str], str]:
    """Returns a function that writes the phone numbers of a country as +, its code, and digits. It leaves a number unchanged, for
    the rules to report, if digits of it would be lost or gained.
    """
    try:
        import phonenumbers
    except ImportError:
        raise Failed(
            "--phone-country needs phonenumbers, which is not installed here: pip install 'dealkit[phone]'"
        ) from None
    if country.upper() not in phonenumbers.SUPPORTED_REGIONS:
        raise Failed("--phone-country must be a country's code of two letters, such as DE")
    code = str(phonenumbers.country_code_for_region(country.upper()))

    def read(text: str) -> str:
        if _SPREADSHEET_NUMBER.fullmatch(text):
            return text
        found = written(text)
        # Only the plus sign may be missing: 4915100000012 begins with the code of DE already.
        international = written(f"+{text}") if text.startswith(code) else None
        return text if found is None or international not in (None, found) else found

    def written(text: str) -> str | None:
        try:
            number = phonenumbers.parse(text, country.upper())
        except phonenumbers.NumberParseException:
            return None
        # An extension would be lost.
        if not phonenumbers.is_valid_number(number) or number.extension:
            return None
        return str(phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164))

    return read
