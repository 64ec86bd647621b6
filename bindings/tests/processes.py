"""Real processes and a server that never answers, for the tests that need them."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import pytest

# Everything that Python finds wrong is an error, and shows on standard error.
STRICT = ("-X", "dev", "-W", "error")

needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")

# On a busy machine, asyncio's debug mode reports that its callbacks take long.
SLOW = re.compile(r"^Executing <.*> took [0-9.]+ seconds\n", re.MULTILINE)


def python(
    script: str | Path,
    *arguments: str,
    url: str = "",
    key: str = "sandbox-key",
    flags: tuple[str, ...] = STRICT,
    env: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> subprocess.Popen[str]:
    """Starts a script (a file, or its source) with the client's environment variables set."""
    program = [str(script)] if isinstance(script, Path) else ["-c", script]
    return subprocess.Popen(
        [sys.executable, *flags, *program, *arguments],
        cwd=folder,
        env={**os.environ, "DEALKIT_BASE_URL": url, "DEALKIT_SERVICE_KEY": key, **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str], seconds: float = 60) -> str:
    """The output of a process that must end well, with nothing on standard error."""
    try:
        shown, told = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        # faulthandler, which -X dev enables, shows where the process hangs.
        process.send_signal(signal.SIGABRT)
        shown, told = process.communicate()
        raise AssertionError(f"the process hangs:\n{shown}{told}") from None
    assert (process.returncode, SLOW.sub("", told)) == (0, ""), f"exit code {process.returncode}:\n{shown}{told}"
    return shown


def shut_down(one: socket.socket) -> None:
    """Ends what other threads are doing with a socket, which stays open."""
    try:
        one.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # It has ended, or was closed by the thread that serves it.


class Tarpit:
    """A server that takes every request, never answers, and notices when a connection ends.

    It does answer a request for one deal, if it was given the id of that deal.
    """

    def __init__(self, but: str | None = None) -> None:
        self._but = None if but is None else f"GET /v1/deals/{but} ".encode()
        body = f'{{"id": "{but}"}}'
        self._answer = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
        self._changed = threading.Condition()
        self._requests = 0
        self._ended = 0
        self._connections: list[socket.socket] = []
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self._connections.append(connection)
            threading.Thread(target=self._swallow, args=(connection,), daemon=True).start()

    def _swallow(self, connection: socket.socket) -> None:
        data = b""
        with connection:
            try:
                while chunk := connection.recv(65536):
                    data += chunk
                    if data.endswith((b"\r\n\r\n", b"}")):  # The body of a create ends with a brace.
                        if self._but is not None and data.startswith(self._but):
                            connection.sendall(self._answer)
                        data = b""
                        with self._changed:
                            self._requests += 1
                            self._changed.notify_all()
            except OSError:
                pass
        with self._changed:
            self._ended += 1
            self._changed.notify_all()

    def wait_for_requests(self, count: int, seconds: float = 20) -> None:
        """Waits until this many requests have arrived."""
        with self._changed:
            came = self._changed.wait_for(lambda: self._requests >= count, seconds)
        assert came, f"{self._requests} requests came, not {count}"

    def wait_for_ends(self, count: int, seconds: float = 5) -> None:
        """Waits until the client has closed this many connections."""
        with self._changed:
            came = self._changed.wait_for(lambda: self._ended >= count, seconds)
        assert came, f"{self._ended} connections ended, not {count}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Woken, not closed: a thread that is about to call accept would otherwise accept for whatever socket has reused
        # the descriptor by then. The threads and this object drop their sockets themselves.
        for one in (self._socket, *self._connections):
            shut_down(one)
        self._accepting.join(5)
        self._socket.close()


def interrupt(process: subprocess.Popen[str]) -> float:
    """Presses Ctrl-C. Returns the time, on the clock that all processes of the machine share."""
    now = time.monotonic()
    process.send_signal(signal.SIGINT)
    return now
