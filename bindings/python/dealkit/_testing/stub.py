"""Stubs that replace clients in tests. Their calls return the results of functions."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from dealkit import (
    Agent,
    CallOptions,
    CreateAgentParams,
    Creation,
    Deal,
    DealkitError,
    IdempotencyKeyReusedError,
)
from dealkit._core.arguments import describe_unexpected_keyword

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from os import PathLike
    from typing import Unpack

    from dealkit._client.operations import AgentOperations, DealOperations

T = TypeVar("T")


class _StubAgents:
    """The agent calls of a stub."""

    def __init__(self, create: Callable[..., Agent | DealkitError] | None) -> None:
        self._create = create
        # The arguments and the identifier of the agent of each idempotency key.
        self._created_agents: dict[str, tuple[dict[str, Any], str | None]] = {}

    def create(self, **agent: Unpack[CreateAgentParams]) -> Agent:
        keywords = [*CreateAgentParams.__annotations__, *CallOptions.__annotations__, "validate"]
        for name in agent:
            if name not in keywords:
                raise TypeError(describe_unexpected_keyword("agents.create", name, keywords))
        return _call_function("create", self._create, **agent)

    def create_once(self, *, idempotency_key: str, ledger: str | PathLike[str], **arguments: Any) -> Creation[Agent]:
        agent: Any = {name: value for name, value in arguments.items() if name in CreateAgentParams.__annotations__}
        # Returns the existing agent for a known idempotency key, as a call with a ledger does.
        if idempotency_key in self._created_agents:
            created_agent, agent_id = self._created_agents[idempotency_key]
            if agent != created_agent:
                raise IdempotencyKeyReusedError("an agent was created earlier from other data", agent_id=agent_id)
            return Creation(index=0, key=idempotency_key, agent_id=agent_id, from_ledger=True)
        creation = Creation(index=0, key=idempotency_key, agent=self.create(**agent))
        self._created_agents[idempotency_key] = agent, creation.agent_id
        return creation


class _StubDeals:
    """The deal calls of a stub."""

    def __init__(self, retrieve: Callable[[str], Deal | DealkitError] | None) -> None:
        self._retrieve = retrieve

    def retrieve(self, id: str) -> Deal:
        return _call_function("retrieve", self._retrieve, id)


class _AsyncStubCalls:
    """Wraps the calls of a stub in coroutine functions."""

    def __init__(self, calls: Any) -> None:
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._calls, name)

        @wraps(call)
        async def async_call(*args: Any, **kwargs: Any) -> Any:
            return call(*args, **kwargs)

        return async_call


class Stub:
    """A replacement for ``Client`` in tests of functions that take ``dealkit.Operations``. It needs no socket.

    >>> from dealkit import Deal, Operations
    >>> def is_won(client: Operations, id: str) -> bool:
    ...     return client.deals.retrieve(id).status == "CLOSED"
    >>> deals = {"d_1": Deal(id="d_1", status="CLOSED")}
    >>> stub = Stub(retrieve=lambda id: deals.get(id) or NotFoundError("404 Not Found"))
    >>> is_won(stub, "d_1")
    True
    >>> is_won(stub, "d_2")
    Traceback (most recent call last):
    ...
    dealkit.exceptions.NotFoundError: 404 Not Found
    """

    agents: AgentOperations[Agent, Creation[Agent]]
    """Calls on agents."""
    deals: DealOperations[Deal]
    """Calls on deals."""

    def __init__(
        self,
        *,
        create: Callable[..., Agent | DealkitError] | None = None,
        retrieve: Callable[[str], Deal | DealkitError] | None = None,
    ) -> None:
        """Creates the stub. A call whose function is missing raises ``AssertionError``.

        Args:
            create: A function that returns the result of ``agents.create`` for its keyword arguments. If the function
                returns an exception, the call raises it. ``agents.create_once`` also calls the function, once for each
                idempotency key, and raises ``IdempotencyKeyReusedError`` if a key comes with other data.
            retrieve: A function that returns the result of ``deals.retrieve`` for an identifier. If the function
                returns an exception, the call raises it.
        """
        self.agents, self.deals = _StubAgents(create), _StubDeals(retrieve)


class AsyncStub:
    """A replacement for ``AsyncClient`` in tests of functions that take ``dealkit.AsyncOperations``."""

    agents: AgentOperations[Awaitable[Agent], Awaitable[Creation[Agent]]]
    """Calls on agents."""
    deals: DealOperations[Awaitable[Deal]]
    """Calls on deals."""

    def __init__(
        self,
        *,
        create: Callable[..., Agent | DealkitError] | None = None,
        retrieve: Callable[[str], Deal | DealkitError] | None = None,
    ) -> None:
        """Creates the stub, with the arguments of ``Stub``."""
        stub = Stub(create=create, retrieve=retrieve)
        agents: Any = _AsyncStubCalls(stub.agents)
        deals: Any = _AsyncStubCalls(stub.deals)
        self.agents, self.deals = agents, deals


def _call_function(name: str, function: Callable[..., T | DealkitError] | None, *args: Any, **kwargs: Any) -> T:
    if function is None:
        # No DealkitError, which the tested code may handle.
        raise AssertionError(f"the stub has no function for this call: pass {name}=")
    result = function(*args, **kwargs)
    if isinstance(result, DealkitError):
        raise result
    return result
