"""The command `dealkit agents import` stopped, killed and repeated: nobody is created twice, and nobody is forgotten."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import re
import select
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from commands import Import, counts, end, start, until_told
from processes import HANGS, until

from dealkit import APIConnectionError, Creation
from dealkit._cli.creates import _word
from dealkit.ledger import summary
from dealkit.testing import Sandbox

# A table of so many agents, of which the first are created at once, and the others once the sandbox no longer holds them.
ROWS, AT_ONCE = 60, 20


def let_go(sandbox: Sandbox) -> None:
    """Holds no further responses, and releases those that are held."""
    sandbox.clear_faults()
    sandbox.release()


def once_each(imports: Import) -> int:
    """How many agents there are, of which none is there twice."""
    emails = [agent.email for agent in imports.sandbox.agents]
    assert len(emails) == len({*emails})
    return len(emails)


def assert_all_are_recorded(imports: Import) -> None:
    """Asserts that the report of a stopped import has the outcome of each row that was sent."""
    found = [*imports.outcomes().values()]
    assert found.count("created") == len(imports.sandbox.agents) >= AT_ONCE
    assert not {"unknown", "running"} & {*found}


@contextlib.contextmanager
def full_pipe() -> Iterator[int]:
    """A pipe that takes no more, and that is not read."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writer, bytes(select.PIPE_BUF))
    os.set_blocking(writer, True)
    try:
        yield writer
    finally:
        os.close(reader)
        os.close(writer)


def test_a_second_run_creates_nobody_twice(imports: Import) -> None:
    imports.write(5)
    sandbox = imports.sandbox
    sandbox.fail_next(status=422, after=1, method="POST")
    sandbox.fail_next(process_then_reset=True, after=2, method="POST")
    options = ["--ledger", "import.ledger", "--report", "report.csv", "--concurrency", "1"]
    done = imports(*options)
    assert (done.code, counts(done.shown)) == (1, {"created": 3, "rejected": 1, "unknown": 1})
    found = imports.outcomes("report.csv")
    assert sorted(found) == ["2", "3", "4", "5", "6"]
    assert sorted(found.values()) == ["created", "created", "created", "rejected", "unknown"]
    assert len(sandbox.agents) == 4
    assert "import.ledger records this: repeating the command creates no agent twice." in done.shown
    assert b"example.com" not in (imports.folder / "import.ledger").read_bytes()

    # One row more; the rest is unchanged.
    imports.write(6)
    done = imports(*options)
    assert (done.code, counts(done.shown)) == (1, {"created": 4, "rejected": 1, "unknown": 1})
    assert "(3 in an earlier run)" in done.shown
    assert len(sandbox.agents) == 5

    done = imports(*options, "--resend-unknown")
    assert counts(done.shown) == {"created": 5, "rejected": 1, "unknown": 0}
    assert len(sandbox.agents) == 6, "as its user wanted it, one of them twice"


def test_keys_that_a_spreadsheet_has_changed_create_nobody_twice_with_yes(imports: Import) -> None:
    def write(*rows: tuple[str, str]) -> None:
        lines = [f"{key},{name}@example.com,{name},Example\n" for key, name in rows]
        (imports.folder / "agents.csv").write_text("profile.external_id,email,first_name,last_name\n" + "".join(lines))

    write(("00123", "ada"), ("B\u00e9", "grace"))
    assert imports().code == 0
    # Invisible characters and another form of a letter are no other key.
    write(("\ufeff00\u200b123", "ada"), ("Be\u0301\u00ad", "grace"))
    done = imports()
    assert (done.code, len(imports.sandbox.agents)) == (0, 2)
    write(("123", "Ada"), ("B\u00e9", "grace"), ("5", "joan"))
    done = imports.command("agents", "import", "agents.csv", "--dry-run", url=imports.sandbox.url)
    assert done.code == 0 and "knows the e-mail address, but not the key (row 2)" in done.shown
    done = imports()
    assert "nothing was sent: --yes cannot confirm that the rows with other keys" in done.told
    assert len(imports.sandbox.agents) == 2


