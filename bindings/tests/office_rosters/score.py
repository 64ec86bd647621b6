"""Compares created agents with a roster's truth, and corrects a file of rejected rows as an office worker would.

    python score.py ROSTER_NAME BODIES.json
    python score.py --fix ROSTER_NAME REJECTS_FILE OUT_FILE

BODIES.json is a JSON list of the request bodies that were sent. REJECTS_FILE has the roster's columns and any further
columns; rows are matched with the roster by their cells.
"""

from __future__ import annotations

import csv
import io
import json
import re
import sys
import tempfile
import unicodedata
from collections import Counter, defaultdict
from datetime import date, datetime
from pathlib import Path
from typing import Any

from openpyxl import load_workbook

from office_rosters.rosters import BUILDERS, Layout, Person, Sheet, write_roster

DELETE = {"": "delete"}


def plain(value: Any) -> str:
    """Returns the text without surrounding, repeated or invisible spaces, in composed Unicode."""
    text = unicodedata.normalize("NFC", "" if value is None else str(value)).replace("\u200b", "")
    return " ".join(text.split())


# --------------------------------------------------------------------------------------------------------------------
# Score


def compare(person: Person, body: dict[str, Any]) -> dict[str, list[Any]]:
    """Returns the fields that differ, each with the expected and the sent value. Letter case of e-mails and names is free."""
    differences: dict[str, list[Any]] = {}
    for name in ("email", "first_name", "last_name"):
        expected, sent = getattr(person, name), body.get(name)
        if plain(expected).casefold() != plain(sent).casefold() or (name == "email" and sent != plain(sent)):
            differences[name] = [expected, sent]
    for name in ("phone", "date_of_birth"):
        expected, sent = getattr(person, name), body.get(name) or None
        if expected != sent:
            differences[name] = [expected, sent]
    role = body.get("role") or "AGENT"
    if role != person.role:
        differences["role"] = [person.role, role]
    return differences


def name_of(first: Any, last: Any) -> str:
    return f"{plain(first)} {plain(last)}".casefold()


def match_bodies(
    people: list[Person], bodies: list[dict[str, Any]]
) -> tuple[dict[int, list[dict[str, Any]]], list[dict[str, Any]]]:
    """Assigns each body to a person's row: by e-mail and name, else by an unambiguous name, else by e-mail."""
    to_import = [p for p in people if p.correction != DELETE]
    by_both = {(p.email.casefold(), name_of(p.first_name, p.last_name)): p for p in to_import}
    by_email = {p.email.casefold(): p for p in to_import}
    names = Counter(name_of(p.first_name, p.last_name) for p in to_import)
    by_name = {name_of(p.first_name, p.last_name): p for p in to_import}
    matched: dict[int, list[dict[str, Any]]] = defaultdict(list)
    strangers = []
    for body in bodies:
        email, name = plain(body.get("email")).casefold(), name_of(body.get("first_name"), body.get("last_name"))
        person = by_both.get((email, name))
        if person is None and names[name] == 1:
            person = by_name[name]
        if person is None:
            person = by_email.get(email)
        if person is None:
            strangers.append(body)
        else:
            matched[person.row].append(body)
    return matched, strangers


