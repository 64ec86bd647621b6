"""Stand-ins for clients: what they return is made by functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from dealkit import Agent, ConfigError, CreateAgentParams, Creation, Deal, DealkitError

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike
    from typing import Unpack

T = TypeVar("T")


class StubAgents:
    """Calls on the agents of a stub."""

    def __init__(self, create: Callable[..., Agent | DealkitError] | None) -> None:
        self._create = create
        self._made: dict[str, str | None] = {}

    def create(self, **agent: Unpack[CreateAgentParams]) -> Agent:
        """Returns or raises what the stub's function returns for these arguments."""
        return _outcome("create", self._create, **agent)

    def create_once(self, *, key: str, ledger: str | PathLike[str], **arguments: Any) -> Creation[Agent]:
        """Returns or raises what the stub's function returns for these arguments. A key used before gets what the
        ledger would return."""
        if key in self._made:
            return Creation(index=0, key=key, agent_id=self._made[key], recorded=True)
        agent: Any = {name: value for name, value in arguments.items() if name in CreateAgentParams.__annotations__}
        creation = Creation(index=0, key=key, agent=self.create(**agent))
        self._made[key] = creation.agent_id
        return creation


class StubDeals:
    """Calls on the deals of a stub."""

    def __init__(self, retrieve: Callable[[str], Deal | DealkitError] | None) -> None:
        self._retrieve = retrieve

    def retrieve(self, id: str) -> Deal:
        """Returns or raises what the stub's function returns for this identifier."""
        return _outcome("retrieve", self._retrieve, id)


class AsyncStubAgents:
    """Calls on the agents of an async stub."""

    def __init__(self, create: Callable[..., Agent | DealkitError] | None) -> None:
        self._calls = StubAgents(create)

    async def create(self, **agent: Unpack[CreateAgentParams]) -> Agent:
        """Returns or raises what the stub's function returns for these arguments."""
        return self._calls.create(**agent)

    async def create_once(self, *, key: str, ledger: str | PathLike[str], **arguments: Any) -> Creation[Agent]:
        """Returns or raises what the stub's function returns for these arguments. A key used before gets what the
        ledger would return."""
        return self._calls.create_once(key=key, ledger=ledger, **arguments)


class AsyncStubDeals:
    """Calls on the deals of an async stub."""

    def __init__(self, retrieve: Callable[[str], Deal | DealkitError] | None) -> None:
        self._retrieve = retrieve

    async def retrieve(self, id: str) -> Deal:
        """Returns or raises what the stub's function returns for this identifier."""
        return _outcome("retrieve", self._retrieve, id)


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

    agents: StubAgents
    """Calls on agents."""
    deals: StubDeals
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
                ``agents.create_once`` uses it too.
            retrieve: What ``deals.retrieve`` returns for an identifier; an exception is raised instead.
        """
        self.agents, self.deals = StubAgents(create), StubDeals(retrieve)


class AsyncStub:
    """Replaces an ``AsyncClient`` as ``Stub`` replaces a ``Client``: for ``dealkit.AsyncOperations``."""

    agents: AsyncStubAgents
    """Calls on agents."""
    deals: AsyncStubDeals
    """Calls on deals."""

    def __init__(
        self,
        *,
        create: Callable[..., Agent | DealkitError] | None = None,
        retrieve: Callable[[str], Deal | DealkitError] | None = None,
    ) -> None:
        """Creates the stub, with the arguments of ``Stub``."""
        self.agents, self.deals = AsyncStubAgents(create), AsyncStubDeals(retrieve)


def _outcome(name: str, function: Callable[..., T | DealkitError] | None, *given: Any, **named: Any) -> T:
    if function is None:
        raise ConfigError(f"the stub has no function for this call: pass {name}=")
    outcome = function(*given, **named)
    if isinstance(outcome, DealkitError):
        raise outcome
    return outcome
