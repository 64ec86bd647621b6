"""`dealkit agents import` stopped, killed and repeated: no agent is created twice, and no row is lost."""

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
from commands import TableImport, finish_command, parse_counts, start_command, wait_for_stderr
from processes import HANG_SECONDS, wait_until

from dealkit import APIConnectionError, Creation
from dealkit._cli.import_run import _outcome_name
from dealkit.ledger import summary
from dealkit.testing import Sandbox

# The number of rows in the table, and of the rows to which the sandbox responds immediately. It holds the other
# responses.
ROWS, IMMEDIATE = 60, 20


def release_responses(sandbox: Sandbox) -> None:
    """Stops holding responses, and releases the held ones."""
    sandbox.clear_faults()
    sandbox.release()


def count_distinct_agents(imports: TableImport) -> int:
    """Returns the number of agents, and asserts that no agent exists twice."""
    emails = [agent.email for agent in imports.sandbox.agents]
    assert len(emails) == len({*emails})
    return len(emails)


def assert_all_are_recorded(imports: TableImport) -> None:
    """Asserts that the report of a stopped import has the outcome of each row that was sent."""
    found = [*imports.outcomes().values()]
    assert found.count("created") == len(imports.sandbox.agents) >= IMMEDIATE
    assert not {"unknown", "running"} & {*found}


@contextlib.contextmanager
def full_pipe() -> Iterator[int]:
    """A full pipe without a reader."""
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


def test_a_second_run_creates_no_agent_twice(imports: TableImport) -> None:
    imports.write(5)
    sandbox = imports.sandbox
    sandbox.fail_next(status=422, after=1, method="POST")
    sandbox.fail_next(process_then_reset=True, after=2, method="POST")
    options = ["--ledger", "import.ledger", "--report", "report.csv", "--concurrency", "1"]
    completed = imports(*options)
    assert (completed.code, parse_counts(completed.stdout)) == (1, {"created": 3, "rejected": 1, "unknown": 1})
    found = imports.outcomes("report.csv")
    assert sorted(found) == ["2", "3", "4", "5", "6"]
    assert sorted(found.values()) == ["created", "created", "created", "rejected", "unknown"]
    assert len(sandbox.agents) == 4
    assert (
        "import.ledger, the list of rows already sent (ledger), has them too: repeating the command creates no agent twice."
        in completed.stdout
    )
    assert b"example.com" not in (imports.folder / "import.ledger").read_bytes()

    # Adds one row.
    imports.write(6)
    completed = imports(*options)
    assert (completed.code, parse_counts(completed.stdout)) == (1, {"created": 4, "rejected": 1, "unknown": 1})
    assert "(1 now, 3 in an earlier run)" in completed.stdout
    assert len(sandbox.agents) == 5

    completed = imports(*options, "--resend-unknown")
    assert parse_counts(completed.stdout) == {"created": 5, "rejected": 1, "unknown": 0}
    assert len(sandbox.agents) == 6, "as its user wanted it, one of them twice"


def test_yes_does_not_send_rows_with_changed_keys(imports: TableImport) -> None:
    def write(*rows: tuple[str, str]) -> None:
        lines = [f"{key},{name}@example.com,{name},Example\n" for key, name in rows]
        (imports.folder / "agents.csv").write_text("profile.external_id,email,first_name,last_name\n" + "".join(lines))

    write(("00123", "ada"), ("B\u00e9", "grace"))
    assert imports().code == 0
    # Invisible characters and another Unicode normalization form do not change a key.
    write(("\ufeff00\u200b123", "ada"), ("Be\u0301\u00ad", "grace"))
    completed = imports()
    assert (completed.code, len(imports.sandbox.agents)) == (0, 2)
    write(("123", "Ada"), ("B\u00e9", "grace"), ("5", "joan"))
    completed = imports.command("agents", "import", "agents.csv", "--dry-run", url=imports.sandbox.url)
    assert completed.code == 0 and "has the e-mail address, but not the key (row 2)" in completed.stdout
    completed = imports()
    assert "Nothing was sent: --yes cannot confirm that the rows with other keys" in completed.stderr
    assert len(imports.sandbox.agents) == 2


