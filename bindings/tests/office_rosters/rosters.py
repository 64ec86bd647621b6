"""Twelve invented agent rosters in the formats that real-estate offices export, with the truth about every row.

`write_roster` writes one file and returns its truth. The data is deterministic: each roster has its own seed.
E-mail addresses end in example.com, example.org or example.net. US numbers, German numbers and French fixed numbers come
from blocks that are reserved for films and fiction.
"""

from __future__ import annotations

import csv
import itertools
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any

from openpyxl import Workbook
from openpyxl.styles import Font, PatternFill
from openpyxl.utils import get_column_letter


@dataclass(frozen=True)
class Person:
    """Truth about one row that is a person.

    `row` counts as a spreadsheet shows it; in a CSV file, records count, and blank lines count as records.
    A clean row has an empty `defect`. For a defect, the other fields hold the values after `correction`, which maps a column
    name (the first column of that name) to the corrected cell; `{"": "delete"}` deletes the row.
    """

    row: int
    email: str
    first_name: str
    last_name: str
    phone: str | None
    date_of_birth: str | None
    role: str
    defect: str = ""
    correction: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Roster:
    """Truth about one file. `not_people` lists title, section, blank, repeated-header, total and footer rows."""

    name: str
    description: str
    people: list[Person]
    not_people: list[int]
    facts: list[str]
    commands_hint: str = ""


# --------------------------------------------------------------------------------------------------------------------
# Names by language

ENGLISH_FIRST = """James Mary Robert Patricia John Jennifer Michael Linda David Elizabeth William Barbara Richard Susan
Joseph Jessica Thomas Sarah Charles Karen Christopher Lisa Daniel Nancy Matthew Betty Anthony Sandra Mark Margaret
Donald Ashley Steven Kimberly Andrew Emily Paul Donna Joshua Michelle Kenneth Carol Kevin Amanda Brian Melissa Timothy
Deborah Ronald Stephanie Jason Rebecca Edward Sharon Jeffrey Laura Ryan Cynthia Jacob Dorothy Gary Amy Nicholas Kathleen
Eric Angela Jonathan Shirley Stephen Emma Larry Brenda Justin Pamela Scott Nicole Brandon Samantha Benjamin Katherine
Samuel Christine Gregory Helen Alexander Debra Patrick Rachel Frank Carolyn Raymond Janet Jack Maria Dennis Olivia Jerry
Heather Tyler Diane Aaron Julie Jose Joyce Adam Victoria Nathan Ruth Henry Virginia Zachary Lauren Douglas Kelly Peter
Christina Kyle Joan Noah Evelyn Ethan Judith Jeremy Andrea Walter Hannah Keith Megan Roger Cheryl Terry Jacqueline Sean
Martha Austin Madison Gerald Teresa Carl Gloria Dylan Sara Harold Janice Jordan Kathryn Jesse Ann Bryan Abigail Lawrence
Sophia Arthur Frances Gabriel Jean Bruce Alice Logan Judy Billy Julia Joe Grace Alan Denise Juan Amber Elijah Doris
Willie Marilyn Albert Danielle Wayne Beverly Randy Isabella Mason Theresa Vincent Diana Liam Natalie Roy Brittany Bobby
Charlotte Caleb Marie Bradley Kayla Russell Alexis Lucas Lori Priya Wei Keisha DeShawn Latoya Mei Anh Rajesh Fatima Omar
Aisha Hiroshi Yuki Nguyet Svetlana Dmitri Siobhán Niamh Zoë Renée José André Chloë Núria Søren Łukasz""".split()

ENGLISH_TWO_FIRST = [
    "Mary Ann",
    "Mary Beth",
    "John Paul",
    "Billie Jo",
    "Sarah Jane",
    "Anna Marie",
    "Betty Lou",
    "Mary Kate",
    "Jo Ann",
    "Bobbie Sue",
    "Ana María",
    "Juan Carlos",
]

ENGLISH_LAST = """Smith Johnson Williams Brown Jones Garcia Miller Davis Rodriguez Martinez Hernandez Lopez Gonzalez
Wilson Anderson Thomas Taylor Moore Jackson Martin Lee Perez Thompson White Harris Sanchez Clark Ramirez Lewis Robinson
Walker Young Allen King Wright Scott Torres Nguyen Hill Flores Green Adams Nelson Baker Hall Rivera Campbell Mitchell
Carter Roberts Gomez Phillips Evans Turner Diaz Parker Cruz Edwards Collins Reyes Stewart Morris Morales Murphy Cook
Rogers Gutierrez Ortiz Morgan Cooper Peterson Bailey Reed Kelly Howard Ramos Kim Cox Ward Richardson Watson Brooks Chavez
Wood James Bennett Gray Mendoza Ruiz Hughes Price Alvarez Castillo Sanders Patel Myers Long Ross Foster Jimenez Powell
Jenkins Perry Russell Sullivan Bell Coleman Butler Henderson Barnes Fisher Vasquez Simmons Graham Patterson Jordan
Reynolds Hamilton Ford Gibson Wallace Woods Cole West Jordan Owens Mcdonald Harrison Fernandez Marshall Gardner Stevens
Tucker Freeman Webb Simpson Crawford Olson Hunter Hicks Schmidt Meyer Black Snyder Rose Ferguson Nichols Knight Daniels
Palmer Holmes Rice Robertson Hawkins Dunn Perkins Spencer Arnold Payne Kowalski Schultz Weber Hoffman Chang Chen Wang
Singh Shah Khan Ali Tanaka Yamamoto Ivanov Petrov O'Brien O'Neill O'Connor D'Angelo D'Amico McAllister MacDonald
Smith-Jones Garcia-Lopez Taylor-Reed Núñez Peña Muñoz Müller Bjørnson Lemaître St.Clair""".split()

ENGLISH_PARTICLE_LAST = [
    "van der Berg",
    "de la Cruz",
    "de la Rosa",
    "Van Dyke",
    "van Houten",
    "Von Trapp",
    "St. John",
    "Del Rio",
    "La Fontaine",
    "Le Blanc",
    "dos Santos",
    "Di Marco",
    "Ben Ami",
    "Mc Carthy",
]

GERMAN_FIRST = """Andreas Sabine Thomas Petra Michael Monika Stefan Andrea Wolfgang Claudia Peter Susanne Klaus Birgit
Jürgen Ulrike Günter Heike Bernd Karin Frank Martina Uwe Gabriele Ralf Angelika Dieter Renate Matthias Brigitte
Christian Silke Markus Anja Alexander Katrin Martin Nicole Jörg Stefanie Daniel Julia Sebastian Katharina Jan Christina
Tobias Anna Florian Sandra Björn Jana Sören Lena Lukas Hannah Maximilian Sophie Felix Laura Jonas Lea Philipp Marie Tim
Johanna Götz Käthe Jürgen Zoë Ömer Ayse Mehmet Fatma Giovanni Agnieszka Piotr Olga Dmitrij""".split()
GERMAN_TWO_FIRST = [
    "Hans-Peter",
    "Karl-Heinz",
    "Klaus-Dieter",
    "Anna-Lena",
    "Eva-Maria",
    "Marie Luise",
    "Hans Jürgen",
    "Anne-Kathrin",
    "Ernst August",
    "Karl Friedrich",
]
GERMAN_LAST = """Müller Schmidt Schneider Fischer Weber Meyer Wagner Becker Schulz Hoffmann Schäfer Koch Bauer Richter
Klein Wolf Schröder Neumann Schwarz Zimmermann Braun Krüger Hofmann Hartmann Lange Schmitt Werner Krause Meier Lehmann
Schmid Schulze Maier Köhler Herrmann König Walter Mayer Huber Kaiser Fuchs Peters Lang Scholz Möller Weiß Jung Hahn
Schubert Vogel Friedrich Keller Günther Frank Berger Winkler Roth Beck Lorenz Baumann Franke Albrecht Schuster Simon
Ludwig Böhm Winter Kraus Martin Schumacher Krämer Vogt Stein Jäger Otto Sommer Groß Seidel Heinrich Brandt Haas
Schreiber Graf Schulte Dietrich Ziegler Kuhn Kühn Pohl Engel Horn Busch Bergmann Thomas Voigt Sauer Arnold Wolff
Pfeiffer Strauß Größl Yilmaz Kaya Öztürk Nowak Kowalczyk Müller-Lüdenscheidt Schmidt-Rottluff Leutheusser-Köster""".split()
GERMAN_PARTICLE_LAST = [
    "von der Heide",
    "von Bülow",
    "van der Velden",
    "zu Guttenberg",
    "von und zu Aufseß",
    "vom Brocke",
    "zur Mühlen",
    "von Schönberg",
    "Freiherr von Stein",
]

FRENCH_FIRST = """Jean Marie Pierre Nathalie Michel Isabelle Philippe Sylvie Alain Catherine Patrick Martine Nicolas
Christine Christophe Françoise Laurent Valérie Frédéric Sandrine Stéphane Stéphanie David Céline Julien Sophie Thierry
Véronique Olivier Corinne Éric Chantal François Monique Daniel Émilie Sébastien Aurélie Antoine Julie Guillaume Élodie
Vincent Audrey Mathieu Laëtitia Benoît Delphine Jérôme Virginie Thomas Camille Maxime Léa Alexandre Manon Hugo Chloé
Lucas Inès Noël Maëlle Gaël Anaïs Loïc Zoé Raphaël Noémie Gérard Hélène Rémi Agnès Yves Béatrice Karim Fatima Mehdi
Yasmine Mamadou Aïssatou Joël Cédric Ludivine""".split()
FRENCH_TWO_FIRST = [
    "Jean-Pierre",
    "Marie-Claire",
    "Jean-Luc",
    "Anne-Sophie",
    "Jean-François",
    "Marie-Hélène",
    "Jean Marc",
    "Marie Thérèse",
    "Anne Laure",
    "Paul-Émile",
    "Marie-Ève",
    "Charles-Henri",
]
FRENCH_LAST = """Martin Bernard Dubois Thomas Robert Richard Petit Durand Leroy Moreau Simon Laurent Lefebvre Michel
Garcia David Bertrand Roux Vincent Fournier Morel Girard André Lefèvre Mercier Dupont Lambert Bonnet François Martinez
Legrand Garnier Faure Rousseau Blanc Guérin Muller Henry Roussel Nicolas Perrin Morin Mathieu Clément Gauthier Dumont
Lopez Fontaine Chevalier Robin Masson Sanchez Gérard Nguyen Boyer Denis Lemaire Duval Joly Gautier Roger Roche Roy Noël
Meyer Lucas Meunier Jean Pérez Marchand Dufour Blanchard Marie Barbier Brun Dumas Brunet Schmitt Leroux Colas Fernandez
Pierre Renard Arnaud Rolland Caron Aubert Giraud Leclerc Vidal Bourgeois Renaud Lemoine Picard Gaillard Philippe Leclercq
Lacroix Fabre Dupuis Olivier Rodriguez Hubert Benoît Œuvrard Lecœur Châtelain Ÿsaÿe L'Hermite D'Aboville Ben-Saïd
Traoré Diallo Benali""".split()
FRENCH_PARTICLE_LAST = [
    "de La Fontaine",
    "Le Goff",
    "du Plessis",
    "de Saint-Exupéry",
    "Le Bris",
    "de la Tour d'Auvergne",
    "La Rochefoucauld",
    "Ben Youssef",
    "van den Broeck",
    "des Rieux",
]

SPANISH_FIRST = """Antonio María Manuel Carmen José Ana Francisco Isabel David Laura Juan Cristina Javier Marta Daniel
Lucía Carlos Elena Alejandro Pilar Miguel Raquel Rafael Sara Pedro Paula Pablo Rosa Ángel Beatriz Sergio Mercedes
Fernando Rocío Jorge Julia Luis Irene Alberto Patricia Álvaro Andrea Diego Silvia Adrián Nuria Raúl Inés Iván Encarnación
Rubén Sofía Óscar Montserrat Ramón Alba Enrique Alicia Andrés Verónica Vicente Begoña Joaquín Noelia Santiago Iñaki
Íñigo Jordi Núria Xavier Montse Begoña Aitor Ainhoa Concepción Dolores Jesús""".split()
SPANISH_TWO_FIRST = [
    "María del Carmen",
    "José Luis",
    "María José",
    "Juan Carlos",
    "María Dolores",
    "José Antonio",
    "Ana Belén",
    "Francisco Javier",
    "María de los Ángeles",
    "José María",
    "Juan Antonio",
    "Ana Isabel",
    "Miguel Ángel",
    "María Teresa",
    "Luis Miguel",
]
SPANISH_LAST = """García Rodríguez González Fernández López Martínez Sánchez Pérez Gómez Martín Jiménez Hernández Ruiz
Díaz Moreno Muñoz Álvarez Romero Gutiérrez Alonso Navarro Torres Domínguez Ramos Vázquez Ramírez Gil Serrano Molina
Blanco Morales Suárez Ortega Castro Delgado Ortiz Marín Rubio Núñez Medina Sanz Castillo Iglesias Cortés Garrido Santos
Guerrero Lozano Cano Cruz Méndez Flores Prieto Herrera Peña León Márquez Cabrera Gallego Calvo Vidal Campos Reyes Vega
Fuentes Carrasco Díez Aguilar Caballero Nieto Santana Vargas Pascual Giménez Herrero Hidalgo Montero Lorenzo Santiago
Benítez Durán Ibáñez Arias Mora Ferrer Carmona Vicente Rojas Soto Crespo Román Pastor Velasco Parra Sáez Moya Bravo
Rivera Gallardo Soler Puig Bosch Güell Etxeberria Agirre""".split()
SPANISH_PARTICLE_LAST = [
    "de la Fuente",
    "del Río",
    "de los Santos",
    "de la Torre",
    "San Martín",
    "del Olmo",
    "de Haro",
    "Ruiz de Gauna",
    "Fernández-Cuesta",
    "López de Haro",
]


# --------------------------------------------------------------------------------------------------------------------
# Phones, e-mails, dates


@dataclass(frozen=True)
class Phone:
    """A telephone number as country code and national digits without the national prefix."""

    country: str
    digits: str

    @property
    def e164(self) -> str:
        return f"+{COUNTRY_CODES[self.country]}{self.digits}"


COUNTRY_CODES = {"US": "1", "DE": "49", "FR": "33", "ES": "34"}

US_AREA_CODES = """212 646 718 305 786 407 813 904 512 214 469 713 832 210 602 480 623 303 720 617 781 508 312 773 630 847
404 770 678 415 408 510 619 858 714 949 310 818 206 425 253 503 971 702 725 615 901 704 919 336 843 864 757 804 703 571 301
410 443 215 610 267 412 216 614 513 317 414 612 651 314 816 913 405 918 504 225 205 502 859 808""".split()
CANADIAN_AREA_CODES = ["416", "604", "514", "204"]


def make_us_phone(rng: Random) -> Phone:
    """Draws from 555-0100 to 555-0199, the numbers reserved for fiction in every area code."""
    return Phone("US", f"{rng.choice(US_AREA_CODES)}5550{rng.randint(100, 199)}")


def make_german_phone(rng: Random) -> Phone:
    """Draws from the Bundesnetzagentur's number blocks for films."""
    kind = rng.random()
    if kind < 0.12:
        return Phone("DE", f"176040690{rng.randint(0, 99):02d}")
    if kind < 0.24:
        return Phone("DE", f"17139200{rng.randint(0, 99):02d}")
    return Phone(
        "DE", rng.choice(["3023125", "4066969", "2214710", "6990009", "8999998"]) + f"{rng.randint(0, 999):03d}"
    )


