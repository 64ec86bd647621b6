"""The ledger of a ``create_many`` job, between two runs: look up what it has, and note what you have found out.
Nothing is sent.

>>> from dealkit import ledger
>>> ledger.settle("agents.ndjson", {"ada@example.com": "a_1", "grace@example.com": None})
>>> ledger.move("agents.ndjson", "https://new.example.com")
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dealkit import _native
from dealkit._core.arguments import file_path
from dealkit._core.failure import unwrap
from dealkit._core.private import private

if TYPE_CHECKING:
    from collections.abc import Iterable
    from os import PathLike
    from typing import Any

    from dealkit.exceptions import Outcome

__all__ = ["Recorded", "in_folder", "look_up", "move", "settle"]


class Recorded(NamedTuple):
    """What a ledger has for a row that the next run does not send again."""

    outcome: Outcome
    """``"succeeded"``: its agent was created. ``"rejected"``: it was rejected. ``"unknown"``: nobody knows."""
    agent_id: str | None
    """The identifier of its agent, if it was created and the ledger has it."""
    status_code: int | None
    """The status of the response, if there was one and the row was rejected or its outcome is unknown."""


def look_up(path: str | PathLike[str], keys: Iterable[str], *, key: str | None = None) -> list[Recorded | None]:
    """Looks up rows in the ledger by the keys that the job gave them; the results are in the order of the keys.

    None stands for a row that the next run sends. Nothing is written, and a job may have the ledger open at the same
    time. A ledger that does not exist yet has nothing.

    >>> ledger.look_up("agents.ndjson", ["ada@example.com", "joan@example.com"], key="email")
    [Recorded(outcome='succeeded', agent_id='a_1', status_code=None), None]

    Args:
        path: The ledger.
        keys: The keys of the rows.
        key: The name of the keys, as in the job: ``"email"``.

    Raises:
        LedgerError: The file cannot be read or is not a ledger, or its keys have another name.
    """
    given = {"path": path, "keys": keys, "key": key}
    del path, keys
    return _look_up(given)


def in_folder(folder: str | PathLike[str]) -> list[Path]:
    """The ledgers in a folder, whatever they are called, by name. Subfolders are not searched.

    Two ledgers do not know of each other's rows. So before an import begins a new ledger, look its keys up in those
    that are there.

    >>> for path in ledger.in_folder("."):
    ...     print(path, ledger.look_up(path, ["ada@example.com"]))

    Args:
        folder: The folder. One that does not exist has no ledgers.

    Raises:
        OSError: The folder cannot be read.
    """
    where = Path(folder)
    if not where.exists():
        return []
    return sorted(path for path in where.iterdir() if path.is_file() and _is_ledger(path))


def _is_ledger(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_BEGINNING)) == _BEGINNING
    except OSError:
        return False


_BEGINNING = b'{"format":"dealkit-ledger",'


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
    """Notes what became of rows, each identified by the key that the job gave it.

    Use it for rows whose outcome is unknown: the next run reports a row with an agent as created, and sends a row
    without one. Use it also for rows that the service has rejected and that have been corrected since: with None, the
    next run sends such a row. Entries that the ledger already has are skipped, so noting the same thing twice does no
    harm.

    >>> ledger.settle("agents.ndjson", {"ada@example.com": "a_1", "grace@example.com": None})

    Args:
        path: The ledger. No job may have it open at the same time.
        found: For each key the agent's identifier, or None if there is no agent.

    Raises:
        LedgerError: The ledger does not have a key, or says that its agent was created; ``index`` is the position of
            that entry in ``found``, and nothing was written. Or the file cannot be read or written, is not a ledger,
            or a job has it open.
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
    """Notes that the service has another base URL from now on, for example because its host was renamed.

    From then on, jobs for that URL are accepted, and jobs for the old one are not. Only do this if it is the same
    service, with the same agents: agents that the ledger has as created are not created there.

    >>> ledger.move("agents.ndjson", "https://new.example.com")

    Args:
        path: The ledger. No job may have it open at the same time.
        base_url: The new base URL, as ``Client`` takes it.

    Raises:
        LedgerError: That is not a base URL, the file cannot be read or written or is not a ledger, or a job has it
            open.
    """
    file = file_path("path", path)
    if not isinstance(base_url, str):
        raise TypeError(f"base_url must be a str, not {type(base_url).__name__}")
    unwrap(_native.move_ledger(file, base_url))


def _text(what: str, value: Any, index: int) -> str:
    """The value as a plain str that is valid text."""
    if not isinstance(value, str):
        raise TypeError(f"the {what} at index {index} must be a str, not {type(value).__name__}")
    value = str.__str__(value)
    try:
        value.encode()
    except UnicodeEncodeError:
        pass  # Its text shows the value.
    else:
        return value  # type: ignore[no-any-return]
    raise ValueError(f"the {what} at index {index} contains an unpaired surrogate, which is not valid text")
