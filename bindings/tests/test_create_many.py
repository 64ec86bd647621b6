"""``create_many`` yields one result for each row, also if the row is invalid or the job is interrupted at any point."""

from __future__ import annotations

import copy
import itertools
import json
import math
import pickle
import random
import signal
import sqlite3
import time
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from typing import Any

import pandas
import polars
import pyarrow
import pytest
from conftest import (
    BOTH_CLIENTS,
    as_any,
    http_response,
    make_client,
    make_row,
    make_rows,
    run_async,
    seed_script,
    time_out_when,
    wait_for_result,
)
from processes import HANG_SECONDS, read_next_line, start_python, wait_for_success, wait_until

from dealkit import (
    OMITTED,
    Agent,
    APIConnectionError,
    APITimeoutError,
    AsyncClient,
    AuthenticationError,
    Client,
    CreateAgentParams,
    Creation,
    DecodeError,
    PermissionDeniedError,
    RawResponse,
    StoppedError,
    Timeout,
    ValidationError,
)
from dealkit.testing import Sandbox

PERSON = make_row(0)["first_name"]


def created(sandbox: Sandbox) -> list[str]:
    return [agent.email for agent in sandbox.agents]


@BOTH_CLIENTS
@pytest.mark.parametrize("concurrency", [1, 8, 100])
@pytest.mark.parametrize("ordered", [True, False])
def test_every_row_has_one_result(of_class: Any, concurrency: int, ordered: bool, sandbox: Sandbox) -> None:
    client, options = make_client(sandbox, of_class), {"concurrency": concurrency, "ordered": ordered}
    creations = wait_for_result(client, lambda client: client.agents.create_many(make_rows(50), **options))
    indexes = [creation.index for creation in creations]
    assert (indexes if ordered else sorted(indexes)) == list(range(50))
    for creation in creations:
        assert creation.agent is not None and creation.error is None
        assert creation.agent.email == f"row{creation.index}@example.com"
        assert (creation.agent_id, creation.outcome) == (creation.agent.id, "succeeded")
    assert sorted(created(sandbox)) == sorted(params["email"] for params in make_rows(50))
    assert wait_for_result(client, lambda client: client.agents.create_many([])) == []


def test_rows_of_every_kind(client: Client, sandbox: Sandbox) -> None:
    class Row(dict[str, Any]):
        pass

    class Lazy(Mapping[str, Any]):
        def __getitem__(self, name: str) -> Any:
            return as_any({**make_row(2)})[name]

        def __iter__(self) -> Iterator[str]:
            return iter(make_row(2))

        def __len__(self) -> int:
            return 4

    database = sqlite3.connect(":memory:")
    database.row_factory = sqlite3.Row
    select = "select 'row3@example.com' as email, 'A' as first_name, 'L' as last_name, ? as phone"
    (from_database,) = database.execute(select, ("+15550100",))
    database.close()
    given: Any = [
        Row(make_row(0)),
        {**make_row(1), "date_of_birth": date(1815, 12, 10), "phone": OMITTED, "image_url": None, "role": "ADMIN"},
        Lazy(),
        {**dict(from_database), "profile": {}},
        {**make_row(4), "profile": Row(user_id="u")},
    ]
    creations = list(client.agents.create_many(iter(given)))
    assert [creation.outcome for creation in creations] == ["succeeded"] * 5
    sent = {agent.email: agent.sent for agent in sandbox.agents}
    assert sent["row1@example.com"] == {
        **make_row(1),
        "date_of_birth": "1815-12-10",
        "image_url": None,
        "role": "ADMIN",
    }
    assert sent["row4@example.com"]["profile"] == {"userId": "u"}
    assert sent["row3@example.com"]["phone"] == "+15550100"


class Broken(dict[str, Any]):
    def keys(self) -> Any:
        raise LookupError(PERSON)

    items = __iter__ = keys


