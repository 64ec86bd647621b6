"""Awaited calls: a future of the running event loop for each, resolved by the native half."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol
from weakref import WeakKeyDictionary, ref

from dealkit import _native, _watch
from dealkit._failure import exception, unwrap
from dealkit._native import Failure
from dealkit.exceptions import DealkitError


class Service(Protocol):
    """What has the connections, as long as its client is open."""

    def open(self) -> _native.Engine:
        """The connections."""
        ...

    def describe(self, call: _native.Call[Any]) -> Any:
        """What a call asks for."""
        ...


_mailboxes: WeakKeyDictionary[asyncio.AbstractEventLoop, _native.Mailbox] = WeakKeyDictionary()


def _deliver(box: _native.Mailbox) -> None:
    """Hands over what has come. Runs on the loop.

    A signal handler may run between any two steps, and cancel a future or raise. So what there is for a future stays
    in the mailbox until the future has it; what is left behind when this ends early is delivered once more.
    """
    first = box.first()
    while first is not None:
        future, outcome = first
        if not future.done():  # Else it was cancelled.
            _settle(future, outcome)
        first = box.next(future)


def _settle(future: asyncio.Future[Any], outcome: Any) -> None:
    try:
        if isinstance(outcome, Failure):
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


async def news(
    tell: Callable[[_native.Mailbox, Any], _native.Failure | None], flush: Callable[[], None] | None
) -> None:
    """Waits until something has happened, as ``tell`` is told to say; ``flush`` is called again and again meanwhile."""
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    unwrap(tell(mailbox(loop), future))
    flushing = None if flush is None else _watch.Flushing(loop, flush)
    try:
        await future
    finally:
        if flushing is not None:
            flushing.close()


def send(
    service: Service,
    call: _native.Call[Any],
    options: _native.Options | None,
    raw: bool,
) -> Coroutine[Any, Any, Any]:
    """Makes a call when it is awaited, which must be at once. Cancelling it aborts the request."""
    watched = _watch.begin(service.describe, call)
    if watched is None:
        return _outcome(service, call, options, raw, None)
    return _watched_outcome(service, call, options, raw, watched)


async def _watched_outcome(
    service: Service,
    call: _native.Call[Any],
    options: _native.Options | None,
    raw: bool,
    watched: _watch.Watched,
) -> Any:
    with watched:
        return await _outcome(service, call, options, raw, watched)


async def _outcome(
    service: Service,
    call: _native.Call[Any],
    options: _native.Options | None,
    raw: bool,
    watched: _watch.Watched | None,
) -> Any:
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    native = None if watched is None else watched.native
    # No variable holds the connections: with an exception, it would outlive the client.
    pending = service.open().start(call, options, raw, native, mailbox(loop), future)
    if isinstance(pending, Failure):
        raise exception(pending, call.id)
    flushing = None if watched is None else _watch.Flushing(loop, watched.flush)
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
