"""`dealkit agents import`: input tables, messages about their mistakes, and the report's location."""

from __future__ import annotations

import csv
import json
import re
from datetime import date
from typing import Any

import pytest
from commands import TableImport, finish_command, parse_counts, run_command
from processes import HANG_SECONDS

from dealkit.ledger import summary
from dealkit.testing import Sandbox

TABLE = """E-mail;First name;Last name;Role;Phone;Notes;Tier;profile.onboarding_complete
ada@example.com;Ada;Lovelace;AGENT;+15550100;vip;A;TRUE
no;;Hopper;Makler;0123;;;
grace@example.com;Grace;Hopper;;;;;maybe

alan@example.com;Alan;Turing;BROKER_ADMIN;;"a;b
c";;;x
kurt@example.com;Kurt;Gödel;;;;;false
ada@example.com;Ada;Lovelace;AGENT;+15550100;vip;A;TRUE
"""
DRY_RUN = """\
agents.csv:
  Column                       goes to
  E-mail                       email
  First name                   first_name
  Last name                    last_name
  Role                         role
  Phone                        phone
  profile.onboarding_complete  profile.onboarding_complete
Not sent: Notes, Tier
A person is recognized by: E-mail

Cannot be sent
  Rows  Column                       Message
  3     E-mail                       has no @: write the whole e-mail address
  3     First name                   is empty, but every agent needs it: fill it in
  3     Role                         is none of the roles COLLECTIVE_ADMIN, BROKER_ADMIN, OFFICE_ADMIN, ADMIN, AGENT
  3     Phone                        is too short for a phone number: write the whole number, with the area code
  4     profile.onboarding_complete  must be TRUE or FALSE
  6                                  has more cells than there are columns; are quotation marks missing?

Worth a look: skipped, and not sent
  Rows  Message
  8     repeats row 2

Ready           2
Cannot be sent  3  see above; correct them, or decide the open questions
Skipped         1  not people, or repeated rows; see above

As it will be sent: check names, dates and phone numbers
Row 2
  email                        ada@example.com
  first_name                   Ada
  last_name                    Lovelace
  role                         AGENT
  phone                        +15550100
  profile.onboarding_complete  True
Row 7
  email                        kurt@example.com
  first_name                   Kurt
  last_name                    Gödel
  role                         AGENT (as no role is given)
  profile.onboarding_complete  False

To decide:
These words in the column Role are no roles. Add these options, each with a role in place of ROLE; the roles are \
COLLECTIVE_ADMIN, BROKER_ADMIN, OFFICE_ADMIN, ADMIN, AGENT. The rows of a word without a role are not sent, and can be \
corrected later. Or ignore the column, so that all become AGENT: --ignore Role
  --map-value role:Makler=ROLE   1 row

This was a dry run: nothing was sent.
First answer the questions under "To decide". Then send the rows that can be sent (add --limit 5 to try five rows first):
  dealkit agents import agents.csv
"""
NUMBERED = "Number,email,first_name,last_name\n"


def test_a_dry_run_shows_the_mapping_and_sends_nothing(imports: TableImport) -> None:
    imports.write(TABLE)
    completed = imports.dry()
    assert completed == (1, DRY_RUN, "")
    assert [path.name for path in imports.folder.iterdir()] == ["agents.csv"]

    completed = imports.dry("--map", "Tier = profile.tier", "--report", "report.csv")
    assert "  Tier                         profile.tier\n" in completed.stdout
    ends = {"2": "not sent", "3": "invalid", "4": "invalid", "6": "invalid", "7": "not sent", "8": "skipped"}
    assert imports.outcomes("report.csv") == ends
    report = imports.folder / "report.csv"
    assert "Hopper" not in completed.stdout + completed.stderr + report.read_text()
    assert report.stat().st_mode & 0o777 == 0o600


