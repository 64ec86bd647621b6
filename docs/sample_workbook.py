"""Writes `docs/files/sample-agents.xlsx`, the roster that readers of "Import a spreadsheet" can download. `make pictures` runs it."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from openpyxl import Workbook
from openpyxl.styles import Font

FILE = Path(__file__).parent / "files/sample-agents.xlsx"
HEADER = ["First Name", "Last Name", "E-mail", "Cell Phone", "Birthday", "Position", "Joined"]
# Invented people. The address of one has a typing mistake, which the import reports.
PEOPLE = """\
Ada,Lovelace,ada@example.com,(802) 555-0101,1985-12-10,Broker,2012
Grace,Hopper,grace.example.com,(802) 555-0102,1986-12-09,Sales Associate,2013
Jean,Bartik,jean@example.com,(802) 555-0103,1984-12-27,Sales Associate,2013
Alan,Turing,alan@example.com,(802) 555-0104,1982-06-23,Broker,2014
Mary,Jackson,mary@example.com,802.555.0105,1991-04-09,Sales Associate,2015
Emmy,Noether,emmy@example.com,802.555.0106,1982-03-23,Sales Associate,2017
Inés,Núñez,ines@example.com,(802) 555-0107,1990-06-05,Sales Associate,2018
Marie,Curie,marie@example.com,(802) 555-0108,1987-11-07,Sales Associate,2018
Lise,Meitner,lise@example.com,,1978-11-07,Sales Associate,2020
Hedy,Lamarr,hedy@example.com,802-555-0110,1994-11-09,Sales Associate,2021
Dorothy,Vaughan,dorothy@example.com,802-555-0111,1980-09-20,Office Admin,2022
Annie,Easley,annie@example.com,802-555-0112,1993-04-23,Sales Associate,2024"""


def build_workbook() -> Workbook:
    workbook = Workbook()
    sheet = workbook.active
    assert sheet is not None
    sheet.title = "Agents"
    sheet.append(["Harbor View Realty: agents"])
    sheet.append([])
    sheet.append(HEADER)
    people = [line.split(",") for line in PEOPLE.splitlines()]
    for *cells, born, position, joined in people:
        sheet.append([cell or None for cell in cells] + [date.fromisoformat(born), position, int(joined)])
    sheet.append(["Total", len(people)])
    for row in (1, 3, sheet.max_row):
        for cell in sheet[row]:
            cell.font = Font(bold=True)
    for column, width in zip("ABCDEFG", [14, 14, 24, 18, 12, 18, 8], strict=True):
        sheet.column_dimensions[column].width = width
    return workbook


def main() -> None:
    FILE.parent.mkdir(exist_ok=True)
    build_workbook().save(FILE)
    # Removes the current time, so that the same people always result in the same bytes.
    with ZipFile(FILE) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with ZipFile(FILE, "w") as archive:
        for name, content in parts.items():
            fixed = re.sub(rb"\d{4}-\d\d-\d\dT[\d:]+Z", b"2026-01-01T00:00:00Z", content)
            archive.writestr(ZipInfo(name), fixed, ZIP_DEFLATED)


if __name__ == "__main__":
    main()
