"""Names of columns in the exports of CRMs, MLS systems, address books and offices, and the fields that they mean.

Sources of the names: the resource Member of the RESO Data Dictionary (dd.reso.org); the help pages of Follow Up Boss,
Dotloop, Brokerkit, Homes.com and Spectora on importing users and agents; the headers of the contact exports of Google and
of Outlook, in English, German, French, Spanish, Italian, Portuguese and Dutch; the usual words of offices.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import product
from typing import NamedTuple

from dealkit._cli.agent_fields import FIELDS, FULL_NAME, PROFILE
from dealkit._cli.csv_tables import normalize_column_name


class ColumnMatch(NamedTuple):
    """The field that the name of a column means."""

    field: str
    """A field of an agent, or FULL_NAME."""
    rank: int
    """0 for the field's own name. If several columns match a field, the lowest rank is the best match."""


_PHONES = (
    "phone, phone number, phone no, phone #, telephone, telephone number, tel, tel no, tel number, Telefon, "
    "Telefonnummer, Telefon-Nr, Rufnummer, téléphone, n° de téléphone, numéro de téléphone, teléfono, número de teléfono, "
    "telefono, numero di telefono, telefone, número de telefone, telefoon, telefoonnummer"
)
_EMAILS = (
    "email, e-mail, mail, email address, e-mail address, mail address, email id, E-Mail-Adresse, Mailadresse, courriel, "
    "adresse email, adresse e-mail, adresse courriel, adresse de messagerie, adresse mail, correo, correo electrónico, "
    "dirección de correo electrónico, indirizzo email, posta elettronica, indirizzo di posta elettronica, indirizzo posta elettronica, correio eletrônico, "
    "correio electrónico, endereço de email, endereço de e-mail, e-mailadres, emailadres, mailadres"
)
_MOBILE = (
    "mobile, mobil, cell, cellular, cell phone, mobile phone, portable, móvil, celular, telemóvel, cellulare, mobiel"
)
# Without words for an office: the number of an office is not an agent's.
_WORK = (
    "work, business, professional, geschäftlich, dienstlich, beruflich, professionnel, pro, trabajo, del trabajo, profesional, "
    "lavoro, trabalho, comercial, profissional, werk, op werk, zakelijk"
)
_HOME = (
    "home, personal, private, privat, domicile, personnel, perso, casa, abitazione, particular, personale, privado, pessoal, "
    "residencial, thuis, privé"
)


def _split(names: str) -> list[str]:
    return [name.strip() for name in names.split(",")]


def _combine(qualifiers: str, nouns: str) -> str:
    """Lists each noun with each qualifier before and after it: `work email` and `email (work)`."""
    pairs = product(_split(qualifiers), _split(nouns))
    return ", ".join(f"{qualifier} {noun}, {noun} {qualifier}" for qualifier, noun in pairs)


