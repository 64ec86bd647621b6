"""Reads phone numbers: the international form of a cell that has exactly one number.

The library phonenumbers is optional (`dealkit[phone]`). Every rule prefers no number to a wrong one.
"""

from __future__ import annotations

import re
from types import ModuleType
from typing import Any

# Labels of numbers, as in `tel:+15550100`, `c: 555-0100` and `555-0100 (cell)`.
_LABEL = r"(?:tel|telefon|téléphone|telephone|phone|ph|mobile|mobil|mob|cell|handy|callto|[cmpt])"
_LABEL_BEFORE = re.compile(rf"^{_LABEL}\b[.:]*\s*(?=[+\d(])", re.IGNORECASE)
_LABEL_AFTER = re.compile(rf"(?<=\d)\s*\({_LABEL}\.?\)$", re.IGNORECASE)

# A country code in brackets, as in `(+33) 6 00 00 00 00` and `+(33) 6 00 00 00 00`.
_BRACKETED_CODE = re.compile(r"^(?:\( ?(\+|00) ?(\d{1,3}) ?\)|(\+|00) ?\( ?([1-9]\d{0,2}) ?\))")

# A whole number that a spreadsheet has written with decimals, such as 4915100000012.0.
_DECIMAL = re.compile(r"(\+?\d+)[.,]0*")
_SPACED_DECIMAL = re.compile(r"\+?\d[\d ()/-]*[ ()/-][\d ()/-]*\d[.,]0")

_E164 = re.compile(r"\+[1-9]\d{6,14}")
_WRITTEN_NUMBER = re.compile(r"\+?[\d ().\-/]+")

# In 030/1234567, the slash follows an area code. In 030 1234567/68, it adds the ending of a second number.
_MAX_AREA_DIGITS, _MIN_DIGITS_AFTER_AREA = 6, 5
_CODE_BEFORE_AREA = re.compile(r"^(?:\+|00)\d{1,3}(?!\d)[ /]*")
# The lengths of the groups after the first slash, if slashes separate all groups, as in 06/00/00/00/00 and 212/555/0123.
_SLASHED_GROUPS = re.compile(r"2(?:,2){2,3}|3,3|3,4")

# The zero for calls within a country, between country code and area code: +49 (0)30 or +44 020. E.164 numbers do not have it.
# Listed are large countries with this zero; the numbers of Italy, for example, keep a first zero (ITU-T E.164, national
# numbering plans).
_DOMESTIC_ZERO = re.compile(
    r"\+(?:20|27|3[123]|353|358|359|36|38[0567]|4[013469]|5[1458]|6[0-46]|8[1246]|9[0-58]|97[0-4])0"
)
_BRACKETED_ZERO = re.compile(r"\( ?0 ?\)")

MAX_NATIONAL_DIGITS = 11
"""The maximum number of digits without the country code, as in Germany (Bundesnetzagentur) and China."""

# Country codes with the number of digits after them, for checks without the library.
LENGTHS = {
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

# Countries whose people often omit the zero before the area code, although the library writes it.
_ZERO_IS_OPTIONAL = ("IN", "TR")

# Countries without a zero before the number, in which numbers of many lengths exist, so that foreign ones may fit.
_HAS_MANY_LENGTHS = ("LU",)

# The digits of the groups in numbers of North America: 212-555-0123, (212) 5550123, 212555-0123. A number with
# other groups, as in 47 91 23 45 67, may be another country's.
_NORTH_AMERICAN_GROUPS = re.compile(r"(?:1,)?(?:3,3,4|3,7|6,4|10)|1(?:10|3,3,4|3,7)|11|4,3,4|4,7|7,4")


def load_library() -> ModuleType | None:
    """Returns the library, or None if it is not installed."""
    try:
        import phonenumbers
    except ImportError:
        return None
    return phonenumbers


def require_library() -> Any:
    """Returns the library where a country is known, which is only possible with the library."""
    phonenumbers = load_library()
    assert phonenumbers is not None
    return phonenumbers


def format_valid(text: str, region: str | None) -> str | None:
    """Returns a valid number without an extension in the form E.164, or None."""
    phonenumbers = require_library()
    try:
        number = phonenumbers.parse(text, region)
    except phonenumbers.NumberParseException:
        return None
    # The E.164 format would drop the extension.
    if number.extension or not phonenumbers.is_valid_number(number):
        return None
    formatted = str(phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164))
    return formatted if _E164.fullmatch(formatted) else None


def clean_phone(text: str) -> str:
    """Returns a number without its label and the brackets of its country code, with plain spaces and hyphens."""
    text = re.sub("[\u2010-\u2015\u2212]", "-", " ".join(text.split()))
    text = _LABEL_AFTER.sub("", _LABEL_BEFORE.sub("", text, count=1))
    code = _BRACKETED_CODE.match(text)
    return " ".join((f"{code[1] or code[3]}{code[2] or code[4]}", text[code.end() :].lstrip(" -"))) if code else text


def remove_decimals(text: str) -> str:
    """Returns a cleaned number without the .0 that a spreadsheet has added."""
    decimal = _DECIMAL.fullmatch(text)
    return decimal[1] if decimal else text


