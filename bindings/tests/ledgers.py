"""What the tests of ledgers have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import email, made, of, rows

from dealkit import (
    AsyncClient,
    Client,
    LedgerError,
)
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
    return [(creation.outcome, creation.recorded) for creation in creations]


def emails(sandbox: Sandbox) -> list[str]:
    return sorted(agent.email for agent in sandbox.agents)


def known(creations: list[Any]) -> list[str]:
    return [creation.outcome for creation in creations if creation.recorded]


def refusal(client: Client, ledger: Path) -> LedgerError:
    with pytest.raises(LedgerError) as raised:
        client.agents.create_many(rows(1), ledger=ledger, key=email)
    assert raised.value.outcome == "not_sent"
    assert str(ledger) in str(raised.value)
    return raised.value
