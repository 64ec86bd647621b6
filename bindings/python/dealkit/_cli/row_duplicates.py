"""Finds rows of an import that have the same key or the same e-mail address.

Rows with equal data are one person: the first is sent, the others are skipped. If the data differ, only the user knows
which row is right, so none of the rows is sent.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from typing import Any, NamedTuple

# The fields that are compared, without letter case.
_COMPARED_FIELDS = ("email", "first_name", "last_name", "phone", "date_of_birth", "role")

_MAX_NUMBERS = 3

TABLE = """
CREATE TABLE people (number INTEGER PRIMARY KEY, key TEXT, email TEXT, name TEXT, data TEXT);
CREATE INDEX people_by_key ON people (key);
CREATE INDEX people_by_email ON people (email)
"""


class Duplicate(NamedTuple):
    """A row that has the key or the e-mail address of other rows."""

    number: int
    is_same_key: bool
    """False if only the e-mail address is the same."""
    is_repeated: bool
    """True if an earlier row has the same data."""
    is_same_name: bool
    message: str


def add_person(database: sqlite3.Connection, number: int, key: str, agent: dict[str, Any]) -> None:
    """Adds a row to the table of people. An empty key is equal to no other key."""
    name = " ".join(str(agent.get(field, "")) for field in ("first_name", "last_name")).casefold()
    data = json.dumps([str(agent.get(field, "")).casefold() for field in _COMPARED_FIELDS])
    email = str(agent.get("email", "")).casefold()
    database.execute("INSERT INTO people VALUES (?, ?, ?, ?, ?)", (number, key or None, email or None, name, data))


def find_duplicates(database: sqlite3.Connection) -> Iterator[Duplicate]:
    """Yields the duplicates among the people, by key and then by e-mail address. A row is yielded at most once."""
    found: set[int] = set()
    for column in ("key", "email"):
        groups = database.execute(
            f"SELECT {column} FROM people WHERE {column} IS NOT NULL GROUP BY {column} HAVING count(*) > 1 ORDER BY min(number)"
        ).fetchall()
        for (value,) in groups:
            rows = database.execute(
                f"SELECT number, name, data FROM people WHERE {column} = ? ORDER BY number", (value,)
            ).fetchall()
            for duplicate in _compare(rows, is_same_key=column == "key"):
                if duplicate.number not in found:
                    found.add(duplicate.number)
                    yield duplicate


def _compare(rows: list[tuple[int, str, str]], *, is_same_key: bool) -> Iterator[Duplicate]:
    first_number = rows[0][0]
    if len({data for _, _, data in rows}) == 1:
        for number, _, _ in rows[1:]:
            yield Duplicate(number, is_same_key, True, True, f"repeats row {first_number}")
        return
    is_same_name = len({name for _, name, _ in rows}) == 1
    for number, _, _ in rows:
        others = [other for other, _, _ in rows if other != number]
        shown = f"row{'s' * (len(others) > 1)} {', '.join(map(str, others[:_MAX_NUMBERS]))}{', …' * (len(others) > _MAX_NUMBERS)}"
        difference = (
            "with the same name, but other data: keep the right row, and delete the others"
            if is_same_name
            else "with another name: correct the wrong row"
        )
        yield Duplicate(number, is_same_key, False, is_same_name, f"is also in {shown}, {difference}")
