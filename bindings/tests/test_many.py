"""``retrieve_many``, and the behaviour that ``create_many`` shares with it."""

from __future__ import annotations

import asyncio
import itertools
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import pytest
from conftest import BOTH_CLIENTS, DEAL_AND_AGENT_BODY, http_response, make_client, make_row, run_async, wait_for_result
from processes import HANG_SECONDS, wait_until

from dealkit import AsyncClient, Client, Deal, NotFoundError, ValidationError
from dealkit.testing import Sandbox


class Bulk(NamedTuple):
    """``retrieve_many`` or ``create_many``, with functions that make its inputs and number its results."""

    many: Callable[..., Any]
    given: Callable[[int], Any]
    number: Callable[[Any], int]
    unit: str


RETRIEVE = Bulk(
    lambda client, given, **options: client.deals.retrieve_many(given, **options),
    lambda number: f"g_{number}",
    lambda deal: int(deal.id.removeprefix("g_")),
    "deal",
)
CREATE = Bulk(
    lambda client, given, **options: client.agents.create_many(given, **options),
    make_row,
    lambda creation: int(creation.agent.email.removeprefix("row").partition("@")[0]),
    "agent",
)
BULK = pytest.mark.parametrize("bulk", [RETRIEVE, CREATE], ids=["retrieve", "create"])


@pytest.fixture(scope="module")
def many_deals() -> Iterator[Client]:
    """A client of a sandbox with many deals."""
    with Sandbox(generate=300) as sandbox, make_client(sandbox) as client:
        yield client


def ids(count: int) -> list[str]:
    return [f"d_{n % 3 + 1}" for n in range(count)]


def retrieve_all(client: Any, given: Iterable[str], **options: Any) -> list[Any]:
    """Returns the results of ``retrieve_many`` of a blocking or an async client."""
    items: list[Any] = wait_for_result(client, lambda client: client.deals.retrieve_many(given, **options))
    return items


@BOTH_CLIENTS
def test_in_order(of_class: Any, sandbox: Sandbox) -> None:
    client, wanted = make_client(sandbox, of_class), ids(100)
    for given, options in ((wanted, {}), (iter(wanted), {"concurrency": 1}), (tuple(wanted), {"concurrency": 1000})):
        assert [deal.id for deal in retrieve_all(client, given, **options)] == wanted
    assert sorted(deal.id for deal in retrieve_all(client, wanted, ordered=False)) == sorted(wanted)
    assert retrieve_all(client, []) == []


@BULK
def test_as_they_arrive(bulk: Bulk, peer: Any) -> None:
    release = threading.Event()

    def respond(request: bytes) -> bytes:
        if b"g_0 " in request or b"row0@" in request:
            release.wait(HANG_SECONDS)
        number = re.findall(rb"(?:g_|row)(\d+)", request)[0].decode()
        return http_response(
            200, DEAL_AND_AGENT_BODY.replace('"d_1"', f'"g_{number}"').replace('"e"', f'"row{number}@example.com"')
        )

    with Client(base_url=peer(respond).url, service_key="k") as client:
        items = bulk.many(client, map(bulk.given, range(2)), ordered=False)
        assert bulk.number(next(items)) == 1
        release.set()
        assert bulk.number(next(items)) == 0
        with pytest.raises(StopIteration):
            next(items)


def test_an_error_ends_the_iterator(client: Client) -> None:
    deals = client.deals.retrieve_many(["d_1", "no", "d_2"])
    assert next(deals).id == "d_1"
    with pytest.raises(NotFoundError) as caught:
        next(deals)
    assert (caught.value.index, caught.value.id) == (1, "no")
    assert list(deals) == []


@BOTH_CLIENTS
def test_errors_are_returned_in_order(of_class: Any, sandbox: Sandbox) -> None:
    outcomes = retrieve_all(make_client(sandbox, of_class), ["d_1", "no", "..", "d_2"], on_error="return")
    assert [type(outcome) for outcome in outcomes] == [Deal, NotFoundError, ValidationError, Deal]
    assert [outcome.id for outcome in outcomes] == ["d_1", "no", "..", "d_2"]
    assert "deals/no" not in str(outcomes[1])


@BULK
@pytest.mark.parametrize("concurrency", [1, 5, 16, 100])
def test_only_the_inputs_in_flight_are_taken_from_a_generator(bulk: Bulk, concurrency: int, many_deals: Client) -> None:
    yielded = 0

    def endless() -> Iterator[Any]:
        nonlocal yielded
        for n in itertools.count():
            yielded += 1
            yield bulk.given(n)

    items = bulk.many(many_deals, endless(), concurrency=concurrency)
    assert yielded == 0
    for taken, item in enumerate(itertools.islice(items, 250)):
        assert bulk.number(item) == taken
        assert taken < yielded <= taken + concurrency
    items.close()
    assert list(items) == []


