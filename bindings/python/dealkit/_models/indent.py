"""Indents JSON text without changing any character of its values."""

from __future__ import annotations

import re

# A token: a string, a bracket, a comma, a colon, or a number or literal.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')

# The maximum depth of indented levels. Deeper levels stay on one line: the indentation of a deeply nested document
# would exhaust memory.
_MAX_DEPTH = 127


def indent_json(json: str, width: int) -> str:
    """Indents a JSON text as `json.dumps` does."""
    parts: list[str] = []
    depth = 0
    previous_token = ""
    for match in _TOKEN.finditer(json):
        token = match[0]
        is_closing = token in ("}", "]")
        is_shallow = depth <= _MAX_DEPTH
        depth -= is_closing
        # An empty container stays on one line.
        if (
            is_shallow
            and (previous_token in ("{", "[", ",") or is_closing)
            and not (is_closing and previous_token in ("{", "["))
        ):
            if previous_token:
                parts.append("\n" + " " * (width * depth))
        parts.append(token + " " if token == ":" and is_shallow else token)
        depth += token in ("{", "[")
        previous_token = token
    return "".join(parts)
