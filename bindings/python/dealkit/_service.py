"""What a call needs: the connections of a client, as long as it is open."""

from __future__ import annotations

from typing import Any, TypeVar

from dealkit import _native, _watch
from dealkit._failure import unwrap
from dealkit._options import CallOptions, call_settings, client_settings, pairs
from dealkit._private import private

T = TypeVar("T")


class Service:
    """The service as a client reaches it. The resources of a client hold this, and not the client."""

    __slots__ = ("engine", "given")

    def __init__(self, engine: _native.Engine, given: dict[str, Any]) -> None:
        self.engine: _native.Engine | None = engine
        # The client's options, to be pickled and changed; never shown, for the key is one of them.
        self.given: dict[str, Any] = given

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy of the options, as they are cleared once they are used.
        return (restored_service, ({**self.given}, self.engine is None))

    def open(self) -> _native.Engine:
        """The connections. Raises ConfigError once the client is closed."""
        if self.engine is None:
            from dealkit.exceptions import ConfigError

            raise ConfigError("the client is closed; make another one to make calls")
        return self.engine

    def send(self, call: _native.Call[T], options: CallOptions) -> T:
        """Makes a call and waits for its end."""
        return self._send(call, options, False)  # type: ignore[no-any-return]

    def send_raw(self, call: _native.Call[T], options: CallOptions) -> _native.RawResponse[T]:
        """The same, for the whole response."""
        return self._send(call, options, True)  # type: ignore[no-any-return]

    async def send_async(self, call: _native.Call[T], options: CallOptions) -> T:
        """Makes a call, awaited."""
        from dealkit._async import send

        return await send(self, call, native_options(options), False)  # type: ignore[no-any-return]

    async def send_raw_async(self, call: _native.Call[T], options: CallOptions) -> _native.RawResponse[T]:
        """The same, for the whole response."""
        from dealkit._async import send

        return await send(self, call, native_options(options), True)  # type: ignore[no-any-return]

    def _send(self, call: _native.Call[Any], options: CallOptions, raw: bool) -> Any:
        # No variable holds the connections: with an exception, it would outlive the client.
        self.open()
        own = native_options(options)
        with _watch.begin(lambda: self.open().describe(call)) as watched:
            outcome = self.open().send(call, own, raw, watched.native)
            if isinstance(outcome, _native.Waiting):
                outcome = _wait(outcome, watched)
            return unwrap(outcome, call.id)


@private
def open_service(given: dict[str, Any], shared: _native.Engine | None) -> Service:
    """The service of a client with these options, with the connections of another client where they can be shared."""
    if given.get("headers") is not None:
        given["headers"] = pairs("headers", given["headers"])
    engine = unwrap(_native.open_engine(client_settings(given), shared))
    # What came from the environment must be the same where the client is unpickled.
    return Service(engine, {**given, "base_url": engine.base_url, "service_key": engine.service_key})


def restored_service(given: dict[str, Any], is_closed: bool) -> Service:
    """The service of a client that is unpickled."""
    service: Service = open_service(given, None)
    if is_closed:
        service.engine = None
    return service


def native_options(options: CallOptions) -> _native.Options | None:
    """The options of a call, checked."""
    given: Any = options
    if not given:
        return None
    try:
        return unwrap(_native.call_options(call_settings(given)))
    finally:
        # A header may be a secret, and the caller's frame holds the same dict.
        given.clear()


def _wait(waiting: _native.Waiting, watched: _watch.Unwatched) -> Any:
    """Waits for a call. Python looks for signals between two steps, and their handlers may raise."""
    try:
        while True:
            outcome = waiting.wait()
            if outcome is not waiting:
                return outcome
            watched.flush()
    finally:
        # Does nothing to a call that has come to its end.
        waiting.abort()
