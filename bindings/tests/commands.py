"""The `dealkit` command in real processes, and on terminals."""

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

# Signals have the same effect as in a shell, even if this process was started with some of them ignored.
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
    """The result of a command."""

    code: int
    shown: str
    told: str


def command_environment(url: str, key: str, env: Mapping[str, str] | None = None) -> dict[str, str]:
    """A command's environment variables: an empty URL or key is not set, and Python's own are as users have them."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    given = {name: value for name, value in (("DEALKIT_BASE_URL", url), ("DEALKIT_SERVICE_KEY", key)) if value}
    return {**own, **given, **(env or {})}


def start_command(
    *arguments: str | Path,
    url: str = "",
    key: str = "sandbox-key",
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    before: str = "",
    stderr: int = subprocess.PIPE,
) -> subprocess.Popen[str]:
    """Starts the command, after what else its process is to do, and captures its output."""
    return subprocess.Popen(
        [sys.executable, *STRICT_FLAGS, "-c", f"{RESET_SIGNALS}\n{before}\n{RUN_COMMAND}", *map(str, arguments)],
        env=command_environment(url, key, env),
        cwd=cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        encoding="utf-8",
        process_group=0,
    )


def wait_for_stderr(process: subprocess.Popen[str], text: str) -> str:
    """Waits until a command has printed a text to standard error, and returns what it has printed there so far."""
    told = ""
    assert process.stderr is not None
    while text not in told:
        line = process.stderr.readline()
        assert line, f"not told: {told}"
        told += line
    return told


def finish_command(process: subprocess.Popen[str], given: str = "", seconds: float = HANG_SECONDS) -> CommandResult:
    """Waits for a command to end. No expected failure shows a traceback."""
    shown, told = wait_for_output(process, given, seconds)
    assert "Traceback" not in told and "Warning" not in told, told
    return CommandResult(process.returncode, shown, told)


def run_command(
    *arguments: str | Path,
    url: str = "",
    key: str = "sandbox-key",
    given: str = "",
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> CommandResult:
    """Runs the command with the given standard input, in this process: starting one takes longer than most commands."""
    variables = command_environment(url, key, env)
    encoding = variables.get("PYTHONIOENCODING", "utf-8")
    streams: list[Any] = [io.TextIOWrapper(io.BytesIO(), encoding=encoding, write_through=True) for _ in range(3)]
    streams[0].buffer.write(given.encode())
    streams[0].seek(0)
    before = sys.stdin, sys.stdout, sys.stderr
    with patch.dict(os.environ, variables, clear=True), contextlib.chdir(cwd or "."):
        try:
            sys.stdin, sys.stdout, sys.stderr = streams
            code: Any = main([*map(str, arguments)])
        except SystemExit as exit:
            code = exit.code
        finally:
            sys.stdin, sys.stdout, sys.stderr = before
    shown, told = (stream.buffer.getvalue().decode() for stream in streams[1:])
    assert "Traceback" not in told and "Warning" not in told, told
    return CommandResult(code, shown, told)


class TableImport:
    """The table agents.csv in a folder of its own, and `dealkit agents import` of it into a sandbox."""

    def __init__(self, folder: Path, sandbox: Sandbox) -> None:
        self.folder = folder
        self.sandbox = sandbox

    def write(self, table: str | int) -> None:
        """Writes the table: a text, or a number of agents without mistakes."""
        if isinstance(table, int):
            rows = "".join(f"a{number}@example.com,A,B{number},x-{number}\n" for number in range(table))
            table = f"email,first_name,last_name,profile.external_id\n{rows}"
        (self.folder / "agents.csv").write_text(table)

    def __call__(
        self, *options: str | Path, yes: bool = True, given: str = "", into: Sandbox | None = None
    ) -> CommandResult:
        """Imports the table, into this sandbox or another one."""
        url, confirmed = (into or self.sandbox).url, ["--yes"] if yes else []
        return self.command("agents", "import", "agents.csv", *options, *confirmed, url=url, given=given)

    def dry(self, *options: str, url: str = "", key: str = "") -> CommandResult:
        """A dry run, which needs neither a service nor a key."""
        return self.command("agents", "import", "agents.csv", "--dry-run", *options, url=url, key=key)

    def command(self, *arguments: str | Path, **given: Any) -> CommandResult:
        """Any command, in the table's folder."""
        return run_command(*arguments, cwd=self.folder, **given)

    def start(self, *options: str, stderr: int = subprocess.PIPE) -> subprocess.Popen[str]:
        """Begins to import the table in a process of its own."""
        return start_command(*self.arguments(*options), url=self.sandbox.url, cwd=self.folder, stderr=stderr)

    def arguments(self, *options: str) -> list[str]:
        return ["agents", "import", "agents.csv", "--yes", *options]

    def on_a_terminal(self, *options: str, before: str = "") -> Terminal:
        arguments = ["agents", "import", "agents.csv", *options]
        return Terminal(*arguments, url=self.sandbox.url, cwd=self.folder, before=before)

    def ledger(self, of: Sandbox | None = None) -> str:
        """The name of the ledger that imports into a service have by default."""
        return f"agents-{(of or self.sandbox).url.removeprefix('http://').replace(':', '-')}.ledger"

    def report(self, name: str = "agents.csv.report.csv") -> list[dict[str, str]]:
        """The rows of a report, which separates columns as the table does."""
        with open(self.folder / name, encoding="utf-8-sig", newline="") as file:
            delimiter = file.readline()[3]
            file.seek(0)
            return [*csv.DictReader(file, delimiter=delimiter)]

    def outcomes(self, name: str = "agents.csv.report.csv") -> dict[str, str]:
        """The outcome of each row, according to a report."""
        return {row["row"]: row["outcome"] for row in self.report(name)}

    def fill_in(self, found: dict[str, str], encoding: str = "utf-8-sig") -> None:
        """Fills in the agent ids of rows of the report, and saves it as a spreadsheet in western Europe does."""
        rows = self.report()
        for row in rows:
            row["agent_id"] = found.get(row["row"], row["agent_id"])
        with open(self.folder / "agents.csv.report.csv", "w", encoding=encoding, newline="") as file:
            table = csv.DictWriter(file, rows[0], delimiter=";")
            table.writeheader()
            table.writerows(rows)


