"""Child processes and a server with scripted responses."""

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

# The number of seconds after which a process or an event counts as hanging. Chosen so that a busy machine does not
# reach it.
HANG_SECONDS = 240

# Turns Python's warnings into errors and enables its development mode.
STRICT_FLAGS = ("-X", "dev", "-W", "error")

needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")

# The message of asyncio's debug mode about slow callbacks, which a busy machine may cause.
SLOW_CALLBACK = re.compile(r"^Executing <.*> took [0-9.]+ seconds\n", re.MULTILINE)


def start_python(
    script: str | Path,
    *arguments: str,
    url: str = "",
    key: str = "sandbox-key",
    flags: tuple[str, ...] = STRICT_FLAGS,
    env: Mapping[str, str] | None = None,
    folder: Path | None = None,
    waits: bool = False,
) -> subprocess.Popen[str]:
    """Starts a script (a file, or its source) with the client's environment variables set. If `waits` is true, the
    script may call ``input`` to wait for `resume_script`.
    """
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


def resume_script(process: subprocess.Popen[str]) -> None:
    """Resumes a script that waits in ``input``."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def wait_for_output(process: subprocess.Popen[str], stdin: str = "", seconds: float = HANG_SECONDS) -> tuple[str, str]:
    """Waits until a process ends, and returns its standard output and standard error. The process must lead its process
    group.
    """
    try:
        return process.communicate(stdin, timeout=seconds)
    except subprocess.TimeoutExpired:
        # SIGABRT makes faulthandler, which -X dev enables, print where the process hangs. The signal also reaches child
        # processes that keep the output open.
        os.killpg(process.pid, signal.SIGABRT)
        stdout, stderr = process.communicate()
        raise AssertionError(f"the process hangs:\n{stdout}{stderr}") from None


def read_next_line(process: subprocess.Popen[str], seconds: float = HANG_SECONDS) -> str:
    """Reads the next line of a process's standard output. The process must lead its process group."""
    assert process.stdout is not None
    hangs = threading.Timer(seconds, os.killpg, (process.pid, signal.SIGABRT))
    hangs.start()
    try:
        found = process.stdout.readline()
    finally:
        hangs.cancel()
    assert found, "the process has ended, or hangs: {}{}".format(*wait_for_output(process))
    return found


def wait_for_success(process: subprocess.Popen[str], seconds: float = HANG_SECONDS) -> str:
    """Waits until a process ends successfully, with empty standard error. Returns its standard output."""
    stdout, stderr = wait_for_output(process, seconds=seconds)
    assert (process.returncode, SLOW_CALLBACK.sub("", stderr)) == (0, ""), (
        f"exit code {process.returncode}:\n{stdout}{stderr}"
    )
    return stdout


class Peer(socketserver.ThreadingTCPServer):
    """A server that sends the same response to every request, or the response that a function returns. If the response
    is empty, requests stay unanswered.

    With `certificate`, the server uses TLS. With `clients`, a file of CA certificates, it also requires a client
    certificate.
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
            # The first read in the connection's thread performs the handshake.
            connection = self._context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        self.connections.append(connection)
        return connection, address

    def handle_error(self, request: Any, client_address: Any) -> None:
        # Connections that a client breaks off are expected.
        if not isinstance(sys.exception(), OSError):
            raise

    def wait_for_requests(self, count: int, seconds: float = HANG_SECONDS) -> None:
        """Waits until this many requests have arrived."""
        with self.changed:
            has_happened = self.changed.wait_for(lambda: len(self.requests) >= count, seconds)
        assert has_happened, f"{len(self.requests)} requests have arrived instead of {count}"

    def wait_for_ends(self, count: int, seconds: float = HANG_SECONDS) -> None:
        """Waits until this many connections have ended."""
        with self.changed:
            has_happened = self.changed.wait_for(lambda: self.ended >= count, seconds)
        assert has_happened, f"{self.ended} connections have ended instead of {count}"

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
    """Runs pytest on a file, without this project's settings, and returns its output."""
    script = "import sys, pytest; sys.exit(pytest.main(sys.argv[1:]))"
    alone = ["-q", "-p", "no:cacheprovider", "-p", "no:asyncio", "-W", "error", *options]
    return wait_for_success(start_python(script, str(file), *alone, flags=()))


@contextlib.contextmanager
def press_ctrl_c_when(when: Callable[[], object]) -> Iterator[None]:
    """Sends SIGINT as soon as ``when`` returns, and asserts that it interrupts the block. ``when`` waits for an event."""

    def press() -> None:
        when()
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        yield
    thread.join()


def wait_until(condition: Callable[[], object], seconds: float = HANG_SECONDS) -> None:
    """Waits until a condition is true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)
