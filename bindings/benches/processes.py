"""The services of the benchmarks, run as separate processes, and the resources that a process has used."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

# The key that every service is called with. The one with fixed responses does not check it.
KEY = "sandbox-key"


@dataclass(frozen=True)
class Urls:
    """Where the service with fixed responses listens."""

    http1: str
    tls_http1: str
    tls_http2: str
    far: str
    """The same, a round trip of 30 ms away: HTTP/1.1 over TLS."""
    certificate: str
    """The file of the certificate to trust."""
    pid: int
    """The service's process."""


@contextmanager
def fixed_service(program: Path, threads: int = 1) -> Iterator[Urls]:
    """The service with fixed responses of the benchmarks in Rust: bare hyper."""
    with tempfile.TemporaryDirectory() as folder:
        certificate = str(Path(folder, "certificate.pem"))
        with subprocess.Popen(
            [program, certificate, "--threads", str(threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as service:
            assert service.stdout is not None and service.stdin is not None
            try:
                http1, tls_http1, tls_http2, far = service.stdout.readline().split()
                yield Urls(http1, tls_http1, tls_http2, far, certificate, service.pid)
            finally:
                service.stdin.close()


@contextmanager
def ended(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """The process, which is ended afterwards."""
    with process:
        try:
            yield process
        finally:
            process.terminate()


def cpu_seconds(pid: int) -> float:
    """CPU time that a process has used, all threads together."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int | str, which: str) -> int:
    """Resident bytes of a process: now (``VmRSS``) or at most so far (``VmHWM``)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(which):
            return int(line.split()[1]) * 1024
    raise LookupError(which)
