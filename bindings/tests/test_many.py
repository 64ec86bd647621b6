"""Many deals with the client that waits; for the other one see test_async."""

from __future__ import annotations

import itertools
import json
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import answer

from dealkit import Client, Deal, DecodeError, NotFoundError, ValidationError
from dealkit.testing import Sandbox


def ids(count: int) -> list[str]:
    return [f"d_{n % 3 + 1}" for n in range(count)]


def test_in_order(client: Client) -> None:
    wanted = ids(100)
    assert [deal.id for deal in client.deals.retrieve_many(wanted)] == wanted
    assert [deal.id for deal in client.deals.retrieve_many(iter(wanted), concurrency=1)] == wanted
    assert [deal.id for deal in client.deals.retrieve_many(tuple(wanted), concurrency=1000)] == wanted
    assert sorted(deal.id for deal in client.deals.retrieve_many(wanted, ordered=False)) == sorted(wanted)
    assert list(client.deals.retrieve_many([])) == []


def test_as_they_arrive(peer: Any) -> None:
    release = threading.Event()

    def respond(request: bytes) -> bytes:
        if b"/slow " in request:
            release.wait(5)
        name = request.split(b" ")[1].rpartition(b"/")[2].decode()
        return answer(200, f'{{"id": "{name}"}}')

    server = peer(respond)
    with Client(base_url=server.url, service_key="k") as client:
        deals = client.deals.retrieve_many(["slow", "quick"], ordered=False)
        assert next(deals).id == "quick"
        release.set()
        assert next(deals).id == "slow"
        with pytest.raises(StopIteration):
            next(deals)


def test_an_error_ends_it(client: Client) -> None:
    deals = client.deals.retrieve_many(["d_1", "no", "d_2"])
    assert next(deals).id == "d_1"
    with pytest.raises(NotFoundError) as caught:
        next(deals)
    assert (caught.value.index, caught.value.id) == (1, "no")
    assert list(deals) == []


def test_an_error_in_its_place(client: Client) -> None:
    outcomes = list(client.deals.retrieve_many(["d_1", "no", "..", "d_2"], on_error="return"))
    assert [type(outcome) for outcome in outcomes] == [Deal, NotFoundError, ValidationError, Deal]
    assert [outcome.id for outcome in outcomes] == ["d_1", "no", "..", "d_2"]
    assert "deals/no" not in str(outcomes[1])


@pytest.mark.parametrize("concurrency", [1, 5, 16, 100])
def test_an_endless_generator_is_asked_no_further_than_needed(client: Client, concurrency: int) -> None:
    asked = 0

    def endless() -> Any:
        nonlocal asked
        for n in itertools.count():
            asked += 1
            yield f"d_{n % 3 + 1}"

    deals = client.deals.retrieve_many(endless(), concurrency=concurrency)
    for taken, deal in enumerate(itertools.islice(deals, 250)):
        assert deal.id == f"d_{taken % 3 + 1}"
        assert taken < asked <= taken + concurrency
    deals.close()
    assert list(deals) == []


def test_an_iterator_of_identifiers_that_takes_deals_itself(client: Client) -> None:
    class Ids:
        def __init__(self) -> None:
            self.taken: list[str] = []
            self.left = ids(40)

        def __iter__(self) -> Ids:
            return self

        def __next__(self) -> str:
            if not self.left:
                raise StopIteration
            if len(self.left) == 20:
                self.left.pop()
                self.taken.append(next(deals).id)
            return self.left.pop()

    wanted = Ids()
    deals = client.deals.retrieve_many(wanted, concurrency=16)
    assert len([*deals]) + len(wanted.taken) == 39
    assert len(wanted.taken) == 1


def test_deals_that_are_too_large_to_be_read_at_once(peer: Any) -> None:
    large = "x" * 200_000
    server = peer(lambda request: answer(200, f'{{"id": "d", "status": "{large}"}}'))
    with Client(base_url=server.url, service_key="k") as client:
        deals = client.deals.retrieve_many(["d"] * 30, concurrency=30)
        first = next(deals)
        time.sleep(0.2)
        assert [deal.status for deal in (first, *deals)] == [large] * 30


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