def test_each_kind_of_mistake_is_printed_once_with_its_rows(imports: TableImport) -> None:
    rows = [
        f"a{number}@example.com,{'x' * (256 + number) if number % 50 == 7 else 'A'},B,7{number}"
        for number in range(600)
    ]
    imports.write("\n".join(["email,first_name,last_name,phone", *rows]))
    completed = imports.dry("--report", "r.csv", "--json")
    problem_lines = completed.stderr.partition("Cannot be sent\n")[2].partition("\n\n")[0].splitlines()
    assert [re.split("  +", line.strip()) for line in problem_lines[1:]] == [
        [
            "2, 3, 4, … (600 rows)",
            "phone",
            "is too short for a phone number: write the whole number, with the area code",
        ],
        ["9", "first_name", "must be 1 to 255 characters, got 263"],
        ["59", "first_name", "must be 1 to 255 characters, got 313"],
        ["109", "first_name", "must be 1 to 255 characters, got 363"],
        *(
            [f"{number + 2}", "first_name", f"must be 1 to 255 characters, got {number + 256}"]
            for number in range(157, 460, 50)
        ),
        ["509, 559", "first_name", "similar problems: the file named with --report has the message of each row"],
    ]
    # With --json, every message is printed with its own rows.
    errors = json.loads(completed.stdout)["errors"]
    assert errors[0]["rows"] == [*range(2, 602)]
    assert {error["message"][-3:]: error["rows"] for error in errors if error["column"] == "first_name"} == {
        str(256 + number): [number + 2] for number in range(7, 600, 50)
    }
    found = {row["row"]: row for row in imports.report("r.csv")}
    assert len(found) == 600 and {row["outcome"] for row in found.values()} == {"invalid"}
    assert found["9"]["message"].startswith("first_name: must be 1 to 255 characters, got 263; phone: is too short")


def test_different_people_with_one_address_are_held_back(imports: TableImport) -> None:
    """One of the addresses is probably wrong, and only the user knows which."""
    imports.write(
        NUMBERED + "1,a@example.com,Ada,B\n2,c@example.com,C,D\n3,A@Example.com,Grace,H\n4,c@example.com,C,D\n"
    )
    completed = imports.dry("--key", "Number", "--report", "r.csv")
    assert "  2     email   is also in row 4, with another name: correct the wrong row\n" in completed.stdout
    assert "  4     email   is also in row 2, with another name: correct the wrong row\n" in completed.stdout
    # The same person under another key is sent once.
    assert "Worth a look: skipped, and not sent\n  Rows  Message\n  5     repeats row 3\n" in completed.stdout
    assert imports.outcomes("r.csv") == {"2": "invalid", "3": "not sent", "4": "invalid", "5": "skipped"}
    completed = imports.dry("--key", "Number", "--allow-shared-email")
    assert "  2     email   is also in row 4, with another name\n" in completed.stdout.partition("Worth a look\n")[2]
    assert imports("--key", "Number", "--allow-shared-email").code == 0
    assert len(imports.sandbox.agents) == 3


def test_rows_of_one_person_with_different_data_are_held_back(imports: TableImport) -> None:
    imports.write(
        "email,first_name,last_name,phone\na@example.com,A,B,+1\na@example.com,A,B,+2\na@example.com,A,B,+1\n"
    )
    completed = imports()
    message = "is also in rows 3, 4, with the same name, but other data: keep the right row, and delete the others"
    assert f"  2     email   {message}\n" in completed.stdout
    assert "Cannot be sent  3  see above" in completed.stdout and imports.sandbox.agents == []


