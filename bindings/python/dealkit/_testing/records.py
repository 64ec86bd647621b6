"""Records of a sandbox: requests, created agents and pending faults."""

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
    """A request that a sandbox received. Its ``repr`` omits personal data."""

    number: int
    """The number of the request, from 1, counting all requests."""
    at: datetime = field(repr=False)
    """The time of arrival, in UTC."""
    method: str
    """The method, such as ``POST``."""
    path_template: str
    """The path with placeholders, such as ``/v1/deals/{id}``; ``(unknown)`` if there is no such path."""
    path: str = field(repr=False)
    """The path, such as ``/v1/deals/d_1``, still percent-encoded."""
    query: str | None = field(repr=False)
    """The part of the URL after the question mark, or None."""
    headers: Headers = field(repr=False, hash=False)
    """The headers, with case-insensitive names. The values of headers that hold secrets (``x-service-key``,
    ``authorization``, ``cookie`` and the like) are ``<redacted>``."""
    body: bytes = field(repr=False)
    """The first MiB of the body. Empty if the server responded without reading the body. Bytes that are not UTF-8 are
    replaced with U+FFFD."""
    body_bytes: int = field(repr=False)
    """The length of the whole body, in bytes."""
    status: int | None
    """The status of the response. None if no response was sent yet, or if the connection was cut before the
    response."""
    duration: float
    """The time, in seconds, from the arrival of the request's head until the response was ready to be sent."""
    request_id: str
    """The id of the request, which the response carried in ``x-request-id``."""
    fault: str | None
    """The fault that was applied to the request, as JSON without the fault's body: ``{"status":503,"retry_after":1}``.
    None if there was none."""
    held: bool
    """True while the request waits for ``Sandbox.release``."""


def request_from_entry(entry: dict[str, Any]) -> RecordedRequest:
    """Makes the record of a request from an entry of the control interface."""
    fields = {name: entry[name] for name in RecordedRequest.__slots__}
    fields["at"] = datetime.fromisoformat(entry["at"])
    headers = ((name, [value] if isinstance(value, str) else value) for name, value in entry["headers"].items())
    fields["headers"] = Headers([(name, value) for name, values in headers for value in values])
    fields["body"], fields["duration"] = entry["body"].encode(), float(entry["duration"])
    return RecordedRequest(**fields)


_HIDDEN_ARGUMENTS = {"body", "request_header", "request_body"}
"""The arguments of a fault that can contain secrets or personal data."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PendingFault:
    """A fault, added with ``Sandbox.fail_next``, that can still apply to requests. Its ``repr`` omits bodies and
    headers."""

    id: int
    """The fault's number, from 1, in the order of addition."""
    arguments: Mapping[str, Any] = field(hash=False)
    """The arguments of ``Sandbox.fail_next``: ``sandbox.fail_next(**fault.arguments)`` adds the fault again."""
    matched: int
    """The number of requests that matched its ``method``, ``path``, ``request_header`` and ``request_body``, including
    those that its ``after`` or ``probability`` excluded."""
    applied: int
    """The number of requests to which the fault was applied."""

    def __repr__(self) -> str:
        arguments = (
            f"{name}={'<hidden>' if name in _HIDDEN_ARGUMENTS else repr(value)}"
            for name, value in self.arguments.items()
        )
        counts = f"matched={self.matched}, applied={self.applied}"
        return f"PendingFault(id={self.id}, {', '.join(arguments)}, {counts})"


def fault_from_entry(entry: dict[str, Any]) -> PendingFault:
    """Makes the record of a pending fault from an entry of the control interface."""
    counts = {name: entry.pop(name) for name in ("id", "matched", "applied")}
    return PendingFault(**counts, arguments=entry)


@dataclass(frozen=True, eq=False, repr=False)
class CreatedAgent:
    """An agent that the sandbox has created. It has the attributes of the ``Agent`` in the response, and is equal to
    that agent.

    >>> from dealkit import Client
    >>> from dealkit.testing import Sandbox
    >>> with Sandbox() as sandbox, Client(base_url=sandbox.url, service_key=sandbox.service_key) as client:
    ...     ada = {"email": "ada@example.com", "first_name": "Ada", "last_name": "Lovelace", "profile": {}}
    ...     agent = client.agents.create(**ada, phone="+15555550100")
    ...     assert sandbox.agents == [agent]
    ...     created = sandbox.agents[0]
    >>> created.first_name
    'Ada'
    >>> created.sent["phone"]  # responses omit the phone number
    '+15555550100'
    """

    agent: Agent
    """The agent in the response."""
    sent: Mapping[str, Any]
    """The request, with the service's field names. It includes fields that responses omit, such as ``phone``."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "agent":  # While a CreatedAgent is unpickled, `self.agent` is missing.
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


def agent_from_entry(entry: dict[str, Any]) -> CreatedAgent:
    """Makes the record of a created agent from an entry of the control interface."""
    return CreatedAgent(Agent.from_json(unwrap(_native.json_text("agent", entry["agent"]))), entry["sent"])