# The names of each field, the best first. Each line has its own rank.
_NAMES: dict[str, Sequence[str]] = {
    "email": (
        _EMAILS.removeprefix("email, ") + ", login email, " + _combine("primary, main, preferred, default", _EMAILS),
        _combine(_WORK, _EMAILS),
        "contact email, contact e-mail, contact email address",
        _combine(_HOME, _EMAILS),
        _combine(
            "secondary, alternate, alternative, other, additional", "email, e-mail, email address, e-mail address"
        ),
    ),
    "first_name": (
        "first, first names, fname, given name, given names, forename, forenames, Vorname, Vornamen, prénom, prénoms, "
        "nombre de pila, nombres, primeiro nome, nome próprio, voornaam, voornamen, nom de pila",
        # In several languages, also the title of a column with both names. `match_columns` decides by the other columns.
        "nombre, nome",
        "legal first name, Rufname, roepnaam",
    ),
    "last_name": (
        "last, last names, lname, family name, surname, surnames, Nachname, Familienname, Zuname, nom de famille, apellido, apellidos, "
        "cognome, cognomi, sobrenome, sobrenomes, último nome, apelidos, achternaam, familienaam, cognoms",
        "nom",
        "legal last name",
    ),
    FULL_NAME: (
        "full name, fullname, agent full name, first and last name, first & last name, first last, last first, name (first last), "
        "name (last first), first name last name, last name first name, name of agent, agents name, "
        "Vor- und Nachname, Vor- und Zuname, Vorname Nachname, Vorname Name, Vorname und Nachname, Name Vorname, Nachname Vorname, "
        "vollständiger Name, nom complet, nom et prénom, nom prénom, prénom nom, prénom et nom, nom et prénoms, "
        "nombre completo, nombre y apellidos, nombre y apellido, apellidos y nombre, apellidos nombre, nombre apellidos, "
        "nome completo, nome e cognome, cognome e nome, nome cognome, cognome nome, nominativo, nome e sobrenome, volledige naam, "
        "voor- en achternaam",
        "name, naam, agent, associate, salesperson, salesperson name, realtor, realtor name, display name, Maklername, Mitarbeitername, "
        "nom de l'agent, nombre del agente, nome dell'agente, nome do corretor, naam makelaar",
    ),
    "phone": (
        f"{_MOBILE}, {_combine(_MOBILE, _PHONES)}, mobile number, mobile no, cell number, cell no, cell/mobile, mobile/cell, "
        "cell phone number, mobile phone number, cell/mobile phone, mobile/cell phone, Handy, Handynummer, Handy/Mobil, "
        "Handy-Nr, Mobiltelefon, Mobilfunk, Mobilfunknummer, Mobilnummer, Mobilrufnummer, Mobiltelefonnummer, GSM, "
        "telefonino, mobieltje, mobiele telefoon, mobiel nummer, 06-nummer",
        _PHONES.removeprefix("phone, "),
        _combine("primary, preferred, direct, contact, default", _PHONES)
        + ", contact number, direct number, primary number, preferred number, direct line, direct dial, contact no, Durchwahl, ligne directe",
        _combine(_WORK, _PHONES),
        _combine(_HOME, _PHONES),
        _combine("secondary, alternate, alternative, other, additional", "phone, phone number, telephone"),
    ),
    "date_of_birth": (
        "DOB, D.O.B., birth date, birthdate, birthday, birth day, date of birth, Geburtsdatum, Geburtstag, Geb.-Datum, geb. am, "
        "geboren am, born, date de naissance, né le, née le, né(e) le, date naissance, fecha de nacimiento, fecha nacimiento, "
        "f. nacimiento, fecha de nac., data di nascita, data nascita, nato il, data de nascimento, data nascimento, nascimento, "
        "geboortedatum, geb. datum, compleanno, cumpleaños, anniversaire, date anniversaire, verjaardag",
    ),
    "role": (
        "user role, role name, roles, agent role, Rolle, Benutzerrolle, rôle, rol, ruolo, papel, perfil de usuario, gebruikersrol",
        "job title, position, position title, job, job position, job role, job function, function, Funktion, Position, Stelle, Stellung, "
        "Berufsbezeichnung, Stellenbezeichnung, Tätigkeit, fonction, poste, intitulé du poste, titre du poste, titre professionnel, "
        "cargo, puesto, puesto de trabajo, función, posizione, mansione, qualifica, posição, função, functie, functietitel, "
        "functienaam, positie, organization title, organization 1 title",
        "member type, user type, agent type, account type, associate type, access level, permission level, user level, permission, "
        "permissions, user group, security class, member mls security class, Mitgliedstyp, Benutzertyp, type d'utilisateur, "
        "tipo de usuario, tipo de agente, tipo utente, tipo de usuário, gebruikerstype",
        "title, professional title, business title, titre",
        "occupation, profession, Beruf, beroep, professione, profesión, profissão",
    ),
    "profile.external_id": (
        "external id, external key, external identifier, externe id, id externe, id externo, id esterno",
        "CRM id, agent id, agent number, agent no, agent #, agent code, agent key, unique id, associate id",
        "member key, member id, member number, member no, member #, employee id, employee number, employee no, employee #, "
        "staff id, personnel number, roster id, Maklernummer, Makler-Nr, Makler-ID, Personalnummer, Personal-Nr, Mitarbeiternummer, "
        "Mitarbeiter-Nr, Mitarbeiter-ID, matricule, numéro d'agent, id agent, código de agente, código agente, id agente, matrícula, "
        "codice agente, matricola, personeelsnummer, medewerkernummer, medewerker id, agent nummer",
    ),
    # The MLS numbers and offices of other systems are not the service's, so only the field's own words match.
    "profile.mls_id": ("MLS id",),
    "profile.partner_mls_id": ("partner MLS id",),
    "profile.partner_mls_agent_id": ("partner MLS agent id",),
    "profile.partner_office_id": ("partner office id",),
    "profile.partner_uuid": ("partner UUID",),
    "profile.partner_status": ("partner status",),
    "image_url": (
        "photo url, picture url, headshot url, avatar url, profile image url, profile photo url, profile picture url, image link, "
        "photo link, picture link, headshot link, Bild-URL, Foto-URL, url photo, url de la photo, url foto, url de la foto, foto url",
    ),
}

# Words that mean the agent, as in `Agent Email` and RESO's `MemberEmail`.
_AGENT_WORDS = ("agent", "agents", "member", "user", "employee", "associate", "realtor", "makler", "mitarbeiter")

# `User Name` is a login.
_LOGIN = "username"