def make_french_phone(rng: Random) -> Phone:
    """Draws mostly mobile numbers, and fixed numbers from ARCEP's blocks for films."""
    if rng.random() < 0.75:
        return Phone("FR", f"600{rng.randint(0, 999999):06d}")
    return Phone("FR", rng.choice(["19900", "26191", "35301", "46571", "53649"]) + f"{rng.randint(0, 9999):04d}")


def make_spanish_phone(rng: Random) -> Phone:
    if rng.random() < 0.85:
        return Phone("ES", f"6{rng.randint(0, 99):02d}000{rng.randint(0, 999):03d}")
    return Phone("ES", rng.choice(["910", "932", "954"]) + f"000{rng.randint(0, 999):03d}")


MAKE_PHONE = {"US": make_us_phone, "DE": make_german_phone, "FR": make_french_phone, "ES": make_spanish_phone}


def group_us(digits: str) -> tuple[str, str, str]:
    return digits[:3], digits[3:6], digits[6:]


def write_us(pattern: str) -> Callable[[str], str]:
    def write(digits: str) -> str:
        area, exchange, line = group_us(digits)
        return pattern.format(a=area, e=exchange, l=line, n=digits)

    return write


US_STYLES = [
    write_us(p)
    for p in (
        "({a}) {e}-{l}",
        "{a}-{e}-{l}",
        "{a}.{e}.{l}",
        "{n}",
        "+1 {a} {e} {l}",
        "+1{n}",
        "1-{a}-{e}-{l}",
        "({a}){e}-{l}",
        "{a} {e} {l}",
        "1 ({a}) {e}-{l}",
        "1{n}",
        "{a}/{e}-{l}",
        "+1 ({a}) {e}-{l}",
        "{a}\u2013{e}\u2013{l}",
        "({a})\u00a0{e}-{l}",
        "{a} {e}-{l} ",
        "+1-{a}-{e}-{l}",
    )
]


def split_german(digits: str) -> tuple[str, str]:
    if digits.startswith("1"):
        return digits[:3], digits[3:]
    length = 3 if digits.startswith("221") else 2
    return digits[:length], digits[length:]


def write_german(pattern: str) -> Callable[[str], str]:
    def write(digits: str) -> str:
        area, rest = split_german(digits)
        return pattern.format(a=area, r=rest, n=digits, h=rest[:-3], t=rest[-3:])

    return write


GERMAN_STYLES = [
    write_german(p)
    for p in (
        "0{a} {r}",
        "0{a}/{r}",
        "0{a}-{r}",
        "+49 {a} {r}",
        "+49{n}",
        "0049 {a} {r}",
        "+49 (0){a} {r}",
        "(0{a}) {h}-{t}",
        "0{a} / {h} {t}",
        "0{n}",
        "+49 (0) {a} / {h} {t}",
        "0{a}\u00a0{h} {t}",
        "0{a}.{h}.{t}",
    )
]


def write_french(pattern: str) -> Callable[[str], str]:
    def write(digits: str) -> str:
        pairs = [digits[0]] + [digits[i : i + 2] for i in range(1, 9, 2)]
        return pattern.format(*pairs, n=digits)

    return write


FRENCH_STYLES = [
    write_french(p)
    for p in (
        "0{0} {1} {2} {3} {4}",
        "0{0}.{1}.{2}.{3}.{4}",
        "0{n}",
        "+33 {0} {1} {2} {3} {4}",
        "+33{n}",
        "0033 {0} {1} {2} {3} {4}",
        "+33 (0){0} {1} {2} {3} {4}",
        "0{0}-{1}-{2}-{3}-{4}",
        "0{0}\u00a0{1}\u00a0{2}\u00a0{3}\u00a0{4}",
        "(+33) {0} {1} {2} {3} {4}",
        "0{0}/{1}/{2}/{3}/{4}",
    )
]


def write_spanish(pattern: str) -> Callable[[str], str]:
    def write(digits: str) -> str:
        return pattern.format(
            a=digits[:3], b=digits[3:6], c=digits[6:], d=digits[3:5], e=digits[5:7], f=digits[7:], n=digits
        )

    return write


SPANISH_STYLES = [
    write_spanish(p)
    for p in (
        "{a} {b} {c}",
        "{n}",
        "{a}-{b}-{c}",
        "{a}.{b}.{c}",
        "+34 {a} {b} {c}",
        "+34{n}",
        "0034 {a} {b} {c}",
        "(+34) {a} {b} {c}",
        "{a} {d} {e} {f}",
        "34{n}",
        "+34-{a}-{b}-{c}",
        "{a}\u00a0{b}\u00a0{c}",
        "({a}) {b} {c}",
    )
]

STYLES = {"US": US_STYLES, "DE": GERMAN_STYLES, "FR": FRENCH_STYLES, "ES": SPANISH_STYLES}


def write_foreign(rng: Random, phone: Phone, home: str) -> str:
    """Writes a phone of another country, as a careful person notes it: with plus sign or international prefix."""
    code = COUNTRY_CODES[phone.country]
    if phone.country == "US":
        area, exchange, line = group_us(phone.digits)
        return rng.choice([f"+1 {area} {exchange} {line}", f"+1 ({area}) {exchange}-{line}", f"+1{phone.digits}"])
    prefix = rng.choice(["+", "+", "+", "011 " if home == "US" else "00"])
    return f"{prefix}{code} {phone.digits[:3]} {phone.digits[3:]}"


def fold(text: str) -> str:
    """Returns the ASCII letters and digits of a name, lower-case, for an e-mail address."""
    for letter, plain in (("ß", "ss"), ("ø", "o"), ("ł", "l"), ("Ł", "L"), ("œ", "oe"), ("Œ", "Oe"), ("ı", "i")):
        text = text.replace(letter, plain)
    text = unicodedata.normalize("NFKD", text)
    return "".join(c for c in text.lower() if c.isascii() and c.isalnum())


GERMAN_MONTHS = "Januar Februar März April Mai Juni Juli August September Oktober November Dezember".split()
ENGLISH_MONTHS = "January February March April May June July August September October November December".split()

DATE_STYLES: dict[str, Callable[[date], str]] = {
    "M/D/Y": lambda d: f"{d.month}/{d.day}/{d.year}",
    "MM/DD/Y": lambda d: f"{d.month:02d}/{d.day:02d}/{d.year}",
    "M/D/y": lambda d: f"{d.month}/{d.day}/{d.year % 100:02d}",
    "M-D-Y": lambda d: f"{d.month}-{d.day}-{d.year}",
    "DD/MM/Y": lambda d: f"{d.day:02d}/{d.month:02d}/{d.year}",
    "D/M/Y": lambda d: f"{d.day}/{d.month}/{d.year}",
    "DD/MM/y": lambda d: f"{d.day:02d}/{d.month:02d}/{d.year % 100:02d}",
    "DD-MM-Y": lambda d: f"{d.day:02d}-{d.month:02d}-{d.year}",
    "DD.MM.Y": lambda d: f"{d.day:02d}.{d.month:02d}.{d.year}",
    "D.M.Y": lambda d: f"{d.day}.{d.month}.{d.year}",
    "DD.MM.y": lambda d: f"{d.day:02d}.{d.month:02d}.{d.year % 100:02d}",
    "ISO": lambda d: d.isoformat(),
    "Mon D, Y": lambda d: f"{ENGLISH_MONTHS[d.month - 1][:3]} {d.day}, {d.year}",
    "Month D, Y": lambda d: f"{ENGLISH_MONTHS[d.month - 1]} {d.day}, {d.year}",
    "D-Mon-Y": lambda d: f"{d.day}-{ENGLISH_MONTHS[d.month - 1][:3]}-{d.year}",
    "D-Mon-y": lambda d: f"{d.day:02d}-{ENGLISH_MONTHS[d.month - 1][:3]}-{d.year % 100:02d}",
    "D. Month Y": lambda d: f"{d.day}. {GERMAN_MONTHS[d.month - 1]} {d.year}",
}


# --------------------------------------------------------------------------------------------------------------------
# Layouts, records, cells

Cell = Any


@dataclass(eq=False)
class Record:
    """One invented person, the cells of the person's row, and the mistake in the row, if any."""

    identifier: int
    first: str
    middle: str
    last: str
    suffix: str
    email: str
    phone: Phone | None
    birthday: date | None
    role_word: str
    role: str
    office: int
    cells: list[Cell] = field(default_factory=list)
    defect: str = ""
    correction: dict[str, str] = field(default_factory=dict)
    duplicate_of: Record | None = None
    hidden: bool = False

    @property
    def full_name(self) -> str:
        return f"{self.first} {self.last}"


@dataclass
class Layout:
    """The columns of a roster and the habits of the office that filled them in."""

    name: str
    seed: int
    description: str
    facts: list[str]
    columns: list[tuple[str, Any]]
    roles: list[tuple[str, str, int]]
    country: str
    language: str
    people: int
    defect_rate: float
    defects: dict[str, int]
    name_style: str = "separate"
    phone_styles: list[int] = field(default_factory=lambda: [0])
    odd_phone_rate: float = 0.15
    phone_rate: float = 0.93
    no_phone: list[str] = field(default_factory=lambda: [""])
    date_styles: list[str] = field(default_factory=list)
    odd_date_styles: list[str] = field(default_factory=list)
    odd_date_rate: float = 0.03
    date_cells: bool = False
    number_phones: float = 0.0
    birthday_rate: float = 0.8
    no_birthday: list[str] = field(default_factory=lambda: [""])
    small_days: float = 0.0
    unknown_roles: list[str] = field(default_factory=list)
    empty_role_rate: float = 0.0
    domains: list[str] = field(default_factory=lambda: ["example.com"])
    duplicate_rate: float = 0.004
    middle_rate: float = 0.0
    suffix_rate: float = 0.0
    capital_last_names: bool = False
    two_first_rate: float = 0.04
    particle_rate: float = 0.03
    email_noise: float = 0.05
    offices: list[str] = field(default_factory=list)
    decomposed_rate: float = 0.0
    role_noise: float = 0.07
    encoding: str = "utf-8"
    write_identifier: Callable[[int], Cell] = str

    @property
    def header(self) -> list[str]:
        return [name for name, _ in self.columns]

    def position(self, kind: str) -> int:
        """Returns the position of the column that holds an agent's `kind` (e-mail, first, …), or -1."""
        return next((i for i, (_, maker) in enumerate(self.columns) if maker == kind), -1)

    def column(self, kind: str) -> str:
        return self.columns[self.position(kind)][0]

    def shown_date(self, day: date) -> str:
        return DATE_STYLES[self.date_styles[0]](day)


NAMES = {
    "english": (ENGLISH_FIRST, ENGLISH_TWO_FIRST, ENGLISH_LAST, ENGLISH_PARTICLE_LAST),
    "german": (GERMAN_FIRST, GERMAN_TWO_FIRST, GERMAN_LAST, GERMAN_PARTICLE_LAST),
    "french": (FRENCH_FIRST, FRENCH_TWO_FIRST, FRENCH_LAST, FRENCH_PARTICLE_LAST),
    "spanish": (SPANISH_FIRST, SPANISH_TWO_FIRST, SPANISH_LAST, SPANISH_PARTICLE_LAST),
}


def draw_weighted(rng: Random, items: list[tuple[Any, int]]) -> Any:
    return rng.choices([item for item, _ in items], [weight for _, weight in items])[0]


def draw_birthday(rng: Random, layout: Layout) -> date:
    year = min(2003, max(1941, int(rng.gauss(1975, 13))))
    month = rng.randint(1, 12)
    day = rng.randint(1, 12) if rng.random() < layout.small_days else rng.randint(1, 28)
    return date(year, month, day)


class RecordFactory:
    """Draws records with unique e-mail addresses, phones and names."""

    def __init__(self, layout: Layout, rng: Random) -> None:
        self.layout, self.rng = layout, rng
        self.emails: set[str] = set()
        self.phones: set[str] = set()
        self.names: set[str] = set()
        self.next_identifier = 100000 + rng.randint(0, 50000)

    def draw_name(self) -> tuple[str, str]:
        first_names, two_first, last_names, particle_last = NAMES[self.layout.language]
        layout, rng = self.layout, self.rng
        while True:
            first, last = rng.choice(first_names), rng.choice(last_names)
            if layout.name_style == "first_last":
                if " " in first or " " in last:
                    continue
            else:
                if rng.random() < layout.two_first_rate:
                    first = rng.choice(two_first)
                if rng.random() < layout.particle_rate:
                    last = rng.choice(particle_last)
            if layout.language == "spanish":
                last = f"{last} {rng.choice(last_names)}"
            if layout.capital_last_names:
                last = last.upper()
            encodable = (first + last).encode(layout.encoding, "replace").decode(layout.encoding) == first + last
            if encodable and (first + last).casefold() not in self.names:
                self.names.add((first + last).casefold())
                return first, last

    def draw_email(self, first: str, last: str) -> str:
        rng = self.rng
        one, two = fold(first.split()[0]), fold(last.split()[0] if self.layout.language == "spanish" else last)
        if "'" in last and rng.random() < 0.4:
            two = last.lower()
        pattern = rng.choice(
            ["{f}.{l}", "{f}.{l}", "{i}{l}", "{f}{l}", "{f}_{l}", "{f}.{l}{n}", "{l}.{f}", "{f}{n}", "{f}.{l}+leads"]
        )
        if rng.random() < 0.6:
            pattern = "{f}.{l}"
        for attempt in itertools.count():
            local = pattern.format(f=one, l=two, i=one[:1], n=rng.randint(1, 99))
            address = f"{local if not attempt else local + str(attempt + 1)}@{rng.choice(self.layout.domains)}"
            if address not in self.emails:
                self.emails.add(address)
                return address
        raise AssertionError("the loop ends only with an address")

    def draw_phone(self) -> Phone:
        country = self.layout.country
        while True:
            phone = MAKE_PHONE[country](self.rng)
            if phone.e164 not in self.phones:
                self.phones.add(phone.e164)
                return phone

    def draw_foreign_phone(self) -> Phone:
        countries = [c for c in COUNTRY_CODES if c != self.layout.country]
        if self.layout.country == "US" and self.rng.random() < 0.5:
            return Phone("US", f"{self.rng.choice(CANADIAN_AREA_CODES)}5550{self.rng.randint(100, 199)}")
        return MAKE_PHONE[self.rng.choice(countries)](self.rng)

    def draw(self) -> Record:
        layout, rng = self.layout, self.rng
        first, last = self.draw_name()
        word, role = draw_weighted(rng, [((w, r), weight) for w, r, weight in layout.roles])
        if rng.random() < layout.empty_role_rate:
            word, role = "", "AGENT"
        phone = None
        if rng.random() < layout.phone_rate:
            phone = self.draw_foreign_phone() if rng.random() < 0.01 else self.draw_phone()
        self.next_identifier += rng.randint(1, 9)
        return Record(
            identifier=self.next_identifier,
            first=first,
            middle=rng.choice(NAMES[layout.language][0]) if rng.random() < layout.middle_rate else "",
            last=last,
            suffix=rng.choice(["Jr.", "III", "Sr.", "II"]) if rng.random() < layout.suffix_rate else "",
            email=self.draw_email(first, last),
            phone=phone,
            birthday=draw_birthday(rng, layout) if rng.random() < layout.birthday_rate and layout.date_styles else None,
            role_word=word,
            role=role,
            office=rng.randrange(len(layout.offices) or 1),
        )