HEADER_OF_DAMAGED = "email,first_name,last_name,date_of_birth,profile.client_metadata.note\n"
DAMAGED = [
    # The content of a cell, its column, the message, and whether --yes does not send the row.
    ("#N/A", "last_name", "is an error of a spreadsheet", True),
    ("#REF!", "first_name", "is an error of a spreadsheet", True),
    ("########", "profile.client_metadata.note", "is an error of a spreadsheet", True),
    ("#¡VALOR!", "last_name", "is an error of a spreadsheet", True),
    ("Err:502", "last_name", "is an error of a spreadsheet", True),
    ("Jos\ufffd", "first_name", "contains U+FFFD", True),
    ("a \ufffd b", "profile.client_metadata.note", "contains U+FFFD", True),
    ("JosÃ©", "first_name", "looks garbled", False),
    ("NicolÃ\xa0", "first_name", "looks garbled", False),
    ("JosĂ©", "first_name", "looks garbled", False),
    ("Jos√©", "first_name", "looks garbled", False),
    ("Oâ€™Brien", "last_name", "looks garbled", False),
    ("ÐžÐ»ÐµÐ³", "last_name", "looks garbled", False),
    ("é™ˆä¼Ÿ", "last_name", "looks garbled", False),
    ("O\x92Brien", "last_name", "contains control characters, as Windows' quotation marks do", False),
    ("A\tB", "last_name", "contains line breaks or other control characters", False),
    ("a\x07b", "profile.client_metadata.note", "contains line breaks or other control characters", False),
    ("Ada\u200bX", "first_name", "contains invisible characters", False),
    ("\u202eadA", "first_name", "contains invisible characters", False),
    ("?ukasz", "first_name", "has a question mark at a letter", False),
    ("Jos?", "first_name", "has a question mark at a letter", False),
    ("M³ller", "last_name", "contains a symbol", False),
    ("1899-11-30", "date_of_birth", "makes the agent older than 100", False),
    (f"{date.today().year - 9}-01-31", "date_of_birth", "makes the agent younger than 16", False),
]


def make_table(*rows: dict[str, str]) -> str:
    """Returns a table of agents who have only these unusual cells."""
    names = HEADER_OF_DAMAGED.strip().split(",")
    lines = []
    for at, row in enumerate(rows):
        cells = {"email": f"a{at}@example.com", "first_name": "Ada", "last_name": "Lovelace"} | row
        lines.append(",".join('"' + cells.get(name, "") + '"' for name in names))
    return HEADER_OF_DAMAGED + "\n".join(lines) + "\n"


@pytest.mark.parametrize(("cell", "column", "expected_message", "stops"), DAMAGED)
def test_likely_damaged_text_causes_a_warning(
    cell: str, column: str, expected_message: str, stops: bool, imports: TableImport
) -> None:
    imports.write(make_table({}, {column: cell}))
    completed = imports.dry("--report", "r.csv", "--json")
    (warning,) = json.loads(completed.stdout)["worth_a_look"]
    assert (
        completed.code == 0
        and (warning["rows"], warning["column"]) == ([3], column)
        and warning["message"].startswith(expected_message)
    )
    assert re.search(f"Worth a look\n.*\n  3 +{column}  {re.escape(expected_message)}", completed.stderr)
    assert imports.report("r.csv")[1]["message"] == f"{column}: {warning['message']}"
    assert cell in warning["message"] or cell not in completed.stderr

    completed = imports()
    if stops:
        assert (
            completed.code == 2
            and "Nothing was sent: --yes cannot confirm" in completed.stderr
            and "row 3" in completed.stderr
        )
    assert (imports.sandbox.agents == []) == stops


def test_undamaged_text_causes_no_warning(imports: TableImport) -> None:
    names = "Null None O'Brien O’Brien José Łukasz JÓŹWIAK WÓŻNIAK ŞTEFĂNESCU Nguyễn Олег Лі 李小龙 محمد ÉCOLE ÅÄÖ Þór D´Arcy"
    notes = [
        "„Groß“",
        "«\xa0Café\xa0»",
        "Really? Yes.",
        "http://example.com/?a=1",
        "50 % off, €",
        "two\nlines",
        "#sold!",
        "👩‍💻",
        "می‌خواهم",
    ]
    imports.write(
        make_table(
            *({"last_name": name} for name in names.split()),
            *({"profile.client_metadata.note": note} for note in notes),
        )
    )
    completed = imports.dry()
    assert completed.code == 0 and "Worth a look" not in completed.stdout, completed.stdout


