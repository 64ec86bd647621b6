"""Operating-system threads, also in programs where gevent has replaced the standard library's threads by greenlets."""

from __future__ import annotations

from sys import modules
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def _active_gevent_monkey() -> Any:
    """Returns the module ``gevent.monkey`` if it has replaced threads."""
    monkey = modules.get("gevent.monkey")
    return monkey if monkey is not None and monkey.is_module_patched("threading") else None


def start_thread(thread_function: Callable[[Any], None], argument: Any, name: str) -> None:
    """Starts a daemon thread. Raises RuntimeError if the interpreter starts no more threads."""
    if (monkey := _active_gevent_monkey()) is not None:
        # Starts a real thread, because a greenlet would not run: it needs a gevent hub in its thread, and background
        # threads have none.
        monkey.get_original("_thread", "start_new_thread")(thread_function, (argument,))
        return
    from threading import Thread

    Thread(target=thread_function, args=(argument,), name=name, daemon=True).start()


def wait_cooperatively(blocking_function: Callable[..., T], *arguments: Any, **options: Any) -> T:
    """Calls a native function that blocks. With gevent, a thread of the hub's pool calls the function, so that
    greenlets run."""
    if _active_gevent_monkey() is None:
        return blocking_function(*arguments, **options)
    gevent: Any = modules["gevent"]
    hub = gevent.get_hub()
    if gevent.getcurrent() is hub:
        return blocking_function(*arguments, **options)  # The hub itself must not wait for a thread of its pool.
    result: T = hub.threadpool.apply(blocking_function, arguments, options)
    return result
