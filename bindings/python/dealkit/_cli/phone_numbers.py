"""Phone numbers of a table: their conversion, mistakes in cells, and doubts about numbers.

The messages contain no values from the table.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from dealkit._cli.exit_codes import CommandError
from dealkit._cli.phone_countries import PhoneColumn
from dealkit._cli.phone_reading import (
    LENGTHS,
    begins_with_zero,
    clean_phone,
    count_digits,
    find_country_code,
    format_valid,
    has_decimals,
    has_domestic_zero,
    is_one_number,
    is_too_long,
    load_library,
    normalize_international,
    read_national,
    require_library,
)

__all__ = [
    "PhoneColumn",
    "explain_length",
    "explain_phone",
    "is_empty_phone",
    "make_phone_parser",
    "normalize_international",
]

# Long numbers in the notation of spreadsheets, such as 4.9151E+12.
_EXPONENT = re.compile(r"\+?[\d.,]+[eE][+-]?\d+")

_EXTENSION = re.compile(
    r"(?:(?<![^\W\d_])ext(?:n|ension)?\b|(?<![^\W\d_])ext\.?|(?<![^\W\d_])x|#|durchwahl|\bdw\b|\bposte\b|\bint(?:erno)?\b|\banexo\b|\bramal\b|\btoestel\b)[.: ]*\d{1,6}\W*$",
    re.IGNORECASE,
)

# Zeros, or the punctuation of an empty form, as in 000-000-0000, (   ) ___-____ and +1 000 000 0000.
_EMPTY_NUMBER = re.compile(r"[\s().+\-/_0]+|\+?[1-9]\d{0,2}[\s().\-/]*0[\s().\-/0]{6,}")

_MIN_DIGITS, _MAX_DIGITS = 7, 15
_MIN_DIGITS_WITH_COUNTRY = 11
_MAX_LENGTH = 200

_ADD_CODE = "write the plus sign and the country code"
_LOST_PLUS = (
    "begins with a country code but has no plus sign, which spreadsheets remove: write the plus sign again, as text"
)


def make_phone_parser(country: str) -> Callable[[str], str]:
    """Returns a function that formats the phone numbers of a country as +, country code and digits. If the function
    cannot parse a number with certainty, it returns the number unchanged, and validation reports the number.
    """
    phonenumbers = load_library()
    if phonenumbers is None:
        raise CommandError(
            "--phone-country needs phonenumbers, which is not installed here: pip install 'dealkit[phone]'"
        )
    region = country.upper()
    if region not in phonenumbers.SUPPORTED_REGIONS:
        raise CommandError("--phone-country must be a country's code of two letters, such as DE")

    def parse(text: str) -> str:
        return normalize_international(text) or read_national(text, region) or text

    return parse


def is_empty_phone(text: str) -> bool:
    """Returns whether a cell means no number, as 000-000-0000 does."""
    text = text.strip()
    return bool(text) and len(text) <= _MAX_LENGTH and bool(_EMPTY_NUMBER.fullmatch(text))


def explain_length(number: str) -> str | None:
    """Returns the mistake in a number in the form E.164 that is longer or shorter than the numbers of its country, or None.
    Without the library, lengths are not compared. Numbers without an area code, such as +15550100, are no mistakes.
    """
    phonenumbers = load_library()
    if phonenumbers is None or not number.startswith("+"):
        return None
    try:
        length = phonenumbers.is_possible_number_with_reason(phonenumbers.parse(number))
    except phonenumbers.NumberParseException:
        return None
    results = phonenumbers.ValidationResult
    if length == results.TOO_SHORT:
        return "has too few digits for its country: is a digit missing?"
    if length == results.TOO_LONG:
        return "has too many digits for its country: is there a digit too many?"
    if length == results.INVALID_LENGTH:
        return "has too few or too many digits for its country: compare it with the original"
    return None


def explain_phone(text: str, country: str | None) -> str | None:
    """Returns the mistake in a cell that is not one phone number with its country code, with advice, or None if no mistake
    is known.
    """
    text = clean_phone(text[:_MAX_LENGTH])
    digits = re.sub(r"\D", "", text)
    if _EXPONENT.fullmatch(text):
        return "is a number that a spreadsheet has shortened, as in 4.9E+12, so digits are lost: type the number again, as text"
    if has_decimals(text) and len(digits) > _MIN_DIGITS:
        addition = "" if country or text.startswith("+") else ", and add the plus sign and the country code"
        return f"ends in .0, as a spreadsheet writes numbers: remove it{addition}"
    if not digits:
        return "has no digits: write the phone number, or empty the cell" if text else None
    if is_empty_phone(text):
        return "has only zeros: write the phone number, or empty the cell"
    if text.count("+") > 1 or sum(count_digits(part) >= _MIN_DIGITS for part in re.split(r"[^\d\s().+-]+", text)) > 1:
        return "has two phone numbers: keep the one to use"
    if _EXTENSION.search(text):
        return "has an extension, which an agent's number cannot have: remove it"
    if message := _explain_letters(text):
        return message
    has_code = text.startswith(("+", "00"))
    if has_code and has_domestic_zero(text):
        return "has a zero after the country code: remove it, as in +49 30 for +49 (0)30"
    if len(digits) > _MAX_DIGITS or (text.startswith("+") and is_too_long(f"+{digits}")):
        return "has more digits than a phone number: are there two numbers? Keep one"
    if "/" in text and not is_one_number(text):
        return "has a slash, after which a second number may begin: keep one number, without the slash"
    if country and not has_code:
        return _explain_national(text, digits, country.upper())
    if len(digits) < _MIN_DIGITS:
        return "is too short for a phone number: write the whole number, with the area code"
    if text.startswith("00"):
        return "begins with 00: write a plus sign in place of 00"
    if has_code:
        return None
    if not text.startswith("0") and _is_complete(digits):
        return _LOST_PLUS
    return "has no country code: write it with a plus sign, as in +1, or name the country of these numbers (see below)"


def _explain_letters(text: str) -> str | None:
    letters = {letter for letter in text if letter.isalpha()}
    if not letters:
        return None
    if letters <= {*"Oo"}:
        return "has the letter O in place of a zero: write 0"
    if letters <= {*"Il"}:
        return "has a letter in place of a one: write 1"
    return "has letters: write the whole number in digits, without other words"


def _is_complete(digits: str) -> bool:
    """Returns whether digits are a country code and a number of its length, so that only the plus sign is missing."""
    if len(digits) < _MIN_DIGITS_WITH_COUNTRY:
        return False
    if load_library() is not None:
        return format_valid(f"+{digits}", None) is not None
    return any(
        digits.startswith(code) and len(digits) - len(code) in lengths and digits[len(code)] not in "01"
        for code, lengths in LENGTHS.items()
    )


def _explain_national(text: str, digits: str, region: str) -> str:
    """Returns the mistake in a number without a country code that is not certainly one of a country."""
    if not digits.startswith("0") and begins_with_zero(region):
        if text != digits:
            return f"begins neither with a plus sign nor with 0: {_ADD_CODE}"
        if format_valid(f"+{digits}", None) is not None:
            if digits.startswith(find_country_code(region)):
                return _LOST_PLUS
            return f"may have lost its plus sign or its first 0 in a spreadsheet: {_ADD_CODE}"
    if digits.startswith(find_country_code(region)) and _is_complete(digits):
        return _LOST_PLUS
    phonenumbers = require_library()
    results = phonenumbers.ValidationResult
    try:
        length = phonenumbers.is_possible_number_with_reason(phonenumbers.parse(text, region))
    except phonenumbers.NumberParseException:
        length = results.TOO_SHORT if len(digits) < _MIN_DIGITS else results.TOO_LONG
    if length in (results.TOO_SHORT, results.IS_POSSIBLE_LOCAL_ONLY):
        return f"has too few digits for a number of {region}: write the whole number, with the area code"
    foreign = f"for a number of another country, {_ADD_CODE}"
    if length == results.TOO_LONG:
        return f"has too many digits for a number of {region}: correct it, or, {foreign}"
    return f"is not a number of {region}: correct it, or, {foreign}"
