"""Hypothesis strategies for documents that conform to a schema in openapi.json, with many boundary values."""

from __future__ import annotations

import json
import re
from typing import Any

from conftest import CONTRACT
from hypothesis import strategies as st

COMPONENTS = json.loads((CONTRACT / "openapi.json").read_text())["components"]

Texts = st.SearchStrategy[str]

# Strings that often cause bugs: empty, control characters, line separators, characters outside the basic plane, markup.
UNUSUAL_TEXTS = [
    "", " ", "null", "0", "CLOSED", "\0", "\x7f", "a\nb", '"', "\\", "\\u0000", "/", "~0", "é", "e\u0301", "\u2028", "\ufeff",
    "\ufffd", "\uffff", "😀", "👩‍👩‍👧", "\u202e", "<b>&amp;", "{}", "$serde_json::private::RawValue", "x" * 300,
]  # fmt: skip

# Names of undocumented fields. Some are field names of other schemas, or special names in Python or Rust.
UNDOCUMENTED_NAMES = [
    *UNUSUAL_TEXTS, "id", "extra", "self", "class", "__class__", "__dict__", "to_json", "type", "metadata", "Id", "contact_schema_id",
]  # fmt: skip

# Unusual JSON values for undocumented fields, such as numbers that fit no number type, and nesting deeper than parsers
# allow.
UNUSUAL_JSON = [
    "null", "true", "false", "0", "-0", "0.0", "-0.0", "1E400", "-1e-400", "9" * 400, "0." + "1" * 400, "9007199254740993",
    "1" * 30, '"2024-02-30"', '"\\ud83d\\ude00"', "[]", "{}", "[null]", '{"": {"": [[], {}]}}', "[" * 140 + "]" * 140,
    '{"a":' * 140 + "null" + "}" * 140,
]  # fmt: skip


def document_texts(schema: str | dict[str, Any]) -> Texts:
    """Returns a strategy for the JSON texts of documents that conform to a schema, or to the schema with this name."""
    match schema:
        case str(name):
            return document_texts(COMPONENTS["schemas"][name])
        case {"$ref": reference}:
            return document_texts(reference.rpartition("/")[2])
        case {"oneOf": kinds}:
            return st.one_of(*map(document_texts, kinds))
        case {"enum": values}:
            return st.sampled_from(values).map(json.dumps)
        case {"type": [kind, "null"]}:
            return document_texts({**schema, "type": kind}) | st.just("null")
        case {"type": "object"}:
            return object_texts(schema)
        case {"type": "array", "items": items}:
            return st.lists(document_texts(items), min_size=schema.get("minItems", 0), max_size=3).map(
                lambda elements: f"[{','.join(elements)}]"
            )
        case {"type": "null"}:
            return st.just("null")
        case {"type": "boolean"}:
            return st.sampled_from(["true", "false"])
        case {"type": "integer", "minimum": least, "maximum": most}:
            return st.integers(least, most).map(str)
        case {"type": "integer", "format": "int64"}:
            # JSON Schema counts a number without a fractional part as an integer, even in decimal or exponent notation.
            integers = st.integers(-(2**63), 2**63 - 1).map(str)
            return (
                integers
                | st.builds("{}.{}".format, integers, zero_digits)
                | st.builds(add_exponent, integers, decimal_places)
            )
        case {"type": "number", "format": "decimal"}:
            return decimal_texts()
        case {"type": "string"}:
            return st.builds(json.dumps, string_values(schema), ensure_ascii=st.booleans())
    raise AssertionError(f"a schema without documents: {schema}")


def object_texts(schema: dict[str, Any]) -> Texts:
    known = {name: document_texts(field) for name, field in schema.get("properties", {}).items()}
    required = {name: known.pop(name) for name in schema.get("required", ())}
    others = schema.get("additionalProperties", True)
    undocumented = st.dictionaries(
        st.sampled_from([name for name in UNDOCUMENTED_NAMES if name not in schema.get("properties", {})]),
        st.sampled_from(UNUSUAL_JSON) if others is True else document_texts(others),
        max_size=2,
    )

    def written(fields: dict[str, str], more: dict[str, str], space: str) -> str:
        members = [f"{json.dumps(name)}{space}:{space}{value}" for name, value in {**more, **fields}.items()]
        return f"{space}{{{space}{f'{space},'.join(members)}}}{space}"

    fields = st.fixed_dictionaries(required, optional=known)
    return st.builds(written, fields, undocumented, st.sampled_from(["", " ", "\n\t", "\r\n"]))


def string_values(schema: dict[str, Any]) -> Texts:
    match schema:
        case {"format": "date"}:
            return st.dates().map(str)
        case {"format": "date-time", "then": {"not": {"pattern": excluded}}}:
            time = (
                r"[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,13})?([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
            )
            instants = st.builds("{}{}".format, st.dates(), st.from_regex(time, fullmatch=True))
            return instants.filter(lambda instant: not re.search(excluded, instant))
        case {"format": "idn-email"}:
            return st.sampled_from(["ada@example.com", "élise@bücher.example", '"a b"@example.com', "a@[192.0.2.1]"])
        case {"format": "uri-reference"}:
            return st.sampled_from(
                ["", "about:blank", "urn:dealkit:problem:invalid-agent", "/1", "https://a.example/?b#c"]
            )
        case {"pattern": pattern}:
            return st.from_regex(pattern, fullmatch=True)
    least, most = schema.get("minLength", 0), schema.get("maxLength", 300)
    return st.text(min_size=least, max_size=most) | st.sampled_from(
        [text for text in UNUSUAL_TEXTS if least <= len(text) <= most]
    )


decimal_places, zero_digits = st.integers(0, 28), st.from_regex("0{1,9}", fullmatch=True)


@st.composite
def decimal_texts(draw: Any) -> str:
    """Draws a number with at most 28 digits, both as written and without its exponent."""
    digits, sign = str(draw(st.integers(0, 10**28 - 1))), draw(st.sampled_from(["", "-"]))
    after = draw(st.integers(len(digits) - 28, 28))
    if after >= 0 and draw(st.booleans()):
        return f"{sign}{insert_point(digits, after)}"
    # Moves the decimal point, and adds the exponent that compensates for it.
    shown = draw(decimal_places)
    exponent = draw(st.sampled_from(["e{}", "E{}", "e{:+}"])).format(shown - after)
    return f"{sign}{insert_point(digits, shown)}{exponent}"


def add_exponent(integer: str, places: int) -> str:
    sign, digits = integer[: -len(integer.lstrip("-"))], integer.lstrip("-")
    return f"{sign}{insert_point(digits, places)}e{places}"


def insert_point(digits: str, places: int) -> str:
    """Inserts a decimal point before the last `places` digits."""
    if places == 0:
        return digits
    digits = digits.rjust(places + 1, "0")
    return f"{digits[:-places]}.{digits[-places:]}"
