"""Import time in a new interpreter, compared with libraries for the same purpose.

Usage: python import_time.py [--rounds N] [--results FILE]
"""

from __future__ import annotations

import subprocess
import sys

from rounds import Bench, MeasuredTask, Table, make_parser

MEASURED = "import time; start = time.process_time(); import {}; print(time.process_time() - start)"

IMPORTS = ["dealkit", "msgspec", "httpx"]


def make_task(module: str) -> MeasuredTask:
    command = [sys.executable, "-c", MEASURED.format(module)]
    return lambda: float(subprocess.check_output(command))


def main() -> None:
    bench = Bench(make_parser(__doc__, rounds=25).parse_args())
    tasks = {module: make_task(module) for module in IMPORTS}
    bench.compare(Table("python import", "Python: import, over bare Python", "ms CPU"), tasks)
    bench.finish()


if __name__ == "__main__":
    main()
