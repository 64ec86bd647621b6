"""``python -m dealkit`` is the command ``dealkit``."""

import sys

from dealkit._cli import main

if __name__ == "__main__":
    sys.exit(main())