def write_phone(layout: Layout, rng: Random, phone: Phone | None) -> Cell:
    if phone is None:
        return rng.choice(layout.no_phone)
    if phone.country != layout.country or len(phone.digits) == 10 and phone.digits[:3] in CANADIAN_AREA_CODES:
        return write_foreign(rng, phone, layout.country)
    if rng.random() < layout.number_phones:
        return int(phone.digits)
    styles = STYLES[layout.country]
    if rng.random() < layout.odd_phone_rate:
        return rng.choice(styles)(phone.digits)
    return styles[rng.choice(layout.phone_styles)](phone.digits)


def write_birthday(layout: Layout, rng: Random, birthday: date | None) -> Cell:
    if birthday is None:
        text = rng.choice(layout.no_birthday)
        return None if layout.date_cells and not text else text
    if layout.odd_date_styles and rng.random() < layout.odd_date_rate:
        return DATE_STYLES[rng.choice(layout.odd_date_styles)](birthday)
    if layout.date_cells:
        return datetime(birthday.year, birthday.month, birthday.day)
    return DATE_STYLES[rng.choice(layout.date_styles)](birthday)


def write_email(layout: Layout, rng: Random, email: str) -> str:
    if rng.random() >= layout.email_noise:
        return email
    local, domain = email.split("@")
    return rng.choice(
        [
            email.upper(),
            local.title() + "@" + domain,
            email + " ",
            " " + email,
            email + "  ",
            local.title() + "@" + domain.title(),
            email + "\u00a0",
            local + "@" + domain.upper(),
        ]
    )


def write_role(layout: Layout, rng: Random, word: str) -> str:
    if not word or rng.random() >= layout.role_noise:
        return word
    return rng.choice(
        [
            word.upper(),
            word.lower(),
            word + " ",
            " " + word,
            word.replace(" ", "  "),
            word.lower() + " ",
            word.capitalize(),
        ]
    )


def write_name(layout: Layout, rng: Random, name: str) -> str:
    noise = rng.random()
    if noise < 0.012:
        return name + " "
    if noise < 0.018:
        return " " + name
    if noise < 0.022 and " " in name:
        return name.replace(" ", "\u00a0", 1)
    if 0.022 <= noise < 0.022 + layout.decomposed_rate:
        return unicodedata.normalize("NFD", name)
    return name


def join_name(layout: Layout, rng: Random, record: Record) -> str:
    if layout.name_style == "first_last":
        return f"{record.first}{'  ' if rng.random() < 0.01 else ' '}{record.last}"
    comma = ", " if rng.random() > 0.03 else rng.choice([",", " , ", ",  "])
    return f"{record.last}{comma}{record.first}"


def fill_cells(layout: Layout, rng: Random, record: Record) -> None:
    """Fills the record's row with clean cells, in the notations of the layout's office."""
    cells: list[Cell] = []
    for _, maker in layout.columns:
        if maker == "identifier":
            cells.append(layout.write_identifier(record.identifier))
        elif maker == "email":
            cells.append(write_email(layout, rng, record.email))
        elif maker == "first":
            cells.append(write_name(layout, rng, record.first))
        elif maker == "last":
            cells.append(write_name(layout, rng, record.last))
        elif maker == "name":
            cells.append(write_name(layout, rng, join_name(layout, rng, record)))
        elif maker == "phone":
            cells.append(write_phone(layout, rng, record.phone))
        elif maker == "birthday":
            cells.append(write_birthday(layout, rng, record.birthday))
        elif maker == "role":
            cells.append(write_role(layout, rng, record.role_word))
        elif callable(maker):
            cells.append(maker(rng, record))
        else:
            cells.append(maker)
    record.cells = cells


# --------------------------------------------------------------------------------------------------------------------
# Mistakes that need a person. Each function spoils the cells of a clean record and returns False if it cannot.


def set_cell(layout: Layout, record: Record, kind: str, wrong: Cell, right: str, defect: str) -> bool:
    position = layout.position(kind)
    if position < 0:
        return False
    record.cells[position] = wrong
    record.defect = defect
    record.correction = {layout.columns[position][0]: right}
    return True


def clean_phone_text(layout: Layout, phone: Phone) -> str:
    if phone.country != layout.country:
        return f"+{COUNTRY_CODES[phone.country]} {phone.digits[:3]} {phone.digits[3:]}"
    return STYLES[layout.country][layout.phone_styles[0]](phone.digits)


def ensure_phone(factory: RecordFactory, record: Record) -> Phone:
    if (
        record.phone is None
        or record.phone.country != factory.layout.country
        or record.phone.digits[:3] in CANADIAN_AREA_CODES
    ):
        record.phone = factory.draw_phone()
    return record.phone


def ensure_birthday(factory: RecordFactory, record: Record) -> date:
    if record.birthday is None:
        record.birthday = draw_birthday(factory.rng, factory.layout)
    return record.birthday


def spoil_two_emails(factory: RecordFactory, record: Record) -> bool:
    layout, rng = factory.layout, factory.rng
    other = fold(record.first)[:8] + rng.choice(["home", "77", ".mobile", "sells"]) + "@example.net"
    joint = " ::: " if "google" in layout.name else rng.choice(["; ", ", ", " / ", " ", " or ", ";"])
    pair = [record.email, other]
    if rng.random() < 0.3:
        pair.reverse()
    return set_cell(layout, record, "email", joint.join(pair), record.email, "two e-mail addresses")


def spoil_missing_email(factory: RecordFactory, record: Record) -> bool:
    wrong = factory.rng.choice(["", "", "n/a", "-", "none", "TBD"])
    return set_cell(factory.layout, record, "email", wrong, record.email, "missing e-mail")


def spoil_email_typing(factory: RecordFactory, record: Record) -> bool:
    local, domain = record.email.split("@")
    wrong = factory.rng.choice(
        [
            f"{local}@{domain.replace('.', ',')}",
            f"{local}{domain}",
            f"{local}@@{domain}",
            f"{local}@{domain.rsplit('.', 1)[0]}",
            f"{local.replace('.', ' ')} @{domain}",
            f"{local}@",
            f"{local} at {domain}",
            f"{local}@{domain.replace('.', '..')}",
        ]
    )
    return set_cell(factory.layout, record, "email", wrong, record.email, "mistyped e-mail")


def spoil_email_with_name(factory: RecordFactory, record: Record) -> bool:
    local = record.email.split("@")[0]
    wrong = factory.rng.choice(
        [
            f"/o=ExchangeLabs/ou=Exchange Administrative Group (FYDIBOHF23SPDLT)/cn=Recipients/cn=9f2c{factory.rng.randint(1000, 9999)}-{local}",
            f"{record.full_name} ({local})",
        ]
    )
    return set_cell(factory.layout, record, "email", wrong, record.email, "Exchange name instead of an e-mail")


EXTENSIONS = {
    "US": ["x{n}", " x{n}", " ext. {n}", " ext {n}", " Ext: {n}", " #{n}"],
    "DE": [" App. {n}", " Durchwahl {n}", " DW {n}"],
    "FR": [" poste {n}", " p. {n}"],
    "ES": [" ext. {n}", " ext {n}", " extensión {n}"],
}


def spoil_extension(factory: RecordFactory, record: Record) -> bool:
    layout, rng = factory.layout, factory.rng
    right = clean_phone_text(layout, ensure_phone(factory, record))
    wrong = right + rng.choice(EXTENSIONS[layout.country]).format(n=rng.randint(11, 499))
    return set_cell(layout, record, "phone", wrong, right, "phone with extension")


def spoil_two_phones(factory: RecordFactory, record: Record) -> bool:
    layout, rng = factory.layout, factory.rng
    right = clean_phone_text(layout, ensure_phone(factory, record))
    other = clean_phone_text(layout, factory.draw_phone())
    joint = " ::: " if "google" in layout.name else rng.choice([" / ", "; ", " or ", ", ", " & "])
    return set_cell(layout, record, "phone", right + joint + other, right, "two phone numbers")


def spoil_phone_digits(factory: RecordFactory, record: Record) -> bool:
    layout, rng = factory.layout, factory.rng
    right = clean_phone_text(layout, ensure_phone(factory, record))
    at = max(i for i, c in enumerate(right) if c.isdigit())
    wrong = right[:at] if rng.random() < 0.6 else right + str(rng.randint(0, 9)) * 3
    return set_cell(layout, record, "phone", wrong, right, "phone with too few or too many digits")


def spoil_phone_exponent(factory: RecordFactory, record: Record) -> bool:
    layout = factory.layout
    phone = ensure_phone(factory, record)
    wrong = f"{int(phone.digits):.5E}"
    if layout.country in ("DE", "ES"):
        wrong = wrong.replace(".", ",")
    return set_cell(
        layout, record, "phone", wrong, clean_phone_text(layout, phone), "phone as an exponent, digits lost"
    )


def spoil_lost_plus(factory: RecordFactory, record: Record) -> bool:
    layout, rng = factory.layout, factory.rng
    abroad = rng.choice([c for c in COUNTRY_CODES if c not in (layout.country, "US")])
    record.phone = MAKE_PHONE[abroad](rng)
    wrong = COUNTRY_CODES[abroad] + rng.choice(["", " "]) + record.phone.digits
    return set_cell(layout, record, "phone", wrong, record.phone.e164, "foreign phone without plus sign")


def spoil_own_lost_plus(factory: RecordFactory, record: Record) -> bool:
    phone = ensure_phone(factory, record)
    if factory.layout.country != "DE" or not phone.digits.startswith("1"):
        return False
    return set_cell(factory.layout, record, "phone", "49" + phone.digits, phone.e164, "phone lost its plus sign")


def spoil_phone_note(factory: RecordFactory, record: Record) -> bool:
    layout, rng = factory.layout, factory.rng
    right = clean_phone_text(layout, ensure_phone(factory, record))
    notes = {
        "US": [" (do not text)", " - call after 5", " wife's cell"],
        "DE": [" (nur abends)", " privat!"],
        "FR": [" (après 18 h)", " rép."],
        "ES": [" (solo tardes)", " preguntar por Ana"],
    }
    return set_cell(layout, record, "phone", right + rng.choice(notes[layout.country]), right, "note next to the phone")


def spoil_phone_letters(factory: RecordFactory, record: Record) -> bool:
    layout = factory.layout
    right = clean_phone_text(layout, ensure_phone(factory, record))
    at = [i for i, c in enumerate(right) if c == "0" and i > 3]
    if not at:
        return False
    wrong = right[: at[-1]] + "O" + right[at[-1] + 1 :]
    return set_cell(layout, record, "phone", wrong, right, "letter O instead of zero in the phone")


def spoil_impossible_date(factory: RecordFactory, record: Record) -> bool:
    layout, rng = factory.layout, factory.rng
    if layout.position("birthday") < 0:
        return False
    day = ensure_birthday(factory, record)
    d, m, y = rng.choice(
        [(30, 2, day.year), (31, 4, day.year), (31, 9, day.year), (0, day.month, day.year), (31, 11, day.year)]
    )
    style = layout.date_styles[0]
    if style.startswith("M/") or style.startswith("MM"):
        wrong = f"{m}/{d}/{y}"
    elif style.startswith("DD."):
        wrong = f"{d:02d}.{m:02d}.{y}"
    elif style.startswith("DD"):
        wrong = f"{d:02d}/{m:02d}/{y}"
    elif style == "ISO":
        wrong = f"{y}-{m:02d}-{d:02d}"
    else:
        wrong = f"{ENGLISH_MONTHS[m - 1][:3]} {d}, {y}"
    return set_cell(layout, record, "birthday", wrong, layout.shown_date(day), "impossible date")


def spoil_swapped_date(factory: RecordFactory, record: Record) -> bool:
    """Writes a birthday with day above 12 in the other order than the roster's."""
    layout, rng = factory.layout, factory.rng
    if layout.position("birthday") < 0:
        return False
    record.birthday = ensure_birthday(factory, record).replace(day=rng.randint(13, 28))
    swapped = {"M/D/Y": "DD/MM/Y", "MM/DD/Y": "DD/MM/Y", "DD/MM/Y": "MM/DD/Y", "DD.MM.Y": "MM/DD/Y"}[
        layout.date_styles[0]
    ]
    return set_cell(
        layout,
        record,
        "birthday",
        DATE_STYLES[swapped](record.birthday),
        layout.shown_date(record.birthday),
        "day and month in the other order",
    )


def spoil_future_date(factory: RecordFactory, record: Record) -> bool:
    layout = factory.layout
    if layout.position("birthday") < 0:
        return False
    day = ensure_birthday(factory, record)
    wrong = layout.shown_date(day.replace(year=day.year + 100))
    return set_cell(layout, record, "birthday", wrong, layout.shown_date(day), "birthday in the future")


def spoil_serial_date(factory: RecordFactory, record: Record) -> bool:
    layout = factory.layout
    if layout.position("birthday") < 0:
        return False
    day = ensure_birthday(factory, record)
    serial = (day - date(1899, 12, 30)).days
    return set_cell(
        layout,
        record,
        "birthday",
        serial if layout.name.endswith("xlsx") else str(serial),
        layout.shown_date(day),
        "birthday as Excel's serial number",
    )


def spoil_yearless_date(factory: RecordFactory, record: Record) -> bool:
    layout = factory.layout
    if layout.position("birthday") < 0:
        return False
    day, record.birthday = ensure_birthday(factory, record), None
    return set_cell(layout, record, "birthday", f"--{day.month:02d}-{day.day:02d}", "", "birthday without a year")


def spoil_date_words(factory: RecordFactory, record: Record) -> bool:
    layout, rng = factory.layout, factory.rng
    if layout.position("birthday") < 0:
        return False
    words = {
        "US": ["ask!", "1970?", "May 1968", "in file"],
        "DE": ["ca. 1970", "siehe Akte", "??"],
        "FR": ["à demander", "1972 ?", "?"],
        "ES": ["preguntar", "1971?", "pendiente"],
    }
    record.birthday = None
    return set_cell(layout, record, "birthday", rng.choice(words[layout.country]), "", "words instead of a birthday")


def spoil_missing_last(factory: RecordFactory, record: Record) -> bool:
    layout, rng = factory.layout, factory.rng
    first, last = layout.position("first"), layout.position("last")
    if first < 0:
        wrong = record.last + "," if layout.name_style == "last_first" else record.first
        right = f"{record.last}, {record.first}" if layout.name_style == "last_first" else record.full_name
        return set_cell(layout, record, "name", wrong, right, "missing first or last name")
    if rng.random() < 0.5:
        record.cells[first], record.cells[last] = record.full_name, ""
        record.defect = "whole name in the first-name column"
        record.correction = {layout.columns[first][0]: record.first, layout.columns[last][0]: record.last}
        return True
    return set_cell(layout, record, "last", rng.choice(["", "", "-", "n/a"]), record.last, "missing last name")


def spoil_couple(factory: RecordFactory, record: Record) -> bool:
    layout, rng = factory.layout, factory.rng
    other = rng.choice(NAMES[layout.language][0])
    joint = {"english": " & ", "german": " u. ", "french": " et ", "spanish": " y "}[layout.language]
    defect = "two people in one row"
    if layout.position("first") >= 0:
        return set_cell(layout, record, "first", record.first + joint + other, record.first, defect)
    if layout.name_style == "last_first":
        return set_cell(
            layout,
            record,
            "name",
            f"{record.last}, {record.first}{joint}{other}",
            f"{record.last}, {record.first}",
            defect,
        )
    return set_cell(layout, record, "name", f"{record.first}{joint}{other} {record.last}", record.full_name, defect)


