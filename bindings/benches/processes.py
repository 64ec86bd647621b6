"""The benchmarks' services, which run as separate processes, and the resources that a process has used."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# The key for every service. The service with fixed responses does not check it.
KEY = "sandbox-key"


@contextmanager
def fixed_service(program: Path, threads: int = 1) -> Iterator[tuple[str, int]]:
    """Starts the Rust benchmarks' service, bare hyper with fixed responses; yields its URL and its process."""
    command = [program, "--threads", str(threads)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as service:
        assert service.stdout is not None and service.stdin is not None
        try:
            yield service.stdout.readline().strip(), service.pid
        finally:
            service.stdin.close()


@contextmanager
def ended(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """Yields the process, and ends it afterwards."""
    with process:
        try:
            yield process
        finally:
            process.terminate()


@contextmanager
def sandbox(program: Path, deals: int) -> Iterator[str]:
    """Starts the sandbox with generated deals, and yields its URL."""
    command = [program, "--listen", "127.0.0.1:0", "--service-key", KEY, "--generate", str(deals)]
    with ended(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)) as process:
        assert process.stdout is not None
        yield process.stdout.readline().split()[-1]


def cpu_seconds(pid: int) -> float:
    """Returns the CPU time of all threads of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int | str, which: str) -> int:
    """Returns the resident bytes of a process: current (``VmRSS``) or peak (``VmHWM``)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(which):
            return int(line.split()[1]) * 1024
    raise LookupError(which)
