"""Converts the cells of a row to the values of an agent's fields, and explains cells that cannot be converted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import date
from itertools import chain, product
from typing import Any, get_type_hints

from dealkit import AgentProfileParams, Role
from dealkit._cli.agent_fields import FULL_NAME, FULL_NAMES, PROFILE
from dealkit._cli.date_formats import (
    DateColumn,
    explain_date,
    is_order_certain,
    is_zero_date,
    order_support,
    parse_date,
)
from dealkit._cli.email_cells import explain_email, warn_about_email
from dealkit._cli.import_settings import ImportSettings
from dealkit._cli.person_names import explain_first_name, explain_last_name, split_full_name
from dealkit._cli.phone_numbers import (
    PhoneColumn,
    explain_length,
    explain_phone,
    is_empty_phone,
    make_phone_parser,
    normalize_international,
)
from dealkit._cli.role_words import is_placeholder, match_role, normalize_word

_BOOLEAN_FIELDS = frozenset(
    f"{PROFILE}{name}" for name, kind in get_type_hints(AgentProfileParams).items() if kind is bool
)
_BOOLEANS = {"true": True, "false": False}

# The optional fields with a fixed form, in which a placeholder such as `n/a` cannot be a value.
_FIELDS_WITH_FORM = ("phone", "date_of_birth", "role")

# The fields whose values never contain invisible characters.
_FIELDS_WITHOUT_INVISIBLE_CHARACTERS = ("email", *_FIELDS_WITH_FORM)
_INVISIBLE_CHARACTERS = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]")

ROLES = [role.value for role in Role]

# From this number of rows on, a cell that is no value is repeated so often that it may be a word for a missing value.
_MIN_REPETITIONS = 3

# A year that many systems enter for an unknown date.
_YEAR_OF_UNKNOWN_DATES = "1900"

# If the dates that only the opposite order of day and month can read are more than this share of the dates that only the
# named order can read, the order of the others is uncertain.
_MAX_SHARE_OF_CONTRADICTIONS = 0.2

# Separators between day, month and year, if all are figures. Dots stand only between a day and a following month.
_SEPARATORS = {"%d": "/-.", "%m": "/-"}


class ColumnEvidence:
    """Evidence in the cells of a table for the notation of its dates, phone numbers, names and roles."""

    def __init__(self) -> None:
        self.dates = DateColumn()
        self.phones = PhoneColumn()
        self.has_iso_dates = False
        self.has_national_phones = False
        """True if the table has phone numbers without a country code."""
        self.placeholders: Counter[tuple[str, str]] = Counter()
        """Cells such as `n/a` that stand for no value, by field and text."""
        self._role_words: dict[str, tuple[str, int]] = {}
        """Words that are no roles, with their number, by their form without case, blanks and punctuation."""
        self._cells: Counter[tuple[str, str]] = Counter()
        """Phone numbers and dates without enough digits, and dates that often mean no date, by field and text."""
        self._name_count = self._comma_count = 0

    def add(self, number: int, texts: Mapping[str, str], settings: ImportSettings) -> None:
        """Adds the cells of a row, by field."""
        for field in _FIELDS_WITH_FORM:
            text = _remove_invisible_characters(texts.get(field, ""))
            if not text or settings.find_word(field, text) is not None:
                continue
            if is_placeholder(text, field) or _is_zero(field, text):
                self.placeholders[field, text] += 1
            elif field == "role":
                if match_role(text) is None:
                    word, count = self._role_words.get(normalize_word(text), (text, 0))
                    self._role_words[normalize_word(text)] = word, count + 1
            elif field == "date_of_birth":
                self.dates.add(number, text)
                self.has_iso_dates |= re.fullmatch(r"\d{4}-\d{2}-\d{2}", text) is not None
                if sum(map(str.isdigit, text)) < 3 or _YEAR_OF_UNKNOWN_DATES in text:
                    self._cells[field, text] += 1
            else:
                self.phones.add(text)
                digit_count = sum(map(str.isdigit, text))
                self.has_national_phones |= digit_count > 5 and not text.lstrip("(").startswith(("+", "00"))
                if digit_count < 3:
                    self._cells[field, text] += 1
        for field in FULL_NAMES:
            self._name_count += field in texts
            self._comma_count += "," in texts.get(field, "")

    def undecided_words(self, field: str) -> Iterator[tuple[str, int]]:
        """Yields the cells of a field whose meaning only the user knows, with the number of their rows."""
        if field == "role":
            yield from self._role_words.values()
        for (name, text), count in self._cells.items():
            if name == field and count >= _MIN_REPETITIONS:
                yield text, count

    def has_commas_in_names(self) -> bool:
        """Returns whether most names in a column with both names have a comma, as in `Lovelace, Ada`."""
        return self._comma_count * 2 > self._name_count


def _is_zero(field: str, text: str) -> bool:
    return (field == "date_of_birth" and is_zero_date(text)) or (field == "phone" and is_empty_phone(text))


def _remove_invisible_characters(text: str) -> str:
    return _INVISIBLE_CHARACTERS.sub("", text).strip()


class CellParser:
    """Converts cells according to the settings of an import and the evidence in the table."""

    def __init__(self, settings: ImportSettings, evidence: ColumnEvidence, *, is_order_known: bool = False) -> None:
        """`is_order_known` means that another table has shown the order of day and month, as for the rejects of an
        import.
        """
        self._settings = settings
        self._needs_comma = evidence.has_commas_in_names()
        conclusion = evidence.dates.conclude()
        self.date_formats = settings.date_formats or conclusion.formats
        """The formats of dates, as for `datetime.strptime`."""
        self.uncertain_formats = [] if settings.date_formats else conclusion.uncertain
        """The formats that the dates may have, if it is not certain whether the day or the month comes first."""
        self._contradicting_rows: list[int] = []
        """The rows whose dates contradict the order that the user has named, if the other dates are uncertain too."""
        if settings.date_formats:
            named_formats = [*chain.from_iterable(map(_list_formats_with_same_order, settings.date_formats))]
            # Formats that leave no doubt about the order, such as those with the name of the month, remain readable.
            certain_formats = filter(is_order_certain, conclusion.formats)
            self.date_formats = [*dict.fromkeys([*named_formats, *certain_formats])]
            support, contradictions = order_support(named_formats, evidence.dates)
            if not is_order_known and len(contradictions) > _MAX_SHARE_OF_CONTRADICTIONS * support:
                self._contradicting_rows = contradictions
        self._undecided_cells = {
            (field, text) for field in ("phone", "date_of_birth") for text, _ in evidence.undecided_words(field)
        }
        self.can_read_dates = bool(self.date_formats or self.uncertain_formats or evidence.has_iso_dates)
        self._parse_phone = make_phone_parser(settings.phone_country) if settings.phone_country else None

    def offered_formats(self) -> list[str]:
        """Returns the first uncertain format of each order, because one format stands for all with the same order."""
        formats = {re.sub("[^dm]", "", date_format): date_format for date_format in reversed(self.uncertain_formats)}
        return [text for text in self.uncertain_formats if text in formats.values()]

    def parse(self, texts: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
        """Converts the cells of a row, by field. Returns the values, and messages for the cells that are certainly
        wrong, by field. A cell that cannot be converted remains unchanged, so that validation reports it.
        """
        values: dict[str, Any] = dict(self._settings.constants)
        problems: dict[str, str] = {}
        for field, text in texts.items():
            if field in FULL_NAMES:
                names = split_full_name(text, needs_comma=self._needs_comma, last_first=field != FULL_NAME)
                if isinstance(names, str):
                    problems["last_name"] = names
                    # The whole cell stands for both names, so that validation does not report missing names.
                    names = text, text
                values["first_name"], values["last_name"] = names
            else:
                values[field] = self._parse_cell(field, text)
                if (field, text) in self._undecided_cells:
                    problems[field] = "is in many rows, and may mean that nothing is known: decide it with --map-value"
                elif problem := _explain_value(field, values[field]):
                    problems[field] = problem
        return {field: value for field, value in values.items() if value != ""}, problems

    def _parse_cell(self, field: str, cell: str) -> Any:
        if field in _FIELDS_WITHOUT_INVISIBLE_CHARACTERS:
            cell = _remove_invisible_characters(cell)
        word = self._settings.find_word(field, cell)
        text = cell if word is None else word
        if field in _BOOLEAN_FIELDS:
            return _BOOLEANS.get(text.lower(), text)
        match field:
            case "role":
                return match_role(text) or text
            case "date_of_birth":
                return self._parse_date(text)
            case "phone":
                number = normalize_international(text) or text
                return self._parse_phone(number) if self._parse_phone is not None else number
        return text

    def _parse_date(self, text: str) -> str:
        if self._contradicting_rows and not self._is_order_certain(text):
            return text
        dates = {day for date_format in self.date_formats if (day := parse_date(text, date_format))}
        # If two formats give different dates, the date is ambiguous, and the cell stays unchanged.
        return dates.pop().isoformat() if len(dates) == 1 else text

    def _is_order_certain(self, text: str) -> bool:
        """Returns whether a format without doubt about the order of day and month can read a date."""
        return any(is_order_certain(date_format) and parse_date(text, date_format) for date_format in self.date_formats)

    def explain(self, field: str, code: str, text: str) -> str | None:
        """Returns a message for a rejected cell that is more exact than the message of the rules, or None."""
        match code:
            case "invalid_email":
                return explain_email(text)
            case "invalid_phone":
                return explain_phone(text, self._settings.phone_country)
            case "invalid_date":
                return self._explain_date(text)
            case "unknown_value" if field == "role":
                return f"is none of the roles {', '.join(ROLES)}"
        return None

    def _explain_date(self, text: str) -> str:
        if any(parse_date(text, date_format) for date_format in self.uncertain_formats):
            return "may be day and month, or month and day: choose the order with --date-format"
        if self._contradicting_rows and any(parse_date(text, date_format) for date_format in self.date_formats):
            rows = ", ".join(map(str, self._contradicting_rows[:3]))
            return (
                f"cannot be read safely, because other dates, as in row {rows}, have the opposite order of day and month: correct "
                "--date-format, or those dates"
            )
        return explain_date(text, self._settings.date_formats or self.date_formats)


def _list_formats_with_same_order(date_format: str) -> Iterator[str]:
    """Yields a format, and those that differ from it only in the separator and in the number of the year's digits."""
    yield date_format
    if match := re.fullmatch(r"(%[dm])[^\w%](%[dm])[^\w%]%[yY]", date_format):
        for separator, year in product(_SEPARATORS[match[1]], ("%Y", "%y")):
            yield f"{match[1]}{separator}{match[2]}{separator}{year}"


def _explain_value(field: str, value: Any) -> str | None:
    """Explains a value that the rules accept, but that is certainly a mistake."""
    match field:
        case "first_name":
            return explain_first_name(value)
        case "last_name":
            return explain_last_name(value)
        case "date_of_birth":
            return "is in the future: correct the year" if _is_future(value) else None
        case "phone":
            return explain_length(value)
    return None


def _is_future(text: str) -> bool:
    try:
        return date.fromisoformat(text) > date.today()
    except ValueError:
        return False  # validation reports the date


def warn_about_value(field: str, value: Any) -> str | None:
    """Returns a warning about a value that the rules accept, but that is probably a mistake, or None."""
    return warn_about_email(value) if field == "email" else None
