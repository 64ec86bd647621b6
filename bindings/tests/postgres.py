"""A temporary PostgreSQL server with a password, on reserved loopback ports, and optionally a standby for failover."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from ports import reserved_port

POSTGRES_PACKAGE = "PostgreSQL (Debian: apt-get install postgresql)"
# CI sets this variable. The tests then fail if PostgreSQL is not installed, instead of being skipped.
IS_REQUIRED = os.environ.get("DEALKIT_REQUIRE_POSTGRES") == "1"


def find_programs() -> Path | None:
    """Returns the folder of PostgreSQL's programs, or None. Debian does not put them on the PATH."""
    found = shutil.which("initdb")
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return debian[-1].parent if debian else Path(found).parent if found else None


def must_skip() -> bool:
    """Returns whether tests that need PostgreSQL are skipped."""
    return find_programs() is None and not IS_REQUIRED


def required_programs() -> Path:
    """Returns the folder of PostgreSQL's programs. Raises FileNotFoundError if there is none."""
    found = find_programs()
    if found is None:
        raise FileNotFoundError(f"this test needs {POSTGRES_PACKAGE}")
    return found


class Postgres:
    """A PostgreSQL server, which is stopped and removed when the ``with`` block ends."""

    def __init__(self, programs: Path, password: str, *, has_standby: bool = False) -> None:
        self._programs = programs
        # The folder holds sockets, whose paths must be short.
        self._folder = Path(tempfile.mkdtemp(prefix="dealkit-"))
        # PostgreSQL does not run as root.
        self._user = "postgres" if os.geteuid() == 0 else None
        if self._user:
            shutil.chown(self._folder, self._user)
        # The ports stay reserved while a server is down.
        self._reserved = ExitStack()
        reserved = (self._reserved.enter_context(reserved_port(for_server=True)) for _ in range(1 + has_standby))
        self._ports = [*reserved]
        hosts = ",".join(f"127.0.0.1:{port}" for port in self._ports)
        self.url = f"postgresql://postgres:{password}@{hosts}/postgres"
        secret = self._folder / "password"
        secret.write_text(password)
        secret.chmod(0o644)
        auth = ("--auth-local=trust", "--auth-host=scram-sha-256", f"--pwfile={secret}")
        self._run("initdb", "-D", self._data(0), "--username=postgres", *auth, "--no-sync")
        secret.unlink()
        # The index of the server that accepts writes.
        self._primary = 0
        self.start()
        if has_standby:
            self._run("pg_basebackup", "-D", self._data(1), *self._as_admin(), "-R", "-X", "stream", "-c", "fast")
            self._start(1)
            # From now on, a commit waits until the standby has it.
            for change in ("ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()"):
                self.query(change)

    def start(self) -> None:
        self._start(self._primary)

    def stop(self) -> None:
        """Stops the server immediately, like a failure of its machine."""
        self._run("pg_ctl", "stop", "-D", self._data(self._primary), "-m", "immediate")

    def fail_over(self) -> None:
        """Stops the primary server and promotes the standby."""
        self.stop()
        self._primary = 1
        self._run("pg_ctl", "promote", "-w", "-D", self._data(1))

    def query(self, sql: str) -> list[tuple[str, ...]]:
        """Returns the rows of a query as strings."""
        found = self._run("psql", *self._as_admin(), "-AtF", "\t", "-v", "ON_ERROR_STOP=1", "-c", sql, "postgres")
        return [tuple(line.split("\t")) for line in found.splitlines()]

    def _start(self, server: int) -> None:
        options = f"-k {self._folder} -p {self._ports[server]} -c listen_addresses=127.0.0.1"
        options += " -c wal_retrieve_retry_interval=100ms"
        log = str(self._folder / f"log{server}")
        self._run("pg_ctl", "start", "-w", "-D", self._data(server), "-l", log, "-o", options)

    def _data(self, server: int) -> str:
        return str(self._folder / f"data{server}")

    def _as_admin(self) -> list[str]:
        return ["-h", str(self._folder), "-p", str(self._ports[self._primary]), "-U", "postgres"]

    def _run(self, program: str, *arguments: str) -> str:
        command = [str(self._programs / program), *arguments]
        # A file, because the server inherits the output, and a pipe would stay open as long as the server runs.
        with tempfile.TemporaryFile("w+") as output_file:
            done = subprocess.run(
                command, user=self._user, cwd="/", stdout=output_file, stderr=subprocess.STDOUT, timeout=300
            )
            output_file.seek(0)
            text = output_file.read()
        if done.returncode != 0:
            raise RuntimeError(f"{program} has failed: {text}")
        return text

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for server in range(len(self._ports)):
            if (Path(self._data(server)) / "postmaster.pid").exists():
                self._run("pg_ctl", "stop", "-D", self._data(server), "-m", "immediate")
        self._reserved.close()
        shutil.rmtree(self._folder)
