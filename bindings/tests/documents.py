"""Random documents that conform to a schema in openapi.json, with a preference for the limits of its rules."""

from __future__ import annotations

import json
from random import Random
from typing import Any

# Text that has caused trouble somewhere: empty, control characters, line separators, beyond the basic plane, markup.
TEXTS = [
    "", " ", "null", "0", "CLOSED", "\0", "\x7f", "a\nb", '"', "\\", "\\u0000", "/", "~0", "é", "e\u0301", "\u2028", "\ufeff",
    "\ufffd", "\uffff", "😀", "👩‍👩‍👧", "\u202e", "<b>&amp;", "{}", "$serde_json::private::RawValue", "x" * 300,
]  # fmt: skip

# Names of undocumented fields; some are names in other schemas, in Python or in Rust.
NAMES = [
    *TEXTS, "id", "extra", "self", "class", "__class__", "__dict__", "to_json", "type", "metadata", "Id", "contact_schema_id",
]  # fmt: skip

# JSON that no schema knows: numbers that fit no other number type, and nesting deeper than any reader recurses.
ANYTHING = [
    "null", "true", "false", "0", "-0", "0.0", "-0.0", "1E400", "-1e-400", "9" * 400, "0." + "1" * 400, "9007199254740993",
    "1" * 30, '"2024-02-30"', '"\\ud83d\\ude00"', "[]", "{}", "[null]", '{"": {"": [[], {}]}}', "[" * 140 + "]" * 140,
    '{"a":' * 140 + "null" + "}" * 140,
]  # fmt: skip

DATES = ["0001-01-01", "0004-02-29", "1582-10-10", "1900-02-28", "1970-01-01", "2000-02-29", "2024-12-31", "9999-12-31"]
TIMES = [
    "00:00:00", "23:59:59", "09:30:00.5", "12:00:00.000000001", "23:59:59.999999999", "08:15:30.120", "10:00:00.1234567890123",
]  # fmt: skip
OFFSETS = ["Z", "z", "+00:00", "-00:00", "+14:00", "-12:00", "+05:30", "+23:59", "-23:59"]

# The digits of decimal numbers: zero, a few, and as many as there can be.
DIGITS = ["0", "1", "5", "10", "9" * 28, "1" + "0" * 27]

# Strings that match the patterns in the schemas. A new pattern needs a row.
MATCHES = {
    "^[!-~]+$": ["!", "~", "import-42", '"\\', "x" * 128],
    "^(/([^~/]|~[01])*)*$": ["", "/", "/email", "/profile/client~1meta~0data", "/é/😀", "//", "/profile/ /0"],
}