# Remarks in titles that do not change the meaning, as in `Email (required)` and `DOB (MM/DD/YYYY)`.
_REMARK = re.compile(
    r"[(\[]\s*(?:required|mandatory|optional|pflichtfeld|pflicht|obligatoire|obligatorio|facultatif|opcional|verplicht"
    r"|[dmyjtag]{1,4}[./ -][dmyjtag]{1,4}[./ -][dmyjtag]{2,4})\s*[)\]]\s*\*?\s*$",
    re.IGNORECASE,
)

# The number of a column, as in `Phone 1 - Value`, `E-mail 2 Address` and `Email 3`.
_NUMBERED = re.compile(r"(?P<before>[^\d]+)(?P<number>[1-9])(?P<after>[^\d]*?)(?:value)?")

# A role is never ignored silently, because an agent without a role gets a default: `Team Role` is shown to the user.
_ROLE_WORD = re.compile(r"\b(?:roles?|rolle|rôle|ruolo|rol|job title)\b", re.IGNORECASE)
_ABOUT_A_ROLE = re.compile(
    r"\b(?:date|since|start|end|until|id|seit|datum|spouse|contact|transaction)\b", re.IGNORECASE
)
_WORST_ROLE_RANK = 9

_GENERIC_PHONE_RANK = 2

_NUMBERED_FIELDS = ("email", "phone")
_RANKS_PER_NUMBER = 100

# Columns about another person or another device, for which a similar field would be wrong advice.
_OTHER_SUBJECTS = re.compile(
    r"spouse|partner|emergency|assistant|manager|office|broker|company|firm|team|fax|pager|referr|wife|husband|child|kids?|mother"
    r"|mailing|street|^ort|geburtsort|birthplace|^titel|tollfree|societe|weitere|switchboard|zentrale|reception|billing|accounting|support|city|stadt|region|auto|^car|voiture|radio|tty|text|haupt|hoofd|altro|andere|autre|yomi|phonetic|emaildisplay|username|anniver|aniver|ext$|extension|father|parent|license|licence|notfall|ehe|buro|firma|urgence|conjoint|employeur|emergencia|conyuge|oficina|empresa|azienda"
    r"|ufficio|agenzia|kantoor|bedrijf|lender|transaction|seller|buyer|client|kunde|owner|typ|label|opt|verified|status"
)

_MAX_SUGGESTIONS = 2
_MIN_LETTERS = 4
_MIN_SIMILARITY = 0.8
_MAX_SUGGESTED_LENGTH = 50
_MAX_LENGTH_DIFFERENCE = 2

# Fields whose names mean them also as the last or only known words of a longer name, as in `Custom Birthday` and `My Cell
# Phone`. A word such as `Agent` or `Title` means little in a longer name.
_CONTAINED_FIELDS = ("date_of_birth", "phone", "email")
# A column about messages, such as `Last Email` and `Emails Sent`, or with an answer such as yes.
_ABOUT_MESSAGES = re.compile(
    r"\b(?:last|latest|next|sent|count|call|calls|hide|show|has|is|do not|don't|bounced?|opens?|clicks?|activity|consent|allowed)\b",
    re.IGNORECASE,
)

# The lines of the table whose names a user may write in place of a field's name, where it is not only the first line. The
# other lines have names that also mean something else.
_LAST_UNAMBIGUOUS_RANK = {"phone": 2, "role": 2}


def _normalize(name: str) -> str:
    """Returns a name without accents, punctuation, spaces and letter case."""
    return normalize_column_name(unicodedata.normalize("NFKD", name.replace("#", " number ")))


def _list_matches() -> Iterator[tuple[str, ColumnMatch]]:
    for field in FIELDS:
        yield _normalize(field), ColumnMatch(field, 0)
    for field, lines in _NAMES.items():
        # `profile.mls_id` is a field's own name, and so is `MLS id`.
        first_rank = 0 if field.startswith(PROFILE) and len(lines) == 1 else 1
        for rank, line in enumerate(lines, first_rank):
            for name in _split(line):
                yield _normalize(name), ColumnMatch(field, rank)


def _keep_best(matches: Iterable[tuple[str, ColumnMatch]]) -> dict[str, ColumnMatch]:
    """Returns the first match of each name: lines with a lower rank come first in the table."""
    best: dict[str, ColumnMatch] = {}
    for name, match in matches:
        best.setdefault(name, match)
    return best


_MATCHES = _keep_best(_list_matches())


def match_column(name: str) -> ColumnMatch | None:
    """Returns the field that the name of a column means, or None. The whole name must be known: `Spouse email` is not an
    agent's address.
    """
    normalized = _normalize(_REMARK.sub("", name))
    if match := _match_numbered(normalized):
        # Next to `Mobile`, a title such as `Phone` often means another phone. Only the field's name itself is certain.
        is_title = match == ("phone", 0) and name.strip() != "phone"
        return ColumnMatch("phone", _GENERIC_PHONE_RANK) if is_title else match
    for word in _AGENT_WORDS:
        rest = normalized.removeprefix(word)
        if rest == normalized or normalized == _LOGIN:
            continue
        # The MLS number and the office of a RESO member are not the service's.
        if (match := _match_numbered(rest)) and not match.field.endswith("_id") and not match.field.startswith(PROFILE):
            return match
    if _ROLE_WORD.search(name) and not _ABOUT_A_ROLE.search(name):
        return ColumnMatch("role", _WORST_ROLE_RANK)
    return None


