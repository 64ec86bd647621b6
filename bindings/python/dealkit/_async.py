"""Awaited calls: a future of the running event loop for each, resolved by the native half."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol
from weakref import WeakKeyDictionary, ref

from dealkit import _native, _watch
from dealkit._failure import exception, unwrap
from dealkit.exceptions import DealkitError


class Service(Protocol):
    """What has the connections, as long as its client is open."""

    def open(self) -> _native.Engine:
        """The connections."""
        ...


_mailboxes: WeakKeyDictionary[asyncio.AbstractEventLoop, _native.Mailbox] = WeakKeyDictionary()


def _deliver(box: _native.Mailbox) -> None:
    """Hands over what has come. Runs on the loop.

    A signal handler may run between any two steps, and cancel a future or raise. So a parcel stays in the
    mailbox until its future has it; what is left behind when this ends early is delivered once more.
    """
    while (first := box.first()) is not None:
        _settle(*first)
        if first[0].done():
            box.delivered()


def _settle(future: asyncio.Future[Any], parcel: _native.Parcel) -> None:
    if future.done():  # Cancelled.
        return
    outcome = parcel.open()
    try:
        if isinstance(outcome, _native.Failure):
            future.set_exception(exception(outcome))
        else:
            future.set_result(outcome)
    except asyncio.InvalidStateError:
        pass  # Cancelled since.


def mailbox(loop: asyncio.AbstractEventLoop) -> _native.Mailbox:
    """The mailbox of an event loop, which outcomes are put into."""
    found = _mailboxes.get(loop)
    if found is None:
        found = _mailboxes[loop] = _native.open_mailbox(ref(loop), _deliver)
    return found


async def send(
    service: Service,
    call: _native.Call[Any],
    options: _native.Options | None,
    raw: bool,
) -> Any:
    """Makes a call. Cancelling it aborts the request."""
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    # No variable holds the connections: with an exception, it would outlive the client.
    service.open()
    with _watch.begin(lambda: service.open().describe(call)) as watched:
        pending = unwrap(service.open().start(call, options, raw, watched.native, mailbox(loop), future), call.id)
        flushing = watched.flush_on(loop)
        try:
            return await future
        except DealkitError as error:
            error.id = call.id
            raise
        finally:
            # Does nothing to a call that has come to its end.
            pending.abort()
            if flushing is not None:
                flushing.close()
            # An exception holds on to this frame, and the future to the exception.
            del future