def test_a_callable_is_told_of_progress(client: Client) -> None:
    told: list[tuple[int, int | None]] = []
    list(client.deals.retrieve_many(ids(3), progress=lambda done, total: told.append((done, total))))
    assert told == [(1, 3), (2, 3), (3, 3)]
    told.clear()
    list(client.deals.retrieve_many(iter(ids(2)), progress=lambda done, total: told.append((done, total))))
    assert told == [(1, None), (2, None)]

    def broken(done: int, total: int | None) -> None:
        raise LookupError("mine")

    deals = client.deals.retrieve_many(ids(3), progress=broken)
    with pytest.raises(LookupError):
        next(deals)
    assert list(deals) == []


def test_a_plain_line_without_tqdm(
    client: Client, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    list(client.deals.retrieve_many(ids(3), progress=True))
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.endswith("\r3/3 deals\n")


def test_a_bar_with_tqdm(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []

    class Bar:
        def __init__(self, **options: object) -> None:
            calls.append(options)

        def update(self) -> None:
            calls.append("update")

        def close(self) -> None:
            calls.append("close")

    module = type(sys)("tqdm.auto")
    module.tqdm = Bar  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tqdm", type(sys)("tqdm"))
    monkeypatch.setitem(sys.modules, "tqdm.auto", module)
    list(client.deals.retrieve_many(ids(2), progress=True))
    assert calls == [{"total": 2, "unit": "deal"}, "update", "update", "close"]


def test_a_slow_consumer_loses_nothing() -> None:
    with Sandbox() as sandbox, Client(base_url=sandbox.url, service_key="sandbox-key", timeout=0.5) as client:
        deals = client.deals.retrieve_many(ids(4), concurrency=4)
        next(deals)
        time.sleep(0.8)
        assert len(list(deals)) == 3


def test_in_threads_at_once(client: Client) -> None:
    wanted = ids(60)
    found: list[list[str]] = []

    def work() -> None:
        found.append([deal.id for deal in client.deals.retrieve_many(wanted)])

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [wanted] * 8


def test_several_threads_on_one_iterator(client: Client) -> None:
    """Every deal goes to one of the threads, and each thread reaches the end."""
    for _ in range(20):
        deals = client.deals.retrieve_many([f"d_{n % 3 + 1}" for n in range(60)], concurrency=8)
        found: list[str] = []
        failed: list[BaseException] = []

        def work(deals: Iterator[Deal] = deals, found: list[str] = found, failed: Any = failed) -> None:
            try:
                found.extend(deal.id for deal in deals)
                assert next(deals, None) is None
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert not any(thread.is_alive() for thread in threads)
        assert failed == [] and len(found) == 60


def test_whole_responses(client: Client) -> None:
    for ordered in (True, False):
        wanted = ids(20)
        responses = list(client.with_raw_response.deals.retrieve_many(wanted, ordered=ordered, concurrency=4))
        assert {response.status_code for response in responses} == {200}
        assert all(response.request_id and response.attempts == 1 for response in responses)
        found = [response.parse().id for response in responses]
        assert (found if ordered else sorted(found)) == (wanted if ordered else sorted(wanted))


def test_whole_responses_and_errors(client: Client) -> None:
    raw = client.with_raw_response.deals
    first, error, last = raw.retrieve_many(["d_1", "no", "d_2"], on_error="return")
    assert isinstance(error, NotFoundError) and (error.index, error.id) == (1, "no")
    assert [json.loads(one.body)["id"] for one in (first, last) if not isinstance(one, Exception)] == ["d_1", "d_2"]
    responses = raw.retrieve_many(["d_1", "no", "d_2"])
    assert next(responses).headers["x-request-id"]
    with pytest.raises(NotFoundError):
        next(responses)


def test_a_whole_response_that_is_no_deal(peer: Any) -> None:
    """Its body is available to the caller."""
    with Client(base_url=peer(answer(200, "[1.10]")).url, service_key="k") as client:
        (response,) = client.with_raw_response.deals.retrieve_many(["d_1"])
        assert response.body == b"[1.10]" and str(response.json()) == "[Decimal('1.10')]"
        with pytest.raises(DecodeError):
            response.parse()


def test_how_far_it_has_come(client: Client) -> None:
    deals = client.deals.retrieve_many(["d_1", "d_2", "d_3"], concurrency=2)
    assert repr(deals) == "<DealIterator: 0 done, 0 in flight>"
    next(deals)
    assert repr(deals).startswith("<DealIterator: 1 done, ")
    assert len([*deals]) == 2 and repr(deals) == "<DealIterator: ended>"
    table = client.deals.retrieve_many(["d_1", "d_2"]).to_arrow(batch_size=1)
    assert repr(table) == "<DealTable: not begun>"
    assert len([*table]) == 2 and repr(table) == "<DealTable: 2 done>"
