"""The import's modules for the column names and the cells of an office's table."""

from __future__ import annotations

import re
import sys
from datetime import date
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dealkit._cli.agent_fields import FIELDS, FULL_NAME
from dealkit._cli.column_names import match_column, match_columns, match_field_word, suggest_fields
from dealkit._cli.date_formats import (
    DateColumn,
    DateConclusion,
    display_format,
    explain_date,
    format_example,
    is_order_certain,
    is_zero_date,
    order_support,
    parse_date,
    to_strptime,
)
from dealkit._cli.email_cells import explain_email, warn_about_email
from dealkit._cli.exit_codes import CommandError
from dealkit._cli.person_names import explain_first_name, explain_last_name, split_full_name
from dealkit._cli.phone_numbers import (
    PhoneColumn,
    explain_length,
    explain_phone,
    is_empty_phone,
    make_phone_parser,
    normalize_international,
)
from dealkit._cli.role_words import is_placeholder, match_role, normalize_word

many = settings(max_examples=300, deadline=None)

MATCHED_COLUMNS = {
    "email": "email; E-Mail; E-mail Address; Email Address; MemberEmail; Agent Email; user_email; E-mail (work); Work E-mail; Email*; "
    "* Email; Email (required); E-mail 1 - Value; Email 1; Email 2; E-mail 2 Address; Personal Email; Primary Email; Mail; "
    "E-Mail-Adresse; E-Mail geschäftlich; Adresse e-mail; Adresse de messagerie; Courriel; Correo electrónico; "
    "CORREO ELECTRONICO; Dirección de correo electrónico; Indirizzo e-mail; Endereço de e-mail; E-mailadres; Alternate Email; E-Mail 2: Adresse; "
    "Adresse de messagerie 2; Indirizzo posta elettronica",
    "first_name": "First Name; first_name; FIRST; Agent First Name; MemberFirstName; Given Name; Forename; Vorname; Prénom; PRENOM; "
    "Nombre; Nome; Voornaam; Legal First Name",
    "last_name": "Last Name; Lastname; MemberLastName; Family Name; Surname; Agent Last; Nachname; Familienname; Nom; Nom de famille; "
    "Apellidos; Apellido; Cognome; Sobrenome; Achternaam",
    FULL_NAME: "Name; Full Name; Agent Name; MemberFullName; Agent; Vor- und Nachname; Nom complet; Nom et prénom; Nombre completo; "
    "Nombre y apellidos; Nome completo; Cognome e nome; Volledige naam; Display Name; Name (Last, First)",
    "phone": "Phone; Phone Number; Phone #; Cell; Cell Phone; Cell #; Cellular; Mobile; Mobile Phone; Mobile Number; Agent Cell Phone; "
    "MemberMobilePhone; MemberDirectPhone; MemberPreferredPhone; Phone 1 - Value; Phone 2; Business Phone 2; Work Phone; Home Phone; "
    "Phone (mobile); Direct Line; Contact Number; Telefon; Tel.; Handy; Mobil; Mobiltelefon; Telefon (mobil); Telefon geschäftlich; "
    "Téléphone; N° de téléphone; Tél. portable; Teléfono móvil; Móvil; Celular; Cellulare; Telemóvel; Telefoonnummer; "
    "Mobiel; Mobiele telefoon; Cell/Mobile; Téléphone 2 (domicile); Telefoon op werk 2; Teléfono del trabajo; Cell Phone 1",
    "date_of_birth": "Date of Birth; DOB; D.O.B.; Birthday; Birth Date; Birthdate; DOB (MM/DD/YYYY); Geburtsdatum; Geb.-Datum; "
    "Geburtstag; Date de naissance; Né(e) le; Fecha de nacimiento; Data di nascita; Data de nascimento; Geboortedatum",
    "role": "Role; User Role; Role Name; Position; Job Title; JobTitle; Function; MemberType; Member Type; User Type; Title; "
    "Organization 1 - Title; Access Level; Rolle; Funktion; Fonction; Poste; Rôle; Cargo; Puesto; Ruolo; Função; Functie; "
    "Role in the office; Team Role; Beruf; Profession; Titre",
    "profile.external_id": "External ID; external_id; profile.external_id; CRM ID; Agent ID; Agent #; MemberKey; Member Key; "
    "Employee ID; Personalnummer; Matricule",
    "profile.mls_id": "MLS ID; profile.mls_id",
    "image_url": "image_url; Photo URL; MemberPhotoURL; Headshot URL",
    "brokerage_id": "Brokerage ID",
    "office_id": "Office ID",
    "profile.onboarding_complete": "profile.onboarding_complete",
}

UNMATCHED_COLUMNS = (
    "Emergency phone; Emergency Contact; Emergency Contact Name; Spouse email; Spouse; Spouse's Birthday; Birthday of spouse; "
    "Assistant phone; Assistant's Phone; Manager name; Manager's Name; Broker name; Broker; Office email; Office phone; "
    "MemberOfficePhone; Office; OfficeName; OfficeKey; OfficeMlsId; Company; Company Main Phone; Fax; Business Fax; MemberFax; "
    "MemberStateLicense; License #; License Number; License Type; MemberMlsId; MemberStatus; MemberAddress1; E-mail 1 - Type; "
    "Phone 1 - Label; Phone 1 Ext; Work Phone Ext; E-mail Display Name; Email Opt-In; Email Verified; Middle Name; Nickname; "
    "Preferred Name; Preferred First Name; Maiden Name; User Name; Username; Name Prefix; Suffix; Address; Home Address; "
    "Mailing Address; City; Status; Start Date; Anniversary Date; Hire Date; License Expiration Date; Assigned To; Stage; "
    "Autotelefon; Car Phone; Téléphone société; Telefon Firma; Weiteres Telefon; E-Mail 2: Typ; E-Mail: Angezeigter Name; Privat; "
    "Abitazione; Given Name Yomi; Phonetic Last Name; File As; Name Assistent; Name des/r Vorgesetzten; Nom de l'assistant(e); "
    "Téléphone (bureau); MemberNickname; MemberTollFreePhone; MemberOfficePhoneExt; MemberPreferredFirstName; Relation 1 - Value; "
    "Anrede; Titel; Telefon Büro; Geburtsort; Geburtsname; Segundo apellido; Primer apellido; Apelido; Role Start Date; Number; ID; "
    "User ID; Notes; Photo; Website; Partner email; Partner Phone; 2; ; !!!; é"
)


def split_names(names: str) -> list[str]:
    return [name.strip() for name in names.split(";")]


@pytest.mark.parametrize(
    ("field", "name"), [(field, name) for field, names in MATCHED_COLUMNS.items() for name in split_names(names)]
)
def test_names_of_columns_in_common_exports_are_known(field: str, name: str) -> None:
    match = match_column(name)
    assert match is not None
    assert match.field == field


@pytest.mark.parametrize("name", split_names(UNMATCHED_COLUMNS))
def test_columns_about_something_else_are_not_matched(name: str) -> None:
    assert match_column(name) is None


def test_every_field_matches_its_own_name_best() -> None:
    for field in FIELDS:
        assert match_column(field) == (field, 0)
        if field != "phone":
            assert match_column(field.upper().replace("_", " ")) == (field, 0)
    # Next to a mobile number, a column named `Phone` is often the number of an office or of another person.
    assert match_column("Phone") == ("phone", 2)