def test_lost_text_is_confirmed_by_a_person_or_mapped_by_an_option(imports: TableImport) -> None:
    imports.write(make_table({"last_name": "#N/A"}, {"profile.client_metadata.note": "#N/A"}))
    with imports.on_a_terminal() as terminal:
        terminal.wait_for("Create 2 agents (2 worth a look) at ")
        terminal.enter("n\n")
        assert terminal.end() == 1
    completed = imports("--map-value", "last_name:#N/A=Lovelace", "--map-value", "profile.client_metadata.note:#N/A=")
    assert completed.code == 0 and "Worth a look" not in completed.stdout


def test_keys_in_spreadsheet_notation_cause_a_warning(imports: TableImport) -> None:
    keys = ["00123", "00456", "789", "12345", "123456", "1.23457E+14", "77.0", "1,5e+20", "E5", "007"]
    imports.write(NUMBERED + "".join(f'"{key}",a{at}@example.com,A,B\n' for at, key in enumerate(keys)))
    completed = imports.dry("--key", "Number", "--report", "r.csv", "--json")
    found = {
        error["message"].split(":")[0]: (error["rows"], error["column"])
        for error in json.loads(completed.stdout)["worth_a_look"]
    }
    assert found == {
        "has an exponent, as a spreadsheet writes long numbers": ([7, 9], "Number"),
        "ends in .0, as a spreadsheet writes numbers": ([8], "Number"),
        "is shorter than keys that begin with a zero": ([4], "Number"),
    }
    assert {row["row"] for row in imports.report("r.csv") if row["message"]} == {"4", "7", "8", "9"}


def test_many_columns_are_not_all_shown(imports: TableImport) -> None:
    names = ["email", "first_name", "last_name"]
    many = [*(f"profile.client_metadata.m{at}" for at in range(500)), *(f"other {at}" for at in range(700))]
    imports.write(",".join([*names, *many]) + "\na@example.com,A,B" + ",x" * 1200 + "\n")
    completed = imports.dry()
    assert completed.code == 0 and len(completed.stdout.splitlines()) < 100
    assert re.search("… and 480 more +profile.client_metadata.…\n", completed.stdout)
    assert re.search(", other 19 and 680 more\n", completed.stdout)
    # Nor are all messages about them shown.
    imports.write(",".join([*names, *many]) + "\na@example.com,A,B" + ",\x07" * 1200 + "\n")
    completed = imports.dry()
    assert (
        "Worth a look" in completed.stdout
        and "… and 400 more lines" in completed.stdout
        and len(completed.stdout.splitlines()) < 200
    )
    imports.write(",".join(["email", *many]) + "\n")
    completed = imports.dry()
    assert completed.code == 2 and len(completed.stderr) < 2000 and completed.stderr.endswith(" and 1,181 more\n")


def test_agents_have_the_values_of_the_table(imports: TableImport) -> None:
    imports.write(TABLE)
    maps = ["Tier=profile.tier", "Notes=profile.client_metadata.notes"]
    completed = imports(*(part for mapping in maps for part in ("--map", mapping)))
    assert (completed.code, parse_counts(completed.stdout)) == (
        1,
        {"created": 2, "rejected": 0, "unknown": 0, "invalid": 3},
    )
    sent = sorted((agent.sent for agent in imports.sandbox.agents), key=lambda body: str(body["email"]))
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