def parse_counts(shown: str) -> dict[str, int]:
    """How many rows of an import had each outcome, according to the screen."""
    found = re.findall(r"^(Created|Rejected|Unknown|Not sent|Invalid) +([\d,]+)", shown, re.MULTILINE)
    return {name.lower().replace(" ", "-"): int(number.replace(",", "")) for name, number in found}


class Terminal:
    """The command on a terminal of its own: somebody types, and looks at the screen."""

    def __init__(
        self,
        *arguments: str | Path,
        url: str,
        key: str = "sandbox-key",
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        before: str = "",
    ) -> None:
        self._master, slave = pty.openpty()
        # In its own session the terminal is its controlling terminal, so Ctrl-C goes to it and to nobody else, and it is told
        # when the terminal is closed.
        controlling = "import fcntl, termios\nfcntl.ioctl(0, termios.TIOCSCTTY, 0)"
        script = f"{controlling}\n{RESET_SIGNALS}\n{before}\n{RUN_COMMAND}"
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
        """Everything that was shown so far."""

    def enter(self, text: str) -> None:
        """Types a text."""
        os.write(self._master, text.encode())

    def interrupt(self) -> None:
        """Presses Ctrl-C."""
        self._process.send_signal(signal.SIGINT)

    def wait_for(self, is_there: str | Callable[[str], object], seconds: float = HANG_SECONDS) -> None:
        """Waits until something is on the screen."""
        deadline = time.monotonic() + seconds
        while not (is_there(self.screen) if callable(is_there) else is_there in self.screen):
            assert self._read(deadline - time.monotonic()), f"not shown: {self.screen}"

    def end(self, seconds: float = HANG_SECONDS) -> int:
        """Waits for the command to end, and returns its exit code."""
        deadline = time.monotonic() + seconds
        while self._read(deadline - time.monotonic()):
            pass
        code = self._process.wait(max(deadline - time.monotonic(), 1))
        assert "Traceback" not in self.screen, self.screen
        return code

    def hang_up(self) -> None:
        """Closes the terminal, as a user closes its window. The command then has its signal."""
        os.close(self._master)

    def wait(self, seconds: float = HANG_SECONDS) -> int:
        """Waits for the command to end without a terminal, and returns its exit code."""
        return self._process.wait(seconds)

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], max(seconds, 0))
        if not ready:
            return False
        try:
            data = os.read(self._master, 65536)
        except OSError:
            return False  # Nobody has the other end open any more.
        self.screen += data.decode(errors="replace").replace("\r\n", "\n")
        return bool(data)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        os.close(self._master)