@pytest.mark.parametrize(
    "names",
    [
        "Email; Work E-mail; Personal Email; Alternate Email; Email 2; Email 3",
        "E-mail 1 - Value; E-mail 2 - Value",
        "E-mail Address; E-mail 2 Address; E-mail 3 Address",
        "phone; Mobile; Phone; Direct Phone; Work Phone; Home Phone; Other Phone; Phone 2",
        "Cell Phone; Direct Phone; Business Phone; Home Phone; Business Phone 2",
        "MemberMobilePhone; MemberPreferredPhone; MemberHomePhone",
        "Mobiltelefon; Telefon geschäftlich; Telefon privat",
        "Role; Job Title; Member Type; Title; Team Role",
        "External ID; Agent ID; Employee ID",
        "First Name; Given Name; Legal First Name",
    ],
)
def test_the_best_of_several_columns_has_the_lowest_rank(names: str) -> None:
    matches = [match for name in split_names(names) if (match := match_column(name))]
    ranks = [match.rank for match in matches]
    assert len({match.field for match in matches}) == 1
    assert ranks == sorted({*ranks})


@pytest.mark.parametrize(
    ("header", "fields"),
    [
        ("Vorname; Name; E-Mail", "first_name; last_name; email"),
        ("Name; Vorname", "last_name; first_name"),
        ("Name; Vorname; Nachname", "first_name+last_name; first_name; last_name"),
        ("Name; Given Name; Family Name", "first_name+last_name; first_name; last_name"),
        ("Nom; Prénom", "last_name; first_name"),
        ("Nom; Email", "first_name+last_name; email"),
        ("Nom; Cognoms", "first_name; last_name"),
        ("Nombre; Apellidos", "first_name; last_name"),
        ("Nombre; Correo", "first_name+last_name; email"),
        ("Cognome; Nome", "last_name; first_name"),
        ("Nome; Telefone", "first_name+last_name; phone"),
        ("Naam; Voornaam", "last_name; first_name"),
        ("Name; Phone; Fax", "first_name+last_name; phone; "),
    ],
)
def test_other_columns_decide_what_a_name_means(header: str, fields: str) -> None:
    found = [match.field if match else "" for match in match_columns(split_names(header))]
    assert found == split_names(fields)


@pytest.mark.parametrize(
    ("name", "suggestions"),
    [
        ("Emial", ["email"]),
        ("Email Addres", ["email"]),
        ("Frist Name", ["first_name"]),
        ("Birth Dte", ["date_of_birth"]),
        ("Mobile Phoen", ["phone"]),
        ("Custom Birthday", ["date_of_birth"]),
        ("My DOB", ["date_of_birth"]),
        ("customBirthday", ["date_of_birth"]),
        ("Custom Email", ["email"]),
        ("Private Handynummer", ["phone"]),
        ("N.º", []),
        ("Number", []),
        ("Hide Agent", []),
        ("Nr", []),
        ("Cel", []),
        ("Last Activity", []),
        ("Last Email", []),
        ("Emails Sent", []),
        ("Do Not Email", []),
        ("Birthday Greeting", []),
        ("Spouse DOB", []),
        ("Client Birthday", []),
        ("Company Phone", []),
        ("Téléphone société", []),
        ("Weiteres Telefon", []),
        ("Toll Free Phone", []),
        ("Titel", []),
        ("Geburtsort", []),
        ("Spouse email", []),
        ("Work Phone Ext", []),
        ("Mailing Address", []),
        ("Anniversary Date", []),
        ("Autotelefon", []),
        ("Privat", []),
        ("Benutzer 1", []),
        ("Zebra", []),
        ("", []),
    ],
)
def test_similar_names_are_suggested(name: str, suggestions: list[str]) -> None:
    assert suggest_fields(name) == suggestions


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("date_of_birth", "birthday; DOB; Date of Birth; Geburtsdatum; date_of_birth"),
        ("phone", "mobile; Cell; phone; telephone; Handy; Téléphone; Mobile Phone"),
        ("email", "e-mail; email; E-MAIL; mail; E-Mail-Adresse"),
        ("first_name", "first; first name; Vorname; given name"),
        ("last_name", "last; surname; Nachname; apellidos"),
        (FULL_NAME, "full name; first and last name"),
        ("role", "role; job title; position"),
        ("profile.external_id", "external id; profile.external_id"),
        ("profile.mls_id", "MLS ID"),
        ("office_id", "office id"),
        # These words mean several fields, or none.
        (None, "name; nom; nombre; title; agent; agent id; license; metadata; 2; "),
    ],
)
def test_words_for_fields_are_known(field: str | None, words: str) -> None:
    for word in split_names(words):
        assert match_field_word(word) == field


@given(st.text())
@many
def test_any_column_name_is_handled(name: str) -> None:
    match_field_word(name)
    match = match_column(name)
    assert match is None or match.field in (*FIELDS, FULL_NAME)
    assert match_columns([name, name])[0] is not None or match is None
    assert len(suggest_fields(name)) <= 2


@pytest.mark.parametrize(
    ("text", "strptime_format", "display"),
    [
        ("DD.MM.YYYY", "%d.%m.%Y", "DD.MM.YYYY"),
        ("m/d/yy", "%m/%d/%y", "MM/DD/YY"),
        ("MM/DD/YYYY", "%m/%d/%Y", "MM/DD/YYYY"),
        ("mm-dd-yyyy", "%m-%d-%Y", "MM-DD-YYYY"),
        ("yyyy-mm-dd", "%Y-%m-%d", "YYYY-MM-DD"),
        ("YYYYMMDD", "%Y%m%d", "YYYYMMDD"),
        ("d MMM yyyy", "%d %b %Y", "DD MMM YYYY"),
        ("d. MMMM yyyy", "%d. %B %Y", "DD. MMMM YYYY"),
        ("mmm d, yyyy", "%b %d, %Y", "MMM DD, YYYY"),
        ("d de MMMM de yyyy", "%d de %B de %Y", "DD de MMMM de YYYY"),
        ("m/d/yyyy h:mm", "%m/%d/%Y", "MM/DD/YYYY"),
        ("TT.MM.JJJJ", "%d.%m.%Y", "DD.MM.YYYY"),
        ("TT.MM.JJ", "%d.%m.%y", "DD.MM.YY"),
        ("JJ/MM/AAAA", "%d/%m/%Y", "DD/MM/YYYY"),
        ("GG/MM/AAAA", "%d/%m/%Y", "DD/MM/YYYY"),
        ("DD-MM-JJJJ", "%d-%m-%Y", "DD-MM-YYYY"),
        ("%d.%m.%Y", "%d.%m.%Y", "DD.MM.YYYY"),
        (" %d %B %Y ", "%d %B %Y", "DD MMMM YYYY"),
    ],
)
def test_date_formats_are_written_as_in_spreadsheets_or_as_in_python(
    text: str, strptime_format: str, display: str
) -> None:
    assert to_strptime(text) == strptime_format
    assert display_format(strptime_format) == display
    assert to_strptime(display) == strptime_format


@pytest.mark.parametrize(
    "text",
    [
        "",
        "DD.MM",
        "MM/YYYY",
        "DD/DD/YYYY",
        "DD/MM/YYYY/YY",
        "%d.%m",
        "%d %d %m %Y",
        "%",
        "%Q",
        "%d.%m.%Y %",
        "day",
        "33238",
        "%H:%M",
        "%c %H",
        "%b %d",
    ],
)
def test_a_date_format_needs_day_month_and_year(text: str) -> None:
    with pytest.raises(ValueError, match="date format"):
        to_strptime(text)


