"""The command `dealkit agents import`: how tables are read, what is said of their mistakes, and where a report may go."""

from __future__ import annotations

import csv
import json
import re
from typing import Any

import pytest
from commands import Import, counts, dealkit, end
from offices import MAPS, office
from processes import until

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
  Rows  Column                       Problem
  3     E-mail                       must be a bare e-mail address such as ada@example.com
  3     First name                   is required and missing
  3     Role                         must be one of COLLECTIVE_ADMIN, BROKER_ADMIN, OFFICE_ADMIN, ADMIN, AGENT
  3     Phone                        must be a plus sign followed by digits only, such as +15550100
  4     profile.onboarding_complete  must be TRUE or FALSE
  6                                  has more cells than there are columns; are quotation marks missing?
  8     E-mail                       is the same as in row 2, but must identify the row: remove one

2 rows can be sent, 4 cannot

With these options, 2 of 6 rows could be sent. Are they correct?
  --value role:agent=AGENT
If the phone numbers are of one country, add it: --phone-country DE is Germany.
"""
NUMBERED = "Number,email,first_name,last_name\n"


def test_a_dry_run(imports: Import) -> None:
    imports.write(TABLE)
    done = imports.dry("--map", "E-mail=email")
    assert done == (1, DRY_RUN + "This was a dry run: nothing was sent.\n", "")
    assert [path.name for path in imports.folder.iterdir()] == ["agents.csv"]

    done = imports.dry("--map", "E-mail = email", "--map", "Tier=profile.tier", "--report", "report.csv")
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
    done = imports.dry("--report", "r.csv")
    told = done.shown.partition("What is wrong\n")[2].partition("\n\n")[0].splitlines()
    assert [re.split("  +", line.strip()) for line in told[1:]] == [
        ["2-342 (341 rows)", "phone", "must be a plus sign followed by digits only, such as +15550100"],
        ["9, 59, 109, … (7 rows)", "first_name", "must be 1 to 255 characters, got 263 (row 9)"],
        [
            "337-342 (6 rows)",
            "email",
            "is the same as in row 2, but must identify the row: remove one (row 337)",
        ],
    ]
    found = {row["row"]: row for row in imports.report("r.csv")}
    assert len(found) == 341 and {row["outcome"] for row in found.values()} == {"invalid"}
    assert found["9"]["message"].startswith("first_name: must be 1 to 255 characters, got 263; phone: must be")
    assert found["342"]["message"].endswith("is the same as in row 7, but must identify the row: remove one")


def test_two_rows_of_one_address_are_pointed_out(imports: Import) -> None:
    """They may be two agents, so nothing is held back."""
    imports.write(NUMBERED + "1,a@example.com,A,B\n2,c@example.com,A,B\n3,A@Example.com,A,B\n4,a@example.com,A,B\n")
    done = imports.dry("--key", "Number", "--report", "r.csv")
    assert (
        "Worth a look\n  Rows  Column  Problem\n  4-5   email   is the same as in row 2: remove one, unless they are two agents\n\n4 rows can be sent, 0 cannot\n"
    ) in done.shown
    assert done.code == 0 and "the same as in row 2: remove one" in (imports.folder / "r.csv").read_text()
    assert imports("--key", "Number").code == 0
    assert len(imports.sandbox.agents) == 4


def test_what_a_column_may_be_is_a_hint(imports: Import) -> None:
    """No column is mapped to a field because of a guess."""
    imports.write("E-Mail;Surname;Mobile Phone;Phone 2;first name;Vorname;DOB\na@example.com;B;+1;+2;A;;\n")
    done = imports.dry()
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
        "dealkit: agents.csv: no column holds email or last_name, which every agent needs. Name the column: "
        '--map "E-Mail=email" --map "Surname=last_name"\n'
    )


def test_agents_are_created_as_the_table_says(imports: Import) -> None:
    imports.write(TABLE)
    maps = ["E-mail=email", "Tier=profile.tier", "Notes=profile.client_metadata.notes"]
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


def test_the_ledger_knows_what_its_keys_are_called(imports: Import) -> None:
    """With another column as the key it would recognise nobody, and create everybody again."""
    imports.write("Number,E-mail,first_name,last_name\n1,a@example.com,A,B\n2,b@example.com,A,B\n")
    mapped = ["--map", "E-mail=email"]
    for folder in ("one", "two"):
        (imports.folder / folder).mkdir()
    cases = [("one/l1.ledger", [], "email", ["--key", "Number"]), ("two/l2.ledger", ["--key", "Number"], "Number", [])]
    for ledger, options, name, others in cases:
        assert imports(*mapped, *options, "--ledger", ledger).code == 0
        assert show(imports.folder / ledger).key == name
        imports.sandbox.clear_requests()
        for dry in (["--dry-run"], []):
            done = imports(*mapped, *others, "--ledger", ledger, *dry)
            assert done.code == 2 and f'its keys are called "{name}", but those used here are called "' in done.told
            assert done.told.endswith(
                "\n--key selects the column with the keys. If it is still the same column, give it its old name.\n"
            )
        assert not imports.sandbox.requests
    # Keys are identified by their field: tables name their columns as they like.
    imports.write("email,first_name,last_name\na@example.com,A,B\n")
    done = imports("--ledger", "one/l1.ledger")
    assert (done.code, "(1 in an earlier run)" in done.shown) == (0, True)
    assert "l1.ledger already has 1 of them, which is not sent again: 1 created\n" in done.shown


FIELDS = b"email,first_name,last_name\n"


@pytest.mark.parametrize(
    ("content", "options", "told"),
    [
        (b"", [], "agents.csv: the first row is empty; it must contain the column names"),
        (b"a,b\n1,2\n", [], '--map "COLUMN=email" --map "COLUMN=first_name" --map "COLUMN=last_name"'),
        (b'sep=;\nemail,first_name,last_name\n"a,b,c\n', [], "line 3 is not valid CSV"),
        (FIELDS + b"\xe9,b,c\n", [], 'line 2 is not UTF-8; in a spreadsheet, save it as "CSV UTF-8"'),
        (FIELDS + b'"a,b,c\n', [], "line 2 is not valid CSV"),
        (b"PK\x03\x04...", [], 'is an .xlsx or .zip file, not text; in a spreadsheet, save it as "CSV UTF-8"'),
        (b"email,Email,first_name,last_name\n", [], "2 columns go to email: email, Email. Only one may"),
        (b"e\x00m\x00", [], "is not text in UTF-8"),
        (FIELDS, ["--map", "x"], '--map takes a column and a field, as in --map "E-mail=email"'),
        (FIELDS, ["--map", "x=email"], "--map: there is no column x"),
        (FIELDS, ["--map", "email=mail"], "--map: mail is not a field of an agent. Did you mean email?"),
        (
            b"E-Mail,first_name,last_name\n",
            ["--map", "E-Mail=email", "--map", "E-Mail=phone"],
            "--map: column E-Mail cannot go to both email and phone; name one of them",
        ),
        (FIELDS, ["--encoding", "klingon"], "--encoding klingon is not a known encoding"),
        (FIELDS, ["--delimiter", ";;"], "--delimiter must be one character"),
    ],
)
def test_tables_that_cannot_be_used(content: bytes, options: list[str], told: str, imports: Import) -> None:
    (imports.folder / "agents.csv").write_bytes(content)
    done = imports.dry(*options)
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
    encoding: str, delimiter: str, first: str, options: list[str], understood: str, imports: Import
) -> None:
    rows = [["Email", "First Name", "LAST-NAME", "Office ID"], [" zoe@example.com ", "Zoë", "O'Brien; Jr,", "  "]]
    with open(imports.folder / "agents.csv", "w", encoding=encoding, newline="") as file:
        file.write(first)
        csv.writer(file, delimiter=delimiter).writerows(rows)
    done = imports(*options)
    assert done.code == 0 and done.shown.startswith(f"agents.csv: 1 row, {understood}\n"), done
    # Excel does not show the `sep=` line: the header is row 1.
    assert imports.outcomes() == {"2": "created"}
    between = delimiter if delimiter in ",;\t" else ","
    report = (imports.folder / "agents.csv.report.csv").read_text("utf-8-sig")
    assert report.startswith(f"row{between}key{between}")
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
    imports.sandbox.fail_next(delay=2, method="POST")
    process = imports.start()
    report = imports.folder / "agents.csv.report.csv"
    until(report.exists, 60)
    report.unlink()
    report.mkdir()
    done = end(process)
    assert done.code == 4 and "agents.csv.report.csv cannot be written: Is a directory" in done.told
    assert counts(done.shown)["created"] == 30


def test_no_cell_of_a_report_is_a_formula(imports: Import) -> None:
    """Keys are settled as they were all the same."""
    keys = ["=HYPERLINK(1)", "+15550100", "-1", "@x", "'=1", "'quoted"]
    rows = "".join(f"a{at}@example.com,A,B,{key}\n" for at, key in enumerate(keys))
    imports.write(f"email,first_name,last_name,profile.external_id\n{rows}")
    imports.sandbox.fail_next(cut="before-head", times=None, method="POST")
    for _ in range(2):
        imports("--concurrency", "1")
    assert [row["key"] for row in imports.report()] == [*(f"'{key}" for key in keys[:-1]), "'quoted"]
    imports.fill_in({"2": "a_100", "3": "a_101", "4": "a_102", "5": "a_103", "6": "a_104"})
    settle = ["ledger", "settle", imports.ledger(), "agents.csv.report.csv"]
    assert "With agent     5\n" in imports.command(*settle, "--yes").shown


@pytest.mark.parametrize(
    "fault", [{"status": 422}, {"status": 500}, {"act_then_reset": True}, {"cut": "after-bytes:9"}], ids=str
)
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


def test_what_an_office_has_is_read_as_the_dry_run_proposes(imports: Import) -> None:
    (imports.folder / "agents.csv").write_text(office(506), encoding="cp1252")
    options = ["--encoding", "cp1252", *(part for one in MAPS for part in ("--map", one))]
    before = json.loads(imports.dry(*options, "--json").shown)
    assert before["counts"] == {"rows": 506, "sendable": 143, "invalid": 363, "to_send": 143}
    assert {one["column"]: len(one["rows"]) for one in before["errors"]}["Geburtsdatum"] == 241
    proposed = before["proposed"]["options"]
    assert proposed[:6] == ["--date-format", "%d.%m.%Y", "--date-format", "%d.%m.%y", "--phone-country", "DE"]
    assert {"role:agent=AGENT", "role:Makler=AGENT", "phone:k.A.=", "date_of_birth:k.A.="} <= {*proposed}
    after = json.loads(imports.dry(*options, *proposed, "--json").shown)
    # What is left is for people: addresses, years, and cells with two phone numbers.
    assert after["counts"]["sendable"] == before["proposed"]["sendable"] == 481 and "proposed" not in after
    assert imports(*options, *proposed).code == 1
    sent = [agent.sent for agent in imports.sandbox.agents]
    assert len(sent) == 481 and all(re.fullmatch(r"\+49\d+", one["phone"]) for one in sent if "phone" in one)
    assert all("1950" <= one["date_of_birth"][:4] < "2005" for one in sent if "date_of_birth" in one)


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
        (",none,", ["--value", "phone:none="], {}),
        (",,Makler", ["--value", "role:Makler=AGENT", "--set", "role=ADMIN"], {"role": "AGENT"}),
        (",,", ["--set", "Role=ADMIN"], {"role": "ADMIN"}),
        ("31.12.1990,,", ["--date-format", "%d.%m."], "--date-format must have a day, a month and a year"),
        (",1,", ["--phone-country", "Germany"], "--phone-country must be a country's code of two letters, such as DE"),
        (",,x", ["--value", "role=x"], "--value takes a field, what the table has, and the value, as in"),
        (",,x", ["--set", "rolle=x"], "--set: rolle is not a field of an agent. Did you mean role?"),
        (",,x", ["--set", "role"], "--set takes a field and a value, as in --set role=AGENT"),
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


def test_dates_that_may_be_either_are_left_to_people(imports: Import) -> None:
    imports.write(f"{HEAD}a@example.com,A,B,01/02/1990,0301,\n")
    shown = imports.dry().shown
    assert "The dates may be %d/%m/%Y or %m/%d/%Y: --date-format says which.\n" in shown and "With these" not in shown