def score(name: str, bodies: list[dict[str, Any]]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        roster = write_roster(name, Path(folder))
    matched, strangers = match_bodies(roster.people, bodies)
    correct, rejected, created_after_correction, missing, twice = [], [], [], [], []
    wrong, wrong_defects = [], []
    for person in roster.people:
        sent = matched.get(person.row, [])
        if person.correction == DELETE:
            rejected.append(person.row)
            continue
        if len(sent) > 1:
            twice.append(person.row)
        if not sent:
            (rejected if person.defect else missing).append(person.row)
            continue
        differences = min((compare(person, body) for body in sent), key=len)
        if differences and person.defect:
            wrong_defects.append({"row": person.row, "defect": person.defect, "fields": differences})
        elif differences:
            wrong.append({"row": person.row, "fields": differences})
        else:
            (created_after_correction if person.defect else correct).append(person.row)
    return {
        "roster": name,
        "people": len(roster.people),
        "clean": sum(not p.defect for p in roster.people),
        "defects": sum(bool(p.defect) for p in roster.people),
        "bodies": len(bodies),
        "correct": len(correct),
        "correctly_rejected": len(rejected),
        "defects_created_with_right_values": len(created_after_correction),
        "wrong": len(wrong),
        "defects_created_wrong": len(wrong_defects),
        "created_twice": len(twice),
        "missing": len(missing),
        "created_although_not_a_person": len(strangers),
        "rows": {
            "correctly_rejected": rejected,
            "defects_created_with_right_values": created_after_correction,
            "wrong": wrong,
            "defects_created_wrong": wrong_defects,
            "created_twice": twice,
            "missing": missing,
            "created_although_not_a_person": [
                {k: b.get(k) for k in ("email", "first_name", "last_name")} for b in strangers
            ],
        },
    }


# --------------------------------------------------------------------------------------------------------------------
# Corrections


def plain_cell(value: Any) -> str:
    """Returns one text for the notations in which a spreadsheet or an export may show the same cell."""
    if isinstance(value, datetime):
        return value.date().isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bool):
        return str(value).casefold()
    text = plain(value).casefold()
    if re.fullmatch(r"\d{4}-\d\d-\d\d[ t]00:00(:00(\.0+)?)?z?", text):
        return text[:10]
    if re.fullmatch(r"-?\d+(\.\d+)?", text):
        text = text.lstrip("0") or "0"
        if "." in text:
            text = text.rstrip("0").rstrip(".")
    return text


def map_columns(header: list[Any], layout: Layout) -> dict[int, int]:
    """Maps the roster's column positions to positions in `header`. Repeated names match in order, also if numbered."""
    texts = [plain(cell).casefold() for cell in header]
    free = set(range(len(texts)))
    mapping: dict[int, int] = {}

    def find(position: int, fits: Any) -> None:
        found = next((i for i in sorted(free) if fits(texts[i])), None)
        if found is not None:
            mapping[position] = found
            free.discard(found)

    names = [plain(name).casefold() for name in layout.header]
    for position, name in enumerate(names):
        find(position, lambda text, name=name: text == name)
    for position, name in enumerate(names):
        if position not in mapping and name:
            pattern = re.compile(re.escape(name) + r"[ _.#-]*\(?\d+\)?")
            find(position, pattern.fullmatch)
    for position, name in enumerate(names):
        if position not in mapping and name:
            pattern = re.compile(r"\W" + re.escape(name) + "$")
            find(position, pattern.search)
    return mapping


def find_header(rows: list[list[Any]], layout: Layout) -> tuple[int, dict[int, int]]:
    """Returns the index of the header row among the first rows, and the column mapping."""
    best, best_mapping = 0, {}
    for index, row in enumerate(rows[:20]):
        mapping = map_columns(row, layout)
        if len(mapping) > len(best_mapping):
            best, best_mapping = index, mapping
    if len(best_mapping) < len(layout.columns) // 2:
        raise SystemExit("no header row with the roster's column names in the rejects file")
    return best, best_mapping


def match_rows(
    sheet: Sheet, people: list[Person], rows: list[list[Any]], first: int, mapping: dict[int, int]
) -> dict[int, Person]:
    """Returns the defect of each row index of the rejects file."""
    positions = sorted(mapping)
    person_of = {p.row: p for p in people}
    known: dict[tuple[str, ...], list[Person]] = defaultdict(list)
    for number, (cells, record) in enumerate(sheet.rows, 1):
        if record is not None:
            known[tuple(plain_cell(cells[p]) for p in positions)].append(person_of[number])
    found: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for index in range(first, len(rows)):
        row = rows[index]
        found[tuple(plain_cell(row[mapping[p]]) if mapping[p] < len(row) else "" for p in positions)].append(index)
    result: dict[int, Person] = {}
    for key, indexes in found.items():
        persons = known.get(key) or find_similar(key, known)
        if not persons:
            continue
        # Rows that list a person twice with the same cells cannot be distinguished: the last ones are the ones to delete.
        persons = sorted(persons, key=lambda p: p.correction == DELETE)
        for index, person in zip(reversed(indexes), reversed(persons), strict=False):
            if person.correction:
                result[index] = person
    return result


