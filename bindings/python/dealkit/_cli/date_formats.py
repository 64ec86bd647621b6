"""Formats of dates: their notations, strict parsing, and the evidence of a column for its formats.

Whether 3/4/1990 is in March or in April follows only from other cells of the column, and is otherwise uncertain.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import NamedTuple

from dealkit._cli.role_words import remove_accents

# The names and abbreviations of the months in English, German, French, Spanish, Italian, Portuguese and Dutch, without
# accents. `strptime` knows only the names in the language of the process.
_MONTH_NAMES = (
    "jan january januar janner jaenner janv janvier ene enero gen gennaio janeiro januari",
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
_EXAMPLE_DATE = date(1990, 12, 31)
_MAX_EXAMPLES = 2

# The time after a date, if it is midnight, as databases and spreadsheets write it.
_MIDNIGHT = re.compile(
    r"(?:[ T]|, )(?:0{1,2}:00(?::00(?:[.,]0+)?)?(?: ?am)?|12:00(?::00)? ?a\.?m\.?)(?: ?Z|[+-]00(?::?00)?)?$",
    re.IGNORECASE,
)
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_YEAR_LAST = re.compile(r"\d{1,2}(?P<separator>[./-])\d{1,2}(?P=separator)(?P<year>\d{4}|\d{2})")
_YEAR_FIRST = re.compile(r"\d{4}(?P<separator>[./-])\d{1,2}(?P=separator)\d{1,2}")
# In such a date, 19 or 20 at the beginning is neither a month nor followed by one, if the end is a year.
_COMPACT_DATE = re.compile(r"(?:19|20)\d{6}")
_COMPACT_FORMATS = ("%Y%m%d",)
_NAMED_FORMATS = ("%d %b %Y", "%b %d, %Y", "%Y %b %d", "%d %b %y", "%b %d, %y")
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
            strptime_format = re.sub(
                r"\bde\b|([^\W\d_])\1*", lambda match: directives[match[0].lower()], text, flags=re.I
            )
        except KeyError:
            raise ValueError("a date format has unknown letters") from None
    directives_found = re.findall("%[a-zA-Z]", strptime_format)
    numeric_format = _to_numeric(strptime_format)
    # A format without a day, a month or a year does not reproduce the sample date. Without a year, strptime also warns.
    if (
        len({*directives_found}) < len(directives_found)
        or not re.search("%[YyGcx]", strptime_format)
        or len(re.findall("%[dmbByY]", strptime_format)) > 3
        or _parse_numeric(_SAMPLE_DATE.strftime(numeric_format), numeric_format) != _SAMPLE_DATE
    ):
        raise ValueError("a date format needs a day, a month and a year, each once")
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
    # strptime raises re.error for a part that occurs twice, as in %c %H.
    except (ValueError, re.error):
        return None
    # strptime also accepts dates without separators, such as 199021. Such a date differs from the date formatted again.
    if (
        re.sub(r"\b0+(?=\d)", "", moment.strftime(numeric_format)).casefold()
        != re.sub(r"\b0+(?=\d)", "", text).casefold()
    ):
        return None
    day = moment.date()
    # A date of birth with a two-digit year cannot be in the future.
    return day.replace(year=day.year - 100) if "%y" in numeric_format and day > date.today() else day


def _to_numeric(strptime_format: str) -> str:
    """Returns the format of a date in which `_replace_month_name` has replaced the month's name, if there is one."""
    if not re.search("%[bB]", strptime_format):
        return strptime_format
    return " ".join(re.findall("%[a-zA-Z]|m%m", re.sub("%[bB]", "m%m", strptime_format)))


# Words between the parts of a date, and the endings of ordinals: `31 de diciembre de 1990`, `1er janvier 1990`, `31st`.
_FILLERS = frozenset(("de", "del", "of", "the", "st", "nd", "rd", "th", "er", "o"))


def _replace_month_name(text: str) -> str | None:
    """Replaces the name of a month by `m` and its number, and all separators by single spaces: `31. Dezember 1990` becomes
    `31 m12 1990`. Returns None if there is no name, or another word.
    """
    text = remove_accents(text).casefold()
    if re.search(r"[^\w\s.,/'’-]", text):
        return None
    words = [word for word in re.findall(r"\d+|[^\W\d_]+", text) if word not in _FILLERS]
    names = [word for word in words if not word.isdigit()]
    if len(names) != 1 or names[0] not in _MONTHS:
        return None
    return " ".join(f"m{_MONTHS[word]:02}" if word in _MONTHS else word for word in words)


def is_zero_date(text: str) -> bool:
    """Returns whether a cell means no date, as 0/0/00 and 00/00/0000 do."""
    text = _MIDNIGHT.sub("", text.strip())
    if re.fullmatch(r"[\s_./-]+", text):
        return True
    parts = re.fullmatch(r"(\d{1,4})[./-](\d{1,2})[./-](\d{1,4})", text)
    return text.strip("0") == "" or (parts is not None and tuple(map(int, parts.groups())) in _ZERO_DATES)


