"""Operations on ledgers between jobs: look up rows, and record outcomes that you have found out. Nothing is sent.

A ledger is a local log of idempotency keys. Each function takes the path of its file, or the URL of its PostgreSQL database
(``"postgresql://…"``).

>>> from dealkit import ledger
>>> ledger.summary("agents.ledger").unresolved
[LedgerRow(outcome='unknown', status_code=503, sent_at=datetime.datetime(2026, 11, 22, 9, 30, tzinfo=datetime.timezone.utc), request_id='r-1')]
>>> ledger.resolve("agents.ledger", {"ada@example.com": "a_1", "grace@example.com": None})
2
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dealkit import _native
from dealkit._bulk.callbacks import KeyOf, UnresolvedRow
from dealkit._core.arguments import check_bools, file_path
from dealkit._core.errors import sealed, unwrap
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


class LedgerRow(NamedTuple):
    """The record of a row that the next run does not send again."""

    outcome: Outcome
    """``"succeeded"``: the agent was created. ``"rejected"``: the service rejected the row. ``"unknown"``: the agent may exist."""
    agent_id: str | None
    """The identifier of the agent, if it was created and the ledger has its identifier."""
    status_code: int | None
    """The status of the response, if the row was rejected or its outcome is unknown, and there was a response."""
    in_flight: bool = False
    """True if a job is sending the row now. Its outcome is unknown until then."""
    request_differs: bool = False
    """True if the request that was sent differs from the one given to ``look_up``."""
    title: str | None = None
    """The title of the error response, if the row was rejected and the response had one."""
    code: str | None = None
    """The codes of the violations in the error response, separated by spaces, if the row was rejected and there were any."""
    label: str | None = None
    """The label of the row, which only Rust programs set."""
    sent_at: datetime | None = None
    """The time at which the row was sent, by the clock of the machine that sent it."""
    request_id: str | None = None
    """The service's id for the request, if it gave one. The service's operator can find the request by this id."""


class LedgerSummary(NamedTuple):
    """A ledger's contents, as numbers of rows."""

    service: str
    """The base URL of the service."""
    key_name: str | None
    """The name of the keys, if a job has named them."""
    succeeded: int
    """Rows whose agent was created."""
    rejected: int
    """Rows that the service rejected."""
    resolved_with_agent: int
    """Rows for which you have recorded an agent."""
    resolved_without_agent: int
    """Rows for which you have recorded that there is no agent: the next run sends them."""
    in_flight: int
    """Rows that a job is sending now."""
    unresolved: list[LedgerRow]
    """Rows whose outcome is unknown, in the order in which they were sent."""


def path(ledger: str | PathLike[str]) -> Path | None:
    """Returns the file of a ledger, or None if it is in a database.

    >>> ledger.path("postgresql://deals@db.example.com/deals")

    Args:
        ledger: The ledger, as for all functions.
    """
    name = file_path("ledger", ledger)
    return None if unwrap(_native.ledger_path(name)) is None else Path(name)


def display_name(ledger: str | PathLike[str]) -> str:
    """Returns the name of a ledger for messages: the path of its file, or the URL of its database without user and password.

    >>> ledger.display_name("postgresql://deals:sesame@db.example.com/deals")
    'postgresql://db.example.com:5432/deals'

    Args:
        ledger: The ledger, as for all functions.
    """
    return str(unwrap(_native.ledger_display_name(file_path("ledger", ledger))))


