"""The command `dealkit agents import`: tables, mistakes, ledgers, and runs that are stopped."""

from __future__ import annotations

import csv
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from commands import Done, Terminal, dealkit, end, start, until_told

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
  Tier                         not sent; if it is profile.tier: --map "Tier=profile.tier"
  profile.onboarding_complete  profile.onboarding_complete

What is wrong
  row 3  E-mail                       must be a bare e-mail address such as ada@example.com
  row 3  First name                   is required and missing
  row 3  Role                         must be one of COLLECTIVE_ADMIN, BROKER_ADMIN, OFFICE_ADMIN, ADMIN, AGENT
  row 3  Phone                        must be a plus sign followed by digits only, such as +15550100
  row 4  profile.onboarding_complete  must be TRUE or FALSE
  row 6                               has more cells than there are columns; is something in quotation marks missing them?
  row 8  E-mail                       is that of row 2, and tells the rows apart (see --key)

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


def came_to(path: Path) -> dict[str, str]:
    """What became of each row, as a report has it."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        return {row["row"]: row["outcome"] for row in csv.DictReader(file)}


def counts(shown: str) -> dict[str, int]:
    """How many rows came to what, as the screen has it."""
    found = {}
    for line in shown.splitlines():
        words = line.replace("Not sent", "Not-sent").split()
        if len(words) > 1 and words[0] in ("Created", "Rejected", "Unknown", "Not-sent", "Invalid"):
            if words[1].replace(",", "").isdigit():
                found[words[0].lower()] = int(words[1].replace(",", ""))
    return found


def test_a_dry_run(table: Path, tmp_path: Path) -> None:
    """It needs neither a service nor a key."""
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


def test_agents_are_created_as_the_table_says(table: Path, tmp_path: Path, dealkit_sandbox: Sandbox) -> None:
    options = ["--map", "E-mail=email", "--map", "Tier=profile.tier", "--map", "Notes=profile.client_metadata.notes"]
    done = imported(*options, sandbox=dealkit_sandbox, cwd=tmp_path)
    assert (done.code, counts(done.shown)) == (1, {"created": 2, "rejected": 0, "unknown": 0, "invalid": 4})
    sent = sorted((agent.sent for agent in dealkit_sandbox.agents), key=lambda one: str(one["email"]))
    # What is an empty cell is not in it.
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
    options = ["--ledger", "import.ndjson", "--report", "report.csv", "--concurrency", "1"]
    done = imported(*options, sandbox=dealkit_sandbox, cwd=tmp_path)
    assert (done.code, counts(done.shown)) == (1, {"created": 3, "rejected": 1, "unknown": 1})
    found = came_to(tmp_path / "report.csv")
    assert sorted(found) == ["2", "3", "4", "5", "6"]
    assert sorted(found.values()) == ["created", "created", "created", "rejected", "unknown"]
    assert len(dealkit_sandbox.agents) == 4
    assert "import.ndjson records it: the same command creates nobody a second time." in done.shown
    assert "example.com" not in (tmp_path / "import.ndjson").read_text()

    # A row more, and the rest is what it was.
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
    assert (tmp_path / "agents.csv.ledger.ndjson").exists()


def test_the_key_is_a_column(tmp_path: Path, dealkit_sandbox: Sandbox) -> None:
    head = "Number,email,first_name,last_name\n"
    (tmp_path / "agents.csv").write_text(f"{head}1,a@example.com,A,B\n2,a@example.com,A,B\n,c@example.com,A,B\n")
    done = imported("--dry-run", sandbox=dealkit_sandbox, cwd=tmp_path, yes=False)
    assert "  row 3  email  is that of row 2, and tells the rows apart (see --key)\n" in done.shown
    done = imported("--key", "Number", sandbox=dealkit_sandbox, cwd=tmp_path)
    assert counts(done.shown) == {"created": 2, "rejected": 0, "unknown": 0, "invalid": 1}
    assert "  row 4  Number  is empty, and tells the rows apart (see --key)\n" in done.shown
    assert {agent.email for agent in dealkit_sandbox.agents} == {"a@example.com"}

    wrong = imported("--key", "Nummer", sandbox=dealkit_sandbox, cwd=tmp_path)
    assert (wrong.code, wrong.told) == (2, "dealkit: --key: there is no column Nummer; --dry-run shows the columns\n")


@pytest.mark.parametrize(
    ("content", "options", "told"),
    [
        (b"", [], "agents.csv: the first row is empty; it must hold the names of the columns"),
        (b"a,b\n1,2\n", [], "no column holds email or first_name or last_name, which every agent needs."),
        (
            b"email,first_name,last_name\n\xe9,b,c\n",
            [],
            'line 2 is not UTF-8; in a spreadsheet, save it as "CSV UTF-8"',
        ),
        (b'email,first_name,last_name\n"a,b,c\n', [], "line 2 is not as CSV has it"),
        (
            b"PK\x03\x04...",
            [],
            'agents.csv is an .xlsx or .zip file, not CSV; in a spreadsheet, save it as "CSV UTF-8"',
        ),
        (b"email,Email,first_name,last_name\n", [], "2 columns go to email: email, Email. Only one can"),
        (b"e\x00m\x00", [], "is not a text in UTF-8"),
        (
            b"email,first_name,last_name\n",
            ["--map", "x"],
            '--map takes a column and a field, as in --map "E-mail=email"',
        ),
        (b"email,first_name,last_name\n", ["--map", "x=email"], "--map: there is no column x"),
        (
            b"email,first_name,last_name\n",
            ["--map", "email=mail"],
            "--map: mail is no field of an agent. The fields are",
        ),
        (b"email,first_name,last_name\n", ["--encoding", "klingon"], "--encoding klingon is none that is known"),
        (b"email,first_name,last_name\n", ["--delimiter", ";;"], "--delimiter must be one character"),
    ],
)
def test_tables_that_cannot_be_used(content: bytes, options: list[str], told: str, tmp_path: Path) -> None:
    (tmp_path / "agents.csv").write_bytes(content)
    done = dealkit("agents", "import", "agents.csv", *options, "--dry-run", cwd=tmp_path)
    assert done.code == 2 and done.told.startswith("dealkit: ") and told in done.told


@pytest.mark.parametrize(
    ("encoding", "delimiter", "options"),
    [
        ("utf-8", ",", []),
        ("utf-8-sig", ";", []),
        ("utf-16", "\t", []),
        ("cp1252", ";", ["--encoding", "cp1252"]),
        ("utf-8", "#", ["--delimiter", "#"]),
    ],
)
def test_tables_as_spreadsheets_write_them(
    encoding: str, delimiter: str, options: list[str], tmp_path: Path, dealkit_sandbox: Sandbox
) -> None:
    rows = [["Email", "First Name", "LAST-NAME", "Office ID"], [" zoe@example.com ", "Zoë", "O'Brien; Jr,", "  "]]
    with open(tmp_path / "agents.csv", "w", encoding=encoding, newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows(rows)
    done = imported(*options, sandbox=dealkit_sandbox, cwd=tmp_path)
    assert done.code == 0, done
    (agent,) = dealkit_sandbox.agents
    assert agent.sent == {
        "email": "zoe@example.com", "first_name": "Zoë", "last_name": "O'Brien; Jr,", "profile": {}
    }  # fmt: skip


def test_somebody_is_asked_on_a_terminal(tmp_path: Path, dealkit_sandbox: Sandbox) -> None:
    agents(tmp_path / "agents.csv", 2)
    done = imported(sandbox=dealkit_sandbox, cwd=tmp_path, yes=False, given="y\n")
    assert done.code == 2 and "look at it with --dry-run, and then add --yes" in done.told
    question = f"Create 2 agents at {dealkit_sandbox.url}"
    for answer, code, created in (("", 1, 0), ("n", 1, 0), ("y", 0, 2)):
        with Terminal("agents", "import", "agents.csv", url=dealkit_sandbox.url, cwd=tmp_path) as terminal:
            terminal.wait_for(f"{question}? [y/N] ")
            terminal.enter(f"{answer}\n")
            assert terminal.end() == code
            assert ("nothing was sent" in terminal.screen) == (code != 0)
        assert len(dealkit_sandbox.agents) == created
    assert "[##############################] 2 of 2 agents" in terminal.screen
    with Terminal("agents", "import", "agents.csv", url=dealkit_sandbox.url, cwd=tmp_path) as terminal:
        terminal.wait_for("? Those that agents.csv.ledger.ndjson has from an earlier run are not sent again. [y/N] ")
        terminal.interrupt()
        assert terminal.end() == 130 and terminal.screen.endswith("[y/N] \ndealkit: stopped\n")


@pytest.mark.parametrize("times", [1, 2], ids=["once", "twice"])
def test_ctrl_c_and_on(times: int, tmp_path: Path, dealkit_sandbox: Sandbox) -> None:
    """After Ctrl-C what is in flight is waited for; after another it is given up, and unknown."""
    agents(tmp_path / "agents.csv", 60)
    # The first are created at once; then each waits for longer than anybody does.
    seconds = 3600 if times == 2 else 2
    dealkit_sandbox.fail_next(delay=seconds, times=None, after=20, method="POST")
    command = ["agents", "import", "agents.csv", "--yes", "--concurrency", "4", "--report", "report.csv"]
    process = start(*command, url=dealkit_sandbox.url, cwd=tmp_path)
    wait_for_agents(dealkit_sandbox, 20)
    process.send_signal(signal.SIGINT)
    told = until_told(process, "stopping: nothing more is sent, and what is in flight is waited for")
    if times == 2:
        process.send_signal(signal.SIGINT)
    done = end(process)
    assert done.code == 130 and told
    assert done.told.endswith(f"To go on, run the same command again:\n  dealkit {' '.join(command)}\n")
    found = counts(done.shown)
    assert found["created"] >= 20 and found["created"] + found["unknown"] + found["not-sent"] == 60
    assert 0 < found["not-sent"] and (found["unknown"] > 0) == (times == 2) and found["unknown"] <= 4
    assert [*came_to(tmp_path / "report.csv").values()].count("unknown") == found["unknown"]
    assert len(dealkit_sandbox.agents) == found["created"]

    dealkit_sandbox.clear_faults()
    done = dealkit(*command, url=dealkit_sandbox.url, cwd=tmp_path)
    assert done.code == (1 if times == 2 else 0)
    assert counts(done.shown)["unknown"] == found["unknown"]
    # Those that are unknown are left to their user; nobody is there twice.
    emails = [agent.email for agent in dealkit_sandbox.agents]
    assert len(emails) == len({*emails}) == 60 - found["unknown"]


def wait_for_agents(sandbox: Sandbox, count: int) -> None:
    deadline = time.monotonic() + 60
    while len(sandbox.agents) < count:
        assert time.monotonic() < deadline, "they are not created"
        time.sleep(0.02)


def test_killed_and_on(tmp_path: Path, dealkit_sandbox: Sandbox) -> None:
    agents(tmp_path / "agents.csv", 60)
    dealkit_sandbox.fail_next(delay=1, times=None, after=10, method="POST")
    command = ["agents", "import", "agents.csv", "--yes", "--concurrency", "4"]
    process = start(*command, url=dealkit_sandbox.url, cwd=tmp_path)
    wait_for_agents(dealkit_sandbox, 10)
    process.kill()
    assert end(process).code == -signal.SIGKILL
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
        ({"status": 403}, 3, "The service knows the key, but does not allow it this.", 16),
        ({"status": 500}, 3, "The service has failed.", 21),
    ],
)
def test_a_service_that_fails_ends_the_import(
    fault: dict[str, Any], code: int, told: str, sent: int, tmp_path: Path, dealkit_sandbox: Sandbox
) -> None:
    agents(tmp_path / "agents.csv", 100)
    dealkit_sandbox.fail_next(times=None, **fault)
    done = imported("--ledger", "l.ndjson", sandbox=dealkit_sandbox, cwd=tmp_path)
    assert done.code == code and told in done.told
    # The rest is kept back: each create that fails may have made an agent.
    assert len(dealkit_sandbox.requests) <= sent and dealkit_sandbox.agents == []
    dealkit_sandbox.clear_faults()
    done = imported("--ledger", "l.ndjson", "--resend-unknown", sandbox=dealkit_sandbox, cwd=tmp_path)
    assert (done.code, counts(done.shown)["created"], len(dealkit_sandbox.agents)) == (0, 100, 100)


def test_ledgers_that_cannot_be_used(tmp_path: Path, dealkit_sandbox: Sandbox) -> None:
    agents(tmp_path / "agents.csv", 2)
    (tmp_path / "mine.txt").write_text("mine\n")
    done = imported("--ledger", "mine.txt", sandbox=dealkit_sandbox, cwd=tmp_path)
    assert done.code == 2 and "the file is not a ledger" in done.told
    done = imported("--ledger", "no/l.ndjson", sandbox=dealkit_sandbox, cwd=tmp_path)
    assert done.code == 4 and "create the folder first" in done.told
    done = imported("--report", "no/report.csv", sandbox=dealkit_sandbox, cwd=tmp_path)
    assert done.code == 4 and "No such file or directory" in done.told
    assert dealkit_sandbox.agents == []


def test_no_value_of_a_row_is_in_an_error(tmp_path: Path, dealkit_sandbox: Sandbox) -> None:
    person = "Canary Lovelace"
    rows = f"{person},{person},x\ncanary@example.com,{person},{person}\n"
    (tmp_path / "agents.csv").write_text(f"email,first_name,last_name\n{rows}")
    key = "sk-canary-0b5e1f"
    faults: list[dict[str, Any]] = [
        {"status": 422},
        {"status": 500},
        {"act_then_reset": True},
        {"cut": "after-bytes:9"},
    ]
    for fault in faults:
        ledger = f"{next(iter(fault))}-{fault.get('status')}.ndjson"
        with Sandbox(service_key=key) as sandbox:
            sandbox.fail_next(method="POST", **fault)
            done = dealkit(
                "agents", "import", "agents.csv", "--yes", "--ledger", ledger, "--report", "r.csv",
                url=sandbox.url, key=key, cwd=tmp_path,
            )  # fmt: skip
        assert done.code == 1
        kept = (tmp_path / ledger).read_text() + (tmp_path / "r.csv").read_text()
        for canary in (person, "canary@example.com", key):
            assert canary not in done.shown + done.told + kept, fault