def has_decimals(text: str) -> bool:
    """Returns whether a cleaned number ends in .0, as a spreadsheet writes whole numbers."""
    return bool(_DECIMAL.fullmatch(text) or _SPACED_DECIMAL.fullmatch(text))


def count_digits(text: str) -> int:
    return len(re.sub(r"\D", "", text))


def is_one_number(text: str) -> bool:
    """Returns whether a cleaned text has only the characters of one number. The library also accepts others: it reads
    letters as digits of the keypad.
    """
    if not _WRITTEN_NUMBER.fullmatch(text) or _SPACED_DECIMAL.fullmatch(text):
        return False
    area, *groups = _CODE_BEFORE_AREA.sub("", text).split("/")
    if not groups:
        return True
    if len(groups) == 1:
        return 0 < count_digits(area) <= _MAX_AREA_DIGITS and count_digits(groups[0]) >= _MIN_DIGITS_AFTER_AREA
    lengths = ",".join(str(len(group)) if group.isdecimal() else "-" for group in groups)
    return 0 < count_digits(area) <= _MAX_AREA_DIGITS and bool(_SLASHED_GROUPS.fullmatch(lengths))


def normalize_international(text: str) -> str | None:
    """Returns a number with its own country code in the form E.164, or None if it is not certain. Removing punctuation
    is certain; a zero after the country code, or 00 in place of the plus sign, only if the library finds the number valid.
    """
    text = remove_decimals(clean_phone(text))
    if not text.startswith(("+", "00")) or not is_one_number(text) or text.count("(") > 1:
        return None
    with_plus = re.sub("^00", "+", text)
    digits = _remove_punctuation(_BRACKETED_ZERO.sub("", with_plus))
    if not _E164.fullmatch(digits):
        return None
    if load_library() is not None and (number := format_valid(with_plus, None)):
        return number
    is_plain = text.startswith("+") and "/" not in text and not has_domestic_zero(text)
    return digits if text == digits or (is_plain and not is_too_long(digits)) else None


def _remove_punctuation(text: str) -> str:
    return "+" + re.sub(r"\D", "", text)


def has_domestic_zero(text: str) -> bool:
    """Returns whether an international number has the zero for calls within its country."""
    return bool(_BRACKETED_ZERO.search(text) or _DOMESTIC_ZERO.match(_remove_punctuation(re.sub("^00", "+", text))))


def is_too_long(number: str) -> bool:
    """Returns whether a number in the form E.164 has more digits than its country's numbers, such as an extension."""
    phonenumbers = load_library()
    if phonenumbers is not None:
        try:
            length = phonenumbers.is_possible_number_with_reason(phonenumbers.parse(number))
        except phonenumbers.NumberParseException:
            return True
        return bool(length == phonenumbers.ValidationResult.TOO_LONG)
    return any(number.startswith(f"+{code}") and len(number) > len(code) + 1 + max(LENGTHS[code]) for code in LENGTHS)


def find_country_code(region: str) -> str:
    return str(require_library().country_code_for_region(region))


def begins_with_zero(region: str) -> bool:
    """Returns whether the numbers of a country are written with a first 0 that is not part of the international form."""
    phonenumbers = require_library()
    metadata = phonenumbers.PhoneMetadata.metadata_for_region(region)
    if metadata is None or metadata.national_prefix != "0":
        return False
    # Brazil has this zero, but writes numbers without it.
    number = phonenumbers.example_number(region)
    usual_text = phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.NATIONAL) if number else ""
    return usual_text.lstrip("(").startswith("0")


def read_national(text: str, region: str) -> str | None:
    """Returns a number without a plus sign in the form E.164, or None if it is not certainly a number of the country. The
    number may also begin with the country's own code.
    """
    text = remove_decimals(clean_phone(text))
    if text.startswith("+") or not is_one_number(text):
        return None
    digits = re.sub(r"\D", "", text)
    number = format_valid(text, region)
    if digits.startswith("0"):
        return number
    code = find_country_code(region)
    with_plus = format_valid(f"+{digits}", None)
    if with_plus is not None and digits.startswith(code):
        is_too_long_without_code = len(digits) > min(MAX_NATIONAL_DIGITS, _find_max_digits(region))
        if number in (None, with_plus) or len(digits) > MAX_NATIONAL_DIGITS:
            return with_plus if is_too_long_without_code or number == with_plus else None
        return None
    if code == "1":
        groups = ",".join(str(len(group)) for group in re.findall(r"\d+", text))
        return number if _NORTH_AMERICAN_GROUPS.fullmatch(groups) else None
    if not begins_with_zero(region):
        return None if with_plus is not None and region in _HAS_MANY_LENGTHS else number
    # A spreadsheet has removed the zero only if there is no separator. Otherwise, the number may be another country's.
    may_lack_zero = text == digits or region in _ZERO_IS_OPTIONAL
    return number if may_lack_zero and with_plus is None else None


def _find_max_digits(region: str) -> int:
    metadata = require_library().PhoneMetadata.metadata_for_region(region)
    return int(max(metadata.general_desc.possible_length))
