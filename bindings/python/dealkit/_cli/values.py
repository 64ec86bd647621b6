"""The cells of a table as an agent's values: dates, phone numbers and words in other forms than the service takes, as the
options say; and the options that a table seems to need."""

from __future__ import annotations

import re
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from typing import Any, get_type_hints

from dealkit import AgentProfileParams, Role
from dealkit._cli.exits import Failed

_YES_OR_NO = frozenset(f"profile.{name}" for name, kind in get_type_hints(AgentProfileParams).items() if kind is bool)
_BOOLEANS = {"true": True, "false": False}
_YES, _NO = frozenset("yes y ja j oui si x 1 wahr".split()), frozenset("no n nein non 0 falsch".split())

# The forms of dates that offices have, to be proposed.
_FORMS = (
    "%d.%m.%Y",
    "%d.%m.%y",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d-%m-%Y",
    "%Y/%m/%d",
    "%Y%m%d",
    "%d.%m.%Y %H:%M",
    "%d.%m.%Y %H:%M:%S",
)

# More different words than a list of roles, or of remarks in place of a number, would have; and how often a remark occurs, and
# somebody's data does not.
_MOST_WORDS, _LEAST_TIMES = 12, 3

_NO_PHONENUMBERS = """\
phone numbers are read with phonenumbers, which is not installed here. Install it:
  pip install 'dealkit[phone]'"""


class Values:
    """How cells are read."""

    def __init__(self, options: Namespace, field_said: Callable[[str, str], str]) -> None:
        self._forms: list[str] = options.date_format
        for form in self._forms:
            # Every part of a date must come from the cell.
            try:
                is_whole = datetime.strptime(date(1987, 6, 5).strftime(form), form).date() == date(1987, 6, 5)
            except ValueError:
                is_whole = False
            if not is_whole:
                raise Failed("--date-format must have a day, a month and a year, such as %d.%m.%Y")
        self._phone = _phones_of(options.phone_country) if options.phone_country else None
        self._words: dict[tuple[str, str], str] = {}
        for one in options.value:
            field, _, rest = one.partition(":")
            word, sign, value = rest.rpartition("=")
            if not sign:
                raise Failed(
                    '--value takes a field, what the table has, and the value, as in --value "role:Makler=AGENT"'
                )
            self._words[field_said(field, "--value"), word.strip()] = value.strip()
        self.constants: dict[str, str] = {}
        """The values of fields that a row has nothing for."""
        for one in options.set:
            field, sign, value = one.partition("=")
            if not sign:
                raise Failed("--set takes a field and a value, as in --set role=AGENT")
            self.constants[field_said(field, "--set")] = value.strip()

    def read(self, field: str, cell: str) -> Any:
        """The value in a cell, and the cell itself if no option reads it: the rules say then what is wrong."""
        text = self._words.get((field, cell), cell)
        if field in _YES_OR_NO:
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


def _phones_of(country: str) -> Callable[[str], str]:
    """What writes the phone numbers of a country as +, its code, and digits."""
    try:
        import phonenumbers
    except ImportError:
        raise Failed(_NO_PHONENUMBERS) from None
    if country.upper() not in phonenumbers.SUPPORTED_REGIONS:
        raise Failed("--phone-country must be a country's code of two letters, such as DE")

    def read(text: str) -> str:
        try:
            number = phonenumbers.parse(text, country.upper())
        except phonenumbers.NumberParseException:
            return text
        # An extension would be lost.
        is_whole = phonenumbers.is_valid_number(number) and not number.extension
        return phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164) if is_whole else text

    return read


def proposed(cells: Mapping[str, Counter[str]], phones: Iterable[str]) -> tuple[list[str], list[str]]:
    """The options that would make complaints about the cells of these fields go away, and remarks about them. Phone numbers
    without complaints tell the country, too."""
    options: list[str] = []
    remarks: list[str] = []
    dates = cells.get("date_of_birth", Counter())
    forms = {form: {cell: found for cell in dates if (found := _date_in(cell, form))} for form in _FORMS}
    left = {*dates}
    while form := max(forms, key=lambda form: sum(dates[cell] for cell in forms[form] if cell in left), default=""):
        read = forms.pop(form)
        if not left & {*read}:
            break
        others = [
            one for one, cells_of in forms.items() if any(cells_of.get(cell, at) != at for cell, at in read.items())
        ]
        if any(left & {*read} <= {*forms[one]} for one in others):
            remarks.append(f"The dates may be {form} or {' or '.join(others)}: --date-format says which.")
        else:
            options += ["--date-format", form]
        left -= {*read}
        for one in others:
            del forms[one]
    if "phone" in cells:
        country, remark = _country_of(phones)
        options += ["--phone-country", country] if country else []
        remarks += [remark] if remark else []
    for field, some in cells.items():
        # What a terminal would obey is no word.
        words = _words_for(field, Counter({word: times for word, times in some.items() if word.isprintable()}))
        options += [part for word, value in words.items() for part in ("--value", f"{field}:{word}={value}")]
        if field == "role" and {word.upper() for word in words} - {*map(str, Role)}:
            remarks.append("AGENT is what somebody without a role is: name another role where that is right.")
    return options, remarks


def _country_of(phones: Iterable[str]) -> tuple[str, str]:
    """The country of most numbers that say it, or what to do."""
    try:
        import phonenumbers
    except ImportError:
        return "", _NO_PHONENUMBERS
    countries: Counter[str] = Counter()
    for text in phones:
        try:
            number = phonenumbers.parse(re.sub("^00", "+", text), None)
        except phonenumbers.NumberParseException:
            continue
        if region := phonenumbers.region_code_for_number(number):
            countries[region] += 1
    if countries:
        return countries.most_common(1)[0][0], ""
    return "", "If the phone numbers are of one country, add it: --phone-country DE is Germany."


def _words_for(field: str, cells: Counter[str]) -> dict[str, str]:
    """What words that many rows have would mean."""
    if field == "role":
        roles = {role.value.casefold(): role.value for role in Role}
        return (
            {word: roles.get(word.casefold(), Role.AGENT.value) for word in cells} if len(cells) <= _MOST_WORDS else {}
        )
    if field in _YES_OR_NO:
        known = {**dict.fromkeys(_YES, "TRUE"), **dict.fromkeys(_NO, "FALSE")}
        return {word: known[word.casefold()] for word in cells if word.casefold() in known}
    if field not in ("phone", "date_of_birth"):
        return {}
    # A remark in place of a number, such as a dash: nothing.
    remarks = [word for word, times in cells.items() if times >= _LEAST_TIMES and not any(map(str.isdigit, word))]
    return dict.fromkeys(remarks, "") if len(remarks) <= _MOST_WORDS else {}
