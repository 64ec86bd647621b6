"""Operations on ledgers between jobs: look up rows, and record outcomes that you have found out. They send no requests.

A ledger is a local log of idempotency keys. Each function takes the path of a ledger's file, or the URL of its
PostgreSQL database (``"postgresql://…"``).

>>> from dealkit import ledger
>>> ledger.summary("agents.ledger").unresolved
[LedgerRow(outcome='unknown', status_code=503, sent_at=datetime.datetime(2026, 11, 22, 9, 30,
tzinfo=datetime.timezone.utc), request_id='r-1')]
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
    "mark_unknown",
    "set_base_url",
    "normalize_key",
    "path",
    "resolve",
    "summary",
]


class LedgerRow(NamedTuple):
    """The record of a row that the ledger has, so that the next run does not send the row again."""

    outcome: Outcome
    """``"succeeded"``: the agent was created. ``"rejected"``: the service rejected the row. ``"unknown"``: the agent
    may exist."""
    agent_id: str | None
    """The identifier of the agent, if it was created and the ledger has its identifier."""
    status_code: int | None
    """The status of the response, if the row was rejected or its outcome is unknown, and there was a response."""
    in_flight: bool = False
    """True if a job is sending the row now. Until that job has the response, ``outcome`` is ``"unknown"``."""
    request_differs: bool = False
    """True if the request that was sent differs from the request that was passed to ``look_up``."""
    title: str | None = None
    """The title of the error response, if the row was rejected and the response had one."""
    code: str | None = None
    """The codes of the violations in the error response, separated by spaces, if the row was rejected because of
    violations."""
    label: str | None = None
    """The label with which the row was sent, if it had one: ``label=`` of ``create_many`` and ``create_once``."""
    sent_at: datetime | None = None
    """The time at which the row was sent, by the clock of the machine that sent it."""
    request_id: str | None = None
    """The service's id for the request, if it gave one. The service's operator can find the request by this id."""


class LedgerSummary(NamedTuple):
    """A summary of a ledger: the number of rows for each outcome, and the unresolved rows."""

    service: str
    """The base URL of the service."""
    key_name: str | None
    """The name of the idempotency keys, such as ``"email"``; None if no job has named them."""
    succeeded: int
    """The number of rows whose agent was created."""
    rejected: int
    """The number of rows that the service rejected."""
    resolved_with_agent: int
    """The number of rows for which you have recorded an agent."""
    resolved_without_agent: int
    """The number of rows for which you have recorded that there is no agent. The next run sends these rows."""
    in_flight: int
    """The number of rows that a job is sending now."""
    unresolved: list[LedgerRow]
    """The rows whose outcome is unknown, in the order in which they were sent."""


def path(ledger: str | PathLike[str]) -> Path | None:
    """Returns the path of a ledger's file, or None if the ledger is in a database.

    >>> ledger.path("postgresql://deals@db.example.com/deals")

    Args:
        ledger: The path or URL of the ledger.
    """
    name = file_path("ledger", ledger)
    return None if unwrap(_native.ledger_path(name)) is None else Path(name)


def display_name(ledger: str | PathLike[str]) -> str:
    """Returns the name of a ledger for messages: the path of its file, or the URL of its database without user and
    password.

    >>> ledger.display_name("postgresql://deals:sesame@db.example.com/deals")
    'postgresql://db.example.com:5432/deals'

    Args:
        ledger: The path or URL of the ledger.
    """
    return str(unwrap(_native.ledger_display_name(file_path("ledger", ledger))))


def in_folder(folder: str | PathLike[str]) -> list[Path]:
    """Returns the ledger files in a folder, sorted by name. It recognizes ledgers by their content, not by their names.
    It does not search subfolders. If the folder does not exist, the list is empty.

    A ledger does not know the rows of other ledgers. Before an import starts a new ledger, look up its idempotency keys
    in the existing ledgers.

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
    """Counts a ledger's rows, and lists the rows whose outcome is unknown.

    Args:
        path: The path or URL of the ledger. Jobs may have the ledger open.

    Raises:
        LedgerError: The ledger cannot be read, is damaged, or is not a ledger.
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

    The result is None for a row that the next run sends. The function changes nothing, and jobs may have the ledger
    open. A ledger that does not exist yet counts as empty.

    >>> ledger.look_up("agents.ledger", ["ada@example.com", "joan@example.com"], key_name="email")
    [LedgerRow(outcome='succeeded', agent_id='a_1', status_code=None, in_flight=False), None]

    Args:
        path: The path or URL of the ledger.
        keys: The idempotency keys of the rows.
        key_name: The name of the keys, as in the job, such as ``"email"``. Raises LedgerError if the ledger's keys have
            a different name.
        service: The base URL of the service. Raises LedgerError if the ledger is for a different service.
        requests: The rows as ``create_many`` takes them, one for each key. ``request_differs`` of a result then says
            whether the row has changed since it was sent.
        wait: How long to wait if another program has the ledger locked: up to half a minute (True) or one second
            (False).

    Raises:
        LedgerError: The ledger cannot be read, was lost, is not a ledger, or is for a different service or for keys
            with a different name.
    """
    if service is not None and not isinstance(service, str):
        raise TypeError(f"service must be a base URL, not {type(service).__name__}")
    _check_key_name(key_name)
    check_bools(wait=wait)
    checked_keys = _check_keys(keys)
    create_calls = None if requests is None else [make_create_call({**row}, False) for row in requests]
    if create_calls is not None and len(create_calls) != len(checked_keys):
        raise ValueError(
            f"requests must have one item for each key: there are {len(checked_keys)} keys and {len(create_calls)} requests"
        )
    rows = _native.look_up_in_ledger(
        file_path("path", path), checked_keys, key_name=key_name, service=service, requests=create_calls, wait=wait
    )
    return [None if row is None else LedgerRow(**row) for row in unwrap(rows)]