def _match_numbered(normalized: str) -> ColumnMatch | None:
    """Returns the match of a name that may have a number, as in `Phone 2`. A higher number has a worse rank."""
    if match := _MATCHES.get(normalized):
        return match
    if not (parts := _NUMBERED.fullmatch(normalized)):
        return None
    match = _MATCHES.get(parts["before"] + parts["after"])
    if match is None or match.field not in _NUMBERED_FIELDS:
        return None
    return ColumnMatch(match.field, max(match.rank, 1) + _RANKS_PER_NUMBER * (int(parts["number"]) - 1))


# Titles whose meaning depends on the other columns: with the column in the first set, the title means a last name; with
# the column in the second set, a first name; otherwise both names. In German, `Vorname` and `Name` are first and last name.
_FIRST_NAMES = {"name": "vorname vornamen rufname", "nom": "prenom prenoms", "naam": "voornaam voornamen roepnaam"}
_LAST_NAMES = {
    "nombre": "apellido apellidos",
    "nome": "cognome cognomi sobrenome sobrenomes apelidos ultimonome",
    "nom": "cognoms",
}


def match_columns(names: Sequence[str]) -> list[ColumnMatch | None]:
    """Returns the match of each column of a table. Decides by the other columns whether a title such as `Name` means a
    first name, a last name or both.
    """
    normalized_names = [_normalize(_REMARK.sub("", name)) for name in names]
    present = {*normalized_names}
    matches = [match_column(name) for name in names]
    certain_fields = {
        match.field
        for match, normalized in zip(matches, normalized_names, strict=True)
        if match and normalized not in _FIRST_NAMES and normalized not in _LAST_NAMES
    }
    for index, normalized in enumerate(normalized_names):
        if normalized in _FIRST_NAMES or normalized in _LAST_NAMES:
            if {"first_name", "last_name"} <= certain_fields:
                field = FULL_NAME
            elif not present.isdisjoint(_LAST_NAMES.get(normalized, "").split()):
                field = "first_name"
            elif not present.isdisjoint(_FIRST_NAMES.get(normalized, "").split()):
                field = "last_name"
            else:
                field = FULL_NAME
            matches[index] = ColumnMatch(field, 2)
    return matches


def match_field_word(text: str) -> str | None:
    """Returns the field for a word that a user writes in place of a field's name, such as `birthday` for `date_of_birth`, or
    None if the word is unknown or means several fields.
    """
    match = _MATCHES.get(_normalize(text))
    if match is None or match.rank > _LAST_UNAMBIGUOUS_RANK.get(match.field, 1):
        return None
    return match.field


def suggest_fields(name: str) -> list[str]:
    """Returns the fields with the most similar names, for a column that matches none."""
    normalized = _normalize(name)
    if not normalized.isalpha() or not _MIN_LETTERS <= len(normalized) <= _MAX_SUGGESTED_LENGTH:
        return []
    if _OTHER_SUBJECTS.search(normalized):
        return []
    if contained := _find_contained_field(name):
        return [contained]
    similarities: dict[str, float] = {}
    # The matcher caches its second sequence.
    matcher = SequenceMatcher(None, "", normalized)
    for alias, (field, _) in _MATCHES.items():
        if abs(len(alias) - len(normalized)) > _MAX_LENGTH_DIFFERENCE or alias[:1] != normalized[0]:
            continue
        matcher.set_seq1(alias)
        # The upper bounds are much faster to compute than the similarity.
        if matcher.real_quick_ratio() < _MIN_SIMILARITY or matcher.quick_ratio() < _MIN_SIMILARITY:
            continue
        if (similarity := matcher.ratio()) >= _MIN_SIMILARITY:
            similarities[field] = max(similarity, similarities.get(field, 0))
    return sorted(similarities, key=lambda field: -similarities[field])[:_MAX_SUGGESTIONS]


def _find_contained_field(name: str) -> str | None:
    """Returns the field that the last words of a name mean: `Custom Birthday` ends with a name of the date of birth."""
    if _ABOUT_MESSAGES.search(name):
        return None
    words = re.findall(r"[^\W_]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name))
    for start in range(1, len(words)):
        match = _MATCHES.get(_normalize("".join(words[start:])))
        if match is not None and match.field in _CONTAINED_FIELDS:
            return match.field
    return None