def test_a_row_that_has_changed_since_its_agent_was_created(imports: Import) -> None:
    def write(phone: str, name: str) -> None:
        (imports.folder / "agents.csv").write_text(
            "email,first_name,last_name,phone\n"
            f"ada@example.com,Ada,Lovelace,{phone}\ngrace@example.com,{name},Hopper,+4915100000013\njoan@example.com,Joan,C,\n"
        )

    options = ["--report", "report.csv"]
    write("+4915100000012", "Grace")
    imports.sandbox.fail_next(
        status=422,
        after=2,
        method="POST",
        body={
            "title": "No such office",
            "errors": [{"pointer": "/profile/officeId", "code": "unknown_office", "detail": "x"}],
        },
    )
    assert imports(*options, "--concurrency", "1").code == 1
    write("+4915100000099", "")
    done = imports(*options)
    report = (imports.folder / "report.csv").read_text()
    assert "1 row changed since an earlier run sent it: this change is not sent (row 2)" in done.shown
    by_row = {line.split(",")[0]: line for line in report.splitlines()}
    assert ",created," in by_row["2"] and "this change is not sent" in by_row["2"]
    assert ",created," in by_row["3"] and "the row has become invalid, and nothing was sent" in by_row["3"]
    # The reason of a rejection is not lost, and advice is about rows that there are.
    assert ",rejected," in by_row["4"] and "No such office: unknown_office" in by_row["4"]
    assert "enter none in the report's column agent_id once the row is corrected" in done.shown
    assert "unknown rows" not in done.shown and len(imports.sandbox.agents) == 2


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_while_the_last_output_waits_for_its_reader(imports: Import, number: int, code: int) -> None:
    imports.write(1)
    before = f"""
import os
import dealkit._cli as cli
wait = cli.wait_for_reader
def interrupted(stream):
    for _ in range(2):
        os.kill(os.getpid(), {int(number)})
    wait(stream)
cli.wait_for_reader = interrupted
"""
    arguments = ["agents", "import", "agents.csv", "--dry-run"]
    done = end(start(*arguments, url=imports.sandbox.url, cwd=imports.folder, before=before))
    assert (done.code, "Traceback" in done.told) == (code, False)


def test_a_row_that_was_cancelled_before_it_was_sent_again_is_not_sent() -> None:
    """The service rejected it, but the ledger does not have that, and the next run sends it."""
    error = APIConnectionError("cancelled", kind="cancelled", outcome="rejected")
    assert _word(Creation(index=0, error=error)) == "not sent"


def test_a_ledger_that_was_lost_with_unknown_rows(imports: Import) -> None:
    imports.write(2)
    imports.sandbox.fail_next(process_then_reset=True, times=2, method="POST")
    assert imports().code == 1
    (imports.folder / imports.ledger()).unlink()
    done = imports()
    assert "says that 2 of these rows were created, or may have been" in done.shown
    assert done.code == 2 and len(imports.sandbox.agents) == 2


def test_a_backup_is_made_while_an_import_is_running(imports: Import) -> None:
    imports.write(3)
    imports.sandbox.fail_next(hold=True, after=1, method="POST")
    process = imports.start("--ledger", "l.ledger")
    imports.sandbox.wait_for(held=True, timeout=HANGS)
    done = imports.command("ledger", "backup", "l.ledger", "copy.ledger")
    assert done.code == 0 and "copy.ledger is a copy of l.ledger" in done.shown
    imports.sandbox.release()
    assert end(process).code == 0
    copy = summary(imports.folder / "copy.ledger")
    assert copy.succeeded + len(copy.unresolved) == 3 and copy.unresolved
    done = imports.command("ledger", "backup", "l.ledger", "copy.ledger")
    assert done.code != 0 and "already a file" in done.told


def test_a_table_of_another_name_creates_nobody_twice(imports: Import) -> None:
    """Without --ledger, there is one beside the table."""
    imports.write(3)
    for _ in range(2):
        done = imports()
        assert (done.code, counts(done.shown)["created"], len(imports.sandbox.agents)) == (0, 3, 3)
    assert (imports.folder / imports.ledger()).exists()
    imports.write(4)
    (imports.folder / "agents.csv").rename(imports.folder / "agents-corrected.csv")
    corrected = ["agents", "import", "agents-corrected.csv"]
    said = f"{imports.ledger()} already has 3 of them, not to be sent again: 3 created\n"
    done = imports.command(*corrected, "--dry-run", url=imports.sandbox.url)
    assert (done.code, said in done.shown) == (0, True)
    done = imports.command(*corrected, "--yes", url=imports.sandbox.url)
    assert (done.code, counts(done.shown)["created"], len(imports.sandbox.agents)) == (0, 4, 4)