@sealed
def look_up_emails(path: str | PathLike[str], emails: Iterable[str], *, wait: bool = True) -> list[LedgerRow | None]:
    """Looks up rows by the e-mail addresses of their agents, to find rows whose idempotency keys have changed. Returns
    a result for each address, in order.

    The result is None for an address with which nothing was sent. Letter case is ignored. The function changes nothing.

    >>> ledger.look_up_emails("agents.ledger", ["Ada@example.com"])
    [LedgerRow(outcome='succeeded', agent_id='a_1', status_code=None, in_flight=False)]

    Args:
        path: The path or URL of the ledger.
        emails: The addresses.
        wait: How long to wait if another program has the ledger locked: up to half a minute (True) or one second
            (False).

    Raises:
        LedgerError: The ledger cannot be read, or is not a ledger.
    """
    check_bools(wait=wait)
    rows = unwrap(_native.look_up_emails_in_ledger(file_path("path", path), _check_keys(emails), wait=wait))
    return [None if row is None else LedgerRow(**row) for row in rows]


def normalize_key(key: str, *, name: str | None = None) -> str:
    """Returns the normal form of an idempotency key. For a ledger, keys with the same normal form are the same key.

    The normal form is Unicode's NFC, without invisible format characters (category Cf). If the keys are named
    ``email``, it is in lower case.

    >>> ledger.normalize_key("Ada@Example.com", name="email")
    'ada@example.com'

    Args:
        key: The idempotency key of a row.
        name: The name of the keys, as in the job, such as ``"email"``.
    """
    return str(unwrap(_native.normalize_key(_check_text("key", key, 0), key_name=name)))


@sealed
def backup(path: str | PathLike[str], to: str | PathLike[str]) -> None:
    """Copies a ledger to a new file, in a consistent state. Jobs may have the ledger open.

    Never use the copy for a job: it lacks the rows that were sent after the copy was made. In the process of a job, use
    this function and not ``sqlite3``, which can undo the job's writes.

    >>> ledger.backup("agents.ledger", "agents.backup")

    Args:
        path: The path of the ledger. If the ledger is in a database, use the database's own tools, such as ``pg_dump``.
        to: The file to write, which must not exist.

    Raises:
        LedgerError: The ledger cannot be read, is damaged or is in a database, or the new file exists or cannot be
            written.
    """
    unwrap(_native.back_up_ledger(file_path("path", path), file_path("to", to)))


