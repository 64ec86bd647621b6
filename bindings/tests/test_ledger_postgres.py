"""Ledgers in PostgreSQL, by a server of the tests' own. The rules are tested in Rust; here is what Python and the command
add: names, errors, and no password in any text."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import dealkit
from conftest import email, rows
from postgres import NEEDED, Postgres, must_skip, required_programs

from dealkit import Client, LedgerError, ledger
from dealkit._cli.terminal import format_command, ledger_display_name
from dealkit.testing import Sandbox

pytestmark = pytest.mark.skipif(must_skip(), reason=f"needs {NEEDED}")


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    """The URL of a database."""
    with Postgres(required_programs(), "sesame") as server:
        yield server.url


def told(*arguments: str | Path, sandbox: Sandbox, **env: str) -> str:
    done = dealkit(*arguments, url=sandbox.url, key=sandbox.service_key, env=env)
    assert "sesame" not in done.shown + done.told
    return done.shown + done.told


def test_jobs_share_a_database(sandbox: Sandbox, client: Client, database: str) -> None:
    name = f"{database}?schema=shared"
    create_many = client.agents.create_many
    assert ledger.look_up(name, [email(rows(1)[0])], key_name="email") == [None]
    assert all(creation.agent for creation in create_many(rows(20), ledger=name, key="email"))
    again = [*create_many(rows(25), ledger=name, key="email")]
    assert [creation.from_ledger for creation in again] == [True] * 20 + [False] * 5
    assert len(sandbox.agents) == 25
    summary = ledger.summary(name)
    assert (summary.service, summary.key_name, summary.succeeded, summary.in_flight) == (sandbox.url, "email", 25, 0)
    # Other keys, and another service, are more likely a mistake than meant.
    for service, key, reason in [
        (sandbox.url, "last_name", "other_keys"),
        ("http://127.0.0.1:9", "email", "other_service"),
    ]:
        other = Client(base_url=service, service_key="sandbox-key")
        with pytest.raises(LedgerError) as caught:
            next(other.agents.create_many(rows(1), ledger=name, key=key))
        assert caught.value.reason == reason
        assert ("with dealkit.ledger.set_base_url." in str(caught.value)) is (reason == "other_service")
        shown = traceback.TracebackException.from_exception(caught.value, capture_locals=True).stack[1:]
        assert "sesame" not in str(caught.value) + repr([frame.locals for frame in shown])


def test_what_is_wrong_is_said_without_the_password(database: str, nowhere: str) -> None:
    for name, reason in [
        (f"postgresql://guest:sesame@{nowhere}/none", "unreachable"),
        ("postgresql://guest:sesame@127.0.0.1:1/none?sesame=1", "not_a_ledger"),
        (f"{database}?schema=nothing", "io"),
    ]:
        with pytest.raises(LedgerError) as caught:
            ledger.summary(name)
        shown = traceback.TracebackException.from_exception(caught.value, capture_locals=True).stack[1:]
        assert caught.value.reason == reason
        assert "sesame" not in str(caught.value) + repr([frame.locals for frame in shown])


def test_the_command_has_its_ledger_in_a_database(sandbox: Sandbox, database: str, tmp_path: Path) -> None:
    table, name = tmp_path / "a.csv", f"{database}?schema=imported"
    lines = (f"{email(row)},Ada,Lovelace" for row in rows(3))
    table.write_text("\n".join(["email,first_name,last_name", *lines]))
    told("agents", "import", table, "--yes", "--ledger", name, sandbox=sandbox)
    said = told("agents", "import", table, "--yes", sandbox=sandbox, DEALKIT_LEDGER=name)
    assert "already has 3 of them" in said
    assert len(sandbox.agents) == 3
    assert re.search(r"created +3", told("ledger", "show", sandbox=sandbox, DEALKIT_LEDGER=name))
    assert told("ledger", "init", f"{database}?schema=empty", sandbox=sandbox).endswith("is ready.\n")


def test_a_command_is_shown_without_the_user_and_the_password() -> None:
    for given, shown in [
        ("postgresql://ada:sesame@db/x?password=sesame", "postgresql://db:5432/x"),
        ("postgresql://ada:ses@me@db/x", "postgresql://…"),
        ("postgresql+psycopg2://ada:sesame@db/x", "postgresql://…"),
        (" postgresql://ada:sesame@db/x", "postgresql://…"),
        ("host=db user=ada password=sesame", "postgresql://…"),
        ("agents.ledger", "agents.ledger"),
    ]:
        assert ledger_display_name(given) == shown
        for option in (["--ledger", given], [f"--ledger={given}"]):
            line = format_command(["agents", "import", "user=email", *option])
            assert "user=email" in line and "sesame" not in line and "ada" not in line
        with pytest.raises(LedgerError) as raised:
            ledger.summary(given)
        assert "sesame" not in str(raised.value) and "ada" not in str(raised.value)
