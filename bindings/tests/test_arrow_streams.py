"""Deals on their way into a table: when they are retrieved, what errors and signals do, and who holds the GIL."""

from __future__ import annotations

import asyncio
import ctypes
import itertools
import logging
import os
import signal
import threading
from pathlib import Path
from typing import Any

import polars
import pyarrow
import pytest
from conftest import answer, run, until, untyped
from processes import Tarpit, ended, python

from dealkit import AsyncClient, Client, ConfigError, DecodeError, NotFoundError
from dealkit.arrow import Table
from dealkit.testing import Sandbox

MISSING = ["d_1", "nothing", "d_2", "d_3"]


def ids(count: int) -> list[str]:
    return [f"d_{n % 3 + 1}" for n in range(count)]


def names(table: Any) -> list[str]:
    return pyarrow.table(table)["id"].to_pylist()  # type: ignore[no-any-return]


def test_all_at_once(client: Client, dealkit_sandbox: Sandbox) -> None:
    table = client.deals.retrieve_many(ids(100), concurrency=8).to_arrow()
    assert table.schema.names[0] == "id" and pyarrow.schema(table).names[0] == "id"
    assert dealkit_sandbox.requests == []  # No request is sent before somebody asks for rows.
    assert names(table) == ids(100)
    # The deals are kept, and shared with every consumer.
    assert names(table) == ids(100) and len(polars.DataFrame(table)) == 100
    assert len(dealkit_sandbox.requests) == 100
    assert names(client.deals.retrieve_many([]).to_arrow()) == []
    unordered = client.deals.retrieve_many(ids(50), ordered=False).to_arrow()
    assert sorted(names(unordered)) == sorted(ids(50))


def test_nobody_watches(dealkit_sandbox: Sandbox) -> None:
    """In a process of its own, as pytest itself listens to the log. When the identifiers exactly fill what may be in
    flight, none are left to hand over after the last one.
    """
    code = """
import pyarrow
from dealkit import Client
client = Client()
for count in (1, 2, 16, 32, 33):
    for concurrency in (1, 2, 16):
        ids = [f"d_{n % 3 + 1}" for n in range(count)]
        table = client.deals.retrieve_many(ids, concurrency=concurrency).to_arrow()
        assert pyarrow.table(table)["id"].to_pylist() == ids
        batches = client.deals.retrieve_many(ids, concurrency=concurrency).to_arrow(batch_size=5)
        assert [id for batch in batches for id in pyarrow.table(batch)["id"].to_pylist()] == ids
"""
    ended(python(code, url=dealkit_sandbox.url))


def test_a_log_that_is_switched_on_and_off_meanwhile(client: Client) -> None:
    logger = logging.getLogger("dealkit")
    batches = iter(client.deals.retrieve_many(ids(90), concurrency=4).to_arrow(batch_size=10))
    try:
        come = []
        for level in (logging.NOTSET, logging.DEBUG) * 5:
            come += names(next(batches, pyarrow.table({"id": []})))
            logger.setLevel(level)
        assert come == ids(90)
    finally:
        logger.setLevel(logging.NOTSET)


def test_calls_that_began_before_anybody_watched_are_not_logged(dealkit_sandbox: Sandbox) -> None:
    """In a process of its own, as pytest itself listens to the log. The identifiers' generator switches the log on."""
    code = """
import logging
from dealkit import Client
logger = logging.getLogger("dealkit")
said = []
handler = logging.Handler(logging.INFO)
handler.emit = lambda record: said.append(record.getMessage())
def ids():
    for n in range(12):
        if n == 4:
            logger.addHandler(handler)
            logger.setLevel(logging.INFO)
        yield "d_1"
batches = Client().deals.retrieve_many(ids(), concurrency=4).to_arrow(batch_size=5)
print([len(batch) for batch in batches], len(said), all(" 200 " in text for text in said))
"""
    assert ended(python(code, url=dealkit_sandbox.url)) == "[5, 5, 2] 8 True\n"


