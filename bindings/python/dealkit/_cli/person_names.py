"""Splits the full name of a person into first and last name, or explains why a cell is not a person's name.

Every rule prefers a message to a wrong name. The messages contain no values from the table.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from itertools import takewhile

from dealkit._cli.role_words import is_placeholder, normalize_word, remove_accents

_ADVICE = 'write it as "Last, First"'
_UNCERTAIN = f"cannot be split into first and last name with certainty: {_ADVICE}"
_ONE_WORD = f"has only one name, and an agent needs two: {_ADVICE}"
_TITLE = "has a title such as Dr. or Mrs.: remove it"
_TWO_PEOPLE = "names two people: each agent needs its own row"
_MISSING = "has no name, but a sign for a missing value: write the name"
_NOTHING_BEFORE_COMMA = "has nothing before the comma: write the last name there"
_NOTHING_AFTER_COMMA = "has nothing after the comma: write the first name there"
_NO_COMMA = 'has no comma, unlike the other names: write "Last, First"'
_NOT_A_PERSON = f"does not look like a person's name: remove the row, or {_ADVICE}"
_DESIGNATION = f"ends with letters that may be a designation, such as CRS: remove them, or {_ADVICE}"
_COMMAS = f"has several commas: {_ADVICE}"
_MARKS = f"has digits, brackets or other marks: remove them, or {_ADVICE}"

# The words below are in the form of `_find_key`: in lower case, without accents and dots.
_SUFFIXES = frozenset(("jr", "sr", "ii", "iii", "iv"))

# Designations of the National Association of Realtors (nar.realtor), degrees and professions, without those that are also
# names, such as GREEN, RENE and MAI.
_DESIGNATIONS = frozenset(
    "abr abrm ahwd alc bpor c2ex ccim cips cne cpm crb cretc crs e-pro epro esq esquire gaa gri ires mba mrp pmn psa raa realtor "
    "realtors repa rfc rspa rsps sfr sior slrs sres srs cpa llm phd".split()
)
_LOWER_CASE_DESIGNATIONS = frozenset(("esq", "phd", "realtor", "realtors"))
_PROFESSIONS = frozenset("agent assoc associate broker estate licensed real sales salesperson".split())
# Designations of two letters may also be initials.
_SHORT_DESIGNATIONS = frozenset(("MD", "PA", "PC", "PE", "RN"))

_TITLES = frozenset(
    "mr mrs ms miss mx dr drs dra prof professor rev hon sir dame frau fr hr herr herrn dipl-ing dipling dipl-kfm dipl-kffr mag "
    "ing ir m mm mme mmes mlle me maitre monsieur madame mademoiselle sr sra srta senor senora senorita sig sigra signor signora "
    "dott dottssa dottor dottore arch avv geom rag dhr mevr mw mevrouw meneer lic arq eng".split()
)
# Titles that are no names anywhere in a full name.
_CERTAIN_TITLES = frozenset("mr mrs dr prof frau herr herrn mme mlle monsieur madame mevr dott dipl-ing".split())

# Words between two people. The short ones also join last names, as in Ortega y Gasset.
_COUPLE = frozenset(("&", "+", "/", "and", "und", "et"))
_SHORT_COUPLE = frozenset(("y", "e", "u", "en", "i", "og", "och"))
_COUPLE_MARK = re.compile(r"[&+]|(?<=[^\W\d_]{2})\s*/\s*(?=[^\W\d_]{2})")
_TWO_LAST_NAMES_MARK = re.compile("[&+]")
# In `von und zu Berg`, the word belongs to the last name.
_PARTICLES_OF_NOBLES = frozenset(("von", "vom", "zu", "zum", "zur"))

# Signs for a missing value that are also names: Null, None and Na are family names.
_PLACEHOLDER_NAMES = frozenset(
    "na null nil none nothing missing blank empty keine leer fehlt aucun aucune neant ninguno ninguna nessuno nessuna nenhum "
    "nenhuma geen entfallt nvt".split()
)

# Words of companies, teams, accounts and totals, which rosters list among people.
_NOT_PERSONS = frozenset(
    "account accounts admin administrator agents agency brokerage brokers company corp corporation desk gmbh group homes house "
    "immobilien immobilier inc inmobiliaria kg limited llc llp ltd manager office offices properties realty reception sarl sas srl "
    "srls staff team test total totals gesamt summe unknown unassigned user users vacant maklerburo buro agence agencia agenzia".split()
)

# Words before a last name that belong to it. In capitals, some of them are also first names or Asian names.
_PARTICLES = frozenset(
    "van von der den de del della delle dello degli di da das dos du des la las los le al el bin bint ter zu zum zur vom mc st "
    "o' d' l' 't".split()
)
_LOWER_CASE_PARTICLES = frozenset("do ben ibn te ten op af av e".split())

# The ends of first names such as Maria de Fátima, María del Carmen and Juan de Dios.
_ENDS_OF_FIRST_NAMES = frozenset(
    "ajuda amparo angeles asuncion camino carmen carmo ceu conceicao concepcion consuelo coro dios dolores encarnacion esperanza "
    "fatima gloria graca gracas jesus lourdes lurdes luz mar mercedes nieves penha pilar pino prado remedios rocio rosario "
    "sagrario saude socorro soledad valle".split()
)

# Frequent family names in Vietnam, China and Korea, where the family name may be the first word, and Van, Di or Le part
# of the given name.
_ASIAN_FAMILY_NAMES = frozenset(
    "nguyen tran pham huynh hoang phan vu vo dang bui ho ngo duong ly li wang zhang liu chen yang zhao huang zhou wu xu sun zhu ma "
    "hu guo lin he gao luo kim park lee choi jung kang cho yoon jang lim han shin".split()
)

_NAME_WORD = re.compile(r"(?=.*[^\W\d_])(?:[^\W\d_]|['’‘`´.\u2010\u2011-])+")
_INITIALS = re.compile(r"(?:[^\W\d_]\.-?){1,4}|[^\W\d_]")
# First names of two initials, such as TJ. Others, such as LI, may be family names in capitals.
_TWO_INITIALS = re.compile(r"[B-DF-HJ-NP-TV-XZ]{2}|[AEO]J")
_MIN_CAPITALS = 4
_MAX_UNKNOWN_DESIGNATION = 6


def explain_first_name(text: str) -> str | None:
    """Returns the mistake in a first name in a column of its own, with advice, or None if no mistake is known."""
    if _is_missing(text):
        return _MISSING
    words = text.split()
    is_in_capitals = text.isupper()
    is_couple = _COUPLE_MARK.search(text) or any(
        _find_key(word) in _COUPLE or (_find_key(word) in _SHORT_COUPLE and (word.islower() or is_in_capitals))
        for word in words[1:-1]
    )
    return _TWO_PEOPLE if is_couple else None


def explain_last_name(text: str) -> str | None:
    """Returns the mistake in a last name in a column of its own, with advice, or None if no mistake is known."""
    if _is_missing(text):
        return _MISSING
    words = text.split()
    is_couple = _TWO_LAST_NAMES_MARK.search(text) or any(
        _find_key(word) in _COUPLE and _find_key(words[index - 1]) not in _PARTICLES_OF_NOBLES
        for index, word in enumerate(words[1:-1], 1)
    )
    return _TWO_PEOPLE if is_couple else None


def _is_missing(text: str) -> bool:
    """Returns whether a cell has a sign for a missing value that no name can be, such as `n/a` and `-`."""
    if not text.strip():
        return False
    if not any(map(str.isalpha, text)):
        return True
    # K.A. may be initials, but not k. A.
    may_be_initials = "." in text and not re.search(r"[^\w\s.]", text) and text.isupper()
    return is_placeholder(text) and not may_be_initials and normalize_word(text) not in _PLACEHOLDER_NAMES


def split_full_name(text: str, *, needs_comma: bool = False, last_first: bool = False) -> tuple[str, str] | str:
    """Returns the first and the last name, or a message why the name cannot be split with certainty.

    With `needs_comma`, the other names of the column have a comma, so a name without one is uncertain. With `last_first`,
    the last name precedes the first name also in names without a comma.
    """
    text = unicodedata.normalize("NFC", " ".join(text.split()))
    if _is_missing(text) and any(letter not in ", " for letter in text):
        return _MISSING
    parts = [part.split() for part in text.split(",")]
    words = [word for part in parts for word in part]
    if any(_find_key(word) in _COUPLE or word in ("en", "u.") for word in words[1:]) or _COUPLE_MARK.search(text):
        return _TWO_PEOPLE
    if words and len(parts) > 1 and not any(parts[1:]):
        return _NOTHING_AFTER_COMMA
    if words and not parts[0]:
        return _NOTHING_BEFORE_COMMA
    if len(parts) > 1 and (message := _explain_parts(parts)):
        return message
    parts = _remove_designations(parts)
    keys = [_find_key(word) for part in parts for word in part]
    if not keys or not _NOT_PERSONS.isdisjoint(keys):
        return _NOT_A_PERSON
    if any(len(part) > 1 and _find_key(part[0]) in _TITLES for part in parts) or not _CERTAIN_TITLES.isdisjoint(keys):
        return _TITLE
    if not all(map(_is_latin, words)):
        return _UNCERTAIN
    if not all(_NAME_WORD.fullmatch(word) for part in parts for word in part):
        return _MARKS
    suffixes = [part for part in parts if _is_suffix(part)]
    parts = [part for part in parts if not _is_suffix(part)]
    if len(parts) > 2 or len(suffixes) > 1:
        return _COMMAS
    suffix = suffixes[0] if suffixes else []
    if len(parts) == 2:
        return _split_last_first(parts[0], parts[1], suffix)
    if not parts:
        return _ONE_WORD
    if needs_comma and len(parts[0]) > 1:
        return _UNCERTAIN if "," in text else _NO_COMMA
    if last_first:
        return _split_last_first_words([*parts[0], *suffix])
    return _split_first_last([*parts[0], *suffix])


def _explain_parts(parts: list[list[str]]) -> str | None:
    """Returns the mistake in the parts of `Last, First`, or None."""
    last, *others = (" ".join(part) for part in parts)
    return explain_last_name(last) or next(filter(None, map(explain_first_name, others)), None)


def _find_key(word: str) -> str:
    """Returns the form in which the sets of this module have a word."""
    return remove_accents(word).translate(_KEY_CHARACTERS).casefold()


_KEY_CHARACTERS = str.maketrans({".": None, "®": None, "(": None, ")": None, "’": "'", "‘": "'", "`": "'", "´": "'"})


def _is_latin(word: str) -> bool:
    """Returns whether all letters are Latin. In other scripts, the last name often comes first."""
    return all(
        unicodedata.name(letter, "").startswith("LATIN") for letter in word if unicodedata.category(letter)[:1] == "L"
    )


def _remove_designations(parts: list[list[str]]) -> list[list[str]]:
    """Removes empty parts and designations: whole parts after a comma, and the words after at least two others."""
    remaining_parts = []
    for index, part in enumerate(parts):
        if index > 0 and all(_find_key(word) in _DESIGNATIONS | _PROFESSIONS for word in part):
            continue
        others_are_in_capitals = all(map(str.isupper, part))
        while len(part) > (1 if index > 0 else 2) and _is_designation(part[-1]):
            if others_are_in_capitals and _find_key(part[-1]) not in _LOWER_CASE_DESIGNATIONS:
                break
            part = part[:-1]
        if part:
            remaining_parts.append(part)
    return remaining_parts


def _is_designation(word: str) -> bool:
    key = _find_key(word)
    # A word with accents is a name.
    is_ascii = word.replace("®", "").isascii()
    return is_ascii and key in _DESIGNATIONS and (word.isupper() or key in _LOWER_CASE_DESIGNATIONS)


def _is_suffix(words: Sequence[str]) -> bool:
    return len(words) == 1 and _find_key(words[0]) in _SUFFIXES


def _split_last_first(last: list[str], first: list[str], suffix: list[str]) -> tuple[str, str] | str:
    """Splits `Last, First`, which is exact, unless the second part may be a designation."""
    if len(first) > 1 and _is_suffix(first[-1:]):
        suffix, first = first[-1:], first[:-1]
    # `Gogh, Vincent van`, as in Dutch lists.
    particle_count = len([*takewhile(lambda word: word.islower() and _is_particle(word), reversed(first))])
    particles, first = first[len(first) - particle_count :], first[: len(first) - particle_count]
    if not first:
        return _UNCERTAIN
    may_be_designation = first[0].replace(".", "") in _SHORT_DESIGNATIONS or (
        len(last) > 1
        and len(first) == 1
        and _is_in_capitals(first[0])
        and len(first[0]) <= _MAX_UNKNOWN_DESIGNATION
        and not all(map(_is_in_capitals, last))
    )
    if may_be_designation:
        return _DESIGNATION
    return " ".join(first), " ".join((*particles, *last, *suffix))


def _split_first_last(words: list[str]) -> tuple[str, str] | str:
    """Splits a name without a comma: first name, initials, particles, last name, suffix."""
    suffix = words[-1:] if len(words) > 2 and _is_suffix(words[-1:]) else []
    words = words[: len(words) - len(suffix)]
    if len(words) < 2 or _is_suffix(words[-1:]):
        return _ONE_WORD
    capitals = [*takewhile(_is_in_capitals, words)]
    if 0 < len(capitals) < len(words) and not _TWO_INITIALS.fullmatch(words[0]):
        return _split_capitals(capitals, words[len(capitals) :], suffix)
    if _is_particle(words[0]) or _INITIALS.fullmatch(words[-1]):
        return _UNCERTAIN
    initials = [*takewhile(_INITIALS.fullmatch, words[1:-1])]
    particles = words[1 + len(initials) : -1]
    if not all(map(_is_particle, particles)) or any(
        map(_may_be_particle, initials, words[2:], [words[-1].isupper()] * len(initials))
    ):
        return _UNCERTAIN
    keys = {_find_key(word) for word in words}
    if particles and (
        _find_key(words[-1]) in _ENDS_OF_FIRST_NAMES
        or (not particles[0].islower() and not keys.isdisjoint(_ASIAN_FAMILY_NAMES))
    ):
        return _UNCERTAIN
    return " ".join((words[0], *initials)), " ".join((*particles, words[-1], *suffix))


def _split_last_first_words(words: list[str]) -> tuple[str, str] | str:
    """Splits a name without a comma whose last name is first. Only two words, or capitals, are certain."""
    suffix = words[-1:] if len(words) > 2 and _is_suffix(words[-1:]) else []
    words = words[: len(words) - len(suffix)]
    if len(words) < 2 or _is_suffix(words[-1:]):
        return _ONE_WORD
    capitals = [*takewhile(_is_in_capitals, words)]
    if len(words) > 2:
        others = words[len(capitals) :]
        return _split_capitals(capitals, others, suffix) if capitals and others else _UNCERTAIN
    last, first = words
    has_other_order = _INITIALS.fullmatch(last) or (
        not capitals and _is_in_capitals(first) and len(first) >= _MIN_CAPITALS
    )
    return _UNCERTAIN if has_other_order or _is_particle(last) else (first, " ".join((last, *suffix)))


def _split_capitals(capitals: list[str], others: list[str], suffix: list[str]) -> tuple[str, str] | str:
    """Splits `DUPONT Jean` and `DE LA TOUR Jean`: in French lists, capitals mark the last name."""
    *particles, last = capitals
    if (
        len(last) < _MIN_CAPITALS
        or not all(map(_is_particle, particles))
        or len(others) > 1
        or _INITIALS.fullmatch(others[0])
    ):
        return _UNCERTAIN
    return others[0], " ".join((*capitals, *suffix))


def _is_in_capitals(word: str) -> bool:
    """Returns whether a word of at least two letters is in capitals, as in DUPONT and McDONALD."""
    letters = [letter for letter in re.sub(r"^(?:Mac|Mc|De|Di|La|Le)(?=[A-Z]{2})|ß", "", word) if letter.isalpha()]
    return len(letters) > 1 and all(map(str.isupper, letters)) and not _INITIALS.fullmatch(word)


def _is_particle(word: str) -> bool:
    key = _find_key(word)
    return key in _PARTICLES or (key in _LOWER_CASE_PARTICLES and word.islower())


def _may_be_particle(initial: str, next_word: str, is_all_in_capitals: bool) -> bool:
    """Returns whether a single letter may be a part of the last name, as in O Brien, D Angelo and ORTEGA Y GASSET."""
    # `Hans v. Berg` is short for `Hans von Berg`.
    if initial.islower():
        return True
    if initial.endswith("."):
        return False
    if is_all_in_capitals and initial in "EIY":
        return True
    return initial == "O" or (initial == "D" and remove_accents(next_word[:1]).upper() in "AEIOU")
