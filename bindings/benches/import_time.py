"""How long an import takes in a fresh interpreter, compared with libraries that do the same job.

Usage: python import_time.py [--rounds N] [--results FILE]
"""

from __future__ import annotations

import subprocess
import sys

from rounds import Bench, Table, Turn, parser

MEASURED = "import time; start = time.process_time(); import {}; print(time.process_time() - start)"

IMPORTS = ["dealkit", "msgspec", "httpx"]


def turn(module: str) -> Turn:
    command = [sys.executable, "-c", MEASURED.format(module)]
    return lambda: float(subprocess.check_output(command))


def main() -> None:
    bench = Bench(parser(__doc__, rounds=25).parse_args())
    turns = {module: turn(module) for module in IMPORTS}
    bench.compare(Table("python import", "Python: import, over bare Python", "ms CPU"), turns)
    bench.finish()


if __name__ == "__main__":
    main()
