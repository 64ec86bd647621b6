"""Stubs as replacements for clients, and exceptions that tests construct."""

from __future__ import annotations

import asyncio
import doctest
import json
from typing import Any
from unittest.mock import Mock

import pytest
from conftest import ADA

import dealkit
from dealkit import AsyncOperations, Client, CreateAgentParams, Deal, DealkitError, Operations, testing
from dealkit._client.operations import AgentOperations
from dealkit._testing import records, sandbox, stub
from dealkit.testing import AsyncStub, Sandbox, Stub


def test_the_doctest_examples_run() -> None:
    names = {name: getattr(testing, name) for name in testing.__all__}
    for module in (testing, records, sandbox, stub):
        result = doctest.testmod(module, extraglobs={**names, "Client": Client, "NotFoundError": dealkit.NotFoundError})
        assert result.failed == 0 and result.attempted > 0


def test_a_stub_replaces_a_client_in_user_code() -> None:
    """A user's test of an importer that must not create an agent twice."""

    def step(client: Operations) -> str:
        try:
            client.agents.create(email="ada@example.com", first_name="Ada", last_name="Lovelace", profile={})
        except DealkitError as error:
            return "look for the agent" if error.may_have_acted else "send again"
        return "done"

    for outcome, expected in (
        (dealkit.APITimeoutError(), "look for the agent"),
        (dealkit.APITimeoutError(outcome="not_sent"), "send again"),
        (dealkit.UnprocessableEntityError(), "send again"),
        (dealkit.InternalServerError(status_code=503), "look for the agent"),
        (dealkit.DecodeError(outcome="succeeded"), "look for the agent"),
    ):
        assert step(Stub(create=Mock(return_value=outcome))) == expected
    with Sandbox() as server, Client(base_url=server.url, service_key=server.service_key) as client:
        assert step(client) == "done" and len(server.agents) == 1


def test_a_stub_returns_the_results_of_its_functions() -> None:
    create = Mock(return_value=dealkit.ConflictError())

    async def call(client: AsyncOperations) -> Deal:
        with pytest.raises(dealkit.ConflictError):
            await client.agents.create(**ADA, role="AGENT")
        return await client.deals.retrieve("d_2")

    stub = Stub(create=create, retrieve=lambda id: Deal(id=id))
    assert stub.deals.retrieve("d_1") == Deal(id="d_1")
    with pytest.raises(dealkit.ConflictError):
        stub.agents.create(**ADA)
    create.assert_called_once_with(**ADA)
    assert asyncio.run(call(AsyncStub(create=create, retrieve=lambda id: Deal(id=id)))) == Deal(id="d_2")
    create.assert_called_with(**ADA, role="AGENT")

    create.side_effect = [
        dealkit.APITimeoutError("late"),
        dealkit.Agent.from_json(json.dumps({**ADA, "id": "a_1", "role_assignments": []})),
    ]
    once = stub.agents.create_once
    with pytest.raises(dealkit.APITimeoutError):
        once(idempotency_key="1", ledger="l", **ADA)
    made = [once(idempotency_key="1", ledger="l", timeout=5, **ADA) for _ in range(2)]
    assert [one.result for one in made] == ["created", "already_created"] and made[0].agent_id == made[
        1
    ].agent_id == "a_1"
    changed: Any = {**ADA, "last_name": "Byron"}
    with pytest.raises(dealkit.IdempotencyKeyReusedError) as reused:
        once(idempotency_key="1", ledger="l", **changed)
    assert reused.value.agent_id == "a_1"

    with pytest.raises(AssertionError, match="pass create="):
        Stub().agents.create(**ADA)
    misspelt: Any = {**ADA, "emial": "ada@example.com"}
    with pytest.raises(TypeError, match="unexpected keyword argument 'emial'; did you mean 'email'"):
        stub.agents.create(**misspelt)
    wrong: dict[str, Any] = {"retrive": create}
    with pytest.raises(TypeError, match="unexpected keyword argument 'retrive'"):
        Stub(**wrong)


def test_the_protocol_has_the_arguments_of_create() -> None:
    assert {*AgentOperations.create.__annotations__} == {*CreateAgentParams.__annotations__, "return"}
