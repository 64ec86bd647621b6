"""A server of the Agent and Deal interface, to test against, and errors made by hand.

>>> from dealkit import Client
>>> from dealkit.testing import Sandbox
>>> with Sandbox(deals=[{"id": "won", "status": "CLOSED"}]) as sandbox:
...     client = Client(base_url=sandbox.url, service_key=sandbox.service_key)
...     deal = client.deals.retrieve("won")

With pytest, the fixture ``dealkit_sandbox`` is there without any further ado.

What a program does with an error is tested with one that is made by hand, the same that a call would raise:

>>> from unittest.mock import Mock
>>> from dealkit.testing import timeout_error
>>> client = Mock(Client)
>>> client.agents.create.side_effect = timeout_error(operation="POST /v1/agents")  # it timed out after it was sent
>>> client.agents.create.side_effect.may_have_acted
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, TypedDict

from dealkit import Agent, Deal, _native
from dealkit._failure import exception, unwrap
from dealkit._keywords import keywords
from dealkit._options import check_names, pairs
from dealkit._plain import plain
from dealkit._private import private

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType
    from typing import Unpack

    from dealkit import APIConnectionError, APIStatusError, APITimeoutError, DecodeError
    from dealkit.exceptions import Outcome

    DealLike = Mapping[str, object] | str | bytes | Deal

__all__ = ["ErrorOptions", "Sandbox", "connection_error", "decode_error", "status_error", "timeout_error"]


def _text(name: str, deal: DealLike) -> str:
    """The JSON text of a deal."""
    if isinstance(deal, Deal):
        return deal.to_json()
    if isinstance(deal, str):
        return deal
    if isinstance(deal, bytes | bytearray):
        text = deal.decode("utf-8", "surrogateescape")
        if text.isascii() or text.encode("utf-8", "replace").decode() == text:
            return text
        from dealkit import ConfigError

        raise ConfigError(f"{name} is not UTF-8")
    if not hasattr(deal, "keys"):
        raise TypeError(f"{name} must be a mapping, a JSON text or a Deal, not {type(deal).__name__}")
    return unwrap(_native.json_text(name, plain(deal)))


@private
def _start(given: dict[str, Any]) -> _native.NativeSandbox:
    deals = given.pop("deals")
    kind = type(deals).__name__
    if isinstance(deals, str | bytes) or hasattr(deals, "items"):
        raise TypeError(f"deals must be an iterable of deals, not one {kind}")
    if deals is not None and not hasattr(deals, "__iter__"):
        raise TypeError(f"deals must be an iterable of deals, not {kind}")
    texts = None if deals is None else [_text(f"deals[{at}]", deal) for at, deal in enumerate(deals)]
    return unwrap(_native.start_sandbox(texts, given))


@private
def _insert(given: dict[str, Any], sandbox: _native.NativeSandbox) -> None:
    unwrap(sandbox.insert_deal(_text("deal", given["deal"])))


class Sandbox:
    """A running server that keeps every rule of the contract and stores everything in memory.

    It listens on a loopback address as soon as it is made, on a thread of its own, and stops when it is closed
    or left as a context manager, ``with`` and ``async with`` alike.
    """

    __slots__ = ("_native",)

    @keywords
    def __init__(
        self,
        deals: Iterable[DealLike] | None = None,
        *,
        generate: int | None = None,
        seed: int = 0,
        service_key: str | None = None,
        strict: bool = False,
        max_agents: int | None = None,
        max_store_bytes: int | None = None,
        port: int = 0,
    ) -> None:
        """Starts the server.

        Args:
            deals: The deals to serve: mappings, JSON texts (served byte for byte) or ``Deal`` objects. Without
                this and ``generate`` there are three samples, ``d_1``, ``d_2`` and ``d_3``.
            generate: How many generated deals to serve, ``g_0``, ``g_1`` and so on.
            seed: The same seed makes the same deals.
            service_key: The key that requests must carry; ``sandbox-key`` without one.
            strict: Whether undocumented fields are violations.
            max_agents: How many agents can be created; 1,000,000 without one. A create beyond it gets a 507.
            max_store_bytes: How much JSON of agents, and of deals beyond those that it starts with, is kept, in
                bytes; 1 GiB without one. A create beyond it gets a 507.
            port: The port to listen on; 0 asks for a free one.

        Raises:
            ConfigError: A deal or a setting is wrong, or the port is taken.
        """
        given = {**locals()}
        del deals, service_key
        del given["self"]
        self._native = _start(given)

    @property
    def url(self) -> str:
        """The base URL for a client, such as ``http://127.0.0.1:40123``."""
        return self._native.url

    @property
    def service_key(self) -> str:
        """The key that requests must carry."""
        return self._native.service_key

    @property
    def agents(self) -> list[Agent]:
        """The agents created so far, in the order of creation."""
        return unwrap(self._native.agents())

    def insert_deal(self, deal: DealLike) -> None:
        """Adds a deal; one with the same id is replaced."""
        given: dict[str, Any] = {"deal": deal}
        del deal
        _insert(given, self._native)

    def reset(self) -> None:
        """Drops every agent, and every deal but those that the server started with. Ids begin at ``a_1`` again."""
        unwrap(self._native.reset())

    def close(self) -> None:
        """Stops the server at once."""
        self._native.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        # Also of one that could not be started: an error tracker may want to show it.
        return f"Sandbox(url={self.url!r})" if hasattr(self, "_native") else "Sandbox()"