@pytest.mark.parametrize(
    ("text", "strptime_format", "day"),
    [
        ("31.12.1990", "%d.%m.%Y", "1990-12-31"),
        ("1.2.1990", "%d.%m.%Y", "1990-02-01"),
        ("31. 12. 1990", "%d.%m.%Y", "1990-12-31"),
        ("12/31/1990", "%m/%d/%Y", "1990-12-31"),
        ("12/31/1990 0:00", "%m/%d/%Y", "1990-12-31"),
        ("12/31/1990 12:00:00 AM", "%m/%d/%Y", "1990-12-31"),
        ("1990-12-31 00:00:00", "%Y-%m-%d", "1990-12-31"),
        ("1990-12-31T00:00:00.000Z", "%Y-%m-%d", "1990-12-31"),
        ("31.12.90", "%d.%m.%y", "1990-12-31"),
        ("31 Dec 1990", "%d %b %Y", "1990-12-31"),
        ("31-DEC-1990", "%d %b %Y", "1990-12-31"),
        ("31DEC1990", "%d %b %Y", "1990-12-31"),
        ("31. Dezember 1990", "%d. %B %Y", "1990-12-31"),
        ("1. März 1990", "%d %b %Y", "1990-03-01"),
        ("3. Jänner 1990", "%d %b %Y", "1990-01-03"),
        ("1er août 1990", "%d %b %Y", "1990-08-01"),
        ("31 déc. 1990", "%d %b %Y", "1990-12-31"),
        ("31 de diciembre de 1990", "%d de %B de %Y", "1990-12-31"),
        ("9 set 1990", "%d %b %Y", "1990-09-09"),
        ("5 maggio 1990", "%d %b %Y", "1990-05-05"),
        ("7 de março de 1990", "%d %b %Y", "1990-03-07"),
        ("7 mrt 1990", "%d %b %Y", "1990-03-07"),
        ("December 31st, 1990", "%b %d, %Y", "1990-12-31"),
        ("Dec 5, 1990", "%b %d, %Y", "1990-12-05"),
        ("5-Dec-90", "%d %b %y", "1990-12-05"),
        # The month is the word, and never the number in its position.
        ("Dec 5, 1990", "%d %b %Y", None),
        ("5 Dec 1990", "%b %d, %Y", None),
        ("31/12/1990", "%m/%d/%Y", None),
        ("31/12/1990", "%d.%m.%Y", None),
        ("31.12.90", "%d.%m.%Y", None),
        ("31.12.1990", "%d.%m.%y", None),
        ("311290", "%d%m%Y", None),
        ("30.02.1990", "%d.%m.%Y", None),
        ("29.02.1991", "%d.%m.%Y", None),
        ("31.12.1990 13:45", "%d.%m.%Y", None),
        ("31.12.1990 und mehr", "%d.%m.%Y", None),
        ("31 Foo 1990", "%d %b %Y", None),
        ("33238", "%d.%m.%Y", None),
        ("", "%d.%m.%Y", None),
    ],
)
def test_dates_are_parsed_strictly(text: str, strptime_format: str, day: str | None) -> None:
    found = parse_date(text, strptime_format)
    assert (found and found.isoformat()) == day


def test_a_two_digit_year_is_in_the_past() -> None:
    next_year = date.today().year + 1
    found = parse_date(f"01.01.{next_year % 100:02}", "%d.%m.%y")
    assert found is not None
    assert found.year == next_year - 100


def make_date_column(texts: list[str]) -> DateColumn:
    column = DateColumn()
    for row, text in enumerate(texts, 2):
        column.add(row, text)
    return column


@pytest.mark.parametrize(
    ("texts", "formats", "uncertain", "contradicting_rows"),
    [
        ("1990-12-31; 1985-01-02", "", "", []),
        ("1990-12-31 00:00:00", "%Y-%m-%d", "", []),
        ("12/31/1990; 3/4/1990", "%m/%d/%Y", "", []),
        ("31/12/1990; 3/4/1990", "%d/%m/%Y", "", []),
        ("31-12-1990; 3-4-1990", "%d-%m-%Y", "", []),
        ("12/31/1990; 3/4/90", "%m/%d/%Y; %m/%d/%y", "", []),
        ("3/4/1990", "", "%d/%m/%Y; %m/%d/%Y", []),
        ("3/4/90", "", "%d/%m/%y; %m/%d/%y", []),
        # Equal day and month prove nothing for the next table.
        ("1/1/1970; 5/5/1980", "", "%d/%m/%Y; %m/%d/%Y", []),
        # Each separator has its own evidence.
        ("12/31/1990; 3-4-1990", "%m/%d/%Y", "%d-%m-%Y; %m-%d-%Y", []),
        ("12/31/1990; 31/12/1990", "", "%d/%m/%Y; %m/%d/%Y", []),
        ("; ".join(["12/31/1990"] * 20 + ["31/12/1990", "1/2/1990"]), "%m/%d/%Y", "", [22]),
        ("; ".join(["12/31/1990"] * 19 + ["31/12/1990"]), "", "%d/%m/%Y; %m/%d/%Y", []),
        # One day above 12 among many below is a typo.
        ("; ".join(["3/4/1990"] * 11 + ["12/31/1990"]), "", "%d/%m/%Y; %m/%d/%Y", []),
        # The order of most cells is the order of the column, also with other separators.
        ("; ".join(["31.12.1990"] * 30 + ["12/17/1965"]), "%d.%m.%Y", "", [32]),
        ("; ".join(["3.4.1990"] * 30 + ["12/17/1965"]), "%d.%m.%Y", "", [32]),
        ("; ".join(["31.12.1990"] * 30 + ["12/17/1965", "3/4/1970"]), "%d.%m.%Y", "%d/%m/%Y; %m/%d/%Y", [32]),
        ("; ".join(["12-31-1990", "31/12/1990", "31/12/1991"]), "%d/%m/%Y", "", [2]),
        ("12-31-1990; 31/12/1990", "", "%d-%m-%Y; %m-%d-%Y; %d/%m/%Y; %m/%d/%Y", []),
        # With dots, the day comes first in any case.
        ("; ".join(["12/31/1990"] * 30 + ["31.12.1990"]), "%m/%d/%Y; %d.%m.%Y", "", []),
        ("3.4.1990; 31.12.1990", "%d.%m.%Y", "", []),
        ("3.4.1990; 3.4.90", "%d.%m.%Y; %d.%m.%y", "", []),
        ("12.31.1990; 3.4.1990", "", "%d.%m.%Y; %m.%d.%Y", []),
        ("1990/12/31; 1990/3/4", "%Y/%m/%d", "", []),
        ("19901231", "%Y%m%d", "", []),
        ("31 Dec 1990; Dec 5, 1990; 5-Dec-90", "%d %b %Y; %b %d, %Y; %d %b %y", "", []),
        ("90/12/31; 05/03/04", "", "%d/%m/%y; %m/%d/%y; %y/%m/%d", []),
        ("33238; 0/0/00; 00/00/0000; n/a; 13/13/1990; 99/99/9999; 31/12/1990 13:45", "", "", []),
        ("", "", "", []),
    ],
)
def test_the_cells_of_a_column_determine_its_date_formats(
    texts: str, formats: str, uncertain: str, contradicting_rows: list[int]
) -> None:
    conclusion = make_date_column(split_names(texts)).conclude()
    expected_formats, expected_uncertain = (
        [text for text in names.split("; ") if text] for names in (formats, uncertain)
    )
    assert conclusion == DateConclusion(expected_formats, expected_uncertain, contradicting_rows)


