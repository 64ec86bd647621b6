"""JSON text over several lines, with every character of its values unchanged."""

from __future__ import annotations

import re

# A string, a bracket, a comma or colon, or anything else between two of these; white space is not a token.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')

# Deeper nesting stays on one line: indentation that grows with the depth would exhaust any memory.
_DEEPEST = 127


def indented(json: str, width: int) -> str:
    """The JSON as `json.dumps` indents it."""
    parts: list[str] = []
    depth = 0
    before = ""
    for match in _TOKEN.finditer(json):
        token = match[0]
        closes = token in ("}", "]")
        is_shallow = depth <= _DEEPEST
        depth -= closes
        # An empty container stays together.
        if is_shallow and (before in ("{", "[", ",") or closes) and not (closes and before in ("{", "[")):
            if before:
                parts.append("\n" + " " * (width * depth))
        parts.append(token + " " if token == ":" and is_shallow else token)
        depth += token in ("{", "[")
        before = token
    return "".join(parts)
