"""Any JSON as Python objects, no digit lost."""

import json
from decimal import Decimal, InvalidOperation


def _integer(digits: str) -> int | Decimal | str:
    try:
        return int(digits)
    except ValueError:  # Python makes no int of so many digits.
        return _decimal(digits)


def _decimal(digits: str) -> Decimal | str:
    try:
        return Decimal(digits)
    except InvalidOperation:  # An exponent that no Decimal holds: the text is all there is.
        return digits


def loads(text: str) -> object:
    """Reads a JSON text: ints, Decimals, strings, booleans, None, lists and dicts."""
    return json.loads(text, parse_float=_decimal, parse_int=_integer)
