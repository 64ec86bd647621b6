"""Errors made by hand are like those that calls raise, and stubs stand in for clients."""

from __future__ import annotations

import asyncio
import doctest
import pickle
import socket
from decimal import Decimal
from typing import Any
from unittest.mock import Mock

import pytest
from conftest import ADA, answer

import dealkit
from dealkit import (
    Agent,
    APIStatusError,
    AsyncOperations,
    Client,
    CreateAgentParams,
    Deal,
    DealkitError,
    Operations,
    RateLimitError,
    ThrottledError,
    Timeout,
    testing,
)
from dealkit._client.operations import AgentOperations
from dealkit._testing import made_errors, recorded, sandbox, stub
from dealkit.testing import (
    AsyncStub,
    Sandbox,
    Stub,
    connection_error,
    decode_error,
    status_error,
    throttled_error,
    timeout_error,
)

PROBLEM = {
    "title": "No",
    "detail": "Not this way.",
    "request_id": "r-1",
    "errors": [{"pointer": "/email", "code": "invalid_email", "detail": "no"}],
    "rate": Decimal("1.10"),
}


def test_the_examples() -> None:
    names = {name: getattr(testing, name) for name in testing.__all__}
    for module in (testing, made_errors, recorded, sandbox, stub):
        result = doctest.testmod(module, extraglobs={**names, "Client": Client})
        assert result.failed == 0 and result.attempted > 0


def raised(url: str, **options: Any) -> DealkitError:
    with Client(base_url=url, service_key="k", max_retries=0, **options) as client:
        with pytest.raises(DealkitError) as caught:
            client.agents.create(**ADA)
    return caught.value


def same(made: DealkitError, real: DealkitError) -> None:
    assert type(made) is type(real)
    assert (str(made), vars(made)) == (str(real), vars(real))
    again = pickle.loads(pickle.dumps(made))
    assert (type(again), str(again), vars(again)) == (type(made), str(made), vars(made))


@pytest.mark.parametrize("status", [302, 400, 401, 403, 404, 408, 409, 422, 429, 500, 503])
@pytest.mark.parametrize("body", ["", "<p>no</p>", PROBLEM])
def test_a_status(status: int, body: Any, peer: Any) -> None:
    made = status_error(
        status, body, operation="POST /v1/agents", headers={"Retry-After": "7", "X-A": "1"}, request_id="r-2"
    )
    headers = {"Retry-After": "7", "X-A": "1", "X-Request-Id": "r-2"}
    real = raised(peer(answer(status, made.body, headers)).url)
    assert isinstance(real, APIStatusError)
    assert real.headers["content-length"] == str(len(made.body))
    assert {**made.headers, "content-length": ""} == {**real.headers, "content-length": ""}
    real.headers = made.headers
    same(made, real)


def test_no_response(peer: Any) -> None:
    real = raised(peer(b"").url, timeout=Timeout(total=0.2))
    same(timeout_error(0.2, operation="POST /v1/agents"), real)

    def hang_up(_: bytes) -> bytes:
        server.connections[-1].shutdown(socket.SHUT_RDWR)
        return b""

    server = peer(hang_up)
    real = raised(server.url)
    made = connection_error("reset", sent=True, operation="POST /v1/agents")
    # Only what the libraries below say differs.
    assert (type(made), {**vars(made), "details": ""}) == (type(real), {**vars(real), "details": ""})
    assert str(real).startswith(str(made).removesuffix(": reset")) and str(made).endswith(": reset")

    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    real = raised(url)
    made = connection_error(operation="POST /v1/agents")
    # A real one also says why, and what to do about it.
    said = {"details": "", "_words": ()}
    assert (type(made), vars(made) | said) == (type(real), vars(real) | said)
    assert real.text({"base_url": "--base-url"}).startswith(
        "POST /v1/agents: no connection could be made: nothing listens at the host and port in --base-url; "
    )
    assert str(real).startswith("POST /v1/agents: no connection could be made: ")
    assert str(made) == "POST /v1/agents: no connection could be made: connection refused"


def test_a_call_whose_turn_comes_too_late(peer: Any) -> None:
    server = peer(answer(429, "", {"Retry-After": "50"}))
    client = Client(base_url=server.url, service_key="k", timeout=5, max_retries=0)
    with pytest.raises(RateLimitError):
        client.agents.create(**ADA)
    with pytest.raises(ThrottledError) as caught:
        client.agents.create(**ADA)
    real = caught.value
    made = throttled_error(real.retry_after or 0, operation="POST /v1/agents")
    assert (type(made), str(made), vars(made)) == (type(real), str(real), vars(real))
    assert "would have to wait 50 s, longer" in str(made)
    assert (made.outcome, made.may_have_acted, made.attempts) == ("not_sent", False, 0)


