"""A callable that provides the service key."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from dealkit._core.threads import start_thread

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from dealkit import _native

# The same value as in inspect, which takes long to import.
_CO_COROUTINE = 0x80


# The providers that no thread can be started for, and what takes their answers.
_unasked: deque[tuple[KeyProvider, _native.KeyAnswer]] = deque()


def ask_here() -> None:
    """Asks the providers for which no thread can be started. For threads that wait for a call anyway."""
    while _unasked:
        try:
            provider, answer = _unasked.popleft()
        except IndexError:
            return  # Another thread was faster.
        provider._ask(answer)


class KeyProvider:
    """Calls the callable in a thread of its own, however long it takes, and awaits its answer on an event loop if need be."""

    __slots__ = ("_loops", "given")

    def __init__(self, given: Callable[[], Any], awaits: bool) -> None:
        call = getattr(given, "__func__", given)
        code = getattr(call, "__code__", None) or getattr(type(given).__call__, "__code__", None)
        if not awaits and code is not None and code.co_flags & _CO_COROUTINE:
            raise TypeError("service_key is a coroutine function, which only AsyncClient takes")
        self.given = given
        # The event loops that have used the client.
        self._loops: WeakSet[asyncio.AbstractEventLoop] | None = WeakSet() if awaits else None

    def note_loop(self) -> None:
        """Notes the running event loop."""
        if self._loops is not None:
            from asyncio import get_running_loop

            try:
                self._loops.add(get_running_loop())
            except RuntimeError:
                pass  # Nothing is awaited here.

    def __call__(self, answer: _native.KeyAnswer) -> None:
        """Begins to ask. Called on a background thread, which must not wait."""
        try:
            start_thread(self._ask, answer, "dealkit-service-key")
        except RuntimeError:
            # From 3.12 on, CPython starts no thread once the main thread has ended: in atexit handlers, and in threads that
            # outlive the main thread. A thread that waits for a call asks instead.
            _unasked.append((self, answer))
            for loop in self._running_loops():
                loop.call_soon_threadsafe(ask_here)

    def _ask(self, answer: _native.KeyAnswer) -> None:
        try:
            key = self.given()
            if hasattr(key, "__await__"):
                key = self._awaited(key)
            key, expires_in = key if isinstance(key, tuple) else (key, None)
            failure = answer.give(key, expires_in)
            if failure is not None:
                answer.fail("ValueError")
        except BaseException as error:
            # Its text may contain a key.
            answer.fail(type(error).__qualname__)

    def _running_loops(self) -> list[asyncio.AbstractEventLoop]:
        return [loop for loop in [*(self._loops or ())] if loop.is_running()]

    def _awaited(self, key: Any) -> Any:
        from asyncio import run_coroutine_threadsafe

        async def wait() -> Any:
            return await key

        for loop in self._running_loops():
            return run_coroutine_threadsafe(wait(), loop).result()
        if hasattr(key, "close"):
            key.close()  # Otherwise Python complains that it was never awaited.
        raise RuntimeError("no event loop that has used the client is running")
