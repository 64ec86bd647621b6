"""The ledgers of ``create_many`` jobs, between two runs: look up what they have, and record what you have found out.
Nothing is sent.

A ledger is named by the path of its file, or by the URL of its PostgreSQL database (``"postgresql://…"``), a ``str``.

>>> from dealkit import ledger
>>> ledger.summary("agents.ledger").unresolved
[LedgerRow(outcome='unknown', status_code=503, sent_at=datetime.datetime(2026, 11, 22, 9, 30, tzinfo=datetime.timezone.utc), request_id='r-1')]
>>> ledger.resolve("agents.ledger", {"ada@example.com": "a_1", "grace@example.com": None})
2
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dealkit import _native
from dealkit._bulk.keys import KeyOf
from dealkit._bulk.resolve import UnresolvedRow
from dealkit._core.arguments import check_bools, file_path
from dealkit._core.failure import unwrap
from dealkit._core.private import sealed
from dealkit._models.agent_request import make_create_call

if TYPE_CHECKING:
    from collections.abc import Iterable
    from os import PathLike
    from typing import Any

    from dealkit.exceptions import Outcome

__all__ = [
    "KeyOf",
    "LedgerRow",
    "UnresolvedRow",
    "LedgerSummary",
    "backup",
    "display_name",
    "in_folder",
    "init",
    "look_up",
    "look_up_emails",
    "set_base_url",
    "normalize_key",
    "path",
    "resolve",
    "summary",
]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class LedgerRow(NamedTuple):
    """A row of a ledger that the next run does not send again."""

    outcome: Outcome
    """``"succeeded"``: its agent was created. ``"rejected"``: the service rejected it. ``"unknown"``: its agent may exist."""
    agent_id: str | None
    """The identifier of its agent, if it was created and the ledger has it."""
    status_code: int | None
    """The status of the response, if there was one and the row was rejected or its outcome is unknown."""
    in_flight: bool = False
    """Whether a job is sending the row right now: its outcome is unknown, but that job will know it."""
    request_differs: bool = False
    """Whether the request that was sent differs from the one given to ``look_up``."""
    title: str | None = None
    """The title of the error response, if the row was rejected and it had one."""
    code: str | None = None
    """The codes of the violations in the error response, separated by spaces, if the row was rejected and it had any."""
    label: str | None = None
    """The label of the row, if it has one. Rust programs set it."""
    sent_at: datetime | None = None
    """When the row was sent, by the clock of the machine that sent it."""
    request_id: str | None = None
    """The service's id for the request, if it gave one: the service's staff can look it up."""


class LedgerSummary(NamedTuple):
    """A ledger's contents, as numbers of rows."""

    service: str
    """The base URL of the service."""
    key_name: str | None
    """The name of the rows' keys, such as ``"email"``, if a job has set it."""
    succeeded: int
    """Rows whose agent was created."""
    rejected: int
    """Rows that the service rejected."""
    resolved_with_agent: int
    """Rows for which somebody has found an agent."""
    resolved_without_agent: int
    """Rows for which somebody has found that there is no agent: the next run sends them."""
    in_flight: int
    """Rows that a job is sending now."""
    unresolved: list[LedgerRow]
    """Rows whose agent may or may not exist, in the order in which they were sent."""


def path(ledger: str | PathLike[str]) -> Path | None:
    """The file of a ledger, or None if it is in a database.

    >>> ledger.path("postgresql://deals@db.example.com/deals")

    Args:
        ledger: The ledger, as for all functions.
    """
    name = file_path("ledger", ledger)
    return None if unwrap(_native.ledger_path(name)) is None else Path(name)


def display_name(ledger: str | PathLike[str]) -> str:
    """The name of a ledger as texts show it: the path of its file, or the URL of its database without the user and the password.

    >>> ledger.display_name("postgresql://deals:sesame@db.example.com/deals")
    'postgresql://db.example.com:5432/deals'

    Args:
        ledger: The ledger, as for all functions.
    """
    return str(unwrap(_native.ledger_display_name(file_path("ledger", ledger))))


