"""The `dealkit` command in real processes, and on terminals."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self
from unittest.mock import patch

from processes import STRICT

from dealkit._cli import main

# Ctrl-C behaves as in a shell, even if this process was started with it ignored.
COMMAND = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from dealkit._cli import main
sys.exit(main())
"""


class Done(NamedTuple):
    """The result of a command."""

    code: int
    shown: str
    told: str


def environment(url: str, key: str, env: Mapping[str, str] | None = None) -> dict[str, str]:
    """A command's environment variables: empty ones are not set, and Python's own are as users have them."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    given = {**own, "DEALKIT_BASE_URL": url, "DEALKIT_SERVICE_KEY": key, **(env or {})}
    return {name: value for name, value in given.items() if value or not name.startswith("DEALKIT_")}


def start(
    *arguments: str | Path,
    url: str = "",
    key: str = "sandbox-key",
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> subprocess.Popen[str]:
    """Starts the command and captures its output."""
    return subprocess.Popen(
        [sys.executable, *STRICT, "-c", COMMAND, *map(str, arguments)],
        env=environment(url, key, env),
        cwd=cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


def until_told(process: subprocess.Popen[str], text: str) -> str:
    """Waits until a command has printed a text to standard error, and returns what it has printed there so far."""
    told = ""
    assert process.stderr is not None
    while text not in told:
        line = process.stderr.readline()
        assert line, f"not told: {told}"
        told += line
    return told


def end(process: subprocess.Popen[str], given: str = "", seconds: float = 60) -> Done:
    """Waits for a command to end. No expected failure shows a traceback."""
    try:
        shown, told = process.communicate(given, timeout=seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)
        shown, told = process.communicate()
        raise AssertionError(f"the command hangs:\n{shown}{told}") from None
    assert "Traceback" not in told and "Warning" not in told, told
    return Done(process.returncode, shown, told)


def dealkit(
    *arguments: str | Path,
    url: str = "",
    key: str = "sandbox-key",
    given: str = "",
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Done:
    """Runs the command with the given standard input, in this process: starting one takes longer than most commands."""
    variables = environment(url, key, env)
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
    return Done(code, shown, told)


def _take_terminal() -> None:
    """Makes standard input the controlling terminal of the new session: whoever has it is told when it is closed."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Terminal:
    """The command on a terminal of its own: somebody types, and looks at the screen."""

    def __init__(
        self,
        *arguments: str | Path,
        url: str,
        key: str = "sandbox-key",
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        self._master, slave = pty.openpty()
        # In its own session the terminal is its controlling terminal, so Ctrl-C goes to it and to nobody else.
        self._process = subprocess.Popen(
            [sys.executable, *STRICT, "-c", COMMAND, *map(str, arguments)],
            env=environment(url, key, {"TERM": "xterm", "COLUMNS": "100", **(env or {})}),
            cwd=cwd,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=_take_terminal,
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

    def wait_for(self, is_there: str | Callable[[str], object], seconds: float = 60) -> None:
        """Waits until something is on the screen."""
        deadline = time.monotonic() + seconds
        while not (is_there(self.screen) if callable(is_there) else is_there in self.screen):
            assert self._read(deadline - time.monotonic()), f"not shown: {self.screen}"

    def end(self, seconds: float = 60) -> int:
        """Waits for the command to end, and returns its exit code."""
        deadline = time.monotonic() + seconds
        while self._read(deadline - time.monotonic()):
            pass
        code = self._process.wait(max(deadline - time.monotonic(), 1))
        assert "Traceback" not in self.screen, self.screen
        return code

    def hang_up(self, seconds: float = 60) -> int:
        """Closes the terminal, as somebody closes its window, and returns the command's exit code."""
        os.close(self._master)
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

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        os.close(self._master)
