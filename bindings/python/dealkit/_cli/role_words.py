"""Words for roles, and cells that stand for an empty cell."""

from __future__ import annotations

import re
import unicodedata

from dealkit import Role

# Dashes and other characters that only separate words.
_SEPARATORS = re.compile(r"[\s_\u00ad\u2010-\u2015\u2212-]+")

# Cells for a missing value in English, German, French, Spanish, Italian, Portuguese and Dutch, in the normal form.
_PLACEHOLDERS = frozenset(
    "n/a n.a. n.a na n\\a none (none) null nil nothing unknown tbd tba notavailable notapplicable notprovided notknown missing "
    "blank (blank) empty (empty) k.a. k.a keine keineangabe keineangaben unbekannt entf. entfallt leer n.v. fehlt inconnu "
    "aucun aucune neant n.c. n.c nonrenseigne s/n s/d s.d. sindato sindatos ninguno ninguna nodisponible desconocido "
    "nessuno nessuna sconosciuto n.d. n.d nenhum nenhuma naodisponivel desconhecido n.v.t. nvt geen onbekend ? ?? ??? . .. ... "
    "/ //".split()
)


def remove_accents(text: str) -> str:
    """Returns a text without accents: `Rôle` becomes `Role`."""
    decomposed = unicodedata.normalize("NFKD", text)
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter))


def normalize_word(text: str) -> str:
    """Returns a text without letter case, blanks, hyphens, underscores and accents."""
    return _SEPARATORS.sub("", remove_accents(text)).casefold()


_ROLES = {normalize_word(role): str(role) for role in Role}


def match_role(text: str) -> str | None:
    """Returns the role with this name, as in `Broker Admin` for BROKER_ADMIN. No other word means a role: the user
    decides."""
    return _ROLES.get(normalize_word(text))


def is_placeholder(text: str, field: str = "") -> bool:
    """Returns whether a cell stands for an empty cell, as `n/a` and `-` do. Only for optional fields: `Na` is also a name.

    For a role, only cells without letters do: a word such as `none` may mean another role than the default one.
    """
    word = normalize_word(text)
    if field == "role" and any(map(str.isalpha, text)):
        return False
    return word in _PLACEHOLDERS or (not word and bool(text.strip()))
