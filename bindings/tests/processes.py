"""Real processes and a server that answers as it is told, for the tests that need them."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import socketserver
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

# After this many seconds, a process or an event counts as hanging. Only a hanging test takes that long, on a busy machine too.
HANGS = 240

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
    waits: bool = False,
) -> subprocess.Popen[str]:
    """Starts a script (a file, or its source) with the client's environment variables set. If it waits, with ``input``, then
    for ``go_on``."""
    program = [str(script)] if isinstance(script, Path) else ["-c", script]
    return subprocess.Popen(
        [sys.executable, *flags, *program, *arguments],
        cwd=folder,
        env={**os.environ, "DEALKIT_BASE_URL": url, "DEALKIT_SERVICE_KEY": key, **(env or {})},
        stdin=subprocess.PIPE if waits else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )


def go_on(process: subprocess.Popen[str]) -> None:
    """Lets a script go on that waits."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def waited_for(process: subprocess.Popen[str], given: str = "", seconds: float = HANGS) -> tuple[str, str]:
    """What a process, the leader of a group, writes to standard output and error until it ends."""
    try:
        return process.communicate(given, timeout=seconds)
    except subprocess.TimeoutExpired:
        # faulthandler, which -X dev enables, shows where it hangs, or a child of its that has the same output.
        os.killpg(process.pid, signal.SIGABRT)
        shown, told = process.communicate()
        raise AssertionError(f"the process hangs:\n{shown}{told}") from None


def next_line(process: subprocess.Popen[str], seconds: float = HANGS) -> str:
    """The next line that a process, the leader of a group, writes to standard output."""
    assert process.stdout is not None
    hangs = threading.Timer(seconds, os.killpg, (process.pid, signal.SIGABRT))
    hangs.start()
    try:
        found = process.stdout.readline()
    finally:
        hangs.cancel()
    assert found, "it ends, or hangs: {}{}".format(*waited_for(process))
    return found


def ended(process: subprocess.Popen[str], seconds: float = HANGS) -> str:
    """The output of a process that must end well, with nothing on standard error."""
    shown, told = waited_for(process, seconds=seconds)
    assert (process.returncode, SLOW.sub("", told)) == (0, ""), f"exit code {process.returncode}:\n{shown}{told}"
    return shown


class Peer(socketserver.ThreadingTCPServer):
    """A server that answers every request with the same bytes, or as a function says; if those are none, it never answers.

    With a certificate, it does so over TLS; with an issuer of its clients' certificates, it asks for one.
    """

    request_queue_size = 256

    def __init__(
        self,
        answer: bytes | Callable[[bytes], bytes] = b"",
        certificate: Path | None = None,
        clients: Path | None = None,
    ) -> None:
        self.answer = answer
        self.requests: list[bytes] = []
        self.connections: list[socket.socket] = []
        self.answered = 0
        self.ended = 0
        self.changed = threading.Condition()
        self._context = None if certificate is None else ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        if self._context is not None and certificate is not None:
            self._context.load_cert_chain(certificate)
            if clients is not None:
                self._context.verify_mode = ssl.CERT_REQUIRED
                self._context.load_verify_locations(clients)
        super().__init__(("127.0.0.1", 0), _Connection)
        address = "http://127.0.0.1" if certificate is None else "https://localhost"
        self.url = f"{address}:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        if self._context is not None:
            # The handshake is part of the first reading, in the connection's own thread.
            connection = self._context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        self.connections.append(connection)
        return connection, address

    def handle_error(self, request: Any, client_address: Any) -> None:
        # That a connection breaks off is no error of the test's.
        if not isinstance(sys.exception(), OSError):
            raise

    def wait_for_requests(self, count: int, seconds: float = HANGS) -> None:
        """Waits until this many requests have arrived."""
        with self.changed:
            came = self.changed.wait_for(lambda: len(self.requests) >= count, seconds)
        assert came, f"{len(self.requests)} requests came, not {count}"

    def wait_for_ends(self, count: int, seconds: float = HANGS) -> None:
        """Waits until this many connections have ended."""
        with self.changed:
            came = self.changed.wait_for(lambda: self.ended >= count, seconds)
        assert came, f"{self.ended} connections ended, not {count}"

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        for connection in self.connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        # Waits for the connections' threads.
        self.server_close()


class _Connection(socketserver.StreamRequestHandler):
    server: Any

    def handle(self) -> None:
        while request := self._read():
            with self.server.changed:
                self.server.requests.append(request)
                self.server.changed.notify_all()
            answer: bytes | Callable[[bytes], bytes] = self.server.answer
            self.wfile.write(answer(request) if callable(answer) else answer)
            with self.server.changed:
                self.server.answered += 1

    def _read(self) -> bytes:
        head = b""
        while line := self.rfile.readline():
            head += line
            if line == b"\r\n":
                length = re.search(rb"(?i)\ncontent-length: *(\d+)", head)
                return head + self.rfile.read(int(length[1]) if length else 0)
        return b""

    def finish(self) -> None:
        with contextlib.suppress(OSError):
            super().finish()
        with self.server.changed:
            self.server.ended += 1
            self.server.changed.notify_all()


def run_pytest(file: Path, *options: str) -> str:
    """The output of a pytest run that knows nothing but this file."""
    script = "import sys, pytest; sys.exit(pytest.main(sys.argv[1:]))"
    alone = ["-q", "-p", "no:cacheprovider", "-p", "no:asyncio", "-W", "error", *options]
    return ended(python(script, str(file), *alone, flags=()))


@contextlib.contextmanager
def pressing_ctrl_c(when: Callable[[], object]) -> Iterator[None]:
    """Presses Ctrl-C once ``when``, which waits for an event, returns: it must interrupt the block."""

    def press() -> None:
        when()
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        yield
    thread.join()


def until(condition: Callable[[], object], seconds: float = HANGS) -> None:
    """Waits until a condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)
