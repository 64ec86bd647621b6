"""Service keys from a function that the caller passes as the option ``service_key``."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from dealkit._core.threads import start_thread

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from dealkit import _native

# The value of `inspect.CO_COROUTINE`, copied because importing inspect takes long.
_CO_COROUTINE = 0x80

# Key requests for which no thread could be started, each with its provider.
_queued_requests: deque[tuple[KeyProvider, _native.KeyRequest]] = deque()


def answer_queued_requests() -> None:
    """Answers the key requests for which no thread could be started. Threads that wait for a call must call this."""
    while _queued_requests:
        try:
            provider, request = _queued_requests.popleft()
        except IndexError:
            return  # Another thread has taken the last request.
        provider._answer_request(request)


class KeyProvider:
    """Answers key requests of native code with keys from the caller's function. Each request has its own thread."""

    __slots__ = ("_loops", "function")

    def __init__(self, function: Callable[[], Any], is_async: bool) -> None:
        plain_function = getattr(function, "__func__", function)
        code = getattr(plain_function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
        if not is_async and code is not None and code.co_flags & _CO_COROUTINE:
            raise TypeError("service_key is a coroutine function, which only AsyncClient takes")
        self.function = function
        # The event loops that have used the client; None for a blocking client.
        self._loops: WeakSet[asyncio.AbstractEventLoop] | None = WeakSet() if is_async else None

    def remember_loop(self) -> None:
        """Remembers the running event loop, which can run the coroutines that the caller's function returns."""
        if self._loops is not None:
            from asyncio import get_running_loop

            try:
                self._loops.add(get_running_loop())
            except RuntimeError:
                pass  # Called outside an event loop.

    def __call__(self, request: _native.KeyRequest) -> None:
        """Starts to answer a request. Native code calls this method on a background thread, which must not block."""
        try:
            start_thread(self._answer_request, request, "dealkit-service-key")
        except RuntimeError:
            # From 3.12 on, CPython starts no threads after the main thread has ended. This concerns calls in atexit
            # handlers, and in threads that outlive the main thread. The thread that waits for such a call answers the
            # request instead.
            _queued_requests.append((self, request))
            for loop in self._running_loops():
                loop.call_soon_threadsafe(answer_queued_requests)

    def _answer_request(self, request: _native.KeyRequest) -> None:
        try:
            key = self.function()
            if hasattr(key, "__await__"):
                key = self._run_on_loop(key)
            key, expires_in = key if isinstance(key, tuple) else (key, None)
            failure = request.provide(key, expires_in)
            if failure is not None:
                request.fail("ValueError")
        except BaseException as error:
            # Reports only the exception's class, because its message may contain a key.
            request.fail(type(error).__qualname__)

    def _running_loops(self) -> list[asyncio.AbstractEventLoop]:
        return [loop for loop in [*(self._loops or ())] if loop.is_running()]

    def _run_on_loop(self, key: Any) -> Any:
        """Awaits a key on an event loop that has used the client, and waits for the result."""
        from asyncio import run_coroutine_threadsafe

        async def await_key() -> Any:
            return await key

        for loop in self._running_loops():
            return run_coroutine_threadsafe(await_key(), loop).result()
        if hasattr(key, "close"):
            key.close()  # Otherwise Python warns that the coroutine was never awaited.
        raise RuntimeError("no event loop that has used the client is running")
