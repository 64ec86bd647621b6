"""What the tests of ledgers have in common."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import email, made, of

from dealkit import AsyncClient, Client
from dealkit.testing import Sandbox


def client_of(sandbox: Sandbox) -> Any:
    return of(sandbox, max_retries=0)


def in_order(client: Any, **options: Any) -> Any:
    given = {"key": email, "on_error": "return", **options}
    return made(client, lambda client: client.agents.create_many(**given))


def in_a_loop(client: Client, **options: Any) -> Any:
    return in_order(AsyncClient(base_url=client.base_url, service_key="sandbox-key", max_retries=0), **options)


BOTH = pytest.mark.parametrize("run", [in_order, in_a_loop])


def told(creations: list[Any]) -> list[tuple[str, bool]]:
    return [(creation.outcome, creation.from_ledger) for creation in creations]


def emails(sandbox: Sandbox) -> list[str]:
    return sorted(agent.email for agent in sandbox.agents)