def test_cells_support_or_contradict_the_order_of_formats() -> None:
    column = make_date_column(["12/31/1990", "3/4/1990", "31/12/1990", "12/31/90", "31.12.1990", "1990-12-31"])
    assert order_support(["%d/%m/%Y"], column) == (1, [2])
    assert order_support(["%m/%d/%Y"], column) == (1, [4])
    assert order_support(["%d/%m/%Y", "%d/%m/%y"], column) == (1, [2, 5])
    assert order_support(["%m/%d/%y", "%m/%d/%Y"], column) == (2, [4])
    assert order_support(["%d/%m/%Y", "%m/%d/%Y"], column) == (0, [])
    assert order_support(["%d.%m.%Y"], column) == (1, [])
    assert order_support(["%m.%d.%Y"], column) == (0, [6])
    assert order_support(["%d-%m-%Y", "%d %b %Y"], column) == (0, [])
    assert order_support([], column) == (0, [])


def test_each_format_is_concluded_once() -> None:
    column = make_date_column(["31 Dec 1990", "1990/12/31", "30 Dec 1990", "31/12/1990", "30/12/1990", "31/12/90"])
    conclusion = column.conclude()
    assert conclusion.formats == ["%d %b %Y", "%Y/%m/%d", "%d/%m/%Y", "%d/%m/%y"]


@pytest.mark.parametrize(
    ("strptime_format", "is_certain"),
    [
        ("%d.%m.%Y", True),
        ("%d. %m. %Y", True),
        ("%d %b %Y", True),
        ("%b %d, %y", True),
        ("%Y/%m/%d", True),
        ("%Y%m%d", True),
        ("%m.%d.%Y", False),
        ("%d/%m/%Y", False),
        ("%d / %m / %Y", False),
        ("%m-%d-%y", False),
        ("%d%m%Y", False),
        ("%y/%m/%d", False),
    ],
)
def test_the_order_of_some_formats_is_certain(strptime_format: str, is_certain: bool) -> None:
    assert is_order_certain(strptime_format) == is_certain


@pytest.mark.parametrize(
    ("text", "words"),
    [
        *(
            (text, "has no year: add it, or empty the cell")
            for text in "--10-27; --1027; 10-27; 27.10.; 27. 10.; 10/27".split("; ")
        ),
        *(
            (text, "has no year")
            for text in "0000-10-27; 27.10.0000; 27 Oct; October 27; 27. Oktober; 5 de mayo".split("; ")
        ),
        *((text, "has no day") for text in "10/1990; 1990-10; 1990; Oct 1990".split("; ")),
        *((text, "as a spreadsheet stores dates: type the date") for text in ("33238", "33238.0", "33238.5")),
        *((text, "has a time") for text in ("31.12.1990 13:45", "1990-12-31T13:45:00")),
        *(
            (text, "is not a date in the form 12/31/1990")
            for text in "13/13/1990; 2/30/1990; hello; may; 1-2-3-4; 123456".split("; ")
        ),
    ],
)
def test_each_kind_of_wrong_date_has_its_message(text: str, words: str) -> None:
    assert words in explain_date(text, ["%m/%d/%Y"])


@pytest.mark.parametrize(
    ("formats", "shown"),
    [
        ([], "1990-12-31"),
        (["%d.%m.%Y"], "31.12.1990"),
        (["%m/%d/%Y", "%m/%d/%Y"], "12/31/1990"),
        (["%d. %B %Y", "%m/%d/%y", "%d.%m.%Y"], "31. December 1990 or 12/31/90"),
    ],
)
def test_wrong_dates_are_explained_with_examples(formats: list[str], shown: str) -> None:
    assert explain_date("x", formats) == f"is not a date in the form {shown}, or this day does not exist"


@pytest.mark.parametrize(
    "text",
    [
        "0/0/00",
        "00/00/0000",
        "0000-00-00",
        "00.00.0000",
        "0000-00-00 00:00:00",
        "1/0/1900",
        "12/30/1899",
        "0",
        "/ /",
        "__.__.____",
    ],
)
def test_zero_dates_mean_no_date(text: str) -> None:
    assert is_zero_date(text)


@pytest.mark.parametrize("text", ["1/1/1900", "1990-12-31", "12/31/00", "n/a", "100"])
def test_other_dates_are_not_zero(text: str) -> None:
    assert not is_zero_date(text)


@given(st.lists(st.sampled_from("%d %m %b %B %Y %y %H %c %x %j . / - d MM yyyy de".split())).map("".join))
@many
def test_any_date_format_is_handled(text: str) -> None:
    try:
        strptime_format = to_strptime(text)
    except ValueError:
        return
    display_format(strptime_format)
    parse_date("31.12.1990", strptime_format)
    assert parse_date(format_example(strptime_format), strptime_format) in (date(1990, 12, 31), None)
    is_order_certain(strptime_format)


@given(st.text() | st.from_regex(r"\d{1,4}[./ -]\d{1,2}[./ -]\d{1,4}( 0:00)?", fullmatch=True))
@many
def test_any_date_cell_is_handled(text: str) -> None:
    conclusion = make_date_column([text]).conclude()
    for strptime_format in (*conclusion.formats, *conclusion.uncertain):
        assert to_strptime(display_format(strptime_format)) == strptime_format
    for strptime_format in conclusion.formats:
        found = parse_date(text, strptime_format)
        assert found is not None
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", found.isoformat())
    is_zero_date(text)
    explain_date(text, conclusion.formats)
    try:
        strptime_format = to_strptime(text)
    except ValueError:
        return
    assert parse_date(date(1987, 6, 5).strftime(strptime_format), strptime_format) == date(1987, 6, 5)


@given(
    st.dates(date(1920, 1, 1), date(2010, 12, 31)),
    st.sampled_from(["%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%Y/%m/%d", "%Y%m%d"]),
)
@many
def test_a_column_with_a_decisive_date_is_read_in_its_own_format(day: date, strptime_format: str) -> None:
    column = make_date_column([date(1990, 12, 31).strftime(strptime_format), day.strftime(strptime_format)])
    assert column.conclude() == DateConclusion([strptime_format], [], [])
    assert parse_date(day.strftime(strptime_format), strptime_format) == day


