"""Stand-ins for clients: what they return is made by functions."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from dealkit import Agent, ConfigError, CreateAgentParams, Creation, Deal, DealkitError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from os import PathLike
    from typing import Unpack

    from dealkit._client.operations import AgentOperations, DealOperations

T = TypeVar("T")


class _Agents:
    """Calls on the agents of a stub."""

    def __init__(self, create: Callable[..., Agent | DealkitError] | None) -> None:
        self._create = create
        self._made: dict[str, str | None] = {}

    def create(self, **agent: Unpack[CreateAgentParams]) -> Agent:
        return _outcome("create", self._create, **agent)

    def create_once(self, *, idempotency_key: str, ledger: str | PathLike[str], **arguments: Any) -> Creation[Agent]:
        # A key used before gets the result that a ledger would return.
        if idempotency_key in self._made:
            return Creation(index=0, key=idempotency_key, agent_id=self._made[idempotency_key], recorded=True)
        agent: Any = {name: value for name, value in arguments.items() if name in CreateAgentParams.__annotations__}
        creation = Creation(index=0, key=idempotency_key, agent=self.create(**agent))
        self._made[idempotency_key] = creation.agent_id
        return creation


class _Deals:
    """Calls on the deals of a stub."""

    def __init__(self, retrieve: Callable[[str], Deal | DealkitError] | None) -> None:
        self._retrieve = retrieve

    def retrieve(self, id: str) -> Deal:
        return _outcome("retrieve", self._retrieve, id)


class _Awaited:
    """The calls of a stub, awaited."""

    def __init__(self, calls: Any) -> None:
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._calls, name)

        @wraps(call)
        async def awaited(*given: Any, **named: Any) -> Any:
            return call(*given, **named)

        return awaited


class Stub:
    """Replaces a ``Client`` in tests of functions that take ``dealkit.Operations``. It needs no socket.

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
        """Creates the stub. A call without a function raises ``ConfigError``.

        Args:
            create: What ``agents.create`` returns for its keyword arguments; an exception is raised instead.
                ``agents.create_once`` uses it too, and returns the same agent for the same idempotency key.
            retrieve: What ``deals.retrieve`` returns for an identifier; an exception is raised instead.
        """
        self.agents, self.deals = _Agents(create), _Deals(retrieve)


class AsyncStub:
    """Replaces an ``AsyncClient`` as ``Stub`` replaces a ``Client``: for ``dealkit.AsyncOperations``."""

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
        agents: Any = _Awaited(stub.agents)
        deals: Any = _Awaited(stub.deals)
        self.agents, self.deals = agents, deals


def _outcome(name: str, function: Callable[..., T | DealkitError] | None, *given: Any, **named: Any) -> T:
    if function is None:
        raise ConfigError(f"the stub has no function for this call: pass {name}=")
    outcome = function(*given, **named)
    if isinstance(outcome, DealkitError):
        raise outcome
    return outcome
