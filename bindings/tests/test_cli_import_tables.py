"""The command `dealkit agents import`: how tables are read, what is said of their mistakes, and where a report may go."""

from __future__ import annotations

import csv
import json
import re
from typing import Any

import pytest
from commands import Import, counts, dealkit, end
from processes import HANGS

from dealkit.ledger import summary
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
agents.csv:
  Column                       goes to
  E-mail                       email
  First name                   first_name
  Last name                    last_name
  Role                         role
  Phone                        phone
  Notes                        not sent
  Tier                         not sent
  profile.onboarding_complete  profile.onboarding_complete

Invalid
  Rows  Column                       Message
  3     E-mail                       must be a bare e-mail address such as ada@example.com
  3     First name                   is required and missing
  3     Role                         must be one of COLLECTIVE_ADMIN, BROKER_ADMIN, OFFICE_ADMIN, ADMIN, AGENT
  3     Phone                        must be a plus sign followed by digits only, such as +15550100
  4     profile.onboarding_complete  must be TRUE or FALSE
  6                                  has more cells than there are columns; are quotation marks missing?
  8     E-mail                       is the same as in row 2, but must identify the row: remove one

--phone-country adds the country to phone numbers without one, as in --phone-country DE.
--map-value says what a cell means, as in --map-value role:Makler=AGENT.
2 rows can be sent, 4 cannot
"""
NUMBERED = "Number,email,first_name,last_name\n"


def test_a_dry_run(imports: Import) -> None:
    imports.write(TABLE)
    done = imports.dry()
    assert done == (1, DRY_RUN + "This was a dry run: nothing was sent.\n", "")
    assert [path.name for path in imports.folder.iterdir()] == ["agents.csv"]

    done = imports.dry("--map", "Tier = profile.tier", "--report", "report.csv")
    assert "  Tier                         profile.tier\n" in done.shown
    ends = {"2": "not sent", "3": "invalid", "4": "invalid", "6": "invalid", "7": "not sent", "8": "invalid"}
    assert imports.outcomes("report.csv") == ends
    report = imports.folder / "report.csv"
    assert "Hopper" not in done.shown + done.told + report.read_text()
    assert report.stat().st_mode & 0o777 == 0o600


def test_a_kind_of_mistake_is_told_once_with_its_rows(imports: Import) -> None:
    rows = [
        f"a{number}@example.com,{'x' * (256 + number) if number % 50 == 7 else 'A'},B,0{number}"
        for number in range(335)
    ]
    imports.write("\n".join(["email,first_name,last_name,phone", *rows, *rows[:6]]))
    done = imports.dry("--report", "r.csv", "--json")
    told = done.told.partition("Invalid\n")[2].partition("\n\n")[0].splitlines()
    assert [re.split("  +", line.strip()) for line in told[1:]] == [
        ["2, 3, 4, … (341 rows)", "phone", "must be a plus sign followed by digits only, such as +15550100"],
        ["9", "first_name", "must be 1 to 255 characters, got 263"],
        ["59", "first_name", "must be 1 to 255 characters, got 313"],
        ["109", "first_name", "must be 1 to 255 characters, got 363"],
        [
            "159, 209, 259, … (4 rows)",
            "first_name",
            "similar problems: the report (--report) has the message of each row",
        ],
        ["337", "email", "is the same as in row 2, but must identify the row: remove one"],
        ["338", "email", "is the same as in row 3, but must identify the row: remove one"],
        ["339", "email", "is the same as in row 4, but must identify the row: remove one"],
        ["340, 341, 342", "email", "similar problems: the report (--report) has the message of each row"],
    ]
    # Programs get every text, with its own rows.
    errors = json.loads(done.shown)["errors"]
    assert errors[0]["rows"] == [*range(2, 343)]
    assert {one["message"][-3:]: one["rows"] for one in errors if one["column"] == "first_name"} == {
        str(256 + number): [number + 2] for number in range(7, 335, 50)
    }
    assert [one["rows"] for one in errors if one["column"] == "email"] == [[row] for row in range(337, 343)]
    found = {row["row"]: row for row in imports.report("r.csv")}
    assert len(found) == 341 and {row["outcome"] for row in found.values()} == {"invalid"}
    assert found["9"]["message"].startswith("first_name: must be 1 to 255 characters, got 263; phone: must be")
    assert found["342"]["message"].endswith("is the same as in row 7, but must identify the row: remove one")


def test_two_rows_of_one_address_are_pointed_out(imports: Import) -> None:
    """They may be two agents, so nothing is held back."""
    imports.write(NUMBERED + "1,a@example.com,A,B\n2,c@example.com,A,B\n3,A@Example.com,A,B\n4,a@example.com,A,B\n")
    done = imports.dry("--key", "Number", "--report", "r.csv")
    assert (
        "Worth a look\n  Rows  Column  Message\n  4, 5  email   is the same as in row 2: remove one, unless they are two agents\n\n4 rows can be sent, 0 cannot\n"
    ) in done.shown
    assert done.code == 0 and "the same as in row 2: remove one" in (imports.folder / "r.csv").read_text()
    assert imports("--key", "Number").code == 0
    assert len(imports.sandbox.agents) == 4


HEAD_OF_PEOPLE = "email,first_name,last_name,date_of_birth,profile.client_metadata.note\n"
DAMAGED = [
    # The content of the cell, its column, the message, and whether --yes stops there.
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
    ("1899-12-30", "date_of_birth", "makes the agent older than 100", False),
    ("2054-01-31", "date_of_birth", "makes the agent younger than 16", False),
    ("2090-01-31", "date_of_birth", "makes the agent younger than 16", False),
]


def people(*rows: dict[str, str]) -> str:
    """A table of people, who have nothing unusual but these cells."""
    names = HEAD_OF_PEOPLE.strip().split(",")
    lines = []
    for at, row in enumerate(rows):
        cells = {"email": f"a{at}@example.com", "first_name": "Ada", "last_name": "Lovelace"} | row
        lines.append(",".join('"' + cells.get(name, "") + '"' for name in names))
    return HEAD_OF_PEOPLE + "\n".join(lines) + "\n"


@pytest.mark.parametrize(("cell", "column", "said", "stops"), DAMAGED)
def test_text_that_may_be_damaged_is_pointed_out(
    cell: str, column: str, said: str, stops: bool, imports: Import
) -> None:
    imports.write(people({}, {column: cell}))
    done = imports.dry("--report", "r.csv", "--json")
    (doubt,) = json.loads(done.shown)["worth_a_look"]
    assert done.code == 0 and (doubt["rows"], doubt["column"]) == ([3], column) and doubt["message"].startswith(said)
    assert re.search(f"Worth a look\n.*\n  3 +{column}  {re.escape(said)}", done.told)
    assert imports.report("r.csv")[1]["message"] == f"{column}: {doubt['message']}"
    assert cell in doubt["message"] or cell not in done.told

    done = imports()
    if stops:
        assert done.code == 2 and "nothing was sent: --yes cannot confirm" in done.told and "row 3" in done.told
    assert (imports.sandbox.agents == []) == stops


def test_text_that_is_not_damaged_is_not_pointed_out(imports: Import) -> None:
    names = "Null None O'Brien O’Brien José Łukasz JÓŹWIAK WÓŻNIAK ŞTEFĂNESCU Nguyễn Олег Лі 李小龙 محمد ÉCOLE ÅÄÖ Þór N/A D´Arcy"
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
        people(
            *({"last_name": name} for name in names.split()),
            *({"profile.client_metadata.note": note} for note in notes),
        )
    )
    done = imports.dry()
    assert done.code == 0 and "Worth a look" not in done.shown, done.shown


def test_a_person_may_confirm_lost_text_or_correct_it_with_an_option(imports: Import) -> None:
    imports.write(people({"last_name": "#N/A"}, {"profile.client_metadata.note": "#N/A"}))
    with imports.on_a_terminal() as terminal:
        terminal.wait_for("Create 2 agents at ")
        terminal.enter("n\n")
        assert terminal.end() == 1
    done = imports("--map-value", "last_name:#N/A=Lovelace", "--map-value", "profile.client_metadata.note:#N/A=")
    assert done.code == 0 and "Worth a look" not in done.shown


def test_keys_that_a_spreadsheet_may_have_changed_are_pointed_out(imports: Import) -> None:
    keys = ["00123", "00456", "789", "12345", "123456", "1.23457E+14", "77.0", "1,5e+20", "E5", "007"]
    imports.write(NUMBERED + "".join(f'"{key}",a{at}@example.com,A,B\n' for at, key in enumerate(keys)))
    done = imports.dry("--key", "Number", "--report", "r.csv", "--json")
    found = {
        one["message"].split(":")[0]: (one["rows"], one["column"]) for one in json.loads(done.shown)["worth_a_look"]
    }
    assert found == {
        "has an exponent, as a spreadsheet writes long numbers": ([7, 9], "Number"),
        "ends in .0, as a spreadsheet writes numbers": ([8], "Number"),
        "is shorter than keys that begin with a zero": ([4], "Number"),
    }
    assert {row["row"] for row in imports.report("r.csv") if row["message"]} == {"4", "7", "8", "9"}


def test_many_columns_are_not_all_shown(imports: Import) -> None:
    names = ["email", "first_name", "last_name"]
    many = [*(f"profile.client_metadata.m{at}" for at in range(500)), *(f"other {at}" for at in range(700))]
    imports.write(",".join([*names, *many]) + "\na@example.com,A,B" + ",x" * 1200 + "\n")
    done = imports.dry()
    assert done.code == 0 and len(done.shown.splitlines()) < 60
    assert re.search("… and 480 more +profile.client_metadata.…\n", done.shown)
    assert re.search("… and 680 more +not sent\n", done.shown)
    # Nor is what is wrong with each of them.
    imports.write(",".join([*names, *many]) + "\na@example.com,A,B" + ",\x07" * 1200 + "\n")
    done = imports.dry()
    assert "Worth a look" in done.shown and "… and 400 more lines" in done.shown and len(done.shown.splitlines()) < 200
    imports.write(",".join(["email", *many]) + "\n")
    done = imports.dry()
    assert done.code == 2 and len(done.told) < 2000 and done.told.endswith(" and 1,181 more\n")


def test_agents_are_created_as_the_table_says(imports: Import) -> None:
    imports.write(TABLE)
    maps = ["Tier=profile.tier", "Notes=profile.client_metadata.notes"]
    done = imports(*(part for one in maps for part in ("--map", one)))
    assert (done.code, counts(done.shown)) == (1, {"created": 2, "rejected": 0, "unknown": 0, "invalid": 4})
    sent = sorted((agent.sent for agent in imports.sandbox.agents), key=lambda one: str(one["email"]))
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


def test_the_key_is_a_column(imports: Import) -> None:
    imports.write(NUMBERED + "1,a@example.com,A,B\n2,a@example.com,A,B\n,c@example.com,A,B\n")
    same = "  3     email   is the same as in row 2, but must identify the row: "
    assert same in imports.dry().shown
    done = imports("--key", "Number")
    assert counts(done.shown) == {"created": 2, "rejected": 0, "unknown": 0, "invalid": 1}
    assert "  4     Number  is empty, but must identify the row: fill it in\n" in done.shown
    assert {agent.email for agent in imports.sandbox.agents} == {"a@example.com"}

    wrong = imports("--key", "Nummer")
    told = "dealkit: --key: there is no column Nummer; the columns are Number, email"
    assert wrong.code == 2 and wrong.told.startswith(told)


@pytest.mark.parametrize("cell", ["canary@example.com", "+1 555 555 0100", "1990-02-28", "28.2.90", "0012345678"])
def test_a_first_row_that_is_data_is_not_shown(cell: str, imports: Import) -> None:
    """It may be personal. A report without its header, and a list of ids with other columns, are read in the same way."""
    imports.write(f"Canary,{cell},CanaryToo\nKurt,kurt@example.com,Godel\n")
    (imports.folder / "l.ledger").touch()
    told = "column 1, column 2, column 3. The first row looks like data and is not shown: is the row of column names missing?\n"
    for command in (
        ["agents", "import", "agents.csv", "--dry-run"],
        ["agents", "import", "agents.csv", "--dry-run", "--key", "x", "--map", "x=email"],
        ["ledger", "resolve", "l.ledger", "agents.csv"],
        ["deals", "export", "--ids", "agents.csv", "--out", "deals.ndjson"],
    ):
        for options in ([], ["--json"]):
            done = imports.command(*command, *options, url=imports.sandbox.url)
            assert done.code == 2 and done.told.endswith(told), done
            assert "canary" not in f"{done.shown}{done.told}".lower() and cell not in f"{done.shown}{done.told}"


def test_columns_are_named_as_they_are_typed(imports: Import) -> None:
    """Spreadsheets write line breaks and no-break spaces in the header, and macOS decomposed letters."""
    imports.write('"E-mail\n(work)";"First;\nname";Nach\u00a0name;Pra\u0308fix\na@example.com;Ada;Lovelace;x\n')
    maps = ["E-mail (work)=email", "First; name=first_name", "Nach name=last_name", "Pr\u00e4fix=profile.tier"]
    done = imports(*(part for one in maps for part in ("--map", one)))
    assert done.code == 0 and "  E-mail (work)  email" in done.shown
    [agent] = imports.sandbox.agents
    assert (agent.email, agent.first_name, agent.last_name, agent.sent["profile"]) == (
        "a@example.com", "Ada", "Lovelace", {"tier": "x"},
    )  # fmt: skip
    twice = imports("--map", "E-mail (work)=email", "--map", "E-mail (work)=phone")
    assert twice.code == 2 and "--map names the column E-mail (work) twice" in twice.told


def test_the_ledger_knows_what_its_keys_are_called(imports: Import) -> None:
    """With another column as the key it would recognise nobody, and create everybody again."""
    imports.write("Number,E-mail,first_name,last_name\n1,a@example.com,A,B\n2,b@example.com,A,B\n")
    assert imports("--ledger", "l.ledger").code == 0
    assert summary(imports.folder / "l.ledger").key_name == "email"
    imports.sandbox.clear_requests()
    for dry in (["--dry-run"], []):
        done = imports("--key", "Number", "--ledger", "l.ledger", *dry)
        assert done.code == 2 and 'its keys are called "email", but the keys in use are called "Number"' in done.told
        assert "\n--key selects the column with the keys." in done.told
    assert not imports.sandbox.requests


FIELDS = b"email,first_name,last_name\n"


@pytest.mark.parametrize(
    ("content", "options", "told"),
    [
        (b"", [], "agents.csv: the first row is empty; it must contain the column names"),
        (b"a,b\n1,2\n", [], "no column holds email or first_name or last_name, which every agent needs"),
        (b'sep=;\nemail;first_name;last_name\n"a;b;c\n', [], "line 3 is not valid CSV"),
        (FIELDS + b"\xe9,b,c\n", [], 'line 2 is not UTF-8; in a spreadsheet, save it as "CSV UTF-8"'),
        (FIELDS + b'"a,b,c\n', [], "line 2 is not valid CSV"),
        (b"PK\x03\x04...", [], 'is an .xlsx or .zip file, not text; in a spreadsheet, save it as "CSV UTF-8"'),
        (b"email,Email,first_name,last_name\n", [], "2 columns go to email: email, Email. Only one may"),
        (
            b"email,email,first_name,last_name\n",
            [],
            "2 columns go to email: email, email. Rename all but one of them in the table",
        ),
        (
            b"Mail,Mail,first_name,last_name\n",
            ["--map", "Mail=email"],
            "--map: 2 columns are named Mail; rename all but one of them in the table",
        ),
        (b"e\x00m\x00", [], "is not text in UTF-8"),
        (FIELDS, ["--map", "x"], "--map takes a column and a field, as in --map Mail=email"),
        (FIELDS, ["--map", "x=email"], "--map: there is no column x"),
        (FIELDS, ["--map", "email=mail"], "--map: mail is not a field of an agent, which are: email, "),
        (FIELDS, ["--encoding", "klingon"], "--encoding klingon is not a known encoding"),
    ],
)
def test_tables_that_cannot_be_used(content: bytes, options: list[str], told: str, imports: Import) -> None:
    (imports.folder / "agents.csv").write_bytes(content)
    done = imports.dry(*options)
    assert done.code == 2 and done.told.startswith("dealkit: ") and told in done.told


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
def test_tables_as_spreadsheets_write_them(
    encoding: str, delimiter: str, first: str, options: list[str], imports: Import
) -> None:
    rows = [["Email", "First Name", "LAST-NAME", "Office ID"], [" zoe@example.com ", "Zoë", "O'Brien; Jr,", "  "]]
    with open(imports.folder / "agents.csv", "w", encoding=encoding, newline="") as file:
        file.write(first)
        csv.writer(file, delimiter=delimiter).writerows(rows)
    assert imports(*options).code == 0
    # Excel does not show the `sep=` line: the header is row 1.
    assert imports.outcomes() == {"2": "created"}
    report = (imports.folder / "agents.csv.report.csv").read_text("utf-8-sig")
    assert report.startswith(f"row{delimiter}key{delimiter}")
    # The report of the first run is read, and replaced.
    assert "(1 in an earlier run)" in imports(*options).shown
    (agent,) = imports.sandbox.agents
    expected = {"email": "zoe@example.com", "first_name": "Zoë", "last_name": "O'Brien; Jr,", "profile": {}}
    assert agent.sent == expected


@pytest.mark.parametrize(
    ("report", "told"),
    [
        ("agents.csv", "agents.csv would be written, but is the same file as agents.csv, which is read"),
        ("./agents.csv", "is the same file as agents.csv, which is read"),
        ("same.csv", "same.csv would be written, but is the same file as agents.csv"),
        ("found.csv", "found.csv exists and is not a report of an import, so"),
        ("link.csv", "link.csv cannot be written: it is a link"),
        ("dangling.csv", "dangling.csv cannot be written: it is a link"),
        (".", "cannot be written: it is a folder"),
        ("/dev/null", "cannot be written: it is not a file"),
        ("no/report.csv", "no/report.csv cannot be written: there is no folder no; create it first\n"),
        ("l.ledger-journal", "one of the files of the ledger"),
        ("l.ledger-job-0123456789abcdef", "one of the files of the ledger"),
        ("../{name}/l.ledger-wal", "one of the files of the ledger"),
    ],
)
def test_a_report_replaces_nothing_but_a_report(report: str, told: str, imports: Import) -> None:
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
        done = imports("--ledger", "l.ledger", "--report", path, *options)
        assert done.code in (2, 4) and told in done.told, done
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.exists()} == before
    assert imports.sandbox.requests == []


def test_a_disk_that_is_full_when_the_report_is_written(imports: Import) -> None:
    """What became of the rows is shown all the same, and the ledger has it."""
    imports.write(30)
    imports.sandbox.fail_next(hold=True, method="POST")
    process = imports.start()
    report = imports.folder / "agents.csv.report.csv"
    imports.sandbox.wait_for(held=True, timeout=HANGS)
    report.unlink()
    report.mkdir()
    imports.sandbox.release()
    done = end(process)
    assert done.code == 4 and "agents.csv.report.csv cannot be written: Is a directory" in done.told
    assert counts(done.shown)["created"] == 30


def test_no_cell_of_a_report_is_a_formula(imports: Import) -> None:
    """Keys are resolved as they were all the same."""
    keys = ["=HYPERLINK(1)", "+15550100", "-1", "@x", "'=1", "'quoted"]
    rows = "".join(f"a{at}@example.com,A,B,{key}\n" for at, key in enumerate(keys))
    imports.write(f"email,first_name,last_name,profile.external_id\n{rows}")
    imports.sandbox.fail_next(cut="before-head", times=None, method="POST")
    for _ in range(2):
        imports("--concurrency", "1")
    assert [row["key"] for row in imports.report()] == [*(f"'{key}" for key in keys[:-1]), "'quoted"]
    imports.fill_in({"2": "a_100", "3": "a_101", "4": "a_102", "5": "a_103", "6": "a_104"})
    resolve = ["ledger", "resolve", imports.ledger(), "agents.csv.report.csv"]
    assert imports.command(*resolve, "--yes").shown.startswith("5 rows resolved")


@pytest.mark.parametrize("fault", [{"status": 422}, {"process_then_reset": True}], ids=str)
def test_no_value_of_a_row_is_in_an_error(fault: dict[str, Any], imports: Import) -> None:
    person, key, folder = "Canary Lovelace", "sk-canary-0b5e1f", imports.folder
    imports.write(f"email,first_name,last_name,Number\n{person},{person},x,1\ncanary@example.com,{person},{person},2\n")
    options = ["--ledger", "l.ledger", "--report", "report.csv", "--key", "Number"]
    with Sandbox(service_key=key) as sandbox:
        sandbox.fail_next(method="POST", **fault)
        done = dealkit(*imports.arguments(*options), url=sandbox.url, key=key, cwd=folder)
    assert done.code == 1
    kept = (folder / "l.ledger").read_text(errors="replace") + (folder / "report.csv").read_text()
    for canary in (person, "canary@example.com", key):
        assert canary not in done.shown + done.told + kept


HEAD = "email,first_name,last_name,date_of_birth,phone,role\n"


@pytest.mark.parametrize(
    ("cells", "options", "sent"),
    [
        ("31.12.1990,,", ["--date-format", "%d.%m.%Y"], {"date_of_birth": "1990-12-31"}),
        ("1990-12-31,,", ["--date-format", "%d.%m.%Y"], {"date_of_birth": "1990-12-31"}),
        ("1.2.62,,", ["--date-format", "%d.%m.%y"], {"date_of_birth": "1962-02-01"}),
        # It may be the second of January.
        ("01/02/1990,,", ["--date-format", "%d/%m/%Y", "--date-format", "%m/%d/%Y"], None),
        ("199021,,", ["--date-format", "%Y%m%d"], None),
        (",030 1234567,", ["--phone-country", "de"], {"phone": "+49301234567"}),
        (",+15550100,", ["--phone-country", "DE"], {"phone": "+15550100"}),
        (",030 1234567 ext. 9,", ["--phone-country", "DE"], None),
        # Without the plus sign, and as a spreadsheet shows it: another code or another digit would make it another number.
        (",4915100000012,", ["--phone-country", "DE"], None),
        (",301234567.0,", ["--phone-country", "DE"], None),
        (",4.9151E+12,", ["--phone-country", "DE"], None),
        (",12125550123,", ["--phone-country", "US"], {"phone": "+12125550123"}),
        (",212.555.0123,", ["--phone-country", "US"], {"phone": "+12125550123"}),
        # It begins as numbers of Norway do, but lacks no plus sign.
        (",4752345678,", ["--phone-country", "US"], {"phone": "+14752345678"}),
        (",none,", ["--map-value", "phone:none="], {}),
        (",,Makler", ["--map-value", "role:Makler=AGENT", "--map-value", "role:=ADMIN"], {"role": "AGENT"}),
        (",,", ["--map-value", "Role:=ADMIN"], {"role": "ADMIN"}),
        ("31.12.1990,,", ["--date-format", "%d.%m."], "--date-format must have a day, a month and a year"),
        (",1,", ["--phone-country", "Germany"], "--phone-country must be a country's code of two letters, such as DE"),
        (",,x", ["--map-value", "role=x"], "--map-value takes a field, what the table has, and the value, as in"),
        (",,x", ["--map-value", "rolle:x=y"], "--map-value: rolle is not a field of an agent, which are: "),
    ],
)
def test_values_in_another_form(cells: str, options: list[str], sent: Any, imports: Import) -> None:
    imports.write(f"{HEAD}a@example.com,A,B,{cells}\n")
    done = imports(*options)
    if isinstance(sent, str):
        assert done.code == 2 and sent in done.told
        return
    assert done.code == (sent is None)
    fixed = {"email": "a@example.com", "first_name": "A", "last_name": "B", "profile": {}}
    assert [agent.sent for agent in imports.sandbox.agents] == ([] if sent is None else [{**fixed, **sent}])