def test_a_changed_row_is_reported_and_not_sent_again(imports: TableImport) -> None:
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
    completed = imports(*options)
    report = (imports.folder / "report.csv").read_text()
    changes = "1 row changed since the last import (row 2): not sent: this interface cannot change an agent."
    assert changes in completed.stdout
    by_row = {line.split(",")[0]: line for line in report.splitlines()}
    assert ",created," in by_row["2"] and "this interface cannot change an agent" in by_row["2"]
    assert ",created," in by_row["3"] and "is no longer valid. Nothing was sent: " in by_row["3"]
    # The reason of a rejection stays in the report, and only advice for existing rows is printed.
    assert ",rejected," in by_row["4"] and "No such office: unknown_office" in by_row["4"]
    assert "Correct them: a row whose data differ is sent again." in completed.stdout
    assert "unknown rows" not in completed.stdout and len(imports.sandbox.agents) == 2


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_while_output_is_blocked_ends_the_command(imports: TableImport, number: int, code: int) -> None:
    imports.write(1)
    setup_code = f"""
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
    completed = finish_command(
        start_command(*arguments, url=imports.sandbox.url, cwd=imports.folder, setup_code=setup_code)
    )
    assert (completed.code, "Traceback" in completed.stderr) == (code, False)


def test_a_row_cancelled_before_its_retry_counts_as_not_sent() -> None:
    """The service rejected the row before the cancelled retry. The ledger does not record this, so the next run sends
    the row.
    """
    error = APIConnectionError("cancelled", kind="cancelled", outcome="rejected")
    assert _outcome_name(Creation(index=0, error=error)) == "not sent"


def test_a_lost_ledger_with_unknown_rows_is_noticed(imports: TableImport) -> None:
    imports.write(2)
    imports.sandbox.fail_next(process_then_reset=True, times=2, method="POST")
    assert imports().code == 1
    lost_ledger = imports.folder / imports.ledger()
    lost_ledger.unlink()
    report = imports.folder / "agents.csv.report.csv"
    before = report.read_bytes()
    for options in (["--dry-run"], []):
        completed = imports(*options)
        journal = f"{lost_ledger.name}-journal"
        assert completed.code == 2 and f"the file is missing, but {journal}" in completed.stderr
        assert "look for it in the recycle bin" in completed.stderr and "exist yet: no row" not in completed.stdout
    assert report.read_bytes() == before
    # Without the journal, only the report shows that the ledger was lost.
    (imports.folder / journal).unlink()
    completed = imports()
    assert "says that 2 of these rows were created, or may have been" in completed.stdout
    assert completed.code == 2 and len(imports.sandbox.agents) == 2


def test_rows_that_an_older_copy_of_a_ledger_lacks_can_be_recorded(imports: TableImport) -> None:
    imports.write(1)
    assert imports("--ledger", "l.ledger").code == 0
    assert imports.command("ledger", "backup", "l.ledger", "copy.ledger").code == 0
    imports.write(4)
    imports.sandbox.fail_next(process_then_reset=True, method="POST")
    imports.sandbox.fail_next(status=422, method="POST")
    assert imports("--ledger", "l.ledger", "--concurrency", "1").code == 1
    (imports.folder / "copy.ledger").replace(imports.folder / "l.ledger")
    completed = imports("--ledger", "l.ledger")
    # The rejected row may be sent again.
    assert "says that 2 of these rows were created, or may have been" in completed.stdout
    assert completed.code == 2 and len(imports.sandbox.agents) == 3
    lines = completed.stdout.splitlines()
    first = lines.index("To record these rows in the ledger, answer n, and run:") + 1
    mark, resolve = (line.split()[1:] for line in lines[first : first + 2])

    assert imports.command(*mark).code == 2, "it asks for confirmation"
    completed = imports.command(*mark, "--yes", "--json")
    assert json.loads(completed.stdout)["counts"] == {"marked": 2, "unchanged": 1}
    assert imports.command(*resolve, "--yes").code == 0
    completed = imports("--ledger", "l.ledger")
    assert parse_counts(completed.stdout) == {"created": 3, "rejected": 0, "unknown": 1}
    assert len(imports.sandbox.agents) == 4


def test_rows_of_a_program_can_be_marked_as_unknown(imports: TableImport) -> None:
    imports.write(1)
    assert imports("--ledger", "l.ledger").code == 0
    (imports.folder / "sent.csv").write_text("key,agent_id\na,\nb,\n")
    completed = imports.command("ledger", "mark-unknown", "l.ledger", "sent.csv", "--yes")
    assert completed.stdout.startswith("2 rows marked as unknown. The next import does not send them.")


def test_a_backup_during_an_import_is_complete(imports: TableImport) -> None:
    imports.write(3)
    imports.sandbox.fail_next(hold=True, after=1, method="POST")
    process = imports.start("--ledger", "l.ledger")
    imports.sandbox.wait_for(held=True, timeout=HANG_SECONDS)
    completed = imports.command("ledger", "backup", "l.ledger", "copy.ledger")
    assert completed.code == 0 and "copy.ledger is a copy of l.ledger" in completed.stdout
    imports.sandbox.release()
    assert finish_command(process).code == 0
    copy = summary(imports.folder / "copy.ledger")
    assert copy.succeeded + len(copy.unresolved) == 3 and copy.unresolved
    completed = imports.command("ledger", "backup", "l.ledger", "copy.ledger")
    assert completed.code != 0 and "already a file" in completed.stderr


def test_a_renamed_table_creates_no_agent_twice(imports: TableImport) -> None:
    """Without --ledger, the ledger is next to the table."""
    imports.write(3)
    for _ in range(2):
        completed = imports()
        assert (completed.code, parse_counts(completed.stdout)["created"], len(imports.sandbox.agents)) == (0, 3, 3)
    assert (imports.folder / imports.ledger()).exists()
    imports.write(4)
    (imports.folder / "agents.csv").rename(imports.folder / "agents-corrected.csv")
    corrected = ["agents", "import", "agents-corrected.csv"]
    message = f"{imports.ledger()}, the list of rows already sent (ledger), has 3 of them, which are not sent again: 3 created\n"
    completed = imports.command(*corrected, "--dry-run", url=imports.sandbox.url)
    assert (completed.code, message in completed.stdout) == (0, True)
    completed = imports.command(*corrected, "--yes", url=imports.sandbox.url)
    assert (completed.code, parse_counts(completed.stdout)["created"], len(imports.sandbox.agents)) == (0, 4, 4)


def test_rows_of_a_running_import_are_skipped_and_unknown_once_it_is_killed(imports: TableImport) -> None:
    imports.write(6)
    imports.sandbox.fail_next(hold=True, after=1, method="POST")
    process = imports.start("--concurrency", "2")
    imports.sandbox.wait_for(held=True, timeout=HANG_SECONDS)
    wait_until(lambda: summary(imports.folder / imports.ledger()).succeeded == 5)
    completed = imports()
    assert completed.code == 1 and parse_counts(completed.stdout) == {"created": 5, "rejected": 0, "unknown": 0}
    assert (
        "In progress elsewhere  1  another import is sending them" in completed.stdout
        and "resolve" not in completed.stdout
    )
    process.kill()
    assert finish_command(process).code == -signal.SIGKILL
    completed = imports()
    assert completed.code == 1 and parse_counts(completed.stdout) == {"created": 5, "rejected": 0, "unknown": 1}
    assert "ledger resolve" in completed.stdout and count_distinct_agents(imports) == 5


def test_rows_in_other_ledgers_are_reported_before_sending(imports: TableImport) -> None:
    """The service may have a new URL, or the ledger may belong to a sandbox: only the user knows."""
    imports.write(3)
    with Sandbox() as old:
        assert imports("--key", "email", into=old).code == 0
    imports.write(4)
    other = imports.ledger(old)
    message = f"{other}, another ledger (list of rows already sent), has 3 of these rows. This import does not use that ledger, so it "
    advice = f"use it: add --ledger {other}. If they were created at another service, such as a sandbox, these rows are"
    for options in ([], ["--key", "profile.external_id"], ["--ledger", "new.ledger"]):
        completed = imports(*options, "--dry-run", yes=False)
        assert (completed.code, message in completed.stdout) == (0, True)
        completed = imports(*options)
        assert (
            completed.code == 2
            and message in completed.stdout
            and advice in completed.stdout
            and "leave out --yes" in completed.stderr
        )
    assert imports.sandbox.agents == []
    # The user follows the advice. The ledger belongs to another URL, so the next message asks which case applies.
    completed = imports("--ledger", other, "--key", "email")
    assert completed.code == 2 and "leave out --ledger, and the variable DEALKIT_LEDGER" in completed.stderr
    with imports.on_a_terminal() as terminal:
        terminal.wait_for("Create 4 agents")
        assert message in terminal.screen
        terminal.enter("y\n")
        assert terminal.end() == 0
    assert len(imports.sandbox.agents) == 4


def test_a_dry_run_reports_rows_in_the_ledger(imports: TableImport) -> None:
    imports.write(3)
    imports.sandbox.fail_next(process_then_reset=True, method="POST")
    imports.sandbox.fail_next(status=422, method="POST")
    imports("--concurrency", "1")
    imports.write(5)
    ledger = imports.folder / imports.ledger()
    before = ledger.read_bytes()
    completed = imports.dry("--report", "dry.csv", url=imports.sandbox.url)
    assert (
        "Ready           5\nCannot be sent  0\n"
        f"{ledger.name}, the list of rows already sent (ledger), has 3 of them, which are not sent again: 1 created, 1 rejected, 1 unknown\n"
    ) in completed.stdout
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
    completed = imports.dry("--resend-unknown", url=imports.sandbox.url)
    assert " has 2 of them, which are not sent again: 1 created, 1 rejected\n" in completed.stdout


def test_rows_filled_in_in_the_report_are_resolved(imports: TableImport) -> None:
    imports.write(5)
    sandbox = imports.sandbox
    sandbox.fail_next(process_then_reset=True, method="POST")
    sandbox.fail_next(cut="before-head", method="POST", times=2)
    sandbox.fail_next(status=422, method="POST")
    completed = imports("--concurrency", "1")
    assert parse_counts(completed.stdout) == {"created": 1, "rejected": 1, "unknown": 3}
    resolve, repeat_command = (line.split()[1:] for line in completed.stdout.splitlines()[-2:])
    ledger = imports.ledger()
    assert resolve == ["ledger", "resolve", ledger, "agents.csv.report.csv"]
    stdout = imports.command("ledger", "show", ledger).stdout
    assert f"{ledger} is the ledger (the list of rows already sent) for {sandbox.url}.\n" in stdout
    assert "Key (identifies a row): profile.external_id\n" in stdout
    assert (
        re.search("  rejected +1\n", stdout)
        and re.search("  unknown +3\n", stdout)
        and "These agents may exist. Ask the service's operator to look for them. Their requests:\n" in stdout
    )
    report = json.loads(imports.command("ledger", "show", ledger, "--json").stdout)
    assert (report["counts"]["created"], report["counts"]["unknown"], len(report["unresolved"])) == (1, 3, 3)

    none = "0 rows recorded.\n"
    assert imports.command(*resolve) == (0, none, "")
    # The user has looked up these rows; the ledger records them later.
    agent_ids = {agent.email: agent.id for agent in sandbox.agents}
    imports.fill_in({"2": agent_ids["a0@example.com"], "3": "None"})
    assert imports.command(*repeat_command, url=sandbox.url).code == 1
    assert [row["agent_id"] for row in imports.report()][:3] == [agent_ids["a0@example.com"], "None", ""], "it is kept"

    completed = imports.command(*resolve, key="")
    assert completed.code == 2 and "Cannot ask for confirmation: input is not a terminal." in completed.stderr
    completed = imports.command(*resolve, "--yes", "--json", key="")
    assert (completed.code, json.loads(completed.stdout)["counts"]) == (0, {"resolved": 2, "unchanged": 3})
    imports.fill_in({"4": "Not yet", "5": "none"})
    words = (
        "these entries in agent_id do not look like ids of agents: 'Not yet' in row 4. If you do not know yet whether there is "
        "an agent, leave agent_id empty. Enter none if the service's operator has confirmed, an hour or more after the import, that "
    )
    completed = imports.command(*resolve, "--yes", key="")
    assert completed.code == 2 and words in completed.stderr and "0 rows recorded" not in completed.stdout
    completed = imports.command(*resolve, key="")
    assert completed.code == 2 and words in completed.stderr
    imports.fill_in({"4": "none"})
    for _ in range(2):
        assert imports.command(*resolve, "--yes").code == 0, "what it has by now is passed over"

    completed = imports.command(*repeat_command, url=sandbox.url)
    assert (completed.code, parse_counts(completed.stdout)["created"]) == (0, 5)
    assert sorted(agent.email or "" for agent in sandbox.agents) == [f"a{at}@example.com" for at in range(5)]
    assert sorted(row["agent_id"] for row in imports.report()) == sorted(agent.id for agent in sandbox.agents)


def test_a_report_in_windows_code_page_is_read(imports: TableImport) -> None:
    imports.write("email,first_name,last_name,profile.external_id\na@example.com,J,M,Jürgen Müller\n")
    imports.sandbox.fail_next(cut="before-head", method="POST")
    imports("--concurrency", "1")
    imports.fill_in({"2": "none"}, encoding="cp1252")
    resolve = ("ledger", "resolve", imports.ledger(), "agents.csv.report.csv")
    assert imports.command(*resolve, "--yes").stdout.startswith("1 row recorded")
    # The next run also reads this report.
    assert parse_counts(imports().stdout) == {"created": 1, "rejected": 0, "unknown": 0}
    imports.fill_in({}, encoding="cp1252")
    completed = imports.command(*resolve, "--yes", "--encoding", "utf-8")
    assert completed.code == 2 and "cannot be read as UTF-8" in completed.stderr


def save_in_excel(cell: str) -> str:
    """Returns a cell of a CSV file as Excel saves it."""
    if re.fullmatch(r"\d+", cell):
        return f"{int(cell):.5E}" if len(cell.lstrip("0")) > 11 else str(int(cell))
    if re.fullmatch(r"[\d.]+([eE][+-]?\d+)?", cell):
        return f"{float(cell):.2E}" if "e" in cell.lower() else f"{float(cell):g}"
    return {"1-2": "02-Jan", "SEPT2": "02-Sep", "true": "TRUE"}.get(cell, cell)


def test_keys_survive_a_spreadsheet_that_opens_and_saves_the_report(imports: TableImport) -> None:
    keys = ["00123", "1E5", "123456789012345678", "1.50", "1-2", "SEPT2", "true", "'007", "123", "crm-17"]
    assert sum(save_in_excel(key) != key for key in keys) == 7
    rows = "".join(f"a{at}@example.com,A,B,{key}\n" for at, key in enumerate(keys))
    imports.write(f"email,first_name,last_name,profile.external_id\n{rows}")
    imports.sandbox.fail_next(process_then_reset=True, times=None, method="POST")
    for _ in range(3):
        imports("--concurrency", "1")
    imports.sandbox.clear_faults()
    path = imports.folder / "agents.csv.report.csv"
    # A key that a spreadsheet does not change is unescaped in the report.
    assert [row["key"] for row in imports.report()][-2:] == ["123", "crm-17"]
    agents = {agent.email: agent.id for agent in imports.sandbox.agents}
    imports.fill_in({str(at + 2): agents[f"a{at}@example.com"] for at in range(len(keys))})
    with open(path, encoding="utf-8-sig", newline="") as file:
        table = [[*map(save_in_excel, row)] for row in csv.reader(file, delimiter=";")]
    # Users may remove columns and add one.
    found = [[row[3], row[1], "x"] for row in table]
    for name, cells, resolved in ((path.name, table, 10), ("found.csv", found, 0)):
        with open(imports.folder / name, "w", encoding="utf-8-sig", newline="") as file:
            csv.writer(file, delimiter=";").writerows(cells)
        completed = imports.command("ledger", "resolve", imports.ledger(), name, "--yes")
        assert completed.stdout.startswith(f"{resolved} rows recorded"), completed
    assert parse_counts(imports().stdout)["created"] == len(keys) == len(imports.sandbox.agents)


def test_resolve_names_rows_whose_keys_changed(imports: TableImport) -> None:
    imports.write("email,first_name,last_name,profile.external_id\na@example.com,A,B,00123\nb@example.com,A,B,00124\n")
    imports.sandbox.fail_next(process_then_reset=True, after=1, method="POST")
    imports("--concurrency", "1")
    (imports.folder / "found.csv").write_text("key,agent_id\n00123,a_9\n124,a_2\n")
    completed = imports.command("ledger", "resolve", imports.ledger(), "found.csv", "--yes")
    assert (
        completed.code == 2
        and "Row 3 of found.csv: the ledger (the list of rows already sent) does not have its key" in completed.stderr
    )
    assert (
        "exactly as in the report of the import. A spreadsheet may have changed it, as in 123 for 00123."
        in completed.stderr
    )


def test_each_row_reports_its_own_message(imports: TableImport) -> None:
    """Each row's report has its own request id and reason."""
    imports.write(9)
    for title, times in (("Taken", 4), ("No such office", 2)):
        imports.sandbox.fail_next(status=422, times=times, method="POST", body={"title": title})
    imports.sandbox.fail_next(status=409, method="POST")
    completed = imports("--concurrency", "1", "--json")
    errors = {tuple(error["rows"]): error["message"] for error in json.loads(completed.stdout)["errors"]}
    assert [*errors] == [(2, 3, 4, 5), (6, 7), (8,)]
    assert "Taken [the report has the request ids]" in errors[2, 3, 4, 5]
    assert "No such office [the report has the request ids]" in errors[6, 7]
    ids = [re.search(r"\[request id .*\]", row["message"]) for row in imports.report()[:7]]
    assert len({found and found[0] for found in ids} - {None}) == 7 and ids[6] and ids[6][0] in errors[(8,)]
    assert (
        "2, 3, 4, … (4 rows)  The service did not accept the row: POST /v1/agents: 422 Unprocessable Entity: Taken [the report has"
        in completed.stderr
    )