def spoil_three_words(factory: RecordFactory, record: Record) -> bool:
    layout, rng = factory.layout, factory.rng
    if layout.name_style != "first_last":
        return False
    _, two_first, last_names, particle_last = NAMES[layout.language]
    kind = rng.random()
    if kind < 0.35:
        record.last = rng.choice(particle_last)
        defect = "three-word name"
    elif kind < 0.7:
        record.first = rng.choice(two_first)
        defect = "three-word name"
    else:
        record.last = f"{record.last} {rng.choice(['Jr.', 'III', 'Sr.'])}"
        defect = "name with suffix"
    return set_cell(layout, record, "name", record.full_name, f"{record.last}, {record.first}", defect)


def spoil_no_comma(factory: RecordFactory, record: Record) -> bool:
    layout, rng = factory.layout, factory.rng
    if layout.name_style != "last_first":
        return False
    wrong = record.full_name if rng.random() < 0.6 else f"{record.last} {record.first}"
    return set_cell(layout, record, "name", wrong, f"{record.last}, {record.first}", "name without comma")


def spoil_unknown_role(factory: RecordFactory, record: Record) -> bool:
    layout, rng = factory.layout, factory.rng
    if not layout.unknown_roles:
        return False
    record.role_word, record.role = next((w, r) for w, r, _ in layout.roles if r == "AGENT")
    return set_cell(layout, record, "role", rng.choice(layout.unknown_roles), record.role_word, "unknown role word")


DEFECTS: dict[str, Callable[[RecordFactory, Record], bool]] = {
    "two emails": spoil_two_emails,
    "no email": spoil_missing_email,
    "email typing": spoil_email_typing,
    "exchange": spoil_email_with_name,
    "extension": spoil_extension,
    "two phones": spoil_two_phones,
    "phone digits": spoil_phone_digits,
    "exponent": spoil_phone_exponent,
    "lost plus": spoil_lost_plus,
    "own lost plus": spoil_own_lost_plus,
    "phone note": spoil_phone_note,
    "phone letters": spoil_phone_letters,
    "impossible date": spoil_impossible_date,
    "swapped": spoil_swapped_date,
    "future": spoil_future_date,
    "serial": spoil_serial_date,
    "yearless": spoil_yearless_date,
    "date words": spoil_date_words,
    "missing name": spoil_missing_last,
    "couple": spoil_couple,
    "three words": spoil_three_words,
    "no comma": spoil_no_comma,
    "unknown role": spoil_unknown_role,
}


def build_records(layout: Layout, rng: Random) -> list[Record]:
    """Draws the roster's people, spoils some rows, and inserts rows that list a person a second time."""
    factory = RecordFactory(layout, rng)
    records: list[Record] = []
    deck: list[str] = []  # as a deck of cards, so that each kind of mistake occurs
    for _ in range(layout.people):
        record = factory.draw()
        fill_cells(layout, rng, record)
        if rng.random() < layout.defect_rate:
            while not record.defect:
                if not deck:
                    deck = [kind for kind, weight in layout.defects.items() for _ in range(weight)]
                    rng.shuffle(deck)
                DEFECTS[deck.pop()](factory, record)
        records.append(record)
    clean = [r for r in records if not r.defect and r.phone]
    for original in rng.sample(clean, max(1, round(layout.people * layout.duplicate_rate))):
        insert_duplicate(layout, rng, factory, records, original)
    if len(records) > 300:
        share_email(layout, rng, records)
    return records


def insert_duplicate(
    layout: Layout, rng: Random, factory: RecordFactory, records: list[Record], original: Record
) -> None:
    """Inserts a second row of `original`: usually a later copy, seldom an earlier row with an old phone."""
    copy = replace(original, cells=list(original.cells), correction={"": "delete"}, duplicate_of=original)
    position = records.index(original)
    email = layout.position("email")
    if rng.random() < 0.5:
        copy.cells[email] = original.email.title() if rng.random() < 0.5 else original.email
    if rng.random() < 0.5 and layout.position("phone") >= 0:
        copy.cells[layout.position("phone")] = write_phone(layout, rng, original.phone)
    if rng.random() < 0.6 and layout.position("identifier") >= 0:
        factory.next_identifier += 7
        copy.cells[layout.position("identifier")] = layout.write_identifier(factory.next_identifier)
    copy.defect = "duplicate"
    if rng.random() < 0.12 and layout.position("phone") >= 0:
        copy.phone = factory.draw_phone()
        copy.cells[layout.position("phone")] = write_phone(layout, rng, copy.phone)
        copy.defect = "older duplicate"
        records.insert(max(0, position - rng.randint(1, 40)), copy)
    else:
        copy.office = original.office
        records.insert(min(len(records), position + rng.choice([1, 1, 2, 15, 60, 150])), copy)


def share_email(layout: Layout, rng: Random, records: list[Record]) -> None:
    """Gives two people one team address, so that a person must decide whose address it is."""
    one, two = rng.sample([r for r in records if not r.defect and not any(d.duplicate_of is r for d in records)], 2)
    column = layout.position("email")
    one.cells[column] = two.cells[column] = one.email
    one.defect = two.defect = "same e-mail as another person"
    one.correction = {layout.columns[column][0]: one.email}
    two.correction = {layout.columns[column][0]: two.email}


# --------------------------------------------------------------------------------------------------------------------
# Sheets: rows in file order, and the truth about them


@dataclass
class Sheet:
    """The rows of the roster's sheet in file order: cells, and the record if the row is a person."""

    layout: Layout
    rows: list[tuple[list[Cell], Record | None]] = field(default_factory=list)
    header_rows: list[int] = field(default_factory=list)

    def add(self, cells: list[Cell], record: Record | None = None, header: bool = False) -> int:
        self.rows.append((cells, record))
        if header:
            self.header_rows.append(len(self.rows))
        return len(self.rows)

    def make_roster(self) -> Roster:
        layout = self.layout
        row_of = {id(record): row for row, (_, record) in enumerate(self.rows, 1) if record}
        people, not_people = [], []
        has_phone, has_birthday = layout.position("phone") >= 0, layout.position("birthday") >= 0
        has_role = layout.position("role") >= 0
        for row, (_, record) in enumerate(self.rows, 1):
            if record is None:
                if row not in self.header_rows:
                    not_people.append(row)
                continue
            defect = record.defect
            if record.duplicate_of is not None:
                original_row = row_of[id(record.duplicate_of)]
                defect = f"{record.defect} of row {original_row}; import row {original_row}"
            people.append(
                Person(
                    row=row,
                    email=record.email,
                    first_name=record.first,
                    last_name=record.last,
                    phone=record.phone.e164 if record.phone and has_phone else None,
                    date_of_birth=record.birthday.isoformat() if record.birthday and has_birthday else None,
                    role=record.role if has_role else "AGENT",
                    defect=defect,
                    correction=dict(record.correction),
                )
            )
        return Roster(layout.name, layout.description, people, not_people, list(layout.facts))


def make_row(layout: Layout, **cells: Cell) -> list[Cell]:
    """Returns an otherwise empty row; keys are positions written as c0, c1, …"""
    row: list[Cell] = [""] * len(layout.columns)
    for key, value in cells.items():
        row[int(key[1:])] = value
    return row


def fill_sheet(
    layout: Layout,
    rng: Random,
    records: list[Record],
    *,
    titles: Sequence[list[Cell]] = (),
    repeat_header: int = 0,
    blank_rate: float = 0.0,
    footers: Sequence[list[Cell]] = (),
) -> Sheet:
    """Lays out title rows, header, people, repeated headers, blank rows and footers."""
    sheet = Sheet(layout)
    for title in titles:
        sheet.add(title)
    sheet.add(layout.header, header=True)
    for count, record in enumerate(records, 1):
        sheet.add(record.cells, record)
        if rng.random() < blank_rate:
            sheet.add([""] * len(layout.columns))
        if repeat_header and count % repeat_header == 0 and count < len(records):
            sheet.add(layout.header)
    for footer in footers:
        sheet.add(footer)
    return sheet


def write_csv(
    sheet: Sheet,
    path: Path,
    *,
    encoding: str = "utf-8",
    delimiter: str = ",",
    newline: str = "\r\n",
    quotes_all: bool = False,
) -> None:
    # Outlook and Excel write a question mark for a letter that the encoding lacks.
    with path.open("w", encoding=encoding, errors="replace", newline="") as file:
        for cells, record in sheet.rows:
            if record is None and not any(cells) and delimiter == ",":
                file.write(newline)  # a blank line, as some systems write between pages
            elif len(cells) == 1 and str(cells[0]).startswith("sep="):
                file.write(cells[0] + newline)
            else:
                quoting = csv.QUOTE_ALL if quotes_all else csv.QUOTE_MINIMAL
                csv.writer(file, delimiter=delimiter, lineterminator=newline, quoting=quoting).writerow(
                    ["" if cell is None else cell for cell in cells]
                )


def write_cell(cell: Any, value: Cell) -> None:
    if value in ("", None):
        return
    cell.value = value
    if isinstance(value, str):
        cell.data_type = "s"


# --------------------------------------------------------------------------------------------------------------------
# Cells of no interest to an import of agents

STREETS = ["Main St", "Oak Ave", "Maple Dr", "Sunset Blvd", "2nd St", "Lakeview Rd", "Park Ave", "Hillcrest Ln"]
CITIES = ["Tampa", "Austin", "Phoenix", "Denver", "Boston", "Chicago", "Atlanta", "San Diego", "Seattle", "Nashville"]
STATES = ["FL", "TX", "AZ", "CO", "MA", "IL", "GA", "CA", "WA", "TN"]


def other_phone(rate: float = 0.7, country: str = "US") -> Callable[[Random, Record], str]:
    def make(rng: Random, record: Record) -> str:
        return STYLES[country][0](MAKE_PHONE[country](rng).digits) if rng.random() < rate else ""

    return make


def one_of(*words: str) -> Callable[[Random, Record], str]:
    return lambda rng, record: rng.choice(words)


def number(low: int, high: int, width: int = 0, prefix: str = "") -> Callable[[Random, Record], str]:
    return lambda rng, record: f"{prefix}{rng.randint(low, high):0{width}d}"


def stamp(rng: Random, record: Record) -> str:
    return f"{rng.randint(2015, 2024)}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}T{rng.randint(0, 23):02d}:{rng.randint(0, 59):02d}:00Z"


def some_date(style: str, low: int, high: int, rate: float = 0.8) -> Callable[[Random, Record], str]:
    def make(rng: Random, record: Record) -> str:
        day = date(rng.randint(low, high), rng.randint(1, 12), rng.randint(1, 28))
        return DATE_STYLES[style](day) if rng.random() < rate else ""

    return make


def date_cell(low: int, high: int, rate: float = 0.8) -> Callable[[Random, Record], Cell]:
    def make(rng: Random, record: Record) -> Cell:
        day = datetime(rng.randint(low, high), rng.randint(1, 12), rng.randint(1, 28))
        return day if rng.random() < rate else None

    return make


def street(rng: Random, record: Record) -> str:
    return f"{rng.randint(1, 9999)} {rng.choice(STREETS)}" + (
        f", Apt {rng.randint(1, 40)}" if rng.random() < 0.2 else ""
    )


def city(rng: Random, record: Record) -> str:
    return CITIES[record.identifier % 10]


def state(rng: Random, record: Record) -> str:
    return STATES[record.identifier % 10]


def other_email(rate: float, domain: str = "example.org") -> Callable[[Random, Record], str]:
    def make(rng: Random, record: Record) -> str:
        return f"{fold(rng.choice(ENGLISH_FIRST))}{rng.randint(1, 999)}@{domain}" if rng.random() < rate else ""

    return make


def other_name(rate: float, language: str = "english") -> Callable[[Random, Record], str]:
    def make(rng: Random, record: Record) -> str:
        return f"{rng.choice(NAMES[language][0])} {rng.choice(NAMES[language][2])}" if rng.random() < rate else ""

    return make


def sometimes(rate: float, *words: str) -> Callable[[Random, Record], str]:
    return lambda rng, record: rng.choice(words) if rng.random() < rate else ""


def money(low: int, high: int) -> Callable[[Random, Record], str]:
    return lambda rng, record: f"${rng.randint(low, high):,}.00"


# --------------------------------------------------------------------------------------------------------------------
# 1. RESO Member resource

US_DEFECTS = {
    "two emails": 3,
    "no email": 4,
    "email typing": 4,
    "extension": 3,
    "two phones": 3,
    "phone digits": 3,
    "phone note": 1,
    "phone letters": 1,
    "lost plus": 1,
    "missing name": 2,
    "couple": 2,
    "unknown role": 3,
}
US_DATE_DEFECTS = {"impossible date": 2, "future": 1, "date words": 1}
US_PHONES = "Phones without a country code are US numbers."
EMPTY_PHONE = "n/a, N/A, none, TBD, 000-000-0000 and - in a phone cell mean that there is no phone."
FUTURE = "A birthday after the year 2010 is a mistake."


def make_reso_layout() -> Layout:
    return Layout(
        name="reso_member.csv",
        seed=101,
        description="Members of an MLS as the RESO Web API's Member resource names them, saved as CSV; names from "
        "https://app.unpkg.com/@realestate/types@1.2.0/files/RESODataDictionaryV1_7/Member.d.ts",
        facts=[
            US_PHONES,
            "MemberMobilePhone is the phone to import; the other phone columns are not.",
            "MemberKey identifies a member.",
            "The roster has no birthdays.",
            "MemberFirstName and MemberLastName are the name; middle name and suffix are not imported.",
            "MemberType gives the role: Designated REALTOR Participant and MLS Only "
            "Broker mean BROKER_ADMIN; Office Manager means OFFICE_ADMIN; Association Staff and Multiple Listing Service Staff mean "
            "ADMIN; REALTOR Salesperson, MLS Only Salesperson, Licensed Assistant and Unlicensed Assistant mean AGENT.",
            "An empty MemberType means AGENT.",
            "Inactive members are imported too.",
        ],
        columns=[
            ("MemberKey", "identifier"),
            ("MemberKeyNumeric", lambda g, r: str(r.identifier)),
            ("MemberMlsId", number(1000, 999999)),
            ("MemberLoginId", lambda g, r: fold(r.first)[:1] + fold(r.last)[:6]),
            ("MemberNamePrefix", sometimes(0.05, "Mr.", "Ms.", "Dr.")),
            ("MemberFirstName", "first"),
            ("MemberMiddleName", lambda g, r: r.middle),
            ("MemberLastName", "last"),
            ("MemberNameSuffix", lambda g, r: r.suffix),
            ("MemberFullName", lambda g, r: " ".join(p for p in (r.first, r.middle, r.last, r.suffix) if p)),
            ("MemberNickname", sometimes(0.1, "Bob", "Liz", "Kathy", "Mike", "Deb")),
            ("MemberStatus", one_of("Active", "Active", "Active", "Inactive")),
            ("MemberType", "role"),
            ("JobTitle", sometimes(0.3, "Owner", "Broker/Owner", "Sales Associate", "REALTOR®")),
            ("MemberStateLicense", number(100000, 3999999, 7, "SL")),
            ("MemberStateLicenseState", state),
            ("MemberNationalAssociationId", number(100000000, 999999999)),
            ("MemberAOR", one_of("Greater Tampa REALTORS", "Austin Board of REALTORS")),
            ("MemberAORMlsId", number(1, 99)),
            ("MemberMlsSecurityClass", one_of("Agent", "Broker", "Office Manager")),
            ("MemberPreferredPhone", other_phone(0.95)),
            ("MemberPreferredPhoneExt", sometimes(0.1, "101", "22")),
            ("MemberOfficePhone", other_phone(0.9)),
            ("MemberOfficePhoneExt", sometimes(0.2, "12", "204")),
            ("MemberDirectPhone", other_phone(0.3)),
            ("MemberHomePhone", other_phone(0.2)),
            ("MemberMobilePhone", "phone"),
            ("MemberFax", other_phone(0.4)),
            ("MemberPager", ""),
            ("MemberTollFreePhone", sometimes(0.05, "800-555-0199")),
            ("MemberVoiceMail", other_phone(0.1)),
            ("MemberEmail", "email"),
            ("MemberAddress1", street),
            ("MemberAddress2", ""),
            ("MemberCity", city),
            ("MemberStateOrProvince", state),
            ("MemberPostalCode", number(501, 99950, 5)),
            ("MemberCountry", "US"),
            ("MemberLanguages", sometimes(0.2, "Spanish", "English,Spanish", "Mandarin")),
            ("MemberDesignation", sometimes(0.3, "ABR", "CRS,GRI", "e-PRO")),
            ("MemberIsAssistantTo", other_name(0.03)),
            ("OfficeKey", number(2000, 2400)),
            ("OfficeMlsId", number(100, 999)),
            ("OfficeName", one_of("Harbor Light Realty", "Blue Door Homes, LLC", "Smith & Sons")),
            ("SocialMediaType", ""),
            ("OriginatingSystemName", "STELLAR"),
            ("OriginalEntryTimestamp", stamp),
            ("ModificationTimestamp", stamp),
        ],
        roles=[
            ("REALTOR Salesperson", "AGENT", 70),
            ("MLS Only Salesperson", "AGENT", 10),
            ("Designated REALTOR Participant", "BROKER_ADMIN", 7),
            ("MLS Only Broker", "BROKER_ADMIN", 2),
            ("Office Manager", "OFFICE_ADMIN", 3),
            ("Licensed Assistant", "AGENT", 3),
            ("Unlicensed Assistant", "AGENT", 2),
            ("Association Staff", "ADMIN", 1),
            ("Multiple Listing Service Staff", "ADMIN", 1),
        ],
        country="US",
        language="english",
        people=2600,
        defect_rate=0.023,
        defects=US_DEFECTS,
        phone_styles=[1, 1, 0],
        odd_phone_rate=0.1,
        phone_rate=0.88,
        unknown_roles=["Non Member/Vendor", "Designated REALTOR Appraiser", "Unknown", "Secretary"],
        empty_role_rate=0.01,
        domains=["example.com", "example.com", "example.org", "mail.example.com", "example.net"],
        middle_rate=0.35,
        suffix_rate=0.03,
        role_noise=0.01,
        duplicate_rate=0.002,
    )


