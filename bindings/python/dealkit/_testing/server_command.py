"""The console command ``dealkit-server``: the launcher of the sandbox."""

import signal
import sys

from dealkit import _native


def main() -> int:
    """Runs the sandbox server with the arguments of the command line. Returns the exit code."""
    # The server handles Ctrl-C itself; Python's own handler would add a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _native.run_server(["dealkit-server", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