def test_paths_may_contain_invalid_unicode(imports: TableImport) -> None:
    folder = Path(os.fsdecode(os.fsencode(imports.folder) + b"/caf\xe9"))
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("the file system takes only valid text")
    imports.write(2)
    table = (imports.folder / "agents.csv").rename(folder / "agents.csv")
    for created in ("Created   2\n", "Created   2 (0 now, 2 in an earlier run)\n"):
        completed = imports.command("agents", "import", table, "--yes", url=imports.sandbox.url)
        assert completed.code == 0 and created in completed.stdout
    path = folder / imports.ledger()
    shown_ledger = imports.command("ledger", "show", path)
    assert shown_ledger.code == 0 and re.search("created +2\n", shown_ledger.stdout)
    assert imports.command("ledger", "backup", path, folder / "copy").code == 0
    completed = imports.command("ledger", "resolve", path, folder / "agents.csv.report.csv", "--yes")
    assert completed.stdout.startswith("0 rows recorded")
    assert imports.command("ledger", "resolve", path, folder / "nothing.csv").code == 2
    # The folder's other tables and ledgers also have such paths.
    (folder / "b.csv").write_text("email,first_name,last_name,profile.external_id\na0@example.com,A,B,x-0\n")
    completed = imports.command(
        "agents", "import", folder / "b.csv", "--ledger", folder / "new", "--yes", url=imports.sandbox.url
    )
    assert completed.code == 2 and "another ledger (list of rows already sent), has 1 of these rows" in completed.stdout
    (folder / "ids.txt").write_text("nope\n")
    out = folder / "deals\udcff.csv"
    completed = imports.command("deals", "export", "--ids", folder / "ids.txt", "--out", out, url=imports.sandbox.url)
    assert completed.code == 1 and out.exists()
    (folder / "key").write_text("sandbox-key")
    completed = imports.command(
        "check", url=imports.sandbox.url, key="", env={"DEALKIT_SERVICE_KEY_FILE": str(folder / "key")}
    )
    assert completed.code == 0
    for option in ("--ca-file", "--client-cert"):
        completed = imports.command("check", option, folder / "nothing.pem", url=imports.sandbox.url)
        assert completed.code == 2 and "No such file" in completed.stderr


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
def test_arguments_with_invalid_unicode_are_errors(arguments: list[str], imports: TableImport) -> None:
    imports.write(1)
    completed = imports.command(*arguments, url=imports.sandbox.url)
    assert completed.code == 2 and "contains characters that are not text" in completed.stderr


