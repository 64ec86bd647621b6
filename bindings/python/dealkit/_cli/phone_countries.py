"""The likely country of a column's phone numbers."""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

from dealkit._cli.phone_reading import (
    clean_phone,
    count_digits,
    find_country_code,
    is_one_number,
    load_library,
    normalize_international,
    read_national,
    remove_decimals,
    require_library,
)

_CANDIDATES = (
    *("US", "GB", "DE", "AT", "CH", "FR", "BE", "NL", "LU", "ES", "PT", "IT", "IE"),
    *("AU", "NZ", "ZA", "IN", "MX", "BR", "SE", "NO", "DK", "PL"),
)
"""The countries to suggest. US stands for all countries with the country code 1, such as Canada."""

# Groups of digits that are as usual in a country as the ones of the library.
_OTHER_USUAL_GROUPS = {"ES": ("3,3,3", "2,3,2,2", "3,2,2,2"), "IT": ("3,3,4", "3,7")}

_MIN_DIGITS, _MAX_DIGITS = 7, 15
_MAX_SAMPLES = 300
_MIN_VALID = 0.85
_MIN_LEAD = 0.5
"""The lead in likeness that the best country needs, for each number."""
_MIN_SHARE = 0.5
"""The share of a country in the numbers with a country code, above which they are evidence for the other numbers."""


class PhoneColumn:
    """Evidence about the country of a column's phone numbers."""

    def __init__(self) -> None:
        self._samples: list[str] = []
        """The first numbers without a country code."""
        self._international: list[str] = []
        """The first numbers with a country code, in the form E.164."""

    def add(self, text: str) -> None:
        """Adds a cell. Cells that are not one number are no evidence."""
        text = remove_decimals(clean_phone(text))
        if not (_MIN_DIGITS <= count_digits(text) <= _MAX_DIGITS and is_one_number(text)):
            return
        if text.startswith(("+", "00")):
            if len(self._international) < _MAX_SAMPLES and (number := normalize_international(text)):
                self._international.append(number)
        elif len(self._samples) < _MAX_SAMPLES:
            self._samples.append(text)

    def suggest_country(self) -> tuple[str, int, int] | None:
        """Returns the country in which nearly all of the first numbers without a country code are valid, the number of
        valid ones, and the number of all. Returns None without the library, or if no country or several countries fit.
        """
        if not self._samples or load_library() is None:
            return None
        total_count = len(self._samples)
        fits = [fit for country in _CANDIDATES if (fit := self._rate(country)).valid_count >= _MIN_VALID * total_count]
        fits.sort(key=lambda fit: -fit.likeness)
        if not fits:
            return None
        min_lead = _MIN_LEAD * total_count
        best, next_likeness = fits[0], fits[1].likeness if len(fits) > 1 else 0
        if best.likeness - next_likeness >= min_lead:
            return best.country, best.valid_count, total_count
        # The country codes of other numbers decide between similar countries.
        code = self._find_usual_code()
        confirmed = next((fit for fit in fits if find_country_code(fit.country) == code), None)
        if confirmed is None or best.likeness - confirmed.likeness >= min_lead:
            return None
        return confirmed.country, confirmed.valid_count, total_count

    def _find_usual_code(self) -> str | None:
        """Returns the country code of most numbers that have one, or None."""
        phonenumbers = require_library()
        codes: Counter[str] = Counter()
        for number in self._international:
            try:
                codes[str(phonenumbers.parse(number).country_code)] += 1
            except phonenumbers.NumberParseException:
                continue
        code, count = next(iter(codes.most_common(1)), (None, 0))
        return code if count > _MIN_SHARE * codes.total() else None

    def _rate(self, country: str) -> _Fit:
        valid_count = likeness = 0
        for index, text in enumerate(self._samples, 1):
            rating = _rate_likeness(text, country)
            if rating is not None:
                valid_count += 1
                likeness += rating
            elif index - valid_count > (1 - _MIN_VALID) * len(self._samples):
                break
        return _Fit(country, valid_count, likeness)


class _Fit(NamedTuple):
    """Result of reading a column's numbers as numbers of a country."""

    country: str
    valid_count: int
    likeness: int


def _rate_likeness(text: str, country: str) -> int | None:
    """Returns None for a number that is not certainly one of a country, and otherwise a rating from 0 to 4: two points for
    a mobile number, because agents have them, and two for the way in which this country writes the number. Validity alone
    decides little: Germany and Austria, for example, accept numbers of many lengths.
    """
    phonenumbers = require_library()
    international = read_national(text, country)
    if international is None:
        return None
    number = phonenumbers.parse(international)
    kinds = phonenumbers.PhoneNumberType
    is_mobile = phonenumbers.number_type(number) in (kinds.MOBILE, kinds.FIXED_LINE_OR_MOBILE)
    usual_text = phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.NATIONAL)
    usual_groups = re.findall(r"\d+", usual_text)
    groups = re.findall(r"\d+", text)
    # Only a spreadsheet that has removed the leading zero writes a number without it, and without spaces.
    has_usual_digits = len(groups) == 1 or "".join(groups) == "".join(usual_groups)
    has_other_usual_groups = ",".join(str(len(group)) for group in groups) in _OTHER_USUAL_GROUPS.get(country, ())
    has_usual_groups = groups == usual_groups or has_other_usual_groups
    is_usual = text == usual_text or has_other_usual_groups
    return 2 * int(is_mobile and has_usual_digits) + int(has_usual_groups) + int(is_usual)