@pytest.fixture(params=["with the library", "without the library"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if request.param == "without the library":
        monkeypatch.setitem(sys.modules, "phonenumbers", None)
        return False
    pytest.importorskip("phonenumbers")
    return True


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("+15550100", "+15550100"),
        ("tel:+15550100", "+15550100"),
        ("+1 (555) 010-0100", "+15550100100"),
        ("+1.212.555.0123", "+12125550123"),
        ("+1\u00a0212\u2011555\u20130123", "+12125550123"),
        ("Cell: +1 212 555 0123", "+12125550123"),
        ("+39 06 1234567", "+39061234567"),
        ("+49 30 1234567", "+49301234567"),
        ("(+33) 6 12 34 56 78", "+33612345678"),
        ("(+34) 636 000 529", "+34636000529"),
        ("+(1) (212) 555-0123", "+12125550123"),
        ("+4915100000012.0", "+4915100000012"),
        ("+49 30 1234567.0", None),
        ("+1 212 555 0123 x5", None),
        ("+1 212 555 0123 / +1 212 555 0124", None),
        ("+49 30 1234567/68", None),
        # An extension without a mark.
        ("+1 212 555 0123 4567", None),
        ("+1-800-FLOWERS", None),
        ("212 555 0123", None),
        ("+", None),
        ("+0 123 4567", None),
        ("+1 (212) (555) 0123", None),
        ("Fax: +1 212 555 0123", None),
        ("", None),
    ],
)
def test_numbers_with_a_country_code_need_no_country(text: str, number: str | None, library: bool) -> None:
    assert normalize_international(text) == number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("+49 (0)30 1234567", "+49301234567"),
        ("+49 030 1234567", "+49301234567"),
        ("+44 (0)20 7946 0958", "+442079460958"),
        ("+33 01 23 45 67 89", "+33123456789"),
        ("00 49 30 1234567", "+49301234567"),
        ("0049 (0)30 1234567", "+49301234567"),
        ("+49 30/1234567", "+49301234567"),
        ("(0033) 6 12 34 56 78", "+33612345678"),
        ("+33 6/12/34/56/78", "+33612345678"),
    ],
)
def test_only_the_library_removes_a_domestic_zero(text: str, number: str, library: bool) -> None:
    assert normalize_international(text) == (number if library else None)


@given(st.text(alphabet="+0123456789 ()-./x\n", max_size=24) | st.text())
@many
def test_normalized_numbers_are_valid(text: str) -> None:
    for number in (normalize_international(text), make_phone_parser("DE")(text)):
        assert number is None or number == text or re.fullmatch(r"\+[1-9]\d{4,14}", number)
    explain_phone(text, None)
    explain_phone(text, "US")
    is_empty_phone(text)
    explain_length(text)
    column = PhoneColumn()
    column.add(text)
    column.suggest_country()


@pytest.mark.parametrize(
    ("country", "text", "number"),
    [
        ("US", "(212) 555-0123", "+12125550123"),
        ("us", "212.555.0123", "+12125550123"),
        ("US", "2125550123", "+12125550123"),
        ("US", "12125550123", "+12125550123"),
        ("US", "c: 212-555-0123", "+12125550123"),
        ("US", "212-555-0123 (cell)", "+12125550123"),
        ("US", "+49 30 1234567", "+49301234567"),
        ("US", "011 49 30 1234567", "+49301234567"),
        ("DE", "030/1234567", "+49301234567"),
        ("DE", "Tel. 030 1234567", "+49301234567"),
        ("DE", "030 1234567-89", "+4930123456789"),
        ("DE", "4915100000012", "+4915100000012"),
        ("US", "212-555-0123 x5", None),
        ("US", "212-555-0123 ext. 5", None),
        ("US", "212-555-0123 / 212-555-0124", None),
        ("US", "2125550123.0", "+12125550123"),
        ("US", "12125550123.0", "+12125550123"),
        ("US", "212/555/0123", "+12125550123"),
        ("DE", "4915100000012.0", "+4915100000012"),
        ("FR", "06/12/34/56/78", "+33612345678"),
        ("BE", "0470/12/34/56", "+32470123456"),
        ("FR", "(+33) 6 12 34 56 78", "+33612345678"),
        ("ES", "(+34) 636 000 529", "+34636000529"),
        # A number that begins with the country's own code is too long for another of this country.
        ("FR", "33 6 12 34 56 78", "+33612345678"),
        ("GB", "44 20 7946 0958", "+442079460958"),
        ("ES", "34 636 000 529", "+34636000529"),
        ("DE", "4930123456", "+4930123456"),
        # A spreadsheet has removed the first zero.
        ("DE", "1701234567", "+491701234567"),
        ("FR", "612345678", "+33612345678"),
        ("GB", "7912345678.0", "+447912345678"),
        # These countries write numbers without a first zero.
        ("BR", "11 98765-4321", "+5511987654321"),
        ("IN", "98765 43210", "+919876543210"),
        # A number of France, of Spain, of Norway, or without its first zero.
        ("DE", "33 612345678", None),
        ("DE", "33612345678", None),
        ("FR", "636 000 529", None),
        ("US", "47 92 34 56 78", None),
        # 0151 23456789 in Germany, or +1 512 345 6789.
        ("DE", "15123456789", None),
        ("DE", "30 1234567", None),
        ("DE", "030 1234567.0", None),
        ("US", "2.12556E+09", None),
        ("US", "1-800-FLOWERS", None),
        ("US", "555-0123", None),
        ("US", "Fax 212-555-0123", None),
        # Letters are not digits of a keypad, and the ending of a second number does not belong to the first.
        ("DE", "030 12345 tel", None),
        ("DE", "030 1234567/68", None),
        ("DE", "030/123456/57", None),
        ("US", "", None),
    ],
)
def test_numbers_of_a_country_get_its_code(country: str, text: str, number: str | None) -> None:
    assert make_phone_parser(country)(text) == (text if number is None else number)


def test_an_unknown_country_is_reported() -> None:
    with pytest.raises(CommandError, match="two letters"):
        make_phone_parser("Germany")


def test_the_library_is_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "phonenumbers", None)
    with pytest.raises(CommandError, match="dealkit\\[phone\\]"):
        make_phone_parser("US")
    column = PhoneColumn()
    column.add("(212) 555-0123")
    assert column.suggest_country() is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("212-555-0123 x12", "extension"),
        ("212-555-0123 ext. 12", "extension"),
        ("212-555-0123 Ext 12", "extension"),
        ("030 1234567 Durchwahl 12", "extension"),
        ("212-555-0123 #12", "extension"),
        ("212-555-0123 / 212-555-0199", "two phone numbers"),
        ("212-555-0123; 212-555-0199", "two phone numbers"),
        ("212-555-0123 or 212-555-0199", "two phone numbers"),
        ("0151 2345678 oder 030 1234567", "two phone numbers"),
        ("+12125550123+12125550199", "two phone numbers"),
        ("(c) 212-555-0123 (h) 212-555-0199", "two phone numbers"),
        ("212-555-0123 212-555-0199", "two numbers"),
        ("+1 212 555 0123 4567", "two numbers"),
        ("12125550123", "no plus sign"),
        ("1 212 555 0123", "no plus sign"),
        ("4.9151E+12", "digits are lost"),
        ("4,9151E+12", "digits are lost"),
        ("4915100000012.0", "ends in .0"),
        ("(+33) 6 12 34 56 78 x12", "extension"),
        ("225-555-0147x36", "extension"),
        ("225-555-0147 ext36", "extension"),
        ("(615) 555-O198", "letter O"),
        ("615-555-o198", "letter O"),
        ("615-555-l198", "write 1"),
        ("030 1234567/68", "slash"),
        ("555-HOME", "letters"),
        ("Fax 212-555-0123", "letters"),
        ("12345", "too short"),
        ("000-000-0000", "only zeros"),
        ("0049 30 1234567", "write a plus sign"),
        ("212-555-0123", "no country code"),
        ("(212) 555-0123", "no country code"),
        ("030/1234567", "no country code"),
        # A number of Brazil with its area code.
        ("11 98765-4321", "no country code"),
        ("c: 212-555-0123", "no country code"),
        ("n/a", "no digits"),
        ("+49 (0)30 1234567", "zero after the country code"),
        ("", None),
        ("+15550100", None),
        ("(+33) 6 12 34 56 78", None),
    ],
)
def test_each_kind_of_wrong_phone_number_has_its_message(text: str, words: str | None, library: bool) -> None:
    message = explain_phone(text, None)
    assert (message is None) == (words is None)
    assert words is None or words in str(message)
    assert not text or text not in str(message)