def test_two_imports_at_once_and_what_is_left_when_one_is_killed(imports: Import) -> None:
    imports.write(6)
    imports.sandbox.fail_next(hold=True, after=1, method="POST")
    process = imports.start("--concurrency", "2")
    imports.sandbox.wait_for(held=True, timeout=HANGS)
    until(lambda: summary(imports.folder / imports.ledger()).succeeded == 5)
    done = imports()
    assert done.code == 1 and counts(done.shown) == {"created": 5, "rejected": 0, "unknown": 0}
    assert "In progress elsewhere  1  another import is sending them" in done.shown and "resolve" not in done.shown
    process.kill()
    assert end(process).code == -signal.SIGKILL
    done = imports()
    assert done.code == 1 and counts(done.shown) == {"created": 5, "rejected": 0, "unknown": 1}
    assert "ledger resolve" in done.shown and once_each(imports) == 5


def test_what_another_ledger_knows_is_said_before_anything_is_sent(imports: Import) -> None:
    """The service may have another address now, or the ledger may be of a sandbox: only people know."""
    imports.write(3)
    with Sandbox() as old:
        assert imports("--key", "email", into=old).code == 0
    imports.write(4)
    other = imports.ledger(old)
    said = f"{other}, another ledger, has 3 of these rows. This import does not use it, so it would send "
    advice = f"use it: add --ledger {other}. If they were created at another service, such as a sandbox, these rows are"
    for options in ([], ["--key", "profile.external_id"], ["--ledger", "new.ledger"]):
        done = imports(*options, "--dry-run", yes=False)
        assert (done.code, said in done.shown) == (0, True)
        done = imports(*options)
        assert done.code == 2 and said in done.shown and advice in done.shown and "leave out --yes" in done.told
    assert imports.sandbox.agents == []
    # As advised: the ledger is of another address, so whoever obeys is asked what is the case.
    done = imports("--ledger", other, "--key", "email")
    assert done.code == 2 and "different service, leave out --ledger" in done.told
    with imports.on_a_terminal() as terminal:
        terminal.wait_for("Create 4 agents")
        assert said in terminal.screen
        terminal.enter("y\n")
        assert terminal.end() == 0
    assert len(imports.sandbox.agents) == 4


def test_a_dry_run_says_what_the_ledger_has(imports: Import) -> None:
    imports.write(3)
    imports.sandbox.fail_next(process_then_reset=True, method="POST")
    imports.sandbox.fail_next(status=422, method="POST")
    imports("--concurrency", "1")
    imports.write(5)
    ledger = imports.folder / imports.ledger()
    before = ledger.read_bytes()
    done = imports.dry("--report", "dry.csv", url=imports.sandbox.url)
    assert (
        "5 rows can be sent, 0 cannot\n"
        f"{ledger.name} already has 3 of them, not to be sent again: 1 created, 1 rejected, 1 unknown\n"
    ) in done.shown
    assert ledger.read_bytes() == before
    found = imports.report("dry.csv")
    assert [(row["outcome"], row["earlier_run"], row["status"]) for row in found] == [
        ("unknown", "yes", ""),
        ("rejected", "yes", "422"),
        ("created", "yes", ""),
        ("not sent", "", ""),
        ("not sent", "", ""),
    ]
    assert found[2]["agent_id"] == imports.sandbox.agents[1].id
    done = imports.dry("--resend-unknown", url=imports.sandbox.url)
    assert " already has 2 of them, not to be sent again: 1 created, 1 rejected\n" in done.shown