# Dates without a year, as address books write them: --10-27, 27.10. and 10/27.
_NO_YEAR = re.compile(
    r"(?:--\d{1,2}-?|\d{1,2} ?[./-] ?)\d{1,2}\.?|(?:0000|--)[./-]?\d{1,2}[./-]\d{1,2}|\d{1,2}[./-]\d{1,2}[./-]0000"
)
_NO_DAY = re.compile(r"\d{1,2}[./-]\d{4}|\d{4}[./-]\d{1,2}|(?:19|20)\d{2}")
_SERIAL_NUMBER = re.compile(r"\d{5}(?:[.,]\d*)?")
_TIME = re.compile(r"\d ?[T,]? ?\d{1,2}:\d{2}")


def explain_date(text: str, formats: Sequence[str]) -> str:
    """Returns the mistake in a cell that none of the formats can read, with advice."""
    text = " ".join(text.split())
    if _NO_YEAR.fullmatch(text):
        return "has no year: add it, or empty the cell"
    if _NO_DAY.fullmatch(text):
        return "has no day: write the whole date, or empty the cell"
    # `27 m10` without a year, and `m10 1990` without a day.
    if (numeric_text := _replace_month_name(text)) and (parts := re.findall(r"\bm?\d+", numeric_text)):
        numbers = [part for part in parts if not part.startswith("m")]
        if len(numbers) == 1:
            missing = "day: write the whole date" if len(numbers[0]) == 4 else "year: add it"
            return f"has no {missing}, or empty the cell"
    if _SERIAL_NUMBER.fullmatch(text):
        return "is a number, as a spreadsheet stores dates: type the date"
    if _TIME.search(_MIDNIGHT.sub("", text)):
        return "has a time: write only the date"
    examples = dict.fromkeys(format_example(date_format) for date_format in (formats or ("%Y-%m-%d",)))
    shown_examples = " or ".join([*examples][:_MAX_EXAMPLES])
    return f"is not a date in the form {shown_examples}, or this day does not exist"


def format_example(strptime_format: str) -> str:
    """Returns 31 December 1990 in a format, in English in every language of the process."""
    english_format = strptime_format.replace("%b", "Dec").replace("%B", "December")
    return _EXAMPLE_DATE.strftime(english_format)


def is_order_certain(strptime_format: str) -> bool:
    """Returns whether a format leaves no doubt about the order of day and month: with the name of the month, four digits of
    the year in front, or dots between a day and a following month.
    """
    return not re.fullmatch(r"%d[^.%]*%m[^.%]*%[yY]|%m[^%]*%d[^%]*%[yY]|%y[^%]*%[dm][^%]*%[dm]", strptime_format)


class DateConclusion(NamedTuple):
    """The formats of a column's dates, as far as its cells determine them."""

    formats: list[str]
    """The formats that the cells determine, in strptime's notation. None for dates such as 1990-12-31."""
    uncertain: list[str]
    """The possible formats of cells whose day and month cannot be distinguished."""
    contradicting_rows: list[int]
    """Rows that only the order can read that is not the column's."""


class _DayAndMonth:
    """Evidence of the dates in figures that have the same separator and end with the year."""

    def __init__(self, separator: str) -> None:
        self.separator = separator
        self.years: dict[str, None] = {}
        """%Y and %y, if there are such dates."""
        self.undecided_count = 0
        """The number of dates that both orders can read, and read differently."""
        self.rows_by_format: dict[str, array[int]] = {}
        """The rows that only this format can read, and not the same format in the other order."""
        self.may_begin_with_year = False
        """There is a date such as 90/12/31, so 05/03/04 may also begin with the year."""

    def format(self, order: str, year: str) -> str:
        """Returns the format in an order: `dm` or `md`."""
        return self.separator.join((f"%{order[0]}", f"%{order[1]}", year))

    def add(self, row: int, text: str, year: str) -> None:
        all_dates = {order: parse_date(text, self.format(order, year)) for order in _ORDERS}
        dates = {order: day for order, day in all_dates.items() if day is not None}
        if not dates:
            year_first = self.separator.join(("%y", "%m", "%d"))
            self.may_begin_with_year |= parse_date(text, year_first) is not None
            return
        self.years.setdefault(year)
        if len(dates) == 1:
            self.rows_by_format.setdefault(self.format(next(iter(dates)), year), array("q")).append(row)
        elif len({*dates.values()}) > 1:
            self.undecided_count += 1

    def find_order(self) -> str | None:
        """Returns the order that the dates determine, or None."""
        counts = {order: len(self.rows(order)) for order in _ORDERS}
        if self.separator == ".":
            # Dates with dots exist only in the order day, month, year, unless the column proves the opposite.
            return "dm" if counts["dm"] >= _DOMINANCE * counts["md"] else None
        order, other = sorted(_ORDERS, key=lambda order: -counts[order])
        is_determined = (
            counts[order] > 0
            and counts[order] >= _DOMINANCE * counts[other]
            and counts[order] * _MAX_UNDECIDED >= self.undecided_count
        )
        return order if is_determined else None

    def count_cells(self, order: str) -> int:
        """Returns the number of cells that an order can read."""
        return len(self.rows(order)) + self.undecided_count

    def rows(self, order: str) -> list[int]:
        """Returns the rows that only this order can read."""
        return [row for year in self.years for row in self.rows_by_format.get(self.format(order, year), ())]


