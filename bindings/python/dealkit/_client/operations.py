"""Protocols of a client's operations: types of parameters for which tests can pass a stub."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from datetime import date
from os import PathLike
from typing import Protocol, TypeVar, Unpack

from dealkit._bulk.callbacks import Resolve
from dealkit._bulk.creation import Creation
from dealkit._client.resources import AgentAndOptions
from dealkit._native import Agent, Deal
from dealkit.enums import Role
from dealkit.params import AgentProfileParams, RoleName

Created = TypeVar("Created", covariant=True)
CreatedOnce = TypeVar("CreatedOnce", covariant=True)
Retrieved = TypeVar("Retrieved", covariant=True)


class AgentOperations(Protocol[Created, CreatedOnce]):
    """The calls on agents that ``Operations`` has."""

    def create(
        self,
        *,
        email: str,
        first_name: str,
        last_name: str,
        profile: AgentProfileParams,
        role: Role | RoleName = ...,
        phone: str = ...,
        image_url: str | None = ...,
        date_of_birth: date | str | None = ...,
        brokerage_id: str | None = ...,
        office_id: str | None = ...,
        collective_id: str | None = ...,
        extra: Mapping[str, object] = ...,
    ) -> Created:
        """Creates an agent; see ``Client.agents.create``."""
        ...

    def create_once(
        self,
        *,
        idempotency_key: str,
        ledger: str | PathLike[str],
        key_name: str | None = ...,
        label: str | None = ...,
        resend_unknown: bool = ...,
        resend_corrected: bool = ...,
        resolve: Resolve | None = ...,
        wait_in_flight: bool = ...,
        detached: bool = ...,
        validate: bool = ...,
        **arguments: Unpack[AgentAndOptions],
    ) -> CreatedOnce:
        """Creates an agent, unless one was created with the same idempotency key; see ``Client.agents.create_once``."""
        ...


class DealOperations(Protocol[Retrieved]):
    """The calls on deals that ``Operations`` has."""

    def retrieve(self, id: str) -> Retrieved:
        """Retrieves a deal by its identifier; see ``Client.deals.retrieve``."""
        ...


class Operations(Protocol):
    """The operations of a ``Client`` that call the service once: ``agents.create``, ``agents.create_once``,
    ``deals.retrieve``.

    If a function has a parameter of this type, its tests need no service: they can pass a ``dealkit.testing.Stub``, or
    any object with these methods.

    >>> def is_won(client: Operations, id: str) -> bool:
    ...     return client.deals.retrieve(id).status == "CLOSED"

    ``retrieve_many`` and ``create_many`` are not part of this protocol, because a stub would have to imitate their
    order, their concurrency and the ledger. To test a function that uses them, pass a ``Client`` of a
    ``dealkit.testing.Sandbox``.
    """

    @property
    def agents(self) -> AgentOperations[Agent, Creation[Agent]]:
        """Calls on agents."""
        ...

    @property
    def deals(self) -> DealOperations[Deal]:
        """Calls on deals."""
        ...


class AsyncOperations(Protocol):
    """The operations of an ``AsyncClient``, whose calls are awaited. In tests, pass a ``dealkit.testing.AsyncStub``."""

    @property
    def agents(self) -> AgentOperations[Awaitable[Agent], Awaitable[Creation[Agent]]]:
        """Calls on agents."""
        ...

    @property
    def deals(self) -> DealOperations[Awaitable[Deal]]:
        """Calls on deals."""
        ...
