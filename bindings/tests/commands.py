"""Runs the `dealkit` command in this process, in other processes and on terminals."""

from __future__ import annotations

import contextlib
import csv
import io
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self
from unittest.mock import patch

from processes import HANG_SECONDS, STRICT_FLAGS, wait_for_output

from dealkit._cli import main
from dealkit.testing import Sandbox

# Sets default signal handlers as in a shell, even if this process was started with some signals ignored.
RESET_SIGNALS = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT):
    signal.signal(number, signal.SIG_DFL)
"""
RUN_COMMAND = """
import sys
from dealkit._cli import main
from dealkit.testing import Sandbox
sys.exit(main())
"""
COMMAND_SCRIPT = RESET_SIGNALS + RUN_COMMAND


class CommandResult(NamedTuple):
    """The exit code and the output of a command."""

    code: int
    stdout: str
    stderr: str


def command_environment(url: str, key: str, env: Mapping[str, str] | None = None) -> dict[str, str]:
    """Returns the environment variables of a command, without Python's own. An empty URL or key is not set."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    service_variables = {
        name: value for name, value in (("DEALKIT_BASE_URL", url), ("DEALKIT_SERVICE_KEY", key)) if value
    }
    return {**inherited, **service_variables, **(env or {})}


def start_command(
    *arguments: str | Path,
    url: str = "",
    key: str = "sandbox-key",
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    setup_code: str = "",
    stderr: int = subprocess.PIPE,
) -> subprocess.Popen[str]:
    """Starts the command in a process that first runs the code `setup_code`, and captures its output."""
    return subprocess.Popen(
        [sys.executable, *STRICT_FLAGS, "-c", f"{RESET_SIGNALS}\n{setup_code}\n{RUN_COMMAND}", *map(str, arguments)],
        env=command_environment(url, key, env),
        cwd=cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        encoding="utf-8",
        process_group=0,
    )


def wait_for_stderr(process: subprocess.Popen[str], text: str) -> str:
    """Reads standard error until it contains a text, and returns the output so far."""
    stderr = ""
    assert process.stderr is not None
    while text not in stderr:
        line = process.stderr.readline()
        assert line, f"the command ended without this message: {stderr}"
        stderr += line
    return stderr


def finish_command(process: subprocess.Popen[str], stdin: str = "", seconds: float = HANG_SECONDS) -> CommandResult:
    """Waits until a command ends. Its output must not contain a traceback."""
    stdout, stderr = wait_for_output(process, stdin, seconds)
    assert "Traceback" not in stderr and "Warning" not in stderr, stderr
    return CommandResult(process.returncode, stdout, stderr)


