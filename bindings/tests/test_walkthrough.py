"""The page about the command line shows the actual output of the commands."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import shlex
import subprocess
import sys
from pathlib import Path

from processes import needs_curl

from dealkit.testing import Sandbox

PAGE = (Path(__file__).parents[2] / "docs/guide/command.md").read_text("utf-8")
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


@needs_curl
def test_the_commands_show_what_the_page_says(tmp_path: Path, dealkit_sandbox: Sandbox) -> None:
    assert len(SESSIONS) >= 5
    (program := tmp_path / "bin" / "dealkit").parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -X dev -W error -m dealkit "$@"\n')
    program.chmod(0o755)
    env = {**os.environ, "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "80", "NO_COLOR": "1"}
    env |= {"DEALKIT_BASE_URL": dealkit_sandbox.url, "DEALKIT_SERVICE_KEY": dealkit_sandbox.service_key}
    for command, expected in (command_and_output for text in SESSIONS for command_and_output in session(text)):
        if command.startswith("cat "):
            (tmp_path / command.split()[1]).write_text(expected)
        elif not command.startswith("export "):
            output = run(command, tmp_path, env)
            # An ellipsis stands for what is left out.
            if not re.fullmatch(re.escape(expected).replace("…", ".*"), output, re.DOTALL):
                assert output == expected, command


def test_the_columns_of_a_csv_file_are_on_the_page() -> None:
    from dealkit._cli.export_formats import COLUMNS

    listed = ", ".join(f"`{name}`" for name in COLUMNS)
    assert listed in PAGE.replace("\n", " ")