def test_variables_with_invalid_unicode_are_errors(imports: TableImport) -> None:
    for name in ("DEALKIT_SERVICE_KEY", "DEALKIT_BASE_URL"):
        completed = imports.command("check", url=imports.sandbox.url, env={name: "http://\udcff"})
        assert completed.code == 2 and f"{name} contains characters that are not text" in completed.stderr


def test_an_empty_ledger_variable_counts_as_unset(imports: TableImport) -> None:
    imports.write(1)
    assert (
        imports.command(
            "agents", "import", "agents.csv", "--yes", url=imports.sandbox.url, env={"DEALKIT_LEDGER": ""}
        ).code
        == 0
    )
    assert (imports.folder / imports.ledger()).exists()
    completed = imports.command("ledger", "show", env={"DEALKIT_LEDGER": ""})
    assert (completed.code, completed.stderr.splitlines()[0]) == (
        2,
        "dealkit: LEDGER is missing. The command is: dealkit ledger show LEDGER [OPTIONS]",
    )


def test_entries_for_a_row_are_removed_when_it_is_sent_again(imports: TableImport) -> None:
    """The entry "none" was true for the first attempt only. If it were resolved again, the row would be sent a third
    time.
    """
    imports.write(2)
    imports.sandbox.fail_next(cut="before-head", method="POST", times=2)
    imports("--concurrency", "1")
    imports.fill_in({"2": "none"})
    assert imports.command("ledger", "resolve", imports.ledger(), "agents.csv.report.csv", "--yes").code == 0
    imports.fill_in({"3": "a_9"})  # It is not resolved yet.
    imports.sandbox.fail_next(process_then_reset=True, hold=True, method="POST")
    process = imports.start()
    imports.sandbox.wait_for(held=True, timeout=HANG_SECONDS)
    process.kill()
    assert finish_command(process).code == -signal.SIGKILL
    assert [(row["outcome"], row["agent_id"]) for row in imports.report()] == [("running", ""), ("unknown", "a_9")]