def in_folder(folder: str | PathLike[str]) -> list[Path]:
    """Returns the ledgers in a folder, sorted by name. Any file name is possible. Subfolders are not searched. If the folder
    does not exist, the list is empty.

    A ledger does not contain the rows of other ledgers. So before an import starts a new ledger, look up its keys in the
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
    """Counts a ledger's rows, and lists those whose outcome is unknown.

    Args:
        path: The ledger. A job may have it open.

    Raises:
        LedgerError: The ledger cannot be read, is not one, or is damaged.
    """
    fields = unwrap(_native.summarize_ledger(file_path("path", path)))
    fields["unresolved"] = [LedgerRow(**row) for row in fields["unresolved"]]
    return LedgerSummary(**fields)


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
    """Looks up rows by their idempotency keys. Returns a result for each key, in order.

    The result is None for a row that the next run sends. Nothing is written, and jobs may have the ledger open. A ledger
    that does not exist has no rows.

    >>> ledger.look_up("agents.ledger", ["ada@example.com", "joan@example.com"], key_name="email")
    [LedgerRow(outcome='succeeded', agent_id='a_1', status_code=None, in_flight=False), None]

    Args:
        path: The ledger.
        keys: The keys of the rows.
        key_name: The name of the keys, as in the job: ``"email"``.
        service: The base URL of the service. Raises LedgerError if the ledger is for another one.
        requests: The rows as ``create_many`` takes them, one for each key: ``request_differs`` then says which have changed
            since they were sent.
        wait: Whether to wait for up to half a minute, instead of one second, if another program has the file locked.

    Raises:
        LedgerError: The file cannot be read or is not a ledger, or it is for another service or keys with another name.
    """
    for argument, kind, value in (("service", "a base URL", service), ("key_name", "the name of a field", key_name)):
        if value is not None and not isinstance(value, str):
            raise TypeError(f"{argument} must be {kind}, not {type(value).__name__}")
    check_bools(wait=wait)
    checked_keys = _check_keys(keys)
    calls = None if requests is None else [make_create_call({**row}, False) for row in requests]
    if calls is not None and len(calls) != len(checked_keys):
        raise ValueError(
            f"requests must have one item for each key: there are {len(checked_keys)} keys and {len(calls)} requests"
        )
    rows = _native.look_up_in_ledger(
        file_path("path", path), checked_keys, key_name=key_name, service=service, requests=calls, wait=wait
    )
    return [None if row is None else LedgerRow(**row) for row in unwrap(rows)]


@sealed
def look_up_emails(path: str | PathLike[str], emails: Iterable[str], *, wait: bool = True) -> list[LedgerRow | None]:
    """Looks up rows by the e-mail addresses of their agents. Finds rows whose keys have changed. Returns a result for each
    address, in order.

    The result is None for an address with which nothing was sent. Upper and lower case are the same. Nothing is written.

    >>> ledger.look_up_emails("agents.ledger", ["Ada@example.com"])
    [LedgerRow(outcome='succeeded', agent_id='a_1', status_code=None, in_flight=False)]

    Args:
        path: The ledger.
        emails: The addresses.
        wait: Whether to wait for up to half a minute, instead of one second, if another program has the file locked.

    Raises:
        LedgerError: The file cannot be read or is not a ledger.
    """
    check_bools(wait=wait)
    rows = unwrap(_native.look_up_emails_in_ledger(file_path("path", path), _check_keys(emails), wait=wait))
    return [None if row is None else LedgerRow(**row) for row in rows]


def normalize_key(key: str, *, name: str | None = None) -> str:
    """Returns the normal form of a key. Rows whose keys have the same normal form are the same row.

    It is Unicode's normal form C, without invisible format characters (category Cf), and in lower case if the keys are
    named ``email``.

    >>> ledger.normalize_key("Ada@Example.com", name="email")
    'ada@example.com'

    Args:
        key: The key of a row.
        name: The name of the keys, as in the job.
    """
    return str(unwrap(_native.normalize_key(_check_text("key", key, 0), key_name=name)))


@sealed
def backup(path: str | PathLike[str], to: str | PathLike[str]) -> None:
    """Copies a ledger to a new file, in a consistent state. Jobs may have it open.

    Never use the copy for a job: it lacks the rows that were sent after it was made. In the process of a job, use this
    function and not ``sqlite3``, which can undo the job's writes.

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
    """Records the outcomes of rows, identified by their idempotency keys. Returns the number of changed rows.

    Use it for rows whose outcome is unknown: the next run reports rows with an agent as created, and sends rows without
    one. Use it also, with None, for rejected rows that you have corrected since, so that the next run sends them.
    Outcomes that the ledger already has are skipped. A row can be resolved again.

    >>> ledger.resolve("agents.ledger", {"ada@example.com": "a_1", "grace@example.com": None})
    2

    Args:
        path: The ledger.
        found: The agent's identifier for each key, or None if there is no agent.
        dry_run: Whether only to check the entries, and record nothing.

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
        (
            _check_text("key", key, index),
            None if agent_id is None else _check_text("agent's identifier", agent_id, index),
        )
        for index, (key, agent_id) in enumerate(found.items())
    ]
    return int(unwrap(_native.resolve_ledger(name, pairs, dry_run=dry_run)))


@sealed
def set_base_url(path: str | PathLike[str], base_url: str) -> None:
    """Records that the service has a new base URL from now on, for example because its host was renamed.

    From then on, the ledger accepts jobs for that URL, and rejects jobs for the old one. Only do this if it is the same
    service, with the same agents: agents that the ledger has as created will not be created there.

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


def _check_keys(keys: Any) -> list[str]:
    if isinstance(keys, str):
        raise TypeError("keys must be an iterable of str, not one str")
    return [_check_text("key", key, index) for index, key in enumerate(keys)]


def _check_text(item: str, value: Any, index: int) -> str:
    """Checks that a value is a str that UTF-8 can encode. ``item`` names it in error messages. Returns it as a plain str."""
    if not isinstance(value, str):
        raise TypeError(f"the {item} at index {index} must be a str, not {type(value).__name__}")
    value = str.__str__(value)
    try:
        value.encode()
    except UnicodeEncodeError:
        pass  # Not raised from here, because its message contains the value.
    else:
        return value  # type: ignore[no-any-return]
    raise ValueError(f"the {item} at index {index} contains an unpaired surrogate, which is not valid text")
