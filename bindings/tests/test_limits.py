"""Rate limits, and pauses that a service asks for: all calls of a client share them, however they are made.

What keeps to a limit, and when, is tested in Rust (`sdk/tests/wire/limits.rs`).
"""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from conftest import answer, run

from dealkit import AsyncClient, Client, RateLimitError, ThrottledError

ADA: Any = {"email": "ada@example.com", "first_name": "Ada", "last_name": "Lovelace", "profile": {}}
BODY = '{"id": "d_1", "email": "e", "first_name": "f", "last_name": "l", "profile": {}, "role_assignments": []}'


def test_who_shares_a_limit(peer: Any) -> None:
    service = peer(answer(200, BODY))
    client = Client(base_url=service.url, service_key="k", rate_limit=0.001, timeout=5)
    client.deals.retrieve("d_1")
    # A client made from the one with the limit, or from one that was made from it, has the same limit.
    for same in (client, client.with_options(timeout=6), client.with_options(rate_limit=0.001, user_agent="u")):
        with pytest.raises(ThrottledError, match="rate_limit") as caught:
            same.deals.retrieve("d_1")
        assert (caught.value.outcome, caught.value.attempts) == ("not_sent", 0)
        assert 900 < (caught.value.retry_after or 0) <= 1000
        assert not isinstance(caught.value, TimeoutError | ConnectionError)
        assert re.search("would delay this call by 16 min [0-9]+ s, longer than its timeout allows$", str(caught.value))
        with pytest.raises(ThrottledError, match="rate_limit"):
            list(same.deals.retrieve_many(["d_1"]))
        with pytest.raises(ThrottledError, match="rate_limit"):
            same.with_options(headers={"a": "b"}).agents.create(**ADA)
    for other in (client.with_options(rate_limit=None), client.with_options(service_key="other")):
        other.deals.retrieve("d_1")
    faster = client.with_options(rate_limit=0.002)
    faster.deals.retrieve("d_1")
    with pytest.raises(ThrottledError, match="rate_limit"):
        faster.with_options(timeout=4).deals.retrieve("d_1")
    assert len(service.requests) == 4


@pytest.mark.parametrize("of_class", [Client, AsyncClient])
def test_a_pause_is_for_all_calls(of_class: Any, peer: Any) -> None:
    server = peer(answer(429, "", {"Retry-After": "50"}))
    client = of_class(base_url=server.url, service_key="k", timeout=5)

    async def calls() -> None:
        async def ended(call: Any) -> Any:
            return await call if of_class is AsyncClient else call

        with pytest.raises(RateLimitError) as told:
            await ended(client.deals.retrieve("d_1"))
        assert told.value.retry_after == 50
        with pytest.raises(ThrottledError, match="not sent: the service has asked for fewer requests") as caught:
            await ended(client.with_options(max_retries=0).agents.create(**ADA))
        assert (caught.value.outcome, caught.value.attempts) == ("not_sent", 0)
        assert 40 < (caught.value.retry_after or 0) <= 50
        bulk = client.deals.retrieve_many(["d_1", "d_2"], on_error="return")
        results = [error async for error in bulk] if of_class is AsyncClient else list(bulk)
        assert [(type(error), error.outcome) for error in results] == [(ThrottledError, "not_sent")] * 2

    run(calls())
    assert len(server.requests) == 1


def test_a_call_that_is_cancelled_while_it_waits(peer: Any) -> None:
    service = peer(answer(200, BODY))
    client = AsyncClient(base_url=service.url, service_key="k", rate_limit=1)

    async def calls() -> None:
        await client.deals.retrieve("d_1")
        waiting = [asyncio.create_task(client.deals.retrieve("d_1")) for _ in range(20)]
        await asyncio.sleep(0)
        for task in waiting:
            task.cancel()
        ended = await asyncio.gather(*waiting, return_exceptions=True)
        assert {type(each) for each in ended} == {asyncio.CancelledError}
        # If their turns were kept for them, this would take 20 s longer.
        await client.deals.retrieve("d_1", timeout=3)

    run(calls())
    assert len(service.requests) == 2