def test_rows_that_were_looked_up_are_resolved(imports: Import) -> None:
    imports.write(5)
    sandbox = imports.sandbox
    sandbox.fail_next(process_then_reset=True, method="POST")
    sandbox.fail_next(cut="before-head", method="POST", times=2)
    sandbox.fail_next(status=422, method="POST")
    done = imports("--concurrency", "1")
    assert counts(done.shown) == {"created": 1, "rejected": 1, "unknown": 3}
    resolve, again = (line.split()[1:] for line in done.shown.splitlines()[-2:])
    ledger = imports.ledger()
    assert resolve == ["ledger", "resolve", ledger, "agents.csv.report.csv"]
    shown = imports.command("ledger", "show", ledger).shown
    assert f"{ledger}: the ledger of {sandbox.url}, by profile.external_id" in shown
    assert (
        re.search("  rejected +1\n", shown) and re.search("  unknown +3\n", shown) and "Nobody knows whether" in shown
    )
    told = json.loads(imports.command("ledger", "show", ledger, "--json").shown)
    assert (told["counts"]["created"], told["counts"]["unknown"], len(told["unresolved"])) == (1, 3, 3)

    none = "0 rows resolved. The next import sends those without an agent.\n"
    assert imports.command(*resolve) == (0, none, "")
    # The rows looked up so far; the ledger is told later.
    there = {agent.email: agent.id for agent in sandbox.agents}
    imports.fill_in({"2": there["a0@example.com"], "3": "None"})
    assert imports.command(*again, url=sandbox.url).code == 1
    assert [row["agent_id"] for row in imports.report()][:3] == [there["a0@example.com"], "None", ""], "it is kept"

    done = imports.command(*resolve, key="")
    assert done.code == 2 and "nobody can be asked to confirm this" in done.told
    done = imports.command(*resolve, "--yes", "--json", key="")
    assert (done.code, json.loads(done.shown)["counts"]) == (0, {"resolved": 2, "unchanged": 3})
    imports.fill_in({"4": "none", "5": "none"})
    for _ in range(2):
        assert imports.command(*resolve, "--yes").code == 0, "what it has by now is passed over"

    done = imports.command(*again, url=sandbox.url)
    assert (done.code, counts(done.shown)["created"]) == (0, 5)
    assert sorted(agent.email or "" for agent in sandbox.agents) == [f"a{at}@example.com" for at in range(5)]
    assert sorted(row["agent_id"] for row in imports.report()) == sorted(agent.id for agent in sandbox.agents)


def test_a_report_that_excel_saved_in_the_code_page_of_windows(imports: Import) -> None:
    imports.write("email,first_name,last_name,profile.external_id\na@example.com,J,M,Jürgen Müller\n")
    imports.sandbox.fail_next(cut="before-head", method="POST")
    imports("--concurrency", "1")
    imports.fill_in({"2": "none"}, encoding="cp1252")
    resolve = ("ledger", "resolve", imports.ledger(), "agents.csv.report.csv")
    assert imports.command(*resolve, "--yes").shown.startswith("1 row resolved")
    # The next run reads it, too.
    assert counts(imports().shown) == {"created": 1, "rejected": 0, "unknown": 0}
    imports.fill_in({}, encoding="cp1252")
    done = imports.command(*resolve, "--yes", "--encoding", "utf-8")
    assert done.code == 2 and "is not UTF-8" in done.told


def opened_in_excel(cell: str) -> str:
    """A cell of a CSV file as Excel saves it."""
    if re.fullmatch(r"\d+", cell):
        return f"{int(cell):.5E}" if len(cell.lstrip("0")) > 11 else str(int(cell))
    if re.fullmatch(r"[\d.]+([eE][+-]?\d+)?", cell):
        return f"{float(cell):.2E}" if "e" in cell.lower() else f"{float(cell):g}"
    return {"1-2": "02-Jan", "SEPT2": "02-Sep", "true": "TRUE"}.get(cell, cell)


def test_keys_survive_a_spreadsheet_that_opens_and_saves_the_report(imports: Import) -> None:
    keys = ["00123", "1E5", "123456789012345678", "1.50", "1-2", "SEPT2", "true", "'007", "123", "crm-17"]
    assert sum(opened_in_excel(key) != key for key in keys) == 7
    rows = "".join(f"a{at}@example.com,A,B,{key}\n" for at, key in enumerate(keys))
    imports.write(f"email,first_name,last_name,profile.external_id\n{rows}")
    imports.sandbox.fail_next(process_then_reset=True, times=None, method="POST")
    for _ in range(3):
        imports("--concurrency", "1")
    imports.sandbox.clear_faults()
    path = imports.folder / "agents.csv.report.csv"
    # A key that a spreadsheet leaves alone is in the report as it is.
    assert [row["key"] for row in imports.report()][-2:] == ["123", "crm-17"]
    agents = {agent.email: agent.id for agent in imports.sandbox.agents}
    imports.fill_in({str(at + 2): agents[f"a{at}@example.com"] for at in range(len(keys))})
    with open(path, encoding="utf-8-sig", newline="") as file:
        table = [[*map(opened_in_excel, row)] for row in csv.reader(file, delimiter=";")]
    # A person may have removed columns and added one.
    found = [[row[3], row[1], "x"] for row in table]
    for name, cells, resolved in ((path.name, table, 10), ("found.csv", found, 0)):
        with open(imports.folder / name, "w", encoding="utf-8-sig", newline="") as file:
            csv.writer(file, delimiter=";").writerows(cells)
        done = imports.command("ledger", "resolve", imports.ledger(), name, "--yes")
        assert done.shown.startswith(f"{resolved} rows resolved"), done
    assert counts(imports().shown)["created"] == len(keys) == len(imports.sandbox.agents)