def test_any_column_can_be_the_key(imports: TableImport) -> None:
    imports.write(NUMBERED + "1,a@example.com,A,B\n2,b@example.com,A,B\n,c@example.com,A,B\n2,b@example.com,A,C\n")
    assert "  3     email   is also in row 5, with another name: correct the wrong row\n" in imports.dry().stdout
    completed = imports("--key", "Number")
    assert "  3     Number  is also in row 5, with another name: correct the wrong row\n" in completed.stdout
    assert parse_counts(completed.stdout) == {"created": 1, "rejected": 0, "unknown": 0, "invalid": 3}
    assert "  4     Number  is empty, but must identify the row: fill it in\n" in completed.stdout
    assert {agent.email for agent in imports.sandbox.agents} == {"a@example.com"}

    wrong = imports("--key", "Nummer")
    expected_error = "dealkit: --key: there is no column Nummer. Did you mean Number? The columns are Number, email"
    assert wrong.code == 2 and wrong.stderr.startswith(expected_error)


@pytest.mark.parametrize("cell", ["canary@example.com", "+1 555 555 0100", "1990-02-28", "28.2.90", "0012345678"])
def test_a_first_row_with_data_is_not_printed(cell: str, imports: TableImport) -> None:
    """The first row may be personal. A report without its header and a list of ids with other columns are handled
    alike.
    """
    imports.write(f"Canary,{cell},CanaryToo\nKurt,kurt@example.com,Godel\n")
    (imports.folder / "l.ledger").touch()
    expected_error = "column 1, column 2, column 3. The first row looks like data and is not shown: is the row of column names missing?\n"
    for command in (
        ["agents", "import", "agents.csv", "--dry-run"],
        ["agents", "import", "agents.csv", "--dry-run", "--key", "x", "--map", "x=email"],
        ["ledger", "resolve", "l.ledger", "agents.csv"],
        ["deals", "export", "--ids", "agents.csv", "--out", "deals.ndjson"],
    ):
        for options in ([], ["--json"]):
            completed = imports.command(*command, *options, url=imports.sandbox.url)
            assert completed.code == 2 and completed.stderr.endswith(expected_error), completed
            assert (
                "canary" not in f"{completed.stdout}{completed.stderr}".lower()
                and cell not in f"{completed.stdout}{completed.stderr}"
            )


def test_options_find_columns_despite_unusual_spaces_and_normalization(imports: TableImport) -> None:
    """Spreadsheets write line breaks and no-break spaces in headers, and macOS writes decomposed letters."""
    imports.write('"E-mail\n(work)";"First;\nname";Nach\u00a0name;Pra\u0308fix\na@example.com;Ada;Lovelace;x\n')
    maps = ["E-mail (work)=email", "First; name=first_name", "Nach name=last_name", "Pr\u00e4fix=profile.tier"]
    completed = imports(*(part for mapping in maps for part in ("--map", mapping)))
    assert completed.code == 0 and "  E-mail (work)  email" in completed.stdout
    [agent] = imports.sandbox.agents
    assert (agent.email, agent.first_name, agent.last_name, agent.sent["profile"]) == (
        "a@example.com", "Ada", "Lovelace", {"tier": "x"},
    )  # fmt: skip
    twice = imports("--map", "E-mail (work)=email", "--map", "E-mail (work)=phone")
    assert twice.code == 2 and "--map names the column E-mail (work) twice" in twice.stderr


def test_a_ledger_rejects_another_key_column(imports: TableImport) -> None:
    """With another key column, the ledger would recognize no row, and every agent would be created again."""
    imports.write("Number,E-mail,first_name,last_name\n1,a@example.com,A,B\n2,b@example.com,A,B\n")
    assert imports("--ledger", "l.ledger").code == 0
    assert summary(imports.folder / "l.ledger").key_name == "email"
    imports.sandbox.clear_requests()
    for dry in (["--dry-run"], []):
        completed = imports("--key", "Number", "--ledger", "l.ledger", *dry)
        assert (
            completed.code == 2
            and "identifies rows by the column email, but this import by Number." in completed.stderr
        )
        assert "Choose the earlier column with --key." in completed.stderr
    assert not imports.sandbox.requests


