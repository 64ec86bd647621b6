"""A create with a key: what is sent, and what became of the key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dealkit import _native
from dealkit._bulk.creation import Creation, creation_of
from dealkit._core.arguments import check_bools, file_path
from dealkit._core.failure import unwrap

if TYPE_CHECKING:
    import asyncio

    from dealkit._calls.service import Service
    from dealkit._core.options import CallOptions


# The detached calls in flight: an event loop keeps only weak references to its tasks.
_detached: set[asyncio.Task[Any]] = set()


def keyed(
    call: _native.Call, key: object, ledger: object, keys: object, *, resend_unknown: bool, wait_in_flight: bool
) -> _native.Call:
    """The call that creates an agent, with a key."""
    check_bools(resend_unknown=resend_unknown, wait_in_flight=wait_in_flight)
    if not isinstance(key, str):
        raise TypeError(f"key must be a str, the key of this agent, not {type(key).__name__}")
    if keys is not None:
        if not isinstance(keys, str):
            raise TypeError(f"keys must be a str, what the keys are called, or None, not {type(keys).__name__}")
        keys = str.__str__(keys)
    path = file_path("ledger", ledger)
    return unwrap(_native.create_once(call, str.__str__(key), path, keys, resend_unknown, wait_in_flight))


def create_once(service: Service, call: _native.Call, options: CallOptions, raw: bool, detached: bool) -> Creation[Any]:
    """Makes such a call, and waits for its end."""
    check_bools(detached=detached)
    if detached:
        raise TypeError("detached is only for AsyncClient: a call of Client cannot continue without its caller")
    return _creation(*service.send(call, options, raw))


async def create_once_async(
    service: Service, call: _native.Call, options: CallOptions, raw: bool, detached: bool
) -> Creation[Any]:
    """The same, awaited. Cancelling a detached one does not abort it."""
    check_bools(detached=detached)
    if not detached:
        return _creation(*await service.send_async(call, options, raw))
    # Not above: asyncio takes long to import.
    from asyncio import create_task, wait

    task = create_task(service.send_async(call, options, raw, detached=True))
    _detached.add(task)
    task.add_done_callback(_forget)
    # Cancelling this does not cancel the task.
    await wait([task])
    return _creation(*task.result())


def _forget(task: asyncio.Task[Any]) -> None:
    _detached.discard(task)
    if not task.cancelled():
        # If the caller has left, asyncio would report an unretrieved exception. The call's failure has been logged.
        task.exception()


def _creation(index: int, key: str, agent: Any, record: Any) -> Creation[Any]:
    return creation_of(index, key, agent, None, record)
