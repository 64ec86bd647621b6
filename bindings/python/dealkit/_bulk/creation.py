"""What became of one row of ``create_many``, or of the key of ``create_once``."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeVar

from dealkit._core.failure import exception

if TYPE_CHECKING:
    from dealkit.exceptions import DealkitError, LedgerError, Outcome

T = TypeVar("T")

# The arguments of a Creation, from which the rest follows.
_PARTS = ("index", "agent", "agent_id", "error", "key", "from_ledger", "ledger_error", "sent_at", "request_differs")


class Creation(Generic[T]):
    """The result of one row of ``client.agents.create_many``, or of ``create_once``.

    Its repr shows nothing personal. For tests, construct one: ``Creation(index=0, agent=agent)``, ``Creation(index=1,
    error=APITimeoutError())``.

    >>> match creation.result:
    ...     case "created":
    ...         print("created now:", creation.agent)
    ...     case "already_created":
    ...         print("already created, says the ledger:", creation.agent_id, creation.sent_at)
    ...     case "failed":
    ...         print(creation.outcome, creation.error)
    """

    __slots__ = (
        "agent",
        "agent_id",
        "error",
        "index",
        "key",
        "ledger_error",
        "outcome",
        "from_ledger",
        "request_differs",
        "sent_at",
    )

    def __init__(
        self,
        *,
        index: int,
        agent: T | None = None,
        agent_id: str | None = None,
        error: DealkitError | None = None,
        key: str | None = None,
        from_ledger: bool = False,
        ledger_error: LedgerError | None = None,
        sent_at: datetime | None = None,
        request_differs: bool = False,
    ) -> None:
        self.index: Final = index
        """The position of the row among those given, from 0. Of a single create, 0."""
        self.agent: Final = agent
        """The agent, or None if there is none or it is not at hand. With ``with_raw_response``, the whole response."""
        self.agent_id: Final[str | None] = agent_id if agent_id is not None else getattr(agent, "id", None)
        """The identifier of the agent, if it is known. (For a whole response: ``agent.parse().id``.)"""
        self.error: Final = error
        """Why there is no agent, or none that is known, with its ``index``; None if it was created."""
        self.outcome: Final[Outcome] = "succeeded" if error is None else error.outcome
        """``"succeeded"`` if the agent was created, or the outcome of the error. ``"not_sent"`` and ``"rejected"``:
        there is no agent. ``"unknown"``: there may be one. ``"succeeded"`` with an error: there is one, but the
        response could not be read."""

        self.key: Final = key
        """The key in the ledger, if there is one. It may be personal, and no text contains it."""
        self.from_ledger: Final = from_ledger
        """Whether this is the ledger's result from an earlier run, and nothing was sent. For an agent that was
        created, ``agent_id`` and ``sent_at`` are then set, if they are known; for a rejected or unknown row, ``error`` is
        an ``AlreadyAttemptedError``."""
        self.sent_at: Final = sent_at
        """When an earlier run sent the row whose agent it created, in UTC."""
        self.request_differs: Final = request_differs
        """Whether the ledger's record is of another request than the row has now, so that a change was not sent."""
        self.ledger_error: Final = ledger_error
        """Why the ledger lacks the result of the row, if it could not be written: a later run treats the row as
        unknown."""

    @property
    def result(self) -> Literal["created", "already_created", "failed"]:
        """Whether this run created the agent, an earlier one did, or there is an ``error``, whose ``outcome`` says
        whether there may be an agent anyway."""
        if self.error is not None:
            return "failed"
        return "already_created" if self.from_ledger else "created"

    def _parts(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in _PARTS)

    def __eq__(self, other: object) -> bool:
        return self._parts() == other._parts() if isinstance(other, Creation) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._parts())

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restored, self._parts())

    def __repr__(self) -> str:
        shown = f"index={self.index!r}, agent_id={self.agent_id!r}, outcome={self.outcome!r}"
        return f"Creation({shown}{', from_ledger=True' if self.from_ledger else ''})"


def _restored(*parts: Any) -> Creation[Any]:
    return Creation(**dict(zip(_PARTS, parts, strict=True)))


def creation_of(index: int, key: str | None, agent: Any, error: DealkitError | None, record: Any) -> Creation[Any]:
    """What the native half knows: ``record`` is whether this was known before, the agent's identifier, when it was sent,
    whether the row has changed since, and why the ledger lacks the result."""
    from_ledger, agent_id, sent, differs, unrecorded = (False, None, None, False, None) if record is None else record
    ledger_error: Any = None if unrecorded is None else exception(unrecorded)
    return Creation(
        index=index,
        agent=agent,
        agent_id=agent_id,
        error=error,
        key=key,
        from_ledger=from_ledger,
        sent_at=None if sent is None else datetime.fromtimestamp(sent / 1000, UTC),
        ledger_error=ledger_error,
        request_differs=differs,
    )