REQUIRED_HEADER = b"email,first_name,last_name\n"


@pytest.mark.parametrize(
    ("content", "options", "expected_error"),
    [
        (b"", [], "agents.csv is empty; it must have a row with the column names"),
        (b"a,b\n1,2\n", [], "no column holds email or first_name or last_name, which every agent needs"),
        (b'sep=;\nemail;first_name;last_name\n"a;b;c\n', [], "line 3 is not valid CSV"),
        (REQUIRED_HEADER + b"\xe9,b,c\n", ["--encoding", "utf-8"], "line 2 cannot be read as UTF-8. In Excel"),
        (REQUIRED_HEADER + b'"a,b,c\n', [], "line 2 is not valid CSV"),
        (
            b"PK\x03\x04...",
            [],
            "agents.csv is damaged or incomplete. Copy or download it again",
        ),
        (
            b"x,y,first_name,last_name\n",
            ["--map", "x=email", "--map", "y=email"],
            "2 columns go to email: x, y. Keep one",
        ),
        (
            b"Mail,Mail,first_name,last_name\n",
            ["--map", "Mail=email"],
            '--map: 2 columns are named Mail; use the letter of one of them, as in a spreadsheet: "column A", "column B"',
        ),
        (b"e\x00m\x00", [], "is not a text file in UTF-8"),
        (REQUIRED_HEADER, ["--map", "x"], '--map takes a column and a field, as in --map "Mail=email"'),
        (REQUIRED_HEADER, ["--map", "x=email"], "--map: there is no column x"),
        (
            REQUIRED_HEADER,
            ["--map", "email=mail"],
            "--map: mail is not a field of an agent. Did you mean email? The fields are: email, ",
        ),
        (REQUIRED_HEADER, ["--encoding", "klingon"], "--encoding does not name a known encoding. Use utf-8, cp1252"),
    ],
)
def test_unusable_tables_are_errors(
    content: bytes, options: list[str], expected_error: str, imports: TableImport
) -> None:
    (imports.folder / "agents.csv").write_bytes(content)
    completed = imports.dry(*options)
    assert completed.code == 2 and completed.stderr.startswith("dealkit: ") and expected_error in completed.stderr


@pytest.mark.parametrize(
    ("encoding", "delimiter", "first", "options"),
    [
        ("utf-8", ",", "", []),
        ("utf-8-sig", ";", "", []),
        ("utf-16", "\t", "", []),
        ("cp1252", ";", "", ["--encoding", "cp1252"]),
        ("utf-8-sig", ";", "sep=;\r\n", ["--encoding", "cp1252"]),
        ("utf-8", "|", '"SEP=|"\n', []),
    ],
)
def test_tables_in_spreadsheet_dialects_are_read(
    encoding: str, delimiter: str, first: str, options: list[str], imports: TableImport
) -> None:
    rows = [["Email", "First Name", "LAST-NAME", "Office ID"], [" zoe@example.com ", "Zoë", "O'Brien; Jr,", "  "]]
    with open(imports.folder / "agents.csv", "w", encoding=encoding, newline="") as file:
        file.write(first)
        csv.writer(file, delimiter=delimiter).writerows(rows)
    assert imports(*options).code == 0
    # Excel does not show the line `sep=;`, so the header is row 1.
    assert imports.outcomes() == {"2": "created"}
    report = (imports.folder / "agents.csv.report.csv").read_text("utf-8-sig")
    assert report.startswith(f"row{delimiter}key{delimiter}")
    # The second run reads the first run's report and replaces it.
    assert "(0 now, 1 in an earlier run)" in imports(*options).stdout
    (agent,) = imports.sandbox.agents
    expected = {"email": "zoe@example.com", "first_name": "Zoë", "last_name": "O'Brien; Jr,", "profile": {}}
    assert agent.sent == expected


