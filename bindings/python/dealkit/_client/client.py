"""The clients."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from copy import copy
from os import environ
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NamedTuple, Self, TypeVar, Unpack

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
from dealkit._core.options import OMITTED, CallOptions, ClientOptions, Key, Pairs, Path, Retry, Timeout, pairs
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
    def __init__(
        self,
        *,
        base_url: str | None = None,
        service_key: str | Callable[[], Key | Awaitable[Key]] | None = None,
        service_key_file: Path | None = None,
        timeout: float | Timeout | None = None,
        max_retries: int | None = None,
        retry: Retry | None = None,
        rate_limit: float | None = None,
        headers: Pairs | None = None,
        proxy: str | None = None,
        ca_file: Path | None = None,
        client_cert: Path | tuple[Path, Path] | None = None,
        http2: bool | None = None,
        max_idle_connections: int | None = None,
        max_response_bytes: int | None = None,
        allow_http: bool | None = None,
        user_agent: str | None = None,
        on_unreadable: Literal["raise", "skip"] | None = None,
    ) -> None:
        """Creates the client, and checks its options. None means the default.

        Args:
            base_url: The service's URL, without ``/v1``. Default: the environment variable ``DEALKIT_BASE_URL``.
            service_key: Your key, or a function that returns it, such as one that asks a vault. It is called when a key
                is needed, and its result is kept until the service responds with a 401, or, if it returns ``(key,
                seconds)``, for that long. It runs in a thread of its own; a coroutine function, for an ``AsyncClient``,
                runs on the event loop. Default: ``DEALKIT_SERVICE_KEY``.
            service_key_file: A file with the key, such as a mounted secret. It is reread when it changes. Default:
                ``DEALKIT_SERVICE_KEY_FILE``.
            timeout: The timeout of a call in seconds, including all attempts (60), or a ``Timeout``.
            max_retries: How often a request is retried after the first attempt (2).
            retry: What is retried, and when: a ``Retry``. ``max_retries`` takes precedence for the number.
            rate_limit: The maximum number of requests per second, over all of the client's calls and their attempts;
                0.5 is one every two seconds (no limit). Calls are sent in order of arrival; a call that the limit delays
                beyond its timeout raises ``ThrottledError`` immediately.
            headers: Headers to send with every request.
            proxy: A proxy, such as ``http://proxy.example.com:3128``, instead of the one in the environment. A service
                on a loopback address is always called directly.
            ca_file: A file of CA certificates (PEM) to trust in addition to those the system trusts.
            client_cert: The certificate to present to a service that requires one (mutual TLS): a file with it and its
                private key (PEM, unencrypted), or the two files ``(certificate, key)``, reread for new connections.
            http2: Whether to speak HTTP/2 over TLS if the service does (True).
            max_idle_connections: The maximum number of idle connections to keep for the next calls (no limit: as many
                as were in use at the same time in the last seconds).
            max_response_bytes: The largest response body to read, in bytes (16 MiB).
            allow_http: Allows plain HTTP to other machines. Anyone along the way can then read the service key.
            user_agent: The ``User-Agent`` header. Default: ``dealkit/`` and the version.
            on_unreadable: What to do about an unreadable optional field of a response, such as a date in another
                format: ``"raise"`` (the default) raises DecodeError; ``"skip"`` makes it None and lists it in the
                model's ``unreadable``.

        Raises:
            ConfigError: An option is missing or invalid; the message says which one, and what it accepts.
        """
        given = {name: value for name, value in locals().items() if value is not None and name != "self"}
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
