"""The clients."""

from __future__ import annotations

import dealkit._models  # noqa: F401 - completes the native classes, which calls come back with
from dealkit import _log, _native
from dealkit._failure import unwrap
from dealkit._options import OMITTED, Omitted, Timeout, pairs, settings, shares_connections
from dealkit._plain import plain
from dealkit._private import private
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
            max_retries: How many times a request is retried after the first attempt (2).
            headers: Headers to send on every request.
            proxy: A proxy to go through, such as ``http://proxy.example.com:3128``, in place of the one
                that the environment names. A service on a loopback address is always called directly.
            max_connections: How many unused connections are kept for the next call (64).
            max_response_bytes: The largest response body that is read, in bytes (64 MiB).
            allow_http: Allows plain ``http`` to a host that is not this machine. Everybody on the way
                can then read the service key.
            user_agent: The ``User-Agent`` header. Default: ``dealkit/`` and the version.

        Raises:
            ConfigError: A setting is missing or wrong; the text says which, and what it takes.
        """
        given = {**locals()}
        del base_url, service_key, headers, proxy
        del given["self"]
        self._set_up(given)

    def _set_up(self, given: dict[str, Any]) -> None:
        self._engine, self._given = _set_up(given, self._AWAITS)
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
        given = {**locals()}
        del base_url, service_key, headers, proxy
        return _with_options(given)  # type: ignore[no-any-return]

    def _open(self) -> _native.Engine:
        if self._engine is None:
            from dealkit.exceptions import ConfigError

            raise ConfigError("the client is closed; make another one to make calls")
        _log.sync_log_level()
        return self._engine

    def _own_state(self) -> dict[str, Any]:
        """The attributes that a subclass has added."""
        state: Any = object.__getstate__(self)
        by_dict, by_slots = state if isinstance(state, tuple) else (state, None)
        attributes = {**(by_dict or {}), **(by_slots or {})}
        return {name: value for name, value in attributes.items() if name not in BaseClient.__slots__}

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        for name, value in attributes.items():
            setattr(self, name, value)

    def __repr__(self) -> str:
        # Also of a client that could not be set up: an error tracker may want to show it.
        engine, given = getattr(self, "_engine", None), getattr(self, "_given", {})
        closed = ", closed" if engine is None else ""
        return f"{type(self).__name__}(base_url={given.get('base_url')!r}{closed})"

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy of the arguments, as they are cleared once they are used.
        return (_restore, (type(self), {**self._given}, self._engine is None), self._own_state())


def _restore(of_class: type[BaseClient], given: dict[str, Any], is_closed: bool) -> BaseClient:
    # Not by calling the class: the constructor of a subclass may take other arguments.
    client = object.__new__(of_class)
    client._set_up(given)
    if is_closed:
        client._engine = None
    return client


@private
def _set_up(given: dict[str, Any], awaits: bool) -> tuple[_native.Engine, dict[str, Any]]:
    """The connections of a client, and its arguments to be remembered."""
    if given.get("headers") is not None:
        given["headers"] = pairs("headers", given["headers"])
    engine = unwrap(_native.open_engine(settings(given), awaits))
    # What came from the environment must be the same where the client is unpickled.
    return engine, {**given, "base_url": engine.base_url, "service_key": engine.service_key}


@private
def _with_options(given: dict[str, Any]) -> Any:
    client: BaseClient = given.pop("self")
    engine = client._open()
    changes = {name: value for name, value in given.items() if value is not OMITTED}
    other = object.__new__(type(client))
    if shares_connections(changes):
        unwrap(_native.check_options(settings(changes)))
        other._engine = engine
        other._given = {**client._given, **changes}
        other._timeout = changes.get("timeout", client._timeout)
        other._max_retries = changes.get("max_retries", client._max_retries)
    else:
        other._set_up({**client._given, **changes})
    other.__setstate__(client._own_state())
    return other


@private
def _raw_request(given: dict[str, Any]) -> _native.Call[Any]:
    body = None if given["json"] is OMITTED else (plain(given["json"]),)
    query, headers = pairs("query", given["query"]), pairs("headers", given["headers"])
    return unwrap(_native.raw_request(given["method"], given["segments"], body, query, headers))


def _wait(waiting: _native.Waiting) -> Any:
    """Waits for a call. Python looks for signals between two steps, and their handlers may raise."""
    try:
        while True:
            outcome = waiting.wait()
            if outcome is not waiting:
                return outcome
            _log.flush()
    finally:
        # Does nothing to a call that has come to its end.
        waiting.abort()


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
        """Calls an undocumented operation with the same key, limits and errors.

        The segments follow ``/v1`` and are escaped as identifiers are:
        ``client.request("PATCH", "agents", agent.id, json={"first_name": "Ada"}).json()``.
        """
        given = {**locals()}
        del method, segments, json, query, headers
        return self._send_raw(_raw_request(given))

    def _send(self, call: _native.Call[T]) -> T:
        return self._made(call, False)  # type: ignore[no-any-return]

    def _send_raw(self, call: _native.Call[T]) -> _native.RawResponse[T]:
        return self._made(call, True)  # type: ignore[no-any-return]

    def _made(self, call: _native.Call[Any], raw: bool) -> Any:
        outcome = self._open().send(call, self._timeout, self._max_retries, raw)
        if isinstance(outcome, _native.Waiting):
            outcome = _wait(outcome)
        _log.flush()
        return unwrap(outcome)

    def close(self) -> None:
        """Closes the client, and its connections unless a client made by ``with_options`` shares them."""
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
        """Calls an undocumented operation; see ``Client.request``."""
        given = {**locals()}
        del method, segments, json, query, headers
        return await self._send_raw(_raw_request(given))

    def _send(self, call: _native.Call[T]) -> Awaitable[T]:
        from dealkit._async import send

        return send(self._open(), call, self._timeout, self._max_retries, False)

    def _send_raw(self, call: _native.Call[T]) -> Awaitable[_native.RawResponse[T]]:
        from dealkit._async import send

        return send(self._open(), call, self._timeout, self._max_retries, True)

    async def aclose(self) -> None:
        """Closes the client, and its connections unless a client made by ``with_options`` shares them."""
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
