"""A create with a key: what is sent, and what became of the key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dealkit import _native
from dealkit._bulk.creation import Creation, creation_of
from dealkit._core.arguments import check_bools, file_path
from dealkit._core.failure import unwrap
from dealkit._core.options import CallOptions
from dealkit._models.agent_request import create_agent

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from dealkit._calls.service import Service


def create_once(service: Service, given: dict[str, Any], raw: bool) -> Creation[Any]:
    """Makes the call with these arguments, and waits for its end."""
    call, options = _keyed(given)
    return _creation(service.send(call, options, raw))


def create_once_async(service: Service, given: dict[str, Any], raw: bool) -> Coroutine[Any, Any, Creation[Any]]:
    """The same, awaited."""
    call, options = _keyed(given)
    return _awaited(service.send_async(call, options, raw))


async def _awaited(call: Coroutine[Any, Any, Any]) -> Creation[Any]:
    return _creation(await call)


def _keyed(given: dict[str, Any]) -> tuple[_native.Call, CallOptions]:
    """The call, and its options."""
    options: Any = {name: given.pop(name) for name in CallOptions.__annotations__ if name in given}
    key, keys, ledger = given.pop("key"), given.pop("keys"), given.pop("ledger")
    flags = {name: given.pop(name) for name in ("resend_unknown", "wait_in_flight")}
    check_bools(**flags)
    if not isinstance(key, str):
        raise TypeError(f"key must be a str, the key of this agent, not {type(key).__name__}")
    if keys is not None and not isinstance(keys, str):
        raise TypeError(f"keys must be a str, what the keys are called, or None, not {type(keys).__name__}")
    path = file_path("ledger", ledger)
    keys = None if keys is None else str.__str__(keys)
    call = create_agent(given, given.pop("validate"))
    return unwrap(_native.create_once(call, str.__str__(key), path, keys, *flags.values())), options


def _creation(parts: Any) -> Creation[Any]:
    index, key, agent, record = parts
    return creation_of(index, key, agent, None, record)
