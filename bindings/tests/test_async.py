"""The client for asyncio."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

from conftest import run

from dealkit import AsyncClient


def test_repr_and_pickle(async_client: AsyncClient) -> None:
    again = pickle.loads(pickle.dumps(async_client))
    assert repr(again) == repr(async_client) == f"AsyncClient(base_url='{async_client.base_url}')"
    assert run(again.deals.retrieve("d_1")).id == "d_1"


def test_several_tasks_on_one_iterator(async_client: AsyncClient) -> None:
    async def main() -> None:
        for _ in range(20):
            deals = async_client.deals.retrieve_many([f"d_{n % 3 + 1}" for n in range(30)], concurrency=4)

            async def work(deals: Any = deals) -> int:
                return len([deal async for deal in deals])

            counts = await asyncio.wait_for(asyncio.gather(*(work() for _ in range(5))), 20)
            assert sum(counts) == 30

    run(main())
