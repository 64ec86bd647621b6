"""The clients."""

from __future__ import annotations

from dealkit import _native
from dealkit._log import look
from dealkit._options import OMITTED, Omitted, Timeout, pairs, settings, shares_connections
from dealkit._resources import (
    Agents,
    AsyncAgents,
    AsyncDeals,
    AsyncRawAgents,
    AsyncRawDeals,
    Deals,
    RawAgents,
    RawDeals,
)

# What follows is for type checkers: importing typing takes longer than all of dealkit.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Mapping
    from types import TracebackType
    from typing import Any, Self, TypeVar

    Pairs = Mapping[str, str] | Iterable[tuple[str, str]]
    T = TypeVar("T")


class BaseClient:
    """What both clients have in common."""

    __slots__ = ("_engine", "_given", "_max_retries", "_timeout")

    _engine: _native.Engine | None
    # The arguments, to be pickled and changed; never shown, for the key is one of them.
    _given: dict[str, Any]
    # In place of the engine's own, for a client that shares another's connections.
    _timeout: float | None
    _max_retries: int | None

    _AWAITS: bool

    def __init__(
        self,
        *,
        base_url: str | None = None,
        service_key: str | None = None,
        timeout: float | Timeout | None = None,
        max_retries: int | None = None,
        headers: Pairs | None = None,
        proxy: str | None = None,
        max_connections: int | None = None,
        max_response_bytes: int | None = None,
        allow_http: bool = False,
        user_agent: str | None = None,
    ) -> None:
        """Sets the client up, and checks that it can work.

        Args:
            base_url: The service's address, without ``/v1``. Default: the environment variable
                ``DEALKIT_BASE_URL``.
            service_key: The key issued to the caller. Default: ``DEALKIT_SERVICE_KEY``.
            timeout: The most seconds that a call may take, all attempts included (60), or a ``Timeout``.
            max_retries: How many times a request is tried again after the first attempt (2).
            headers: Headers to send on every request.
            proxy: A proxy to go through, such as ``http://proxy.example.com:3128``, in place of the one
                that the environment names. A service on a loopback address is always called directly.
            max_connections: How many unused connections are kept for the next call (64).
            max_response_bytes: The largest body of an answer that is read (64 MiB).
            allow_http: Allows plain ``http`` to a host that is not this machine. Everybody on the way can
                then read the service key.
            user_agent: The ``User-Agent`` header. Default: ``dealkit/`` and the version.

        Raises:
            ConfigError: A setting is missing or wrong; the text says which, and what it takes.
        """
        if headers is not None:
            headers = pairs("headers", headers)
        given: dict[str, Any] = {
            "base_url": base_url,
            "service_key": service_key,
            "timeout": timeout,
            "max_retries": max_retries,
            "headers": headers,
            "proxy": proxy,
            "max_connections": max_connections,
            "max_response_bytes": max_response_bytes,
            "allow_http": allow_http,
            "user_agent": user_agent,
        }
        self._engine = _native.Engine(settings(given), self._AWAITS)
        # What came from the environment must be the same where the client is unpickled.
        given["base_url"] = self._engine.base_url
        given["service_key"] = self._engine.service_key
        self._given = given
        self._timeout = None
        self._max_retries = None

    @property
    def base_url(self) -> str:
        """The service's address."""
        base_url: str = self._given["base_url"]
        return base_url

    @property
    def is_closed(self) -> bool:
        """Whether the client was closed."""
        return self._engine is None

    def with_options(
        self,
        *,
        base_url: str | Omitted = OMITTED,
        service_key: str | Omitted = OMITTED,
        timeout: float | Timeout | None | Omitted = OMITTED,
        max_retries: int | None | Omitted = OMITTED,
        headers: Pairs | None | Omitted = OMITTED,
        proxy: str | None | Omitted = OMITTED,
        max_connections: int | None | Omitted = OMITTED,
        max_response_bytes: int | None | Omitted = OMITTED,
        allow_http: bool | Omitted = OMITTED,
        user_agent: str | None | Omitted = OMITTED,
    ) -> Self:
        """Another client that is set up as this one is, but for what is given here; None is the default.

        One that differs only in ``timeout`` (a number) and ``max_retries`` shares this one's connections,
        and is cheap to make: ``client.with_options(timeout=5).deals.retrieve("d_1")``.
        """
        changes = {
            name: value
            for name, value in {
                "base_url": base_url,
                "service_key": service_key,
                "timeout": timeout,
                "max_retries": max_retries,
                "headers": headers,
                "proxy": proxy,
                "max_connections": max_connections,
                "max_response_bytes": max_response_bytes,
                "allow_http": allow_http,
                "user_agent": user_agent,
            }.items()
            if value is not OMITTED
        }
        engine = self._open()
        if shares_connections(changes):
            return self._sharing(engine, changes)
        return type(self)(**{**self._given, **changes})

    def _sharing(self, engine: _native.Engine, changes: dict[str, Any]) -> Self:
        _native.check_options(changes)
        other = object.__new__(type(self))
        other._engine = engine
        other._given = {**self._given, **changes}
        other._timeout = changes.get("timeout", self._timeout)
        other._max_retries = changes.get("max_retries", self._max_retries)
        return other

    def _open(self) -> _native.Engine:
        if self._engine is None:
            from dealkit.exceptions import ConfigError

            raise ConfigError("the client is closed; make another one to make calls")
        look()
        return self._engine

    def __repr__(self) -> str:
        closed = ", closed" if self._engine is None else ""
        return f"{type(self).__name__}(base_url={self.base_url!r}{closed})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restore, (type(self), self._given, self._engine is None))