@pytest.mark.parametrize(
    ("country", "text", "words"),
    [
        ("US", "212-555-012", "too few digits for a number of US"),
        ("us", "555-0123", "too few digits for a number of US"),
        ("US", "12", "too few digits for a number of US"),
        ("US", "212-555-01234", "too many digits for a number of US"),
        ("US", "47 92 34 56 78", "another country, write the plus sign"),
        ("US", "123-456-7890", "is not a number of US"),
        ("US", "212-555-O123", "letter O"),
        ("DE", "33 612345678", "begins neither with a plus sign nor with 0: write the plus sign and the country code"),
        ("DE", "30 1234567", "begins neither with a plus sign nor with 0"),
        ("DE", "33612345678", "may have lost its plus sign or its first 0"),
        ("DE", "15123456789", "may have lost its plus sign or its first 0"),
        ("DE", "030 1234567/68", "slash"),
        ("DE", "030 1234567.0", "writes numbers: remove it"),
        ("FR", "06 12 34 56", "too few digits for a number of FR"),
        ("ES", "136 000 529", "is not a number of ES"),
        ("US", "(+33) 6 12 34 56 78 9", "more digits than a phone number"),
    ],
)
def test_a_wrong_number_of_a_country_has_its_message(country: str, text: str, words: str) -> None:
    assert make_phone_parser(country)(text) == text
    assert words in str(explain_phone(text, country))


@pytest.mark.parametrize(
    "text", ["000-000-0000", "(000) 000-0000", "0", "+1 000 000 0000", "1-000-000-0000", "(   ) ___-____", " - "]
)
def test_zeros_and_empty_forms_mean_no_number(text: str) -> None:
    assert is_empty_phone(text)


@pytest.mark.parametrize("text", ["", " ", "030 1234567", "+1 800 000 0000", "000-000-0001", "n/a", "+15550100"])
def test_other_numbers_are_not_empty(text: str) -> None:
    assert not is_empty_phone(text)


@pytest.mark.parametrize(
    ("number", "words"),
    [
        ("+1212555012", "too few digits"),
        ("+121255501234", "too many digits"),
        ("+3361234567", "too few digits"),
        ("+12125550123", None),
        # A number without an area code, which the pages use as an example.
        ("+15550100", None),
        ("+999123456789", None),
        ("212-555-012", None),
        ("", None),
    ],
)
def test_a_number_of_another_length_is_doubtful(number: str, words: str | None, library: bool) -> None:
    message = explain_length(number)
    assert (message is None) == (words is None or not library)
    assert message is None or (words is not None and words in message)


@pytest.mark.parametrize(
    ("texts", "country", "count"),
    [
        ("636 000 529; 91 123 45 67; (+34) 636 000 530; 600 123 456", "ES", 3),
        ("636 000 529; 600 12 34 56; 91 123 45 67; 93 234 56 78", "ES", 4),
        # Madrid, or Szczecin in Poland. A number with a country code decides.
        ("91 123 45 67; 93 234 56 78", None, 0),
        ("91 123 45 67; 93 234 56 78; +34 600 123 456", "ES", 2),
        ("0612345678; 0623456789; +33612345678", "FR", 2),
        ("0612345678; 0623456789; +31612345678", "NL", 2),
        ("0612345678; 0623456789; +33612345678; +31612345678", None, 0),
        # Valid also as mobile numbers of South Africa that lack their zero.
        ("612345678; 623456789; 810123456", None, 0),
        ("612345678; 623456789; 810123456; +34612345670; +34612345671; +34612345672", "ES", 3),
        # Numbers of another country are no evidence against a clear one.
        ("0171 1234567; 030 1234567; +33612345678", "DE", 2),
        ("(212) 555-0123; 06 12 34 56 78; +12125550123", None, 0),
    ],
)
def test_numbers_with_a_country_code_help_to_suggest_the_country(texts: str, country: str | None, count: int) -> None:
    column = PhoneColumn()
    for text in texts.split("; "):
        column.add(text)
    assert column.suggest_country() == (country and (country, count, count))


@pytest.mark.parametrize(
    ("texts", "country"),
    [
        ("(212) 555-0123; 312-555-0144; 415.555.0199; 2125550123", "US"),
        # Toronto.
        ("(416) 555-0123; (212) 555-0144", "US"),
        ("0171 1234567; 030 1234567; 0151 23456789; 089 123456", "DE"),
        ("06 12 34 56 78; 01 23 45 67 89", "FR"),
        ("06-12345678; 06-23456789", "NL"),
        ("612 34 56 78; 699 12 34 56", "ES"),
        ("912 345 678; 961 234 567", "PT"),
        ("079 123 45 67; 078 234 56 78", "CH"),
        ("0412 345 678; 0423 456 789", "AU"),
        # French and Dutch mobile numbers, written without spaces.
        ("0612345678; 0623456789", None),
        ("(212) 555-0123; 06 12 34 56 78", None),
        ("+12125550123; 0049 30 1234567; n/a; 12345; 212-555-0123 x5", None),
        ("", None),
    ],
)
def test_a_country_is_suggested_if_it_is_the_only_one_that_fits(texts: str, country: str | None) -> None:
    column = PhoneColumn()
    for text in texts.split("; "):
        column.add(text)
    count = len(texts.split("; "))
    assert column.suggest_country() == (country and (country, count, count))