def test_a_key_that_a_spreadsheet_has_changed_is_named_first(imports: Import) -> None:
    imports.write("email,first_name,last_name,profile.external_id\na@example.com,A,B,00123\nb@example.com,A,B,00124\n")
    imports.sandbox.fail_next(process_then_reset=True, after=1, method="POST")
    imports("--concurrency", "1")
    (imports.folder / "found.csv").write_text("key,agent_id\n00123,a_9\n124,a_2\n")
    done = imports.command("ledger", "resolve", imports.ledger(), "found.csv", "--yes")
    assert done.code == 2 and "row 3 of found.csv is rejected: its key is not in the ledger" in done.told
    assert "with all its zeros. A spreadsheet may have changed it, as in 123 for 00123" in done.told


def test_each_row_has_its_own_message(imports: Import) -> None:
    """One request id does not stand for many rows, and one reason not for others."""
    imports.write(9)
    for title, times in (("Taken", 4), ("No such office", 2)):
        imports.sandbox.fail_next(status=422, times=times, method="POST", body={"title": title})
    imports.sandbox.fail_next(status=409, method="POST")
    done = imports("--concurrency", "1", "--json")
    errors = {tuple(one["rows"]): one["message"] for one in json.loads(done.shown)["errors"]}
    assert [*errors] == [(2, 3, 4, 5), (6, 7), (8,)]
    assert "Taken [the report has the request ids]" in errors[2, 3, 4, 5]
    assert "No such office [the report has the request ids]" in errors[6, 7]
    ids = [re.search(r"\[request id .*\]", row["message"]) for row in imports.report()[:7]]
    assert len({found and found[0] for found in ids} - {None}) == 7 and ids[6] and ids[6][0] in errors[(8,)]
    assert "2, 3, 4, … (4 rows)  POST /v1/agents: 422 Unprocessable Entity: Taken [the report has" in done.told


def test_a_folder_whose_name_is_not_unicode(imports: Import) -> None:
    folder = Path(os.fsdecode(os.fsencode(imports.folder) + b"/caf\xe9"))
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("the file system takes only valid text")
    imports.write(2)
    table = (imports.folder / "agents.csv").rename(folder / "agents.csv")
    for created in ("Created   2\n", "Created   2 (2 in an earlier run)\n"):
        done = imports.command("agents", "import", table, "--yes", url=imports.sandbox.url)
        assert done.code == 0 and created in done.shown
    path = folder / imports.ledger()
    shown = imports.command("ledger", "show", path)
    assert shown.code == 0 and re.search("created +2\n", shown.shown)
    assert imports.command("ledger", "backup", path, folder / "copy").code == 0
    done = imports.command("ledger", "resolve", path, folder / "agents.csv.report.csv", "--yes")
    assert done.shown.startswith("0 rows resolved")
    assert imports.command("ledger", "resolve", path, folder / "nothing.csv").code == 2
    # A file next to it, too, and the ledgers that it finds in a folder.
    (folder / "b.csv").write_text("email,first_name,last_name,profile.external_id\na0@example.com,A,B,x-0\n")
    done = imports.command(
        "agents", "import", folder / "b.csv", "--ledger", folder / "new", "--yes", url=imports.sandbox.url
    )
    assert done.code == 2 and "another ledger, has 1 of these rows" in done.shown
    (folder / "ids.txt").write_text("nope\n")
    out = folder / "deals\udcff.csv"
    done = imports.command("deals", "export", "--ids", folder / "ids.txt", "--out", out, url=imports.sandbox.url)
    assert done.code == 1 and out.exists()
    (folder / "key").write_text("sandbox-key")
    done = imports.command(
        "check", url=imports.sandbox.url, key="", env={"DEALKIT_SERVICE_KEY_FILE": str(folder / "key")}
    )
    assert done.code == 0
    for option in ("--ca-file", "--client-cert"):
        done = imports.command("check", option, folder / "nothing.pem", url=imports.sandbox.url)
        assert done.code == 2 and "No such file" in done.told


@pytest.mark.parametrize(
    "arguments",
    [
        ["deal", "\udcff"],
        ["check", "--base-url", "http://\udcff"],
        ["agents", "import", "agents.csv", "--yes", "--map", "\udcff=email"],
        ["agents", "import", "agents.csv", "--yes", "--date-format", "%d\udcff"],
        ["ledger", "set-base-url", "l.ledger", "\udcff"],
    ],
)
def test_arguments_that_are_not_text(arguments: list[str], imports: Import) -> None:
    imports.write(1)
    done = imports.command(*arguments, url=imports.sandbox.url)
    assert done.code == 2 and "is not valid text" in done.told


