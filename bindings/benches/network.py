"""Calls over TLS and a network with a round trip of 30 ms, beside httpx.

Usage: python network.py [rounds], from the project's folder: the service and the distance come from
``cargo bench --package dealkit --bench network``.
"""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import models
from rounds import Turn, compare

import dealkit

KEY = "sandbox-key"
TOGETHER = 16
AGENT: dict[str, Any] = {"email": "ada@example.com", "first_name": "Ada", "last_name": "Lovelace"}


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
        for waiting in [pool.submit(call) for _ in range(4 * TOGETHER)]:
            waiting.result()
        return (time.perf_counter() - start) / (4 * TOGETHER)

    return run


def measure(url: str, certificate: str, rounds: int) -> None:
    client = dealkit.Client(base_url=url, service_key=KEY)
    verify = ssl.create_default_context(cafile=certificate)
    of_httpx = httpx.Client(base_url=url, headers={"x-service-key": KEY}, verify=verify)
    calls: dict[str, dict[str, Callable[[], Any]]] = {
        "create": {
            "httpx": lambda: of_httpx.post("/v1/agents", json={**AGENT, "profile": {}}).raise_for_status().json(),
            "dealkit": lambda: client.agents.create(**AGENT, profile={}),
        },
        "retrieve": {
            "httpx + msgspec": lambda: models.decode_msgspec(of_httpx.get("/v1/deals/d_1").content),
            "dealkit": lambda: client.deals.retrieve("d_1"),
        },
    }
    with ThreadPoolExecutor(TOGETHER) as pool:
        for what, contenders in calls.items():
            turns = {name: one_after_the_other(call) for name, call in contenders.items()}
            compare(f"{what} over TLS at 30 ms, one after the other", "ms a call", turns, rounds)
            turns = {name: together(pool, call) for name, call in contenders.items()}
            compare(f"{what} over TLS at 30 ms, {TOGETHER} threads", "ms a call", turns, rounds)


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["cargo", "bench", "--quiet", "--package", "dealkit", "--bench", "network", "--", "--serve", folder]
        with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as service:
            assert service.stdout is not None and service.stdin is not None
            try:
                url, certificate = service.stdout.readline().split()
                os.environ["SSL_CERT_FILE"] = certificate
                measure(url, certificate, rounds)
            finally:
                service.stdin.close()


if __name__ == "__main__":
    main()