@pytest.mark.parametrize(
    ("text", "first_name", "last_name"),
    [
        ("Ada Lovelace", "Ada", "Lovelace"),
        ("  Ada   Lovelace ", "Ada", "Lovelace"),
        ("Lovelace, Ada", "Ada", "Lovelace"),
        ("King, Martin Luther", "Martin Luther", "King"),
        ("García López, Ana", "Ana", "García López"),
        ("van der Berg, Anna", "Anna", "van der Berg"),
        ("Gogh, Vincent van", "Vincent", "van Gogh"),
        ("Smith, Jr., John", "John", "Smith Jr."),
        ("Smith Jr., John", "John", "Smith Jr."),
        ("Smith, John Jr.", "John", "Smith Jr."),
        ("John Smith, Jr.", "John", "Smith Jr."),
        ("John Smith Jr.", "John", "Smith Jr."),
        ("John Smith Sr.", "John", "Smith Sr."),
        ("John Smith III", "John", "Smith III"),
        ("John Smith, CRS", "John", "Smith"),
        ("John Smith, CRS, GRI", "John", "Smith"),
        ("John Smith, REALTOR®", "John", "Smith"),
        ("John Smith, Broker Associate", "John", "Smith"),
        ("John Smith PhD", "John", "Smith"),
        ("Smith, Jane, Realtor", "Jane", "Smith"),
        ("John Q. Smith", "John Q.", "Smith"),
        ("John Q Smith", "John Q", "Smith"),
        ("J. R. Smith", "J. R.", "Smith"),
        ("J.R. Smith", "J.R.", "Smith"),
        ("TJ Smith", "TJ", "Smith"),
        ("Smith, JD", "JD", "Smith"),
        ("Ludwig van Beethoven", "Ludwig", "van Beethoven"),
        ("Vincent van der Berg", "Vincent", "van der Berg"),
        ("Maria de la Cruz", "Maria", "de la Cruz"),
        ("Maria da Silva", "Maria", "da Silva"),
        ("Leonardo Di Caprio", "Leonardo", "Di Caprio"),
        ("Ahmed bin Salman", "Ahmed", "bin Salman"),
        ("Jill St. John", "Jill", "St. John"),
        ("Sean O'Brien", "Sean", "O'Brien"),
        ("Sean O’Brien", "Sean", "O’Brien"),
        ("Sean O' Brien", "Sean", "O' Brien"),
        ("Jean-Pierre Dupont", "Jean-Pierre", "Dupont"),
        ("Müller-Lüdenscheidt, Hans", "Hans", "Müller-Lüdenscheidt"),
        ("DUPONT Jean", "Jean", "DUPONT"),
        ("Jean DUPONT", "Jean", "DUPONT"),
        ("DE LA TOUR Jean", "Jean", "DE LA TOUR"),
        ("McDONALD John", "John", "McDONALD"),
        ("O'BRIEN Sean", "Sean", "O'BRIEN"),
        ("JOHN SMITH", "JOHN", "SMITH"),
        ("Doe, Rene", "Rene", "Doe"),
    ],
)
def test_full_names_are_split(text: str, first_name: str, last_name: str) -> None:
    assert split_full_name(text) == (first_name, last_name)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Mary Ann Smith", "with certainty"),
        ("Gabriel García Márquez", "with certainty"),
        ("Juan Carlos de la Cruz", "with certainty"),
        ("Ana de la Cruz López", "with certainty"),
        ("María del Carmen", "with certainty"),
        ("Maria de Fátima", "with certainty"),
        ("Nguyen Van Anh", "with certainty"),
        ("Minh Van Tran", "with certainty"),
        ("Kim Do Yeon", "with certainty"),
        ("DUPONT Jean Pierre", "with certainty"),
        ("LI Na", "with certainty"),
        ("Smith J.", "with certainty"),
        ("Sean O Brien", "with certainty"),
        ("John D Angelo", "with certainty"),
        ("ORTEGA Y GASSET", "with certainty"),
        ("Ramón y Cajal", "with certainty"),
        ("Costa e Silva", "with certainty"),
        ("De Vries", "with certainty"),
        ("Al Gore", "with certainty"),
        ("山田 太郎", "with certainty"),
        ("Иван Иванов", "with certainty"),
        # Names that are also designations or professions.
        ("Anna Maria Green", "with certainty"),
        ("Ana Maria Real", "with certainty"),
        ("Anna Maria Bröker", "with certainty"),
        ("John Smith Broker", "with certainty"),
        ("Smith", "only one name"),
        ("Hans v. Berg", "with certainty"),
        ("Ana e João", "with certainty"),
        ("Smith,", "nothing after the comma: write the first name"),
        ("Puig Vega,", "nothing after the comma: write the first name"),
        ("Puig Vega, ,", "nothing after the comma: write the first name"),
        (", Ada", "nothing before the comma: write the last name"),
        ("Smith, n/a", "missing value"),
        ("?, Ada", "missing value"),
        ("n/a", "missing value"),
        ("TBD", "missing value"),
        ("-", "missing value"),
        ("Smith, CRS", "only one name"),
        ("Dr. John Smith", "title"),
        ("Smith, Dr. John", "title"),
        ("Frau Müller", "title"),
        ("Herr Hans Müller", "title"),
        ("M. Dupont", "title"),
        ("Mme Curie", "title"),
        ("Sr. García", "title"),
        ("Sra. García", "title"),
        ("Jim & Ann Smith", "two people"),
        ("Jim und Ann", "two people"),
        ("Smith, Ann and Jim", "two people"),
        ("Jean et Marie Dupont", "two people"),
        ("Jan en Marie Smit", "two people"),
        ("Frank u. Birgit Berg", "two people"),
        ("Jim/Ann Smith", "two people"),
        ("Vega, Ana e João", "two people"),
        ("Vega, Inés y Isabel", "two people"),
        ("John Smith, JD", "designation"),
        ("Smith, PA", "designation"),
        ("Jane Doe, CLHMS", "designation"),
        ("Smith, John, Paul", "commas"),
        ('William "Bill" Smith', "marks"),
        ("Bill (William) Smith", "marks"),
        ("John Smith 2", "marks"),
        ("Jane Doe - Smith", "marks"),
        ("The Smith Team", "person's name"),
        ("Acme Realty, LLC", "person's name"),
        ("Office Admin", "person's name"),
        ("Vacant", "person's name"),
        ("Total", "person's name"),
        ("", "person's name"),
        (",", "person's name"),
    ],
)
def test_uncertain_names_get_a_message(text: str, words: str) -> None:
    message = split_full_name(text)
    assert isinstance(message, str)
    assert words in message


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Lovelace Ada", ("Ada", "Lovelace")),
        ("Lovelace, Ada", ("Ada", "Lovelace")),
        ("Smith J.", ("J.", "Smith")),
        ("Smith John Jr.", ("John", "Smith Jr.")),
        ("Lovelace Ada, CRS", ("Ada", "Lovelace")),
        ("DE LA TOUR Jean", ("Jean", "DE LA TOUR")),
        # The second word cannot be the first name, or not certainly.
        ("Jean DUPONT", "with certainty"),
        ("J. Smith", "with certainty"),
        ("De Vries", "with certainty"),
        ("Lovelace A. Byron", "with certainty"),
        ("García López Ana", "with certainty"),
        ("Lovelace", "only one name"),
        ("Lovelace,", "nothing after the comma"),
        ("Dr. Lovelace", "title"),
        ("Jim & Ann", "two people"),
    ],
)
def test_full_names_with_the_last_name_first_are_split(text: str, names: tuple[str, str] | str) -> None:
    found = split_full_name(text, last_first=True)
    assert names in found if isinstance(names, str) else found == names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Lovelace, Ada", ("Ada", "Lovelace")),
        ("Smith, Jr., John", ("John", "Smith Jr.")),
        ("Lovelace Ada", "no comma, unlike the other names"),
        ("John Smith Jr.", "no comma, unlike the other names"),
        ("John Smith, CRS", "with certainty"),
        ("John Smith, Jr.", "with certainty"),
        ("Lovelace", "only one name"),
    ],
)
def test_a_name_without_a_comma_among_names_with_one_is_uncertain(text: str, names: tuple[str, str] | str) -> None:
    for last_first in (False, True):
        found = split_full_name(text, needs_comma=True, last_first=last_first)
        assert names in found if isinstance(names, str) else found == names


@pytest.mark.parametrize(
    "text", "-; .; ??; n/a; N/A; n.a.; k. A.; TBD; s/n; (blank); unknown; keine Angabe; n.v.t.; 0; --".split("; ")
)
def test_signs_for_a_missing_value_are_no_names(text: str) -> None:
    for explain in (explain_first_name, explain_last_name):
        message = explain(text)
        assert message is not None
        assert "missing value" in message


