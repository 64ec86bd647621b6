"""Awaited calls: a future of the running event loop for each, resolved by the native half."""

from __future__ import annotations

import asyncio
from typing import Any
from weakref import WeakKeyDictionary, ref

from dealkit import _native

_mailboxes: WeakKeyDictionary[asyncio.AbstractEventLoop, _native.Mailbox] = WeakKeyDictionary()


def _deliver(box: _native.Mailbox) -> None:
    """Hands over what has come. Runs on the loop."""
    for future, parcel in box.take():
        if future.done():  # Cancelled.
            continue
        value, error = parcel.open()
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)


def mailbox(loop: asyncio.AbstractEventLoop) -> _native.Mailbox:
    """The mailbox of an event loop, which outcomes are put into."""
    found = _mailboxes.get(loop)
    if found is None:
        found = _mailboxes[loop] = _native.Mailbox(ref(loop), _deliver)
    return found


async def send(
    engine: _native.Engine,
    call: _native.Call[Any],
    timeout: float | None,
    max_retries: int | None,
    raw: bool,
) -> Any:
    """Makes a call. Cancelling it aborts the request."""
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    pending = engine.start(call, timeout, max_retries, raw, mailbox(loop), future)
    try:
        return await future
    finally:
        # Does nothing to a call that has come to its end.
        pending.abort()
        # An exception holds on to this frame, and the future to the exception.
        del future
