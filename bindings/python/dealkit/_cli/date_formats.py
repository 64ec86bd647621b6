"""Formats of dates: their notations, strict parsing, and the evidence of a column for its formats.

Whether 3/4/1990 is in March or in April follows only from other cells of the column, and is otherwise uncertain.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from typing import NamedTuple

# The names and abbreviations of the months in English, German, French, Spanish, Italian, Portuguese and Dutch, without
# accents. `strptime` knows only the names in the language of the process.
_MONTH_NAMES = (
    "jan january januar janner jaenner jan. janv janvier ene enero gen gennaio janeiro januari",
    "feb february februar feber fev fevr fevrier febrero febbraio fevereiro februari",
    "mar march marz maerz mrz mars marzo marco mrt maart",
    "apr april avr avril abr abril aprile",
    "may mai mayo mag maggio maio mei",
    "jun june juni juin junio giu giugno junho",
    "jul july juli juil juillet julio lug luglio julho",
    "aug august aout ago agosto augustus",
    "sep sept september septembre septiembre setiembre set sett settembre setembro",
    "oct october okt oktober octobre octubre ott ottobre out outubro",
    "nov november novembre noviembre novembro",
    "dec december dez dezember decembre dic diciembre dicembre dezembro",
)
_MONTHS = {name: number for number, names in enumerate(_MONTH_NAMES, 1) for name in names.split()}

# Letters for a part of a date in English, German and Dutch, French, Spanish and Italian spreadsheets.
_DIRECTIVES = {
    "d": "%d",
    "dd": "%d",
    "t": "%d",
    "tt": "%d",
    "j": "%d",
    "g": "%d",
    "gg": "%d",
    "m": "%m",
    "mm": "%m",
    "mmm": "%b",
    "mmmm": "%B",
    "yy": "%y",
    "aa": "%y",
    "yyyy": "%Y",
    "aaaa": "%Y",
    "jjjj": "%Y",
    "de": "de",
}
_NOTATIONS = {"%d": "DD", "%m": "MM", "%b": "MMM", "%B": "MMMM", "%y": "YY", "%Y": "YYYY"}
_TIME_NOTATION = re.compile(r"[ T]h{1,2}:mm(:ss)?( ?(am/pm|a/p|tt))?$", re.IGNORECASE)
_SAMPLE_DATE = date(1987, 6, 5)

# The time after a date, if it is midnight, as databases and spreadsheets write it.
_MIDNIGHT = re.compile(r"(?:[ T]|, )(?:0{1,2}:00(?::00(?:[.,]0+)?)?(?: ?am)?|12:00(?::00)? ?a\.?m\.?)(?: ?Z)?$", re.IGNORECASE)
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_NUMERIC_DATE = re.compile(r"(\d{1,4})([./-])(\d{1,2})\2(\d{1,4})")
_COMPACT_DATE = re.compile(r"(?:19|20)\d{6}")
_SPACED_SEPARATOR = re.compile(r"(?<=\d) ?([./-]) ?(?=\d)")

# Dates for zero: written by databases, and by spreadsheets for the number 0.
_ZERO_DATES = {(0, 0, 0), (1, 0, 1900), (0, 1, 1900), (1900, 1, 0), (1899, 12, 30), (30, 12, 1899), (12, 30, 1899)}

_DOMINANCE = 20
"""The order with this many times the decisive cells of the other order is the order of the column."""

_MAX_UNDECIDED = 10
"""The maximum number of cells that both orders can read, for each decisive cell. In dates of birth, about 3 of 5 days are
above 12. Much fewer mean typos, or a spreadsheet that has changed the other cells."""


def to_strptime(text: str) -> str:
    """Converts a format such as `DD.MM.YYYY` or `d MMM yyyy` to strptime's notation.

    Raises:
        ValueError: The format has no day, no month or no year, or has unknown parts.
    """
    text = text.strip()
    if "%" in text:
        strptime_format = text
    else:
        text = _TIME_NOTATION.sub("", text)
        # In French, JJ is the day; in German and Dutch, JJ is the year, next to a T or D for the day.
        short_j = "%y" if re.search("[td]", text, re.IGNORECASE) else "%d"
        directives = {**_DIRECTIVES, "jj": short_j}
        try:
            strptime_format = re.sub(r"[^\W\d_]+", lambda match: directives[match[0].lower()], text)
        except KeyError:
            raise ValueError("a date format has unknown letters") from None
    numeric_format = _to_numeric(strptime_format)
    # A format without a day, a month or a year does not reproduce the sample date.
    if len(re.findall("%[dmbByY]", strptime_format)) > 3 or _parse_numeric(
        _SAMPLE_DATE.strftime(numeric_format), numeric_format
    ) != _SAMPLE_DATE:
        raise ValueError("a date format needs a day, a month and a year")
    return strptime_format


def display_format(strptime_format: str) -> str:
    """Returns the notation in which the command shows a format: `MM/DD/YYYY`."""
    return re.sub("%[dmbByY]", lambda match: _NOTATIONS[match[0]], strptime_format)


def parse_date(text: str, strptime_format: str) -> date | None:
    """Parses a date strictly: the date formatted again is the text, except for leading zeros. A time of midnight may
    follow. A two-digit year is in the past. %b and %B read the names of months in several languages.
    """
    text = " ".join(text.split())
    if not re.search("%[HIMSp]", strptime_format):
        text = _MIDNIGHT.sub("", text)
    if re.search("%[bB]", strptime_format):
        numeric_text = _replace_month_name(text)
        return None if numeric_text is None else _parse_numeric(numeric_text, _to_numeric(strptime_format))
    if " " not in strptime_format:
        text = _SPACED_SEPARATOR.sub(r"\1", text)
    return _parse_numeric(text, strptime_format)


def _parse_numeric(text: str, numeric_format: str) -> date | None:
    try:
        moment = datetime.strptime(text, numeric_format)
    except ValueError:
        return None
    # strptime also accepts dates without separators, such as 199021. Such a date differs from the date formatted again.
    if re.sub(r"\b0+(?=\d)", "", moment.strftime(numeric_format)).casefold() != re.sub(r"\b0+(?=\d)", "", text).casefold():
        return None
    day = moment.date()
    # A date of birth with a two-digit year cannot be in the future.
    return day.replace(year=day.year - 100) if "%y" in numeric_format and day > date.today() else day


def _to_numeric(strptime_format: str) -> str:
    """Returns the format of a date whose month name is replaced by a number, with single spaces as separators."""
    if not re.search("%[bB]", strptime_format):
        return strptime_format
    return " ".join(re.findall("%.", re.sub("%[bB]", "%m", strptime_format)))


def _replace_month_name(text: str) -> str | None:
    """Replaces the name of the month by its number, and separators by single spaces: `31. Dezember 1990` becomes `31 12 1990`.
    Returns None if there is not exactly one name.
    """
    decomposed = unicodedata.normalize("NFKD", text)
    words = re.findall(r"\d+|[^\W\d_]+", "".join(letter for letter in decomposed if not unicodedata.combining(letter)))
    words = [word.casefold() for word in words]
    # Without the words between the parts, and the ordinals of `31st` and `1er`.
    words = [word for word in words if word not in ("de", "del", "of", "the", "st", "nd", "rd", "th", "er", "ter")]
    if re.search(r"[^\w\s.,/'’-]", "".join(letter for letter in decomposed if not unicodedata.combining(letter))):
        return None
    numbers = [str(_MONTHS[word]) if word in _MONTHS else word for word in words]
    names = [word for word in words if not word.isdigit()]
    return " ".join(numbers) if len(names) == 1 and names[0] in _MONTHS else None


def is_zero_date(text: str) -> bool:
    """Returns whether a cell means no date, as 0/0/00 and 00/00/0000 do."""
    text = _MIDNIGHT.sub("", text.strip())
    if re.fullmatch(r"[\s_./-]+", text):
        return True
    parts = re.fullmatch(r"(\d{1,4})[./-](\d{1,2})[./-](\d{1,4})", text)
    return text.strip("0") == "" or (parts is not None and tuple(map(int, parts.groups())) in _ZERO_DATES)


class DateConclusion(NamedTuple):
    """The formats of a column's dates, as far as its cells determine them."""

    formats: list[str]
    """The formats that the cells determine, in strptime's notation. None for dates such as 1990-12-31."""
    uncertain: list[str]
    """The possible formats of cells whose day and month cannot be told from each other."""
    contradicting_rows: list[int]
    """Rows that only the order of a format can read that is not the column's."""


