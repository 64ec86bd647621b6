"""The clients."""

from __future__ import annotations

from collections.abc import Coroutine
from contextlib import suppress
from copy import copy
from os import environ
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Self, TypeVar, Unpack

import dealkit._models.classes  # noqa: F401 - adds methods to the native classes of results
from dealkit import _native
from dealkit._bulk.creation import wait_for_detached_calls
from dealkit._calls.session import Session, open_session
from dealkit._client.resources import (
    ASYNC,
    ASYNC_RAW,
    BLOCKING,
    BLOCKING_RAW,
    AgentCalls,
    Agents,
    AsyncAgentCalls,
    AsyncAgents,
    AsyncDealCalls,
    AsyncDeals,
    AsyncRawAgents,
    AsyncRawDeals,
    DealCalls,
    Deals,
    RawAgents,
    RawDeals,
)
from dealkit._core.builtin_types import to_builtin_types
from dealkit._core.errors import sealed, sealed_coroutine, unwrap
from dealkit._core.options import OMITTED, CallOptions, ClientOptions, Pairs, Timeout, pairs

# The return type of `request`: a response, or its coroutine.
Requested = TypeVar("Requested")
# The types of a client's `agents` and `deals`.
AgentCallsType = TypeVar("AgentCallsType")
DealCallsType = TypeVar("DealCallsType")


class _Requests(Generic[Requested]):
    """Calls of undocumented operations."""

    _session: Session
    _send: ClassVar[Any]

    @sealed
    def request(
        self,
        method: str,
        *segments: str,
        json: object = OMITTED,
        query: Pairs | None = None,
        headers: Pairs | None = None,
        **options: Unpack[CallOptions],
    ) -> Requested:
        """Calls an undocumented operation, with the client's key and options, and with the same exceptions as other
        calls.

        The segments of the path follow ``/v1``, and are escaped like identifiers: ``client.request("PATCH", "agents",
        agent.id, json={"first_name": "Ada"}).json()``.
        """
        body = None if json is OMITTED else (to_builtin_types(json),)
        call = unwrap(
            _native.raw_request(
                method, segments, json=body, query=pairs("query", query), headers=pairs("headers", headers)
            )
        )
        return self._send(self._session, call, options, raw=True)  # type: ignore[no-any-return]


class BaseClient:
    """The common base class of Client and AsyncClient."""

    _session: Session
    _is_async: ClassVar[bool]

    @sealed
    def __init__(self, **options: Unpack[ClientOptions]) -> None:
        """Creates the client, and checks its options, which ``ClientOptions`` lists. None means the default.

        Raises:
            ConfigError: An option is missing or invalid. The message names the option and the values that it accepts.
        """
        set_options = {name: value for name, value in options.items() if value is not None}
        self._session = open_session(set_options, None, self._is_async)

    @classmethod
    @sealed
    def shared(cls, **options: Unpack[ClientOptions]) -> Self:
        """Returns this process's shared client with these options. The first call creates the client.

        Use it in functions that an engine such as Dask, Spark or Ray sends to its worker processes. The service key
        then comes from the worker's environment, and is never part of a task. All tasks of a worker process share the
        client's connections and rate limit:

        >>> def statuses(ids: list[str]) -> list[str | None]:
        ...     client = Client.shared(rate_limit=10)
        ...     return [deal.status for deal in client.deals.retrieve_many(ids)]

        It takes the same options as the constructor. If the shared client is closed, or the environment now has a
        different URL or key, the next call creates a new client.
        """
        wanted_options: dict[str, Any] = {**options}
        if wanted_options.get("headers") is not None:
            wanted_options["headers"] = pairs("headers", wanted_options["headers"])
        environment = {name: value for name, value in environ.items() if name.startswith("DEALKIT_")}
        cache_key = {"class": cls, "environment": environment, **wanted_options}
        client = _find_shared_client(cache_key)
        if client is None:
            _remove_closed_clients()
            _SHARED_CLIENTS.append((cache_key, cls(**wanted_options)))
            # If several threads have each created a client, all of them use the first client.
            client = _find_shared_client(cache_key)
        return client  # type: ignore[return-value]

    @property
    def base_url(self) -> str:
        """The service's URL."""
        base_url: str = self._session.options["base_url"]
        return base_url

    @property
    def timeout(self) -> float:
        """The timeout of a call in seconds, over all its attempts."""
        return float(self._session.require_client().timeout)

    @property
    def max_retries(self) -> int:
        """The maximum number of retries after the first attempt."""
        return int(self._session.require_client().max_retries)

    @property
    def is_closed(self) -> bool:
        """True if the client is closed."""
        return self._session.client is None

    @sealed
    def with_options(self, **options: Unpack[ClientOptions]) -> Self:
        """Returns a new client with the options of this client, except for the options passed here. None means the
        default.

        It takes the same options as the constructor. A number as ``timeout`` replaces only the ``total`` of a
        ``Timeout``.

        A new client is cheap, because the two clients share connections:
        ``client.with_options(timeout=5).deals.retrieve("d_1")``. They do not share connections if the service's host or
        an option that concerns connections differs: ``proxy``, ``ca_file``, ``client_cert``, ``http2``,
        ``max_idle_connections``, or ``connect`` or ``attempt`` of a ``Timeout``. Clients with the same service, key and
        ``rate_limit`` also share that limit, the pauses that the service asks for, and the retry quota.
        """
        session = self._session
        new_client = copy(self)  # Unlike `type(self)(…)`, copies the attributes that a subclass may have added.
        # A new option replaces an old option to which it is an alternative.
        set_names = {name for name, value in options.items() if value is not None}
        replaced_names = {_ALTERNATIVES[name] for name in set_names & _ALTERNATIVES.keys()}
        retained_options = {name: value for name, value in session.options.items() if name not in replaced_names}
        merged_options: dict[str, Any] = {**retained_options, **options}
        earlier_timeout, timeout = retained_options.get("timeout"), options.get("timeout")
        if isinstance(earlier_timeout, Timeout) and timeout is not None and not isinstance(timeout, Timeout):
            merged_options["timeout"] = earlier_timeout._replace(total=timeout)
        new_client._session = open_session(merged_options, session, self._is_async)
        return new_client

    def __repr__(self) -> str:
        # Works for a client whose constructor has failed too, because an error tracker may show such a client.
        session = getattr(self, "_session", None)
        options = {} if session is None else session.options
        closed_note = ", closed" if session is None or session.client is None else ""
        return f"{type(self).__name__}(base_url={options.get('base_url')!r}{closed_note})"