class Documents:
    """Random documents. The same seed produces the same ones."""

    def __init__(self, schemas: dict[str, Any], seed: int) -> None:
        self._schemas = schemas
        self._random = Random(seed)

    def make(self, name: str) -> str:
        """The text of a document that conforms to the schema of that name."""
        # How many of the optional fields are present: none, all, or something in between.
        self._fullness = self._random.choice([0.0, 0.5, 0.9, 1.0])
        return self._value(self._schemas[name])

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _value(self, schema: dict[str, Any]) -> str:
        if "$ref" in schema:
            return self._value(self._schemas[schema["$ref"].rpartition("/")[2]])
        if "oneOf" in schema:
            return self._value(self._random.choice(schema["oneOf"]))
        if "enum" in schema:
            return json.dumps(self._random.choice(schema["enum"]))
        types = schema["type"]
        kind = types if isinstance(types, str) else types[0]
        if "null" in types and (kind == "null" or self._chance(0.15)):
            return "null"
        match kind:
            case "object":
                return self._object(schema)
            case "array":
                count = max(schema.get("minItems", 0), self._random.choice([0, 1, 1, 2, 3]))
                return "[" + ",".join(self._value(schema["items"]) for _ in range(count)) + "]"
            case "string":
                return self._written(self._string(schema))
            case "integer":
                return self._integer(schema)
            case "number":
                assert schema["format"] == "decimal"
                return self._decimal()
            case "boolean":
                return self._random.choice(["true", "false"])
            case _:
                raise AssertionError(f"a type without documents: {kind}")

    def _object(self, schema: dict[str, Any]) -> str:
        known = schema.get("properties", {})
        fields = {
            name: self._value(field)
            for name, field in known.items()
            if name in schema.get("required", ()) or self._chance(self._fullness)
        }
        others = schema.get("additionalProperties", True)
        for _ in range(self._random.choice([0, 0, 0, 1, 2])):
            name = self._random.choice(NAMES)
            if name not in known:
                fields[name] = self._anything() if others is True else self._value(others)
        written = [f"{self._written(name)}{self._space()}:{self._space()}{value}" for name, value in fields.items()]
        self._random.shuffle(written)
        return "{" + self._space() + ",".join(written) + "}"

    def _anything(self) -> str:
        return self._written(self._text()) if self._chance(0.3) else self._random.choice(ANYTHING)

    def _string(self, schema: dict[str, Any]) -> str:
        match schema.get("format"):
            case "date":
                return self._date()
            case "date-time":
                return self._instant()
            case "idn-email":
                return self._random.choice(
                    ["ada@example.com", "élise@bücher.example", '"a b"@example.com', "a@[192.0.2.1]"]
                )
            case "uri-reference":
                return self._random.choice(
                    ["", "about:blank", "urn:dealkit:problem:invalid-agent", "/problems/1", "https://a.example/?b#c"]
                )
            case None if "pattern" in schema:
                return self._random.choice(MATCHES[schema["pattern"]])
            case None:
                text = self._text()[: schema.get("maxLength")]
                return text if len(text) >= schema.get("minLength", 0) else "x" * schema["minLength"]
            case unknown:
                raise AssertionError(f"a format without documents: {unknown}")

    def _text(self) -> str:
        if self._chance(0.5):
            return self._random.choice(TEXTS)
        # Any code points except surrogates, which are not characters.
        points = (
            self._random.choice([self._random.randrange(0xD800), self._random.randrange(0xE000, 0x110000)])
            for _ in range(5)
        )
        return "".join(map(chr, points))

    def _date(self) -> str:
        if self._chance(0.5):
            return self._random.choice(DATES)
        year, month, day = self._random.randint(1, 9999), self._random.randint(1, 12), self._random.randint(1, 28)
        return f"{year:04}-{month:02}-{day:02}"

    def _instant(self) -> str:
        date, offset = self._date(), self._random.choice(OFFSETS)
        if (date == "0001-01-01" and offset[0] == "+") or (date == "9999-12-31" and offset[0] == "-"):
            offset = "Z"
        return date + self._random.choice("Tt") + self._random.choice(TIMES) + offset

    def _integer(self, schema: dict[str, Any]) -> str:
        if "minimum" in schema:
            return str(self._random.randint(schema["minimum"], schema["maximum"]))
        assert schema["format"] == "int64"
        largest = 2**63 - 1
        value = self._random.choice(
            [0, 1, -1, 2**53 + 1, largest, -largest - 1, self._random.randint(-largest, largest)]
        )
        # JSON Schema treats a number without a fraction as an integer, however it is written.
        sign, digits = ("-" if value < 0 else ""), str(abs(value))
        match self._random.choice(["plain", "fraction", "exponent"]):
            case "fraction":
                return f"{sign}{digits}.{'0' * self._random.randint(1, 28 - len(digits))}"
            case "exponent":
                places = self._random.randint(0, 28)
                return f"{sign}{pointed(digits, places)}{self._random.choice('eE')}{places}"
            case _:
                return sign + digits

    def _decimal(self) -> str:
        """At most 28 digits, both as written and with the exponent expanded."""
        made_up = str(self._random.randrange(10 ** self._random.randint(1, 28)))
        sign, digits = self._random.choice(["", "-"]), self._random.choice([*DIGITS, made_up, made_up])
        places = self._random.choice([0, 1, 2, len(digits), 28, self._random.randint(0, 28)])
        if self._chance(0.5):
            return sign + pointed(digits, places)
        # The point as far to the right as there is room, or somewhere else; and the exponent that compensates for it.
        if self._chance(0.3):
            places = -self._random.randint(0, 28 - len(digits))
        shown = self._random.choice([0, len(digits) - 1, self._random.randint(0, 28)])
        exponent = shown - places
        plus = self._random.choice(["", "+"]) if exponent >= 0 else ""
        return f"{sign}{pointed(digits, shown)}{self._random.choice('eE')}{plus}{exponent}"

    def _written(self, text: str) -> str:
        return json.dumps(text, ensure_ascii=self._chance(0.5))

    def _space(self) -> str:
        return self._random.choice(["", "", "", " ", "\n\t", "\r\n"])


def pointed(digits: str, places: int) -> str:
    """Digits with that many of them after the point."""
    if places == 0:
        return digits
    digits = digits.rjust(places + 1, "0")
    return f"{digits[:-places]}.{digits[-places:]}"
