"""The command in the shells and consoles of Windows, which the tests simulate: the variables that each shell sets, and the
encodings of its output.
"""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from commands import command_environment, run_command
from processes import HANG_SECONDS

from dealkit._cli import main, shells, terminal
from dealkit.testing import Sandbox

FOLDERS = {"ProgramFiles": r"C:\Program Files", "SystemRoot": r"C:\Windows"}
SYSTEM = r"C:\Program Files\WindowsPowerShell\Modules;C:\Windows\system32\WindowsPowerShell\v1.0\Modules"
RAW_SYSTEM = r"%ProgramFiles%\WindowsPowerShell\Modules;%SystemRoot%\system32\WindowsPowerShell\v1.0\Modules"
DOCUMENTS = rf"C:\Users\ada\OneDrive\Dokumente\WindowsPowerShell\Modules;{SYSTEM}"

# The shell, whether the system is Windows, and the variables that the shell sets.
ENVIRONMENTS: list[tuple[str, bool, dict[str, str]]] = [
    ("posix", False, {}),
    (
        "powershell",
        False,
        {"PSModulePath": "/home/ada/.local/share/powershell/Modules:/opt/microsoft/powershell/7/Modules"},
    ),
    ("powershell", True, {"PSModulePath": DOCUMENTS, **FOLDERS}),
    ("powershell", True, {"PSModulePath": rf"D:\Home\PowerShell\Modules;{SYSTEM}", **FOLDERS}),
    ("powershell", True, {"PSModulePath": DOCUMENTS, "PROMPT": "$P$G", **FOLDERS}),
    ("powershell", True, {"PSModulePath": SYSTEM, **FOLDERS}),
    ("cmd", True, {"PSModulePath": SYSTEM, "PROMPT": "$P$G", **FOLDERS}),
    ("cmd", True, {"PSModulePath": RAW_SYSTEM, "PROMPT": "$P$G", **FOLDERS}),
    ("cmd", True, {"PROMPT": "$P$G"}),
    ("posix", True, {"PSModulePath": SYSTEM, "MSYSTEM": "MINGW64", **FOLDERS}),
]
KEY_LINES = {
    "posix": "  read -rs DEALKIT_SERVICE_KEY && export DEALKIT_SERVICE_KEY\n",
    "powershell": "  $env:DEALKIT_SERVICE_KEY = [Net.NetworkCredential]::new('', (Read-Host 'Key' -AsSecureString)).Password\n",
    "cmd": "  set /p DEALKIT_SERVICE_KEY=Key: \n",
}


@pytest.mark.parametrize(("shell", "is_windows", "variables"), ENVIRONMENTS)
def test_a_missing_key_is_entered_in_the_syntax_of_the_shell(
    shell: str, is_windows: bool, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shells, "_IS_WINDOWS", is_windows)
    completed = run_command("check", url="https://deals.example.com", key="", env=variables)
    assert completed.code == 2 and KEY_LINES[shell] in completed.stderr


