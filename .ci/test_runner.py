"""Runs a test program for cargo, and ends it if it prints nothing for ten minutes: one of its tests hangs.

Usage: cargo test --config 'target."cfg(all())".runner = ["python3", "/path/to/.ci/test_runner.py"]'

libtest has no time limit for a test. It prints a line for each test that ends, and for each that takes more than a minute.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys

LIMIT = float(os.environ.get("DEALKIT_TEST_SECONDS", "600"))
"""The time limit for a program that prints nothing, in seconds."""


def forward_output(program: subprocess.Popen[bytes]) -> None:
    """Prints the program's output until it ends.

    Raises:
        TimeoutError: The program printed nothing for too long.
    """
    assert program.stdout is not None
    output = program.stdout.fileno()
    waited = 0.0
    while waited < LIMIT:
        # A process that the program started may keep the pipe open, so check for the end of the program, too.
        has_ended = program.poll() is not None
        readable, _, _ = select.select([output], [], [], 0 if has_ended else 1)
        if readable:
            data = os.read(output, 65536)
            if not data:
                program.wait()
                return
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
            waited = 0.0
        elif has_ended:
            return
        else:
            waited += 1
    raise TimeoutError


def main() -> int:
    # A separate process group, so that processes started by its tests end with the program.
    program = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, process_group=0)

    def end(received: int, _: object) -> None:
        os.killpg(program.pid, signal.SIGKILL)
        sys.exit(128 + received)

    for received in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(received) != signal.SIG_IGN:
            signal.signal(received, end)
    try:
        forward_output(program)
    except TimeoutError:
        os.killpg(program.pid, signal.SIGKILL)
        program.wait()
        print(
            f"\n{sys.argv[1]} printed nothing for {LIMIT:.0f} seconds: the tests without a result hang", file=sys.stderr
        )
    code = program.returncode
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