def test_variables_that_are_not_text(imports: Import) -> None:
    for name in ("DEALKIT_SERVICE_KEY", "DEALKIT_BASE_URL"):
        done = imports.command("check", url=imports.sandbox.url, env={name: "http://\udcff"})
        assert done.code == 2 and f"{name} is not valid text" in done.told


def test_an_empty_variable_names_no_ledger(imports: Import) -> None:
    imports.write(1)
    assert (
        imports.command(
            "agents", "import", "agents.csv", "--yes", url=imports.sandbox.url, env={"DEALKIT_LEDGER": ""}
        ).code
        == 0
    )
    assert (imports.folder / imports.ledger()).exists()
    done = imports.command("ledger", "show", env={"DEALKIT_LEDGER": ""})
    assert (done.code, done.told.splitlines()[0]) == (2, "dealkit: the following arguments are required: LEDGER")


def test_what_was_filled_in_of_a_row_is_gone_once_it_is_sent_again(imports: Import) -> None:
    """It is no longer true that there was no agent: if that were resolved again, the row would be sent a third time."""
    imports.write(2)
    imports.sandbox.fail_next(cut="before-head", method="POST", times=2)
    imports("--concurrency", "1")
    imports.fill_in({"2": "none"})
    assert imports.command("ledger", "resolve", imports.ledger(), "agents.csv.report.csv", "--yes").code == 0
    imports.fill_in({"3": "a_9"})  # It is not resolved yet.
    imports.sandbox.fail_next(process_then_reset=True, hold=True, method="POST")
    process = imports.start()
    imports.sandbox.wait_for(held=True, timeout=HANGS)
    process.kill()
    assert end(process).code == -signal.SIGKILL
    assert [(row["outcome"], row["agent_id"]) for row in imports.report()] == [("running", ""), ("unknown", "a_9")]


# A file of what was found, and what is wrong with it.
UNRESOLVABLE = [
    ("Key;Agent ID\nx-0;a_9\n\nx-1;CANARY\n", "row 4 of found.csv is rejected: the service has confirmed that it "),
    ("key,agent_id\nx-0,a_9\nx-1,\nx-0,none\n", "found.csv has rows with the same key; fill in agent_id in only one"),
    (
        "key,agent_id,Agent ID\nx-0,a_9,\n",
        "found.csv has several columns Agent ID; rename or remove all but one of them",
    ),
    ("name,agent_id\nCANARY,a_9\n", "must have the columns key and agent_id, like the report of an import; it has "),
    ("key,agent_id\nCANARY,\n", "no row of found.csv has anything in agent_id. Fill in what you have found"),
]


def test_what_cannot_be_resolved(imports: Import) -> None:
    imports.write(2)
    imports.sandbox.fail_next(process_then_reset=True, method="POST")
    imports("--concurrency", "1")
    ledger, found = imports.folder / imports.ledger(), imports.folder / "found.csv"
    before = ledger.read_bytes()
    for text, told in UNRESOLVABLE:
        found.write_text(text)
        done = imports.command("ledger", "resolve", ledger.name, "found.csv")
        assert (done.code, done.shown) == (2, "") and told in done.told, done
        assert "CANARY" not in done.told and ledger.read_bytes() == before
    for name in ("agents.csv", "nothing.ledger"):
        found.write_text("key,agent_id\nx-0,a_9\n")
        done = imports.command("ledger", "resolve", name, "found.csv")
        assert done.code == 2 and name in done.told
    assert not (imports.folder / "nothing.ledger").exists()


def test_a_service_that_has_moved(imports: Import) -> None:
    imports.write(2)
    url = imports.sandbox.url
    with Sandbox() as old:
        assert imports("--ledger", "l.ledger", into=old).code == 0
    done = imports("--ledger", "l.ledger")
    assert done.code == 2 and f"it is the ledger of another service, {old.url}" in done.told
    assert "record its new URL with dealkit ledger set-base-url" in done.told
    assert "record the new base URL in the ledger. If" in done.told
    rename = ["ledger", "set-base-url", "l.ledger", url]
    assert imports.command(*rename, key="") == (0, f"l.ledger is the ledger of {url} from now on.\n", "")
    done = imports("--ledger", "l.ledger")
    assert (done.code, counts(done.shown)["created"], imports.sandbox.agents) == (0, 2, [])
    done = imports.command("ledger", "set-base-url", "no.ledger", "https://a.example.com")
    assert (done.code, done.shown) == (2, "") and done.told.startswith("dealkit: there is no ledger no.ledger")


