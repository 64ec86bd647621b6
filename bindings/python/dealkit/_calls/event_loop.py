"""Futures of asyncio event loops, which native code resolves through a mailbox for each loop.

Native code cannot resolve a future itself, because it runs no Python code. It puts the future into the loop's mailbox and wakes
the loop, which resolves all futures in the mailbox.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, ref

from dealkit import _native
from dealkit._core.errors import unwrap

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

# Interval in seconds at which trace events of a call in flight are reported.
_FLUSH_INTERVAL = 0.25

_mailboxes: WeakKeyDictionary[asyncio.AbstractEventLoop, _native.Mailbox] = WeakKeyDictionary()


def _deliver(mailbox: _native.Mailbox) -> None:
    """Resolves the futures in a mailbox. Runs on the mailbox's event loop.

    A signal handler may run between any two bytecodes, and cancel a future or raise. So a future stays in the mailbox until it
    is resolved. If this function raises, native code wakes the loop again for the rest.
    """
    future = mailbox.first()
    while future is not None:
        try:
            if not future.done():
                future.set_result(None)
        except asyncio.InvalidStateError:
            pass  # Cancelled since `done`.
        future = mailbox.next(future)


def mailbox(loop: asyncio.AbstractEventLoop) -> _native.Mailbox:
    """Returns the mailbox of an event loop."""
    found = _mailboxes.get(loop)
    if found is None:
        found = _mailboxes[loop] = _native.open_mailbox(ref(loop), _deliver)
    return found


def wait_for(
    notify: Callable[[_native.Mailbox, Any], _native.Failure | None], flush: Callable[[], None] | None
) -> Awaitable[None]:
    """Waits for an event: the native method ``notify`` then resolves a future. Calls ``flush`` periodically meanwhile."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()
    unwrap(notify(mailbox(loop), future))
    return future if flush is None else _wait_and_flush(future, flush)


async def _wait_and_flush(future: asyncio.Future[None], flush: Callable[[], None]) -> None:
    while not future.done():
        await asyncio.wait([future], timeout=_FLUSH_INTERVAL)
        flush()