def _restore(of_class: type[BaseClient], given: dict[str, Any], is_closed: bool) -> BaseClient:
    client = of_class(**given)
    if is_closed:
        client._engine = None
    return client


def _other(
    method: str,
    segments: tuple[str, ...],
    json: object,
    query: Pairs | None,
    headers: Pairs | None,
) -> _native.Call[Any]:
    body = None if json is OMITTED else (json,)
    return _native.other(method, segments, body, pairs("query", query), pairs("headers", headers))


class Client(BaseClient):
    """A client of one service, with one key and one pool of connections.

    >>> with Client(base_url="https://deals.example.com", service_key="my-key") as client:
    ...     deal = client.deals.retrieve("d_1")

    Safe to share between threads, and to use after a fork. It pickles, key included, so that it can travel
    to a worker process.
    """

    __slots__ = ()

    _AWAITS = False

    @property
    def agents(self) -> Agents:
        """Calls on agents."""
        return Agents(self)

    @property
    def deals(self) -> Deals:
        """Calls on deals."""
        return Deals(self)

    @property
    def with_raw_response(self) -> RawClient:
        """The same calls, coming back with the whole response."""
        return RawClient(self)

    def request(
        self,
        method: str,
        *segments: str,
        json: object = OMITTED,
        query: Pairs | None = None,
        headers: Pairs | None = None,
    ) -> _native.RawResponse[Any]:
        """Calls an operation that the specification does not show, with the same key, limits and errors.

        The segments follow ``/v1`` and are escaped as identifiers are:
        ``client.request("PATCH", "agents", agent.id, json={"first_name": "Ada"}).json()``.
        """
        return self._send_raw(_other(method, segments, json, query, headers))

    def _send(self, call: _native.Call[T]) -> T:
        return self._open().send(call, self._timeout, self._max_retries, False)

    def _send_raw(self, call: _native.Call[T]) -> _native.RawResponse[T]:
        return self._open().send(call, self._timeout, self._max_retries, True)

    def close(self) -> None:
        """Closes the client. Connections that nobody uses any more are closed with it."""
        self._engine = None

    def __enter__(self) -> Self:
        self._open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class AsyncClient(BaseClient):
    """The client for asyncio: the same calls, awaited.

    >>> async with AsyncClient(base_url="https://deals.example.com", service_key="my-key") as client:
    ...     deal = await client.deals.retrieve("d_1")

    One client works in several event loops, one after the other or at the same time. Cancelling a call
    aborts its request.
    """

    __slots__ = ()

    _AWAITS = True

    @property
    def agents(self) -> AsyncAgents:
        """Calls on agents."""
        return AsyncAgents(self)

    @property
    def deals(self) -> AsyncDeals:
        """Calls on deals."""
        return AsyncDeals(self)

    @property
    def with_raw_response(self) -> AsyncRawClient:
        """The same calls, coming back with the whole response."""
        return AsyncRawClient(self)

    async def request(
        self,
        method: str,
        *segments: str,
        json: object = OMITTED,
        query: Pairs | None = None,
        headers: Pairs | None = None,
    ) -> _native.RawResponse[Any]:
        """Calls an operation that the specification does not show; see ``Client.request``."""
        return await self._send_raw(_other(method, segments, json, query, headers))

    def _send(self, call: _native.Call[T]) -> Awaitable[T]:
        from dealkit._async import send

        return send(self._open(), call, self._timeout, self._max_retries, False)

    def _send_raw(self, call: _native.Call[T]) -> Awaitable[_native.RawResponse[T]]:
        from dealkit._async import send

        return send(self._open(), call, self._timeout, self._max_retries, True)

    async def aclose(self) -> None:
        """Closes the client. Connections that nobody uses any more are closed with it."""
        self._engine = None

    async def __aenter__(self) -> Self:
        self._open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()


class RawClient:
    """The calls of a client, coming back with the whole response."""

    __slots__ = ("agents", "deals")

    agents: RawAgents
    """Calls on agents."""
    deals: RawDeals
    """Calls on deals."""

    def __init__(self, client: Client) -> None:
        self.agents = RawAgents(client)
        self.deals = RawDeals(client)


class AsyncRawClient:
    """The calls of an async client, coming back with the whole response."""

    __slots__ = ("agents", "deals")

    agents: AsyncRawAgents
    """Calls on agents."""
    deals: AsyncRawDeals
    """Calls on deals."""

    def __init__(self, client: AsyncClient) -> None:
        self.agents = AsyncRawAgents(client)
        self.deals = AsyncRawDeals(client)