def test_somebody_is_asked_on_a_terminal(imports: Import) -> None:
    imports.write(2)
    done = imports(yes=False, given="y\n")
    assert done.code == 2 and "check what is shown above, then add --yes" in done.told
    for answer, code, created in (("", 1, 0), ("y", 0, 2)):
        with imports.on_a_terminal() as terminal:
            terminal.wait_for(f"Create 2 agents at {imports.sandbox.url}? [y/N] ")
            terminal.enter(f"{answer}\n")
            assert terminal.end() == code
            assert ("nothing was done" in terminal.screen) == (code != 0)
        assert len(imports.sandbox.agents) == created
    assert "\r\x1b[K2 of 2 agents\n" in terminal.screen
    # The user is not asked if nothing would be sent.
    assert imports(yes=False).code == 0
    imports.write(3)
    with imports.on_a_terminal() as terminal:
        terminal.wait_for(f"Create 1 agent at {imports.sandbox.url}? [y/N] ")
        said = f"{imports.ledger()} already has 2 of them, not to be sent again: 2 created\n"
        assert said in terminal.screen
        terminal.interrupt()
        assert terminal.end() == 130 and terminal.screen.endswith("[y/N] \n\x1b[31mdealkit:\x1b[0m stopped\n")


@pytest.mark.parametrize("times", [1, 2], ids=["once", "twice"])
def test_ctrl_c_and_on(times: int, imports: Import) -> None:
    """After Ctrl-C, calls in flight are waited for; after another, they are given up, and their outcome is unknown."""
    imports.write(ROWS)
    sandbox = imports.sandbox
    sandbox.fail_next(hold=True, times=None, after=AT_ONCE, method="POST")
    options = ["--concurrency", "4", "--report", "report.csv"]
    process = imports.start(*options)
    sandbox.wait_for(held=True, count=4, timeout=HANGS)
    process.send_signal(signal.SIGINT)
    until_told(process, "stopping: nothing more is sent; waiting for the requests in flight")
    if times == 2:
        process.send_signal(signal.SIGINT)
    else:
        let_go(sandbox)
    done = end(process)
    assert done.code == 130
    again = f"To continue, run the same command again:\n  dealkit {' '.join(imports.arguments(*options))}\n"
    assert done.told.endswith(again)
    found = counts(done.shown)
    # Up to four more rows have been taken, and wait for those in flight.
    created, unknown = (range(AT_ONCE, AT_ONCE + 1), 4) if times == 2 else (range(AT_ONCE + 4, AT_ONCE + 9), 0)
    assert found["created"] in created and found["unknown"] == unknown and found["rejected"] == 0
    assert found["not-sent"] == ROWS - found["created"] - unknown
    assert [*imports.outcomes("report.csv").values()].count("unknown") == found["unknown"]
    assert len(sandbox.agents) == found["created"]

    sandbox.clear_faults()
    done = imports(*options)
    assert done.code == (1 if times == 2 else 0)
    assert counts(done.shown)["unknown"] == found["unknown"]
    # Unknown rows are left to the user; no agent exists twice.
    assert once_each(imports) == ROWS - found["unknown"]


def test_a_terminal_that_is_gone(imports: Import) -> None:
    """Its output goes nowhere, and what is in flight is waited for and recorded all the same."""
    imports.write(ROWS)
    imports.sandbox.fail_next(hold=True, times=None, after=AT_ONCE, method="POST")
    terminal = imports.on_a_terminal("--yes", "--concurrency", "4")
    imports.sandbox.wait_for(held=True, count=4, timeout=HANGS)
    terminal.hang_up()
    let_go(imports.sandbox)
    assert terminal.wait() == 129
    assert_all_are_recorded(imports)


