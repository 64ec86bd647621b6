"""A PostgreSQL server of the tests' own: in a folder of its own, on a free port of loopback, with a password."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Self

NEEDED = "PostgreSQL (Debian: apt-get install postgresql)"


class Postgres:
    """It is removed when the ``with`` block ends."""

    def __init__(self, programs: Path, password: str) -> None:
        self._programs = programs
        self._folder = Path(tempfile.mkdtemp(prefix="dealkit-"))
        # It refuses to be run by root.
        self._user = "postgres" if os.geteuid() == 0 else None
        if self._user:
            shutil.chown(self._folder, self._user)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self.url = f"postgresql://postgres:{password}@127.0.0.1:{self._port}/postgres"
        secret = self._folder / "password"
        secret.write_text(password)
        secret.chmod(0o644)
        self._run("initdb", "--username=postgres", "--auth=scram-sha-256", f"--pwfile={secret}", "--no-sync")
        secret.unlink()
        options = f"-k {self._folder} -p {self._port} -c listen_addresses=127.0.0.1"
        self._run("pg_ctl", "start", "-w", "-l", str(self._folder / "log"), "-o", options)

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), "-D", str(self._folder / "data"), *arguments]
        subprocess.run(command, user=self._user, cwd="/", check=True, stdout=subprocess.DEVNULL, timeout=120)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._run("pg_ctl", "stop", "-m", "immediate")
        shutil.rmtree(self._folder)


def programs() -> Path | None:
    """The folder of the server's programs, if there is one: Debian has them outside of the path."""
    found = shutil.which("initdb")
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return debian[-1].parent if debian else Path(found).parent if found else None