# Contents of a report, and the error for each.
UNRESOLVABLE = [
    ("Key;Agent ID\nx-0;a_9\n\nx-1;CANARY\n", "Row 4 of found.csv: the service has confirmed that it "),
    (
        "key,agent_id\nx-0,a_9\nx-1,\nx-0,none\n",
        "found.csv has several rows with the same key (the value that identifies a row). Fill in",
    ),
    (
        "key,agent_id,Agent ID\nx-0,a_9,\n",
        "found.csv has several columns Agent ID; rename or remove all but one of them",
    ),
    ("name,agent_id\nCANARY,a_9\n", "must have the columns key and agent_id, like the report of an import; it has "),
    ("key,agent_id\nCANARY,\n", "no row of found.csv has an entry in agent_id. For each unknown row"),
    ("key,agent_id\nx-0,a_9\nX-0\u200b,\nx-1\u200b,none\n", "Row 4 of found.csv: the service has confirmed that it "),
    ("key,agent_id\nx-0,n/a\n", "Row 2 of found.csv: agent_id is not the id of an agent, or the ledger has this agent"),
    ("key,agent_id\nx-0,a_9\nx-0\u200b,a_8\n", "Row 3 of found.csv: another row of the file has the same key"),
]


def test_invalid_reports_resolve_nothing(imports: TableImport) -> None:
    imports.write(2)
    imports.sandbox.fail_next(process_then_reset=True, method="POST")
    imports("--concurrency", "1")
    ledger, found = imports.folder / imports.ledger(), imports.folder / "found.csv"
    before = ledger.read_bytes()
    for text, expected_error in UNRESOLVABLE:
        found.write_text(text)
        completed = imports.command("ledger", "resolve", ledger.name, "found.csv")
        assert (completed.code, completed.stdout) == (2, "") and expected_error in completed.stderr, completed
        assert "CANARY" not in completed.stderr and ledger.read_bytes() == before
    for name in ("agents.csv", "nothing.ledger"):
        found.write_text("key,agent_id\nx-0,a_9\n")
        completed = imports.command("ledger", "resolve", name, "found.csv")
        assert completed.code == 2 and name in completed.stderr
        assert "the list of rows already sent" in completed.stderr
    assert not (imports.folder / "nothing.ledger").exists()


