"""The console command ``dealkit-server``."""

import signal
import sys

from dealkit import _native


def main() -> int:
    """Runs the sandbox server with the command's arguments. Returns the exit code."""
    # The server itself handles Ctrl-C. Python's signal handler would print a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _native.run_server(["dealkit-server", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
