"""Awaited calls: each has a future of the running event loop, which the native half resolves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol
from weakref import WeakKeyDictionary, ref

from dealkit import _native
from dealkit._core.failure import exception, unwrap
from dealkit._native import Failure
from dealkit._observe import watch
from dealkit.exceptions import DealkitError


class Service(Protocol):
    """Holds the connections for as long as its client is open."""

    def open(self) -> _native.Engine:
        """The connections."""
        ...

    def describe(self, call: _native.Call[Any]) -> Any:
        """What a call asks for."""
        ...


_mailboxes: WeakKeyDictionary[asyncio.AbstractEventLoop, _native.Mailbox] = WeakKeyDictionary()


def _deliver(box: _native.Mailbox) -> None:
    """Hands over the outcomes that have come. Runs on the loop.

    A signal handler may run between any two steps, and cancel a future or raise. So an outcome stays in the mailbox
    until its future has it; if this ends early, the outcomes left behind are delivered later.
    """
    first = box.first()
    while first is not None:
        future, outcome = first
        if not future.done():  # Otherwise it was cancelled.
            _settle(future, outcome)
        first = box.next(future)


def _settle(future: asyncio.Future[Any], outcome: Any) -> None:
    try:
        if isinstance(outcome, Failure):
            future.set_exception(exception(outcome))
        else:
            future.set_result(outcome)
    except asyncio.InvalidStateError:
        pass  # It has been cancelled since.


def mailbox(loop: asyncio.AbstractEventLoop) -> _native.Mailbox:
    """The mailbox of an event loop, into which outcomes are put."""
    found = _mailboxes.get(loop)
    if found is None:
        found = _mailboxes[loop] = _native.open_mailbox(ref(loop), _deliver)
    return found


async def news(
    tell: Callable[[_native.Mailbox, Any], _native.Failure | None], flush: Callable[[], None] | None
) -> None:
    """Waits for the news that ``tell`` is asked to report; meanwhile, ``flush`` is called again and again."""
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    unwrap(tell(mailbox(loop), future))
    flushing = None if flush is None else watch.Flushing(loop, flush)
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
    """Makes a call when it is awaited, which must happen at once. Cancelling it aborts the request."""
    watched = watch.begin(service.describe, call)
    if watched is None:
        return _outcome(service, call, options, raw, None)
    return _watched_outcome(service, call, options, raw, watched)


async def _watched_outcome(
    service: Service,
    call: _native.Call[Any],
    options: _native.Options | None,
    raw: bool,
    watched: watch.Watched,
) -> Any:
    with watched:
        return await _outcome(service, call, options, raw, watched)


async def _outcome(
    service: Service,
    call: _native.Call[Any],
    options: _native.Options | None,
    raw: bool,
    watched: watch.Watched | None,
) -> Any:
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    native = None if watched is None else watched.native
    # No variable may hold the connections: an exception would keep it alive longer than the client.
    pending = service.open().start(call, options, raw, native, mailbox(loop), future)
    if isinstance(pending, Failure):
        raise exception(pending, call.id)
    flushing = None if watched is None else watch.Flushing(loop, watched.flush)
    try:
        return await future
    except DealkitError as error:
        error.id = call.id
        raise
    finally:
        # Does nothing if the call has ended.
        pending.abort()
        if flushing is not None:
            flushing.close()
        # An exception holds a reference to this frame, and the future holds one to the exception.
        del future