def test_set_base_url_keeps_the_ledger_of_a_moved_service(imports: TableImport) -> None:
    imports.write(2)
    url = imports.sandbox.url
    with Sandbox() as old:
        assert imports("--ledger", "l.ledger", into=old).code == 0
    completed = imports("--ledger", "l.ledger")
    assert completed.code == 2 and f"is for the service {old.url}, but this import is for {url}." in completed.stderr
    rename = ["ledger", "set-base-url", "l.ledger", url]
    assert f"\n  dealkit {' '.join(rename)}\n" in completed.stderr
    assert imports.command(*rename, key="") == (0, f"l.ledger is now the ledger for {url}.\n", "")
    completed = imports("--ledger", "l.ledger")
    assert (completed.code, parse_counts(completed.stdout)["created"], imports.sandbox.agents) == (0, 2, [])
    completed = imports.command("ledger", "set-base-url", "no.ledger", "https://a.example.com")
    assert (completed.code, completed.stdout) == (2, "") and completed.stderr.startswith(
        "dealkit: There is no ledger no.ledger."
    )


def test_the_import_asks_for_confirmation_on_a_terminal(imports: TableImport) -> None:
    imports.write(2)
    completed = imports(yes=False, stdin="y\n")
    assert completed.code == 2 and "Review the output, then use --yes." in completed.stderr
    for answer, code, created in (("", 1, 0), ("y", 0, 2)):
        with imports.on_a_terminal() as terminal:
            terminal.wait_for(f"Create 2 agents at {imports.sandbox.url}? This cannot be undone. [y/N] ")
            terminal.enter(f"{answer}\n")
            assert terminal.end() == code
            assert ("Nothing was done" in terminal.screen) == (code != 0)
        assert len(imports.sandbox.agents) == created
    assert "\r\x1b[K2 of 2 agents\n" in terminal.screen
    # No confirmation is needed if nothing would be sent.
    assert imports(yes=False).code == 0
    imports.write(3)
    with imports.on_a_terminal() as terminal:
        terminal.wait_for(f"Create 1 agent at {imports.sandbox.url}? This cannot be undone. [y/N] ")
        message = f"{imports.ledger()}, the list of rows already sent (ledger), has 2 of them, which are not sent again: 2 created\n"
        assert message in terminal.screen
        terminal.interrupt()
        assert terminal.end() == 130 and terminal.screen.endswith(
            "[y/N] \n\x1b[31mdealkit:\x1b[0m The command was stopped.\n"
        )


