"""Retrieving deals into tables: timing of requests, errors, signals, and the GIL."""

from __future__ import annotations

import asyncio
import logging
import signal
from typing import Any

import polars
import pyarrow
import pytest
from conftest import as_any, http_response, run_async
from processes import Peer, start_python, wait_for_success

from dealkit import AsyncClient, Client, DecodeError, NotFoundError
from dealkit.arrow import Table
from dealkit.testing import Sandbox

MISSING = ["d_1", "nothing", "d_2", "d_3"]


def make_ids(count: int) -> list[str]:
    return [f"d_{n % 3 + 1}" for n in range(count)]


def read_ids(table: Any) -> list[str]:
    return pyarrow.table(table)["id"].to_pylist()  # type: ignore[no-any-return]


def test_to_arrow_retrieves_all_deals_into_one_table(client: Client, dealkit_sandbox: Sandbox) -> None:
    table = client.deals.retrieve_many(make_ids(100), concurrency=8).to_arrow()
    assert table.schema.names[0] == "id" and pyarrow.schema(table).names[0] == "id"
    assert dealkit_sandbox.requests == []  # no request is sent before rows are requested
    assert read_ids(table) == make_ids(100)
    # The table retains the deals and shares them with all consumers.
    assert read_ids(table) == make_ids(100) and len(polars.DataFrame(table)) == 100
    assert len(dealkit_sandbox.requests) == 100
    assert read_ids(client.deals.retrieve_many([]).to_arrow()) == []
    unordered = client.deals.retrieve_many(make_ids(50), ordered=False).to_arrow()
    assert sorted(read_ids(unordered)) == sorted(make_ids(50))


@pytest.mark.parametrize("batch_size", [1, 7, 100, 1000])
def test_to_arrow_with_batch_size_yields_batches(client: Client, batch_size: int) -> None:
    sizes = [min(batch_size, 100 - at) for at in range(0, 100, batch_size)]
    batches = [*client.deals.retrieve_many(make_ids(100)).to_arrow(batch_size=batch_size)]
    assert [len(batch) for batch in batches] == sizes
    assert [name for batch in batches for name in read_ids(batch)] == make_ids(100)
    whole = client.deals.retrieve_many(make_ids(100)).to_arrow(batch_size=batch_size)
    for _ in range(2):
        assert [batch.num_rows for batch in pyarrow.RecordBatchReader.from_stream(whole)] == sizes
    assert [*client.deals.retrieve_many([]).to_arrow(batch_size=batch_size)] == []


def test_an_error_ends_to_arrow(client: Client) -> None:
    with pytest.raises(NotFoundError) as caught:
        polars.DataFrame(client.deals.retrieve_many(MISSING).to_arrow())
    assert (caught.value.index, caught.value.id) == (1, "nothing")
    table = client.deals.retrieve_many(MISSING).to_arrow(batch_size=1)
    batches = iter(table)
    assert read_ids(next(batches)) == ["d_1"]
    with pytest.raises(NotFoundError):
        next(batches)
    with pytest.raises(RuntimeError, match="not all deals have been retrieved"):
        _ = table.errors


@pytest.mark.parametrize("batch_size", [None, 2])
def test_returned_errors_are_in_a_separate_table(client: Client, batch_size: int | None) -> None:
    wanted = [*MISSING, ".."]
    table = client.deals.retrieve_many(wanted, on_error="return").to_arrow(batch_size=batch_size)
    with pytest.raises(RuntimeError, match="not all deals have been retrieved"):
        _ = table.errors
    assert read_ids(table) == ["d_1", "d_2", "d_3"]
    assert table.errors is not None and len(table.errors) == 2
    found = pyarrow.table(table.errors)
    assert found.column_names == ["index", "id", "kind", "status", "outcome", "message"]
    first, second = found.to_pylist()
    message = first.pop("message")
    assert first == {"index": 1, "id": "nothing", "kind": "status", "status": 404, "outcome": "rejected"}
    assert message.startswith("GET /v1/deals/{id}: 404 Not Found") and "nothing" not in message
    assert (second["index"], second["kind"], second["status"], second["outcome"]) == (4, "validation", None, "not_sent")
    fine = client.deals.retrieve_many(make_ids(3), on_error="return").to_arrow()
    assert read_ids(fine) == make_ids(3) and fine.errors is not None and len(fine.errors) == 0
    raising = client.deals.retrieve_many(make_ids(3)).to_arrow()
    assert read_ids(raising) == make_ids(3) and raising.errors is None


def test_a_deal_that_does_not_fit(peer: Any) -> None:
    server = peer(http_response(200, '{"id": "d", "sides": [{"side_percentage": 33.3333}]}'))
    with Client(base_url=server.url, service_key="k") as client:
        with pytest.raises(DecodeError) as caught:
            read_ids(client.deals.retrieve_many(["a"]).to_arrow(scale=2))
        assert caught.value.path == "sides[0].side_percentage"
        assert (caught.value.id, caught.value.index, caught.value.outcome) == ("a", 0, "succeeded")
        table = client.deals.retrieve_many(["a"], on_error="return").to_arrow(scale=2)
        assert read_ids(table) == []
        error = pyarrow.table(table.errors).to_pylist()[0]
        assert (error["kind"], error["status"], error["outcome"]) == ("decode", 200, "succeeded")
        found = pyarrow.table(client.deals.retrieve_many(["a"]).to_arrow(decimals="string"))
        assert found["sides"][0][0]["side_percentage"].as_py() == "33.3333"


