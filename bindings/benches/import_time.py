"""How long an import takes in a fresh interpreter, beside libraries that do the same job.

Usage: python import_time.py [rounds]
"""

from __future__ import annotations

import subprocess
import sys

from rounds import Turn, compare

MEASURED = "import time; start = time.perf_counter(); {}; print(time.perf_counter() - start)"

STATEMENTS = {
    "import dealkit": "import dealkit",
    "… and a Client is made": "import dealkit; dealkit.Client(base_url='http://127.0.0.1:9', service_key='k')",
    "… and an AsyncClient": "import dealkit; dealkit.AsyncClient(base_url='http://127.0.0.1:9', service_key='k')",
    "import msgspec": "import msgspec",
    "import urllib3": "import urllib3",
    "import httpx": "import httpx",
    "… and a Client is made ": "import httpx; httpx.Client()",
    "import pydantic": "import pydantic; pydantic.BaseModel",
    "import aiohttp": "import aiohttp",
    "import requests": "import requests",
}


def turn(statement: str) -> Turn:
    command = [sys.executable, "-c", MEASURED.format(statement)]
    return lambda: float(subprocess.check_output(command))


if __name__ == "__main__":
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 25
    compare("Import", "ms", {name: turn(statement) for name, statement in STATEMENTS.items()}, rounds)
