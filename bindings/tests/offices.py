"""A table of agents as an office in Germany exports it from Excel: with dates, phone numbers, roles and addresses as people write
them. `python offices.py 5060 > office.csv` writes the table of which the guide gives the figures."""

from __future__ import annotations

import sys
from random import Random

HEADER = "Personalnr.;Vorname;Nachname;E-Mail-Adresse;Telefon;Geburtsdatum;Funktion"
MAPS = ["Vorname=first_name", "Nachname=last_name", "E-Mail-Adresse=email", "Telefon=phone"]
MAPS += ["Geburtsdatum=date_of_birth", "Funktion=role"]

# Of 5,060 rows: how many have a date, a phone number, a role and an address that the service does not take, and how many of
# the phone numbers are in rows with such a date, too.
_ROWS, _DATES, _PHONES, _ROLES, _EMAILS, _BOTH = 5060, 2410, 1019, 429, 116, 351


def office(rows: int) -> str:
    """The table, with as large a part of each kind of mistake whatever its length."""
    random = Random(7)
    order = random.sample(range(rows), rows)
    bounds = [0, _DATES, _DATES - _BOTH, _DATES - _BOTH + _PHONES, _ROLES, _EMAILS]
    at = [round(rows * bound / _ROWS) for bound in bounds]
    dates, phones = {*order[: at[1]]}, {*order[at[2] : at[3]]}
    roles, emails = {*order[at[3] : at[3] + at[4]]}, {*order[at[3] + at[4] : at[3] + at[4] + at[5]]}
    lines = [HEADER]
    for row in range(rows):
        day, month, year = random.randint(1, 28), random.randint(1, 12), random.randint(1950, 2004)
        local = f"{random.randint(2000000, 7999999)}"
        born, phone, email, role = f"{year}-{month:02}-{day:02}", f"+4930{local}", f"a{row}@firma.example", ""
        if row in dates:
            german, short = f"{day:02}.{month:02}.{year}", f"{day}.{month}.{year % 100:02}"
            born = random.choices([german, short, "k.A.", str(year), "31.02.1980"], [80, 12, 4, 3, 1])[0]
        if row in phones:
            mobile = f"0171/{local}"
            forms = [
                f"030 {local}",
                mobile,
                f"+49 (0)30 {local}",
                f"0049 30 {local}",
                "k.A.",
                f"030 {local} oder {mobile}",
                "12",
            ]
            phone = random.choices(forms, [40, 30, 12, 8, 5, 3, 2])[0]
        if row in roles:
            role = random.choices(["Makler", "Maklerin", "agent", "Büroleitung", "Assistenz"], [50, 30, 8, 7, 5])[0]
        if row in emails:
            email = random.choice(
                [f"a{row}(at)firma.example", f"a{row}@firma.example, b{row}@firma.example", "", f"a{row}@"]
            )
        lines.append(f"{row};Jörg;Müller {row};{email};{phone};{born};{role}")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    sys.stdout.buffer.write(office(int(sys.argv[1])).encode("cp1252"))
