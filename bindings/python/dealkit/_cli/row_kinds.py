"""Recognizes rows of a table that are not people: totals, repeated column names, titles and notes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dealkit._cli.csv_tables import normalize_spaces

# Words for totals in several languages, at the beginning of a cell.
_TOTAL = re.compile(
    r"(?:grand |sub-?)?totals?\b|sum\b|summary\b|count\b|number of\b|average\b|(?:gesamt|zwischen)?summe\b|gesamt\b|anzahl\b|insgesamt\b|"
    r"somme\b|sous-total\b|nombre (?:de|d')|totaux\b|total(?:es)?\b|suma\b|n[uú]mero de\b|totale\b|somma\b|totaal\b|aantal\b",
    re.IGNORECASE,
)


def describe_non_person(cells: Sequence[str], header: Sequence[str]) -> str | None:
    """Returns a message for a row that is not a person, or None. To be called for rows that cannot be sent: the row of
    a person with an unusual name can be sent.
    """
    filled = [(index, cell) for index, cell in enumerate(cells) if cell]
    if len(filled) == 1:
        return "has only one cell, as titles and notes have"
    is_name = [
        index < len(header) and normalize_spaces(cell).casefold() == normalize_spaces(header[index]).casefold()
        for index, cell in filled
    ]
    # Column names in two rows are joined in the header, but each is repeated in its own row.
    if sum(is_name) * 2 > len(filled) and sum(is_name) > 1:
        return "repeats the column names"
    if any(_TOTAL.match(cell) for _, cell in filled) and not any("@" in cell for _, cell in filled):
        return "seems to be a total"
    return None