@pytest.mark.parametrize(
    ("report", "expected_error"),
    [
        (
            "agents.csv",
            "agents.csv would be overwritten, but it is the same file as agents.csv, which the command reads",
        ),
        ("./agents.csv", "is the same file as agents.csv, which the command reads"),
        ("same.csv", "same.csv would be overwritten, but it is the same file as agents.csv"),
        ("found.csv", "found.csv exists and is not a report of an import, so"),
        ("link.csv", "link.csv cannot be written: it is a link"),
        ("dangling.csv", "dangling.csv cannot be written: it is a link"),
        (".", "cannot be written: it is a folder"),
        ("/dev/null", "cannot be written: it is a device, not a file"),
        ("no/report.csv", "no/report.csv cannot be written: the folder no does not exist. Create it first.\n"),
        ("l.ledger-journal", "one of the files of the ledger"),
        ("l.ledger-job-0123456789abcdef", "one of the files of the ledger"),
        ("../{name}/l.ledger-wal", "one of the files of the ledger"),
    ],
)
def test_a_report_replaces_only_an_earlier_report(report: str, expected_error: str, imports: TableImport) -> None:
    imports.write(2)
    folder = imports.folder
    (folder / "found.csv").write_text("key,agent_id\nx-0,a_1\n")
    (folder / "there.csv").write_text("mine\n")
    (folder / "link.csv").symlink_to("there.csv")
    (folder / "dangling.csv").symlink_to("not-there.csv")
    (folder / "same.csv").hardlink_to(folder / "agents.csv")
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.exists()}
    path = report.format(name=folder.name)
    for options in ([], ["--dry-run"]):
        completed = imports("--ledger", "l.ledger", "--report", path, *options)
        assert completed.code in (2, 4) and expected_error in completed.stderr, completed
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.exists()} == before
    assert imports.sandbox.requests == []


def test_a_full_disk_while_writing_the_report_loses_no_outcome(imports: TableImport) -> None:
    """The outcomes are still printed, and the ledger has them."""
    imports.write(30)
    imports.sandbox.fail_next(hold=True, method="POST")
    process = imports.start()
    report = imports.folder / "agents.csv.report.csv"
    imports.sandbox.wait_for(held=True, timeout=HANG_SECONDS)
    report.unlink()
    report.mkdir()
    imports.sandbox.release()
    completed = finish_command(process)
    assert completed.code == 4 and "agents.csv.report.csv cannot be written: it is a folder." in completed.stderr
    assert parse_counts(completed.stdout)["created"] == 30


def test_no_cell_of_a_report_is_a_formula(imports: TableImport) -> None:
    """Escaped keys are nevertheless resolved as the original keys."""
    keys = ["=HYPERLINK(1)", "+15550100", "-1", "@x", "'=1", "'quoted"]
    rows = "".join(f"a{at}@example.com,A,B,{key}\n" for at, key in enumerate(keys))
    imports.write(f"email,first_name,last_name,profile.external_id\n{rows}")
    imports.sandbox.fail_next(cut="before-head", times=None, method="POST")
    for _ in range(2):
        imports("--concurrency", "1")
    assert [row["key"] for row in imports.report()] == [*(f"'{key}" for key in keys[:-1]), "'quoted"]
    imports.fill_in({"2": "a_100", "3": "a_101", "4": "a_102", "5": "a_103", "6": "a_104"})
    resolve = ["ledger", "resolve", imports.ledger(), "agents.csv.report.csv"]
    assert imports.command(*resolve, "--yes").stdout.startswith("5 rows recorded")


