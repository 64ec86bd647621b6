"""Clusters of two worker processes on this machine, and the code that runs the example on them.

Only the workers have the service key, as in a cluster with well-managed secrets. The process that submits tasks does
not.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Self

import psutil
from processes import wait_until

from dealkit.testing import Sandbox

EXAMPLE = Path(__file__).parents[2] / "examples" / "python" / "on_engines.py"
WORKERS = 2
# The time limit in seconds, enough for a busy machine.
TIMEOUT_SECONDS = 300


class Cluster:
    """A cluster that the example runs on. Its processes write to ``folder``, whose path must be short because it holds
    sockets.
    """

    name: str

    def __init__(self, folder: Path, sandbox: Sandbox, ledger: object = "") -> None:
        self.folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        (folder / "tmp").mkdir()
        # Inherits no setting of a service or an engine, and writes to no other folder.
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("DEALKIT_", "DASK_", "SPARK_", "PYSPARK_", "RAY_", "PYTHON"))
        }
        self.env = {
            **inherited,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(folder),
            "TMPDIR": str(folder / "tmp"),
            # Differs from the time zone of the timestamps.
            "TZ": "America/New_York",
        }
        self.secrets = {
            "DEALKIT_BASE_URL": sandbox.url,
            "DEALKIT_SERVICE_KEY": sandbox.service_key,
            "DEALKIT_LEDGER": str(ledger),
        }
        self._start()

    def _start(self) -> None:
        """Starts the processes that must exist before the example starts."""

    def _command(self) -> list[str]:
        """Returns the command that runs a program."""
        return [sys.executable]

    def _is_worker(self, process: psutil.Process) -> bool:
        """Returns whether a process runs tasks."""
        raise NotImplementedError

    def start_example(self, *arguments: object) -> subprocess.Popen[bytes]:
        """Starts the example with these arguments."""
        return self._spawn("driver", [*self._command(), str(EXAMPLE), self.name, *map(str, arguments)], self.env)

    def run(self, *arguments: object) -> tuple[int, str]:
        """Runs the example, and returns its exit code and its output."""
        code = self.start_example(*arguments).wait(TIMEOUT_SECONDS)
        return code, (self.folder / "driver.log").read_text(errors="replace")

    def workers(self) -> list[psutil.Process]:
        """Returns the processes that run tasks."""
        return [process for process in self.processes() if _call_if_alive(self._is_worker, process)]

    def processes(self) -> list[psutil.Process]:
        """Returns all processes that were started here, and their descendants."""
        found = []
        for process in self._processes:
            try:
                running = psutil.Process(process.pid)
                found += [*running.children(recursive=True), running]
            except psutil.Error:
                pass  # the process has ended
        return found

    def close(self) -> None:
        """Kills every process by its id."""
        processes = self.processes()
        for process in processes:
            _call_if_alive(psutil.Process.terminate, process)
        for process in psutil.wait_procs(processes, 10)[1]:
            _call_if_alive(psutil.Process.kill, process)
        for started in self._processes:
            started.wait(TIMEOUT_SECONDS)

    def _spawn(self, log: str, command: list[str], env: dict[str, str]) -> subprocess.Popen[bytes]:
        with (self.folder / f"{log}.log").open("wb") as output:
            process = subprocess.Popen(
                command, cwd=self.folder, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        self._processes.append(process)
        return process

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _call_if_alive(function: Callable[[psutil.Process], object], process: psutil.Process) -> bool:
    """Calls a function with a process and returns its truth value. Returns False if the process has ended."""
    try:
        return bool(function(process))
    except psutil.Error:
        return False


class DaskCluster(Cluster):
    """A scheduler, and a nanny that restarts dead workers."""

    name = "dask"

    def _start(self) -> None:
        address = self.folder / "scheduler.json"
        dask = [sys.executable, "-m", "dask"]
        local = ["--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", str(address)]
        self._spawn("scheduler", [*dask, "scheduler", *local, "--port", "0"], self.env)
        wait_until(lambda: address.exists() and address.read_text().endswith("}"), TIMEOUT_SECONDS)
        workers = ["--nworkers", str(WORKERS), "--nthreads", "1", "--local-directory", str(self.folder / "tmp")]
        self._spawn("workers", [*dask, "worker", *local, *workers], {**self.env, **self.secrets})
        self.env["DASK_SCHEDULER_ADDRESS"] = json.loads(address.read_text())["address"]
        wait_until(lambda: len(self.workers()) == WORKERS, TIMEOUT_SECONDS)

    def _is_worker(self, process: psutil.Process) -> bool:
        return "spawn_main" in " ".join(process.cmdline())


class SparkCluster(Cluster):
    """Spark in local mode, with a Python process for each core.

    The workers inherit the driver's environment, so the driver has the key too.
    """

    name = "spark"

    def _start(self) -> None:
        self.env |= {"SPARK_LOCAL_IP": "127.0.0.1", **self.secrets}

    def _command(self) -> list[str]:
        settings = {
            "spark.driver.memory": "1g",
            "spark.ui.enabled": "false",
            "spark.local.dir": self.folder / "tmp",
        }
        options = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
        # Allows four attempts of a task, as on a cluster.
        return ["spark-submit", "--master", f"local[{WORKERS},4]", *options]

    def _is_worker(self, process: psutil.Process) -> bool:
        # Workers are the children of a daemon process.
        parent = process.parent()
        return all(
            "pyspark.daemon" in " ".join(running.cmdline()) for running in (process, parent) if running is not None
        )


class RayCluster(Cluster):
    """The head of a Ray cluster, which starts workers as tasks arrive."""

    name = "ray"

    def _start(self) -> None:
        self.env["RAY_USAGE_STATS_ENABLED"] = "0"
        options = {
            "--node-ip-address": "127.0.0.1",
            "--port": "0",
            "--num-cpus": WORKERS,
            "--object-store-memory": 1_000_000_000,
            "--temp-dir": self.folder / "ray",
            "--include-dashboard": "false",
        }
        ray = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block"]
        given = [f"{name}={value}" for name, value in options.items()]
        self._spawn("head", [*ray, *given], {**self.env, **self.secrets})
        address = self.folder / "ray" / "ray_current_cluster"
        wait_until(address.exists, TIMEOUT_SECONDS)
        self.env["RAY_ADDRESS"] = address.read_text().strip()

    def _is_worker(self, process: psutil.Process) -> bool:
        return process.cmdline()[0].startswith("ray::do_task")


CLUSTERS: dict[str, type[Cluster]] = {running.name: running for running in (DaskCluster, SparkCluster, RayCluster)}
