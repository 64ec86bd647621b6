"""How long an import takes in a fresh interpreter, compared with libraries that do the same job.

Usage: python import_time.py [--rounds N] [--results FILE]
"""

from __future__ import annotations

import subprocess
import sys

from rounds import Bench, Table, Turn, parser

MEASURED = "import time; start = time.process_time(); {}; print(time.process_time() - start)"

IMPORTS = {name: f"import {name}" for name in ["dealkit", "msgspec", "urllib3", "httpx", "aiohttp", "requests"]}
IMPORTS |= {
    "http.client": "import http.client",
    "niquests": "import niquests",
    "pydantic": "import pydantic; pydantic.BaseModel",
    "pyreqwest": "import pyreqwest.client",
}
CLIENTS = {
    "dealkit.Client": "import dealkit; dealkit.Client(base_url='http://127.0.0.1:9', service_key='k')",
    "dealkit.AsyncClient": "import dealkit; dealkit.AsyncClient(base_url='http://127.0.0.1:9', service_key='k')",
    "httpx.Client": "import httpx; httpx.Client()",
    "pyreqwest": "from pyreqwest.client import SyncClientBuilder; SyncClientBuilder().build()",
    "requests.Session": "import requests; requests.Session()",
}


def turn(statement: str) -> Turn:
    command = [sys.executable, "-c", MEASURED.format(statement)]
    return lambda: float(subprocess.check_output(command))


def main() -> None:
    bench = Bench(parser(__doc__, rounds=25).parse_args())
    turns = {name: turn(statement) for name, statement in IMPORTS.items()}
    bench.compare(Table("python import", "Python: import, over bare Python", "ms CPU"), turns)
    turns = {name: turn(statement) for name, statement in CLIENTS.items()}
    bench.compare(Table("python import and client", "Python: import, and make a client", "ms CPU"), turns)
    bench.finish()


if __name__ == "__main__":
    main()
