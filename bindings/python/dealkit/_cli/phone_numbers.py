"""Phone numbers: their international form, mistakes in cells, and the likely country of a column.

The library phonenumbers is optional (`dealkit[phone]`). The messages contain no values from the table.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import NamedTuple

from dealkit._cli.exit_codes import CommandError

# Long numbers in the notation of spreadsheets, such as 4915100000012.0 or 4.9151E+12.
_DECIMAL = re.compile(r"\+?\d+[.,]0*")
_EXPONENT = re.compile(r"\+?[\d.,]+[eE][+-]?\d+")

# Labels of numbers, as in `tel:+15550100`, `c: 555-0100` and `555-0100 (cell)`.
_LABEL = r"(?:tel|telefon|téléphone|telephone|phone|ph|mobile|mobil|mob|cell|handy|callto|[cmpt])"
_LABEL_BEFORE = re.compile(rf"^{_LABEL}\b[.:]*\s*(?=[+\d(])", re.IGNORECASE)
_LABEL_AFTER = re.compile(rf"(?<=\d)\s*\({_LABEL}\.?\)$", re.IGNORECASE)

_E164 = re.compile(r"\+[1-9]\d{6,14}")
_WRITTEN_NUMBER = re.compile(r"\+?[\d ().\-/]+")

# In 030/1234567, the slash follows an area code. In 030 1234567/68, it adds the ending of a second number.
_MAX_AREA_DIGITS, _MIN_DIGITS_AFTER_AREA = 6, 5

# The zero for calls within a country, between country code and area code: +49 (0)30 or +44 020. E.164 numbers do not have it.
# Listed are large countries with this zero; the numbers of Italy, for example, keep a first zero (ITU-T E.164, national
# numbering plans).
_DOMESTIC_ZERO = re.compile(
    r"\+(?:20|27|3[123]|353|358|359|36|38[0567]|4[013469]|5[1458]|6[0-46]|8[1246]|9[0-58]|97[0-4])0"
)
_BRACKETED_ZERO = re.compile(r"\( ?0 ?\)")

_EXTENSION = re.compile(
    r"(?:\bext(?:n|ension)?\b|\bext\.?|\bx|#|durchwahl|\bdw\b|\bposte\b|\bint(?:erno)?\b|\banexo\b|\bramal\b|\btoestel\b)[.: ]*\d{1,6}\W*$",
    re.IGNORECASE,
)
_MIN_DIGITS, _MAX_DIGITS = 7, 15
_MAX_LENGTH = 200

_MAX_NATIONAL_DIGITS = 11
"""The maximum number of digits without the country code, as in Germany (Bundesnetzagentur) and China."""
_MIN_DIGITS_WITH_COUNTRY = 11

# Country codes with the number of digits after them, for recognizing a lost plus sign without the library.
_LENGTHS = {
    "1": (10,),
    "31": (9,),
    "32": (8, 9),
    "33": (9,),
    "34": (9,),
    "351": (9,),
    "353": (9,),
    "39": (9, 10),
    "41": (9,),
    "43": (9, 10, 11),
    "44": (10,),
    "49": (10, 11),
    "52": (10,),
    "55": (10, 11),
    "61": (9,),
    "64": (8, 9, 10),
}


@cache
def _load_library() -> ModuleType | None:
    try:
        import phonenumbers
    except ImportError:
        return None
    return phonenumbers


def _format_valid(text: str, country: str | None) -> str | None:
    """Returns a valid number without an extension in the form E.164, or None."""
    phonenumbers = _load_library()
    assert phonenumbers is not None
    try:
        number = phonenumbers.parse(text, country)
    except phonenumbers.NumberParseException:
        return None
    # The E.164 format would drop the extension.
    if number.extension or not phonenumbers.is_valid_number(number):
        return None
    formatted = str(phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164))
    return formatted if _E164.fullmatch(formatted) else None


def _clean(text: str) -> str:
    """Returns a number without its label, with plain spaces and hyphens."""
    text = re.sub("[\u2010-\u2015\u2212]", "-", " ".join(text.split()))
    return _LABEL_AFTER.sub("", _LABEL_BEFORE.sub("", text, count=1))


def _is_one_number(text: str) -> bool:
    """Returns whether a cleaned text has only the characters of one number. The library also accepts others: it reads
    letters as digits of the keypad.
    """
    if not _WRITTEN_NUMBER.fullmatch(text) or text.count("/") > 1:
        return False
    area, slash, rest = text.partition("/")
    area_digits = _count_digits(re.sub(r"^(?:\+|00)\d{1,3}(?!\d)", "", area))
    return not slash or (0 < area_digits <= _MAX_AREA_DIGITS and _count_digits(rest) >= _MIN_DIGITS_AFTER_AREA)


def normalize_international(text: str) -> str | None:
    """Returns a number with its own country code in the form E.164, or None if it is not certain. Removing punctuation
    is certain; a zero after the country code, or 00 in place of the plus sign, only if the library finds the number valid.
    """
    text = _clean(text)
    if not text.startswith(("+", "00")) or not _is_one_number(text) or text.count("(") > 1:
        return None
    with_plus = re.sub("^00", "+", text)
    digits = _remove_punctuation(_BRACKETED_ZERO.sub("", with_plus))
    if not _E164.fullmatch(digits):
        return None
    if _load_library() is not None and (number := _format_valid(with_plus, None)):
        return number
    is_plain = text.startswith("+") and "/" not in text and not _has_domestic_zero(text)
    return digits if text == digits or (is_plain and not _is_too_long(digits)) else None


def _remove_punctuation(text: str) -> str:
    return "+" + re.sub(r"\D", "", text)


def make_phone_parser(country: str) -> Callable[[str], str]:
    """Returns a function that formats the phone numbers of a country as +, country code and digits. If the function
    cannot parse a number, it returns the number unchanged, and validation reports the number.
    """
    phonenumbers = _load_library()
    if phonenumbers is None:
        raise CommandError(
            "--phone-country needs phonenumbers, which is not installed here: pip install 'dealkit[phone]'"
        )
    region = country.upper()
    if region not in phonenumbers.SUPPORTED_REGIONS:
        raise CommandError("--phone-country must be a country's code of two letters, such as DE")
    code = str(phonenumbers.country_code_for_region(region))

    def parse(text: str) -> str:
        if (international := normalize_international(text)) is not None:
            return international
        cleaned = _clean(text)
        if _DECIMAL.fullmatch(cleaned) or not _is_one_number(cleaned):
            return text
        number = _format_valid(cleaned, region)
        # The number may already start with the country code and lack only the plus sign, as in 4915100000012.
        with_plus = _format_valid(f"+{cleaned}", region) if cleaned.startswith(code) else None
        if with_plus is not None and _count_digits(cleaned) > _MAX_NATIONAL_DIGITS:
            return with_plus
        return text if number is None or with_plus not in (None, number) else number

    return parse


def explain_phone(text: str, country: str | None) -> str | None:
    """Returns the mistake in a cell that is not one phone number with its country code, with advice, or None if no mistake
    is known. A number that lacks only the country is no mistake.
    """
    text = _clean(text[:_MAX_LENGTH])
    digits = re.sub(r"\D", "", text)
    if _EXPONENT.fullmatch(text):
        return "is a number that a spreadsheet has shortened, as in 4.9E+12, so digits are lost: type the number again, as text"
    if _DECIMAL.fullmatch(text) and len(digits) > _MIN_DIGITS:
        return "ends in .0, as a spreadsheet writes numbers: remove it, and add the plus sign and the country code"
    if not digits:
        return "has no digits: write the phone number, or empty the cell" if text else None
    if text.count("+") > 1 or sum(_count_digits(part) >= _MIN_DIGITS for part in re.split(r"[^\d\s().+-]+", text)) > 1:
        return "has two phone numbers: keep the one to use"
    if _EXTENSION.search(text):
        return "has an extension, which an agent's number cannot have: remove it"
    if re.search(r"[^\W\d_]", text):
        return "has letters: keep only the digits of the number"
    if text.startswith(("+", "00")) and _has_domestic_zero(text):
        return "has a zero after the country code: remove it, as in +49 30 for +49 (0)30"
    if len(digits) > _MAX_DIGITS or (text.startswith("+") and _is_too_long(f"+{digits}")):
        return "has more digits than a phone number: are there two numbers? Keep one"
    if len(digits) < _MIN_DIGITS:
        return "is too short for a phone number: write the whole number, with the area code"
    if not text.startswith(("+", "0")) and _has_lost_plus(digits, country):
        return "begins with a country code but has no plus sign, which spreadsheets remove: write the plus sign again, as text"
    return None


def _count_digits(text: str) -> int:
    return len(re.sub(r"\D", "", text))


def _is_too_long(number: str) -> bool:
    """Returns whether a number in the form E.164 has more digits than its country's numbers, such as an extension."""
    phonenumbers = _load_library()
    if phonenumbers is not None:
        try:
            length = phonenumbers.is_possible_number_with_reason(phonenumbers.parse(number))
        except phonenumbers.NumberParseException:
            return True
        return bool(length == phonenumbers.ValidationResult.TOO_LONG)
    return any(number.startswith(f"+{code}") and len(number) > len(code) + 1 + max(_LENGTHS[code]) for code in _LENGTHS)


