"""Ledgers in PostgreSQL: names, errors, and no password in messages. The rules themselves are tested in Rust."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import run_command
from conftest import make_rows, row_email
from postgres import POSTGRES_PACKAGE, Postgres, must_skip, required_programs

from dealkit import Client, LedgerError, ledger
from dealkit._cli.terminal import format_command, ledger_display_name
from dealkit.testing import Sandbox

pytestmark = pytest.mark.skipif(must_skip(), reason=f"needs {POSTGRES_PACKAGE}")


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    """The URL of a temporary database."""
    with Postgres(required_programs(), "sesame") as server:
        yield server.url


def run_and_read_output(*arguments: str | Path, sandbox: Sandbox, **env: str) -> str:
    done = run_command(*arguments, url=sandbox.url, key=sandbox.service_key, env=env)
    assert "sesame" not in done.stdout + done.stderr
    return done.stdout + done.stderr


def test_jobs_share_a_database(sandbox: Sandbox, client: Client, database: str) -> None:
    name = f"{database}?schema=shared"
    create_many = client.agents.create_many
    assert ledger.look_up(name, [row_email(make_rows(1)[0])], key_name="email") == [None]
    assert all(creation.agent for creation in create_many(make_rows(20), ledger=name, key="email"))
    again = [*create_many(make_rows(25), ledger=name, key="email")]
    assert [creation.from_ledger for creation in again] == [True] * 20 + [False] * 5
    assert len(sandbox.agents) == 25
    summary = ledger.summary(name)
    assert (summary.service, summary.key_name, summary.succeeded, summary.in_flight) == (sandbox.url, "email", 25, 0)
    # Other keys, or another service, are most likely a mistake.
    for service, key, reason in [
        (sandbox.url, "last_name", "other_keys"),
        ("http://127.0.0.1:9", "email", "other_service"),
    ]:
        other = Client(base_url=service, service_key="sandbox-key")
        with pytest.raises(LedgerError) as caught:
            next(other.agents.create_many(make_rows(1), ledger=name, key=key))
        assert caught.value.reason == reason
        assert ("record the new base URL in the ledger" in str(caught.value)) is (reason == "other_service")
        frames = traceback.TracebackException.from_exception(caught.value, capture_locals=True).stack[1:]
        assert "sesame" not in str(caught.value) + repr([frame.locals for frame in frames])


def test_database_errors_do_not_contain_the_password(database: str, refusing_address: str) -> None:
    for name, reason in [
        (f"postgresql://guest:sesame@{refusing_address}/none", "unreachable"),
        ("postgresql://guest:sesame@127.0.0.1:1/none?sesame=1", "not_a_ledger"),
        (f"{database}?schema=nothing", "io"),
    ]:
        with pytest.raises(LedgerError) as caught:
            ledger.summary(name)
        frames = traceback.TracebackException.from_exception(caught.value, capture_locals=True).stack[1:]
        assert caught.value.reason == reason
        assert "sesame" not in str(caught.value) + repr([frame.locals for frame in frames])


def test_the_command_uses_a_ledger_in_a_database(sandbox: Sandbox, database: str, tmp_path: Path) -> None:
    table, name = tmp_path / "a.csv", f"{database}?schema=imported"
    lines = (f"{row_email(row)},Ada,Lovelace" for row in make_rows(3))
    table.write_text("\n".join(["email,first_name,last_name", *lines]))
    run_and_read_output("agents", "import", table, "--yes", "--ledger", name, sandbox=sandbox)
    output = run_and_read_output("agents", "import", table, "--yes", sandbox=sandbox, DEALKIT_LEDGER=name)
    assert "has 3 of them, which are not sent again" in output
    assert len(sandbox.agents) == 3
    assert re.search(r"created +3", run_and_read_output("ledger", "show", sandbox=sandbox, DEALKIT_LEDGER=name))
    assert run_and_read_output("ledger", "init", f"{database}?schema=empty", sandbox=sandbox).endswith(
        "is ready for imports.\n"
    )


def test_printed_commands_do_not_contain_user_and_password() -> None:
    for url, frames in [
        ("postgresql://ada:sesame@db/x?password=sesame", "postgresql://db:5432/x"),
        ("postgresql://ada:ses@me@db/x", "postgresql://…"),
        ("postgresql+psycopg2://ada:sesame@db/x", "postgresql://…"),
        (" postgresql://ada:sesame@db/x", "postgresql://…"),
        ("host=db user=ada password=sesame", "postgresql://…"),
        ("agents.ledger", "agents.ledger"),
    ]:
        assert ledger_display_name(url) == frames
        for option in (["--ledger", url], [f"--ledger={url}"]):
            line = format_command(["agents", "import", "user=email", *option])
            assert "user=email" in line and "sesame" not in line and "ada" not in line
        with pytest.raises(LedgerError) as raised:
            ledger.summary(url)
        assert "sesame" not in str(raised.value) and "ada" not in str(raised.value)