@pytest.mark.parametrize("times", [1, 2], ids=["once", "twice"])
def test_ctrl_c_waits_for_calls_in_flight_and_a_second_cancels_them(times: int, imports: TableImport) -> None:
    """The first Ctrl-C waits for the calls in flight. A second one cancels them, and their outcome is unknown."""
    imports.write(ROWS)
    sandbox = imports.sandbox
    sandbox.fail_next(hold=True, times=None, after=IMMEDIATE, method="POST")
    options = ["--concurrency", "4", "--report", "report.csv"]
    process = imports.start(*options)
    sandbox.wait_for(held=True, count=4, timeout=HANG_SECONDS)
    process.send_signal(signal.SIGINT)
    wait_for_stderr(process, "Stopping: nothing more is sent. Waiting for the last answers")
    if times == 2:
        process.send_signal(signal.SIGINT)
    else:
        release_responses(sandbox)
    completed = finish_command(process)
    assert completed.code == 130
    resume_message = f"To continue, run the same command again:\n  dealkit {' '.join(imports.arguments(*options))}\n"
    assert completed.stderr.endswith(resume_message)
    found = parse_counts(completed.stdout)
    # Up to four more rows have been read and wait for the rows in flight.
    created, unknown = (range(IMMEDIATE, IMMEDIATE + 1), 4) if times == 2 else (range(IMMEDIATE + 4, IMMEDIATE + 9), 0)
    assert found["created"] in created and found["unknown"] == unknown and found["rejected"] == 0
    assert found["not-sent"] == ROWS - found["created"] - unknown
    assert [*imports.outcomes("report.csv").values()].count("unknown") == found["unknown"]
    assert len(sandbox.agents) == found["created"]

    sandbox.clear_faults()
    completed = imports(*options)
    assert completed.code == (1 if times == 2 else 0)
    assert parse_counts(completed.stdout)["unknown"] == found["unknown"]
    # Unknown rows are left to the user; no agent exists twice.
    assert count_distinct_agents(imports) == ROWS - found["unknown"]


def test_an_import_whose_terminal_closes_records_calls_in_flight(imports: TableImport) -> None:
    """The command's output is lost, but it still waits for the calls in flight and records their outcomes."""
    imports.write(ROWS)
    imports.sandbox.fail_next(hold=True, times=None, after=IMMEDIATE, method="POST")
    terminal = imports.on_a_terminal("--yes", "--concurrency", "4")
    imports.sandbox.wait_for(held=True, count=4, timeout=HANG_SECONDS)
    terminal.hang_up()
    release_responses(imports.sandbox)
    assert terminal.wait() == 129
    assert_all_are_recorded(imports)