def test_closed_where_a_call_is_logged(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    table = client.deals.retrieve_many(ids(500)).to_arrow(batch_size=100)
    closing = logging.Handler()
    closing.emit = lambda record: table.close()  # type: ignore[method-assign]
    logger = logging.getLogger("dealkit")
    logger.addHandler(closing)
    try:
        with caplog.at_level(logging.INFO, logger="dealkit"):
            assert len([*table]) < 5
    finally:
        logger.removeHandler(closing)


@pytest.mark.parametrize("batch_size", [1, 7, 100, 1000])
def test_in_batches(client: Client, batch_size: int) -> None:
    sizes = [min(batch_size, 100 - at) for at in range(0, 100, batch_size)]
    batches = [*client.deals.retrieve_many(ids(100)).to_arrow(batch_size=batch_size)]
    assert [len(batch) for batch in batches] == sizes
    assert [name for batch in batches for name in names(batch)] == ids(100)
    stream = client.deals.retrieve_many(ids(100)).to_arrow(batch_size=batch_size)
    read = pyarrow.RecordBatchReader.from_stream(stream)
    assert [batch.num_rows for batch in read] == sizes
    assert [*client.deals.retrieve_many([]).to_arrow(batch_size=batch_size)] == []


def test_an_endless_generator(client: Client) -> None:
    asked = 0

    def endless() -> Any:
        nonlocal asked
        for n in itertools.count():
            asked += 1
            yield f"d_{n % 3 + 1}"

    batches: Any = iter(client.deals.retrieve_many(endless(), concurrency=4).to_arrow(batch_size=10))
    for _ in range(3):
        assert len(next(batches)) == 10
    batches.close()
    # One batch waits, one is being filled, and some deals are in flight or next to be sent.
    assert asked <= 30 + 2 * 10 + 4 * 4


def test_no_more_are_retrieved_than_there_is_room_for(client: Client, dealkit_sandbox: Sandbox) -> None:
    for take in (iter, pyarrow.RecordBatchReader.from_stream):
        dealkit_sandbox.clear_requests()
        stream = client.deals.retrieve_many(ids(1000), concurrency=4).to_arrow(batch_size=10)
        taken: Any = take(stream)
        first = next(taken) if take is iter else taken.read_next_batch()
        assert len(first) == 10
        if take is iter:
            taken.close()
        del taken, stream
        assert len(dealkit_sandbox.requests) <= 10 + 2 * 10 + 4


def test_an_error_ends_it(client: Client) -> None:
    with pytest.raises(NotFoundError) as caught:
        polars.DataFrame(client.deals.retrieve_many(MISSING).to_arrow())
    assert (caught.value.index, caught.value.id) == (1, "nothing")
    table = client.deals.retrieve_many(MISSING).to_arrow(batch_size=1)
    batches = iter(table)
    assert names(next(batches)) == ["d_1"]
    with pytest.raises(NotFoundError):
        next(batches)
    with pytest.raises(NotFoundError):
        _ = table.errors


def test_the_error_of_a_stream_that_another_library_reads(client: Client) -> None:
    stream = client.deals.retrieve_many(MISSING).to_arrow(batch_size=1)
    reader = pyarrow.RecordBatchReader.from_stream(stream)
    assert reader.read_next_batch()["id"].to_pylist() == ["d_1"]
    with pytest.raises(pyarrow.ArrowInvalid, match=r"deal 1: GET /v1/deals/\{id\}: 404 Not Found") as text:
        reader.read_next_batch()
    assert "nothing" not in str(text.value)
    with pytest.raises(NotFoundError) as caught:
        _ = stream.errors
    assert (caught.value.index, caught.value.id) == (1, "nothing")


@pytest.mark.parametrize("batch_size", [None, 2])
def test_errors_in_a_table_of_their_own(client: Client, batch_size: int | None) -> None:
    wanted = [*MISSING, ".."]
    table = client.deals.retrieve_many(wanted, on_error="return").to_arrow(batch_size=batch_size)
    with pytest.raises(RuntimeError, match="no deal has been retrieved yet"):
        _ = table.errors
    assert names(table) == ["d_1", "d_2", "d_3"]
    assert table.errors is not None and len(table.errors) == 2
    found = pyarrow.table(table.errors)
    assert found.column_names == ["index", "id", "kind", "status", "outcome", "message"]
    first, second = found.to_pylist()
    message = first.pop("message")
    assert first == {"index": 1, "id": "nothing", "kind": "status", "status": 404, "outcome": "rejected"}
    assert message.startswith("GET /v1/deals/{id}: 404 Not Found") and "nothing" not in message
    assert (second["index"], second["kind"], second["status"], second["outcome"]) == (4, "validation", None, "not_sent")
    fine = client.deals.retrieve_many(ids(3), on_error="return").to_arrow()
    assert names(fine) == ids(3) and fine.errors is not None and len(fine.errors) == 0
    raising = client.deals.retrieve_many(ids(3)).to_arrow()
    assert names(raising) == ids(3) and raising.errors is None


def test_a_deal_that_does_not_fit(peer: Any) -> None:
    server = peer(answer(200, '{"id": "d", "sides": [{"side_percentage": 33.3333}]}'))
    with Client(base_url=server.url, service_key="k") as client:
        with pytest.raises(DecodeError) as caught:
            names(client.deals.retrieve_many(["a"]).to_arrow(scale=2))
        assert caught.value.path == "sides[0].side_percentage"
        assert (caught.value.id, caught.value.index, caught.value.outcome) == ("a", 0, "succeeded")
        table = client.deals.retrieve_many(["a"], on_error="return").to_arrow(scale=2)
        assert names(table) == []
        error = pyarrow.table(table.errors).to_pylist()[0]
        assert (error["kind"], error["status"], error["outcome"]) == ("decode", 200, "succeeded")
        found = pyarrow.table(client.deals.retrieve_many(["a"]).to_arrow(decimals="string"))
        assert found["sides"][0][0]["side_percentage"].as_py() == "33.3333"


def test_a_text_with_a_zero_in_it(peer: Any) -> None:
    body = '{"title": "a\\u0000b"}'
    server = peer(answer(400, body, {"Content-Type": "application/problem+json"}))
    with Client(base_url=server.url, service_key="k") as client:
        with pytest.raises(pyarrow.ArrowInvalid, match="deal 0: GET"):
            names(client.deals.retrieve_many(["a"]).to_arrow(batch_size=1))


def test_they_are_taken_once(client: Client) -> None:
    deals = client.deals.retrieve_many(ids(3))
    table = deals.to_arrow(batch_size=1)
    with pytest.raises(RuntimeError, match=r"call to_arrow\(\) before taking any deal"):
        deals.to_arrow()
    assert [*deals] == []
    assert names(table) == ids(3)
    with pytest.raises(RuntimeError, match="have already been taken"):
        names(table)
    begun = client.deals.retrieve_many(ids(3))
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
    deals = client.deals.retrieve_many(ids(1))
    with pytest.raises(error, match=text):
        deals.to_arrow(**untyped(options))
    assert [deal.id for deal in deals] == ids(1)  # Nothing was taken from it.


def test_identifiers_that_are_none(client: Client) -> None:
    wrong: Any = ["d_1", 5]
    for batch_size in (None, 5):
        with pytest.raises(TypeError, match=r"ids\[1\] must be a str, not int"):
            names(client.deals.retrieve_many(wrong).to_arrow(batch_size=batch_size))

    def failing() -> Any:
        yield "d_1"
        raise LookupError("no more")

    for batch_size in (None, 5):
        with pytest.raises(LookupError, match="no more"):
            names(client.deals.retrieve_many(failing()).to_arrow(batch_size=batch_size))


def test_a_closed_client(client: Client) -> None:
    table = client.deals.retrieve_many(ids(3)).to_arrow()
    client.close()
    with pytest.raises(ConfigError, match="the client is closed"):
        names(table)


def test_closing_ends_a_stream(client: Client) -> None:
    with client.deals.retrieve_many(itertools.islice(itertools.repeat("d_1"), 10_000)).to_arrow(batch_size=5) as table:
        reader = pyarrow.RecordBatchReader.from_stream(table)
        assert reader.read_next_batch().num_rows == 5
    with pytest.raises(pyarrow.ArrowInvalid, match="the stream was closed before the last deal had arrived"):
        reader.read_all()


# All at once, consumed by a library, and consumed in Python.
TAKES = [(None, names), (10, names), (10, list)]


@pytest.mark.parametrize(("batch_size", "take"), TAKES)
def test_progress(client: Client, batch_size: int | None, take: Any) -> None:
    told: list[tuple[int, int | None]] = []

    def tell(done: int, total: int | None) -> None:
        told.append((done, total))

    take(client.deals.retrieve_many(ids(100), progress=tell).to_arrow(batch_size=batch_size))
    until(lambda: len(told) == 100, 30)
    assert told == [(n + 1, 100) for n in range(100)]


@pytest.mark.parametrize(("batch_size", "take"), TAKES)
def test_calls_are_logged(client: Client, caplog: pytest.LogCaptureFixture, batch_size: int | None, take: Any) -> None:
    with caplog.at_level(logging.INFO, logger="dealkit"):
        take(client.deals.retrieve_many(MISSING, on_error="return").to_arrow(batch_size=batch_size))
        until(lambda: len(caplog.records) == 4, 30)
    found = sorted(record.getMessage().split()[2] for record in caplog.records)
    assert found == ["200", "200", "200", "404"]


def test_awaited(async_client: AsyncClient) -> None:
    async def main() -> None:
        table = await async_client.deals.retrieve_many(ids(100)).to_arrow()
        assert isinstance(table, Table) and names(table) == ids(100) and table.errors is None
        sizes = []
        async for batch in async_client.deals.retrieve_many(ids(100)).to_arrow(batch_size=40):
            sizes.append(len(batch))
        assert sizes == [40, 40, 20]
        with pytest.raises(NotFoundError) as caught:
            await async_client.deals.retrieve_many(MISSING).to_arrow()
        assert (caught.value.index, caught.value.id) == (1, "nothing")
        table = await async_client.deals.retrieve_many(MISSING, on_error="return").to_arrow()
        assert names(table) == ["d_1", "d_2", "d_3"] and table.errors is not None and len(table.errors) == 1
        told: list[int] = []
        progress = async_client.deals.retrieve_many(ids(50), progress=lambda done, _: told.append(done))
        await progress.to_arrow()
        assert told == [*range(1, 51)]

    run(main())


def test_a_cancelled_await_cancels_what_is_in_flight() -> None:
    async def main(url: str, tarpit: Tarpit) -> None:
        async with AsyncClient(base_url=url, service_key="k") as client:
            table = client.deals.retrieve_many(ids(3)).to_arrow()
            waiting = asyncio.ensure_future(table)
            await asyncio.to_thread(tarpit.wait_for_requests, 3)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await asyncio.to_thread(tarpit.wait_for_ends, 3, 30)

    with Tarpit() as tarpit:
        run(main(tarpit.url, tarpit))


class Stream(ctypes.Structure):
    """Arrow's C stream, whose functions are called with the GIL held."""


_Call = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.POINTER(Stream), ctypes.c_void_p)
Stream._fields_ = [
    ("get_schema", _Call),
    ("get_next", _Call),
    ("get_last_error", ctypes.c_void_p),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]