def _has_domestic_zero(text: str) -> bool:
    """Returns whether an international number has the zero for calls within its country."""
    return bool(_BRACKETED_ZERO.search(text) or _DOMESTIC_ZERO.match(_remove_punctuation(re.sub("^00", "+", text))))


def _has_lost_plus(digits: str, country: str | None) -> bool:
    """Returns whether digits are a country code and a number of its length."""
    if len(digits) < _MIN_DIGITS_WITH_COUNTRY:
        return False
    phonenumbers = _load_library()
    if phonenumbers is not None:
        code = str(phonenumbers.country_code_for_region(country.upper())) if country else ""
        return digits.startswith(code) and _format_valid(f"+{digits}", None) is not None
    return any(
        digits.startswith(code) and len(digits) - len(code) in lengths and digits[len(code)] not in "01"
        for code, lengths in _LENGTHS.items()
    )


_CANDIDATES = (
    *("US", "GB", "DE", "AT", "CH", "FR", "BE", "NL", "LU", "ES", "PT", "IT", "IE"),
    *("AU", "NZ", "ZA", "IN", "MX", "BR", "SE", "NO", "DK", "PL"),
)
"""The countries to suggest. US stands for all countries with the country code 1, such as Canada."""

_MAX_SAMPLES = 300
_MIN_VALID = 0.85
_MIN_LEAD = 0.5
"""The lead in likeness that the best country needs, for each number."""