# Options that are alternatives: each key of the dict replaces its value.
_ALTERNATIVES = {"service_key": "service_key_file", "service_key_file": "service_key", "retry": "max_retries"}

# The shared clients of this process, each with its cache key. No lock protects the list, because a fork could copy a
# locked lock.
_SHARED_CLIENTS: list[tuple[dict[str, Any], BaseClient]] = []


def _remove_closed_clients() -> None:
    """Removes closed clients from the shared ones."""
    for shared_client in [*_SHARED_CLIENTS]:
        if shared_client[1].is_closed:
            with suppress(ValueError):  # Removed by another thread.
                _SHARED_CLIENTS.remove(shared_client)


def _find_shared_client(cache_key: dict[str, Any]) -> BaseClient | None:
    return next((client for key, client in _SHARED_CLIENTS if key == cache_key and not client.is_closed), None)


class Client(BaseClient, _Requests[_native.RawResponse[Any]]):
    """A client of one service. It has one service key and one pool of connections.

    >>> with Client(base_url="https://deals.example.com", service_key="my-key") as client:
    ...     deal = client.deals.retrieve("d_1")

    A client can be shared between threads and used after a fork. It can be pickled, and so sent to a worker process;
    the pickle contains the key. If worker processes have the key in their environment, use ``Client.shared`` in them
    instead.
    """

    _is_async = False
    _send: ClassVar[Any] = staticmethod(Session.send)

    @property
    def agents(self) -> Agents:
        """Calls on agents: ``create``, ``create_once`` and ``create_many``, and ``validate``."""
        return AgentCalls(self._session, BLOCKING)

    @property
    def deals(self) -> Deals:
        """Calls on deals: ``retrieve`` and ``retrieve_many``."""
        return DealCalls(self._session, BLOCKING)

    @property
    def with_raw_response(self) -> RawClient[RawAgents, RawDeals]:
        """The same calls, which then return the whole response instead of its value."""
        return RawClient(AgentCalls(self._session, BLOCKING_RAW), DealCalls(self._session, BLOCKING_RAW))

    def close(self) -> None:
        """Closes the client. Also closes its connections, unless a client from ``with_options`` shares them."""
        self._session.client = None

    def __enter__(self) -> Self:
        self._session.require_client()
        return self

    def __exit__(self, *exception_details: object) -> None:
        self.close()


class AsyncClient(BaseClient, _Requests[Coroutine[Any, Any, _native.RawResponse[Any]]]):
    """The client for asyncio. It has the calls of ``Client``, as awaitables.

    >>> async with AsyncClient(base_url="https://deals.example.com", service_key="my-key") as client:
    ...     deal = await client.deals.retrieve("d_1")

    One client can be used in several event loops, one after another or at the same time. Cancelling a call aborts its
    request.
    """

    _is_async = True
    _send: ClassVar[Any] = staticmethod(Session.send_async)
    if not TYPE_CHECKING:
        request = sealed_coroutine(_Requests.request)

    @property
    def agents(self) -> AsyncAgents:
        """Calls on agents: ``create``, ``create_once`` and ``create_many``, and ``validate``."""
        return AsyncAgentCalls(self._session, ASYNC)

    @property
    def deals(self) -> AsyncDeals:
        """Calls on deals: ``retrieve`` and ``retrieve_many``."""
        return AsyncDealCalls(self._session, ASYNC)

    @property
    def with_raw_response(self) -> RawClient[AsyncRawAgents, AsyncRawDeals]:
        """The same calls, which then return the whole response instead of its value."""
        session = self._session
        return RawClient(AsyncAgentCalls(session, ASYNC_RAW), AsyncDealCalls(session, ASYNC_RAW))

    async def aclose(self) -> None:
        """Closes the client. Also closes its connections, unless a client from ``with_options`` shares them.

        First waits for the detached creates of this client, and of clients from its ``with_options``, in the running
        event loop. They end at their ``timeout`` at the latest. If the wait is cancelled, they continue.
        """
        try:
            await wait_for_detached_calls(self._session)
        finally:
            self._session.client = None

    async def __aenter__(self) -> Self:
        self._session.require_client()
        return self

    async def __aexit__(self, *exception_details: object) -> None:
        await self.aclose()


class RawClient(NamedTuple, Generic[AgentCallsType, DealCallsType]):
    """The calls of a client that return the whole response instead of its value."""

    agents: AgentCallsType
    """Calls on agents."""
    deals: DealCallsType
    """Calls on deals."""
