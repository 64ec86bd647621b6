"""A temporary database, for what may not fit in memory."""

import sqlite3

from dealkit._cli.exits import UNWRITABLE, Failed


def temporary_database(tables: str) -> sqlite3.Connection:
    """An empty database with these tables."""
    # SQLite removes its file as soon as it is open. Nothing else opens it, and nothing needs to be undone.
    database = sqlite3.connect("", isolation_level=None)
    database.executescript(f"PRAGMA journal_mode = OFF; {tables}; BEGIN")
    return database


def not_kept(what: str, error: sqlite3.Error) -> Failed:
    """Says that something could not be written to it."""
    return Failed(f"cannot keep the {what} in a temporary file: {error}", UNWRITABLE)
