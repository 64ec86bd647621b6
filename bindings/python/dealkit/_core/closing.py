"""What ends with ``close()``, and at the end of a ``with`` block."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Self


class Closing:
    """Something that can be closed."""

    __slots__ = ()

    def _end(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Ends it, and cancels the calls in flight."""
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._end()


class AsyncClosing:
    """The same for ``async with``."""

    __slots__ = ()

    def _end(self) -> None:
        raise NotImplementedError

    async def _end_async(self) -> None:
        self._end()

    async def aclose(self) -> None:
        """Ends it, and cancels the calls in flight."""
        await self._end_async()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self._end_async()
