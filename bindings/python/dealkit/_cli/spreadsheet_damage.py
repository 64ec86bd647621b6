"""Detects text that spreadsheets, wrong encodings or copying have damaged. The messages contain no values from the
table.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from datetime import date
from typing import NamedTuple

from dealkit._cli.agent_fields import METADATA


class Damage(NamedTuple):
    """Likely damage to a cell."""

    kind: str
    message: str
    is_certain: bool = False
    """True if text is certainly lost. Such a row is sent only after a person confirms it."""


# Error values in the languages of Excel, LibreOffice and Google Sheets: #N/A, #NV, #REF!, #BEZUG!, #¡VALOR!, #NOM?,
# #DIV/0!, Err:502. Also the number signs that replace a number wider than its column.
_SPREADSHEET_ERROR = re.compile(r"#[^\W\d_]/[^\W\d_]|#NV|#[¡¿]?[^\W\d_a-z]+(/0)?[!?]|#GETTING_DATA|#{3,}|Err:\d{3}")

# ASCII text without question marks and symbols. Such text needs no further checks.
_ORDINARY_TEXT = re.compile(r"[ !-*,-;@-{}]*")

# Question marks in place of letters that an encoding lacks: ?ukasz, Jos?, ????.
_LOST_LETTER = re.compile(r"\?[^\W\d_]|[^\W\d_]\?|\?\?")

# Characters that may be garbled: UTF-8 bytes of one letter, decoded in a code page, are at least two characters outside
# ASCII.
_NON_ASCII_TEXT = re.compile(r"[^\x00-\x7f]{2,}")
# The UTF-8 bytes of à become Ã and a no-break space, which is then trimmed at the end of a cell.
_CUT_OFF_LETTER = re.compile(r"[a-z]Ã$")
_CODE_PAGES = ("cp1252", "cp1250", "mac_roman", "cp850", "cp437")

_FREQUENT_LATIN_LETTERS = re.compile(r"[\u00a0-\u017f\u2010-\u20cf\ufb00-\ufb06]+")
_FREQUENT_CHARACTERS = re.compile(
    r"[\u00a0-\u017f\u0218-\u021b\u0370-\u045f\u05d0-\u06ff\u1e00-\u20cf\ufb00-\ufb06\ufffd\U0001f300-\U0001faff]+"
)

# Keys that a spreadsheet has formatted as numbers, such as 1.23457E+14 and 123.0.
_EXPONENT_KEY = re.compile(r"\d+([.,]\d+)?E[+-]\d+", re.IGNORECASE)
_DECIMAL_KEY = re.compile(r"\d+[.,]0+")

# Zero-width joiners and non-joiners: invisible, but Persian, Indian scripts and emoji need them.
_JOINERS = "\u200c\u200d"

_NAME_FIELDS = ("first_name", "last_name")

# Fields with legitimate question marks, because URLs have queries.
_QUESTION_MARK_FIELDS = ("profile.image_url",)

_MIN_AGE, _MAX_AGE = 16, 100


def find_damage(field: str, text: str) -> Iterator[Damage]:
    """Detects likely damage to the text of a field. `field` is empty for a key in a column that is not sent."""
    if _SPREADSHEET_ERROR.fullmatch(text):
        yield Damage("spreadsheet error", "is an error of a spreadsheet, such as #N/A: correct the cell", True)
        return
    if field == "date_of_birth":
        yield from _check_age(text)
    if _ORDINARY_TEXT.fullmatch(text):
        return
    if "\ufffd" in text:
        yield Damage("lost letter", "contains U+FFFD, which stands for a letter that was lost: correct the cell", True)
    is_note = field.startswith(METADATA)
    if not is_note and field not in _QUESTION_MARK_FIELDS and _LOST_LETTER.search(text):
        yield Damage("question mark", "has a question mark at a letter: has the table lost a letter there?")
    categories = {letter: unicodedata.category(letter) for letter in text if letter != "\ufffd"}
    if any(map(_is_mojibake, _NON_ASCII_TEXT.findall(text))) or _CUT_OFF_LETTER.search(text):
        yield Damage(
            "encoding", "looks garbled, as UTF-8 does in another encoding: has the table the right --encoding?"
        )
    elif field in _NAME_FIELDS and not {*categories.values()}.isdisjoint(("Sm", "Sc", "So", "No")):
        yield Damage("symbol", "contains a symbol, which few names have: has the table the right --encoding?")
    controls = {letter for letter, category in categories.items() if category == "Cc"}
    if is_note:
        controls -= {*"\t\n\r"}
    if any(letter >= "\x80" for letter in controls):
        yield Damage(
            "C1",
            "contains control characters, as Windows' quotation marks do in another encoding: try --encoding cp1252",
        )
    elif controls:
        yield Damage("control", "contains line breaks or other control characters: remove them")
    if any(category in ("Cf", "Co", "Zl", "Zp") and letter not in _JOINERS for letter, category in categories.items()):
        yield Damage("format", "contains invisible characters: type the text again")


def find_key_damage(key: str) -> Iterator[Damage]:
    """Detects keys that a spreadsheet has formatted as numbers."""
    if _EXPONENT_KEY.fullmatch(key):
        yield Damage("exponent", "has an exponent, as a spreadsheet writes long numbers: use the whole number")
    elif _DECIMAL_KEY.fullmatch(key):
        yield Damage("decimal", "ends in .0, as a spreadsheet writes numbers: use the number without it")


def _is_mojibake(letters: str) -> bool:
    """Returns whether characters are UTF-8 bytes that were decoded in a code page, such as Ã© for é."""
    for page in _CODE_PAGES:
        try:
            decoded = letters.encode(page).decode()
        except UnicodeError:
            continue
        # Undamaged adjacent capitals, as in Polish, may be valid UTF-8 bytes by chance. But such bytes rarely decode to
        # frequent letters.
        frequent_letters = _FREQUENT_CHARACTERS if page == "cp1252" else _FREQUENT_LATIN_LETTERS
        if frequent_letters.fullmatch(decoded) or (page == "cp1252" and len(decoded) > 1 and decoded.isprintable()):
            return True
    return False


def _check_age(text: str) -> Iterator[Damage]:
    try:
        birth_date = date.fromisoformat(text)
    except ValueError:
        return  # validation reports the date
    today = date.today()
    age = today.year - birth_date.year - ((today.month, today.day) < (birth_date.month, birth_date.day))
    if age > _MAX_AGE:
        yield Damage("age", f"makes the agent older than {_MAX_AGE}: is the year right?")
    elif age < _MIN_AGE:
        yield Damage("age", f"makes the agent younger than {_MIN_AGE}: is the year right?")
