"""Splits the full name of a person into first and last name, or explains why this is not certain.

Every rule prefers a message to a wrong name. The messages contain no values from the table.
"""

from __future__ import annotations


def split_full_name(text: str) -> tuple[str, str] | str:
    """Returns the first and the last name, or a message why the name cannot be split with certainty."""
    words = text.split()
    return (words[0], words[1]) if len(words) == 2 and "," not in text else 'write "Last, First" in the cell'