def test_an_import_under_nohup_survives_its_terminal(imports: TableImport) -> None:
    """With SIGHUP ignored, as under nohup, the import continues, and lost output is not an error."""
    imports.write(ROWS)
    imports.sandbox.fail_next(hold=True, times=None, after=IMMEDIATE, method="POST")
    ignoring = "signal.signal(signal.SIGHUP, signal.SIG_IGN)"
    terminal = imports.on_a_terminal("--yes", "--concurrency", "4", setup_code=ignoring)
    imports.sandbox.wait_for(held=True, count=4, timeout=HANG_SECONDS)
    terminal.hang_up()
    release_responses(imports.sandbox)
    assert terminal.wait() == 0
    assert [*imports.outcomes().values()] == ["created"] * ROWS and count_distinct_agents(imports) == ROWS


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_unread_messages_do_not_block_an_import(number: int, code: int, imports: TableImport) -> None:
    imports.write(ROWS)
    imports.sandbox.fail_next(hold=True, times=None, after=IMMEDIATE, method="POST")
    with full_pipe() as pipe, imports.start("--concurrency", "4", stderr=pipe) as process:
        imports.sandbox.wait_for(held=True, count=4, timeout=HANG_SECONDS)
        process.send_signal(number)
        release_responses(imports.sandbox)
        assert process.wait(HANG_SECONDS) == code
    assert_all_are_recorded(imports)


def test_a_stopped_terminal_does_not_block_an_import(imports: TableImport) -> None:
    imports.write(ROWS)
    imports.sandbox.fail_next(hold=True, times=None, after=IMMEDIATE, method="POST")
    with imports.on_a_terminal("--yes", "--concurrency", "4") as terminal:
        imports.sandbox.wait_for(held=True, count=4, timeout=HANG_SECONDS)
        terminal.enter("\x13")  # Ctrl-S
        terminal.interrupt()
        release_responses(imports.sandbox)
        assert terminal.wait() == 130
    assert_all_are_recorded(imports)


@pytest.mark.parametrize(
    ("fault", "code", "expected_error", "sent"),
    [
        ({"status": 401}, 3, "The service rejects the service key", 1),
        # Three attempts to probe the key, five failures, eight rows in flight, and eight rows that wait for a permit.
        ({"status": 500}, 3, "The service failed.", 24),
    ],
)
def test_consecutive_service_errors_end_the_import(
    fault: dict[str, Any], code: int, expected_error: str, sent: int, imports: TableImport
) -> None:
    imports.write(100)
    imports.sandbox.fail_next(times=None, **fault)
    completed = imports("--ledger", "l.ledger")
    assert completed.code == code and expected_error in completed.stderr
    # The other rows are not sent, because each failed create may have made an agent.
    assert len(imports.sandbox.requests) <= sent and imports.sandbox.agents == []
    imports.sandbox.clear_faults()
    completed = imports("--ledger", "l.ledger", "--resend-unknown")
    assert (completed.code, parse_counts(completed.stdout)["created"], len(imports.sandbox.agents)) == (0, 100, 100)


def test_no_printed_command_resends_unknown_rows(imports: TableImport) -> None:
    """A user who copies it after a second failure would create the agents of the first requests twice."""
    imports.write(3)
    imports.sandbox.fail_next(process_then_reset=True, method="POST", times=None)
    assert imports("--concurrency", "1").code == 1
    completed = imports("--resend-unknown", "--concurrency", "1")
    commands = [line for line in completed.stdout.splitlines() if line.startswith("  dealkit agents import")]
    assert commands == ["  dealkit agents import agents.csv --concurrency 1 --yes"]


def test_an_import_stops_if_its_ledger_is_deleted(imports: TableImport) -> None:
    """No command that is then printed would create an agent twice."""
    imports.write(ROWS)
    sandbox = imports.sandbox
    sandbox.fail_next(hold=True, times=None, after=IMMEDIATE, method="POST")
    options = ["--ledger", "l.ledger", "--concurrency", "4"]
    process = imports.start(*options)
    sandbox.wait_for(held=True, count=4, timeout=HANG_SECONDS)
    (imports.folder / "l.ledger").unlink()
    release_responses(sandbox)
    completed = finish_command(process)
    assert completed.code == 4 and "the file was moved, deleted or replaced" in completed.stderr
    assert (
        "same command again" not in completed.stderr
        and "records this" not in completed.stdout
        and "to send them" not in completed.stdout
    )
    created = len(sandbox.agents)
    assert IMMEDIATE <= parse_counts(completed.stdout)["created"] <= created < ROWS

    (imports.folder / "l.ledger-journal").unlink()
    completed = imports(*options)
    assert completed.code == 2 and "--yes cannot confirm" in completed.stderr
    created = [*imports.outcomes().values()].count("created")
    assert (
        f"says that {created} of these rows were created, or may have been, but the ledger does not" in completed.stdout
    )
    assert "put it back" in completed.stdout and len(sandbox.agents) == created


def test_a_damaged_ledger_is_an_error_and_its_report_is_unchanged(imports: TableImport) -> None:
    """A dry run also detects the damage, and the report still has the results of an earlier import."""
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
        completed = imports("--ledger", "l.ledger", *options)
        assert completed.code == 2 and "it is damaged" in completed.stderr
        assert (
            "mark the rows sent after it was made as unknown" in completed.stderr
            and "same command again" not in completed.stderr
        )
        assert len(imports.sandbox.agents) == 3
    assert report.read_bytes() == before