class PhoneColumn:
    """Evidence about the country of a column's phone numbers."""

    def __init__(self) -> None:
        self._samples: list[str] = []
        """The first numbers without a country code."""

    def add(self, text: str) -> None:
        """Adds a cell. Cells that have their own country code, or are not one number, are no evidence."""
        text = _clean(text)
        has_length = _MIN_DIGITS <= _count_digits(text) <= _MAX_DIGITS
        if len(self._samples) < _MAX_SAMPLES and has_length and _is_one_number(text):
            if not text.startswith(("+", "00")):
                self._samples.append(text)

    def suggest_country(self) -> tuple[str, int, int] | None:
        """Returns the country in which nearly all of the first numbers without a country code are valid, the number of
        valid ones, and the number of all. Returns None without the library, or if no country or several countries fit.
        """
        if not self._samples or _load_library() is None:
            return None
        total_count = len(self._samples)
        fits = [fit for country in _CANDIDATES if (fit := self._rate(country)).valid_count >= _MIN_VALID * total_count]
        fits.sort(key=lambda fit: -fit.likeness)
        if not fits:
            return None
        next_likeness = fits[1].likeness if len(fits) > 1 else 0
        best = fits[0]
        return (
            (best.country, best.valid_count, total_count)
            if best.likeness - next_likeness >= _MIN_LEAD * total_count
            else None
        )

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
    """Returns None for a number that is not valid in a country, and otherwise a rating from 0 to 3: a point for a mobile
    number, because agents have them, and two for the way in which this country writes the number. Validity alone decides
    little: Germany and Austria, for example, accept numbers of many lengths.
    """
    phonenumbers = _load_library()
    assert phonenumbers is not None
    try:
        number = phonenumbers.parse(text, country)
    except phonenumbers.NumberParseException:
        return None
    if not phonenumbers.is_valid_number(number):
        return None
    kinds = phonenumbers.PhoneNumberType
    is_mobile = phonenumbers.number_type(number) in (kinds.MOBILE, kinds.FIXED_LINE_OR_MOBILE)
    usual_text = phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.NATIONAL)
    usual_groups = _find_groups(usual_text)
    groups = _find_groups(text)
    # Only a spreadsheet that has removed the leading zero writes a number without it, and without spaces.
    has_usual_digits = len(groups) == 1 or "".join(groups) == "".join(usual_groups)
    return int(is_mobile and has_usual_digits) + int(groups == usual_groups) + int(text == usual_text)


def _find_groups(text: str) -> list[str]:
    return re.findall(r"\d+", text)
