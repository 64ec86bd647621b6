"""Test your own code against the sandbox: a real server inside the test, with
the deals that the test needs.

Run it with ``pytest examples/python/test_reward.py``. The fixtures come with
dealkit.
"""

import pytest

from dealkit import Client, NotFoundError
from dealkit.testing import Sandbox


def reward(client: Client, deal_id: str) -> bool:
    """The code under test. Creates an agent if the deal is closed."""
    if client.deals.retrieve(deal_id).status != "CLOSED":
        return False
    client.agents.create(
        email="grace@example.com",
        first_name="Grace",
        last_name="Hopper",
        profile={},
    )
    return True


def test_only_a_closed_deal_is_rewarded(
    dealkit_sandbox: Sandbox, dealkit_client: Client
) -> None:
    dealkit_sandbox.insert_deal({"id": "won", "status": "CLOSED"})
    dealkit_sandbox.insert_deal({"id": "open", "status": "OPEN"})

    assert reward(dealkit_client, "won")
    assert not reward(dealkit_client, "open")
    with pytest.raises(NotFoundError):
        reward(dealkit_client, "no-such-deal")

    assert [agent.first_name for agent in dealkit_sandbox.agents] == ["Grace"]
