"""A server of the Agent and Deal interface, to test against.

>>> from dealkit import Client
>>> from dealkit.testing import Sandbox
>>> with Sandbox(deals=[{"id": "won", "status": "CLOSED"}]) as sandbox:
...     client = Client(base_url=sandbox.url, service_key=sandbox.service_key)
...     deal = client.deals.retrieve("won")

With pytest, the fixture ``dealkit_sandbox`` is there without any further ado.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from dealkit import _native

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType

    from dealkit import Agent, Deal

    DealLike = Mapping[str, object] | str | bytes | Deal

__all__ = ["Sandbox"]


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
            generate: How many made-up deals to serve, ``g_0``, ``g_1`` and so on.
            seed: The same seed makes the same deals.
            service_key: The key that requests must carry; ``sandbox-key`` without one.
            strict: Whether members that the specification does not show are violations.
            port: The port to listen on; 0 asks for a free one.

        Raises:
            ConfigError: A deal or a setting is wrong, or the port is taken.
        """
        if isinstance(deals, str | bytes) or hasattr(deals, "items"):
            raise TypeError(f"deals must be an iterable of deals, not one {type(deals).__name__}")
        try:
            listed = None if deals is None else list(deals)
        except TypeError:
            raise TypeError(f"deals must be an iterable of deals, not {type(deals).__name__}") from None
        settings = {
            "generate": generate,
            "seed": seed,
            "service_key": service_key,
            "strict": strict,
            "port": port,
        }
        self._native = _native.NativeSandbox(listed, settings)

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
        return self._native.agents()

    def insert_deal(self, deal: DealLike) -> None:
        """Adds a deal; one with the same id is replaced."""
        self._native.insert_deal(deal)

    def reset(self) -> None:
        """Drops every agent, and every deal but those that the server started with. Ids begin at ``a_1`` again."""
        self._native.reset()

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
        return f"Sandbox(url={self.url!r})"
