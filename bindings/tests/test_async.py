"""The client for asyncio."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import pytest
from conftest import after, answer, run

from dealkit import AsyncClient, NotFoundError


def test_repr_and_pickle(async_client: AsyncClient) -> None:
    again = pickle.loads(pickle.dumps(async_client))
    assert repr(again) == repr(async_client) == f"AsyncClient(base_url='{async_client.base_url}')"
    assert run(again.deals.retrieve("d_1")).id == "d_1"


def test_the_loop_is_not_blocked(peer: Any) -> None:
    server = peer(after(0.3, answer(200, '{"id": "d_1"}')))

    async def main() -> int:
        client = AsyncClient(base_url=server.url, service_key="k")
        task = asyncio.create_task(client.deals.retrieve("d_1"))
        ticks = 0
        while not task.done():
            ticks += 1
            await asyncio.sleep(0.01)
        assert (await task).id == "d_1"
        return ticks

    assert run(main()) > 5


def test_an_error_ends_many(async_client: AsyncClient) -> None:
    async def main() -> None:
        ending = async_client.deals.retrieve_many(["d_1", "no", "d_2"])
        with pytest.raises(NotFoundError):
            _ = [deal async for deal in ending]
        assert [deal async for deal in ending] == []
        with pytest.raises(TypeError, match="iterable"):
            async_client.deals.retrieve_many(5)  # type: ignore[call-overload]

    run(main())


def test_several_tasks_on_one_iterator(async_client: AsyncClient) -> None:
    async def main() -> None:
        for _ in range(20):
            deals = async_client.deals.retrieve_many([f"d_{n % 3 + 1}" for n in range(30)], concurrency=4)

            async def work(deals: Any = deals) -> int:
                return len([deal async for deal in deals])

            counts = await asyncio.wait_for(asyncio.gather(*(work() for _ in range(5))), 20)
            assert sum(counts) == 30

    run(main())
