"""Runs make targets at the same time, the later ones with lower priority. Prints the output of each target when it ends, and that
of failed targets last.

Usage: python .ci/side_by_side.py MAKE TARGET ...
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from typing import IO

INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Run:
    """A running make target, in a separate process group."""

    def __init__(self, make: str, target: str, niceness: int) -> None:
        self.target = target
        self._started = time.monotonic()
        self._output: IO[bytes] = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            ["nice", "-n", str(niceness), make, "--no-print-directory", target],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            process_group=0,
            # Under `make -j`, make shares its limit on processes through open files.
            close_fds=False,
        )

    def report(self) -> None:
        """Prints the output of the target."""
        seconds = time.monotonic() - self._started
        code = self.process.returncode
        print(f"make: {self.target} {'has passed' if code == 0 else 'has failed'} after {seconds:.0f} s:", flush=True)
        self._output.seek(0)
        shutil.copyfileobj(self._output, sys.stdout.buffer)
        sys.stdout.flush()

    def stop(self) -> None:
        """Ends the processes of the target, and waits for make."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            self.process.wait()


def stop_on(received: int, _: object) -> None:
    raise SystemExit(128 + received)


def main() -> int:
    make, *targets = sys.argv[1:]
    for number in INTERRUPTS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, stop_on)
    print(f"make: {', '.join(targets)} run at the same time; the output of each appears when it ends", flush=True)
    running: list[Run] = []
    failed: list[Run] = []
    try:
        for index, target in enumerate(targets):
            running.append(Run(make, target, 0 if index == 0 else 5))
        while running:
            time.sleep(0.1)
            for run in [run for run in running if run.process.poll() is not None]:
                running.remove(run)
                if run.process.returncode == 0:
                    run.report()
                else:
                    failed.append(run)
    finally:
        for run in running:
            run.stop()
        for run in [*running, *failed]:
            run.report()
    if failed:
        print(f"make: {', '.join(run.target for run in failed)} failed: see above", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