class _Orders:
    """Counts of cells with the same separator, by the orders that can read them."""

    def __init__(self) -> None:
        self.undecided_count = 0
        self.decisive_counts = {"d": 0, "m": 0}


class DateColumn:
    """Evidence about the dates of a column."""

    def __init__(self) -> None:
        self._named_formats: dict[str, None] = {}
        """Formats that only one order can have, in the order of their first cells."""
        self._orders: dict[str, _Orders] = {}
        """By separator."""
        self._ordered_formats: dict[str, dict[str, None]] = {}
        """Formats of day and month in figures, day first, by separator."""
        self._rows_by_only_format: dict[str, array[int]] = {}
        """Rows that a format can read, but not the same format in the other order."""
        self._year_first_separators: set[str] = set()
        """Separators of dates such as 90/12/31, whose order the other two-digit dates may share."""

    def add(self, row: int, text: str) -> None:
        """Adds a cell that is not empty. Cells that are no dates are no evidence."""
        text = _MIDNIGHT.sub("", " ".join(text.split()))


    def conclude(self) -> DateConclusion:
        """Returns the formats that the cells determine."""
        return DateConclusion([], [], [])


def contradicts(formats: Sequence[str], column: DateColumn) -> list[int]:
    """Returns the rows that none of the formats can read, but one of them with day and month swapped can. Then the cells
    that both orders can read are not safe either.
    """
    return []
