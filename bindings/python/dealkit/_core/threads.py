"""Threads of the operating system, even where gevent has replaced those of the standard library by greenlets."""

from __future__ import annotations

from sys import modules
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def _gevent_monkey() -> Any:
    """Returns ``gevent.monkey`` if it has replaced threads."""
    monkey = modules.get("gevent.monkey")
    return monkey if monkey is not None and monkey.is_module_patched("threading") else None


def start_thread(work: Callable[[Any], None], argument: Any, name: str) -> None:
    """Starts a daemon thread. Raises RuntimeError once the interpreter starts no more threads."""
    if (monkey := _gevent_monkey()) is not None:
        # A greenlet would belong to the hub of this thread, and no hub runs on a background thread.
        monkey.get_original("_thread", "start_new_thread")(work, (argument,))
        return
    from threading import Thread

    Thread(target=work, args=(argument,), name=name, daemon=True).start()


def wait_cooperatively(native: Callable[..., T], *arguments: Any) -> T:
    """Calls a native function that waits. With gevent, a thread of the hub's pool does, so that other greenlets run meanwhile."""
    if _gevent_monkey() is None:
        return native(*arguments)
    gevent: Any = modules["gevent"]
    hub = gevent.get_hub()
    if gevent.getcurrent() is hub:
        return native(*arguments)  # A hub's callback cannot wait for a thread.
    result: T = hub.threadpool.apply(native, arguments)
    return result
