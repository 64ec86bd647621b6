"""Python calls through a proxy. Rust uses the same native core."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from through import Sandbox

from dealkit import (
    APIConnectionError,
    APIStatusError,
    AsyncClient,
    AuthenticationError,
    Client,
    DealkitError,
    NotFoundError,
)

IDENTIFIERS = Path(__file__).parents[2] / "sdk/contract/vectors/identifiers.json"
ADA: Any = {"email": "ada@example.com", "first_name": "Ada", "last_name": "Lovelace", "profile": {}}


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(generate=500) as sandbox:
        yield sandbox


@pytest.fixture
def options(sandbox: Sandbox) -> dict[str, Any]:
    intermediary = sandbox.intermediary
    return {
        "base_url": intermediary.url,
        "service_key": sandbox.service_key,
        "ca_file": intermediary.ca_file,
        "client_cert": intermediary.client_cert,
        "proxy": intermediary.proxy,
    }


def test_large_bodies_and_rejected_keys_pass_the_proxy(sandbox: Sandbox, options: Any) -> None:
    with Client(**options) as client:
        # The largest body that the service accepts.
        large = client.agents.create(**{**ADA, "profile": {"client_metadata": {"x": "ä" * 400_000}}})
        assert large == sandbox.agents[-1]
        with pytest.raises(AuthenticationError) as caught:
            client.with_options(service_key="wrong").deals.retrieve("g_1")
        assert caught.value.request_id and caught.value.problem


def test_every_identifier_is_one_segment(options: Any) -> None:
    """An id with any characters reaches the service as one path segment, so the service responds that there is no such
    deal.
    """
    with Client(**options) as client:
        for case in json.loads(IDENTIFIERS.read_text())["cases"]:
            with pytest.raises(DealkitError) as caught:
                client.deals.retrieve(case["id"])
            error = caught.value
            if "code" in case["expect"]:
                assert error.outcome == "not_sent", case["name"]
            elif "\0" in case["id"] and not isinstance(error, NotFoundError):
                # nginx itself rejects a NUL in a path.
                assert error.outcome == "rejected", case["name"]
            else:
                assert isinstance(error, NotFoundError) and error.problem, case["name"]


def test_cancelled_calls_do_not_affect_later_calls(options: Any) -> None:
    async def calls() -> None:
        async with AsyncClient(**options) as client:
            deals = await asyncio.gather(*(client.deals.retrieve(f"g_{n}") for n in range(200)))
            assert [deal.id for deal in deals] == [f"g_{n}" for n in range(200)]
            agents = await asyncio.gather(*(client.agents.create(**ADA) for _ in range(300)))
            assert len({agent.id for agent in agents}) == 300
            tasks = [asyncio.ensure_future(client.deals.retrieve(f"g_{n}")) for n in range(50)]
            await asyncio.sleep(0.005)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            assert (await client.deals.retrieve("g_0")).id == "g_0"

    asyncio.run(calls())


def test_a_proxy_whose_service_is_down(sandbox: Sandbox, options: Any) -> None:
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
def test_a_proxy_that_reloads(sandbox: Sandbox, options: Any) -> None:
    """A reload closes connections with calls in flight. Each call gets its outcome."""
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