def test_a_reader_may_hold_the_gil_while_an_event_loop_waits_for_it(client: Client, async_client: AsyncClient) -> None:
    capsule = client.deals.retrieve_many(ids(3000), progress=lambda *_: None).to_arrow(batch_size=10)
    held: Any = capsule.__arrow_c_stream__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.POINTER(Stream), [ctypes.py_object, ctypes.c_char_p]
    stream = pointer(held, b"arrow_array_stream")
    done = threading.Event()

    async def call() -> None:
        while not done.is_set():
            await asyncio.gather(*(async_client.deals.retrieve("d_1") for _ in range(8)))

    thread = threading.Thread(target=lambda: asyncio.run(call()))
    thread.start()
    rows = 0
    while True:
        array = (ctypes.c_int64 * 10)()
        assert stream.contents.get_next(stream, ctypes.addressof(array)) == 0
        if not array[8]:  # It is released: there are no more batches.
            break
        rows += array[0]
        ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(array[8])(ctypes.addressof(array))
    done.set()
    thread.join()
    assert rows == 3000


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
    with Tarpit() as tarpit:
        process = python(INTERRUPTED % (options, take), url=tarpit.url, flags=())
        tarpit.wait_for_requests(2)
        process.send_signal(signal.SIGINT)
        assert ended(process, 30) == "interrupted\n"


