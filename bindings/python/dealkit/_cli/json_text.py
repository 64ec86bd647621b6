"""Parts of a deal as JSON, with every digit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from dealkit import RawJson


def json_text(value: Any) -> str:
    """A model, or what it has in its lists, its metadata and its undocumented fields, as JSON."""
    match value:
        case Mapping():
            return "{" + ",".join(f"{json_text(name)}:{json_text(one)}" for name, one in value.items()) + "}"
        case tuple() | list():
            return "[" + ",".join(map(json_text, value)) + "]"
        case Decimal():
            return str(value)
        case RawJson():
            return value.text
        case str() | int() | None:
            return json.dumps(value, ensure_ascii=False)
    text: str = value.to_json()
    return text
