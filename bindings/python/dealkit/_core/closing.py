"""Base classes of objects that ``close()`` or the end of a ``with`` block closes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Self


class Closable:
    """An object that ``close()`` or the end of a ``with`` block closes."""

    __slots__ = ()

    def _end(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Cancels the calls in flight."""
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception_details: object) -> None:
        self._end()


class AsyncClosable:
    """An object that ``aclose()`` or the end of an ``async with`` block closes."""

    __slots__ = ()

    def _end(self) -> None:
        raise NotImplementedError

    async def _end_async(self) -> None:
        self._end()

    async def aclose(self) -> None:
        """Cancels the calls in flight."""
        await self._end_async()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception_details: object) -> None:
        await self._end_async()
