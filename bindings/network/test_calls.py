"""What goes through an intermediary in Python alone, and the suite in Rust, which makes calls of every kind."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from through import Sandbox

from dealkit import APIConnectionError, APIStatusError, AsyncClient, AuthenticationError, Client

ROOT = Path(__file__).parents[2]
ADA: Any = {"email": "ada@example.com", "first_name": "Ada", "last_name": "Lovelace", "profile": {}}


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(generate=500) as sandbox:
        yield sandbox


@pytest.fixture
def options(sandbox: Sandbox) -> dict[str, Any]:
    told = sandbox.intermediary
    return {
        "base_url": told.url,
        "service_key": sandbox.service_key,
        "ca_file": told.ca_file,
        "client_cert": told.client_cert,
        "proxy": told.proxy,
    }


def test_what_is_large_and_who_is_refused(sandbox: Sandbox, options: Any) -> None:
    with Client(**options) as client:
        # As large as the service accepts.
        large = client.agents.create(**{**ADA, "profile": {"client_metadata": {"x": "ä" * 400_000}}})
        assert large == sandbox.agents[-1]
        with pytest.raises(AuthenticationError) as caught:
            client.with_options(service_key="wrong").deals.retrieve("g_1")
        assert caught.value.request_id and caught.value.problem


def test_cancelled_calls_do_not_trip_up_the_next_ones(options: Any) -> None:
    async def calls() -> None:
        async with AsyncClient(**options) as client:
            deals = await asyncio.gather(*(client.deals.retrieve(f"g_{n}") for n in range(200)))
            assert [deal.id for deal in deals] == [f"g_{n}" for n in range(200)]
            tasks = [asyncio.ensure_future(client.deals.retrieve(f"g_{n}")) for n in range(50)]
            await asyncio.sleep(0.005)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            assert (await client.deals.retrieve("g_0")).id == "g_0"

    asyncio.run(calls())


def test_an_intermediary_that_loses_its_service(sandbox: Sandbox, options: Any) -> None:
    with Client(**options, max_retries=1) as client:
        client.agents.create(**ADA)
        sandbox.close_service()
        calls: list[Callable[[], object]] = [
            lambda: client.deals.retrieve("g_1"),
            lambda: client.agents.create(**ADA),
        ]
        for call in calls:
            with pytest.raises(APIStatusError) as caught:
                call()
            assert caught.value.status_code in (502, 503), caught.value
            assert caught.value.outcome == "unknown"


@pytest.mark.skipif("nginx" not in os.environ["DEALKIT_INTERMEDIARY"], reason="only nginx reloads without a supervisor")
def test_an_intermediary_that_is_reloaded(sandbox: Sandbox, options: Any) -> None:
    """It closes its connections while a call may be in flight: each call is told its outcome."""
    created, unknown = [], 0
    with Client(**options) as client:
        for _ in range(5):
            sandbox.reload()
            end = time.monotonic() + 0.3
            while time.monotonic() < end:
                assert client.deals.retrieve("g_1").id == "g_1"
                try:
                    created.append(client.agents.create(**ADA))
                except APIConnectionError as error:
                    assert error.outcome == "unknown"
                    unknown += 1
    found = sandbox.agents
    assert {agent.id for agent in created} <= {agent.id for agent in found}
    assert len(found) <= len(created) + unknown
    assert unknown <= len(created) / 20


def test_the_suite_of_rust(sandbox: Sandbox) -> None:
    told = sandbox.intermediary
    environment = {
        "DEALKIT_NETWORK_URL": told.url,
        "DEALKIT_NETWORK_ISSUER": told.ca_file.read_text(),
        "DEALKIT_NETWORK_IDENTITY": told.client_cert.read_text() if told.client_cert else "",
        "DEALKIT_NETWORK_PROXY": told.proxy or "",
    }
    process = subprocess.run(
        ["cargo", "test", "--package", "dealkit", "--features", "blocking", "--test", "network", "--", "--ignored"],
        cwd=ROOT,
        env={**os.environ, "RUST_BACKTRACE": "0", **environment},
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0 and "0 passed" not in process.stdout, process.stdout + process.stderr
    assert sandbox.agents