def in_folder(folder: str | PathLike[str]) -> list[Path]:
    """The ledgers in a folder, whatever their names, sorted by name. Subfolders are not searched, and a missing folder
    has none.

    Two ledgers know nothing of each other's rows. So before an import starts a new ledger, look up its keys in the
    existing ones.

    >>> for path in ledger.in_folder("."):
    ...     print(path, ledger.look_up(path, ["ada@example.com"]))

    Args:
        folder: The folder.

    Raises:
        LedgerError: The folder cannot be read.
    """
    return [Path(path) for path in unwrap(_native.ledgers_in_folder(file_path("folder", folder)))]


@sealed
def summary(path: str | PathLike[str]) -> LedgerSummary:
    """Counts a ledger's rows, and lists the unresolved ones.

    Args:
        path: The ledger. A job may have it open.

    Raises:
        LedgerError: The ledger cannot be read, is not one, or is damaged.
    """
    of_service, keys, numbers, unresolved = unwrap(_native.summarize_ledger(file_path("path", path)))
    rows = [_row(row) for row in unresolved]
    succeeded, rejected, with_agent, without_agent, in_flight = numbers
    return LedgerSummary(of_service, keys, succeeded, rejected, with_agent, without_agent, in_flight, rows)


@sealed
def look_up(
    path: str | PathLike[str],
    keys: Iterable[str],
    *,
    key_name: str | None = None,
    service: str | None = None,
    requests: Iterable[Mapping[str, Any]] | None = None,
    wait: bool = True,
) -> list[LedgerRow | None]:
    """Looks up rows in the ledger by the keys that the job gave them, in that order.

    None stands for a row that the next run sends. Nothing is written, and jobs may have the ledger open. A ledger that
    does not exist yet is empty.

    >>> ledger.look_up("agents.ledger", ["ada@example.com", "joan@example.com"], key_name="email")
    [LedgerRow(outcome='succeeded', agent_id='a_1', status_code=None, in_flight=False), None]

    Args:
        path: The ledger.
        keys: The keys of the rows.
        key_name: The name of the keys, as in the job: ``"email"``.
        service: The base URL of the service, to make sure that it is the ledger's.
        requests: The rows as ``create_many`` takes them, one for each key: ``request_differs`` then says which have changed
            since they were sent.
        wait: Whether to wait for half a minute if another program keeps the file locked, or only for a second.

    Raises:
        LedgerError: The file cannot be read or is not a ledger, or it is for another service or keys with another name.
    """
    for what, kind, given in (("service", "a base URL", service), ("key_name", "the name of a field", key_name)):
        if given is not None and not isinstance(given, str):
            raise TypeError(f"{what} must be {kind}, not {type(given).__name__}")
    check_bools(wait=wait)
    names = _keys(keys)
    calls = None if requests is None else [make_create_call({**row}, False) for row in requests]
    if calls is not None and len(calls) != len(names):
        raise ValueError(
            f"requests must have one item for each key: there are {len(names)} keys and {len(calls)} requests"
        )
    found = unwrap(_native.look_up_in_ledger(file_path("path", path), key_name, service, names, calls, wait))
    return [None if row is None else _row(row) for row in found]


@sealed
def look_up_emails(path: str | PathLike[str], emails: Iterable[str], *, wait: bool = True) -> list[LedgerRow | None]:
    """Looks up rows in the ledger by the e-mail addresses of their agents, in that order: to find rows whose keys have
    changed.

    None stands for an address with which nothing was sent. Addresses are compared without regard to case. Nothing is
    written.

    >>> ledger.look_up_emails("agents.ledger", ["Ada@example.com"])
    [LedgerRow(outcome='succeeded', agent_id='a_1', status_code=None, in_flight=False)]

    Args:
        path: The ledger.
        emails: The addresses.
        wait: Whether to wait for half a minute if another program keeps the file locked, or only for a second.

    Raises:
        LedgerError: The file cannot be read or is not a ledger.
    """
    check_bools(wait=wait)
    found = unwrap(_native.look_up_emails_in_ledger(file_path("path", path), _keys(emails), wait))
    return [None if row is None else _row(row) for row in found]


def normalize_key(key: str, *, name: str | None = None) -> str:
    """Returns the form in which ledgers compare a key: two rows whose keys have the same form are the same row.

    That is Unicode's normal form C, without invisible format characters (category Cf), and in lower case if the keys are
    named ``email``.

    >>> ledger.normalize_key("Ada@Example.com", name="email")
    'ada@example.com'

    Args:
        key: The key of a row.
        name: The name of the keys, as in the job.
    """
    return str(unwrap(_native.normalize_key(name, _text("key", key, 0))))