class ErrorOptions(TypedDict, total=False):
    """What can be said of an error that is made by hand. What is not said follows from what is, as in a call."""

    operation: str
    """What was asked for: a method and the path with placeholders, such as ``POST /v1/agents``."""
    attempts: int
    """How many times the request was tried; 1 otherwise."""
    outcome: Outcome
    """The outcome, in place of the one that follows from the rest."""
    retry_after: float
    """How many seconds the service asks to wait, in place of what the headers say."""
    request_id: str
    """The request's id in the service's logs. Like the headers it comes with a response: an error that has none
    gets the beginning of a 200, and so the outcome ``succeeded``."""
    headers: Mapping[str, str]
    """The headers of the response."""
    id: str
    """The identifier that was asked for."""
    index: int
    """The place of the identifier among those given to ``retrieve_many``."""


def status_error(
    status_code: int, body: Mapping[str, object] | str | bytes = b"", **options: Unpack[ErrorOptions]
) -> APIStatusError:
    """The exception of a response whose status is not a success, of the status's own class.

    >>> error = status_error(422, {"title": "Invalid", "errors": [{"pointer": "/email", "code": "invalid_email"}]})
    >>> error
    UnprocessableEntityError('422 Unprocessable Entity: Invalid: /email invalid_email')
    >>> error.outcome, error.errors[0].pointer
    ('rejected', '/email')

    Args:
        status_code: The status, from 100 to 999.
        body: The body: a mapping, which is written as JSON, a text or bytes.
        options: See ``ErrorOptions``.
    """
    return _made("status", options, status_code=status_code, body=_bytes(body))  # type: ignore[no-any-return]


def timeout_error(seconds: float = 60, **options: Unpack[ErrorOptions]) -> APITimeoutError:
    """The exception of a call that timed out after it was sent, without a response: its outcome is ``unknown``.

    Of one that timed out before a connection was made, say ``outcome="not_sent"``.

    Args:
        seconds: The time after which it did.
        options: See ``ErrorOptions``.
    """
    return _made("timeout", options, seconds=seconds)  # type: ignore[no-any-return]


def connection_error(
    reason: str = "connection refused", *, sent: bool = False, **options: Unpack[ErrorOptions]
) -> APIConnectionError:
    """The exception of a connection that could not be made, with the outcome ``not_sent``.

    Args:
        reason: Why, for the end of the text.
        sent: Whether there was a connection, which broke before a response came: the outcome is then ``unknown``.
        options: See ``ErrorOptions``.
    """
    if not isinstance(sent, bool):
        raise TypeError(f"sent must be a bool, not {type(sent).__name__}")
    return _made("interrupted" if sent else "connect", options, reason=reason)  # type: ignore[no-any-return]


def decode_error(
    body: Mapping[str, object] | str | bytes,
    *,
    model: type[Deal] | type[Agent] = Deal,
    status_code: int | None = None,
    **options: Unpack[ErrorOptions],
) -> DecodeError:
    """The exception of a success whose body cannot be read, with the outcome ``succeeded``.

    >>> decode_error({"id": 5}).path
    'id'

    Args:
        body: The body: a mapping, which is written as JSON, a text or bytes.
        model: What it cannot be read as: ``Deal`` or ``Agent``.
        status_code: The status of the response; 201 for an ``Agent`` and 200 for a ``Deal`` without one.
        options: See ``ErrorOptions``.

    Raises:
        ValueError: The body can be read.
    """
    if model is not Deal and model is not Agent:
        raise TypeError("model must be Deal or Agent")
    if status_code is None:
        status_code = 201 if model is Agent else 200
    kind = "agent" if model is Agent else "deal"
    return _made(kind, options, status_code=status_code, body=_bytes(body))  # type: ignore[no-any-return]


def _made(kind: str, options: ErrorOptions, **given: object) -> Any:
    told: dict[str, Any] = {**options}
    check_names("an error", told, ErrorOptions)
    id, index = told.pop("id", None), told.pop("index", None)
    told["headers"] = pairs("headers", told.get("headers"))
    (failure,) = unwrap(_native.made_error(kind, {**told, **given}))
    error: Any = exception(failure)
    error.id, error.index = id, index
    return error


def _bytes(body: Mapping[str, object] | str | bytes) -> bytes:
    if isinstance(body, bytes | bytearray):
        return bytes(body)
    if isinstance(body, str):
        return body.encode()
    if not hasattr(body, "keys"):
        raise TypeError(f"body must be a mapping, a str or bytes, not {type(body).__name__}")
    return unwrap(_native.json_text("body", plain(body))).encode()