def run_command(
    *arguments: str | Path,
    url: str = "",
    key: str = "sandbox-key",
    stdin: str = "",
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> CommandResult:
    """Runs the command in this process, because starting a process takes longer than most commands. `stdin` is its
    standard input.
    """
    variables = command_environment(url, key, env)
    encoding = variables.get("PYTHONIOENCODING", "utf-8")
    streams: list[Any] = [io.TextIOWrapper(io.BytesIO(), encoding=encoding, write_through=True) for _ in range(3)]
    streams[0].buffer.write(stdin.encode())
    streams[0].seek(0)
    previous_streams = sys.stdin, sys.stdout, sys.stderr
    with patch.dict(os.environ, variables, clear=True), contextlib.chdir(cwd or "."):
        try:
            sys.stdin, sys.stdout, sys.stderr = streams
            code: Any = main([*map(str, arguments)])
        except SystemExit as exit:
            code = exit.code
        finally:
            sys.stdin, sys.stdout, sys.stderr = previous_streams
    stdout, stderr = (stream.buffer.getvalue().decode() for stream in streams[1:])
    assert "Traceback" not in stderr and "Warning" not in stderr, stderr
    return CommandResult(code, stdout, stderr)


class TableImport:
    """The table agents.csv in a folder, and imports of it into a sandbox with `dealkit agents import`."""

    def __init__(self, folder: Path, sandbox: Sandbox) -> None:
        self.folder = folder
        self.sandbox = sandbox

    def write(self, table: str | int) -> None:
        """Writes the table: a string, or a number of valid agents."""
        if isinstance(table, int):
            rows = "".join(f"a{number}@example.com,A,B{number},x-{number}\n" for number in range(table))
            table = f"email,first_name,last_name,profile.external_id\n{rows}"
        (self.folder / "agents.csv").write_text(table)

    def __call__(
        self, *options: str | Path, yes: bool = True, stdin: str = "", into: Sandbox | None = None
    ) -> CommandResult:
        """Imports the table into a sandbox, by default the test's."""
        url, confirmed = (into or self.sandbox).url, ["--yes"] if yes else []
        return self.command("agents", "import", "agents.csv", *options, *confirmed, url=url, stdin=stdin)

    def dry(self, *options: str, url: str = "", key: str = "") -> CommandResult:
        """Imports the table with --dry-run, which needs neither a service nor a key."""
        return self.command("agents", "import", "agents.csv", "--dry-run", *options, url=url, key=key)

    def command(self, *arguments: str | Path, **options: Any) -> CommandResult:
        """Runs any command in the table's folder."""
        return run_command(*arguments, cwd=self.folder, **options)

    def start(self, *options: str, stderr: int = subprocess.PIPE) -> subprocess.Popen[str]:
        """Starts an import of the table in another process."""
        return start_command(*self.arguments(*options), url=self.sandbox.url, cwd=self.folder, stderr=stderr)

    def arguments(self, *options: str) -> list[str]:
        return ["agents", "import", "agents.csv", "--yes", *options]

    def on_a_terminal(self, *options: str, setup_code: str = "") -> Terminal:
        arguments = ["agents", "import", "agents.csv", *options]
        return Terminal(*arguments, url=self.sandbox.url, cwd=self.folder, setup_code=setup_code)

    def ledger(self, sandbox: Sandbox | None = None) -> str:
        """Returns the default name of the ledger for a sandbox."""
        return f"agents-{(sandbox or self.sandbox).url.removeprefix('http://').replace(':', '-')}.ledger"

    def report(self, name: str = "agents.csv.report.csv") -> list[dict[str, str]]:
        """Reads the rows of a report, which has the same delimiter as the table."""
        with open(self.folder / name, encoding="utf-8-sig", newline="") as file:
            delimiter = file.readline()[3]
            file.seek(0)
            return [*csv.DictReader(file, delimiter=delimiter)]

    def outcomes(self, name: str = "agents.csv.report.csv") -> dict[str, str]:
        """Returns the outcome of each row in a report, by row number."""
        return {row["row"]: row["outcome"] for row in self.report(name)}

    def fill_in(self, found: dict[str, str], encoding: str = "utf-8-sig") -> None:
        """Fills in agent_id in the report, and saves the report as a spreadsheet in western Europe does."""
        rows = self.report()
        for row in rows:
            row["agent_id"] = found.get(row["row"], row["agent_id"])
        with open(self.folder / "agents.csv.report.csv", "w", encoding=encoding, newline="") as file:
            table = csv.DictWriter(file, rows[0], delimiter=";")
            table.writeheader()
            table.writerows(rows)


def parse_counts(stdout: str) -> dict[str, int]:
    """Parses the number of rows by outcome from an import's output."""
    found = re.findall(r"^(Created|Rejected|Unknown|Not sent|Cannot be sent) +([\d,]+)", stdout, re.MULTILINE)
    counts: dict[str, int] = {}
    for label, number in found:
        name = "invalid" if label == "Cannot be sent" else label.lower().replace(" ", "-")
        counts[name] = int(number.replace(",", ""))
    return {name: number for name, number in counts.items() if number or name != "invalid"}


class Terminal:
    """The command on a pseudo-terminal, with methods that act as its user."""

    def __init__(
        self,
        *arguments: str | Path,
        url: str,
        key: str = "sandbox-key",
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        setup_code: str = "",
    ) -> None:
        self._master, slave = pty.openpty()
        # In a session of its own, the pseudo-terminal is the controlling terminal. Then Ctrl-C reaches only this
        # command, and closing the terminal sends it a signal.
        controlling = "import fcntl, termios\nfcntl.ioctl(0, termios.TIOCSCTTY, 0)"
        script = f"{controlling}\n{RESET_SIGNALS}\n{setup_code}\n{RUN_COMMAND}"
        self._process = subprocess.Popen(
            [sys.executable, *STRICT_FLAGS, "-c", script, *map(str, arguments)],
            env=command_environment(url, key, {"TERM": "xterm", "COLUMNS": "400", **(env or {})}),
            cwd=cwd,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self.screen = ""
        """All output so far."""

    def enter(self, text: str) -> None:
        """Types characters into the terminal."""
        os.write(self._master, text.encode())

    def interrupt(self) -> None:
        """Sends SIGINT, as Ctrl-C does."""
        self._process.send_signal(signal.SIGINT)

    def wait_for(self, expected: str | Callable[[str], object], seconds: float = HANG_SECONDS) -> None:
        """Waits until the screen contains a text or meets a condition."""
        deadline = time.monotonic() + seconds
        while not (expected(self.screen) if callable(expected) else expected in self.screen):
            assert self._read(deadline - time.monotonic()), f"the text did not appear: {self.screen}"

    def end(self, seconds: float = HANG_SECONDS) -> int:
        """Reads the output until the command ends, and returns its exit code."""
        deadline = time.monotonic() + seconds
        while self._read(deadline - time.monotonic()):
            pass
        code = self._process.wait(max(deadline - time.monotonic(), 1))
        assert "Traceback" not in self.screen, self.screen
        return code

    def hang_up(self) -> None:
        """Closes the terminal, as closing its window does. The system then sends SIGHUP to the command."""
        os.close(self._master)

    def wait(self, seconds: float = HANG_SECONDS) -> int:
        """Waits until the command ends, without reading its output, and returns its exit code."""
        return self._process.wait(seconds)

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], max(seconds, 0))
        if not ready:
            return False
        try:
            data = os.read(self._master, 65536)
        except OSError:
            return False  # the other end is closed
        self.screen += data.decode(errors="replace").replace("\r\n", "\n")
        return bool(data)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        os.close(self._master)
