"""Helpers for the tests of ledgers."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import make_client, row_email, wait_for_result

from dealkit import AsyncClient, Client
from dealkit.testing import Sandbox


def make_client_without_retries(sandbox: Sandbox) -> Any:
    return make_client(sandbox, max_retries=0)


def create_rows(client: Any, **options: Any) -> Any:
    given = {"key": row_email, "on_error": "return", **options}
    return wait_for_result(client, lambda client: client.agents.create_many(**given))


def create_rows_async(client: Client, **options: Any) -> Any:
    return create_rows(AsyncClient(base_url=client.base_url, service_key="sandbox-key", max_retries=0), **options)


BOTH_CALL_STYLES = pytest.mark.parametrize("run", [create_rows, create_rows_async])


def list_outcomes(creations: list[Any]) -> list[tuple[str, bool]]:
    return [(creation.outcome, creation.from_ledger) for creation in creations]


def agent_emails(sandbox: Sandbox) -> list[str]:
    return sorted(agent.email for agent in sandbox.agents)
