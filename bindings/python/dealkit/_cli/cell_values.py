"""Converts the cells of a row to the values of an agent's fields, and explains cells that cannot be converted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, get_type_hints

from dealkit import AgentProfileParams, Role
from dealkit._cli.agent_fields import FULL_NAME, FULL_NAMES, PROFILE
from dealkit._cli.date_formats import DateColumn, contradicts, display_format, is_zero_date, parse_date
from dealkit._cli.email_cells import explain_email
from dealkit._cli.import_settings import ImportSettings
from dealkit._cli.person_names import split_full_name
from dealkit._cli.phone_numbers import PhoneColumn, explain_phone, make_phone_parser, normalize_international
from dealkit._cli.role_words import is_placeholder, match_role, normalize_word

_BOOLEAN_FIELDS = frozenset(
    f"{PROFILE}{name}" for name, kind in get_type_hints(AgentProfileParams).items() if kind is bool
)
_BOOLEANS = {"true": True, "false": False}

# The optional fields with a fixed form, in which a placeholder such as `n/a` cannot be a value.
_FIELDS_WITH_FORM = ("phone", "date_of_birth", "role")

ROLES = [role.value for role in Role]


class ColumnEvidence:
    """What the cells of a table show about the notation of its dates, phone numbers and roles."""

    def __init__(self) -> None:
        self.dates = DateColumn()
        self.phones = PhoneColumn()
        self.role_words: dict[str, tuple[str, int]] = {}
        """Words that are no roles, with their number, by their form without case, blanks and punctuation."""
        self.placeholders: Counter[tuple[str, str]] = Counter()
        """Cells such as `n/a` that stand for no value, by field and text."""

    def add(self, number: int, texts: Mapping[str, str], settings: ImportSettings) -> None:
        """Adds the cells of a row, by field."""
        for field in _FIELDS_WITH_FORM:
            text = texts.get(field)
            if not text or settings.find_word(field, text) is not None:
                continue
            if is_placeholder(text) or (field == "date_of_birth" and is_zero_date(text)):
                self.placeholders[field, text] += 1
            elif field == "date_of_birth":
                self.dates.add(number, text)
            elif field == "phone":
                self.phones.add(text)
            elif match_role(text) is None:
                word, count = self.role_words.get(normalize_word(text), (text, 0))
                self.role_words[normalize_word(text)] = word, count + 1


class CellParser:
    """Converts cells according to the settings of an import and the evidence in the table."""

    def __init__(self, settings: ImportSettings, evidence: ColumnEvidence) -> None:
        self._settings = settings
        self._evidence = evidence
        conclusion = evidence.dates.conclude()
        self.date_formats = settings.date_formats or conclusion.formats
        """The formats of dates, as for `datetime.strptime`."""
        if settings.date_formats:
            # Formats that leave no doubt about the order, such as those with the name of the month, remain readable.
            self.date_formats = [*settings.date_formats, *filter(is_order_certain, conclusion.formats)]
        self.uncertain_formats = [] if settings.date_formats else conclusion.uncertain
        """The formats that the table's dates may have, if day and month cannot be told apart."""
        self.contradicting_rows = (
            contradicts(settings.date_formats, evidence.dates)
            if settings.date_formats
            else conclusion.contradicting_rows
        )
        """The rows whose dates only the opposite order of day and month can read."""
        # If the table does not confirm the order that the user has named, but some dates contradict it, the remaining
        # dates are uncertain.
        self._has_wrong_order = (
            bool(settings.date_formats)
            and bool(self.contradicting_rows)
            and {*settings.date_formats}.isdisjoint(conclusion.formats)
        )
        self._parse_phone = make_phone_parser(settings.phone_country) if settings.phone_country else None

    def parse(self, texts: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
        """Converts the cells of a row, by field. Returns the values, and messages for the cells that are certainly
        wrong, by field. A cell that cannot be converted remains unchanged, so that validation reports it.
        """
        values: dict[str, Any] = dict(self._settings.constants)
        problems: dict[str, str] = {}
        for field, text in texts.items():
            if field in FULL_NAMES:
                names = split_full_name(text) if field == FULL_NAME else _split_last_first(text)
                if isinstance(names, str):
                    problems["last_name"] = names
                    # The whole cell stands for both names, so that validation does not report missing names.
                    names = text, text
                values["first_name"], values["last_name"] = names
            else:
                values[field] = self._parse_cell(field, text)
        return {field: value for field, value in values.items() if value != ""}, problems

    def _parse_cell(self, field: str, cell: str) -> Any:
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
        dates = {day for date_format in self.date_formats if (day := parse_date(text, date_format))}
        if self._has_wrong_order and not self._is_order_certain(text):
            return text
        # If two formats give different dates, the date is ambiguous, and the cell stays unchanged.
        return dates.pop().isoformat() if len(dates) == 1 else text

    def _is_order_certain(self, text: str) -> bool:
        """Returns whether a format without doubt about the order of day and month can read a date."""
        return any(is_order_certain(date_format) and parse_date(text, date_format) for date_format in self.date_formats)

    def explain(self, field: str, code: str, text: str) -> str | None:
        """Returns a message for a rejected cell that is more exact than that of the rules, or None."""
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

    def _explain_date(self, text: str) -> str | None:
        if self._has_wrong_order:
            rows = ", ".join(map(str, self.contradicting_rows[:3]))
            return (
                f"cannot be read safely: other dates, as in row {rows}, contradict --date-format "
                f"{display_format(self._settings.date_formats[0])}"
            )
        if any(parse_date(text, date_format) for date_format in self.uncertain_formats):
            return "may be day and month, or month and day: choose the order with --date-format"
        if text.isdecimal() and len(text) == 5:
            return "is a number, as a spreadsheet stores dates: format the column as a date, and save the table again"
        shown_formats = " or ".join(map(display_format, self.date_formats)) or "YYYY-MM-DD"
        return f"is not a date in the form {shown_formats}, or this day does not exist"


def _split_last_first(text: str) -> tuple[str, str] | str:
    """Splits a name such as `Lovelace Ada`. With a comma, the last name is first in any case."""
    words = text.split()
    return (words[1], words[0]) if len(words) == 2 and "," not in text else split_full_name(text)


def is_order_certain(strptime_format: str) -> bool:
    """Returns whether a format has the name of the month, the year in front, or dots, which only stand between a day and
    a following month.
    """
    return not re.fullmatch(r"%[dm][^.\d]%[dm][^.\d]%[yY]", strptime_format)
