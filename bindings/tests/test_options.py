"""Options of a client and of a call: their effects, and the connections that clients with other options share."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable
from typing import Any

import pytest
from conftest import ADA, BOTH_CLIENTS, DEAL_AND_AGENT_BODY, http_response, run_async, wait_for_result

import dealkit
from dealkit import APITimeoutError, AsyncClient, Client, ClientOptions, Timeout
from dealkit.testing import Sandbox

CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "retrieve": lambda client, options: client.deals.retrieve("d_1", **options),
    "retrieve, raw": lambda client, options: client.with_raw_response.deals.retrieve("d_1", **options),
    "create": lambda client, options: client.agents.create(**ADA, **options),
    "create, raw": lambda client, options: client.with_raw_response.agents.create(**ADA, **options),
    "request": lambda client, options: client.request("GET", "deals", "d_1", **options),
    "many": lambda client, options: client.deals.retrieve_many(["d_1"], **options),
    "many creates": lambda client, options: client.agents.create_many([ADA], **options),
}


def called(client: Any, call: Callable[[Any, Any], Any], **options: Any) -> Any:
    return wait_for_result(client, lambda client: call(client, options))


@BOTH_CLIENTS
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_every_call_takes_options(of_class: Any, call: Any, peer: Any) -> None:
    server = peer(http_response(200, DEAL_AND_AGENT_BODY))
    client = of_class(base_url=server.url, service_key="k", headers={"x-a": "client", "x-b": "client"})
    called(client, call, extra_headers={"x-a": "call", "x-c": "call"}, timeout=50, max_retries=0)
    called(client, call, extra_headers=None, timeout=None, max_retries=None)
    first, second = (request.lower() for request in server.requests)
    assert b"x-a: call" in first and b"x-b: client" in first and b"x-c: call" in first and b"x-a: client" not in first
    assert b"x-a: client" in second and b"x-c" not in second
    with pytest.raises(APITimeoutError, match=r"0\.05 s"):
        called(of_class(base_url=peer(b"").url, service_key="k"), call, timeout=0.05)
    with pytest.raises(TypeError, match="unexpected keyword argument 'wait_limit'"):
        called(client, call, wait_limit=5)
    with pytest.raises(dealkit.ConfigError, match="x-service-key"):
        called(client, call, extra_headers={"x-service-key": "other"})


@BOTH_CLIENTS
def test_with_options_shares_the_connections(of_class: Any, peer: Any) -> None:
    server = peer(http_response(200, DEAL_AND_AGENT_BODY))
    client = of_class(base_url=server.url, service_key="k", headers={"x-n": "0"})

    async def calls() -> None:
        for n in range(50):
            other = client.with_options(headers={"x-n": str(n)}, user_agent=f"n/{n}", timeout=5 + n, max_retries=n)
            called = other.deals.retrieve("d_1")
            if isinstance(other, AsyncClient):
                await called

    run_async(calls())
    assert len(server.requests) == 50 and len(server.connections) == 1
    assert {f"user-agent: n/{n}".encode() in server.requests[n].lower() for n in range(50)} == {True}
    # Options of connections require new connections.
    called(client.with_options(max_idle_connections=1), CALLS["retrieve"])
    called(client.with_options(timeout=Timeout(connect=1)), CALLS["retrieve"])
    assert len(server.connections) == 3


@BOTH_CLIENTS
def test_a_number_of_seconds_replaces_only_the_total(of_class: Any, peer: Any) -> None:
    server = peer(http_response(200, DEAL_AND_AGENT_BODY))
    client = of_class(base_url=server.url, service_key="k", timeout=Timeout(connect=7, attempt=6, total=50))

    async def calls() -> None:
        for n in range(5):
            called = client.with_options(timeout=10 + n).deals.retrieve("d_1")
            if of_class is AsyncClient:
                await called

    run_async(calls())
    assert len(server.connections) == 1
    hurried = of_class(base_url=peer(b"").url, service_key="k", timeout=Timeout(attempt=0.05), max_retries=0)
    with pytest.raises(APITimeoutError, match=r"0\.05 s"):
        called(hurried.with_options(timeout=600), CALLS["retrieve"])
    # A Timeout replaces all three timeouts.
    assert client.with_options(timeout=Timeout(attempt=6)).timeout == 60.0


def test_a_long_chain_of_clients(peer: Any) -> None:
    """Each client is made from the previous one, to which the program has no other reference."""
    server = peer(http_response(200, DEAL_AND_AGENT_BODY))
    client = Client(base_url=server.url, service_key="k")
    for n in range(20_000):
        client = client.with_options(max_retries=n)
    called(client, CALLS["retrieve"])
    for n in range(500):
        client = client.with_options(max_idle_connections=n % 2 + 1)
    called(client, CALLS["retrieve"])
    del client
    assert len(server.connections) == 2


def test_the_attributes_of_a_client(dealkit_sandbox: Sandbox) -> None:
    client = Client(base_url=dealkit_sandbox.url, service_key="sandbox-key")
    assert (client.timeout, client.max_retries) == (60.0, 2)
    other = client.with_options(timeout=5, max_retries=0)
    assert (other.timeout, other.max_retries) == (5.0, 0)
    assert (other.with_options(timeout=None).timeout, other.with_options().max_retries) == (60.0, 0)
    assert client.with_options(timeout=Timeout(total=7)).timeout == 7.0
    async_client = AsyncClient(base_url=dealkit_sandbox.url, service_key="sandbox-key", timeout=3)
    assert (async_client.timeout, async_client.max_retries) == (3.0, 2)
    # A client outlives the closed client that it was made from.
    other = client.with_options(headers={"a": "b"})
    client.close()
    assert other.deals.retrieve("d_1").id == "d_1"


def test_each_option_of_a_client_has_its_documentation() -> None:
    source = inspect.getsource(ClientOptions)
    for name in typing.get_type_hints(ClientOptions):
        assert re.search(rf'^    {name}: .*\n    """', source, re.MULTILINE), name