@pytest.mark.parametrize("fault", [{"status": 422}, {"process_then_reset": True}], ids=str)
def test_no_value_of_a_row_is_in_an_error(fault: dict[str, Any], imports: TableImport) -> None:
    person, key, folder = "Canary Lovelace", "sk-canary-0b5e1f", imports.folder
    imports.write(f"email,first_name,last_name,Number\n{person},{person},x,1\ncanary@example.com,{person},{person},2\n")
    options = ["--ledger", "l.ledger", "--report", "report.csv", "--key", "Number"]
    with Sandbox(service_key=key) as sandbox:
        sandbox.fail_next(method="POST", **fault)
        completed = run_command(*imports.arguments(*options), url=sandbox.url, key=key, cwd=folder)
    assert completed.code == 1
    stored_text = (folder / "l.ledger").read_text(errors="replace") + (folder / "report.csv").read_text()
    for canary in (person, "canary@example.com", key):
        assert canary not in completed.stdout + completed.stderr + stored_text


HEADER = "email,first_name,last_name,date_of_birth,phone,role\n"


@pytest.mark.parametrize(
    ("cells", "options", "sent"),
    [
        ("31.12.1990,,", ["--date-format", "%d.%m.%Y"], {"date_of_birth": "1990-12-31"}),
        ("1990-12-31,,", ["--date-format", "%d.%m.%Y"], {"date_of_birth": "1990-12-31"}),
        ("1.2.62,,", ["--date-format", "%d.%m.%y"], {"date_of_birth": "1962-02-01"}),
        # The date is ambiguous: it may also be 2 January.
        ("01/02/1990,,", ["--date-format", "%d/%m/%Y", "--date-format", "%m/%d/%Y"], None),
        ("199021,,", ["--date-format", "%Y%m%d"], None),
        (",030 1234567,", ["--phone-country", "de"], {"phone": "+49301234567"}),
        (",+15550100,", ["--phone-country", "DE"], {"phone": "+15550100"}),
        (",030 1234567 ext. 9,", ["--phone-country", "DE"], None),
        # Without the plus sign, a number that is too long for a national number.
        (",4915100000012,", ["--phone-country", "DE"], {"phone": "+4915100000012"}),
        # A spreadsheet has removed the first zero, and added decimals.
        (",301234567.0,", ["--phone-country", "DE"], {"phone": "+49301234567"}),
        # Without the first zero and with separators, it may be a number of another country.
        (",33 612345678,", ["--phone-country", "DE"], None),
        (",4.9151E+12,", ["--phone-country", "DE"], None),
        (",12125550123,", ["--phone-country", "US"], {"phone": "+12125550123"}),
        (",212.555.0123,", ["--phone-country", "US"], {"phone": "+12125550123"}),
        # The number begins like a Norwegian one with country code, but lacks only the US country code.
        (",4752345678,", ["--phone-country", "US"], {"phone": "+14752345678"}),
        (",none,", ["--map-value", "phone:none="], {}),
        (",,Makler", ["--map-value", "role:Makler=AGENT", "--map-value", "role:=ADMIN"], {"role": "AGENT"}),
        (",,", ["--map-value", "Role:=ADMIN"], {"role": "ADMIN"}),
        ("31.12.1990,,", ["--date-format", "%d.%m."], "--date-format must have a day, a month and a year"),
        (",1,", ["--phone-country", "Germany"], "--phone-country must be a country's code of two letters, such as DE"),
        (",,x", ["--map-value", "role=x"], "--map-value takes a field, what the table has, and the value, as in"),
        (
            ",,x",
            ["--map-value", "rolle:x=y"],
            "--map-value: rolle is not a field of an agent. Did you mean role? The fields are: ",
        ),
    ],
)
def test_options_convert_dates_phone_numbers_and_words(
    cells: str, options: list[str], sent: Any, imports: TableImport
) -> None:
    imports.write(f"{HEADER}a@example.com,A,B,{cells}\n")
    completed = imports(*options)
    if isinstance(sent, str):
        assert completed.code == 2 and sent in completed.stderr
        return
    assert completed.code == (sent is None)
    fixed = {"email": "a@example.com", "first_name": "A", "last_name": "B", "profile": {}}
    assert [agent.sent for agent in imports.sandbox.agents] == ([] if sent is None else [{**fixed, **sent}])