@sealed
def backup(path: str | PathLike[str], to: str | PathLike[str]) -> None:
    """Copies a ledger to a new file, as it is at one moment. Jobs may have it open.

    The copy is a ledger, too. Keep it away from jobs: it does not know the rows that were sent after it was made. In the process
    of a job, use this function and not ``sqlite3``, which can undo what the job writes.

    >>> ledger.backup("agents.ledger", "agents.backup")

    Args:
        path: The ledger. For one in a database, use the database's own tools, such as ``pg_dump``.
        to: The file to write, which must not exist.

    Raises:
        LedgerError: The ledger cannot be read, is damaged or is in a database, or the file exists or cannot be written.
    """
    unwrap(_native.back_up_ledger(file_path("path", path), file_path("to", to)))


@sealed
def resolve(path: str | PathLike[str], found: Mapping[str, str | None], *, dry_run: bool = False) -> int:
    """Records what became of rows, each identified by its key in the job, and returns how many rows changed.

    Use it for rows whose outcome is unknown: the next run reports rows with an agent as created, and sends rows without
    one. Use it also, with None, for rejected rows that you have corrected since, so that the next run sends them.
    Entries that the ledger already has are skipped; a row can be resolved again.

    >>> ledger.resolve("agents.ledger", {"ada@example.com": "a_1", "grace@example.com": None})
    2

    Args:
        path: The ledger.
        found: For each key the agent's identifier, or None if there is no agent.
        dry_run: Only check the entries, and record nothing.

    Raises:
        LedgerError: The ledger does not have a key, the service itself confirmed that it created the agent, or a job is
            sending the row; an identifier is given twice, or another row has it; or an identifier is empty or a
            placeholder such as ``n/a``. ``index`` is the position of that entry in ``found``, and nothing was recorded.
            Or the file cannot be read or written, or is not a ledger.
    """
    name = file_path("path", path)
    if not isinstance(found, Mapping):
        raise TypeError(f"found must be a mapping of keys to agents' identifiers, not {type(found).__name__}")
    check_bools(dry_run=dry_run)
    pairs = [
        (_text("key", key, index), None if agent_id is None else _text("agent's identifier", agent_id, index))
        for index, (key, agent_id) in enumerate(found.items())
    ]
    return int(unwrap(_native.resolve_ledger(name, pairs, dry_run)))


@sealed
def set_base_url(path: str | PathLike[str], base_url: str) -> None:
    """Records that the service has a new base URL from now on, for example because its host was renamed.

    From then on, jobs for that URL are accepted, and jobs for the old one are not. Only do this if it is the same
    service, with the same agents: agents that the ledger knows as created will not be created there.

    >>> ledger.set_base_url("agents.ledger", "https://new.example.com")

    Args:
        path: The ledger.
        base_url: The new base URL, as ``Client`` takes it.

    Raises:
        LedgerError: This is not a base URL, or the file cannot be read or written or is not a ledger.
    """
    name = file_path("path", path)
    if not isinstance(base_url, str):
        raise TypeError(f"base_url must be a str, not {type(base_url).__name__}")
    unwrap(_native.set_ledger_base_url(name, base_url))


@sealed
def init(path: str | PathLike[str]) -> None:
    """Creates the tables in a database, so that jobs need no permission to do so; otherwise the first job creates them.

    >>> ledger.init("postgresql://deals@db.example.com/deals")

    Args:
        path: The ledger.

    Raises:
        LedgerError: The database cannot be reached, or its user may not create tables.
    """
    unwrap(_native.init_ledger(file_path("path", path)))


def _row(values: tuple[Any, ...]) -> LedgerRow:
    *others, sent_at, request_id = values
    sent_at = None if sent_at is None else _EPOCH + timedelta(milliseconds=sent_at)
    return LedgerRow(*others, sent_at, request_id)


def _keys(keys: Any) -> list[str]:
    if isinstance(keys, str):
        raise TypeError("keys must be an iterable of str, not one str")
    return [_text("key", key, index) for index, key in enumerate(keys)]


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
