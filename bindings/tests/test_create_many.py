"""Creating many agents: every row comes back once, whatever happens to it and wherever the job is interrupted."""

from __future__ import annotations

import copy
import itertools
import json
import pickle
import random
import signal
import sqlite3
import time
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from typing import Any

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
def test_every_row_comes_once(of_class: Any, concurrency: int, ordered: bool, sandbox: Sandbox) -> None:
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
    "no mapping": (5, [("", "wrong_type")], "the body: must be a mapping, not int"),
    "a field that is wrong": ({**make_row(0), "email": PERSON}, [("/email", "invalid_email")], "bare e-mail"),
    "null": ({**make_row(0), "phone": None}, [("/phone", "null_not_allowed")], "phone"),
    "not a number": (
        {**make_row(0), "phone": float("nan")},
        [("/phone", "wrong_type")],
        "/phone: must be a string, got float (",
    ),
    "a number that is none, among metadata": (
        {**make_row(0), "profile": {"client_metadata": {"a": float("nan")}}},
        [("/profile/clientMetadata/a", "wrong_type")],
        "must be a finite number",
    ),
    "a date among metadata": (
        {**make_row(0), "profile": {"client_metadata": {"a": date(1990, 2, 8)}}},
        [("/profile/clientMetadata/a", "wrong_type")],
        "got date; write it as text with isoformat()",
    ),
    "metadata that is no mapping": (
        {**make_row(0), "profile": {"client_metadata": {5}}},
        [("/profile/clientMetadata", "wrong_type")],
        "/profile/clientMetadata: must be an object, got set (",
    ),
    "a text that is none": (
        {**make_row(0), "profile": {"onboarding_complete": 1j}},
        [("/profile/onboardingComplete", "wrong_type")],
        "must be a boolean, got complex (",
    ),
    "unknown fields, and a wrong one": (
        {**make_row(0), "emial": 1, PERSON: 2, "last_name": ""},
        [("/last_name", "too_short"), (f"/{PERSON}", "unknown_field"), ("/emial", "unknown_field")],
        '/*: is not a documented field; did you mean "email"? (unknown_field)',
    ),
    "a name that is no str": (
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
    "what has no place in JSON": ({**make_row(0), "profile": {"tier": {1}}}, [("/profile/tier", "wrong_type")], "set"),
    "one that raises": (Broken(make_row(0)), [("", "wrong_type")], "the body: cannot be read: LookupError"),
    "one with a profile that raises": (
        {**make_row(0), "profile": Broken(tier=PERSON)},
        [("", "wrong_type")],
        "cannot be read: LookupError",
    ),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
def test_a_row_that_is_wrong_is_its_own_error(client: Client, sandbox: Sandbox, wrong: Any) -> None:
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


def test_an_error_ends_the_sending_and_loses_nothing(client: Client, sandbox: Sandbox) -> None:
    given: Any = [make_row(0), {}, *make_rows(100)]
    creations = client.agents.create_many(given, concurrency=4)
    assert next(creations).index == 0
    with pytest.raises(ValidationError) as caught:
        next(creations)
    assert caught.value.index == 1
    # Those in flight still come back, and no others.
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
    came: list[int] = []
    with pytest.raises(LookupError, match="mine"):
        for creation in creations:
            came.append(creation.index)
    # The rows that it had yielded before are not lost.
    came += [creation.index for creation in creations]
    assert came == list(range(5)) and len(created(sandbox)) == 5

    sandbox.reset()
    creations = client.agents.create_many(broken(), concurrency=concurrency)
    with pytest.raises(LookupError):
        for _ in creations:
            pass
    left = creations.cancel()
    assert [creation.index for creation in left] == list(range(5 - len(left), 5))


def test_stop_takes_no_further_row(client: Client, sandbox: Sandbox) -> None:
    creations = client.agents.create_many((make_row(n) for n in itertools.count()), concurrency=4)
    came = []
    for creation in creations:
        came.append(creation.index)
        if len(came) == 10:
            creations.stop()
    assert came == list(range(len(came))) and 10 <= len(came) <= 14
    assert len(created(sandbox)) == len(came)
    assert creations.cancel() == []


@BOTH_CLIENTS
@pytest.mark.parametrize("refusal", [AuthenticationError, PermissionDeniedError])
def test_a_401_or_403_stops_it(of_class: Any, refusal: Any, sandbox: Sandbox) -> None:
    status = 401 if refusal is AuthenticationError else 403
    sandbox.fail_next(status=status, times=None)
    many = map(make_row, range(2_000))
    creations = wait_for_result(
        make_client(sandbox, of_class), lambda client: client.agents.create_many(many, concurrency=8, on_error="return")
    )
    # Every row that was taken comes back, and the first that was not sent says why.
    taken = len(creations)
    assert (
        [creation.index for creation in creations] == list(range(taken))
        and taken <= 24
        and next(many) == make_row(taken)
    )
    kinds = [type(creation.error) for creation in creations]
    sent = kinds.index(StoppedError)
    assert {*kinds[:sent]} == {refusal} and {*kinds[sent:]} == {StoppedError} and sandbox.agents == []
    error = pickle.loads(pickle.dumps(creations[sent].error))
    assert (error.outcome, error.status_code) == ("not_sent", status) and error.first_index < sent
    assert "no further rows are taken" in str(error)


def test_a_callable_that_raises(client: Client) -> None:
    def broken(done: int, total: int | None) -> None:
        raise LookupError("mine")

    creations = client.agents.create_many(make_rows(3), progress=broken, concurrency=1)
    with pytest.raises(LookupError):
        next(creations)
    # The row that the callable was told of is not lost.
    assert [creation.index for creation in creations.cancel() or creations] == [0]


def test_an_iterator_of_rows_that_takes_creations_itself(client: Client, sandbox: Sandbox) -> None:
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


def test_a_row_that_takes_creations_itself(client: Client, sandbox: Sandbox) -> None:
    """A row is read again if reading it has already sent it, and it is sent once."""

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


def test_a_task_that_is_cancelled_leaves_its_rows_to_cancel(sandbox: Sandbox) -> None:
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
    assert repr(creation) == f"Creation(index=0, agent_id={creation.agent_id!r}, outcome='succeeded')"
    failed: Creation[Agent] = Creation(index=3, error=APITimeoutError("POST /v1/agents: timed out"))
    assert repr(failed) == "Creation(index=3, agent_id=None, outcome='unknown')"
    again = pickle.loads(pickle.dumps(failed))
    assert (again.index, again.outcome, str(again.error)) == (3, "unknown", str(failed.error))
    assert Creation[Agent](index=0, error=APIConnectionError(outcome="not_sent")).outcome == "not_sent"
    assert Creation[Agent](index=0, agent_id="a_1").outcome == "succeeded"


# A job of many rows in a real process, which Ctrl-C interrupts at any point: each row must come back once, and must
# say what the service did. The job prints JSON: the outcome of each row, in the order in which they come back. It calls no
# function of its own between taking a row and noting it, where an interrupt would lose it.
JOB = """
import asyncio, itertools, json, signal, sys, time
from dealkit import AsyncClient, Client

signal.signal(signal.SIGINT, signal.default_int_handler)
ROW = {"first_name": "A", "last_name": "L", "profile": {}}
came = []

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
        came.append([creation.index, creation.outcome, creation.agent_id])
try:
    asyncio.run(main())
except KeyboardInterrupt:
    pass
for creation in asyncio.run(creations.cancel()):
    came.append([creation.index, creation.outcome, creation.agent_id])
print(json.dumps(came), flush=True)
"""


@pytest.mark.parametrize("arguments", [("8", "ordered"), ("64", "as completed")])
def test_ctrl_c_loses_no_row_of_a_loop(arguments: tuple[str, str], seeded_random: random.Random) -> None:
    for _ in range(2):
        # What was given up may arrive late, at a sandbox that no other job uses.
        with Sandbox() as sandbox:
            sandbox.fail_next(delay=0.02, times=None, probability=0.2, seed=1)
            process = start_python(JOB + ASYNC, *arguments, url=sandbox.url)
            assert read_next_line(process) == "ready\n"
            time.sleep(seeded_random.uniform(0, 0.4))
            process.send_signal(signal.SIGINT)
            judge(sandbox, json.loads(wait_for_success(process)))


def judge(sandbox: Sandbox, came: list[Any]) -> None:
    """Every row comes back once, and each agrees with the service."""
    indexes = sorted(index for index, *_ in came)
    assert indexes == list(range(len(indexes)))
    ids: dict[str, list[str]] = {}
    for agent in sandbox.agents:
        ids.setdefault(agent.email, []).append(agent.id)
    assert all(len(found) == 1 for found in ids.values())
    for index, outcome, agent_id in came:
        found = ids.pop(f"row{index}@example.com", [])
        if outcome == "succeeded":
            assert found == [agent_id]
        elif outcome in ("not_sent", "rejected"):
            assert found == []
        else:
            assert outcome == "unknown"
    assert ids == {}, "an agent of a row that did not come back"


# Signal handlers that raise, again and again, at any possible moment: a timer of a few microseconds.
STORM = """
class Interrupted(Exception):
    pass

armed = False
def handler(*_):
    if armed:
        raise Interrupted
signal.signal(signal.SIGALRM, handler)

class Source:
    # It goes on after an exception, as a generator does not, and loses nothing itself.
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
    # Creates until something raises, and then finishes or cancels, whatever else raises.
    global armed, interrupted
    creations = client.agents.create_many(source, concurrency=int(sys.argv[1]), ordered=sys.argv[2] == "ordered")
    found, left, longest, gives_up = [], None, 2e-2, False
    armed = True
    while left is None:
        try:
            signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-5, longest))
            if not gives_up:
                for creation in creations:
                    found.append(creation)
            left = creations.cancel()
        except Interrupted:
            interrupted += 1
            # At first soon, and later and later, so that it comes to an end on a busy machine too.
            longest = 2e-3 if longest == 2e-2 else longest * 1.1
            gives_up = gives_up or random.random() < 0.3
    armed = False
    signal.setitimer(signal.ITIMER_REAL, 0)
    found += left
    indexes = sorted(creation.index for creation in found)
    assert indexes == list(range(source.given - first)), indexes
    return [[first + creation.index, creation.outcome, creation.agent_id] for creation in found]

LIMIT = 300
client, source, interrupted = Client(), Source(), 0
while source.given < LIMIT:
    came += job(source.given)
print(json.dumps([interrupted, came]), flush=True)
"""


@pytest.mark.parametrize("arguments", [("1", "ordered"), ("8", "ordered"), ("64", "as completed")])
def test_handlers_that_raise_anywhere_lose_no_row(
    sandbox: Sandbox, arguments: tuple[str, str], seeded_random: random.Random
) -> None:
    sandbox.fail_next(delay=0.005, times=None, probability=0.3, seed=1)
    process = start_python(seed_script(seeded_random) + JOB + STORM, *arguments, url=sandbox.url)
    interrupted, came = json.loads(wait_for_success(process))
    assert interrupted > 5 and len(came) == 300
    judge(sandbox, came)


def test_after_a_fork_they_are_the_parent_s(sandbox: Sandbox) -> None:
    code = """
import os, warnings
warnings.filterwarnings("ignore", message=".*multi-threaded", category=DeprecationWarning)
creations = Client().agents.create_many(rows(), concurrency=8)
first = next(creations)
came.append([first.index, first.outcome, first.agent_id])
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
    came.append([creation.index, creation.outcome, creation.agent_id])
print(json.dumps(came), flush=True)
"""
    came = json.loads(wait_for_success(start_python(JOB + code, url=sandbox.url)))
    assert sorted(index for index, *_ in came) == list(range(8))