def enter_environment(shell: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Simulates a shell, and returns the variables that it sets."""
    _, is_windows, variables = next(entry for entry in ENVIRONMENTS if entry[0] == shell)
    monkeypatch.setattr(shells, "_IS_WINDOWS", is_windows)
    return variables


# A file name, and the way in which posix, powershell and cmd take it.
FILES = [
    ("plain-1.txt", "plain-1.txt", "plain-1.txt", "plain-1.txt"),
    ("two words.txt", "'two words.txt'", "'two words.txt'", '"two words.txt"'),
    ("Ada's.txt", "'Ada'\"'\"'s.txt'", "'Ada''s.txt'", '"Ada\'s.txt"'),
    ("Ada’s.txt", "'Ada’s.txt'", "'Ada’’s.txt'", '"Ada’s.txt"'),
    ("a$b&c(1);.txt", "'a$b&c(1);.txt'", "'a$b&c(1);.txt'", '"a$b&c(1);.txt"'),
    ("50%.txt", "50%.txt", "50%.txt", "50%.txt"),
    ("%LISTS%.txt", "%LISTS%.txt", "%LISTS%.txt", '""^%"LISTS"^%".txt"'),
    ("%d.%m.txt", "%d.%m.txt", "%d.%m.txt", "%d.%m.txt"),
    ('a "b" c.txt', "'a \"b\" c.txt'", "'a \"b\" c.txt'", '"a ""b"" c.txt"'),
]


@pytest.mark.parametrize("shell", ["posix", "powershell", "cmd"])
@pytest.mark.parametrize(("name", "posix", "powershell", "cmd"), FILES)
def test_a_command_to_repeat_has_the_quotes_of_the_shell(
    shell: str,
    name: str,
    posix: str,
    powershell: str,
    cmd: str,
    dealkit_sandbox: Sandbox,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / name).write_text("d_1\nd_2\n")
    variables = {**enter_environment(shell, monkeypatch), "LISTS": "x"}
    command = ["deals", "export", "--ids", name, "--out", "deals.csv", "--concurrency", "1"]
    # An export that has a deal can be continued.
    dealkit_sandbox.fail_next(status=401, times=None, after=1)
    completed = run_command(*command, url=dealkit_sandbox.url, env=variables, cwd=tmp_path)
    quoted = {"posix": posix, "powershell": powershell, "cmd": cmd}[shell]
    assert completed.stderr.endswith(f"\n  dealkit deals export --ids {quoted} --out deals.csv --concurrency 1\n"), (
        completed
    )


def test_output_does_not_fail_in_a_console_with_few_characters() -> None:
    with Sandbox([{"id": "d", "status": "CLOSED", "external_id": "Łódź 東京 …"}]) as sandbox:
        for encoding, shown in (("cp1252", "?ód? ?? …"), ("cp437", "?ód? ?? ?"), ("ascii", "??d? ?? ?")):
            for arguments in (
                ["deal", "d"],
                ["--help"],
                ["agents", "import", "東.csv", "--dry-run"],
                ["deal", "d", "--json"],
            ):
                completed = subprocess.run(
                    [sys.executable, "-m", "dealkit", *arguments],
                    env=command_environment(
                        sandbox.url, "sandbox-key", {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
                    ),
                    capture_output=True,
                    timeout=HANG_SECONDS,
                )
                assert b"Traceback" not in completed.stderr and completed.returncode == (
                    2 if "東.csv" in arguments else 0
                )
                if arguments == ["deal", "d"]:
                    assert f"external_id  {shown}" in completed.stdout.decode(encoding).replace("\r\n", "\n")


def test_a_file_that_excel_has_open_is_named(
    dealkit_sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ids.txt").write_text("d_1\n")
    (tmp_path / "agents.csv").write_text("email,first_name,last_name\na@example.com,A,B\n")

    def reject_open_file(_source: object, _target: object) -> None:
        """Raises the error of Windows for a file that another program has open."""
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "replace", reject_open_file)
    export = ["deals", "export", "--ids", "ids.txt", "--out", "deals.csv"]
    for command, name in (
        (export, "deals.csv"),
        (["agents", "import", "agents.csv", "--yes"], "agents.csv.report.csv"),
    ):
        completed = run_command(*command, url=dealkit_sandbox.url, cwd=tmp_path)
        reason = "access is denied. Is it open in another program, such as Excel?"
        assert completed.code == 4 and f"dealkit: {name} cannot be written: {reason}\n" in completed.stderr
    assert dealkit_sandbox.agents == []


class Console(io.RawIOBase):
    """A console of Windows: its raw stream takes whole characters in UTF-8, and its descriptor the console's code page."""

    def __init__(self) -> None:
        self.text = ""
        self._descriptor = os.open(os.devnull, os.O_WRONLY)

    def fileno(self) -> int:
        return self._descriptor

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.text += bytes(data).decode()
        return len(data)


def test_messages_reach_a_console_as_whole_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console()
    monkeypatch.setattr(terminal, "_PIPE_BUF", None)  # as on Windows
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(io.BufferedWriter(console), "utf-8"))
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), "utf-8"))
    name = "Übersicht 東京"
    assert main(["ledger", "show", name]) == 2
    assert console.text.startswith(f"dealkit: There is no ledger {name}.")
