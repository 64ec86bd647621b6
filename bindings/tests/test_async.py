"""The client for asyncio."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import pytest
from conftest import ADA, after, answer, of, run

from dealkit import AsyncClient, NotFoundError
from dealkit.testing import Sandbox


def test_create_and_retrieve(dealkit_sandbox: Sandbox) -> None:
    async def main() -> None:
        async with of(dealkit_sandbox, AsyncClient) as client:
            agent = await client.agents.create(**ADA, role="ADMIN")
            assert dealkit_sandbox.agents == [agent]
            assert (await client.deals.retrieve("d_1")).id == "d_1"
            with pytest.raises(NotFoundError):
                await client.deals.retrieve("nope")
            assert (await client.request("GET", "deals", "d_2")).json()["id"] == "d_2"
            response = await client.with_raw_response.deals.retrieve("d_1")
            assert response.status_code == 200 and response.parse().id == "d_1"
            assert (await client.with_raw_response.agents.create(**ADA)).status_code == 201

    run(main())


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


def test_retrieve_many(async_client: AsyncClient) -> None:
    async def main() -> None:
        ids = [f"d_{n % 3 + 1}" for n in range(50)]
        deals = [deal async for deal in async_client.deals.retrieve_many(ids, concurrency=7)]
        assert [deal.id for deal in deals] == ids
        outcomes = [o async for o in async_client.deals.retrieve_many(["d_1", "no", "d_2"], on_error="return")]
        assert isinstance(outcomes[1], NotFoundError)
        assert (outcomes[1].id, outcomes[1].index) == ("no", 1)
        assert [o.id for o in outcomes] == ["d_1", "no", "d_2"]
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


def test_many_whole_responses(async_client: AsyncClient) -> None:
    async def main() -> None:
        responses = async_client.with_raw_response.deals.retrieve_many(["d_1", "no"], on_error="return")
        found = [response async for response in responses]
        assert isinstance(found[1], NotFoundError) and not isinstance(found[0], Exception)
        assert (found[0].status_code, found[0].parse().id) == (200, "d_1")

    run(main())
