"""The command `dealkit agents import`: tables, mistakes, ledgers, and runs that are stopped."""

from __future__ import annotations

import csv
import json
import re
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from commands import Done, Terminal, dealkit, end, start, until_told
from conftest import until

from dealkit.ledger import show
from dealkit.testing import Sandbox

TABLE = """E-mail;First name;Last name;Role;Phone;Notes;Tier;profile.onboarding_complete
ada@example.com;Ada;Lovelace;AGENT;+15550100;vip;A;TRUE
no;;Hopper;agent;15550100;;;
grace@example.com;Grace;Hopper;;;;;maybe

alan@example.com;Alan;Turing;BROKER_ADMIN;;"a;b
c";;;x
kurt@example.com;Kurt;Gödel;;;;;false
ada@example.com;Ada;Byron;;;;;
"""
DRY_RUN = """\
agents.csv: 6 rows, UTF-8, separated by semicolons

  Column                       goes to
  E-mail                       email
  First name                   first_name
  Last name                    last_name
  Role                         role
  Phone                        phone
  Notes                        not sent
  Tier                         not sent; if it holds profile.tier, add --map "Tier=profile.tier"
  profile.onboarding_complete  profile.onboarding_complete

What is wrong
  row 3                E-mail                       must be a bare e-mail address such as ada@example.com
  row 3                First name                   is required and missing
  row 3                Role                         must be one of COLLECTIVE_ADMIN, BROKER_ADMIN, OFFICE_ADMIN, ADMIN, AGENT
  row 3                Phone                        must be a plus sign followed by digits only, such as +15550100
  row 4                profile.onboarding_complete  must be TRUE or FALSE
  row 6                                             has more cells than there are columns; are quotation marks missing around a cell?
  row 8 (as in row 2)  E-mail                       is the same as in an earlier row, but must tell the rows apart: keep one of the two, or name another column with --key

2 rows can be sent, 4 cannot
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "agents.csv"
    path.write_text(TABLE)
    return path


def agents(path: Path, count: int) -> None:
    """Writes a table of agents without mistakes."""
    rows = "".join(f"a{number}@example.com,A,B{number},x-{number}\n" for number in range(count))
    path.write_text(f"email,first_name,last_name,profile.external_id\n{rows}")


def imported(*options: str | Path, sandbox: Sandbox, cwd: Path, given: str = "", yes: bool = True) -> Done:
    return dealkit(
        "agents", "import", "agents.csv", *options, *(["--yes"] if yes else []), url=sandbox.url, cwd=cwd, given=given
    )  # fmt: skip


def ledger_at(sandbox: Sandbox) -> str:
    """The name of the ledger that imports into this service have by default."""
    return f"agents-{sandbox.url.removeprefix('http://').replace(':', '-')}.ledger"


def read(report: Path) -> list[dict[str, str]]:
    """The rows of a report, which separates columns as the table does."""
    with open(report, encoding="utf-8-sig", newline="") as file:
        delimiter = file.readline()[3]
        file.seek(0)
        return [*csv.DictReader(file, delimiter=delimiter)]


def came_to(path: Path) -> dict[str, str]:
    """The outcome of each row, according to a report."""
    return {row["row"]: row["outcome"] for row in read(path)}


def counts(shown: str) -> dict[str, int]:
    """How many rows had each outcome, according to the screen."""
    found = {}
    for line in shown.splitlines():
        words = line.replace("Not sent", "Not-sent").split()
        if len(words) > 1 and words[0] in ("Created", "Rejected", "Unknown", "Not-sent", "Invalid"):
            if words[1].replace(",", "").isdigit():
                found[words[0].lower()] = int(words[1].replace(",", ""))
    return found


def test_a_dry_run(table: Path, tmp_path: Path) -> None:
    """A dry run needs neither a service nor a key."""
    done = dealkit("agents", "import", "agents.csv", "--map", "E-mail=email", "--dry-run", key="", cwd=tmp_path)
    assert done == (1, DRY_RUN + "Nothing was sent: this was a dry run.\n", "")
    assert [path.name for path in tmp_path.iterdir()] == ["agents.csv"]

    options = ["--map", "E-mail = email", "--map", "Tier=profile.tier", "--dry-run", "--report", "report.csv"]
    done = dealkit("agents", "import", "agents.csv", *options, cwd=tmp_path)
    assert "  Tier                         profile.tier\n" in done.shown
    assert came_to(tmp_path / "report.csv") == {
        "2": "not sent",
        "3": "invalid",
        "4": "invalid",
        "6": "invalid",
        "7": "not sent",
        "8": "invalid",
    }
    assert "Hopper" not in done.shown + done.told + (tmp_path / "report.csv").read_text()
    assert (tmp_path / "report.csv").stat().st_mode & 0o777 == 0o600


def test_a_kind_of_mistake_is_told_once_with_its_rows(tmp_path: Path) -> None:
    rows = [
        f"a{number}@example.com,{'x' * (256 + number) if number % 50 == 7 else 'A'},B,0{number}"
        for number in range(335)
    ]
    (tmp_path / "agents.csv").write_text("\n".join(["email,first_name,last_name,phone", *rows, *rows[:6]]))
    done = dealkit("agents", "import", "agents.csv", "--dry-run", "--report", "r.csv", cwd=tmp_path)
    told = done.shown.partition("What is wrong\n")[2].partition("\n\n")[0].splitlines()
    assert [re.split("  +", line.strip()) for line in told] == [
        ["341 rows: 2-342", "phone", "must be a plus sign followed by digits only, such as +15550100"],
        ["7 rows: 9, 59, 109, …", "first_name", "must be 1 to 255 characters, got 263 (row 9)"],
        [
            "6 rows: 337 (as in row 2), 338 (as in row 3), 339 (as in row 4), …",
            "email",
            "is the same as in an earlier row, but must tell the rows apart: keep one of the two, or name another column with --key",
        ],
    ]
    found = {row["row"]: row for row in read(tmp_path / "r.csv")}
    assert len(found) == 341 and {row["outcome"] for row in found.values()} == {"invalid"}
    assert found["9"]["message"].startswith("first_name: must be 1 to 255 characters, got 263; phone: must be")
    assert found["342"]["message"].endswith("name another column with --key (as in row 7)")


def test_two_rows_of_one_address_are_pointed_out(tmp_path: Path, dealkit_sandbox: Sandbox) -> None:
    """They may be two agents, so nothing is held back."""
    head = "Number,email,first_name,last_name\n"
    rows = "1,a@example.com,A,B\n2,c@example.com,A,B\n3,A@Example.com,A,B\n4,a@example.com,A,B\n"
    (tmp_path / "agents.csv").write_text(head + rows)
    done = dealkit("agents", "import", "agents.csv", "--key", "Number", "--dry-run", "--report", "r.csv", cwd=tmp_path)
    assert (
        "Worth a look\n  rows 4 (as in row 2), 5 (as in row 2)  email  "
        "is the same as in an earlier row: keep one of the two, unless they are two agents\n\n4 rows can be sent, 0 cannot\n"
    ) in done.shown
    assert done.code == 0 and "unless they are two agents (as in row 2)" in (tmp_path / "r.csv").read_text()
    assert imported("--key", "Number", sandbox=dealkit_sandbox, cwd=tmp_path).code == 0
    assert len(dealkit_sandbox.agents) == 4


def test_what_a_column_may_be_is_a_hint(tmp_path: Path) -> None:
    """No column is mapped to a field because of a guess."""
    head = "E-Mail;Surname;Mobile Phone;Phone 2;first name;Vorname;DOB"
    (tmp_path / "agents.csv").write_text(f"{head}\na@example.com;B;+1;+2;A;;\n")
    done = dealkit("agents", "import", "agents.csv", "--dry-run", cwd=tmp_path)
    assert done.code == 2
    assert done.shown.splitlines()[2:] == [
        "  Column        goes to",
        '  E-Mail        not sent; if it holds email, add --map "E-Mail=email"',
        '  Surname       not sent; if it holds last_name, add --map "Surname=last_name"',
        '  Mobile Phone  not sent; if it holds phone, add --map "Mobile Phone=phone"',
        '  Phone 2       not sent; if it holds phone, add --map "Phone 2=phone"',
        "  first name    first_name",
        "  Vorname       not sent",
        '  DOB           not sent; if it holds date_of_birth, add --map "DOB=date_of_birth"',
        "",
    ]
    assert done.told == (
        "dealkit: agents.csv: no column holds email or last_name, which every agent needs. Say which does: "
        '--map "E-Mail=email" --map "Surname=last_name"\n'
    )


def test_agents_are_created_as_the_table_says(table: Path, tmp_path: Path, dealkit_sandbox: Sandbox) -> None:
    options = ["--map", "E-mail=email", "--map", "Tier=profile.tier", "--map", "Notes=profile.client_metadata.notes"]
    done = imported(*options, sandbox=dealkit_sandbox, cwd=tmp_path)
    assert (done.code, counts(done.shown)) == (1, {"created": 2, "rejected": 0, "unknown": 0, "invalid": 4})
    sent = sorted((agent.sent for agent in dealkit_sandbox.agents), key=lambda one: str(one["email"]))
    # Empty cells are not sent.
    assert sent == [
        {
            "email": "ada@example.com",
            "first_name": "Ada",
            "last_name": "Lovelace",
            "role": "AGENT",
            "phone": "+15550100",
            "profile": {"clientMetadata": {"notes": "vip"}, "tier": "A", "onboardingComplete": True},
        },
        {
            "email": "kurt@example.com",
            "first_name": "Kurt",
            "last_name": "Gödel",
            "profile": {"onboardingComplete": False},
        },
    ]


def test_a_second_run_creates_nobody_twice(tmp_path: Path, dealkit_sandbox: Sandbox) -> None:
    agents(tmp_path / "agents.csv", 5)
    dealkit_sandbox.fail_next(status=422, after=1, method="POST")
    dealkit_sandbox.fail_next(act_then_reset=True, after=2, method="POST")
    options = ["--ledger", "import.ledger", "--report", "report.csv", "--concurrency", "1"]
    done = imported(*options, sandbox=dealkit_sandbox, cwd=tmp_path)
    assert (done.code, counts(done.shown)) == (1, {"created": 3, "rejected": 1, "unknown": 1})
    found = came_to(tmp_path / "report.csv")
    assert sorted(found) == ["2", "3", "4", "5", "6"]
    assert sorted(found.values()) == ["created", "created", "created", "rejected", "unknown"]
    assert len(dealkit_sandbox.agents) == 4
    assert "import.ledger records it: the same command creates no agent twice." in done.shown
    assert b"example.com" not in (tmp_path / "import.ledger").read_bytes()

    # One row more; the rest is unchanged.
    with open(tmp_path / "agents.csv", "a") as file:
        file.write("new@example.com,A,New,x-new\n")
    done = imported(*options, sandbox=dealkit_sandbox, cwd=tmp_path)
    assert (done.code, counts(done.shown)) == (1, {"created": 4, "rejected": 1, "unknown": 1})
    assert "3 of them in an earlier run" in done.shown
    assert len(dealkit_sandbox.agents) == 5

    done = imported(*options, "--resend-unknown", sandbox=dealkit_sandbox, cwd=tmp_path)
    assert counts(done.shown) == {"created": 5, "rejected": 1, "unknown": 0}
    assert len(dealkit_sandbox.agents) == 6, "as its user wanted it, one of them twice"


def test_without_a_ledger_there_is_one_beside_the_table(tmp_path: Path, dealkit_sandbox: Sandbox) -> None:
    agents(tmp_path / "agents.csv", 3)
    for _ in range(2):
        done = imported(sandbox=dealkit_sandbox, cwd=tmp_path)
        assert (done.code, counts(done.shown)["created"]) == (0, 3)
    assert len(dealkit_sandbox.agents) == 3
    assert (tmp_path / ledger_at(dealkit_sandbox)).exists()


def test_a_table_of_another_name_creates_nobody_twice(tmp_path: Path, dealkit_sandbox: Sandbox) -> None:
    agents(tmp_path / "agents.csv", 3)
    assert imported(sandbox=dealkit_sandbox, cwd=tmp_path).code == 0
    agents(tmp_path / "agents-corrected.csv", 4)
    corrected = ["agents", "import", "agents-corrected.csv"]
    said = f"{ledger_at(dealkit_sandbox)} already has 3 of them, which are not sent again: 3 created\n"
    done = dealkit(*corrected, "--dry-run", url=dealkit_sandbox.url, cwd=tmp_path)
    assert (done.code, said in done.shown) == (0, True)
    # Without the address, it is not known whether that ledger will be used.
    done = dealkit(*corrected, "--dry-run", key="", cwd=tmp_path)
    assert f"{ledger_at(dealkit_sandbox)} has 3 of these rows: 3 created. --base-url decides" in done.shown
    done = dealkit(*corrected, "--yes", url=dealkit_sandbox.url, cwd=tmp_path)
    assert (done.code, counts(done.shown)["created"], len(dealkit_sandbox.agents)) == (0, 4, 4)


def test_what_another_ledger_knows_is_said_before_anything_is_sent(tmp_path: Path, dealkit_sandbox: Sandbox) -> None:
    """The service may have another address now, or the ledger may be of a sandbox: only people know."""
    agents(tmp_path / "agents.csv", 3)
    with Sandbox() as old:
        assert imported("--key", "email", sandbox=old, cwd=tmp_path).code == 0
    agents(tmp_path / "agents.csv", 4)
    said = (
        f"{ledger_at(old)}, another ledger, has 3 of these rows: 3 created. This import does not use it, so it would "
    )
    advice = (
        f"use it: add --ledger {ledger_at(old)}. If it is of another service, such as a sandbox, these rows are new"
    )
    for options in ([], ["--key", "profile.external_id"], ["--ledger", "new.ledger"]):
        done = imported(*options, "--dry-run", sandbox=dealkit_sandbox, cwd=tmp_path, yes=False)
        assert (done.code, said in done.shown) == (0, True)
        done = imported(*options, sandbox=dealkit_sandbox, cwd=tmp_path)
        assert done.code == 2 and said in done.shown and advice in done.shown and "leave out --yes" in done.told
    assert dealkit_sandbox.agents == []
    # As advised: the ledger is of another address, so whoever obeys is asked what is the case.
    done = imported("--ledger", ledger_at(old), "--key", "email", sandbox=dealkit_sandbox, cwd=tmp_path)
    assert done.code == 2 and "If it is another service, leave out --ledger" in done.told
    with Terminal("agents", "import", "agents.csv", url=dealkit_sandbox.url, cwd=tmp_path) as terminal:
        terminal.wait_for("Create 4 agents")
        assert said in terminal.screen
        terminal.enter("y\n")
        assert terminal.end() == 0
    assert len(dealkit_sandbox.agents) == 4


def test_the_key_is_a_column(tmp_path: Path, dealkit_sandbox: Sandbox) -> None:
    head = "Number,email,first_name,last_name\n"
    (tmp_path / "agents.csv").write_text(f"{head}1,a@example.com,A,B\n2,a@example.com,A,B\n,c@example.com,A,B\n")
    done = imported("--dry-run", sandbox=dealkit_sandbox, cwd=tmp_path, yes=False)
    assert (
        "  row 3 (as in row 2)  email  is the same as in an earlier row, but must tell the rows apart: " in done.shown
    )
    done = imported("--key", "Number", sandbox=dealkit_sandbox, cwd=tmp_path)
    assert counts(done.shown) == {"created": 2, "rejected": 0, "unknown": 0, "invalid": 1}
    assert "  row 4  Number  is empty, but must tell the rows apart: fill it in, or name another " in done.shown
    assert {agent.email for agent in dealkit_sandbox.agents} == {"a@example.com"}

    wrong = imported("--key", "Nummer", sandbox=dealkit_sandbox, cwd=tmp_path)
    assert wrong.code == 2 and wrong.told.startswith(
        "dealkit: --key: there is no column Nummer; the columns are Number, email"
    )


def test_the_ledger_knows_what_its_keys_are_called(tmp_path: Path, dealkit_sandbox: Sandbox) -> None:
    """With another column as the key it would recognise nobody, and create everybody again."""
    head = "Number,E-mail,first_name,last_name\n"
    (tmp_path / "agents.csv").write_text(f"{head}1,a@example.com,A,B\n2,b@example.com,A,B\n")
    mapped = ["--map", "E-mail=email"]
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
    cases = [("one/l1.ledger", [], "email", ["--key", "Number"]), ("two/l2.ledger", ["--key", "Number"], "Number", [])]
    for ledger, options, name, others in cases:
        done = imported(*mapped, *options, "--ledger", ledger, sandbox=dealkit_sandbox, cwd=tmp_path)
        assert done.code == 0
        assert show(tmp_path / ledger).key == name
        dealkit_sandbox.clear_requests()
        for dry in (["--dry-run"], []):
            done = imported(*mapped, *others, "--ledger", ledger, *dry, sandbox=dealkit_sandbox, cwd=tmp_path)
            assert done.code == 2 and f'its keys are called "{name}", and those of this job "' in done.told
            assert done.told.endswith(
                "\n--key says which column holds the keys. If it is still the same column, give it its old name.\n"
            )
        assert not dealkit_sandbox.requests
    # Keys are identified by their field: tables name their columns as they like.
    (tmp_path / "agents.csv").write_text("email,first_name,last_name\na@example.com,A,B\n")
    done = imported("--ledger", "one/l1.ledger", sandbox=dealkit_sandbox, cwd=tmp_path)
    assert (done.code, "1 of them in an earlier run" in done.shown) == (0, True)
    assert "l1.ledger already has 1 of them, which is not sent again: 1 created\n" in done.shown


def test_a_dry_run_says_what_the_ledger_has(tmp_path: Path, dealkit_sandbox: Sandbox) -> None:
    agents(tmp_path / "agents.csv", 3)
    dealkit_sandbox.fail_next(act_then_reset=True, method="POST")
    dealkit_sandbox.fail_next(status=422, method="POST")
    imported("--concurrency", "1", sandbox=dealkit_sandbox, cwd=tmp_path)
    agents(tmp_path / "agents.csv", 5)
    ledger = tmp_path / ledger_at(dealkit_sandbox)
    before = ledger.read_bytes()
    dry = ["--dry-run", "--report", "dry.csv"]
    done = dealkit("agents", "import", "agents.csv", *dry, key="", url=dealkit_sandbox.url, cwd=tmp_path)
    assert (
        "5 rows can be sent, 0 cannot\n"
        f"{ledger.name} already has 3 of them, which are not sent again: 1 created, 1 rejected, 1 unknown\n"
    ) in done.shown
    assert ledger.read_bytes() == before
    found = read(tmp_path / "dry.csv")
    assert [(row["outcome"], row["earlier_run"], row["status"]) for row in found] == [
        ("unknown", "yes", ""),
        ("rejected", "yes", "422"),
        ("created", "yes", ""),
        ("not sent", "", ""),
        ("not sent", "", ""),
    ]
    assert found[2]["agent_id"] == dealkit_sandbox.agents[1].id

    done = dealkit(
        "agents", "import", "agents.csv", *dry, "--resend-unknown", key="", url=dealkit_sandbox.url, cwd=tmp_path
    )
    assert " already has 2 of them, which are not sent again: 1 created, 1 rejected\n" in done.shown


def fill_in(path: Path, found: dict[str, str]) -> None:
    """Fills in the agent ids of rows, and saves the file as a spreadsheet in western Europe does."""
    rows = read(path)
    for row in rows:
        row["agent_id"] = found.get(row["row"], row["agent_id"])
    with open(path, "w", encoding="utf-8-sig", newline="") as file:
        table = csv.DictWriter(file, rows[0], delimiter=";")
        table.writeheader()
        table.writerows(rows)


def test_rows_that_were_looked_up_are_settled(tmp_path: Path, dealkit_sandbox: Sandbox) -> None:
    agents(tmp_path / "agents.csv", 5)
    dealkit_sandbox.fail_next(act_then_reset=True, method="POST")
    dealkit_sandbox.fail_next(cut="before-head", method="POST")
    dealkit_sandbox.fail_next(cut="before-head", method="POST")
    dealkit_sandbox.fail_next(status=422, method="POST")
    done = imported("--concurrency", "1", sandbox=dealkit_sandbox, cwd=tmp_path)
    assert counts(done.shown) == {"created": 1, "rejected": 1, "unknown": 3}
    settle, again = (line.split()[1:] for line in done.shown.splitlines()[-2:])
    assert settle == ["ledger", "settle", ledger_at(dealkit_sandbox), "agents.csv.report.csv"]
    shown = dealkit("ledger", "show", settle[2], cwd=tmp_path).shown
    assert f"{settle[2]}: the ledger of {dealkit_sandbox.url}, by profile.external_id" in shown
    assert "  1  rejected\n" in shown and "  3  unknown\n" in shown and "Nobody knows whether" in shown
    told = json.loads(dealkit("ledger", "show", settle[2], "--json", cwd=tmp_path).shown)
    assert (told["created"], told["unknown"], len(told["in_doubt"]), told["in_flight"]) == (1, 3, 3, 0)

    report = tmp_path / "agents.csv.report.csv"
    nothing = "4 rows had nothing in agent_id and did not change.\n"
    said = f"{ledger_at(dealkit_sandbox)} is up to date: agent_id contains nothing new.\n{nothing}"
    assert dealkit(*settle, cwd=tmp_path) == (0, said, "")
    # The rows looked up so far; the ledger is told later.
    there = {agent.email: agent.id for agent in dealkit_sandbox.agents}
    fill_in(report, {"2": there["a0@example.com"], "3": "None"})
    assert dealkit(*again, url=dealkit_sandbox.url, cwd=tmp_path).code == 1
    assert [row["agent_id"] for row in read(report)][:3] == [there["a0@example.com"], "None", ""], "it is kept"

    done = dealkit(*settle, url="", key="", cwd=tmp_path)
    assert done.code == 2 and "nobody can be asked to confirm this" in done.told
    preview = done.shown
    assert [line.split(maxsplit=3) for line in preview.splitlines()[1:]] == [
        ["2", "x-0", "unknown", f"agent {there['a0@example.com']}"],
        ["3", "x-1", "unknown", "no agent: the next import sends it"],
    ]
    done = dealkit(*settle, "--yes", url="", key="", cwd=tmp_path)
    assert done == (
        0,
        f"{preview}{ledger_at(dealkit_sandbox)} updated: 1 row with an agent, 1 without.\n"
        "2 rows had nothing in agent_id and did not change.\n"
        "The next import sends those without an agent.\n",
        "",
    )
    fill_in(report, {"4": "none", "5": "none"})
    for _ in range(2):
        assert dealkit(*settle, "--yes", cwd=tmp_path).code == 0, "what it has by now is passed over"
    # It can be undone, and done again.
    done = dealkit(*settle, "--undo", "--yes", cwd=tmp_path)
    assert (
        done.shown
        == f"{settle[2]} updated: 4 rows as recorded by imports again.\n1 row had not been settled and did not change.\n"
    )
    assert json.loads(dealkit("ledger", "show", settle[2], "--json", cwd=tmp_path).shown)["unknown"] == 3
    assert dealkit(*settle, "--yes", cwd=tmp_path).code == 0

    done = dealkit(*again, url=dealkit_sandbox.url, cwd=tmp_path)
    assert (done.code, counts(done.shown)["created"]) == (0, 5)
    assert sorted(agent.email or "" for agent in dealkit_sandbox.agents) == [f"a{at}@example.com" for at in range(5)]
    assert sorted(row["agent_id"] for row in read(report)) == sorted(agent.id for agent in dealkit_sandbox.agents)


@pytest.mark.parametrize("is_killed", [False, True], ids=["unknown", "killed"])
def test_what_was_filled_in_of_a_row_is_gone_once_it_is_sent_again(
    is_killed: bool, tmp_path: Path, dealkit_sandbox: Sandbox
) -> None:
    """It is no longer true that there was no agent: if that were settled again, the row would be sent a third time."""
    agents(tmp_path / "agents.csv", 2)
    dealkit_sandbox.fail_next(cut="before-head", method="POST", times=2)
    imported("--concurrency", "1", sandbox=dealkit_sandbox, cwd=tmp_path)
    report = tmp_path / "agents.csv.report.csv"
    fill_in(report, {"2": "none"})
    settle = ["ledger", "settle", ledger_at(dealkit_sandbox), report.name]
    assert dealkit(*settle, "--yes", cwd=tmp_path).code == 0
    fill_in(report, {"3": "a_9"})  # It is not settled yet.
    if is_killed:
        dealkit_sandbox.fail_next(act_then_reset=True, delay=3600, method="POST")
        process = start("agents", "import", "agents.csv", "--yes", url=dealkit_sandbox.url, cwd=tmp_path)
        ledger = tmp_path / ledger_at(dealkit_sandbox)
        until(lambda: show(ledger).in_flight == 1, 60)
        process.kill()
        assert end(process).code == -signal.SIGKILL
    else:
        dealkit_sandbox.fail_next(act_then_reset=True, method="POST")
        assert counts(imported(sandbox=dealkit_sandbox, cwd=tmp_path).shown)["unknown"] == 2
    told = "running" if is_killed else "unknown"
    assert [(row["outcome"], row["agent_id"]) for row in read(report)] == [(told, ""), ("unknown", "a_9")]


def test_what_cannot_be_settled(tmp_path: Path, dealkit_sandbox: Sandbox) -> None:
    agents(tmp_path / "agents.csv", 2)
    dealkit_sandbox.fail_next(act_then_reset=True, method="POST")
    imported("--concurrency", "1", sandbox=dealkit_sandbox, cwd=tmp_path)
    ledger = tmp_path / ledger_at(dealkit_sandbox)
    before = ledger.read_bytes()
    cases = [
        (
            "key,agent_id\nx-0,\nCANARY,a_9\n",
            2,
            "row 3 of found.csv is refused: its key is not in the ledger",
        ),
        (
            "Key;Agent ID\nx-0;a_9\n\nx-1;CANARY\n",
            2,
            "row 4 of found.csv is refused: the service itself has said that it ",
        ),
        (
            "key,agent_id\nx-0,a_9\nx-1,\nx-0,none\n",
            2,
            "found.csv: row 4 has the same key as row 2; fill in agent_id in only one ",
        ),
        (
            "name,agent_id\nCANARY,a_9\n",
            2,
            "must have the columns key and agent_id, like the report of an import; it has ",
        ),
        ("key,agent_id\nCANARY,\n", 2, "no row of found.csv has anything in agent_id. Fill in what you have found"),
        (
            "key,agent_id\nx-0,n/a\n",
            2,
            "row 2 of found.csv is refused: its agent's identifier is empty or a word for nobody",
        ),
        (
            "key,agent_id\nx-0,-\n",
            2,
            "row 2 of found.csv is refused: its agent's identifier is empty or a word for nobody",
        ),
        ("key,agent_id\n,a_9\n", 2, "row 2 of found.csv is refused: its key is not in the ledger"),
    ]
    for text, code, told in cases:
        (tmp_path / "found.csv").write_text(text)
        done = dealkit("ledger", "settle", ledger.name, "found.csv", cwd=tmp_path)
        assert (done.code, done.shown) == (code, "") and told in done.told, done
        assert "CANARY" not in done.told and ledger.read_bytes() == before
    for name in ("agents.csv", "nothing.ledger"):
        (tmp_path / "found.csv").write_text("key,agent_id\nx-0,a_9\n")
        done = dealkit("ledger", "settle", name, "found.csv", cwd=tmp_path)
        assert done.code == 2 and name in done.told
    assert not (tmp_path / "nothing.ledger").exists()


def test_a_service_that_has_moved(tmp_path: Path, dealkit_sandbox: Sandbox) -> None:
    agents(tmp_path / "agents.csv", 2)
    with Sandbox() as old:
        assert imported("--ledger", "l.ledger", sandbox=old, cwd=tmp_path).code == 0
    done = imported("--ledger", "l.ledger", sandbox=dealkit_sandbox, cwd=tmp_path)
    assert done.code == 2 and f"it is the ledger of another service, {old.url}" in done.told
    move = done.told.splitlines()[-1].split()[1:]
    assert move == ["ledger", "move", "l.ledger", dealkit_sandbox.url]
    done = dealkit(*move, key="", cwd=tmp_path)
    assert done == (0, f"l.ledger is the ledger of {dealkit_sandbox.url} from now on.\n", "")
    done = imported("--ledger", "l.ledger", sandbox=dealkit_sandbox, cwd=tmp_path)
    assert (done.code, counts(done.shown)["created"], dealkit_sandbox.agents) == (0, 2, [])

    for url, ledger, told in (
        ("no url", "l.ledger", "dealkit: ledger l.ledger: "),
        ("https://a.example.com", "no.ledger", "dealkit: there is no ledger no.ledger"),
    ):
        done = dealkit("ledger", "move", ledger, url, cwd=tmp_path)
        assert (done.code, done.shown) == (2, "") and done.told.startswith(told), done


@pytest.mark.parametrize(
    ("content", "options", "told"),
    [
        (b"", [], "agents.csv: the first row is empty; it must contain the column names"),
        (
            b"a,b\n1,2\n",
            [],
            'needs. Say which does: --map "COLUMN=email" --map "COLUMN=first_name" --map "COLUMN=last_name"',
        ),
        (b'sep=;\nemail,first_name,last_name\n"a,b,c\n', [], "line 3 is not valid CSV"),
        (
            b"email,first_name,last_name\n\xe9,b,c\n",
            [],
            'line 2 is not UTF-8; in a spreadsheet, save it as "CSV UTF-8"',
        ),
        (b'email,first_name,last_name\n"a,b,c\n', [], "line 2 is not valid CSV"),
        (
            b"PK\x03\x04...",
            [],
            'agents.csv is an .xlsx or .zip file, not text; in a spreadsheet, save it as "CSV UTF-8"',
        ),
        (b"email,Email,first_name,last_name\n", [], "2 columns go to email: email, Email. Only one may"),
        (b"e\x00m\x00", [], "is not text in UTF-8"),
        (
            b"email,first_name,last_name\n",
            ["--map", "x"],
            '--map takes a column and a field, as in --map "E-mail=email"',
        ),
        (b"email,first_name,last_name\n", ["--map", "x=email"], "--map: there is no column x"),
        (
            b"email,first_name,last_name\n",
            ["--map", "email=mail"],
            "--map: mail is not a field of an agent. Did you mean email?",
        ),
        (
            b"E-Mail,first_name,last_name\n",
            ["--map", "E-Mail=email", "--map", "E-Mail=phone"],
            "--map: column E-Mail cannot go to both email and phone; name one of them",
        ),
        (b"email,first_name,last_name\n", ["--encoding", "klingon"], "--encoding klingon is not a known encoding"),
        (b"email,first_name,last_name\n", ["--delimiter", ";;"], "--delimiter must be one character"),
    ],
)
def test_tables_that_cannot_be_used(content: bytes, options: list[str], told: str, tmp_path: Path) -> None:
    (tmp_path / "agents.csv").write_bytes(content)
    done = dealkit("agents", "import", "agents.csv", *options, "--dry-run", cwd=tmp_path)
    assert done.code == 2 and done.told.startswith("dealkit: ") and told in done.told


@pytest.mark.parametrize(
    ("encoding", "delimiter", "first", "options", "understood"),
    [
        ("utf-8", ",", "", [], "UTF-8, separated by commas"),
        ("utf-8-sig", ";", "", [], "UTF-8 with a byte-order mark, separated by semicolons"),
        ("utf-16", "\t", "", [], "UTF-16 with a byte-order mark, separated by tabs"),
        ("utf-8", "\t", "", [], "UTF-8, separated by tabs"),
        ("cp1252", ";", "", ["--encoding", "cp1252"], "CP1252, separated by semicolons"),
        ("utf-8", "#", "", ["--delimiter", "#"], 'UTF-8, separated by "#"'),
        ("utf-8-sig", ";", "sep=;\r\n", ["--encoding", "utf-8"],
         "UTF-8 with a byte-order mark, separated by semicolons, as its sep= line says"),
        ("utf-8", "\t", "SEP=\t\n", [], "UTF-8, separated by tabs, as its sep= line says"),
        ("utf-8", "^", '"sep=^"\n', [], 'UTF-8, separated by "^", as its sep= line says'),
    ],
)  # fmt: skip
def test_tables_as_spreadsheets_write_them(
    encoding: str,
    delimiter: str,
    first: str,
    options: list[str],
    understood: str,
    tmp_path: Path,
    dealkit_sandbox: Sandbox,
) -> None:
    rows = [["Email", "First Name", "LAST-NAME", "Office ID"], [" zoe@example.com ", "Zoë", "O'Brien; Jr,", "  "]]
    with open(tmp_path / "agents.csv", "w", encoding=encoding, newline="") as file:
        file.write(first)
        csv.writer(file, delimiter=delimiter).writerows(rows)
    done = imported(*options, sandbox=dealkit_sandbox, cwd=tmp_path)
    assert done.code == 0 and done.shown.startswith(f"agents.csv: 1 row, {understood}\n"), done
    # Excel does not show the `sep=` line: the header is row 1.
    assert came_to(tmp_path / "agents.csv.report.csv") == {"2": "created"}
    between = delimiter if delimiter in ",;\t" else ","
    assert (tmp_path / "agents.csv.report.csv").read_text("utf-8-sig").startswith(f"row{between}key{between}")
    # The report of the first run is read, and replaced.
    assert "1 of them in an earlier run" in imported(*options, sandbox=dealkit_sandbox, cwd=tmp_path).shown
    (agent,) = dealkit_sandbox.agents
    assert agent.sent == {
        "email": "zoe@example.com", "first_name": "Zoë", "last_name": "O'Brien; Jr,", "profile": {}
    }  # fmt: skip


def test_somebody_is_asked_on_a_terminal(tmp_path: Path, dealkit_sandbox: Sandbox) -> None:
    agents(tmp_path / "agents.csv", 2)
    done = imported(sandbox=dealkit_sandbox, cwd=tmp_path, yes=False, given="y\n")
    assert done.code == 2 and "check it with --dry-run, then add --yes" in done.told
    question = f"Create 2 agents at {dealkit_sandbox.url}"
    for answer, code, created in (("", 1, 0), ("n", 1, 0), ("y", 0, 2)):
        with Terminal("agents", "import", "agents.csv", url=dealkit_sandbox.url, cwd=tmp_path) as terminal:
            terminal.wait_for(f"{question}? [y/N] ")
            terminal.enter(f"{answer}\n")
            assert terminal.end() == code
            assert ("nothing was sent" in terminal.screen) == (code != 0)
        assert len(dealkit_sandbox.agents) == created
    assert "[##############################] 2 of 2 agents" in terminal.screen
    # The user is not asked if nothing would be sent.
    assert imported(sandbox=dealkit_sandbox, cwd=tmp_path, yes=False).code == 0
    agents(tmp_path / "agents.csv", 3)
    with Terminal("agents", "import", "agents.csv", url=dealkit_sandbox.url, cwd=tmp_path) as terminal:
        terminal.wait_for(f"Create 1 agent at {dealkit_sandbox.url}? [y/N] ")
        assert (
            f"{ledger_at(dealkit_sandbox)} already has 2 of them, which are not sent again: 2 created\n"
            in terminal.screen
        )
        terminal.interrupt()
        assert terminal.end() == 130 and terminal.screen.endswith("[y/N] \ndealkit: stopped\n")


@pytest.mark.parametrize("times", [1, 2], ids=["once", "twice"])
def test_ctrl_c_and_on(times: int, tmp_path: Path, dealkit_sandbox: Sandbox) -> None:
    """After Ctrl-C, calls in flight are waited for; after another, they are given up, and their outcome is unknown."""
    agents(tmp_path / "agents.csv", 60)
    # The first rows are created at once; after that, each one takes longer than anybody waits.
    seconds = 3600 if times == 2 else 2
    dealkit_sandbox.fail_next(delay=seconds, times=None, after=20, method="POST")
    command = ["agents", "import", "agents.csv", "--yes", "--concurrency", "4", "--report", "report.csv"]
    process = start(*command, url=dealkit_sandbox.url, cwd=tmp_path)
    until(lambda: len(dealkit_sandbox.agents) >= 20, 60)
    until(lambda: any(request.fault and request.status is None for request in dealkit_sandbox.requests), 60)
    process.send_signal(signal.SIGINT)
    told = until_told(process, "stopping: nothing more is sent; waiting for the requests in flight")
    if times == 2:
        process.send_signal(signal.SIGINT)
    done = end(process)
    assert done.code == 130 and told
    assert done.told.endswith(f"To continue, run the same command again:\n  dealkit {' '.join(command)}\n")
    found = counts(done.shown)
    assert found["created"] >= 20 and found["created"] + found["unknown"] + found["not-sent"] == 60
    assert 0 < found["not-sent"] and (found["unknown"] > 0) == (times == 2) and found["unknown"] <= 4
    assert [*came_to(tmp_path / "report.csv").values()].count("unknown") == found["unknown"]
    assert len(dealkit_sandbox.agents) == found["created"]

    dealkit_sandbox.clear_faults()
    done = dealkit(*command, url=dealkit_sandbox.url, cwd=tmp_path)
    assert done.code == (1 if times == 2 else 0)
    assert counts(done.shown)["unknown"] == found["unknown"]
    # Unknown rows are left to the user; no agent exists twice.
    emails = [agent.email for agent in dealkit_sandbox.agents]
    assert len(emails) == len({*emails}) == 60 - found["unknown"]


@pytest.mark.parametrize(("signals", "code"), [(["HUP", "HUP"], 129), (["TERM", "HUP"], 143), (["INT", "HUP"], 130)])
def test_a_terminal_that_is_closed(signals: list[str], code: int, tmp_path: Path, dealkit_sandbox: Sandbox) -> None:
    """What is in flight is waited for, however often the system says so."""
    agents(tmp_path / "agents.csv", 60)
    dealkit_sandbox.fail_next(delay=2, times=None, after=20, method="POST")
    command = ["agents", "import", "agents.csv", "--yes", "--concurrency", "4"]
    process = start(*command, url=dealkit_sandbox.url, cwd=tmp_path)
    until(lambda: any(request.fault and request.status is None for request in dealkit_sandbox.requests), 60)
    for at, name in enumerate(signals):
        process.send_signal(getattr(signal, f"SIG{name}"))
        if at == 0:
            until_told(process, "stopping: ")
    done = end(process)
    assert done.code == code and done.told.endswith(f"run the same command again:\n  dealkit {' '.join(command)}\n")
    found = counts(done.shown)
    assert found["unknown"] == 0 and found["created"] == len(dealkit_sandbox.agents) >= 20 and found["not-sent"] > 0


def test_a_terminal_that_is_gone(tmp_path: Path, dealkit_sandbox: Sandbox) -> None:
    """Its output goes nowhere, and what is in flight is waited for and recorded all the same."""
    agents(tmp_path / "agents.csv", 60)
    dealkit_sandbox.fail_next(delay=2, times=None, after=20, method="POST")
    terminal = Terminal(
        "agents", "import", "agents.csv", "--yes", "--concurrency", "4", url=dealkit_sandbox.url, cwd=tmp_path
    )
    until(lambda: any(request.fault and request.status is None for request in dealkit_sandbox.requests), 60)
    assert terminal.hang_up() == 129
    found = [*came_to(tmp_path / "agents.csv.report.csv").values()]
    assert (
        found.count("created") == len(dealkit_sandbox.agents) >= 20
        and "unknown" not in found
        and "running" not in found
    )


def test_killed_and_on(tmp_path: Path, dealkit_sandbox: Sandbox) -> None:
    agents(tmp_path / "agents.csv", 60)
    dealkit_sandbox.fail_next(delay=1, times=None, after=10, method="POST")
    command = ["agents", "import", "agents.csv", "--yes", "--concurrency", "4"]
    process = start(*command, url=dealkit_sandbox.url, cwd=tmp_path)
    until(lambda: len(dealkit_sandbox.agents) >= 10, 60)
    process.kill()
    assert end(process).code == -signal.SIGKILL
    # The report says nothing of rows that were being sent: some were.
    assert {*came_to(tmp_path / "agents.csv.report.csv").values()} == {"running"}
    dealkit_sandbox.clear_faults()
    done = dealkit(*command, url=dealkit_sandbox.url, cwd=tmp_path)
    found = counts(done.shown)
    emails = [agent.email for agent in dealkit_sandbox.agents]
    assert len(emails) == len({*emails}) >= 60 - found["unknown"] and found["unknown"] <= 4
    assert found["created"] + found["unknown"] == 60


@pytest.mark.parametrize(
    ("fault", "code", "told", "sent"),
    [
        ({"status": 401}, 3, "The service does not accept the key", 1),
        ({"status": 403}, 3, "The service knows the key, but the key does not allow this.", 16),
        ({"status": 500}, 3, "The service has failed.", 21),
    ],
)
def test_a_service_that_fails_ends_the_import(
    fault: dict[str, Any], code: int, told: str, sent: int, tmp_path: Path, dealkit_sandbox: Sandbox
) -> None:
    agents(tmp_path / "agents.csv", 100)
    dealkit_sandbox.fail_next(times=None, **fault)
    done = imported("--ledger", "l.ledger", sandbox=dealkit_sandbox, cwd=tmp_path)
    assert done.code == code and told in done.told
    # The rest is held back, since each create that fails may have made an agent.
    assert len(dealkit_sandbox.requests) <= sent and dealkit_sandbox.agents == []
    dealkit_sandbox.clear_faults()
    done = imported("--ledger", "l.ledger", "--resend-unknown", sandbox=dealkit_sandbox, cwd=tmp_path)
    assert (done.code, counts(done.shown)["created"], len(dealkit_sandbox.agents)) == (0, 100, 100)


def test_a_ledger_that_is_deleted_under_an_import(tmp_path: Path, dealkit_sandbox: Sandbox) -> None:
    """Nothing that is printed then creates anybody twice."""
    agents(tmp_path / "agents.csv", 60)
    dealkit_sandbox.fail_next(delay=0.2, times=None, after=20, method="POST")
    command = ["agents", "import", "agents.csv", "--yes", "--ledger", "l.ledger", "--concurrency", "4"]
    process = start(*command, url=dealkit_sandbox.url, cwd=tmp_path)
    until(lambda: len(dealkit_sandbox.agents) >= 20, 60)
    (tmp_path / "l.ledger").unlink()
    done = end(process)
    assert done.code == 2 and "the file was moved, deleted or replaced" in done.told
    assert "same command again" not in done.told and "records it" not in done.shown and "to send them" not in done.shown
    made = len(dealkit_sandbox.agents)
    assert 20 <= counts(done.shown)["created"] <= made < 60

    done = dealkit(*command, url=dealkit_sandbox.url, cwd=tmp_path)
    assert done.code == 2 and "with --yes, nobody is asked" in done.told
    assert f"calls {counts_of_report(tmp_path)['created']} of these rows created, and the ledger does not" in done.shown
    assert "put the ledger back" in done.shown and len(dealkit_sandbox.agents) == made
    # Nobody has said which service it is, so no ledger is asked.
    dry = dealkit("agents", "import", "agents.csv", "--dry-run", cwd=tmp_path)
    assert dry.code == 0 and "the ledger does not" not in dry.shown


def counts_of_report(folder: Path) -> dict[str, int]:
    found = [*came_to(folder / "agents.csv.report.csv").values()]
    return {outcome: found.count(outcome) for outcome in found}


def test_a_damaged_ledger(tmp_path: Path, dealkit_sandbox: Sandbox) -> None:
    """A dry run notices the damage too, and the report still has what an earlier import has found."""
    agents(tmp_path / "agents.csv", 3)
    assert imported("--ledger", "l.ledger", sandbox=dealkit_sandbox, cwd=tmp_path).code == 0
    before = (tmp_path / "agents.csv.report.csv").read_bytes()
    with closing(sqlite3.connect(tmp_path / "l.ledger")) as connection:
        connection.execute("UPDATE creates SET status = 200 WHERE agent_id = 'a_1'")
        connection.execute("UPDATE creates SET agent_id = 'a_x' WHERE agent_id = 'a_2'")
        connection.commit()
    agents(tmp_path / "agents.csv", 4)
    for options in (["--dry-run"], []):
        done = imported("--ledger", "l.ledger", *options, sandbox=dealkit_sandbox, cwd=tmp_path)
        assert (
            done.code == 2 and "it is damaged" in done.told and "leave out the rows that were sent since" in done.told
        )
        assert "same command again" not in done.told and len(dealkit_sandbox.agents) == 3
    assert (tmp_path / "agents.csv.report.csv").read_bytes() == before


@pytest.mark.parametrize("report", ["l.ledger-journal", "l.ledger-job-0123456789abcdef", "../{name}/l.ledger-wal"])
def test_a_report_that_would_be_a_file_of_the_ledger(report: str, tmp_path: Path, dealkit_sandbox: Sandbox) -> None:
    agents(tmp_path / "agents.csv", 1)
    path = report.format(name=tmp_path.name)
    done = imported("--ledger", "l.ledger", "--report", path, sandbox=dealkit_sandbox, cwd=tmp_path)
    assert done.code == 2 and "one of the files of the ledger" in done.told and dealkit_sandbox.requests == []


def test_ledgers_that_cannot_be_used(tmp_path: Path, dealkit_sandbox: Sandbox) -> None:
    agents(tmp_path / "agents.csv", 2)
    (tmp_path / "mine.txt").write_text("mine\n")
    done = imported("--ledger", "mine.txt", sandbox=dealkit_sandbox, cwd=tmp_path)
    assert done.code == 2 and "the file is not a ledger" in done.told
    done = imported("--ledger", "no/l.ledger", sandbox=dealkit_sandbox, cwd=tmp_path)
    assert done.code == 4 and "create the folder first" in done.told
    done = imported("--report", "no/report.csv", sandbox=dealkit_sandbox, cwd=tmp_path)
    assert (done.code, done.told) == (
        4,
        "dealkit: no/report.csv cannot be written: there is no folder no; create it first\n",
    )
    done = imported("--report", "mine.txt", sandbox=dealkit_sandbox, cwd=tmp_path)
    assert done.code == 2 and "mine.txt exists and is not a report of an import, so" in done.told
    assert (tmp_path / "mine.txt").read_text() == "mine\n"
    assert dealkit_sandbox.agents == []


def test_a_report_replaces_nothing_but_a_report(tmp_path: Path, dealkit_sandbox: Sandbox) -> None:
    agents(tmp_path / "agents.csv", 2)
    (tmp_path / "found.csv").write_text("key,agent_id\nx-0,a_1\n")
    (tmp_path / "there.csv").write_text("mine\n")
    (tmp_path / "link.csv").symlink_to("there.csv")
    (tmp_path / "dangling.csv").symlink_to("not-there.csv")
    (tmp_path / "same.csv").hardlink_to(tmp_path / "agents.csv")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.exists()}
    folder = dealkit("agents", "import", ".", "--dry-run", url=dealkit_sandbox.url, cwd=tmp_path)
    assert (folder.code, folder.told) == (2, "dealkit: . cannot be read: Is a directory\n")
    for report, told in (
        ("agents.csv", "agents.csv would be written, but is the same file as agents.csv, which is read"),
        ("./agents.csv", "is the same file as agents.csv, which is read"),
        ("same.csv", "same.csv would be written, but is the same file as agents.csv"),
        ("found.csv", "found.csv exists and is not a report of an import"),
        ("link.csv", "link.csv cannot be written: it is a link"),
        ("dangling.csv", "dangling.csv cannot be written: it is a link"),
        (".", "cannot be written: it is a folder"),
        ("/dev/null", "cannot be written: it is not a file"),
    ):
        for options in ([], ["--dry-run"]):
            done = imported("--report", report, *options, sandbox=dealkit_sandbox, cwd=tmp_path)
            assert done.code in (2, 4) and told in done.told, done
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.exists()} == before
    assert not dealkit_sandbox.agents


def test_a_disk_that_is_full_when_the_report_is_written(tmp_path: Path, dealkit_sandbox: Sandbox) -> None:
    """What became of the rows is shown all the same, and the ledger has it."""
    agents(tmp_path / "agents.csv", 30)
    dealkit_sandbox.fail_next(delay=2, method="POST")
    process = start("agents", "import", "agents.csv", "--yes", url=dealkit_sandbox.url, cwd=tmp_path)
    report = tmp_path / "agents.csv.report.csv"
    until(report.exists, 60)
    report.unlink()
    report.mkdir()
    done = end(process)
    assert done.code == 4 and "agents.csv.report.csv cannot be written: Is a directory" in done.told
    assert counts(done.shown)["created"] == 30


def test_no_cell_of_a_report_is_a_formula(tmp_path: Path, dealkit_sandbox: Sandbox) -> None:
    """Keys are settled as they were all the same."""
    keys = ["=HYPERLINK(1)", "+15550100", "-1", "@x", "'=1", "'quoted"]
    rows = "".join(f"a{at}@example.com,A,B,{key}\n" for at, key in enumerate(keys))
    (tmp_path / "agents.csv").write_text(f"email,first_name,last_name,profile.external_id\n{rows}")
    dealkit_sandbox.fail_next(cut="before-head", times=None, method="POST")
    for _ in range(2):
        imported("--concurrency", "1", sandbox=dealkit_sandbox, cwd=tmp_path)
    report = tmp_path / "agents.csv.report.csv"
    assert [row["key"] for row in read(report)] == [*(f"'{key}" for key in keys[:-1]), "'quoted"]
    fill_in(report, {"2": "a_100", "3": "a_101", "4": "a_102", "5": "a_103", "6": "a_104"})
    settle = ["ledger", "settle", ledger_at(dealkit_sandbox), report.name]
    assert "5 rows with an agent" in dealkit(*settle, "--yes", cwd=tmp_path).shown


def test_no_value_of_a_row_is_in_an_error(tmp_path: Path, dealkit_sandbox: Sandbox) -> None:
    person = "Canary Lovelace"
    rows = f"{person},{person},x,1\ncanary@example.com,{person},{person},2\n"
    key = "sk-canary-0b5e1f"
    faults: list[dict[str, Any]] = [
        {"status": 422},
        {"status": 500},
        {"act_then_reset": True},
        {"cut": "after-bytes:9"},
    ]
    for number, fault in enumerate(faults):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "agents.csv").write_text(f"email,first_name,last_name,Number\n{rows}")
        with Sandbox(service_key=key) as sandbox:
            sandbox.fail_next(method="POST", **fault)
            done = dealkit(
                "agents", "import", "agents.csv", "--yes", "--ledger", "l.ledger", "--report", "report.csv", "--key", "Number",
                url=sandbox.url, key=key, cwd=folder,
            )  # fmt: skip
        assert done.code == 1
        kept = (folder / "l.ledger").read_text(errors="replace") + (folder / "report.csv").read_text()
        for canary in (person, "canary@example.com", key):
            assert canary not in done.shown + done.told + kept, fault