def find_similar(key: tuple[str, ...], known: dict[tuple[str, ...], list[Person]]) -> list[Person]:
    """Returns the person whose cells equal at least nine tenths of the row's filled cells, if only one person's do."""
    filled = [i for i, text in enumerate(key) if text]
    if len(filled) < 3:
        return []
    ranked = sorted(((sum(other[i] == key[i] for i in filled), n) for n, other in enumerate(known)), reverse=True)[:2]
    if ranked[0][0] < 0.9 * len(filled) or (len(ranked) > 1 and ranked[1][0] == ranked[0][0]):
        return []
    return list(known.values())[ranked[0][1]]


def corrections(name: str, rows: list[list[Any]]) -> tuple[dict[int, dict[int, Any]], list[int], int]:
    """Returns the cells to write by row and column index, the row indexes to delete, and the number of rows left unchanged."""
    build, _ = BUILDERS[name]
    sheet = build()
    people = sheet.make_roster().people
    layout = sheet.layout
    header, mapping = find_header(rows, layout)
    writes: dict[int, dict[int, Any]] = {}
    deletes: list[int] = []
    for index, person in match_rows(sheet, people, rows, header + 1, mapping).items():
        if person.correction == DELETE:
            deletes.append(index)
            continue
        writes[index] = {}
        for column, text in person.correction.items():
            position = layout.header.index(column)
            value: Any = text
            if position == layout.position("birthday") and layout.date_cells and text and person.date_of_birth:
                value = datetime.fromisoformat(person.date_of_birth)
            writes[index][mapping[position]] = value
    unchanged = sum(any(plain(c) for c in row) for row in rows[header + 1 :]) - len(writes) - len(deletes)
    return writes, sorted(deletes), unchanged


def read_csv(path: Path, layout: Layout) -> tuple[list[list[str]], str, str, str]:
    data = path.read_bytes()
    encoding = (
        "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig" if data[:3] == b"\xef\xbb\xbf" else "utf-8"
    )
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        encoding = "cp1252"
        text = data.decode(encoding)

    def parse(delimiter: str) -> list[list[str]]:
        return list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))

    delimiter = max(",;\t|", key=lambda d: max((len(map_columns(row, layout)) for row in parse(d)[:20]), default=0))
    return parse(delimiter), encoding, delimiter, "\r\n" if "\r\n" in text else "\n"


def fix(name: str, rejects: Path, out: Path) -> dict[str, Any]:
    if rejects.suffix.lower() == ".xlsx":
        layout = BUILDERS[name][0]().layout
        book = load_workbook(rejects)
        page = max(
            book.worksheets,
            key=lambda p: max(
                (len(map_columns(list(row), layout)) for row in p.iter_rows(max_row=20, values_only=True)), default=0
            ),
        )
        rows: list[list[Any]] = [list(row) for row in page.iter_rows(values_only=True)]
        writes, deletes, unchanged = corrections(name, rows)
        for index, cells in writes.items():
            for column, value in cells.items():
                cell = page.cell(row=index + 1, column=column + 1)
                cell.value = None if value == "" else value
                if isinstance(value, datetime):
                    cell.number_format = "dd/mm/yyyy" if layout.country == "FR" else "m/d/yyyy"
        for index in reversed(deletes):
            page.delete_rows(index + 1)
        book.save(out)
    else:
        layout = BUILDERS[name][0]().layout
        rows, encoding, delimiter, newline = read_csv(rejects, layout)
        writes, deletes, unchanged = corrections(name, rows)
        for index, cells in writes.items():
            for column, value in cells.items():
                row = rows[index]
                row.extend([""] * (column + 1 - len(row)))
                row[column] = layout.shown_date(value.date()) if isinstance(value, datetime) else value
        with out.open("w", encoding=encoding, newline="") as file:
            csv.writer(file, delimiter=delimiter, lineterminator=newline).writerows(
                row for index, row in enumerate(rows) if index not in set(deletes)
            )
    return {"roster": name, "corrected": len(writes), "deleted": len(deletes), "unchanged": unchanged}


def main(arguments: list[str]) -> None:
    if len(arguments) == 4 and arguments[0] == "--fix":
        result = fix(arguments[1], Path(arguments[2]), Path(arguments[3]))
    elif len(arguments) == 2:
        result = score(arguments[0], json.loads(Path(arguments[1]).read_text("utf-8")))
    else:
        raise SystemExit(__doc__)
    print(json.dumps(result, ensure_ascii=False))


if __name__ == "__main__":
    main(sys.argv[1:])