_ORDERS = ("dm", "md")


class DateColumn:
    """Evidence about the dates of a column."""

    def __init__(self) -> None:
        self._unambiguous: dict[str, None] = {}
        """Formats with the year first or the name of the month, in the order of their first cells."""
        self._by_separator: dict[str, _DayAndMonth] = {}

    def add(self, row: int, text: str) -> None:
        """Adds a cell that is not empty. A cell that is not a date is no evidence."""
        text = " ".join(text.split())
        if _ISO_DATE.fullmatch(text) or is_zero_date(text):
            return
        day = _SPACED_SEPARATOR.sub(r"\1", _MIDNIGHT.sub("", text))
        if parts := _YEAR_LAST.fullmatch(day):
            separator, year = parts["separator"], "%Y" if len(parts["year"]) == 4 else "%y"
            self._by_separator.setdefault(separator, _DayAndMonth(separator)).add(row, day, year)
            return
        if parts := _YEAR_FIRST.fullmatch(day):
            candidates: Sequence[str] = (parts["separator"].join(("%Y", "%m", "%d")),)
        else:
            candidates = _COMPACT_FORMATS if _COMPACT_DATE.fullmatch(day) else _NAMED_FORMATS
        if date_format := next((candidate for candidate in candidates if parse_date(day, candidate)), None):
            self._unambiguous.setdefault(date_format)

    def conclude(self) -> DateConclusion:
        """Returns the formats that the cells determine. If cells with different separators determine different orders,
        only the order of most cells counts.
        """
        formats, uncertain, contradicting_rows = [*self._unambiguous], list[str](), list[int]()
        orders = {separator: dates.find_order() for separator, dates in self._by_separator.items()}
        rejected_orders = self._find_rejected_orders(orders)
        for separator, dates in self._by_separator.items():
            order = orders[separator]
            # With dots, the day comes first in any case.
            if order in rejected_orders and (separator, order) != (".", "dm"):
                if len(rejected_orders) < len(_ORDERS):
                    contradicting_rows.extend(dates.rows(order))
                    if dates.undecided_count == 0:
                        continue
                order = None
            for year in dates.years:
                possible = [dates.format(possible_order, year) for possible_order in _ORDERS]
                if year == "%y" and dates.may_begin_with_year:
                    uncertain.extend((*possible, separator.join(("%y", "%m", "%d"))))
                elif order is None:
                    uncertain.extend(possible)
                else:
                    formats.append(dates.format(order, year))
            if order is not None:
                contradicting_rows.extend(dates.rows(order[::-1]))
        return DateConclusion([*dict.fromkeys(formats)], [*dict.fromkeys(uncertain)], sorted({*contradicting_rows}))

    def _find_rejected_orders(self, orders: Mapping[str, str | None]) -> set[str]:
        """Returns the orders that cells with some separators determine, but that more cells contradict. If as many cells
        determine each order, both are rejected.
        """
        counts = Counter[str]()
        for separator, order in orders.items():
            if order is not None:
                counts[order] += self._by_separator[separator].count_cells(order)
        most = max(counts.values(), default=0)
        best = [order for order, count in counts.items() if count == most]
        return {*counts}.difference(best if len(best) == 1 else ()) if len(counts) > 1 else set()

    def rows_with_only(self, strptime_format: str) -> Sequence[int]:
        """Returns the rows that a format in figures can read, and its other order cannot."""
        found = (dates.rows_by_format.get(strptime_format) for dates in self._by_separator.values())
        return next((rows for rows in found if rows), ())


def order_support(formats: Sequence[str], column: DateColumn) -> tuple[int, list[int]]:
    """Returns the number of cells that only the order of these formats can read, and the rows that only the swapped order of
    day and month can read. If there are such rows, dates that both orders can read are not safe either.
    """
    swapped = {re.sub("%[dm]", lambda match: "%m" if match[0] == "%d" else "%d", name) for name in formats}
    count = sum(len(column.rows_with_only(name)) for name in {*formats} - swapped)
    return count, sorted(row for name in swapped.difference(formats) for row in column.rows_with_only(name))


def contradicts(formats: Sequence[str], column: DateColumn) -> list[int]:
    """Returns the rows that the formats cannot read, but one of them with day and month exchanged can."""
    return order_support(formats, column)[1]