def build_reso() -> Sheet:
    layout = make_reso_layout()
    rng = Random(layout.seed)
    return fill_sheet(layout, rng, build_records(layout, rng))


# --------------------------------------------------------------------------------------------------------------------
# 2. BoldTrail


def make_boldtrail_layout() -> Layout:
    return Layout(
        name="boldtrail.xlsx",
        seed=102,
        description="User list of a brokerage with seven offices, as BoldTrail BackOffice's Excel template (an instruction sheet, then the users, "
        "dates as DD/MM/YYYY); fields from http://support.brokermint.com/en/articles/7126028-import-of-agents-contacts-transactions-to-boldtrail-backoffice",
        facts=[
            US_PHONES,
            EMPTY_PHONE,
            "The agents are on the sheet Users.",
            "Dates are day/month/year as text; most days are at most 12.",
            "n/a and - in Birthday mean empty.",
            "Cell Phone is the phone to import.",
            "User ID identifies a user.",
            FUTURE,
            "Role: Company Admin means BROKER_ADMIN, Office Admin means "
            "OFFICE_ADMIN, Team Admin means COLLECTIVE_ADMIN, Account Admin means ADMIN, Agent and Lender mean AGENT; empty means AGENT.",
            "The second column named Status is the licence's status. Both are of no interest: inactive users are imported too.",
        ],
        columns=[
            ("User ID", "identifier"),
            ("Status", one_of("Active", "Active", "Active", "Roster Only", "Inactive")),
            ("First Name", "first"),
            ("Last Name", "last"),
            ("Email", "email"),
            ("Reply-To Email", other_email(0.1)),
            ("Cell Phone", "phone"),
            ("Office Phone", other_phone(0.8)),
            ("Direct Phone", other_phone(0.2)),
            ("Fax", other_phone(0.2)),
            ("Role", "role"),
            ("Title", sometimes(0.7, "REALTOR®", "Broker Associate", "Team Leader", "Sales Associate")),
            ("Office", lambda g, r: f"Office {r.office + 1}"),
            ("Team", sometimes(0.3, "The Alpha Team", "Home Sisters")),
            ("MLS", "Stellar"),
            ("MLS ID", number(10000, 999999)),
            ("MLS 2 ID", sometimes(0.1, "A4455", "B0012")),
            ("License Number", number(1, 3999999, 7, "0")),
            ("Status", one_of("Current", "Current", "Renewal due")),
            ("License Expiration", some_date("DD/MM/Y", 2025, 2027)),
            ("Anniversary Date", some_date("DD/MM/Y", 2010, 2024)),
            ("Birthday", "birthday"),
            ("Commission Plan", one_of("80/20", "70/30", "Cap 16k", "100% + fee")),
            ("Reports To", other_name(0.5)),
            ("Reports To Email", other_email(0.5)),
            ("Assistant Name", other_name(0.1)),
            ("Assistant Email", other_email(0.1)),
            ("Emergency Contact", other_name(0.6)),
            ("Emergency Phone", other_phone(0.6)),
            ("Street", street),
            ("City", city),
            ("State", state),
            ("Zip", number(501, 99950, 5)),
            ("Website", lambda g, r: f"https://www.example.com/{fold(r.last)}"),
            ("Last Login", some_date("DD/MM/Y", 2024, 2024)),
            ("Notes", sometimes(0.05, "Moved from Office 2", "Prefers text", "cap reached")),
        ],
        roles=[
            ("Agent", "AGENT", 84),
            ("Company Admin", "BROKER_ADMIN", 3),
            ("Office Admin", "OFFICE_ADMIN", 6),
            ("Team Admin", "COLLECTIVE_ADMIN", 5),
            ("Account Admin", "ADMIN", 1),
            ("Lender", "AGENT", 3),
        ],
        country="US",
        language="english",
        people=900,
        defect_rate=0.03,
        defects={**US_DEFECTS, **US_DATE_DEFECTS},
        phone_styles=[0],
        no_phone=["", "", "n/a", "-"],
        date_styles=["DD/MM/Y"],
        small_days=0.82,
        no_birthday=["", "", "", "n/a", "-"],
        number_phones=0.04,
        unknown_roles=["Recruiting", "ISA?", "Photographer"],
        empty_role_rate=0.02,
        domains=["example.com", "agents.example.com", "example.net"],
        offices=[f"Office {n}" for n in range(1, 8)],
        write_identifier=int,
    )


def build_boldtrail() -> Sheet:
    layout = make_boldtrail_layout()
    rng = Random(layout.seed)
    return fill_sheet(
        layout,
        rng,
        build_records(layout, rng),
        footers=[make_row(layout), make_row(layout, c0="Export generated by BoldTrail BackOffice")],
    )


# --------------------------------------------------------------------------------------------------------------------
# 3. Follow Up Boss


def make_followupboss_layout() -> Layout:
    return Layout(
        name="followupboss.csv",
        seed=103,
        description="Team page of a large team in Follow Up Boss with a few custom columns; columns from "
        "https://help.followupboss.com/hc/en-us/articles/4402370641175 and roles from https://help.followupboss.com/hc/en-us/articles/4402370636567",
        facts=[
            US_PHONES,
            EMPTY_PHONE,
            "Names in the column Name are First Last; where a comma is written, Last, First.",
            "Dates are month/day/year; some years have two digits: 47 means 1947, 03 means 2003.",
            FUTURE,
            "Login Email is the address to import, not Lead Email or Connected Email.",
            "ID identifies a user.",
            "1/1/1900 in Birthday means unknown.",
            "Role: Owner and Broker mean BROKER_ADMIN, Admin means ADMIN, Team Leader means "
            "COLLECTIVE_ADMIN, Office Manager means OFFICE_ADMIN, Agent, ISA and Lender mean AGENT.",
        ],
        columns=[
            ("ID", "identifier"),
            ("Created", stamp),
            ("Name", "name"),
            ("Login Email", "email"),
            ("Phone", "phone"),
            ("Role", "role"),
            ("Status", one_of("Active", "Active", "Invite Sent")),
            ("Teams", sometimes(0.8, "Default Team", "North", "Default Team, Luxury")),
            ("Lead Email", lambda g, r: f"{fold(r.first)}.{r.identifier}@leads.example.org"),
            ("Connected Email", other_email(0.6)),
            ("Email Sharing", one_of("On", "Off")),
            ("FUB Number", other_phone(0.6)),
            ("Can Export", one_of("Yes", "No")),
            ("Last Login (Web)", stamp),
            ("Last Login (Mobile)", stamp),
            ("Timezone", one_of("America/New_York", "America/Chicago")),
            ("Groups", sometimes(0.4, "Zillow leads")),
            ("Ponds", sometimes(0.2, "Cold pond")),
            ("Lender Assigned", other_name(0.2)),
            ("Lender Email", other_email(0.2)),
            ("Custom Birthday", "birthday"),
            ("Custom License #", number(100000, 999999)),
            ("Custom Spouse Birthday", some_date("M/D/Y", 1960, 1995, 0.2)),
            ("Signature", sometimes(0.3, "Best,\nyour agent", "Thanks!\n—")),
        ],
        roles=[
            ("Agent", "AGENT", 75),
            ("Admin", "ADMIN", 4),
            ("Owner", "BROKER_ADMIN", 1),
            ("Broker", "BROKER_ADMIN", 2),
            ("Lender", "AGENT", 6),
            ("ISA", "AGENT", 5),
            ("Team Leader", "COLLECTIVE_ADMIN", 5),
            ("Office Manager", "OFFICE_ADMIN", 2),
        ],
        country="US",
        language="english",
        people=640,
        defect_rate=0.042,
        defects={**US_DEFECTS, "three words": 9, "swapped": 6, "impossible date": 1, "exponent": 2},
        name_style="first_last",
        phone_styles=[0, 0, 1, 3],
        date_styles=["M/D/Y"],
        odd_date_styles=["M/D/y", "MM/DD/Y", "M-D-Y", "ISO"],
        odd_date_rate=0.08,
        birthday_rate=0.7,
        no_birthday=["", "", "", "1/1/1900"],
        unknown_roles=["Agent/Admin", "VA", "(left)"],
        domains=["example.com", "example.net"],
        no_phone=["", "none", "n/a"],
        small_days=0.2,
    )


def build_followupboss() -> Sheet:
    layout = make_followupboss_layout()
    rng = Random(layout.seed)
    return fill_sheet(layout, rng, build_records(layout, rng))


# --------------------------------------------------------------------------------------------------------------------
# 4. Brokermint


def make_brokermint_layout() -> Layout:
    return Layout(
        name="brokermint.xlsx",
        seed=104,
        description="Report on users of a franchise in Brokermint, with a header on each printed page; fields from https://brokermint.com/api/ and "
        "http://support.brokermint.com/en/articles/7126014-user-management",
        facts=[
            US_PHONES,
            EMPTY_PHONE,
            "Names in the column User are Last, First.",
            "Birthdays are Excel dates; a few are text as month/day/year.",
            FUTURE,
            "Phone is the phone to import.",
            "Id identifies a user.",
            "Role: Account owner means BROKER_ADMIN, Office admin means OFFICE_ADMIN, Admin means ADMIN, "
            "Team leader means COLLECTIVE_ADMIN, Agent and Transaction coordinator mean AGENT; empty means AGENT.",
            "All users are imported, whether active or not.",
        ],
        columns=[
            ("Id", "identifier"),
            ("External id", sometimes(0.3, "", "X-1")),
            ("User", "name"),
            ("Title", sometimes(0.5, "REALTOR", "Broker Associate")),
            ("Email", "email"),
            ("Phone", "phone"),
            ("Office phone", other_phone(0.7)),
            ("Account", one_of("Downtown", "Lakeside", "Uptown")),
            ("Role", "role"),
            ("Active", one_of("TRUE", "TRUE", "TRUE", "FALSE")),
            ("Start date", date_cell(2008, 2024)),
            ("Anniversary date", date_cell(2008, 2024)),
            ("Birthday", "birthday"),
            ("License #", number(1, 999999, 8)),
            ("License expires", date_cell(2025, 2027)),
            ("Commission plan", one_of("Capped 70/30", "Flat fee", "80/20")),
            ("Goal amount", lambda g, r: g.choice([12000, 25000, 40000])),
            ("YTD GCI", lambda g, r: round(g.random() * 90000, 2)),
            ("Sponsor", other_name(0.4)),
            ("Sponsor email", other_email(0.4)),
            ("Tax ID on file", one_of("yes", "no")),
            ("W9 email", other_email(0.2)),
            ("Address", street),
            ("City", city),
            ("State", state),
            ("Zip", number(501, 99950, 5)),
        ],
        roles=[
            ("Agent", "AGENT", 86),
            ("Account owner", "BROKER_ADMIN", 1),
            ("Office admin", "OFFICE_ADMIN", 4),
            ("Admin", "ADMIN", 2),
            ("Team leader", "COLLECTIVE_ADMIN", 4),
            ("Transaction coordinator", "AGENT", 3),
        ],
        country="US",
        language="english",
        people=780,
        defect_rate=0.034,
        defects={**US_DEFECTS, **US_DATE_DEFECTS, "no comma": 4, "serial": 2},
        name_style="last_first",
        phone_styles=[1],
        number_phones=0.4,
        date_styles=["M/D/Y"],
        odd_date_styles=["M/D/Y", "MM/DD/Y"],
        odd_date_rate=0.05,
        date_cells=True,
        birthday_rate=0.75,
        no_phone=["", "", "N/A"],
        unknown_roles=["Accounting", "Agent (inactive)?"],
        empty_role_rate=0.03,
        domains=["example.com", "example.org"],
        write_identifier=int,
    )


def build_brokermint() -> Sheet:
    layout = make_brokermint_layout()
    rng = Random(layout.seed)
    records = build_records(layout, rng)
    active = sum(record.cells[9] == "TRUE" for record in records)
    return fill_sheet(
        layout,
        rng,
        records,
        titles=[make_row(layout, c0="Users report")],
        repeat_header=150,
        blank_rate=0.004,
        footers=[
            make_row(layout, c2="Total users", c3=len(records), c8="Active", c9=active, c17=18344210.5),
            make_row(layout),
            make_row(layout, c0="Exported on 02/11/2025 by Office Admin"),
        ],
    )


# --------------------------------------------------------------------------------------------------------------------
# 5. Dotloop