def test_the_interpreter_ends_with_a_stream_open(tmp_path: Path) -> None:
    script = """
import os, pyarrow, sys, threading, time
from dealkit import Client
client = Client()
stream = pyarrow.RecordBatchReader.from_stream(client.deals.retrieve_many(["d_1"], progress=lambda *_: 0).to_arrow(batch_size=1))
threading.Thread(target=stream.read_next_batch, daemon=True).start()
held = client.deals.retrieve_many(["d_2"]).to_arrow(batch_size=1).__arrow_c_stream__()
batches = iter(client.deals.retrieve_many(["d_3"]).to_arrow(batch_size=1))
threading.Thread(target=next, args=(batches,), daemon=True).start()
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
"""
    with Tarpit() as tarpit:
        process = python(script, str(tmp_path / "end"), url=tarpit.url, flags=())
        tarpit.wait_for_requests(3)
        (tmp_path / "end").touch()
        ended(process, 30)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_the_child_of_a_fork_cannot_read_the_parents_stream(dealkit_sandbox: Sandbox) -> None:
    script = """
import os, pyarrow, sys
from dealkit import Client
client = Client()
stream = client.deals.retrieve_many(["d_1", "d_2"]).to_arrow(batch_size=1)
reader = pyarrow.RecordBatchReader.from_stream(stream)
batches = iter(client.deals.retrieve_many(["d_1", "d_2"]).to_arrow(batch_size=1))
next(batches)
child = os.fork()
if child == 0:
    try:
        reader.read_next_batch()
    except pyarrow.ArrowInvalid as error:
        assert "forked" in str(error), error
    try:
        next(batches)
    except RuntimeError as error:
        assert "forked" in str(error), error
        print(client.deals.retrieve("d_3").id, len(pyarrow.table(client.deals.retrieve_many(["d_1"]).to_arrow())))
    sys.stdout.flush()
    os._exit(0)
_, status = os.waitpid(child, 0)
assert status == 0
print(reader.read_all().num_rows, len(next(batches)))
"""
    # Python 3.12 and newer warn of every fork of a process with threads.
    flags = ("-W", "ignore::DeprecationWarning")
    process = python(script, url=dealkit_sandbox.url, key=dealkit_sandbox.service_key, flags=flags)
    assert ended(process) == "d_3 1\n2 1\n"


def test_none_of_the_libraries_is_needed() -> None:
    script = """
import sys
for name in ("pyarrow", "polars", "pandas", "numpy", "duckdb"):
    sys.modules[name] = None
import dealkit.arrow
table = dealkit.arrow.deals_to_arrow([b'{"id": "d_1"}'])
print(len(table), type(table.__arrow_c_stream__()).__name__)
"""
    assert ended(python(script)) == "1 PyCapsule\n"
