"""`dealkit agents import` with an office's tables: header, columns, settings, preview, corrected rows, workbooks."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from commands import CommandResult, TableImport, parse_counts
from workbooks import create_workbook, load_sheet

HEADER = "Email,First Name,Last Name"


def write_csv(imports: TableImport, *lines: str, encoding: str = "utf-8") -> None:
    (imports.folder / "agents.csv").write_text("\n".join(lines) + "\n", encoding=encoding)


def write_workbook(path: Path, rows: Sequence[Sequence[object]], *other_sheets: str) -> None:
    workbook = create_workbook()
    workbook.active.title = "Agents"
    for row in rows:
        workbook.active.append(row)
    for name in other_sheets:
        workbook.create_sheet(name).append(["City", "Country"])
    workbook.save(path)


def read_sheet(path: Path) -> list[list[Any]]:
    return [[cell.value for cell in row] for row in load_sheet(path)]


def next_command(completed: CommandResult) -> list[str]:
    """Returns the arguments of the command in the last line of a dry run."""
    name, *arguments = shlex.split(completed.stdout.splitlines()[-1])
    assert name == "dealkit"
    return arguments


def run_next(imports: TableImport, completed: CommandResult) -> CommandResult:
    return imports.command(*next_command(completed), "--yes", url=imports.sandbox.url)


def sent_bodies(imports: TableImport) -> list[dict[str, Any]]:
    return [dict(agent.sent) for agent in imports.sandbox.agents]


def test_the_header_is_found_below_titles(imports: TableImport) -> None:
    write_csv(imports, "Sunrise Realty; agents", "", f"{HEADER},City", "a@example.com,Ada,Lovelace,London")
    completed = imports.dry()
    assert "Row 3 has the column names. The rows above are skipped." in completed.stdout
    assert run_next(imports, completed).code == 0
    assert imports.outcomes() == {"4": "created"}


def test_column_names_in_two_rows_are_joined(imports: TableImport) -> None:
    lines = ["Roster,,", "First,Last,E-mail", "name,name,(work)", "Ada,Lovelace,a@example.com"]
    write_csv(imports, *lines)
    completed = imports.dry()
    assert "Rows 2 and 3 have the column names." in completed.stdout and "E-mail (work)  email" in completed.stdout
    assert imports().code == 0 and imports.outcomes() == {"4": "created"}


def test_the_user_sets_the_header_row(imports: TableImport) -> None:
    write_csv(imports, f"{HEADER},x", "Mail,Vor,Nach,", "a@example.com,Ada,Lovelace,")
    options = ["--header-row", "2", "--map", "Mail=email", "--map", "Vor=first_name", "--map", "Nach=last_name"]
    completed = imports.dry(*options)
    assert next_command(completed)[3:] == options
    assert imports(*options).code == 0 and imports.outcomes() == {"3": "created"}
    for wrong in ("0", "x", "2-4", "9"):
        completed = imports.dry("--header-row", wrong)
        assert completed.code == 2 and "--header-row" in completed.stderr


def test_rows_that_are_not_people_are_never_sent(imports: TableImport) -> None:
    people = [
        "a@example.com,Ada,Lovelace",
        "b@example.com,Grand,Total",
        "Downtown office,,",
        "c@example.com,Mary,Jackson",
    ]
    write_csv(imports, HEADER, *people, HEADER, "Total,3,", "Exported on 2026-03-01,,")
    completed = imports.dry("--report", "r.csv")
    worth_a_look = completed.stdout.partition("Worth a look: skipped, and not sent\n")[2]
    assert "4, 8  has only one cell, as titles and notes have\n" in worth_a_look
    assert "6     repeats the column names\n" in worth_a_look
    assert "7     seems to be a total\n" in worth_a_look
    assert "Ready           3\nCannot be sent  0\nSkipped         4" in completed.stdout
    completed = imports()
    assert (completed.code, parse_counts(completed.stdout)["created"]) == (0, 3)
    assert not [*imports.folder.glob("*.rejects.*")]


def test_names_in_one_column_are_split_once_the_user_confirms(imports: TableImport) -> None:
    names = ["Ada Lovelace", "Hopper, Grace", "Ludwig van Beethoven", "María José García"]
    write_csv(imports, "Agent Name;Email", *(f"{name};a{at}@example.com" for at, name in enumerate(names)))
    completed = imports()
    assert completed.code == 2 and "Nothing was sent, because these settings need your confirmation" in completed.stderr
    assert "--map 'Agent Name=first_name+last_name'" in completed.stderr and imports.sandbox.agents == []
    completed = imports.dry()
    assert "To confirm:\nThe column Agent Name has first and last names, which are split.\n" in completed.stdout
    completed = run_next(imports, completed)
    assert "To confirm" not in completed.stdout
    assert {(agent.first_name, agent.last_name) for agent in imports.sandbox.agents} == {
        ("Ada", "Lovelace"),
        ("Grace", "Hopper"),
        ("Ludwig", "van Beethoven"),
    }
    # Which of three words are the last name is not certain.
    assert imports.outcomes()["5"] == "invalid"
    write_csv(imports, "Who;Email", "Lovelace Ada;x@example.com")
    assert imports("--map", "Who=last_name+first_name").code == 0
    assert imports.sandbox.agents[-1].first_name == "Ada"


def test_columns_are_ignored_and_named_by_letter(imports: TableImport) -> None:
    write_csv(imports, f"{HEADER},Phone,Phone,Role", "a@example.com,Ada,Lovelace,+15550100,+15550101,Queen")
    completed = imports()
    assert completed.code == 2 and "of the columns that fit, Phone (column D) is used for phone" in completed.stderr
    completed = imports("--map", "column E=phone", "--ignore", "role")
    assert (
        completed.code == 0
        and "Not sent: Phone (column D) (phone comes from Phone (column E)), Role (ignored)\n" in completed.stdout
    )
    assert sent_bodies(imports)[0]["phone"] == "+15550101" and "role" not in sent_bodies(imports)[0]
    for options, message in [
        (["--ignore", "Rolle"], "--ignore: there is no column Rolle. Did you mean Role?"),
        (
            ["--ignore", "Phone"],
            '2 columns are named Phone; use the letter of one of them, as in a spreadsheet: "column D", "column E"',
        ),
        (["--map", "Role=role", "--ignore", "Role"], "--map and --ignore both name the column Role"),
    ]:
        completed = imports.dry(*options)
        assert completed.code == 2 and message in completed.stderr


def test_the_better_of_several_columns_is_used(imports: TableImport) -> None:
    header = "Work Phone,Home Phone,Mobile,Office Phone,Spouse Email,Email,First Name,Last Name"
    write_csv(imports, header, "+15550110,+15550111,+15550112,+15550113,s@example.com,a@example.com,Ada,Lovelace")
    completed = imports()
    assert (
        "Not sent: Work Phone (phone comes from Mobile), Home Phone (phone comes from Mobile), Office Phone, Spouse Email\n"
    ) in completed.stdout
    assert (
        "Mobile is used for phone. If another column is right, add its option:\n  --map 'Work Phone=phone'\n"
        in imports.dry().stdout
    )
    assert [(body["email"], body["phone"]) for body in sent_bodies(imports)] == [("a@example.com", "+15550112")]


ROLE_TABLE = [f"{HEADER},Position,Birthday,Mobile"] + [
    f"a{at}@example.com,Ada,L{at},{role},{month:02}/{at + 1:02}/1980,(212) 736-50{at:02}"
    for at, (role, month) in enumerate([("Realtor", 3), (" realtor ", 4), ("Office-Admin", 5), ("agent", 6)] * 4)
]


def test_a_mapping_file_makes_the_second_import_one_command(imports: TableImport) -> None:
    write_csv(imports, *ROLE_TABLE)
    completed = imports.dry("--mapping", "roster.toml")
    assert (
        "These words in the column Position are no roles. In roster.toml, replace the question mark" in completed.stdout
    )
    assert "  Realtor  8 rows\n" in completed.stdout
    assert next_command(completed) == ["agents", "import", "agents.csv", "--mapping", "roster.toml"]
    mapping = imports.folder / "roster.toml"
    text = mapping.read_text()
    assert 'date_formats = ["MM/DD/YYYY"]\nphone_country = "US"\n' in text
    assert '"Realtor" = "?"  # 8 rows\n' in text and '"Mobile" = "phone"\n' in text
    mapping.write_text(text.replace('"?"', '"BROKER_ADMIN"'), encoding="utf-8-sig")
    completed = run_next(imports, completed)
    assert completed.code == 0 and "To decide" not in completed.stdout
    roles = [body["role"] for body in sent_bodies(imports)]
    assert [roles.count(role) for role in ("BROKER_ADMIN", "OFFICE_ADMIN", "AGENT")] == [8, 4, 4]
    bodies = {body["email"]: body for body in sent_bodies(imports)}
    assert (bodies["a5@example.com"]["date_of_birth"], bodies["a5@example.com"]["phone"]) == (
        "1980-04-06",
        "+12127365005",
    )
    # Next week, the table has another column and another title.
    lines = ["Title", *(f"{line},x" for line in ROLE_TABLE), "z@example.com,Zoe,Z,REALTOR,1/2/1981,212-736-5001,x"]
    (imports.folder / "next.csv").write_text("\n".join(lines))
    completed = imports.command(
        "agents", "import", "next.csv", "--mapping", "roster.toml", "--yes", url=imports.sandbox.url
    )
    assert (completed.code, parse_counts(completed.stdout)["created"], len(imports.sandbox.agents)) == (0, 17, 17)
    new = sent_bodies(imports)[-1]
    assert (new["role"], new["date_of_birth"], new["phone"]) == ("BROKER_ADMIN", "1981-01-02", "+12127365001")


def test_a_column_on_the_command_line_replaces_that_of_the_mapping_file(imports: TableImport) -> None:
    write_csv(imports, f"{HEADER},Cell,Work Phone,Agent", "a@example.com,Ada,Lovelace,+15550100,+15550101,Grace Hopper")
    assert imports.dry("--mapping", "roster.toml").code == 0
    for options in (["--map", "Work Phone=phone"], ["--map", "column E=phone", "--map", "Agent=first_name+last_name"]):
        completed = imports.dry("--mapping", "roster.toml", *options)
        assert completed.code == 0 and "Work Phone  phone\n" in completed.stdout
    assert imports("--mapping", "roster.toml").code == 0
    assert [(agent.first_name, agent.last_name) for agent in imports.sandbox.agents] == [("Grace", "Hopper")]
    assert sent_bodies(imports)[0]["phone"] == "+15550101"


@pytest.mark.parametrize(
    ("text", "expected_error"),
    [
        ("x = 1", "roster.toml: there is no setting x; the settings are columns, constants"),
        (
            "columns = 1",
            "roster.toml is not a mapping file: each setting must have the form in which dealkit writes it",
        ),
        ("key = 'x'\nkey = 'y'", "roster.toml cannot be read: "),
        ("[columns]\nEmail = 'mail'", "roster.toml: mail is not a field of an agent. Did you mean email?"),
        ("date_formats = ['DD.MM']", "roster.toml: date_formats must have a day, a month and a year"),
        ("[words.rolle]\na = 'b'", "roster.toml: rolle is not a field"),
        ("header_row = 'x'", "takes the number of the row"),
        ("[words.role]\nBroker = 'ADMN'", "roster.toml: ADMN is no role. The roles are COLLECTIVE_ADMIN, "),
    ],
)
def test_unusable_mapping_files_are_errors(text: str, expected_error: str, imports: TableImport) -> None:
    write_csv(imports, HEADER, "a@example.com,Ada,Lovelace")
    (imports.folder / "roster.toml").write_text(text)
    completed = imports.dry("--mapping", "roster.toml")
    assert completed.code == 2 and expected_error in completed.stderr
    assert (imports.folder / "roster.toml").read_text() == text


def test_a_mapping_file_survives_any_names_and_words(imports: TableImport) -> None:
    names = ['quoted "E-mail"', "back\\slash", "Näme = x", "tab"]
    buffer = io.StringIO()
    csv.writer(buffer).writerows([names, ["a@example.com", "Ada", "Lovelace", "\x7f\u2028'] x"]])
    (imports.folder / "agents.csv").write_text(buffer.getvalue())
    targets = ["email", "first_name", "last_name", "role"]
    options = [part for name, field in zip(names, targets, strict=True) for part in ("--map", f"{name}={field}")]
    assert imports.dry("--mapping", "roster.toml", *options).code == 1
    completed = imports.dry("--mapping", "roster.toml", "--map-value", "role:\x7f\u2028'] x=AGENT")
    assert completed.code == 0 and imports("--mapping", "roster.toml").code == 0


def test_an_uncertain_order_of_day_and_month_is_never_guessed(imports: TableImport) -> None:
    def write(*dates: str) -> None:
        write_csv(imports, f"{HEADER},DOB", *(f"a{at}@example.com,A,B,{text}" for at, text in enumerate(dates)))

    write("01/02/1980", "03/04/1981", "1982-05-06", "7 June 1983")
    completed = imports.dry()
    assert "do not show whether the day or the month comes first" in completed.stdout
    assert "  --date-format DD/MM/YYYY   reads 05/06/1990 as 5 June 1990\n" in completed.stdout
    assert "  --date-format MM/DD/YYYY   reads 06/05/1990 as 5 June 1990\n" in completed.stdout
    assert (
        "2, 3  DOB     may be day and month, or month and day: choose the order with --date-format" in completed.stdout
    )
    completed = imports("--date-format", "DD/MM/YYYY")
    assert completed.code == 0 and "may be day and month" not in completed.stdout
    expected = ["1980-02-01", "1981-04-03", "1982-05-06", "1983-06-07"]
    assert sorted(str(body["date_of_birth"]) for body in sent_bodies(imports)) == expected


def test_dates_that_contradict_the_given_order_make_the_others_unsafe(imports: TableImport) -> None:
    """With the wrong order, only days above 12 are rejected by the rules. The other dates would silently be wrong."""
    days = [f"{month:02}/{day:02}/1980" for month, day in [(1, 2), (3, 4), (5, 31), (6, 30), (7, 29), (8, 9)]]
    write_csv(imports, f"{HEADER},DOB", *(f"a{at}@example.com,A,B,{text}" for at, text in enumerate(days)))
    completed = imports("--date-format", "DD/MM/YYYY")
    assert completed.code == 1 and not imports.sandbox.agents
    assert "cannot be read safely, because other dates, as in row 4, 5, 6, have the opposite order" in completed.stdout
    # The dates themselves show their order.
    assert imports().code == 0
    assert {body["email"]: body["date_of_birth"] for body in sent_bodies(imports)}["a0@example.com"] == "1980-01-02"


def test_two_columns_together_identify_a_row(imports: TableImport) -> None:
    rows = [
        "N|1,1,a@example.com",
        "N,1|1,b@example.com",
        "N,2,c@example.com",
        "M,2,d@example.com",
        "M,2,e@example.com",
        "M,,f@example.com",
    ]
    write_csv(imports, "MLS,License,Email,First Name,Last Name", *(f"{row},Ada,Lovelace" for row in rows))
    key = ["--key", "MLS", "--key", "License"]
    completed = imports(*key)
    assert parse_counts(completed.stdout) == {"created": 3, "rejected": 0, "unknown": 0, "invalid": 3}
    assert "5     MLS + License  is also in row 6, with the same name, but other data" in completed.stdout
    assert "7     License        is empty, but must identify the row: fill it in" in completed.stdout
    assert len({row["key"] for row in imports.report() if row["outcome"] == "created"}) == 3
    completed = imports(*key)
    assert "(0 now, 3 in an earlier run)" in completed.stdout and len(imports.sandbox.agents) == 3
    assert "names the same column twice" in imports.dry("--key", "MLS", "--key", "MLS").stderr


def test_the_command_of_a_dry_run_has_all_settings(imports: TableImport) -> None:
    write_csv(imports, *ROLE_TABLE, "n@example.com,N,N,,n/a,-", encoding="cp1252")
    completed = imports.dry("--map-value", "role:Realtor=AGENT", "--limit", "5")
    assert "Read as empty: - in Mobile (1 row), n/a in Birthday (1 row)." in completed.stdout
    options = next_command(completed)[3:]
    assert options == [
        *("--limit", "5", "--date-format", "MM/DD/YYYY", "--phone-country", "US"),
        *("--map-value", "role:Realtor=AGENT", "--map-value", "phone:-=", "--map-value", "date_of_birth:n/a="),
    ]  # fmt: skip
    completed = imports(*options)
    assert "To decide" not in completed.stdout and "To confirm" not in completed.stdout


def test_a_limit_sends_the_first_rows_only(imports: TableImport) -> None:
    imports.write(8)
    completed = imports.dry("--limit", "3")
    assert "--limit: 5 rows will be left for a later run.\n" in completed.stdout
    completed = imports("--limit", "3")
    assert completed.code == 0
    assert sorted(agent.email for agent in imports.sandbox.agents) == [f"a{at}@example.com" for at in range(3)]
    rest = completed.stdout.splitlines()[-1].split()[1:]
    assert rest == ["agents", "import", "agents.csv"]
    assert imports.report()[7]["message"] == "left for a later run, because of --limit"
    # Rows that were sent before do not count.
    assert imports("--limit", "3").code == 0 and len(imports.sandbox.agents) == 6
    completed = imports.command(*rest, "--yes", url=imports.sandbox.url)
    assert completed.code == 0 and len(imports.sandbox.agents) == 8


def test_corrected_rows_are_imported_from_the_file_with_the_rejects(imports: TableImport) -> None:
    rows = [
        "00123,ada@example.com,Ada,Lovelace,+15550100",
        "00456,grace,Grace,Hopper,+15550101",
        "00789,joan@example.com,Joan,Clarke,",
    ]
    write_csv(imports, "Licenses of 2026", "", "License,Email,First Name,Last Name,Phone", *rows)
    imports.sandbox.fail_next(status=422, method="POST", after=1)
    completed = imports("--key", "License", "--concurrency", "1", "--rejects", "rejects.csv")
    assert parse_counts(completed.stdout) == {"created": 1, "rejected": 1, "unknown": 0, "invalid": 1}
    path = imports.folder / "rejects.csv"
    assert path.stat().st_mode & 0o777 == 0o600
    text = path.read_text("utf-8-sig")
    assert text.splitlines()[0] == "License,Email,First Name,Last Name,Phone,dealkit: reason"
    assert text.splitlines()[1].startswith("'00456,grace,Grace,Hopper,'+15550101,row 5 of agents.csv: Email: has no @")
    command = completed.stdout.split("import it:")[1].splitlines()[1].split()[1:]
    # Without a correction, a row that the service rejected is not sent again.
    completed = imports.command(*command, "--yes", url=imports.sandbox.url)
    assert parse_counts(completed.stdout) == {"created": 0, "rejected": 1, "unknown": 0, "invalid": 1}
    path.write_text(text.replace("grace,", "grace@example.com,").replace("Clarke", "Clark"), "utf-8-sig")
    completed = imports.command(*command, "--yes", url=imports.sandbox.url)
    assert (completed.code, parse_counts(completed.stdout)) == (0, {"created": 2, "rejected": 0, "unknown": 0})
    assert sorted(agent.last_name for agent in imports.sandbox.agents) == ["Clark", "Hopper", "Lovelace"]
    assert "dealkit: reason" not in completed.stdout
    # A file that a person may be correcting is never replaced.
    before = path.read_bytes()
    write_csv(imports, "License,Email,First Name,Last Name", "1,x,A,B")
    for name in ("agents.csv.rejects.xlsx", "agents.csv.rejects-2.xlsx"):
        assert name in imports("--key", "License").stdout
    assert path.read_bytes() == before


def test_a_workbook_is_imported_and_its_rejects_and_report_are_workbooks(imports: TableImport) -> None:
    path = imports.folder / "roster.xlsx"
    header = ["License", "Email", "First Name", "Last Name", "Phone", "Birthday"]
    birthday = date(1980, 2, 1)
    rows = [
        ["00123", "ada@example.com", "Ada", "Lovelace", 15550100, birthday],
        ["00456", "grace", "Grace", "Hopper", "+15550101", None],
    ]
    write_workbook(path, [["Roster"], [], header, *rows, ["Total", 2]])
    command = ["agents", "import", "roster.xlsx", "--key", "License", "--map-value", "phone:15550100=+15550100"]
    completed = imports.command(*command, "--yes", url=imports.sandbox.url)
    assert parse_counts(completed.stdout) == {"created": 1, "rejected": 0, "unknown": 0, "invalid": 1}
    assert sent_bodies(imports)[0] | {"profile": {}} == {
        "email": "ada@example.com", "first_name": "Ada", "last_name": "Lovelace", "phone": "+15550100",
        "date_of_birth": "1980-02-01", "profile": {},
    }  # fmt: skip
    report = read_sheet(imports.folder / "roster.xlsx.report.xlsx")
    assert [row[:3] for row in report] == [
        ["row", "key", "outcome"],
        [4, "00123", "created"],
        [5, "00456", "invalid"],
        [6, None, "skipped"],
    ]
    rejects = imports.folder / "roster.xlsx.rejects.xlsx"
    sheet = load_sheet(rejects)
    assert sheet.title == "Agents" and sheet["A2"].value == "00456"
    sheet["B2"] = "grace@example.com"
    sheet.parent.save(rejects)
    retry = completed.stdout.split("import it:")[1].splitlines()[1]
    completed = imports.command(*shlex.split(retry)[1:], "--yes", url=imports.sandbox.url)
    assert completed.code == 0 and [agent.email for agent in imports.sandbox.agents] == [
        "ada@example.com",
        "grace@example.com",
    ]


def test_the_report_in_a_workbook_resolves_rows(imports: TableImport) -> None:
    write_workbook(imports.folder / "roster.xlsx", [HEADER.split(","), ["'00@example.com", "Ada", "Lovelace"]])
    imports.sandbox.fail_next(cut="before-head", times=None, method="POST")
    command = ["agents", "import", "roster.xlsx"]
    assert parse_counts(imports.command(*command, "--yes", url=imports.sandbox.url).stdout)["unknown"] == 1
    path = imports.folder / "roster.xlsx.report.xlsx"
    sheet = load_sheet(path)
    sheet["D2"] = "none"
    sheet.parent.save(path)
    completed = imports.command("ledger", "resolve", imports.ledger(), path.name, "--yes")
    assert completed.stdout.startswith("1 row recorded")
    imports.sandbox.clear_faults()
    assert imports.command(*command, "--yes", url=imports.sandbox.url).code == 0


def test_the_sheet_is_chosen_by_the_user(imports: TableImport) -> None:
    write_workbook(imports.folder / "agents.csv", [HEADER.split(","), ["a@example.com", "Ada", "Lovelace"]], "Offices")
    completed = imports()
    assert (
        completed.code == 2
        and 'Name it with --sheet, as in --sheet "Agents".\n  Agents\n  Offices\n' in completed.stderr
    )
    # A dry run without a terminal suggests the sheet whose columns are known.
    completed = imports.dry()
    assert "Of several sheets, Agents is read, because its column names fit best.\n" in completed.stdout
    assert next_command(completed)[3:] == ["--sheet", "Agents"]
    with imports.on_a_terminal() as terminal:
        terminal.wait_for("Enter a number from 1 to 2: ")
        terminal.enter("1\n")
        terminal.wait_for("Create 1 agent at")
        terminal.enter("y\n")
        assert terminal.end() == 0
    write_csv(imports, HEADER)
    assert "--sheet is for Excel workbooks, and agents.csv is none" in imports.dry("--sheet", "Agents").stderr


def test_a_table_in_windows_encoding_is_read_once_the_user_confirms(imports: TableImport) -> None:
    write_csv(imports, "E-Mail;Vorname;Name", "kurt@example.com;Kurt;Gödel", encoding="cp1252")
    completed = imports()
    assert completed.code == 2 and "--encoding cp1252" in completed.stderr
    completed = imports.dry()
    assert "is read as cp1252, the usual encoding of Windows: check the accents." in completed.stdout
    assert run_next(imports, completed).code == 0 and imports.sandbox.agents[0].last_name == "Gödel"


def test_values_of_rows_are_shown_to_a_person_only(imports: TableImport) -> None:
    write_csv(imports, f"{HEADER},Role", "canary@example.com,Ada,Lovelace,Canary Word")
    assert "canary@example.com" in imports.dry("--ignore", "Role").stdout and "Canary Word" in imports.dry().stdout
    for options in (["--yes"], ["--json", "--dry-run"]):
        completed = imports.command("agents", "import", "agents.csv", *options, url=imports.sandbox.url)
        assert "canary" not in (completed.stdout + completed.stderr).casefold()


def test_an_id_that_many_rows_share_is_not_sent(imports: TableImport) -> None:
    write_csv(imports, f"{HEADER},External ID", *(f"a{at}@example.com,Ada,L{at},X-1" for at in range(6)))
    completed = imports()
    assert completed.code == 0 and "Not sent: External ID (has the same value in many rows)\n" in completed.stdout
    assert all(body["profile"] == {} for body in sent_bodies(imports))


def test_dates_in_both_orders_are_reported_as_a_contradiction(imports: TableImport) -> None:
    dates = ["01/02/1980", "31/01/1980", "30/01/1980", "01/30/1980"]
    write_csv(imports, f"{HEADER},DOB", *(f"a{at}@example.com,A,B{at},{text}" for at, text in enumerate(dates)))
    completed = imports.dry()
    assert "The dates in DOB contradict each other (2 rows and 1 row, such as row 5)." in completed.stdout


def test_the_fuller_of_two_columns_is_used(imports: TableImport) -> None:
    lines = [f"a{at}@example.com,A,B{at},{'Boss' if at == 0 else ''},Agent" for at in range(6)]
    write_csv(imports, f"{HEADER},Job Title,Member Type", *lines)
    completed = imports.dry()
    assert (
        "Member Type is used for role. If another column is right, add its option:\n  --map 'Job Title=role'\n"
        in completed.stdout
    )
    assert imports().code == 0 and sent_bodies(imports)[0]["role"] == "AGENT"


def test_an_import_without_answers_sends_nothing_and_writes_no_rejects(imports: TableImport) -> None:
    write_csv(imports, f"{HEADER},Role", "a@example.com,Ada,Lovelace,Realtor")
    completed = imports("--mapping", "roster.toml")
    assert completed.code == 1 and "Nothing was sent: first answer the questions of a dry run" in completed.stdout
    assert not [*imports.folder.glob("*.rejects.*")] and imports.sandbox.agents == []
    assert '"Realtor" = "?"' in (imports.folder / "roster.toml").read_text()
