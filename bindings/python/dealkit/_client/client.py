"""The clients."""

from __future__ import annotations

from collections.abc import Coroutine
from contextlib import suppress
from copy import copy
from os import environ
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Self, TypeVar, Unpack

import dealkit._models.classes  # noqa: F401 - completes the native classes, which calls come back with
from dealkit import _native
from dealkit._calls.service import Service, open_service
from dealkit._client.resources import (
    AWAITED,
    AWAITED_RAW,
    PLAIN,
    RAW,
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
from dealkit._core.failure import unwrap
from dealkit._core.options import OMITTED, CallOptions, ClientOptions, Pairs, Timeout, pairs
from dealkit._core.plain import plain
from dealkit._core.private import awaited, sealed

# What `request` returns: the response, or its coroutine.
Requested = TypeVar("Requested")
# The calls of a client.
OnAgents = TypeVar("OnAgents")
OnDeals = TypeVar("OnDeals")


class _Requests(Generic[Requested]):
    """Calls of undocumented operations."""

    _service: Service
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
        """Calls an undocumented operation with the same key, limits and errors.

        The segments follow ``/v1`` and are escaped like identifiers: ``client.request("PATCH", "agents", agent.id,
        json={"first_name": "Ada"}).json()``.
        """
        body = None if json is OMITTED else (plain(json),)
        named = pairs("query", query), pairs("headers", headers)
        call = unwrap(_native.raw_request(method, segments, body, *named))
        return self._send(self._service, call, options, raw=True)  # type: ignore[no-any-return]


class BaseClient:
    """What both clients have in common."""

    _service: Service
    _awaits: ClassVar[bool]

    @sealed
    def __init__(self, **options: Unpack[ClientOptions]) -> None:
        """Creates the client, and checks its options, which ``ClientOptions`` lists. None means the default.

        Raises:
            ConfigError: An option is missing or invalid; the message says which one, and what it accepts.
        """
        given = {name: value for name, value in options.items() if value is not None}
        self._service = open_service(given, None, self._awaits)

    @classmethod
    @sealed
    def shared(cls, **options: Unpack[ClientOptions]) -> Self:
        """This process's client with these options: created when first requested, and kept.

        For functions that an engine such as Dask, Spark or Ray sends to its worker processes. The service key then
        comes from the worker's environment and is never part of a task, and all of a worker's tasks share its
        connections and rate limit:

        >>> def statuses(ids: list[str]) -> list[str | None]:
        ...     client = Client.shared(rate_limit=10)
        ...     return [deal.status for deal in client.deals.retrieve_many(ids)]

        It takes the same options as the constructor. Once the client is closed, or the environment has another URL or
        key, the next call creates a new client.
        """
        given: dict[str, Any] = {**options}
        if given.get("headers") is not None:
            given["headers"] = pairs("headers", given["headers"])
        environment = {name: value for name, value in environ.items() if name.startswith("DEALKIT_")}
        wanted = {"class": cls, "environment": environment, **given}
        client = _find(wanted)
        if client is None:
            _forget_closed()
            _SHARED.append((wanted, cls(**given)))
            # Another thread may have been faster: all of them use the first client.
            client = _find(wanted)
        return client  # type: ignore[return-value]

    @property
    def base_url(self) -> str:
        """The service's URL."""
        base_url: str = self._service.given["base_url"]
        return base_url

    @property
    def timeout(self) -> float:
        """The timeout of a call in seconds, including all attempts."""
        return float(self._service.open().timeout)

    @property
    def max_retries(self) -> int:
        """How often a request is retried after the first attempt."""
        return int(self._service.open().max_retries)

    @property
    def is_closed(self) -> bool:
        """Whether the client is closed."""
        return self._service.engine is None

    @sealed
    def with_options(self, **options: Unpack[ClientOptions]) -> Self:
        """Another client with this one's options, except for those given here; None means the default.

        It takes the same options as the constructor. A number as ``timeout`` replaces only the ``total`` of a ``Timeout``. The two clients share connections unless an option about
        connections differs (``proxy``, ``ca_file``, ``client_cert``, ``http2``, ``max_idle_connections``, a ``Timeout``
        with ``connect`` or ``attempt``, another host), so it is cheap to create:
        ``client.with_options(timeout=5).deals.retrieve("d_1")``. With the same service, key and ``rate_limit``, they
        also share that limit, the pauses that the service asks for, and the retry quota.
        """
        service = self._service
        other = copy(self)  # A subclass may have attributes of its own.
        # What is given replaces what says the same in another way.
        replaced = {_REPLACED[name] for name in options.keys() & _REPLACED.keys() if options[name] is not None}  # type: ignore[literal-required]
        kept = {name: value for name, value in service.given.items() if name not in replaced}
        given: dict[str, Any] = {**kept, **options}
        before, timeout = kept.get("timeout"), options.get("timeout")
        if isinstance(before, Timeout) and timeout is not None and not isinstance(timeout, Timeout):
            given["timeout"] = before._replace(total=timeout)
        other._service = open_service(given, service, self._awaits)
        return other

    def __repr__(self) -> str:
        # Works also for a client that could not be set up: an error tracker may want to show it.
        service = getattr(self, "_service", None)
        given = {} if service is None else service.given
        closed = ", closed" if service is None or service.engine is None else ""
        return f"{type(self).__name__}(base_url={given.get('base_url')!r}{closed})"


_REPLACED = {"service_key": "service_key_file", "service_key_file": "service_key", "retry": "max_retries"}

# The shared clients of this process, and the options of each. No lock guards them: a fork could copy it locked.
_SHARED: list[tuple[dict[str, Any], BaseClient]] = []


def _forget_closed() -> None:
    """Removes the closed clients."""
    for shared in [*_SHARED]:
        if shared[1].is_closed:
            with suppress(ValueError):  # Another thread has removed it.
                _SHARED.remove(shared)


def _find(wanted: dict[str, Any]) -> BaseClient | None:
    return next((client for asked, client in _SHARED if asked == wanted and not client.is_closed), None)


class Client(BaseClient, _Requests[_native.RawResponse[Any]]):
    """A client of one service, with one key and one pool of connections.

    >>> with Client(base_url="https://deals.example.com", service_key="my-key") as client:
    ...     deal = client.deals.retrieve("d_1")

    It can be shared between threads and used after a fork. It can be pickled, key included, and so sent to a worker
    process; ``Client.shared`` is for worker processes that have the key in their environment.
    """

    _awaits = False
    _send: ClassVar[Any] = staticmethod(Service.send)

    @property
    def agents(self) -> Agents:
        """Calls on agents: ``create``."""
        return AgentCalls(self._service, PLAIN)

    @property
    def deals(self) -> Deals:
        """Calls on deals: ``retrieve`` and ``retrieve_many``."""
        return DealCalls(self._service, PLAIN)

    @property
    def with_raw_response(self) -> RawClient[RawAgents, RawDeals]:
        """The same calls, returning the whole response."""
        return RawClient(AgentCalls(self._service, RAW), DealCalls(self._service, RAW))

    def close(self) -> None:
        """Closes the client, and its connections unless a client from ``with_options`` shares them."""
        self._service.engine = None

    def __enter__(self) -> Self:
        self._service.open()
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


class AsyncClient(BaseClient, _Requests[Coroutine[Any, Any, _native.RawResponse[Any]]]):
    """The client for asyncio: the same calls, awaited.

    >>> async with AsyncClient(base_url="https://deals.example.com", service_key="my-key") as client:
    ...     deal = await client.deals.retrieve("d_1")

    One client can be used in several event loops, one after another or at the same time. Cancelling a call aborts its
    request.
    """

    _awaits = True
    _send: ClassVar[Any] = staticmethod(Service.send_async)
    if not TYPE_CHECKING:
        request = awaited(_Requests.request)

    @property
    def agents(self) -> AsyncAgents:
        """Calls on agents: ``create``."""
        return AsyncAgentCalls(self._service, AWAITED)

    @property
    def deals(self) -> AsyncDeals:
        """Calls on deals: ``retrieve`` and ``retrieve_many``."""
        return AsyncDealCalls(self._service, AWAITED)

    @property
    def with_raw_response(self) -> RawClient[AsyncRawAgents, AsyncRawDeals]:
        """The same calls, returning the whole response."""
        service = self._service
        return RawClient(AsyncAgentCalls(service, AWAITED_RAW), AsyncDealCalls(service, AWAITED_RAW))

    async def aclose(self) -> None:
        """Closes the client, and its connections unless a client from ``with_options`` shares them."""
        self._service.engine = None

    async def __aenter__(self) -> Self:
        self._service.open()
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.aclose()


class RawClient(NamedTuple, Generic[OnAgents, OnDeals]):
    """The calls of a client, returning the whole response."""

    agents: OnAgents
    """Calls on agents."""
    deals: OnDeals
    """Calls on deals."""