def make_dotloop_layout() -> Layout:
    return Layout(
        name="dotloop.csv",
        seed=105,
        description="People list of a brokerage's admin profile in Dotloop with MLS and NRDS identifiers; fields from "
        "https://support.dotloop.com/hc/en-us/articles/204091436-People-Management",
        facts=[
            US_PHONES,
            EMPTY_PHONE,
            "The first column named Email is the login address and the one to import; the second is for notices.",
            "Cell Phone is the phone to import.",
            "Only the e-mail identifies a person.",
            "The roster has no birthdays.",
            "Role: Admin means ADMIN, Office Admin means OFFICE_ADMIN, Broker and Managing Broker "
            "mean BROKER_ADMIN, Team Lead means COLLECTIVE_ADMIN, Agent, Transaction Coordinator and Team Member mean AGENT; empty means AGENT.",
        ],
        columns=[
            ("First Name", "first"),
            ("Last Name", "last"),
            ("Email", "email"),
            ("Role", "role"),
            ("Office", one_of("Harbor Light - Main", "Harbor Light - North")),
            ("Profile Type", "INDIVIDUAL"),
            ("Status", one_of("Active", "Pending invitation", "Active")),
            ("Team", sometimes(0.2, "Luxury", "First Homes")),
            ("Cell Phone", "phone"),
            ("Office Phone", other_phone(0.9)),
            ("Fax", other_phone(0.3)),
            ("MLS ID", number(1000, 99999)),
            ("NRDS ID", sometimes(0.6, "000000000", "279012345")),
            ("License Number", number(1, 99999, 6)),
            ("License State", state),
            ("Email", other_email(0.4)),
            ("Invited On", some_date("M/D/Y", 2016, 2024)),
            ("Joined On", some_date("M/D/Y", 2016, 2024)),
            ("Last Login", some_date("M/D/Y", 2023, 2024)),
            ("Active Loops", number(0, 30)),
            ("Archived Loops", number(0, 300)),
            ("Loop Email", lambda g, r: f"{fold(r.last)}.{r.identifier}@loops.example.net"),
            ("Manage People", one_of("Y", "N")),
            ("Manage Templates", one_of("Y", "N")),
        ],
        roles=[
            ("Agent", "AGENT", 82),
            ("Admin", "ADMIN", 4),
            ("Office Admin", "OFFICE_ADMIN", 4),
            ("Broker", "BROKER_ADMIN", 2),
            ("Managing Broker", "BROKER_ADMIN", 2),
            ("Team Lead", "COLLECTIVE_ADMIN", 3),
            ("Transaction Coordinator", "AGENT", 3),
            ("Team Member", "AGENT", 4),
        ],
        country="US",
        language="english",
        people=700,
        defect_rate=0.033,
        defects=US_DEFECTS,
        phone_styles=[4, 4, 0],
        odd_phone_rate=0.2,
        no_phone=["", "", "TBD", "-"],
        unknown_roles=["TC/Agent", "Buyer", "Former"],
        empty_role_rate=0.04,
        domains=["example.com", "example.net", "example.org"],
        decomposed_rate=0.2,
        email_noise=0.08,
    )


def build_dotloop() -> Sheet:
    layout = make_dotloop_layout()
    rng = Random(layout.seed)
    return fill_sheet(layout, rng, build_records(layout, rng), blank_rate=0.003)


# --------------------------------------------------------------------------------------------------------------------
# 6. kvCORE