def test_deals_are_consumed_once(client: Client) -> None:
    deals = client.deals.retrieve_many(make_ids(3))
    table = deals.to_arrow(batch_size=1)
    with pytest.raises(RuntimeError, match=r"call to_arrow\(\) before taking any deal"):
        deals.to_arrow()
    assert [*deals] == []
    assert [name for batch in table for name in read_ids(batch)] == make_ids(3)
    with pytest.raises(RuntimeError, match="have already been taken"):
        read_ids(table)
    begun = client.deals.retrieve_many(make_ids(3))
    next(begun)
    with pytest.raises(RuntimeError, match=r"call to_arrow\(\) before taking any deal"):
        begun.to_arrow()
    begun.close()


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"batch_size": 0}, ValueError, "batch_size must be at least 1, not 0"),
        ({"batch_size": "5"}, TypeError, "batch_size must be an int or None, not str"),
        ({"scale": 39}, ValueError, "scale must be from 0 to 38, not 39"),
    ],
)
def test_wrong_use(client: Client, options: dict[str, Any], error: type[Exception], text: str) -> None:
    deals = client.deals.retrieve_many(make_ids(1))
    with pytest.raises(error, match=text):
        deals.to_arrow(**as_any(options))
    assert [deal.id for deal in deals] == make_ids(1)  # the failed call has consumed no deal


def test_progress_and_log(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    progress_calls: list[tuple[int, int | None]] = []
    table = client.deals.retrieve_many(
        MISSING, on_error="return", progress=lambda *done: progress_calls.append(done)
    ).to_arrow()
    with caplog.at_level(logging.INFO, logger="dealkit"):
        read_ids(table)
    assert progress_calls == [(n, 4) for n in (1, 2, 3, 4)]
    assert sorted(record.getMessage().split()[2] for record in caplog.records) == ["200", "200", "200", "404"]


def test_to_arrow_with_an_async_client(async_client: AsyncClient) -> None:
    async def main() -> None:
        table = await async_client.deals.retrieve_many(make_ids(100)).to_arrow()
        assert isinstance(table, Table) and read_ids(table) == make_ids(100) and table.errors is None
        sizes = []
        async for batch in async_client.deals.retrieve_many(make_ids(100)).to_arrow(batch_size=40):
            sizes.append(len(batch))
        assert sizes == [40, 40, 20]
        with pytest.raises(NotFoundError) as caught:
            await async_client.deals.retrieve_many(MISSING).to_arrow()
        assert (caught.value.index, caught.value.id) == (1, "nothing")
        table = await async_client.deals.retrieve_many(MISSING, on_error="return").to_arrow()
        assert read_ids(table) == ["d_1", "d_2", "d_3"] and table.errors is not None and len(table.errors) == 1
        progress_calls: list[int] = []
        progress = async_client.deals.retrieve_many(make_ids(50), progress=lambda done, _: progress_calls.append(done))
        await progress.to_arrow()
        assert progress_calls == [*range(1, 51)]

    run_async(main())


def test_cancelling_an_await_cancels_calls_in_flight() -> None:
    async def main(url: str, tarpit: Peer) -> None:
        async with AsyncClient(base_url=url, service_key="k") as client:
            table = client.deals.retrieve_many(make_ids(3)).to_arrow()
            waiting = asyncio.ensure_future(table)
            await asyncio.to_thread(tarpit.wait_for_requests, 3)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await asyncio.to_thread(tarpit.wait_for_ends, 3, 30)

    with Peer() as tarpit:
        run_async(main(tarpit.url, tarpit))


INTERRUPTED = """
import os, signal, sys, threading
import polars, pyarrow
from dealkit import Client
signal.signal(signal.SIGINT, signal.default_int_handler)
table = Client().deals.retrieve_many(["d_1", "d_2"]).to_arrow(%s)
try:
    %s
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize(
    ("options", "take"),
    [("", "polars.DataFrame(table)"), ("", "pyarrow.table(table)"), ("batch_size=1", "next(iter(table))")],
)
def test_ctrl_c(options: str, take: str) -> None:
    with Peer() as tarpit:
        process = start_python(INTERRUPTED % (options, take), url=tarpit.url, flags=())
        tarpit.wait_for_requests(2)
        process.send_signal(signal.SIGINT)
        assert wait_for_success(process, 30) == "interrupted\n"


def test_arrow_export_needs_no_library() -> None:
    script = """
import sys
for name in ("pyarrow", "polars", "pandas", "numpy", "duckdb"):
    sys.modules[name] = None
import dealkit.arrow
table = dealkit.arrow.deals_to_arrow([b'{"id": "d_1"}'])
print(len(table), type(table.__arrow_c_stream__()).__name__)
"""
    assert wait_for_success(start_python(script)) == "1 PyCapsule\n"
