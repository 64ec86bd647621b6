"""The ledger of a job of ``create_many``, between two runs: looks up what it has, and notes what you have found out.
Nothing is sent.

>>> from dealkit import ledger
>>> ledger.settle("agents.ndjson", {"ada@example.com": "a_1", "grace@example.com": None})
>>> ledger.move("agents.ndjson", "https://new.example.com")
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from dealkit import _native
from dealkit._arguments import file_path
from dealkit._failure import unwrap
from dealkit._private import private

if TYPE_CHECKING:
    from collections.abc import Iterable
    from os import PathLike
    from typing import Any

    from dealkit.exceptions import Outcome

__all__ = ["Recorded", "look_up", "move", "settle"]


class Recorded(NamedTuple):
    """What a ledger has of a row that the next run does not send again."""

    outcome: Outcome
    """``"succeeded"``: its agent was created. ``"rejected"``: the service has rejected it. ``"unknown"``: nobody knows."""
    agent_id: str | None
    """The identifier of its agent, where it was created and the ledger has it."""
    status_code: int | None
    """The status of the response, where the row was rejected, or nobody knows, and there was one."""


def look_up(path: str | PathLike[str], keys: Iterable[str], *, key: str | None = None) -> list[Recorded | None]:
    """What the ledger has of rows, named by the keys that the job gave them, in their order.

    None stands for a row that the next run sends. Nothing is written, and a job may have the ledger open meanwhile. A
    ledger that is not there yet has nothing.

    >>> ledger.look_up("agents.ndjson", ["ada@example.com", "joan@example.com"], key="email")
    [Recorded(outcome='succeeded', agent_id='a_1', status_code=None), None]

    Args:
        path: The ledger.
        keys: The keys of the rows.
        key: What the keys are called, as the job says it: ``"email"``.

    Raises:
        LedgerError: The file cannot be read or is no ledger, or its keys are called otherwise.
    """
    given = {"path": path, "keys": keys, "key": key}
    del path, keys
    return _look_up(given)


@private
def _look_up(given: dict[str, Any]) -> list[Recorded | None]:
    path, name = file_path("path", given["path"]), given["key"]
    if name is not None and not isinstance(name, str):
        raise TypeError(f"key must be the name of a field, not {type(name).__name__}")
    if isinstance(given["keys"], str):
        raise TypeError("keys must be an iterable of str, not one str")
    keys = [_text("key", key, index) for index, key in enumerate(given["keys"])]
    found = unwrap(_native.look_up_in_ledger(path, name, keys))
    return [None if recorded is None else Recorded(*recorded) for recorded in found]


def settle(path: str | PathLike[str], found: Mapping[str, str | None]) -> None:
    """Notes what has become of rows, each named by the key that the job gave it.

    It is for rows whose outcome is unknown: the next run says of a row with an agent that it was created, and sends one
    without. It is also for rows that the service has rejected and that were mended since: None has the next run send
    such a row. What the ledger says already is passed over, so the same can be noted twice.

    >>> ledger.settle("agents.ndjson", {"ada@example.com": "a_1", "grace@example.com": None})

    Args:
        path: The ledger. No job may have it open meanwhile.
        found: For each key the agent's identifier, or None where there is no agent.

    Raises:
        LedgerError: The ledger does not have a key, or has that its agent was created; ``index`` is the place of that
            entry in ``found``, and nothing was written. Or the file cannot be read or written, is no ledger, or a job
            has it open.
    """
    given = {"path": path, "found": found}
    del path, found
    _settle(given)


@private
def _settle(given: dict[str, Any]) -> None:
    path, found = file_path("path", given["path"]), given["found"]
    if not isinstance(found, Mapping):
        raise TypeError(f"found must be a mapping of keys to agents' identifiers, not {type(found).__name__}")
    pairs = [
        (_text("key", key, index), None if agent_id is None else _text("agent's identifier", agent_id, index))
        for index, (key, agent_id) in enumerate(found.items())
    ]
    unwrap(_native.settle_ledger(path, pairs))


def move(path: str | PathLike[str], base_url: str) -> None:
    """Notes that the service has another base URL from now on, because its host was renamed, say.

    Jobs for that URL are accepted then, and jobs for the old one are not. Only do this if it is the same service, with
    the same agents: what the ledger has as created is not created there.

    >>> ledger.move("agents.ndjson", "https://new.example.com")

    Args:
        path: The ledger. No job may have it open meanwhile.
        base_url: The new base URL, as ``Client`` takes it.

    Raises:
        LedgerError: That is no base URL, the file cannot be read or written or is no ledger, or a job has it open.
    """
    file = file_path("path", path)
    if not isinstance(base_url, str):
        raise TypeError(f"base_url must be a str, not {type(base_url).__name__}")
    unwrap(_native.move_ledger(file, base_url))


def _text(what: str, value: Any, index: int) -> str:
    """A str of no other class, which is text."""
    if not isinstance(value, str):
        raise TypeError(f"the {what} of index {index} must be a str, not {type(value).__name__}")
    value = str.__str__(value)
    try:
        value.encode()
    except UnicodeEncodeError:
        pass  # Its text shows the value.
    else:
        return value  # type: ignore[no-any-return]
    raise ValueError(f"the {what} of index {index} holds half of a surrogate pair, which is no text")