@sealed
def resolve(path: str | PathLike[str], found: Mapping[str, str | None], *, dry_run: bool = False) -> int:
    """Records the outcomes of rows, identified by their idempotency keys. Returns the number of changed rows.

    Use it for rows whose outcome is unknown: the next run reports a row with an agent as created, and sends a row
    without an agent. Use it with None for a rejected row that you have corrected, so that the next run sends the row.
    Entries that the ledger already has are skipped. You can resolve a row more than once.

    >>> ledger.resolve("agents.ledger", {"ada@example.com": "a_1", "grace@example.com": None})
    2

    Args:
        path: The path or URL of the ledger.
        found: The agent's identifier for each idempotency key, or None if there is no agent.
        dry_run: Whether to only check the entries, and record nothing.

    Raises:
        LedgerError: The ledger does not have a key, the service itself confirmed that it created the agent, or a job is
            sending the row; an identifier is given twice, or another row has it; or an identifier is empty or a
            placeholder such as ``n/a``. ``index`` is the position of that entry in ``found``, and nothing was recorded.
            Or the ledger cannot be read or written, or is not a ledger.
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
def mark_unknown(path: str | PathLike[str], keys: Iterable[str], *, key_name: str | None = None) -> int:
    """Marks rows as unknown that were sent without the ledger's knowledge: it was restored from an older copy. The next
    run does not send them. Returns the number of changed rows.

    Rows that the ledger does not have, and rows that it has as rejected or as having no agent, become unknown. Other
    rows stay unchanged. Then ``resolve`` records the agents that you know. The ``sent_at`` of a marked row is the
    current time.

    Pass exactly the keys that the rows had in the job: the ledger cannot notice a misspelt key.

    >>> ledger.mark_unknown("agents.ledger", ["ada@example.com", "grace@example.com"], key_name="email")
    2
    >>> ledger.resolve("agents.ledger", {"ada@example.com": "a_1"})
    1

    Args:
        path: The path or URL of the ledger.
        keys: The idempotency keys of the rows.
        key_name: The name of the keys, as in the job, such as ``"email"``.

    Raises:
        LedgerError: A job is sending one of the rows: then ``index`` is the position of its key, and nothing was
            recorded. Or the ledger's keys have another name, or the ledger cannot be read or written, or is not a
            ledger.
    """
    _check_key_name(key_name)
    name = file_path("path", path)
    return int(unwrap(_native.mark_unknown_in_ledger(name, _check_keys(keys), key_name=key_name)))


@sealed
def set_base_url(path: str | PathLike[str], base_url: str) -> None:
    """Records that the service of a ledger has a new base URL, for example because the service's host was renamed.

    From then on, the ledger accepts jobs for the new URL, and rejects jobs for the old URL. Only do this if it is the
    same service, with the same agents: agents that the ledger has as created are not created at the new URL.

    >>> ledger.set_base_url("agents.ledger", "https://new.example.com")

    Args:
        path: The path or URL of the ledger.
        base_url: The new base URL, as ``Client`` takes it.

    Raises:
        LedgerError: ``base_url`` is not a base URL, or the ledger cannot be read or written, or is not a ledger.
    """
    name = file_path("path", path)
    if not isinstance(base_url, str):
        raise TypeError(f"base_url must be a str, not {type(base_url).__name__}")
    unwrap(_native.set_ledger_base_url(name, base_url))


@sealed
def init(path: str | PathLike[str]) -> None:
    """Creates a ledger's tables in a database. The first job would also create them, but needs permission to do so. Does
    nothing for a file, which the first job creates.

    >>> ledger.init("postgresql://deals@db.example.com/deals")

    Args:
        path: The URL of the ledger's database.

    Raises:
        LedgerError: The database cannot be reached, or its user may not create tables.
    """
    unwrap(_native.init_ledger(file_path("path", path)))


def _check_key_name(key_name: Any) -> None:
    if key_name is not None and not isinstance(key_name, str):
        raise TypeError(f"key_name must be the name of a field, not {type(key_name).__name__}")


def _check_keys(keys: Any) -> list[str]:
    if isinstance(keys, str):
        raise TypeError("keys must be an iterable of str, not one str")
    return [_check_text("key", key, index) for index, key in enumerate(keys)]


def _check_text(item: str, value: Any, index: int) -> str:
    """Checks that a value is a str that UTF-8 can encode, and returns it as a plain str. ``item`` names the value in
    errors."""
    if not isinstance(value, str):
        raise TypeError(f"the {item} at index {index} must be a str, not {type(value).__name__}")
    value = str.__str__(value)
    try:
        value.encode()
    except UnicodeEncodeError:
        pass  # Not re-raised, because the message of this exception contains the value.
    else:
        return value  # type: ignore[no-any-return]
    raise ValueError(f"the {item} at index {index} contains an unpaired surrogate, which is not valid text")