@pytest.mark.parametrize(
    "text",
    "Kayla & Ronald; Kayla&Ronald; Frank u. Birgit; Frank u Birgit; Olivier et Béatrice; Inés y Isabel; INÉS Y ISABEL; "
    "Ana e João; Jim and Ann; Jim AND Ann; Jim und Ann; Jim/Ann; Jim / Ann; Jim + Ann; Jan en Marie; Joan i Maria".split(
        "; "
    ),
)
def test_a_first_name_of_two_people_is_recognized(text: str) -> None:
    message = explain_first_name(text)
    assert message is not None
    assert "two people" in message


@pytest.mark.parametrize(
    "text",
    "Ada; Null; None; Na; NA; No; K.A.; N. A.; J.-P.; Mary E; Mary E. Ann; Ana E João; Maria de Fátima; Jean-Pierre; 太郎; #N/A; ".split(
        "; "
    ),
)
def test_unusual_first_names_are_names(text: str) -> None:
    assert explain_first_name(text) is None


@pytest.mark.parametrize("text", ["Smith & Jones", "Smith+Jones", "Smith and Jones", "Dupont et Martin"])
def test_a_last_name_of_two_people_is_recognized(text: str) -> None:
    message = explain_last_name(text)
    assert message is not None
    assert "two people" in message


@pytest.mark.parametrize(
    "text",
    "Ortega y Gasset; Smith e Silva; de la Cruz y Gómez; ORTEGA Y GASSET; von und zu Berg; Müller/Schmidt; Null; Na; O; 山田; ".split(
        "; "
    ),
)
def test_unusual_last_names_are_names(text: str) -> None:
    assert explain_last_name(text) is None


@given(
    st.text()
    | st.lists(st.sampled_from("Ada van de O' Jr. CRS , & Dr. J. LOVELACE y Maria ® ( É 9".split())).map(" ".join)
)
@many
def test_any_name_is_handled(text: str) -> None:
    for needs_comma, last_first in product((False, True), repeat=2):
        names = split_full_name(text, needs_comma=needs_comma, last_first=last_first)
        assert isinstance(names, str) or all(name.strip() == name != "" for name in names)
    explain_first_name(text)
    explain_last_name(text)


@given(
    st.from_regex(r"[A-Z][a-z]{2,8}( [A-Z]\.)?", fullmatch=True),
    st.from_regex(r"[A-Z][a-z]{2,8}(-[A-Z][a-z]{2,8})?", fullmatch=True),
)
@many
def test_both_orders_give_the_same_name(first_name: str, last_name: str) -> None:
    for text in (f"{first_name} {last_name}", f"{last_name}, {first_name}"):
        names = split_full_name(text)
        assert isinstance(names, str) or names == (first_name, last_name)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ada@example.com; bob@example.com", "two e-mail addresses"),
        ("ada@example.com bob@example.com", "two e-mail addresses"),
        ("ada@example.com\nbob@example.com", "two e-mail addresses"),
        ("ada@example.com/bob@example.com", "two e-mail addresses"),
        ("Ada Lovelace <ada@example.com>", "name or note"),
        ("<ada@example.com>", "name or note"),
        ("ada@example.com (work)", "name or note"),
        ("Ada ada@example.com", "other text"),
        ("mailto:ada@example.com", "mailto"),
        ("ada @example.com", "space"),
        ("ada@exa mple.com", "space"),
        ("ada.example.com", "no @"),
        ("n/a", "is missing: write the e-mail address"),
        ("-", "is missing"),
        ("TBD", "is missing"),
        ("none", "is missing"),
        ("????", "is missing"),
        ("/o=Office/ou=Exchange/cn=Recipients/cn=ada", "Exchange"),
        ("EX:/O=OFFICE/OU=EXCHANGE/CN=ADA", "Exchange"),
        ("ada at example.com", "word at"),
        ("ada(at)example.com", "word at"),
        ("ada@example,com", "comma"),
        ("ada@example.com.", "punctuation"),
        ("ada@example.com,", "punctuation"),
        ("ada@@example.com", "more than one @"),
        ("ada@example", "no ending such as .com"),
        ("ada@example..com", "dot too many"),
        ("@example.com", "only a part"),
        ("ada@", "only a part"),
        ("a" * 400, "too long"),
        ("", None),
        ("ada@example.com", None),
        ("o'brien.ada+x@sub.example.co.uk", None),
    ],
)
def test_each_kind_of_wrong_address_has_its_message(text: str, words: str | None) -> None:
    message = explain_email(text)
    assert (message is None) == (words is None)
    assert words is None or words in str(message)


@given(st.text() | st.text(alphabet='a@.,; <>()"\n:'))
@many
def test_any_address_is_handled(text: str) -> None:
    explain_email(text)
    warn_about_email(text)


@pytest.mark.parametrize(
    ("text", "is_doubtful"),
    [
        ("ada@example", True),
        ("ada@example.com", False),
        ("ada@[IPv6:2001:db8::1]", False),
        ("ada", False),
        ("ada@", False),
        ("", False),
    ],
)
def test_an_address_without_an_ending_is_doubtful(text: str, is_doubtful: bool) -> None:
    assert (warn_about_email(text) is not None) == is_doubtful


@pytest.mark.parametrize(
    ("text", "role"),
    [
        ("Agent", "AGENT"),
        ("AGENT", "AGENT"),
        ("Broker Admin", "BROKER_ADMIN"),
        ("broker-admin", "BROKER_ADMIN"),
        ("broker_admin", "BROKER_ADMIN"),
        ("BrokerAdmin", "BROKER_ADMIN"),
        (" office\u00a0admin ", "OFFICE_ADMIN"),
        ("Collective Admin", "COLLECTIVE_ADMIN"),
        ("ádmin", "ADMIN"),
        ("Administrator", None),
        ("Agents", None),
        ("Makler", None),
        ("Broker", None),
        ("", None),
    ],
)
def test_only_the_names_of_roles_are_roles(text: str, role: str | None) -> None:
    assert match_role(text) == role


def test_words_are_compared_without_case_blanks_and_accents() -> None:
    assert (
        normalize_word("Agent  Immobilier") == normalize_word("agent-immobilier") == normalize_word("AGENT_IMMOBILIER")
    )
    assert normalize_word("Négociateur") == normalize_word("negociateur")
    assert normalize_word("Makler") != normalize_word("Maklerin")


@pytest.mark.parametrize(
    "text",
    "n/a; N/A; na; -; –; —; --; none; None; NULL; k. A.; k.A.; keine Angabe; s/n; n.v.t.; unknown; ?; .; tbd; (blank)".split(
        "; "
    ),
)
def test_placeholders_mean_an_empty_cell(text: str) -> None:
    assert is_placeholder(text)


@pytest.mark.parametrize("text", ["", " ", "0", "Nathan", "NC", "ND", "Nan", "No", "x", "A", "TRUE", "#N/A"])
def test_other_cells_are_no_placeholders(text: str) -> None:
    assert not is_placeholder(text)


def test_for_a_role_only_cells_without_letters_are_placeholders() -> None:
    assert all(is_placeholder(text, field="role") for text in ("-", "—", "?", "??", "--", "/"))
    assert not any(is_placeholder(text, field="role") for text in ("none", "Unknown", "n/a", "k. A.", "(blank)", ""))


@given(st.text())
@many
def test_any_word_is_handled(text: str) -> None:
    assert normalize_word(normalize_word(text)) == normalize_word(text)
    match_role(text)
    is_placeholder(text)
