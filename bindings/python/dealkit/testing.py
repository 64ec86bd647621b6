"""A server of the Agent and Deal interface, to test against.

>>> from dealkit import Client
>>> from dealkit.testing import Sandbox
>>> with Sandbox(deals=[{"id": "won", "status": "CLOSED"}]) as sandbox:
...     client = Client(base_url=sandbox.url, service_key=sandbox.service_key)
...     deal = client.deals.retrieve("won")

With pytest, the fixture ``dealkit_sandbox`` is there without any further ado.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from dealkit import Deal, _native
from dealkit._failure import unwrap
from dealkit._plain import plain
from dealkit._private import private

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType

    from dealkit import Agent

    DealLike = Mapping[str, object] | str | bytes | Deal

__all__ = ["Sandbox"]


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

    def __init__(
        self,
        deals: Iterable[DealLike] | None = None,
        *,
        generate: int | None = None,
        seed: int = 0,
        service_key: str | None = None,
        strict: bool = False,
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