def test_responses_are_read_while_the_caller_is_busy(peer: Any) -> None:
    # Larger than the buffers of a connection, so that the server can only write it if the client reads.
    large = http_response(200, '{"id": "large", "status": "' + "x" * 200_000 + '"}' + " " * (1 << 25))
    is_busy = threading.Event()

    def respond(request: bytes) -> bytes:
        if b"first" in request:
            return http_response(200, DEAL_AND_AGENT_BODY)
        assert is_busy.wait(HANG_SECONDS)
        if b"second" in request:
            return http_response(200, DEAL_AND_AGENT_BODY)
        wait_until(lambda: server.answered == 2)
        return large

    server = peer(respond)
    with Client(base_url=server.url, service_key="k", max_response_bytes=1 << 26) as client:
        deals = client.deals.retrieve_many(["first", "second", "large"], ordered=False)
        first = next(deals)
        is_busy.set()
        wait_until(lambda: server.answered == 3)
        assert sorted(len(deal.status or "") for deal in (first, *deals)) == [0, 0, 200_000]


def test_a_generator_that_raises(client: Client) -> None:
    def broken() -> Any:
        yield "d_1"
        raise LookupError("mine")

    deals = client.deals.retrieve_many(broken(), concurrency=1)
    assert next(deals).id == "d_1"
    with pytest.raises(LookupError, match="mine"):
        next(deals)
    assert list(deals) == []
    with pytest.raises(TypeError, match=r"ids\[1\] must be a str, not int"):
        list(client.deals.retrieve_many(["d_1", 5]))  # type: ignore[list-item]


@BULK
def test_a_callable_gets_the_progress(bulk: Bulk, many_deals: Client) -> None:
    calls: list[tuple[int, int | None]] = []
    for given, total in (([*map(bulk.given, range(3))], 3), (map(bulk.given, range(3)), None)):
        calls.clear()
        list(bulk.many(many_deals, given, progress=lambda done, total: calls.append((done, total))))
        assert calls == [(1, total), (2, total), (3, total)]


@BULK
def test_a_line_shows_progress(
    bulk: Bulk, many_deals: Client, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = [*map(bulk.given, range(3))]
    list(bulk.many(many_deals, given, progress=True))
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", f"3/3 {bulk.unit}s\n")
    # On a terminal, the line is rewritten.
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    list(bulk.many(many_deals, given, progress=True))
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.startswith(f"\r1/3 {bulk.unit}s")
    assert shown.err.endswith(f"\r3/3 {bulk.unit}s\n")
    with pytest.raises((ValidationError, TypeError)):
        list(bulk.many(many_deals, [given[0], 5], progress=True))
    # The next output starts on a new line.
    assert capsys.readouterr().err.endswith("\n")


@BULK
@pytest.mark.parametrize("ordered", [True, False])
def test_several_threads_on_one_iterator(bulk: Bulk, ordered: bool, many_deals: Client) -> None:
    """Every item goes to one of the threads, and each thread reaches the end."""
    for _ in range(10):
        items = bulk.many(many_deals, map(bulk.given, range(60)), concurrency=8, ordered=ordered)

        def work(items: Any = items) -> list[int]:
            numbers = [bulk.number(item) for item in items]
            assert next(items, None) is None
            return numbers

        with ThreadPoolExecutor(4) as pool:
            works = [pool.submit(work) for _ in range(4)]
            assert sorted(number for one in works for number in one.result(HANG_SECONDS)) == [*range(60)]


def test_several_tasks_on_one_iterator(sandbox: Sandbox) -> None:
    async def main() -> None:
        client = make_client(sandbox, AsyncClient)
        for _ in range(20):
            deals = client.deals.retrieve_many(ids(30), concurrency=4)

            async def work(deals: Any = deals) -> int:
                return len([deal async for deal in deals])

            counts = await asyncio.wait_for(asyncio.gather(*(work() for _ in range(5))), HANG_SECONDS)
            assert sum(counts) == 30

    run_async(main())


def test_the_repr_counts_results(client: Client) -> None:
    deals = client.deals.retrieve_many(["d_1", "d_2", "d_3"], concurrency=2)
    assert repr(deals) == "<DealIterator: 0 done, 0 in flight>"
    next(deals)
    assert repr(deals).startswith("<DealIterator: 1 done, ")
    assert len([*deals]) == 2 and repr(deals) == "<DealIterator: ended>"
    table = client.deals.retrieve_many(["d_1", "d_2"]).to_arrow(batch_size=1)
    assert repr(table) == "<DealTable: 0 done>"
    assert len([*table]) == 2 and repr(table) == "<DealTable: 2 done>"
