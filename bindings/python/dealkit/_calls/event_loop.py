"""Futures of asyncio event loops, which native code resolves through a mailbox for each loop.

Native code runs no Python code, so it cannot resolve a future itself. It puts the future into the mailbox of the
future's event loop and wakes the loop. The loop then resolves all futures in its mailbox.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, ref

from dealkit import _native
from dealkit._core.errors import unwrap

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

# The interval, in seconds, at which the trace events (retries, for example) of a call in flight are reported.
_FLUSH_INTERVAL = 0.25

_mailboxes: WeakKeyDictionary[asyncio.AbstractEventLoop, _native.Mailbox] = WeakKeyDictionary()


def _deliver(mailbox: _native.Mailbox) -> None:
    """Resolves the futures in a mailbox. Runs on the mailbox's event loop.

    A signal handler may run between any two bytecodes, and may cancel a future or raise an exception. A future
    therefore stays in the mailbox until it is resolved. If this function raises, native code wakes the loop again for
    the remaining futures.
    """
    future = mailbox.first()
    while future is not None:
        try:
            if not future.done():
                future.set_result(None)
        except asyncio.InvalidStateError:
            pass  # The future was cancelled after the check of `done`.
        future = mailbox.next(future)


def mailbox(loop: asyncio.AbstractEventLoop) -> _native.Mailbox:
    """Returns the mailbox of an event loop."""
    loop_mailbox = _mailboxes.get(loop)
    if loop_mailbox is None:
        loop_mailbox = _mailboxes[loop] = _native.open_mailbox(ref(loop), _deliver)
    return loop_mailbox


def wait_for(
    notify: Callable[[_native.Mailbox, Any], _native.Failure | None], flush: Callable[[], None] | None
) -> Awaitable[None]:
    """Waits until the native object behind ``notify`` has an event, and so resolves a future. Calls ``flush``
    periodically."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()
    unwrap(notify(mailbox(loop), future))
    return future if flush is None else _wait_and_flush(future, flush)


async def _wait_and_flush(future: asyncio.Future[None], flush: Callable[[], None]) -> None:
    while not future.done():
        await asyncio.wait([future], timeout=_FLUSH_INTERVAL)
        flush()