def test_a_read_changes_nothing() -> None:
    read = timeout_error(operation="GET /v1/deals/{id}")
    assert (read.outcome, read.may_have_acted) == ("unknown", False)
    again = pickle.loads(pickle.dumps(read))
    assert not again.may_have_acted
    assert timeout_error(operation="POST /v1/agents").may_have_acted and timeout_error().may_have_acted


@pytest.mark.parametrize("body", ["", '{"id": "a_1"', "[]", '{"id": 5}'])
def test_an_unreadable_body(body: str, peer: Any) -> None:
    real = raised(peer(answer(201, body)).url)
    same(decode_error(body, model=Agent, operation="POST /v1/agents"), real)
    assert decode_error("{}").outcome == "succeeded" and str(decode_error("{}")).startswith("200 OK: ")


def test_what_is_said_counts() -> None:
    error = timeout_error(outcome="not_sent", attempts=3, retry_after=1.5, id="d_1", index=7)
    assert (error.outcome, error.attempts, error.retry_after, error.id, error.index) == ("not_sent", 3, 1.5, "d_1", 7)
    assert not error.may_have_acted and str(error).endswith("(after 3 attempts)")
    assert isinstance(status_error(422, PROBLEM), dealkit.UnprocessableEntityError)
    assert str(status_error(422, PROBLEM)) == (
        "422 Unprocessable Entity: No - Not this way: /email invalid_email [request id r-1]"
    )
    assert connection_error(sent=True, request_id="r-1").outcome == "succeeded"


def test_a_test_of_a_user() -> None:
    """An importer that must not create an agent twice."""

    def step(client: Operations) -> str:
        try:
            client.agents.create(email="ada@example.com", first_name="Ada", last_name="Lovelace", profile={})
        except DealkitError as error:
            return "look for the agent" if error.may_have_acted else "send again"
        return "done"

    for outcome, expected in (
        (timeout_error(), "look for the agent"),
        (timeout_error(outcome="not_sent"), "send again"),
        (connection_error(), "send again"),
        (connection_error(sent=True), "look for the agent"),
        (status_error(422), "send again"),
        (status_error(503), "look for the agent"),
        (decode_error("", model=Agent), "look for the agent"),
    ):
        assert step(Stub(create=Mock(return_value=outcome))) == expected
    with Sandbox() as server, Client(base_url=server.url, service_key=server.service_key) as client:
        assert step(client) == "done" and len(server.agents) == 1


def test_a_stub_returns_what_its_functions_make() -> None:
    create = Mock(return_value=status_error(409))

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

    with pytest.raises(dealkit.ConfigError, match="pass create="):
        Stub().agents.create(**ADA)
    with pytest.raises(dealkit.ConfigError, match="pass retrieve="):
        Stub().deals.retrieve("d_1")
    wrong: dict[str, Any] = {"retrive": create}
    with pytest.raises(TypeError, match="did you mean 'retrieve'"):
        Stub(**wrong)


def test_the_protocol_takes_what_a_create_takes() -> None:
    assert {*AgentOperations.create.__annotations__} == {*CreateAgentParams.__annotations__, "return"}


@pytest.mark.parametrize(
    ("make", "given", "error", "text"),
    [
        (status_error, {"status_code": 99}, ValueError, "status_code must be from 100 to 999"),
        (status_error, {"status_code": "404"}, TypeError, "status_code must be a whole number"),
        (status_error, {"status_code": 404, "body": 5}, TypeError, "body must be a mapping, a str or bytes, not int"),
        (status_error, {"status_code": 404, "body": {"a": {1}}}, ValueError, "body is not JSON: /a"),
        (status_error, {"status_code": 404, "delivery": 1}, TypeError, "unexpected keyword argument 'delivery'"),
        (status_error, {"status_code": 404, "headers": {"a b": "c"}}, ValueError, "headers cannot be sent"),
        (status_error, {"status_code": 404, "headers": {"a": 1}}, TypeError, "the value of a in headers"),
        (timeout_error, {"seconds": 0}, ValueError, "seconds must be a number of seconds, more than zero"),
        (timeout_error, {"outcome": "answered"}, ValueError, "outcome must be not_sent, rejected, unknown or succeed"),
        (timeout_error, {"operation": "create"}, ValueError, "operation must be a method and a path"),
        (timeout_error, {"attempts": -1}, ValueError, "attempts must be a whole number"),
        (timeout_error, {"retry_after": -1}, ValueError, "retry_after must not be negative"),
        (connection_error, {"sent": 1}, TypeError, "sent must be a bool"),
        (connection_error, {"reason": 1}, TypeError, "reason must be a str"),
        (decode_error, {"body": {"id": "d"}}, ValueError, "body can be read as the model"),
        (decode_error, {"body": "", "model": str}, TypeError, "model must be Deal or Agent"),
    ],
)
def test_wrong_use(make: Any, given: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        make(**given)
