"""What a sandbox recorded: the requests, the agents that were created, and the faults that are still to happen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from dealkit import Agent, _native
from dealkit._core.errors import unwrap
from dealkit._core.headers import Headers


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRequest:
    """A request that a sandbox received. Its ``repr`` leaves out what may be personal."""

    number: int
    """The number of the request, from 1, counting all requests."""
    at: datetime = field(repr=False)
    """When it arrived, in UTC."""
    method: str
    """The method, such as ``POST``."""
    path_template: str
    """The path with placeholders, such as ``/v1/deals/{id}``; ``(unknown)`` if there is no such path."""
    path: str = field(repr=False)
    """The path as sent, such as ``/v1/deals/d_1``."""
    query: str | None = field(repr=False)
    """The part after the question mark."""
    headers: Headers = field(repr=False, hash=False)
    """The headers, with case-insensitive names. Those that hold secrets (``x-service-key``, ``authorization``,
    ``cookie`` and the like) are ``<redacted>``."""
    body: bytes = field(repr=False)
    """The body, or the first MiB of a very long one. Empty if the server responded without reading it. What is not UTF-8
    is replaced by U+FFFD."""
    body_bytes: int = field(repr=False)
    """How long the body was, in bytes."""
    status: int | None
    """The status of the response, or None if none was sent: not yet, or because the connection was cut first."""
    duration: float
    """The seconds from receiving the request's head until the response was ready to be sent."""
    request_id: str
    """The id of the request, which the response carried in ``x-request-id``."""
    fault: str | None
    """The fault that was applied to it, as JSON, without a body: ``{"status":503,"retry_after":1}``."""
    held: bool
    """True while the request waits for ``Sandbox.release``."""


def recorded(entry: dict[str, Any]) -> RecordedRequest:
    """A request, as the control interface shows it."""
    fields = {name: entry[name] for name in RecordedRequest.__slots__}
    fields["at"] = datetime.fromisoformat(entry["at"])
    headers = ((name, [value] if isinstance(value, str) else value) for name, value in entry["headers"].items())
    fields["headers"] = Headers([(name, value) for name, values in headers for value in values])
    fields["body"], fields["duration"] = entry["body"].encode(), float(entry["duration"])
    return RecordedRequest(**fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingFault:
    """A pending fault."""

    id: int
    """Its number, from 1, in the order in which they were added."""
    arguments: Mapping[str, Any] = field(hash=False)
    """What ``Sandbox.fail_next`` was given, so that ``sandbox.fail_next(**fault.arguments)`` adds it once more."""
    matched: int
    """How many requests it would have affected but for its ``after`` and ``probability``."""
    played: int
    """How often it has happened."""


def pending(fields: dict[str, Any]) -> PendingFault:
    """A fault, as the control interface shows it."""
    own = {name: fields.pop(name) for name in ("id", "matched", "played")}
    return PendingFault(**own, arguments=fields)


@dataclass(frozen=True, eq=False, repr=False)
class CreatedAgent:
    """An agent that was created. It has the attributes of the ``Agent`` in the response, and compares equal to it.

    >>> from dealkit import Client
    >>> from dealkit.testing import Sandbox
    >>> with Sandbox() as sandbox, Client(base_url=sandbox.url, service_key=sandbox.service_key) as client:
    ...     ada = {"email": "ada@example.com", "first_name": "Ada", "last_name": "Lovelace", "profile": {}}
    ...     agent = client.agents.create(**ada, phone="+15555550100")
    ...     assert sandbox.agents == [agent]
    ...     created = sandbox.agents[0]
    >>> created.first_name
    'Ada'
    >>> created.sent["phone"]  # no response shows it
    '+15555550100'
    """

    agent: Agent
    """The agent, as the response showed it."""
    sent: Mapping[str, Any]
    """The request, with the service's names; including what no response shows, such as ``phone`` and ``image_url``."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "agent":  # Not there yet while it is unpickled.
            raise AttributeError(name)
        return getattr(self.agent, name)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, CreatedAgent):
            return self.agent == other.agent and self.sent == other.sent
        return self.agent == other if isinstance(other, Agent) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.agent)

    def __repr__(self) -> str:
        return f"CreatedAgent({self.agent!r}, sent=<{len(self.sent)} hidden>)"


def created(entry: dict[str, Any]) -> CreatedAgent:
    """An agent, as the control interface shows it."""
    return CreatedAgent(Agent.from_json(unwrap(_native.json_text("agent", entry["agent"]))), entry["sent"])