def test_a_terminal_that_is_gone_is_ignored_with_its_signal(imports: Import) -> None:
    """As under nohup: nothing stops, and output that has no reader is no failure."""
    imports.write(ROWS)
    imports.sandbox.fail_next(hold=True, times=None, after=AT_ONCE, method="POST")
    ignoring = "signal.signal(signal.SIGHUP, signal.SIG_IGN)"
    terminal = imports.on_a_terminal("--yes", "--concurrency", "4", before=ignoring)
    imports.sandbox.wait_for(held=True, count=4, timeout=HANGS)
    terminal.hang_up()
    let_go(imports.sandbox)
    assert terminal.wait() == 0
    assert [*imports.outcomes().values()] == ["created"] * ROWS and once_each(imports) == ROWS


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_messages_that_are_not_read_hold_nothing_up(number: int, code: int, imports: Import) -> None:
    imports.write(ROWS)
    imports.sandbox.fail_next(hold=True, times=None, after=AT_ONCE, method="POST")
    with full_pipe() as pipe, imports.start("--concurrency", "4", stderr=pipe) as process:
        imports.sandbox.wait_for(held=True, count=4, timeout=HANGS)
        process.send_signal(number)
        let_go(imports.sandbox)
        assert process.wait(HANGS) == code
    assert_all_are_recorded(imports)


def test_a_stopped_terminal_holds_nothing_up(imports: Import) -> None:
    imports.write(ROWS)
    imports.sandbox.fail_next(hold=True, times=None, after=AT_ONCE, method="POST")
    with imports.on_a_terminal("--yes", "--concurrency", "4") as terminal:
        imports.sandbox.wait_for(held=True, count=4, timeout=HANGS)
        terminal.enter("\x13")  # Ctrl-S
        terminal.interrupt()
        let_go(imports.sandbox)
        assert terminal.wait() == 130
    assert_all_are_recorded(imports)


@pytest.mark.parametrize(
    ("fault", "code", "told", "sent"),
    [
        ({"status": 401}, 3, "The service rejects the key", 1),
        # The request that tries the key, three times; five failures; eight rows in flight, and eight that wait for their places.
        ({"status": 500}, 3, "The service failed.", 24),
    ],
)
def test_a_service_that_fails_ends_the_import(
    fault: dict[str, Any], code: int, told: str, sent: int, imports: Import
) -> None:
    imports.write(100)
    imports.sandbox.fail_next(times=None, **fault)
    done = imports("--ledger", "l.ledger")
    assert done.code == code and told in done.told
    # The rest is held back, since each create that fails may have made an agent.
    assert len(imports.sandbox.requests) <= sent and imports.sandbox.agents == []
    imports.sandbox.clear_faults()
    done = imports("--ledger", "l.ledger", "--resend-unknown")
    assert (done.code, counts(done.shown)["created"], len(imports.sandbox.agents)) == (0, 100, 100)


def test_a_ledger_that_is_deleted_under_an_import(imports: Import) -> None:
    """Nothing that is printed then creates anybody twice."""
    imports.write(ROWS)
    sandbox = imports.sandbox
    sandbox.fail_next(hold=True, times=None, after=AT_ONCE, method="POST")
    options = ["--ledger", "l.ledger", "--concurrency", "4"]
    process = imports.start(*options)
    sandbox.wait_for(held=True, count=4, timeout=HANGS)
    (imports.folder / "l.ledger").unlink()
    let_go(sandbox)
    done = end(process)
    assert done.code == 4 and "the file was moved, deleted or replaced" in done.told
    assert (
        "same command again" not in done.told and "records this" not in done.shown and "to send them" not in done.shown
    )
    made = len(sandbox.agents)
    assert AT_ONCE <= counts(done.shown)["created"] <= made < ROWS

    done = imports(*options)
    assert done.code == 2 and "--yes cannot confirm" in done.told
    created = [*imports.outcomes().values()].count("created")
    assert f"says that {created} of these rows were created, or may have been, but the ledger does not" in done.shown
    assert "put it back" in done.shown and len(sandbox.agents) == made


def test_a_damaged_ledger(imports: Import) -> None:
    """A dry run notices the damage too, and the report still has what an earlier import has found."""
    imports.write(3)
    assert imports("--ledger", "l.ledger").code == 0
    report = imports.folder / "agents.csv.report.csv"
    before = report.read_bytes()
    with closing(sqlite3.connect(imports.folder / "l.ledger")) as connection:
        connection.execute("UPDATE creates SET status = 200 WHERE agent_id = 'a_1'")
        connection.execute("UPDATE creates SET agent_id = 'a_x' WHERE agent_id = 'a_2'")
        connection.commit()
    imports.write(4)
    for options in (["--dry-run"], []):
        done = imports("--ledger", "l.ledger", *options)
        assert done.code == 2 and "it is damaged" in done.told
        assert "leave out the rows sent after it was made" in done.told and "same command again" not in done.told
        assert len(imports.sandbox.agents) == 3
    assert report.read_bytes() == before