WRONG: dict[str, tuple[Any, list[tuple[str, str]], str]] = {
    "not a mapping": (5, [("", "wrong_type")], "the body: must be a mapping, not int"),
    "an invalid field": ({**make_row(0), "email": PERSON}, [("/email", "invalid_email")], "bare e-mail"),
    "null": ({**make_row(0), "phone": None}, [("/phone", "null_not_allowed")], "phone"),
    "not a number": (
        {**make_row(0), "phone": float("nan")},
        [("/phone", "wrong_type")],
        "/phone: must be a string, got an empty cell (float); leave it out instead (",
    ),
    "an empty cell of pandas": (
        {**make_row(0), "date_of_birth": pandas.NaT, "image_url": pandas.NA},
        [("/image_url", "wrong_type"), ("/date_of_birth", "wrong_type")],
        "/image_url: must be a string, got an empty cell (NAType); leave it out instead (",
    ),
    "NaN among metadata": (
        {**make_row(0), "profile": {"client_metadata": {"a": float("nan")}}},
        [("/profile/clientMetadata/a", "wrong_type")],
        "must be a finite number",
    ),
    "a date among metadata": (
        {**make_row(0), "profile": {"client_metadata": {"a": date(1990, 2, 8)}}},
        [("/profile/clientMetadata/a", "wrong_type")],
        "got date; write it as text with isoformat()",
    ),
    "metadata that is not a mapping": (
        {**make_row(0), "profile": {"client_metadata": {5}}},
        [("/profile/clientMetadata", "wrong_type")],
        "/profile/clientMetadata: must be an object, got set (",
    ),
    "a complex number": (
        {**make_row(0), "profile": {"onboarding_complete": 1j}},
        [("/profile/onboardingComplete", "wrong_type")],
        "must be a boolean, got complex (",
    ),
    "unknown fields, and an invalid one": (
        {**make_row(0), "emial": 1, PERSON: 2, "last_name": ""},
        [("/last_name", "too_short"), (f"/{PERSON}", "unknown_field"), ("/emial", "unknown_field")],
        '/emial: is not a documented field; did you mean "email"? (unknown_field)',
    ),
    "a name that is not a str": (
        {**make_row(0), 5: 1},
        [("", "wrong_type")],
        "must have names that are Unicode text, got int",
    ),
    "a field that is named twice": (
        {**make_row(0), "profile": {"userId": "a", "user_id": "b"}},
        [("", "wrong_type")],
        "profile names one field twice: user_id is userId",
    ),
    "a datetime": (
        {**make_row(0), "date_of_birth": datetime(1990, 2, 8)},
        [("/date_of_birth", "wrong_type")],
        "/date_of_birth: must be a date or a string, got datetime; pass its .date() (",
    ),
    "a value that JSON cannot represent": (
        {**make_row(0), "profile": {"tier": {1}}},
        [("/profile/tier", "wrong_type")],
        "set",
    ),
    "a row that raises": (Broken(make_row(0)), [("", "wrong_type")], "the body: cannot be read: LookupError"),
    "a row with a profile that raises": (
        {**make_row(0), "profile": Broken(tier=PERSON)},
        [("", "wrong_type")],
        "cannot be read: LookupError",
    ),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
def test_an_invalid_row_is_an_error_of_that_row(client: Client, sandbox: Sandbox, wrong: Any) -> None:
    given, violations, text = wrong
    mixed: Any = [make_row(0), given, make_row(2)]
    for ordered in (True, False):
        creations = list(client.agents.create_many(mixed, on_error="return", ordered=ordered))
        creations.sort(key=lambda creation: creation.index)
        assert [creation.outcome for creation in creations] == ["succeeded", "not_sent", "succeeded"]
        error = creations[1].error
        assert isinstance(error, ValidationError)
        assert [(violation.pointer, violation.code) for violation in error.errors] == violations
        assert text in str(error) and str(error).startswith("the request breaks the rules: ")
        assert PERSON not in f"{error} {error!r} {creations[1]!r}"
        assert (error.index, error.id, error.outcome, error.attempts) == (1, None, "not_sent", 0)
        assert (creations[1].agent, creations[1].agent_id) == (None, None)
    assert len(created(sandbox)) == 4
    creations_raised = client.agents.create_many(mixed)
    assert next(creations_raised).index == 0
    with pytest.raises(ValidationError) as caught:
        next(creations_raised)
    assert caught.value.index == 1
    assert [creation.index for creation in creations_raised] == [2]


TABLE = {
    "email": ["ada@example.com", "grace@example.com"],
    "first_name": ["Ada", "Grace"],
    "last_name": ["Lovelace", "Hopper"],
    "phone": [None, "+15550100"],
    "date_of_birth": [None, date(1906, 12, 9)],
    "profile.external_id": ["1", None],
    "profile.client_metadata": [{"a": 1}, None],
}
TABLES: list[Any] = [
    pandas.DataFrame(TABLE),
    pandas.DataFrame(TABLE).astype({"date_of_birth": "datetime64[ns]", "phone": "string"}),
    polars.DataFrame(TABLE),
    polars.DataFrame(TABLE).cast({"date_of_birth": polars.Datetime}),
    pyarrow.table(TABLE),
    polars.DataFrame(
        {**TABLE, "profile": [{"external_id": "1", "tier": None}, {"external_id": None, "tier": None}]}
    ).drop("profile.external_id"),
]


@pytest.mark.parametrize("table", TABLES)
def test_the_rows_of_a_data_frame(client: Client, sandbox: Sandbox, table: Any) -> None:
    totals: list[int | None] = []
    creations = client.agents.create_many(table, concurrency=1, progress=lambda _, total: totals.append(total))
    assert [creation.result for creation in creations] == ["created", "created"] and totals[-1] == 2
    ada, grace = (json.loads(request.body) for request in sandbox.requests)
    name = {"email": "ada@example.com", "first_name": "Ada", "last_name": "Lovelace"}
    assert ada == {**name, "profile": {"externalId": "1", "clientMetadata": {"a": 1}}}
    assert grace["profile"] == {} and (grace["phone"], grace["date_of_birth"]) == ("+15550100", "1906-12-09")


def test_invalid_data_frames(client: Client, sandbox: Sandbox) -> None:
    frame = pandas.DataFrame({**TABLE, "phone": [15550100, math.nan]})
    [error] = [creation.error for creation in client.agents.create_many(frame[:1], on_error="return")]
    assert isinstance(error, ValidationError) and [violation.pointer for violation in error.errors] == ["/phone"]
    for column, advice in {
        "emial": "; did you mean 'email'?",
        "tier": "; did you mean 'profile.tier'?",
        "profile.shoe_size": "",
        "Notes": "; drop or rename it",
        5: "; drop or rename it",
    }.items():
        with pytest.raises(ValueError) as caught:
            client.agents.create_many(frame.assign(**{str(column): "PERSONAL"}).rename(columns={"5": 5}))
        assert str(caught.value).startswith(f"the column {column!r} is not a field of an agent{advice}")
    with pytest.raises(ValueError, match="there are 2 columns 'email'"):
        client.agents.create_many(pandas.concat([frame, frame[["email"]]], axis=1))
    assert not sandbox.requests
    with pytest.raises(TypeError, match="or a table of pyarrow, not a TableWithoutRows"):
        client.agents.create_many(as_any(TableWithoutRows()))
    with pytest.raises(TypeError, match="not a LazyFrame; collect"):
        client.agents.create_many(as_any(polars.LazyFrame(TABLE)))


@pytest.mark.parametrize(
    "columns",
    [
        {"profile": "A", "profile.tier": "B"},
        {"profile": "A", "profile.client_metadata.e": "B"},
        {"profile.client_metadata": "A", "profile.client_metadata.e": "B"},
        {"extra": "A", "extra.b": "B"},
    ],
)
def test_a_column_with_text_instead_of_an_object(client: Client, columns: dict[str, str], sandbox: Sandbox) -> None:
    names = {"email": "ada@example.com", "first_name": "Ada", "last_name": "Lovelace"}
    for cells in ({**names, **columns}, {**names, **dict(reversed(columns.items()))}):
        [creation] = client.agents.create_many(pandas.DataFrame([cells]), on_error="return")
        assert isinstance(creation.error, ValidationError)
    assert not sandbox.requests


def test_undocumented_fields_in_columns(client: Client, sandbox: Sandbox) -> None:
    frame = polars.DataFrame(TABLE).with_columns(
        polars.lit("x").alias("extra.a.b"),
        polars.lit(1).alias("profile.extra.c"),
        polars.lit(2).alias("extra.client_metadata.d"),
        polars.lit(3).alias("profile.client_metadata.e.f"),
        polars.struct(polars.lit(4).alias("g"), polars.lit(None).alias("h")).alias("extra"),
        polars.lit("y").alias("profile.tier"),
    )
    list(client.agents.create_many(frame, concurrency=1))
    ada, grace = (json.loads(request.body) for request in sandbox.requests)
    assert (grace["a.b"], grace["client_metadata.d"], grace["g"], grace["h"]) == ("x", 2, 4, None)
    assert grace["profile"] == {"tier": "y", "c": 1, "clientMetadata": {"e.f": 3}}
    assert ada["profile"]["clientMetadata"] == {"a": 1, "e.f": 3}


class TableWithoutRows:
    columns = ("email",)


class QueryResult(list[CreateAgentParams]):
    """An iterable of mappings with a method that selects columns, such as a MappingResult of SQLAlchemy."""

    def columns(self, *names: str) -> None:
        raise AssertionError


def test_an_iterable_may_have_a_method_columns(client: Client) -> None:
    assert len(list(client.agents.create_many(QueryResult(make_rows(2))))) == 2


def test_an_error_stops_sending_and_loses_no_result(client: Client, sandbox: Sandbox) -> None:
    given: Any = [make_row(0), {}, *make_rows(100)]
    creations = client.agents.create_many(given, concurrency=4)
    assert next(creations).index == 0
    with pytest.raises(ValidationError) as caught:
        next(creations)
    assert caught.value.index == 1
    # Only the rows in flight still yield results.
    rest = list(creations)
    assert [creation.index for creation in rest] == list(range(2, 2 + len(rest))) and len(rest) <= 4
    assert len(created(sandbox)) == 1 + len(rest)
    assert creations.cancel() == []

    sandbox.reset()
    creations = client.agents.create_many(given, concurrency=4)
    with pytest.raises(ValidationError):
        list(creations)
    left = creations.cancel()
    assert [creation.index for creation in left] == list(range(2, 2 + len(left)))
    wait_until(lambda: len(sandbox.requests) == len(created(sandbox)))
    certain = [creation for creation in left if creation.outcome == "succeeded"]
    assert 1 + len(certain) <= len(created(sandbox)) <= 1 + len(left)


@pytest.mark.parametrize("concurrency", [1, 8, 64])
def test_a_generator_that_raises(client: Client, sandbox: Sandbox, concurrency: int) -> None:
    def broken() -> Iterator[CreateAgentParams]:
        yield from make_rows(5)
        raise LookupError("mine")

    creations = client.agents.create_many(broken(), concurrency=concurrency)
    indexes: list[int] = []
    with pytest.raises(LookupError, match="mine"):
        for creation in creations:
            indexes.append(creation.index)
    # The rows that the generator has yielded are not lost.
    indexes += [creation.index for creation in creations]
    assert indexes == list(range(5)) and len(created(sandbox)) == 5

    sandbox.reset()
    creations = client.agents.create_many(broken(), concurrency=concurrency)
    with pytest.raises(LookupError):
        for _ in creations:
            pass
    left = creations.cancel()
    assert [creation.index for creation in left] == list(range(5 - len(left), 5))


def test_stop_takes_no_further_row(client: Client, sandbox: Sandbox) -> None:
    creations = client.agents.create_many((make_row(n) for n in itertools.count()), concurrency=4)
    indexes = []
    for creation in creations:
        indexes.append(creation.index)
        if len(indexes) == 10:
            creations.stop()
    assert indexes == list(range(len(indexes))) and 10 <= len(indexes) <= 14
    assert len(created(sandbox)) == len(indexes)
    assert creations.cancel() == []


@BOTH_CLIENTS
@pytest.mark.parametrize("rejection", [AuthenticationError, PermissionDeniedError])
def test_a_401_or_403_stops_the_job(of_class: Any, rejection: Any, sandbox: Sandbox) -> None:
    status = 401 if rejection is AuthenticationError else 403
    sandbox.fail_next(status=status, times=None)
    many = map(make_row, range(2_000))
    creations = wait_for_result(
        make_client(sandbox, of_class), lambda client: client.agents.create_many(many, concurrency=8, on_error="return")
    )
    # Every row taken from the iterator has a result. The error of the first row that was not sent has the reason.
    taken = len(creations)
    assert (
        [creation.index for creation in creations] == list(range(taken))
        and taken <= 24
        and next(many) == make_row(taken)
    )
    kinds = [type(creation.error) for creation in creations]
    sent = kinds.index(StoppedError)
    assert {*kinds[:sent]} == {rejection} and {*kinds[sent:]} == {StoppedError} and sandbox.agents == []
    error = pickle.loads(pickle.dumps(creations[sent].error))
    assert (error.outcome, error.status_code) == ("not_sent", status) and error.first_index < sent
    assert "no further rows are taken" in str(error)


def test_a_callable_that_raises(client: Client) -> None:
    def broken(done: int, total: int | None) -> None:
        raise LookupError("mine")

    creations = client.agents.create_many(make_rows(3), progress=broken, concurrency=1)
    with pytest.raises(LookupError):
        next(creations)
    # The row whose progress was reported is not lost.
    assert [creation.index for creation in creations.cancel() or creations] == [0]


def test_an_iterator_of_rows_that_takes_results_of_the_job(client: Client, sandbox: Sandbox) -> None:
    class Rows:
        def __init__(self) -> None:
            self.given = 0

        def __iter__(self) -> Rows:
            return self

        def __next__(self) -> CreateAgentParams:
            if self.given == 60:
                raise StopIteration
            self.given += 1
            given = make_row(self.given - 1)
            if self.given in (6, 20):
                taken.append(next(creations).index)
            if self.given == 60:
                taken.extend(creation.index for creation in creations)
            return given

    taken: list[int] = []
    creations = client.agents.create_many(Rows(), concurrency=24)
    taken += [creation.index for creation in creations]
    assert sorted(taken) == list(range(60))
    assert len(created(sandbox)) == 60 == len({*created(sandbox)})


def test_a_row_that_takes_results_of_the_job(client: Client, sandbox: Sandbox) -> None:
    """If reading a row has sent that row already, it is read again, but not sent again."""

    class Own(dict[str, Any]):
        is_first = True

        def keys(self) -> Any:
            if self.is_first:
                self.is_first = False
                taken.append(next(creations).index)
            return [*super().keys()]

        __iter__ = keys

    taken: list[int] = []
    given: Any = [Own(make_row(n)) if n % 5 == 1 else make_row(n) for n in range(40)]
    creations = client.agents.create_many(given, concurrency=24)
    taken += [creation.index for creation in creations]
    assert sorted(taken) == list(range(40))
    assert len(created(sandbox)) == 40 == len({*created(sandbox)})


def test_whole_responses(client: Client, peer: Any) -> None:
    for creation in client.with_raw_response.agents.create_many(make_rows(3)):
        assert isinstance(creation.agent, RawResponse) and creation.agent.status_code == 201
        assert creation.agent.parse().email == f"row{creation.index}@example.com"
        assert (creation.agent_id, creation.outcome) == (None, "succeeded")
    with Client(base_url=peer(http_response(200, "{}")).url, service_key="k") as other:
        (creation,) = other.with_raw_response.agents.create_many(make_rows(1))
        assert creation.agent is not None and creation.agent.body == b"{}"
        (unread,) = other.agents.create_many(make_rows(1), on_error="return")
        assert isinstance(unread.error, DecodeError) and unread.outcome == "succeeded"


def test_cancel_returns_the_rows_of_a_cancelled_task(sandbox: Sandbox) -> None:
    sandbox.fail_next(hold=True, times=2)

    async def main() -> None:
        async with make_client(sandbox, AsyncClient, timeout=Timeout(attempt=3600, total=3600)) as client:
            creations = client.agents.create_many(make_rows(2), concurrency=2)
            await time_out_when(anext(creations), lambda: sandbox.wait_for(count=2, held=True, timeout=HANG_SECONDS))
            left = await creations.cancel()
            assert [(creation.index, creation.outcome) for creation in left] == [(0, "unknown"), (1, "unknown")]
            assert [creation async for creation in creations] == []

    run_async(main())


def test_a_creation_is_a_value(client: Client) -> None:
    (creation,) = client.agents.create_many(make_rows(1))
    assert creation == copy.copy(creation) == pickle.loads(pickle.dumps(creation))
    assert hash(creation) == hash(copy.deepcopy(creation)) and creation != 5
    assert repr(creation) == f"Creation(index=0, agent_id={creation.agent_id!r}, result='created', outcome='succeeded')"
    failed: Creation[Agent] = Creation(index=3, error=APITimeoutError("POST /v1/agents: timed out"))
    text = "Creation(index=3, agent_id=None, result='failed', outcome='unknown', error=APITimeoutError('POST /v1/agents: timed out'))"
    assert repr(failed) == text
    again = pickle.loads(pickle.dumps(failed))
    assert (again.index, again.outcome, str(again.error)) == (3, "unknown", str(failed.error))
    assert Creation[Agent](index=0, error=APIConnectionError(outcome="not_sent")).outcome == "not_sent"
    assert Creation[Agent](index=0, agent_id="a_1").outcome == "succeeded"


# A job in another process, which Ctrl-C interrupts at any point. Each row must have one result, which must agree with the service.
# The job prints the results as JSON, in order of arrival. Between taking and storing a result, it calls no function of its own, in
# which an interrupt would lose the result.
JOB = """
import asyncio, itertools, json, signal, sys, time
from dealkit import AsyncClient, Client

signal.signal(signal.SIGINT, signal.default_int_handler)
ROW = {"first_name": "A", "last_name": "L", "profile": {}}
results = []

def rows():
    for n in itertools.count():
        yield {"email": f"row{n}@example.com", **ROW}
"""

ASYNC = """
creations = None
async def main():
    global creations
    creations = AsyncClient().agents.create_many(rows(), concurrency=int(sys.argv[1]), ordered=sys.argv[2] == "ordered")
    print("ready", flush=True)
    async for creation in creations:
        results.append([creation.index, creation.outcome, creation.agent_id])
try:
    asyncio.run(main())
except KeyboardInterrupt:
    pass
for creation in asyncio.run(creations.cancel()):
    results.append([creation.index, creation.outcome, creation.agent_id])
print(json.dumps(results), flush=True)
"""


@pytest.mark.parametrize("arguments", [("8", "ordered"), ("64", "as completed")])
def test_ctrl_c_loses_no_row_of_a_loop(arguments: tuple[str, str], seeded_random: random.Random) -> None:
    for _ in range(2):
        # A sandbox of its own, because requests of a cancelled job may arrive late.
        with Sandbox() as sandbox:
            sandbox.fail_next(delay=0.02, times=None, probability=0.2, seed=1)
            process = start_python(JOB + ASYNC, *arguments, url=sandbox.url)
            assert read_next_line(process) == "ready\n"
            time.sleep(seeded_random.uniform(0, 0.4))
            process.send_signal(signal.SIGINT)
            check_results(sandbox, json.loads(wait_for_success(process)))


def check_results(sandbox: Sandbox, results: list[Any]) -> None:
    """Checks that every row has one result, which agrees with the service."""
    indexes = sorted(index for index, *_ in results)
    assert indexes == list(range(len(indexes)))
    ids: dict[str, list[str]] = {}
    for agent in sandbox.agents:
        ids.setdefault(agent.email, []).append(agent.id)
    assert all(len(found) == 1 for found in ids.values())
    for index, outcome, agent_id in results:
        found = ids.pop(f"row{index}@example.com", [])
        if outcome == "succeeded":
            assert found == [agent_id]
        elif outcome in ("not_sent", "rejected"):
            assert found == []
        else:
            assert outcome == "unknown"
    assert ids == {}, "an agent of a row without a result"


# A timer of a few microseconds, whose signal handler raises at any possible moment.
STORM = """
class Interrupted(Exception):
    pass

armed = False
def handler(*_):
    if armed:
        raise Interrupted
signal.signal(signal.SIGALRM, handler)

class Source:
    # Unlike a generator, it continues after an exception, and loses no row.
    given = 0

    def __iter__(self):
        return self

    def __next__(self):
        if self.given == LIMIT:
            raise StopIteration
        row = {"email": f"row{self.given}@example.com", **ROW}
        self.given += 1
        return row

def job(first):
    # Creates agents. After an exception, continues or cancels, until no more exceptions occur.
    global armed, interrupted
    creations = client.agents.create_many(source, concurrency=int(sys.argv[1]), ordered=sys.argv[2] == "ordered")
    found, left, max_delay, cancels = [], None, 2e-2, False
    armed = True
    while left is None:
        try:
            signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-5, max_delay))
            if not cancels:
                for creation in creations:
                    found.append(creation)
            left = creations.cancel()
        except Interrupted:
            interrupted += 1
            # Growing delays, so that the job also ends on a busy machine.
            max_delay = 2e-3 if max_delay == 2e-2 else max_delay * 1.1
            cancels = cancels or random.random() < 0.3
    armed = False
    signal.setitimer(signal.ITIMER_REAL, 0)
    found += left
    indexes = sorted(creation.index for creation in found)
    assert indexes == list(range(source.given - first)), indexes
    return [[first + creation.index, creation.outcome, creation.agent_id] for creation in found]

LIMIT = 300
client, source, interrupted = Client(), Source(), 0
while source.given < LIMIT:
    results += job(source.given)
print(json.dumps([interrupted, results]), flush=True)
"""


@pytest.mark.parametrize("arguments", [("1", "ordered"), ("8", "ordered"), ("64", "as completed")])
def test_signal_handlers_that_raise_lose_no_row(
    sandbox: Sandbox, arguments: tuple[str, str], seeded_random: random.Random
) -> None:
    sandbox.fail_next(delay=0.005, times=None, probability=0.3, seed=1)
    process = start_python(seed_script(seeded_random) + JOB + STORM, *arguments, url=sandbox.url)
    interrupted, results = json.loads(wait_for_success(process))
    assert interrupted > 5 and len(results) == 300
    check_results(sandbox, results)


def test_a_forked_child_cannot_use_its_parents_job(sandbox: Sandbox) -> None:
    code = """
import os, warnings
warnings.filterwarnings("ignore", message=".*multi-threaded", category=DeprecationWarning)
creations = Client().agents.create_many(rows(), concurrency=8)
first = next(creations)
results.append([first.index, first.outcome, first.agent_id])
child = os.fork()
if child == 0:
    for work in (creations.cancel, creations.__next__):
        try:
            work()
        except RuntimeError as error:
            assert "belong to another process" in str(error), error
        else:
            os._exit(1)
    creations.close()
    assert next(Client().agents.create_many(rows())).outcome == "succeeded"
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
for creation in creations.cancel():
    results.append([creation.index, creation.outcome, creation.agent_id])
print(json.dumps(results), flush=True)
"""
    results = json.loads(wait_for_success(start_python(JOB + code, url=sandbox.url)))
    assert sorted(index for index, *_ in results) == list(range(8))
