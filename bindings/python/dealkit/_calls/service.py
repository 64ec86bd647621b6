"""What a call needs: the connections of a client, for as long as it is open."""

from __future__ import annotations

from os import environ
from typing import TYPE_CHECKING, Any

from dealkit import _native
from dealkit._calls.key_provider import KeyProvider, ask_here
from dealkit._core.failure import unwrap
from dealkit._core.options import CallOptions, call_settings, client_settings, pairs
from dealkit._core.private import sealed
from dealkit._core.threads import wait_cooperatively
from dealkit._observe import watch

if TYPE_CHECKING:
    from collections.abc import Callable


class Service:
    """The service as a client reaches it. The resources of a client hold this rather than the client."""

    __slots__ = ("awaits", "engine", "given", "source")

    def __init__(
        self,
        engine: _native.Engine,
        given: dict[str, Any],
        source: tuple[KeyProvider, _native.KeySource] | None,
        awaits: bool,
    ) -> None:
        self.engine: _native.Engine | None = engine
        # The client's options, for pickling and for `with_options`; never shown, because the key is one of them.
        self.given: dict[str, Any] = given
        # Where the key comes from, if a callable provides it.
        self.source: tuple[KeyProvider, _native.KeySource] | None = source
        # Whether its calls are awaited.
        self.awaits: bool = awaits

    def __reduce__(self) -> tuple[Any, ...]:
        return (restored_service, (self.given, self.engine is None, self.awaits))

    def open(self) -> _native.Engine:
        """The connections. Raises ConfigError once the client is closed."""
        if self.engine is None:
            from dealkit.exceptions import ConfigError

            raise ConfigError("the client is closed; create another one to make calls")
        if self.source is not None:
            self.source[0].note_loop()
        return self.engine

    def send(self, call: _native.Call, options: CallOptions, raw: bool = False) -> Any:
        """Makes a call and waits for its end. Returns its value, or the whole response."""
        settings = native_options(options)
        with watch.begin(lambda: self.describe(call)) as watched:
            outcome = wait_cooperatively(self.open().send, call, settings, raw, watched.native)
            if isinstance(outcome, _native.Waiting):
                outcome = _wait(outcome, watched.flush)
            return unwrap(outcome, call)

    async def send_async(
        self, call: _native.Call, options: CallOptions, raw: bool = False, *, detached: bool = False
    ) -> Any:
        """The same, awaited. Cancelling it aborts the request, unless the call is detached."""
        # Not above: asyncio takes long to import.
        from dealkit._calls.event_loop import news

        settings = native_options(options)
        with watch.begin(lambda: self.describe(call)) as watched:
            pending = unwrap(self.open().start(call, settings, raw, watched.native), call)
            try:
                await news(pending.tell, watched.flush)
            finally:
                # Does nothing if the call has ended. A detached call continues even if its event loop ends.
                if not detached:
                    pending.abort()
            return unwrap(pending.take(), call)

    def describe(self, call: _native.Call) -> Any:
        """The description of a call: its method, template, host and port."""
        return self.open().describe(call)


def open_service(given: dict[str, Any], shared: Service | None, awaits: bool) -> Service:
    """The service of a client with these options, sharing another client's connections where possible."""
    if given.get("headers") is not None:
        given["headers"] = pairs("headers", given["headers"])
    given = _settled(given)
    settings, source = client_settings(given), None
    if callable(given.get("service_key")):
        source = _source(given["service_key"], shared, awaits)
        settings["service_key"] = source[1]
    engine = unwrap(_native.open_engine(settings, None if shared is None else shared.open()))
    return Service(engine, given, source, awaits)


def _settled(given: dict[str, Any]) -> dict[str, Any]:
    """Completes the options from the environment: they must be the same where the client is unpickled. An empty variable counts as
    unset."""
    settled = {name: value for name, value in given.items() if value is not None}
    for names in (("base_url",), ("service_key", "service_key_file")):
        variables = {name: f"DEALKIT_{name.upper()}" for name in names}
        if not settled.keys() & names:
            settled |= {name: environ[variable] for name, variable in variables.items() if environ.get(variable)}
        if len(settled.keys() & names) != 1:
            from dealkit.exceptions import ConfigError

            if names[0] in settled:
                raise ConfigError(
                    f"{' and '.join(names)} are both set, or both in the environment: set only one of them"
                )
            needed = " or ".join(variables.values())
            raise ConfigError(
                f"{names[0]} is missing: pass it, or set the environment variable {needed}", setting=names[0]
            )
    return settled


def _source(given: Any, shared: Service | None, awaits: bool) -> tuple[KeyProvider, _native.KeySource]:
    """Where the key comes from: the same source, and so the same key, for clients that share a callable."""
    if shared is not None and shared.source is not None and shared.source[0].given == given:
        return shared.source
    provider = KeyProvider(given, awaits)
    return provider, unwrap(_native.key_source(provider))


@sealed
def restored_service(given: dict[str, Any], is_closed: bool, awaits: bool) -> Service:
    """The service of an unpickled client."""
    service: Service = open_service(given, None, awaits)
    if is_closed:
        service.engine = None
    return service


def native_options(options: CallOptions) -> _native.Options | None:
    """The options of a call, checked."""
    return unwrap(_native.call_options(call_settings(options))) if options else None


def _wait(waiting: Any, flush: Callable[[], None] | None) -> Any:
    """Waits for a call. Python checks for signals between two steps, and their handlers may raise."""
    try:
        while True:
            ask_here()
            outcome = wait_cooperatively(waiting.wait)
            if outcome is not waiting:
                return outcome
            if flush is not None:
                flush()
    finally:
        # Does nothing if the call has ended.
        waiting.abort()
