"""The session of a client: its options and its connections."""

from __future__ import annotations

from os import environ
from typing import TYPE_CHECKING, Any

from dealkit import _native
from dealkit._calls.key_provider import KeyProvider, answer_queued_requests
from dealkit._core.errors import sealed, unwrap
from dealkit._core.options import CallOptions, call_settings, client_settings, pairs
from dealkit._core.threads import wait_cooperatively
from dealkit._observe.log import write_log_to_stderr
from dealkit._observe.observer import observe_call

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class Session:
    """The session of a client, which sends its calls. ``client.agents`` and ``client.deals`` refer to the session."""

    __slots__ = ("client", "family", "is_async", "key_source", "options")

    def __init__(
        self,
        *,
        client: _native.NativeClient,
        options: dict[str, Any],
        key_source: tuple[KeyProvider, _native.KeySource] | None,
        is_async: bool,
        family: object,
    ) -> None:
        self.client: _native.NativeClient | None = client
        """The native client, or None once the session is closed."""
        self.options: dict[str, Any] = options
        """The client's options, for pickling and ``with_options``. No repr shows them, because they include the service
        key."""
        self.key_source: tuple[KeyProvider, _native.KeySource] | None = key_source
        """The provider that calls the caller's key function, and its native counterpart; None if the key is not a
        function."""
        self.is_async: bool = is_async
        """True for the session of an ``AsyncClient``."""
        self.family: object = family
        """The same object for the sessions of a client and of the clients that its ``with_options`` returns."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (restore_session, (self.options, self.client is None, self.is_async))

    def require_client(self) -> _native.NativeClient:
        """Returns the native client. Raises ConfigError if the session is closed."""
        if self.client is None:
            from dealkit.exceptions import ConfigError

            raise ConfigError("the client is closed; create another one to make calls")
        if self.key_source is not None:
            self.key_source[0].remember_loop()
        return self.client

    def send(
        self,
        call: _native.Call | _native.CreateOnce,
        options: CallOptions,
        *,
        raw: bool = False,
        id: str | None = None,
        answer_request: Callable[[_native.ResolveRequest], None] | None = None,
    ) -> Any:
        """Sends a call and waits for its end. Returns the value in the response or, with ``raw``, the whole response.

        ``id`` is the requested identifier. If the call fails, it becomes the ``id`` of the exception.
        ``answer_request`` answers the requests of a create with a function ``resolve``.
        """
        call_options = native_options(options)
        with observe_call(lambda: self.describe(call)) as observer:
            send = self.require_client().send
            result = wait_cooperatively(send, call, options=call_options, raw=raw, trace=observer.trace)
            if isinstance(result, _native.BlockingCall):
                result = _wait(result, observer.flush, answer_request)
            return unwrap(result, id)

    async def send_async(
        self,
        call: _native.Call | _native.CreateOnce,
        options: CallOptions,
        *,
        raw: bool = False,
        id: str | None = None,
        detached: bool = False,
        answer_request: Callable[[_native.ResolveRequest], Awaitable[None]] | None = None,
    ) -> Any:
        """Like ``send``, for asyncio. Cancelling the coroutine aborts the request, unless the call is detached."""
        # Imported here, because asyncio takes long to import.
        from dealkit._calls.event_loop import wait_for

        call_options = native_options(options)
        with observe_call(lambda: self.describe(call)) as observer:
            client = self.require_client()
            background_call = unwrap(client.start(call, options=call_options, raw=raw, trace=observer.trace), id)
            try:
                await wait_for(background_call.notify, observer.flush)
                while answer_request is not None and (request := background_call.take_request()) is not None:
                    await answer_request(request)
                    await wait_for(background_call.notify, observer.flush)
            finally:
                # Has no effect on a call that has ended. A detached call continues even if its event loop ends, but then
                # nothing answers its requests.
                if detached:
                    background_call.fail_requests()
                else:
                    background_call.abort()
            return unwrap(background_call.take(), id)

    def describe(self, call: _native.Call | _native.CreateOnce) -> Any:
        """Describes a call as a dict of OpenTelemetry attributes: method, URL template, host and port."""
        return self.require_client().describe(call)


def open_session(options: dict[str, Any], shared: Session | None, is_async: bool) -> Session:
    """Opens a session with a client's options. The session shares the connections of ``shared`` if the options permit
    it."""
    write_log_to_stderr()
    if options.get("headers") is not None:
        options["headers"] = pairs("headers", options["headers"])
    options = _complete_from_environment(options)
    settings, key_source = client_settings(options), None
    if callable(options.get("service_key")):
        key_source = _open_key_source(options["service_key"], shared, is_async)
        settings["service_key"] = key_source[1]
    client = unwrap(_native.open_client(settings, shared=None if shared is None else shared.require_client()))
    family = object() if shared is None else shared.family
    return Session(client=client, options=options, key_source=key_source, is_async=is_async, family=family)


def _complete_from_environment(options: dict[str, Any]) -> dict[str, Any]:
    """Adds the URL and the key from the environment to the options, so that a pickled client works on another machine.

    An empty variable counts as unset.
    """
    completed_options = {name: value for name, value in options.items() if value is not None}
    for names in (("base_url",), ("service_key", "service_key_file")):
        variables = {name: f"DEALKIT_{name.upper()}" for name in names}
        if not completed_options.keys() & names:
            completed_options |= {
                name: environ[variable] for name, variable in variables.items() if environ.get(variable)
            }
        if len(completed_options.keys() & names) != 1:
            from dealkit.exceptions import ConfigError

            if names[0] in completed_options:
                raise ConfigError(
                    f"{' and '.join(names)} are both set, or both in the environment: set only one of them",
                    setting=names[0],
                )
            raise ConfigError(
                f"{names[0]} is missing: pass it, or set the environment variable {' or '.join(variables.values())}",
                setting=names[0],
            )
    return completed_options


def _open_key_source(function: Any, shared: Session | None, is_async: bool) -> tuple[KeyProvider, _native.KeySource]:
    """Opens a key source. If ``shared`` has the same key function, returns its key source, so that both use the same
    key."""
    if shared is not None and shared.key_source is not None and shared.key_source[0].function == function:
        return shared.key_source
    provider = KeyProvider(function, is_async)
    return provider, unwrap(_native.key_source(provider))


@sealed
def restore_session(options: dict[str, Any], is_closed: bool, is_async: bool) -> Session:
    """Makes the session of an unpickled client."""
    session: Session = open_session(options, None, is_async)
    if is_closed:
        session.client = None
    return session


def native_options(options: CallOptions) -> _native.Options | None:
    """Checks the options of a call, and converts them for native code."""
    return unwrap(_native.call_options(call_settings(options))) if options else None


def _wait(
    call: _native.BlockingCall,
    flush: Callable[[], None] | None,
    answer_request: Callable[[_native.ResolveRequest], None] | None,
) -> Any:
    """Waits for a call in short steps. Between the steps, Python runs signal handlers, which may raise, and
    ``answer_request`` answers the requests of the call."""
    try:
        while True:
            answer_queued_requests()
            if answer_request is not None and (request := call.take_request()) is not None:
                answer_request(request)
            result = wait_cooperatively(call.wait)
            if result is not call:
                return result
            if flush is not None:
                flush()
    finally:
        # Has no effect on a call that has ended.
        call.abort()