def make_kvcore_layout() -> Layout:
    boards = ["Stellar MLS", "Miami REALTORS MLS"], ["Bright MLS", "CRMLS"]

    def board(rng: Random, record: Record) -> str:
        return boards[record.identifier // 2 % 2][record.identifier % 2]

    def license_number(rng: Random, record: Record) -> str:
        return f"{record.identifier // 2:07d}"

    return Layout(
        name="kvcore.csv",
        seed=106,
        description="Agents of a company in four MLSs as kvCORE's agent form names them, typed by assistants over years; fields from "
        "https://help.insiderealestate.com/en/articles/4340370-kvcore-admin-how-to-add-agents",
        facts=[
            US_PHONES,
            EMPTY_PHONE,
            "MLS and License # identify an agent only together: two MLSs give the same licence number to different people.",
            "Cell Phone is the phone to import; a number that ends in .0 was a number in a spreadsheet.",
            "Birthdays have month names; in some, years have two digits: 47 means 1947, 03 means 2003.",
            "0000-00-00 means unknown.",
            FUTURE,
            "User Type gives the role: Company Admin means BROKER_ADMIN, Office Admin means OFFICE_ADMIN, Team Admin means COLLECTIVE_ADMIN, "
            "Super Admin means ADMIN, Agent, Lender and Assistant/ISA mean AGENT; empty means AGENT.",
            "Page headers repeat in the middle.",
        ],
        columns=[
            ("First Name", "first"),
            ("Last Name", "last"),
            ("Email", "email"),
            ("Cell Phone", "phone"),
            ("Work Phone", other_phone(0.5)),
            ("Home Phone", other_phone(0.2)),
            ("Fax", other_phone(0.1)),
            ("Title", sometimes(0.6, "REALTOR®", "Broker Associate, GRI", "Luxury Specialist")),
            ("User Type", "role"),
            ("Office", one_of("Miami Beach", "Tampa", "Baltimore", "Irvine")),
            ("Team", sometimes(0.2, "Team Sunshine")),
            ("MLS", board),
            ("License #", license_number),
            ("MLS Agent Code", number(1, 9999, 5)),
            ("License State", state),
            ("Birthday", "birthday"),
            ("Hire Date", some_date("Mon D, Y", 2010, 2024)),
            ("License Exp.", some_date("Mon D, Y", 2025, 2026)),
            ("Active", one_of("1", "1", "0")),
            ("Roster Only", one_of("0", "0", "1")),
            ("Hide Agent", "0"),
            ("Spouse", other_name(0.2)),
            ("Spouse Email", other_email(0.15)),
            ("Website", lambda g, r: f"www.example.com/{fold(r.first)}"),
            ("Facebook", ""),
            ("Instagram", sometimes(0.1, "@home.girl")),
            ("Bio", sometimes(0.1, 'Known as "the closer", she sells.', "Born and raised,\nhere to help.")),
            ("Lead Routing", one_of("Round robin", "First to claim", "")),
            ("Calling Number", other_phone(0.3)),
            ("Notes", ""),
            ("Notes", sometimes(0.05, "see file", "call office")),
        ],
        roles=[
            ("Agent", "AGENT", 84),
            ("Company Admin", "BROKER_ADMIN", 2),
            ("Office Admin", "OFFICE_ADMIN", 4),
            ("Team Admin", "COLLECTIVE_ADMIN", 4),
            ("Super Admin", "ADMIN", 1),
            ("Lender", "AGENT", 3),
            ("Assistant/ISA", "AGENT", 3),
        ],
        country="US",
        language="english",
        people=1100,
        defect_rate=0.035,
        defects={**US_DEFECTS, **US_DATE_DEFECTS, "exponent": 2},
        phone_styles=[1, 0, 3, 2],
        odd_phone_rate=0.25,
        no_phone=["", "n/a", "none", "000-000-0000"],
        date_styles=["Mon D, Y"],
        odd_date_styles=["Month D, Y", "D-Mon-Y", "D-Mon-y"],
        odd_date_rate=0.12,
        birthday_rate=0.6,
        no_birthday=["0000-00-00"],
        unknown_roles=["agent2", "Test", "Referral"],
        empty_role_rate=0.02,
        domains=["example.com", "example.net", "mail.example.org"],
        email_noise=0.08,
        role_noise=0.1,
    )


def build_kvcore() -> Sheet:
    layout = make_kvcore_layout()
    rng = Random(layout.seed)
    records = build_records(layout, rng)
    phone = layout.position("phone")
    for record in records:  # some phones went through a spreadsheet as floating-point numbers
        if (
            not record.defect
            and isinstance(record.cells[phone], str)
            and record.cells[phone].isdigit()
            and rng.random() < 0.15
        ):
            record.cells[phone] += ".0"
    return fill_sheet(layout, rng, records, repeat_header=250, blank_rate=0.004)


# --------------------------------------------------------------------------------------------------------------------
# 7. Outlook contacts

OUTLOOK_HEADER = """Title,First Name,Middle Name,Last Name,Suffix,Company,Department,Job Title,Business Street,Business Street 2,Business Street 3,
Business City,Business State,Business Postal Code,Business Country/Region,Home Street,Home Street 2,Home Street 3,Home City,Home State,Home Postal Code,
Home Country/Region,Other Street,Other Street 2,Other Street 3,Other City,Other State,Other Postal Code,Other Country/Region,Assistant's Phone,Business Fax,
Business Phone,Business Phone 2,Callback,Car Phone,Company Main Phone,Home Fax,Home Phone,Home Phone 2,ISDN,Mobile Phone,Other Fax,Other Phone,Pager,
Primary Phone,Radio Phone,TTY/TDD Phone,Telex,Account,Anniversary,Assistant's Name,Billing Information,Birthday,Business Address PO Box,Categories,Children,
Directory Server,E-mail Address,E-mail Type,E-mail Display Name,E-mail 2 Address,E-mail 2 Type,E-mail 2 Display Name,E-mail 3 Address,E-mail 3 Type,
E-mail 3 Display Name,Gender,Government ID Number,Hobby,Home Address PO Box,Initials,Internet Free Busy,Keywords,Language,Location,Manager's Name,Mileage,Notes,
Office Location,Organizational ID Number,Other Address PO Box,Priority,Private,Profession,Referred By,Sensitivity,Spouse,User 1,User 2,User 3,User 4,
Web Page""".replace("\n", "").split(",")

OUTLOOK_MAKERS: dict[str, Any] = {
    "Title": sometimes(0.1, "Mr.", "Ms.", "Dr."),
    "First Name": "first",
    "Middle Name": lambda g, r: r.middle,
    "Last Name": "last",
    "Suffix": lambda g, r: r.suffix,
    "Company": "Harbor Light Realty",
    "Department": sometimes(0.2, "Residential", "Commercial"),
    "Job Title": "role",
    "Business Street": street,
    "Business City": city,
    "Business State": state,
    "Business Postal Code": number(501, 99950, 5),
    "Business Country/Region": one_of("United States of America", ""),
    "Assistant's Phone": other_phone(0.1),
    "Business Fax": other_phone(0.3),
    "Business Phone": other_phone(0.9),
    "Company Main Phone": other_phone(0.3),
    "Home Phone": other_phone(0.2),
    "Mobile Phone": "phone",
    "Anniversary": sometimes(0.1, "6/12/2004", "9/3/1998", "0/0/00"),
    "Assistant's Name": other_name(0.1),
    "Birthday": "birthday",
    "Categories": sometimes(0.4, "Agents", "Agents;Top Producer"),
    "E-mail Address": "email",
    "E-mail Type": "SMTP",
    "E-mail Display Name": lambda g, r: f"{r.full_name} ({r.email})",
    "E-mail 2 Address": other_email(0.25),
    "E-mail 2 Type": sometimes(0.2, "SMTP"),
    "Gender": "Unspecified",
    "Initials": lambda g, r: r.first[0] + r.last[0],
    "Language": "",
    "Notes": sometimes(0.15, "Met at the open house.\r\n\r\nLikes golf.", "License renewed\r\n"),
    "Priority": "Normal",
    "Private": "False",
    "Sensitivity": "Normal",
    "Spouse": other_name(0.3),
    "Web Page": sometimes(0.1, "http://www.example.com"),
}


def make_outlook_layout() -> Layout:
    return Layout(
        name="outlook.csv",
        seed=207,
        description="An office manager's Outlook contacts folder with the office's agents, exported with all 92 columns; columns from https://www.spstechnical.com/outlook_contacts_schema.htm",
        facts=[
            US_PHONES,
            "The file's encoding is Windows-1252.",
            "Mobile Phone is the phone to import; E-mail Address is the address to import.",
            "Birthdays are month/day/year; 0/0/00 means none.",
            FUTURE,
            "Only the e-mail identifies a person.",
            "First Name and Last Name are the name; middle name and suffix are not imported.",
            "Job Title gives the role: Broker/Owner and Managing Broker mean "
            "BROKER_ADMIN, Office Manager means OFFICE_ADMIN, Team Leader means COLLECTIVE_ADMIN, IT Admin means ADMIN, Realtor, Sales Associate and Broker Associate mean AGENT; empty means AGENT.",
            "n/a in Mobile Phone means none.",
        ],
        columns=[(name, OUTLOOK_MAKERS.get(name, "")) for name in OUTLOOK_HEADER],
        roles=[
            ("Realtor", "AGENT", 45),
            ("Sales Associate", "AGENT", 25),
            ("Broker Associate", "AGENT", 14),
            ("Broker/Owner", "BROKER_ADMIN", 1),
            ("Managing Broker", "BROKER_ADMIN", 3),
            ("Office Manager", "OFFICE_ADMIN", 4),
            ("Team Leader", "COLLECTIVE_ADMIN", 4),
            ("IT Admin", "ADMIN", 1),
        ],
        country="US",
        language="english",
        people=420,
        defect_rate=0.036,
        defects={**US_DEFECTS, "exchange": 4, "impossible date": 1, "swapped": 2},
        phone_styles=[0],
        odd_phone_rate=0.3,
        no_phone=["", "", "", "n/a"],
        date_styles=["M/D/Y"],
        no_birthday=["0/0/00"],
        birthday_rate=0.55,
        unknown_roles=["Loan Officer", "Home Inspector", "Vendor"],
        empty_role_rate=0.06,
        domains=["example.com", "example.net"],
        middle_rate=0.2,
        suffix_rate=0.05,
        encoding="cp1252",
    )


def build_outlook() -> Sheet:
    layout = make_outlook_layout()
    rng = Random(layout.seed)
    return fill_sheet(layout, rng, build_records(layout, rng))


# --------------------------------------------------------------------------------------------------------------------
# 8. Google Contacts


def make_google_layout() -> Layout:
    return Layout(
        name="google_contacts.csv",
        seed=108,
        description="Contacts with the label Agents of a broker's Google account, in the Google CSV format since 2024; header as pinned in public test suites "
        "(for example find_string file 67110882322, a test of a real export); https://contacts.google.com writes it",
        facts=[
            US_PHONES,
            "Phone 1 - Value is the phone to import, E-mail 1 - Value the address.",
            "Birthdays are YYYY-MM-DD; --MM-DD is a birthday without a year, which the office leaves out.",
            "First Name and Last Name are the name; middle name and suffix are not imported.",
            "Only the e-mail identifies a person.",
            '" ::: " separates several values in one cell.',
            "Organization Title gives the role: Broker means BROKER_ADMIN, Office Manager means OFFICE_ADMIN, Team Lead means COLLECTIVE_ADMIN, Admin means ADMIN, Agent, Realtor and REALTOR® mean AGENT; empty means AGENT.",
        ],
        columns=[
            ("First Name", "first"),
            ("Middle Name", lambda g, r: r.middle),
            ("Last Name", "last"),
            ("Phonetic First Name", ""),
            ("Phonetic Middle Name", ""),
            ("Phonetic Last Name", ""),
            ("Name Prefix", sometimes(0.04, "Dr.")),
            ("Name Suffix", lambda g, r: r.suffix),
            ("Nickname", sometimes(0.1, "Bo", "Kit", "Tex")),
            ("File As", ""),
            ("Organization Name", sometimes(0.8, "Harbor Light Realty")),
            ("Organization Title", "role"),
            ("Organization Department", ""),
            ("Birthday", "birthday"),
            ("Notes", sometimes(0.15, "Wife: Carol\nKids: 2", "bday lunch?\n\n- cake", "555 office line")),
            ("Photo", sometimes(0.3, "https://www.example.com/photo.jpg")),
            ("Labels", one_of("Agents ::: * myContacts", "Agents ::: Starred ::: * myContacts", "* myContacts")),
            ("E-mail 1 - Label", one_of("* Work", "* Home", "* ")),
            ("E-mail 1 - Value", "email"),
            ("E-mail 2 - Label", ""),
            ("E-mail 2 - Value", other_email(0.2)),
            ("Phone 1 - Label", one_of("Mobile", "Mobile", "Work")),
            ("Phone 1 - Value", "phone"),
            ("Phone 2 - Label", one_of("Work", "")),
            ("Phone 2 - Value", other_phone(0.3)),
            ("Address 1 - Label", ""),
            ("Address 1 - Formatted", lambda g, r: f"{street(g, r)}\n{city(g, r)}, {state(g, r)}"),
            ("Address 1 - Street", ""),
            ("Address 1 - City", ""),
            ("Address 1 - PO Box", ""),
            ("Address 1 - Region", ""),
            ("Address 1 - Postal Code", ""),
            ("Address 1 - Country", ""),
            ("Address 1 - Extended Address", ""),
            ("Relation 1 - Label", sometimes(0.2, "Spouse")),
            ("Relation 1 - Value", other_name(0.2)),
            ("Website 1 - Label", ""),
            ("Website 1 - Value", ""),
            ("Event 1 - Label", sometimes(0.2, "Anniversary")),
            ("Event 1 - Value", some_date("ISO", 1990, 2020, 0.2)),
            ("Custom Field 1 - Label", sometimes(0.3, "License")),
            ("Custom Field 1 - Value", number(1, 999999, 7)),
        ],
        roles=[
            ("Agent", "AGENT", 50),
            ("Realtor", "AGENT", 20),
            ("REALTOR®", "AGENT", 10),
            ("Broker", "BROKER_ADMIN", 3),
            ("Office Manager", "OFFICE_ADMIN", 3),
            ("Team Lead", "COLLECTIVE_ADMIN", 4),
            ("Admin", "ADMIN", 2),
        ],
        country="US",
        language="english",
        people=360,
        defect_rate=0.04,
        defects={**US_DEFECTS, "two emails": 6, "two phones": 5, "yearless": 5},
        phone_styles=[4, 0, 5],
        odd_phone_rate=0.3,
        date_styles=["ISO"],
        birthday_rate=0.4,
        unknown_roles=["Plumber", "Title co.", "Lender??"],
        empty_role_rate=0.1,
        domains=["example.com", "example.org", "example.net"],
        middle_rate=0.12,
        suffix_rate=0.03,
        decomposed_rate=0.3,
    )


def build_google() -> Sheet:
    layout = make_google_layout()
    rng = Random(layout.seed)
    records = build_records(layout, rng)
    email = layout.position("email")
    for record in rng.sample([r for r in records if not r.defect], 2):  # pasted from a web page
        record.cells[email] = record.email + "\u200b"
    return fill_sheet(layout, rng, records)


# --------------------------------------------------------------------------------------------------------------------
# 9. A broker's own Excel list


def make_broker_layout() -> Layout:
    return Layout(
        name="broker_list.xlsx",
        seed=109,
        description="A broker's own Excel list, one section per office, printed every month; columns after the lists that commissions and MLSs ask for: "
        "https://helpdesk.growthzone.com/kb/article/1539-data-sent-to-crmls-for-agents/ and http://www.arec.state.al.us/online/faq-list-request-service-faq.asp",
        facts=[
            US_PHONES,
            "The agents are on the sheet Agents 2025; the other sheets are not of interest.",
            "Rows 5 and 6 are the header: groups, then column names.",
            "Names in the first column named Name are Last, First; the second "
            "Name and the column Phone belong to the emergency contact.",
            "Cell is the phone to import.",
            "Birthdays are Excel dates; some are text as month/day/year, with two-digit years in which 47 means 1947.",
            FUTURE,
            "License Number identifies an agent and has eight digits; leading zeros may come from the cell's format.",
            "Title gives the role: Broker/Owner and Managing Broker mean BROKER_ADMIN, Office Manager means OFFICE_ADMIN, Team Lead means COLLECTIVE_ADMIN, "
            "Bookkeeper means ADMIN, Realtor, Assoc. Broker and New Agent mean AGENT; empty means AGENT.",
            "Hidden rows are agents on leave; they are imported too.",
            "Section, subtotal and total rows are not people.",
            "- and none in a cell mean empty.",
        ],
        columns=[
            ("#", ""),
            ("Name", "name"),
            ("Title", "role"),
            ("E-mail", "email"),
            ("Cell", "phone"),
            ("Ext.", sometimes(0.4, "101", "102", "215")),
            ("Number", lambda g, r: f"{r.identifier % 3000000:08d}"),
            ("State", state),
            ("Expires", date_cell(2025, 2027)),
            ("Birthday", "birthday"),
            ("Spouse", other_name(0.4)),
            ("Spouse e-mail", other_email(0.3)),
            ("Name", other_name(0.7)),
            ("Phone", other_phone(0.7)),
            ("Split", one_of("70/30", "80/20", "90/10")),
            ("YTD volume", lambda g, r: g.randint(0, 90) * 25000),
            ("Desk fee", lambda g, r: g.choice([0, 150, 300])),
            ("Parking", sometimes(0.3, "A1", "B12")),
            ("Notes", sometimes(0.06, "on leave until May", "new phone!", "see Carol")),
        ],
        roles=[
            ("Realtor", "AGENT", 60),
            ("Assoc. Broker", "AGENT", 12),
            ("New Agent", "AGENT", 6),
            ("Broker/Owner", "BROKER_ADMIN", 1),
            ("Managing Broker", "BROKER_ADMIN", 3),
            ("Office Manager", "OFFICE_ADMIN", 3),
            ("Team Lead", "COLLECTIVE_ADMIN", 4),
            ("Bookkeeper", "ADMIN", 1),
        ],
        country="US",
        language="english",
        people=310,
        defect_rate=0.032,
        defects={**US_DEFECTS, **US_DATE_DEFECTS, "no comma": 4, "serial": 2},
        name_style="last_first",
        phone_styles=[1, 0, 2],
        odd_phone_rate=0.25,
        number_phones=0.3,
        no_phone=["", "-", "none"],
        date_styles=["M/D/Y"],
        odd_date_styles=["M/D/Y", "M/D/y", "MM/DD/Y"],
        odd_date_rate=0.12,
        date_cells=True,
        birthday_rate=0.85,
        no_birthday=["", "", "-"],
        unknown_roles=["Realtor / TC", "Intern", "ret."],
        empty_role_rate=0.03,
        domains=["example.com", "example.net"],
        role_noise=0.12,
        email_noise=0.1,
        offices=["DOWNTOWN OFFICE", "LAKE OFFICE", "NORTH OFFICE", "AIRPORT OFFICE", "WEST SIDE OFFICE"],
    )


BROKER_GROUPS = [
    (0, 0, ""),
    (1, 2, "Agent"),
    (3, 5, "Contact"),
    (6, 8, "License"),
    (9, 11, "Personal"),
    (12, 13, "Emergency contact"),
    (14, 17, "Money"),
    (18, 18, ""),
]


def build_broker() -> Sheet:
    layout = make_broker_layout()
    rng = Random(layout.seed)
    records = build_records(layout, rng)
    sheet = Sheet(layout)
    for title in (
        "HARBOR LIGHT REALTY GROUP",
        "Agent roster – all offices",
        "Confidential. Ask Carol before you change this list!",
        "",
    ):
        sheet.add(make_row(layout, c0=title))
    groups = make_row(layout)
    for start, _, text in BROKER_GROUPS:
        groups[start] = text
    sheet.add(groups, header=True)
    sheet.add(layout.header, header=True)
    per_office = -(-len(records) // len(layout.offices))
    for index, office in enumerate(layout.offices):
        members = records[index * per_office : (index + 1) * per_office]
        sheet.add(make_row(layout, c0=office))
        for count, record in enumerate(members, 1):
            record.cells[0] = count
            record.hidden = rng.random() < 0.05
            number_cell = record.cells[6]
            if rng.random() < 0.5:
                record.cells[6] = int(number_cell)  # write_broker gives the cell the format 00000000
            sheet.add(record.cells, record)
            if count == 35:
                sheet.add(layout.header)
        sheet.add(
            make_row(
                layout,
                c1=f"Subtotal {office.title()}",
                c2=f"{len(members)} agents",
                c15=sum(r.cells[15] for r in members),
                c16=sum(r.cells[16] for r in members),
            )
        )
        sheet.add(make_row(layout))
    sheet.add(
        make_row(
            layout,
            c1="TOTAL",
            c2=f"{len(records)} agents",
            c15=sum(r.cells[15] for r in records),
            c16=sum(r.cells[16] for r in records),
        )
    )
    sheet.add(make_row(layout))
    sheet.add(make_row(layout, c0="* Volume as of Jan 31, 2025. Questions: carol@example.com, 212-555-0100"))
    return sheet


# --------------------------------------------------------------------------------------------------------------------
# 10. A German office


def make_german_layout() -> Layout:
    return Layout(
        name="maklerbuero.csv",
        seed=110,
        description="Mitarbeiterliste eines deutschen Maklerunternehmens, aus onOffice exportiert und in Excel ergänzt; export described at "
        "https://de.enterprisehilfe.onoffice.com/help_entries/aufbau-der-oberflaeche/inhalt-menueleiste/extras/",
        facts=[
            "Phones without a country code are German numbers; a number that starts with 1, 30, 40, 69, 89 or 221 lost its leading zero in Excel.",
            "The file's encoding is Windows-1252, the delimiter is the semicolon; row 1 is Excel's line sep=;.",
            "Dates are day.month.year; two-digit years: 47 means 1947, 03 means 2003; some months are German words.",
            "00.00.0000, k.A. and - mean unknown.",
            "Telefon is the phone to import, not Zentrale, Fax or Notfall.",
            "E-Mail is the address to import, not E-Mail privat.",
            "Personalnr. identifies a person.",
            "Vorname and Nachname are the name; the academic title is not imported.",
            FUTURE,
            "Funktion gives the role: Geschäftsführer and Geschäftsführerin mean BROKER_ADMIN; Büroleiter, Büroleiterin and Niederlassungsleitung mean OFFICE_ADMIN; Teamleiter and "
            "Teamleiterin mean COLLECTIVE_ADMIN; Administration means ADMIN; Makler, Maklerin, Immobilienmakler, Immobilienmaklerin, Immobilienberater and Immobilienberaterin mean AGENT; empty means AGENT.",
        ],
        columns=[
            ("Personalnr.", "identifier"),
            ("Anrede", one_of("Herr", "Frau")),
            ("Titel", sometimes(0.06, "Dr.", "Dipl.-Ing.", "Prof. Dr.")),
            ("Vorname", "first"),
            ("Nachname", "last"),
            ("Kürzel", lambda g, r: fold(r.first)[:1].upper() + fold(r.last)[:2].upper()),
            ("E-Mail", "email"),
            ("E-Mail privat", other_email(0.2)),
            ("Telefon", "phone"),
            ("Zentrale", "030 23125-0"),
            ("Fax", other_phone(0.3, "DE")),
            ("Funktion", "role"),
            ("Niederlassung", one_of("Berlin", "Hamburg", "Köln", "München", "Frankfurt a. M.")),
            ("Geburtsdatum", "birthday"),
            ("Eintrittsdatum", some_date("DD.MM.Y", 2005, 2024)),
            ("Austritt", ""),
            ("§ 34c GewO", one_of("ja", "ja", "nein")),
            ("Straße", one_of("Hauptstr. 5", "Königsallee 12", "Am Mühlbach 3a")),
            ("PLZ", number(1067, 99998, 5)),
            ("Ort", one_of("Berlin", "Köln", "Düsseldorf")),
            ("Notfallkontakt", other_name(0.5, "german")),
            ("Notfall-Telefon", other_phone(0.5, "DE")),
            ("Umsatz 2024 (€)", lambda g, r: f"{g.randint(0, 400)}.{g.randint(0, 999):03d},00"),
            ("Provision %", one_of("40", "45,5", "50")),
            ("Fahrzeug", sometimes(0.2, "B-XY 123")),
            ("Bemerkung", sometimes(0.06, "Elternzeit; bis Mai", "siehe Akte")),
        ],
        roles=[
            ("Immobilienmakler", "AGENT", 25),
            ("Immobilienmaklerin", "AGENT", 25),
            ("Makler", "AGENT", 8),
            ("Maklerin", "AGENT", 8),
            ("Immobilienberater", "AGENT", 8),
            ("Immobilienberaterin", "AGENT", 8),
            ("Geschäftsführer", "BROKER_ADMIN", 1),
            ("Geschäftsführerin", "BROKER_ADMIN", 1),
            ("Büroleiter", "OFFICE_ADMIN", 2),
            ("Büroleiterin", "OFFICE_ADMIN", 2),
            ("Niederlassungsleitung", "OFFICE_ADMIN", 1),
            ("Teamleiter", "COLLECTIVE_ADMIN", 3),
            ("Teamleiterin", "COLLECTIVE_ADMIN", 3),
            ("Administration", "ADMIN", 1),
        ],
        country="DE",
        language="german",
        people=850,
        defect_rate=0.032,
        defects={
            "two emails": 3,
            "no email": 4,
            "email typing": 4,
            "extension": 3,
            "two phones": 3,
            "phone letters": 2,
            "exponent": 2,
            "lost plus": 1,
            "own lost plus": 3,
            "phone note": 1,
            "impossible date": 2,
            "swapped": 2,
            "future": 1,
            "date words": 1,
            "missing name": 2,
            "couple": 1,
            "unknown role": 3,
        },
        phone_styles=[0, 1, 2],
        odd_phone_rate=0.35,
        no_phone=["", "", "-", "k.A."],
        date_styles=["DD.MM.Y"],
        odd_date_styles=["D.M.Y", "DD.MM.y", "D. Month Y", "ISO"],
        odd_date_rate=0.08,
        birthday_rate=0.85,
        no_birthday=["", "", "00.00.0000", "k.A.", "-"],
        unknown_roles=["Azubi", "Praktikant", "Makler/Büro?", "Hausmeister"],
        empty_role_rate=0.02,
        domains=["example.com", "makler.example.org", "example.net"],
        encoding="cp1252",
        number_phones=0.02,
        two_first_rate=0.09,
        particle_rate=0.05,
    )


def build_german() -> Sheet:
    layout = make_german_layout()
    rng = Random(layout.seed)
    records = build_records(layout, rng)
    return fill_sheet(
        layout,
        rng,
        records,
        titles=[["sep=;"]],
        repeat_header=300,
        footers=[
            make_row(layout),
            make_row(layout, c0=f"Anzahl Mitarbeiter: {len(records)}"),
            make_row(layout, c0="Stand: 03.02.2025, erstellt von Frau Krüger"),
        ],
    )


# --------------------------------------------------------------------------------------------------------------------
# 11. A French office


def make_french_layout() -> Layout:
    return Layout(
        name="agence_france.xlsx",
        seed=111,
        description="Liste des collaborateurs d'un réseau d'agences français, complétée dans Excel; user fields after https://apimo.net/fr/api/webservice/?child=agencies/users and role words from "
        "https://macon.fr/development-area/professionnels?xml=F32994",
        facts=[
            "Phones without a country code are French numbers; a nine-digit number lost its leading zero in Excel.",
            "Dates are Excel dates or text as day/month/year (JJ/MM/AAAA).",
            "Portable is the phone to import, not Tél. agence, Fax or Urgence.",
            "Code identifies a person.",
            "Nom and Prénom are the name; last names are in capital letters.",
            "NC, néant and - mean empty.",
            FUTURE,
            "Fonction gives the role: Gérant, Gérante and Directeur général mean BROKER_ADMIN; Directeur d'agence, Directrice d'agence and Responsable d'agence mean OFFICE_ADMIN; Chef d'équipe and Cheffe "
            "d'équipe mean COLLECTIVE_ADMIN; Administratif means ADMIN; Négociateur, Négociatrice, Conseiller, Conseillère, Agent commercial and Mandataire mean AGENT; empty means AGENT.",
        ],
        columns=[
            ("Code", "identifier"),
            ("Civilité", one_of("M.", "Mme")),
            ("Nom", "last"),
            ("Prénom", "first"),
            ("Nom d'usage", sometimes(0.05, "MARTIN", "DURAND")),
            ("Courriel", "email"),
            ("Courriel perso", other_email(0.2)),
            ("Portable", "phone"),
            ("Tél. agence", other_phone(0.9, "FR")),
            ("Fax", other_phone(0.2, "FR")),
            ("Fonction", "role"),
            ("Statut", one_of("Salarié", "Agent commercial", "VRP")),
            ("Agence", one_of("Lyon 6e", "Bordeaux", "Nîmes", "Besançon")),
            ("Date de naissance", "birthday"),
            ("Date d'entrée", date_cell(2005, 2024)),
            ("N° RSAC", number(100000000, 999999999)),
            ("N° carte T", number(1, 99999, 5, "CPI 6901 2018 ")),
            ("Adresse", one_of("12 rue de la Paix", "3, place d'Armes", "8 bis av. Foch")),
            ("CP", number(1000, 95880, 5)),
            ("Ville", one_of("Lyon", "Mâcon", "Saint-Étienne")),
            ("Personne à prévenir", other_name(0.5, "french")),
            ("Urgence", other_phone(0.5, "FR")),
            ("CA 2024 (€)", lambda g, r: g.randint(0, 300) * 1000),
            ("Taux", one_of("45 %", "50 %", "70 %")),
            ("Observations", sometimes(0.06, "congé maternité", "départ prévu")),
        ],
        roles=[
            ("Négociateur", "AGENT", 22),
            ("Négociatrice", "AGENT", 22),
            ("Conseiller", "AGENT", 12),
            ("Conseillère", "AGENT", 12),
            ("Agent commercial", "AGENT", 14),
            ("Mandataire", "AGENT", 5),
            ("Gérant", "BROKER_ADMIN", 1),
            ("Gérante", "BROKER_ADMIN", 1),
            ("Directeur général", "BROKER_ADMIN", 1),
            ("Directeur d'agence", "OFFICE_ADMIN", 2),
            ("Directrice d'agence", "OFFICE_ADMIN", 2),
            ("Responsable d'agence", "OFFICE_ADMIN", 2),
            ("Chef d'équipe", "COLLECTIVE_ADMIN", 2),
            ("Cheffe d'équipe", "COLLECTIVE_ADMIN", 2),
            ("Administratif", "ADMIN", 1),
        ],
        country="FR",
        language="french",
        people=780,
        defect_rate=0.035,
        defects={
            "two emails": 3,
            "no email": 4,
            "email typing": 4,
            "extension": 2,
            "two phones": 3,
            "phone digits": 3,
            "lost plus": 1,
            "phone note": 1,
            "impossible date": 2,
            "swapped": 6,
            "future": 1,
            "date words": 1,
            "missing name": 2,
            "couple": 2,
            "unknown role": 3,
            "serial": 1,
        },
        phone_styles=[0, 1],
        odd_phone_rate=0.25,
        number_phones=0.06,
        no_phone=["", "", "NC", "-"],
        date_styles=["DD/MM/Y"],
        odd_date_styles=["DD/MM/Y", "D/M/Y", "DD/MM/y"],
        odd_date_rate=0.25,
        date_cells=True,
        birthday_rate=0.85,
        no_birthday=["", "", "NC", "néant"],
        unknown_roles=["Stagiaire", "Nego/Dir ?", "Parti"],
        empty_role_rate=0.02,
        domains=["example.com", "agence.example.org", "example.net"],
        capital_last_names=True,
        two_first_rate=0.12,
        particle_rate=0.05,
        write_identifier=lambda n: f"C{n}",
        small_days=0.3,
    )


def build_french() -> Sheet:
    layout = make_french_layout()
    rng = Random(layout.seed)
    records = build_records(layout, rng)
    return fill_sheet(
        layout,
        rng,
        records,
        titles=[make_row(layout, c0="Liste des collaborateurs"), make_row(layout)],
        repeat_header=260,
        footers=[
            make_row(layout),
            make_row(layout, c0=f"Total : {len(records)} collaborateurs"),
            make_row(layout, c0="Édité le 12/02/2025"),
        ],
    )


# --------------------------------------------------------------------------------------------------------------------
# 12. A Spanish office


def make_spanish_layout() -> Layout:
    return Layout(
        name="inmobiliaria.csv",
        seed=112,
        description="Listado de agentes de una inmobiliaria española, Excel's CSV UTF-8 with semicolons; columns after https://www.aturnos.com/manual/Manual/1-importacion-altas-de-trabajadores-basico/ and "
        "https://close.technology/en/documentation/formscrm-inmovilla/",
        facts=[
            "Phones without a country code are Spanish numbers; an eleven-digit number that starts with 34 lost its plus sign.",
            "Apellidos y nombre is Last, First; both surnames are the last name.",
            "Dates are day/month/year (DD/MM/AAAA); two-digit years: 47 means 1947, 03 means 2003.",
            "Móvil is the phone to import, not Tel. oficina or Tel. emergencia.",
            "Only the e-mail identifies a person; N.º is a counter.",
            "01/01/1900, s/d, no tiene and - mean empty.",
            FUTURE,
            "Puesto gives the role: Gerente means BROKER_ADMIN; Director de oficina, Directora de oficina and Coordinadora de oficina mean OFFICE_ADMIN; Jefe de equipo and Jefa de equipo mean "
            "COLLECTIVE_ADMIN; Administración means ADMIN; Agente, Agente inmobiliario, Agente inmobiliaria, Comercial, Asesor and Asesora mean AGENT; empty means AGENT.",
            "Rows 1 and 2 are titles.",
        ],
        columns=[
            ("N.º", ""),
            ("Apellidos y nombre", "name"),
            ("Tratamiento", one_of("D.", "Dña.")),
            ("Correo electrónico", "email"),
            ("Correo personal", other_email(0.2)),
            ("Móvil", "phone"),
            ("Tel. oficina", other_phone(0.9, "ES")),
            ("Ext.", sometimes(0.3, "11", "204")),
            ("Puesto", "role"),
            ("Oficina", one_of("Málaga", "Cádiz", "León", "A Coruña")),
            ("F. nacimiento", "birthday"),
            ("F. alta", some_date("DD/MM/Y", 2005, 2024)),
            ("F. baja", ""),
            ("N.º colegiado API", sometimes(0.3, "0123", "A-0456")),
            ("Dirección", one_of("C/ Mayor, 5, 2.º izq.", "Avda. de España 12")),
            ("C.P.", number(1001, 52006, 5)),
            ("Población", one_of("Málaga", "Jaén", "Logroño")),
            ("Cónyuge", other_name(0.2, "spanish")),
            ("Correo cónyuge", other_email(0.1)),
            ("Contacto emergencia", other_name(0.5, "spanish")),
            ("Tel. emergencia", other_phone(0.5, "ES")),
            ("Ventas 2024", lambda g, r: f"{g.randint(0, 90)}.000,50"),
            ("Vehículo", ""),
            ("Observaciones", sometimes(0.06, "media jornada", "baja; volverá en mayo")),
        ],
        roles=[
            ("Agente inmobiliario", "AGENT", 22),
            ("Agente inmobiliaria", "AGENT", 22),
            ("Agente", "AGENT", 10),
            ("Comercial", "AGENT", 16),
            ("Asesor", "AGENT", 8),
            ("Asesora", "AGENT", 8),
            ("Gerente", "BROKER_ADMIN", 2),
            ("Director de oficina", "OFFICE_ADMIN", 2),
            ("Directora de oficina", "OFFICE_ADMIN", 2),
            ("Coordinadora de oficina", "OFFICE_ADMIN", 2),
            ("Jefe de equipo", "COLLECTIVE_ADMIN", 2),
            ("Jefa de equipo", "COLLECTIVE_ADMIN", 2),
            ("Administración", "ADMIN", 2),
        ],
        country="ES",
        language="spanish",
        people=920,
        defect_rate=0.033,
        defects={
            "two emails": 3,
            "no email": 4,
            "email typing": 4,
            "extension": 2,
            "two phones": 3,
            "phone digits": 3,
            "exponent": 1,
            "lost plus": 1,
            "phone note": 1,
            "phone letters": 1,
            "impossible date": 2,
            "swapped": 1,
            "future": 1,
            "date words": 1,
            "missing name": 2,
            "couple": 1,
            "no comma": 4,
            "unknown role": 3,
        },
        name_style="last_first",
        phone_styles=[0, 0, 1],
        odd_phone_rate=0.3,
        no_phone=["", "", "s/d", "-", "no tiene"],
        date_styles=["DD/MM/Y"],
        odd_date_styles=["DD-MM-Y", "D/M/Y", "DD/MM/y", "ISO"],
        odd_date_rate=0.07,
        birthday_rate=0.85,
        no_birthday=["", "", "01/01/1900", "s/d"],
        unknown_roles=["Becario", "Agente / admin", "pendiente"],
        empty_role_rate=0.02,
        domains=["example.com", "inmo.example.org", "example.net"],
        two_first_rate=0.25,
        particle_rate=0.06,
        decomposed_rate=0.003,
    )


def build_spanish() -> Sheet:
    layout = make_spanish_layout()
    rng = Random(layout.seed)
    records = build_records(layout, rng)
    for count, record in enumerate(records, 1):
        record.cells[0] = str(count)
    return fill_sheet(
        layout,
        rng,
        records,
        titles=[make_row(layout, c0="LISTADO DE AGENTES"), make_row(layout, c0="Fecha: 10/02/2025", c3="Uso interno")],
        blank_rate=0.003,
        footers=[make_row(layout, c1="TOTAL", c3=f"{len(records)} agentes", c21="41.250.000,00")],
    )


# --------------------------------------------------------------------------------------------------------------------
# Files


def write_xlsx(
    sheet: Sheet,
    path: Path,
    title: str,
    date_format: str,
    before: Mapping[str, list[list[Cell]]] = MappingProxyType({}),
    after: Mapping[str, list[list[Cell]]] = MappingProxyType({}),
) -> None:
    book: Any = Workbook()
    book.remove(book.active)
    for name, rows in before.items():
        page = book.create_sheet(name)
        for row in rows:
            page.append(row)
    page = book.create_sheet(title)
    fill_page(sheet, page, date_format)
    for name, rows in after.items():
        other = book.create_sheet(name)
        for row in rows:
            other.append(row)
    book.active = book.sheetnames.index(title) if title != "Users" else 0
    book.properties.created = datetime(2025, 2, 11, 9, 30)
    book.save(path)


def fill_page(sheet: Sheet, page: Any, date_format: str) -> None:
    for row, (cells, _) in enumerate(sheet.rows, 1):
        for column, value in enumerate(cells, 1):
            cell = page.cell(row=row, column=column)
            write_cell(cell, value)
            if isinstance(value, datetime):
                cell.number_format = date_format
            if row in sheet.header_rows:
                cell.font = Font(bold=True)
    page.freeze_panes = page.cell(row=(sheet.header_rows or [1])[-1] + 1, column=1)


def write_broker(sheet: Sheet, path: Path) -> None:
    """Writes the broker's workbook with merged group headers, section rows, hidden rows and several sheets."""
    book: Any = Workbook()
    cover = book.active
    cover.title = "READ ME"
    cover.append(["Harbor Light Realty Group"])
    cover.append(["Sheet Agents 2025 is current. Do not use the archive."])
    page = book.create_sheet("Agents 2025")
    fill_page(sheet, page, "m/d/yyyy")
    for start, end, _ in BROKER_GROUPS:
        if end > start:
            page.merge_cells(start_row=5, start_column=start + 1, end_row=5, end_column=end + 1)
    page.merge_cells("A1:F1")
    for row, (cells, record) in enumerate(sheet.rows, 1):
        if record is not None:
            page.row_dimensions[row].hidden = record.hidden
            if isinstance(cells[6], int):
                page.cell(row=row, column=7).number_format = "00000000"
        elif str(cells[0]).endswith("OFFICE"):
            page.merge_cells(start_row=row, start_column=1, end_row=row, end_column=len(cells))
            page.cell(row=row, column=1).fill = PatternFill("solid", start_color="DDDDDD")
    page.column_dimensions["R"].hidden = True
    for column in range(1, len(sheet.layout.columns) + 1):
        page.column_dimensions[get_column_letter(column)].width = 16
    archive = book.create_sheet("Archive 2019")
    archive.append(["Name", "E-mail", "Left"])
    for name, email in (("Old, Olga", "olga.old@example.com"), ("Gone, Gus", "gus.gone@example.com")):
        archive.append([name, email, datetime(2019, 5, 1)])
    vendors = book.create_sheet("Vendors")
    vendors.append(["Company", "Contact", "E-mail", "Phone"])
    vendors.append(["Sure Title", "Tina Title", "tina@example.org", "212-555-0111"])
    book.create_sheet("Lists").append(["Realtor", "Assoc. Broker", "New Agent"])
    book.active = 1
    book.properties.created = datetime(2025, 2, 11, 9, 30)
    book.save(path)


INSTRUCTIONS = {
    "Instructions": [
        ["BoldTrail BackOffice data template"],
        ["Red columns are mandatory, green columns are optional."],
        ["First Name, Last Name, Email: enter manually"],
        ["All dates: DD/MM/YYYY (for example 29/10/2025)"],
    ]
}

BUILDERS: dict[str, tuple[Callable[[], Sheet], Callable[[Sheet, Path], None]]] = {
    "reso_member.csv": (build_reso, lambda s, p: write_csv(s, p, newline="\n")),
    "boldtrail.xlsx": (build_boldtrail, lambda s, p: write_xlsx(s, p, "Users", "dd/mm/yyyy", before=INSTRUCTIONS)),
    "followupboss.csv": (build_followupboss, lambda s, p: write_csv(s, p, newline="\n")),
    "brokermint.xlsx": (build_brokermint, lambda s, p: write_xlsx(s, p, "Report", "mm/dd/yyyy")),
    "dotloop.csv": (build_dotloop, lambda s, p: write_csv(s, p, encoding="utf-8-sig")),
    "kvcore.csv": (build_kvcore, lambda s, p: write_csv(s, p)),
    "outlook.csv": (build_outlook, lambda s, p: write_csv(s, p, encoding="cp1252", quotes_all=True)),
    "google_contacts.csv": (build_google, lambda s, p: write_csv(s, p, newline="\n")),
    "broker_list.xlsx": (build_broker, write_broker),
    "maklerbuero.csv": (build_german, lambda s, p: write_csv(s, p, encoding="cp1252", delimiter=";")),
    "agence_france.xlsx": (
        build_french,
        lambda s, p: write_xlsx(
            s, p, "Collaborateurs", "dd/mm/yyyy", after={"Feuil2": [["Agence", "Tél."], ["Lyon 6e", "01 99 00 12 34"]]}
        ),
    ),
    "inmobiliaria.csv": (build_spanish, lambda s, p: write_csv(s, p, encoding="utf-8-sig", delimiter=";")),
}


def write_roster(name: str, folder: Path) -> Roster:
    """Writes the roster's file into `folder` and returns the truth about the file."""
    build, write = BUILDERS[name]
    sheet = build()
    write(sheet, Path(folder) / name)
    return sheet.make_roster()


def make_writer(name: str) -> Callable[[Path], Roster]:
    return lambda folder: write_roster(name, folder)


ROSTERS: dict[str, Callable[[Path], Roster]] = {name: make_writer(name) for name in BUILDERS}


if __name__ == "__main__":
    target = Path(__file__).parent / "files"
    target.mkdir(exist_ok=True)
    for roster_name in ROSTERS:
        truth = write_roster(roster_name, target)
        print(
            roster_name, len(truth.people), sum(bool(person.defect) for person in truth.people), len(truth.not_people)
        )
