"""Awaited calls: each has a future of the running event loop, which the native half has resolved once the call has ended."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, ref

from dealkit import _native
from dealkit._core.failure import unwrap

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

# How often the log of an awaited call is flushed while it is in flight, in seconds.
_INTERVAL = 0.25

_mailboxes: WeakKeyDictionary[asyncio.AbstractEventLoop, _native.Mailbox] = WeakKeyDictionary()


def _deliver(box: _native.Mailbox) -> None:
    """Resolves the futures that have come. Runs on the loop.

    A signal handler may run between any two steps, and cancel a future or raise. So a future stays in the mailbox until it
    is resolved; if this ends early, those left behind are resolved later.
    """
    future = box.first()
    while future is not None:
        try:
            if not future.done():
                future.set_result(None)
        except asyncio.InvalidStateError:
            pass  # It has been cancelled since.
        future = box.next(future)


def mailbox(loop: asyncio.AbstractEventLoop) -> _native.Mailbox:
    """The mailbox of an event loop, into which futures are put to be resolved."""
    found = _mailboxes.get(loop)
    if found is None:
        found = _mailboxes[loop] = _native.open_mailbox(ref(loop), _deliver)
    return found


def news(
    tell: Callable[[_native.Mailbox, Any], _native.Failure | None], flush: Callable[[], None] | None
) -> Awaitable[None]:
    """Waits for the news that ``tell`` is asked to report; meanwhile, ``flush`` is called again and again."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()
    unwrap(tell(mailbox(loop), future))
    return future if flush is None else _flushed(future, flush)


async def _flushed(future: asyncio.Future[None], flush: Callable[[], None]) -> None:
    while not future.done():
        await asyncio.wait([future], timeout=_INTERVAL)
        flush()
