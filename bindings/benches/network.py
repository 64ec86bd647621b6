"""Calls over TLS and a network with a round trip of 30 ms, compared with httpx.

Usage: python network.py path/to/service [--rounds N] [--only NAME] [--results FILE]
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import documents
import httpx
import models
from processes import KEY, Urls, fixed_service
from rounds import Bench, Table, Turn, parser

import dealkit

THREADS = 16


def one_after_the_other(call: Callable[[], Any]) -> Turn:
    def run() -> float:
        start = time.perf_counter()
        for _ in range(10):
            call()
        return (time.perf_counter() - start) / 10

    return run


def together(pool: ThreadPoolExecutor, call: Callable[[], Any]) -> Turn:
    def run() -> float:
        start = time.perf_counter()
        for waiting in [pool.submit(call) for _ in range(4 * THREADS)]:
            waiting.result()
        return (time.perf_counter() - start) / (4 * THREADS)

    return run


def measure(bench: Bench, urls: Urls) -> None:
    client = dealkit.Client(base_url=urls.far, service_key=KEY, ca_file=urls.certificate)
    verify = ssl.create_default_context(cafile=urls.certificate)
    of_httpx = httpx.Client(base_url=urls.far, headers={"x-service-key": KEY}, verify=verify)

    def create_with_httpx() -> None:
        assert of_httpx.post("/v1/agents", json=documents.AGENT).raise_for_status().json()["id"] == "a_1"

    def retrieve_with_httpx() -> None:
        models.decode_msgspec(of_httpx.get("/v1/deals/d_1").raise_for_status().content)

    calls: dict[str, dict[str, Callable[[], Any]]] = {
        "create": {"dealkit": lambda: client.agents.create(**documents.AGENT), "httpx": create_with_httpx},
        "retrieve": {"dealkit": lambda: client.deals.retrieve("d_1"), "httpx + msgspec": retrieve_with_httpx},
    }
    with ThreadPoolExecutor(THREADS) as pool:
        for what, contenders in calls.items():
            title = f"Python: {what} over TLS and a round trip of 30 ms"
            turns = {name: one_after_the_other(call) for name, call in contenders.items()}
            table = Table(f"python {what} at 30 ms, 1 in flight", f"{title}, one call after the other", "ms a call")
            bench.compare(table, turns)
            turns = {name: together(pool, call) for name, call in contenders.items()}
            table = Table(f"python {what} at 30 ms, {THREADS} in flight", f"{title}, {THREADS} threads", "ms a call")
            bench.compare(table, turns)


def main() -> None:
    arguments = parser(__doc__, rounds=11)
    arguments.add_argument("service", type=Path, help="the program sdk/benches/service.rs")
    given = arguments.parse_args()
    bench = Bench(given)
    with fixed_service(given.service) as urls:
        measure(bench, urls)
    bench.finish()


if __name__ == "__main__":
    main()
