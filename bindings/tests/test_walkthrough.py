"""The page about the command line shows the actual output of the commands.

`python bindings/tests/test_walkthrough.py` writes the current output to the page, except where the page leaves out parts of it.
"""

from __future__ import annotations

import contextlib
import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from commands import run_command
from processes import needs_curl
from workbooks import load_sheet

from dealkit.testing import Sandbox

FILE = Path(__file__).parents[2] / "docs/reference/command.md"
PAGE = FILE.read_text("utf-8")
SESSIONS = re.findall(r"^```console\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def run(command: str, folder: Path, env: dict[str, str]) -> str:
    """Returns the output of a command on a terminal, with fixed text for the parts that vary from run to run."""
    url = env["DEALKIT_BASE_URL"]
    port = url.rpartition(":")[2]
    terminal, command_end = pty.openpty()
    words = ["sh", "-c", command.replace("127.0.0.1-8080", f"127.0.0.1-{port}")]
    with subprocess.Popen(words, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=command_end, stderr=command_end):
        os.close(command_end)
        read = b""
        with contextlib.suppress(OSError):  # Reading a terminal fails once no process has it open.
            while block := os.read(terminal, 65536):
                read += block
    os.close(terminal)
    # Without the progress, which is drawn over.
    text = re.sub(r"^.*\r\x1b\[K.*\n", "", read.decode().replace("\r\n", "\n"), flags=re.MULTILINE)
    text = text.replace(url, "http://127.0.0.1:8080").replace(f"127.0.0.1-{port}", "127.0.0.1-8080")
    return re.sub(r"in [0-9.]+ m?s", "in 9 ms", text)


def session(text: str) -> list[tuple[str, str]]:
    """The commands of a session, each with its output."""
    parts = re.split(r"^\$ ((?:.*\\\n)*.*)\n", text, flags=re.MULTILINE)
    assert parts[0] == ""
    return [*zip(parts[1::2], parts[2::2], strict=True)]


def run_page(folder: Path, sandbox: Sandbox) -> Iterator[tuple[str, str, str]]:
    """Runs the commands of the page. Yields each with the page's output and the actual output."""
    (program := folder / "bin" / "dealkit").parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -X dev -W error -m dealkit "$@"\n')
    program.chmod(0o755)
    env = {**os.environ, "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "80", "NO_COLOR": "1"}
    env |= {"DEALKIT_BASE_URL": sandbox.url, "DEALKIT_SERVICE_KEY": sandbox.service_key}
    for command, expected in (command_and_output for text in SESSIONS for command_and_output in session(text)):
        if command.startswith("cat ") and not (folder / command.split()[1]).exists():
            (folder / command.split()[1]).write_text(expected)
        elif not command.startswith("export "):
            yield command, expected, run(command, folder, env)


def is_shown(expected: str, output: str) -> bool:
    """Returns whether the page shows the output. An ellipsis on the page stands for what is left out."""
    return re.fullmatch(re.escape(expected).replace("…", ".*"), output, re.DOTALL) is not None


@needs_curl
def test_the_commands_show_what_the_page_says(tmp_path: Path, dealkit_sandbox: Sandbox) -> None:
    assert len(SESSIONS) >= 5
    for command, expected, output in run_page(tmp_path, dealkit_sandbox):
        if not is_shown(expected, output):
            assert output == expected, command


def test_the_commands_for_offices_import_the_sample(tmp_path: Path, dealkit_sandbox: Sandbox) -> None:
    page = (FILE.parents[1] / "guide/spreadsheet.md").read_text("utf-8")
    commands = re.findall(r"^ *dealkit ((?:agents|ledger) .*)$", page, re.MULTILINE)
    assert len(commands) == 6
    shutil.copy(FILE.parents[1] / "files/sample-agents.xlsx", tmp_path / "roster.xlsx")
    service = f"agents-127.0.0.1-{dealkit_sandbox.url.rpartition(':')[2]}.ledger"

    def run_line(command: str) -> str:
        words = command.replace("agents-deals.example.com.ledger", service).split()
        answer = [] if "--dry-run" in words or words[0] == "ledger" else ["--yes"]
        completed = run_command(*words, *answer, url=dealkit_sandbox.url, key=dealkit_sandbox.service_key, cwd=tmp_path)
        assert completed.code in (0, 1), completed.stderr
        return completed.stdout

    dry_run, first_five, others, corrected, show, next_week = commands
    assert "Ready           1\nCannot be sent  11" in run_line(dry_run)
    answers = re.search(r'^```text\n(\[words."role"\]\n.*?)^```$', page, re.MULTILINE | re.DOTALL)
    mapping = tmp_path / "roster.toml"
    assert answers is not None
    mapping.write_text(mapping.read_text("utf-8").partition("[words")[0] + answers[1], "utf-8")
    run_line(first_five)
    assert len(dealkit_sandbox.agents) == 5
    assert others.replace("roster.xlsx", "roster.xlsx.rejects.xlsx") == corrected
    run_line(others)
    assert len(dealkit_sandbox.agents) == 11
    sheet = load_sheet(tmp_path / "roster.xlsx.rejects.xlsx")
    assert "has no @" in sheet["H2"].value
    sheet["C2"] = "grace@example.com"
    sheet.parent.save(tmp_path / "roster.xlsx.rejects.xlsx")
    run_line(corrected)
    assert "unknown           0" in run_line(show)
    shutil.copy(tmp_path / "roster.xlsx", tmp_path / "roster-march.xlsx")
    assert "has 11 of them, which are not sent again" in " ".join(run_line(next_week).split())
    assert len(dealkit_sandbox.agents) == 12


def test_the_columns_of_a_csv_file_are_on_the_page() -> None:
    from dealkit._cli.export_formats import COLUMNS

    listed = ", ".join(f"`{name}`" for name in COLUMNS)
    assert listed in PAGE.replace("\n", " ")


def main() -> None:
    page = PAGE
    with TemporaryDirectory() as name, Sandbox() as sandbox:
        for command, expected, output in run_page(Path(name), sandbox):
            if is_shown(expected, output):
                continue
            lines, start = output.splitlines(keepends=True), expected.partition("\n")[2].partition(" ")[0]
            if expected.startswith("…\n") and "…" not in expected[1:]:
                # The page leaves out what is above a line, which begins with the same word.
                first = next(at for at, line in enumerate(lines) if line.startswith(start))
                output = "…\n" + "".join(lines[first:])
            elif "…" in expected:
                print(f"To correct by hand, because the page leaves out parts of this output:\n$ {command}\n{output}")
                continue
            page = page.replace(f"$ {command}\n{expected}", f"$ {command}\n{output}")
    FILE.write_text(page, "utf-8")


if __name__ == "__main__":
    main()
