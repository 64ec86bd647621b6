"""The examples on an engine's workers: the same tables as in one process, whatever happens."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

import pyarrow
import pytest
from clusters import CLUSTERS, PATIENCE, Cluster
from postgres import NEEDED, Postgres, programs
from processes import until
from pyarrow import parquet

from dealkit import Client, ledger
from dealkit.testing import Sandbox

KEY = "sk-canary-0b5e1f77"
PASSWORD = "pw-canary-91c2d3aa"

# Deals of a task: as many as may have to be requested again when a worker dies.
PER_FILE = 250

ENGINES = os.environ.get("DEALKIT_ENGINES", "dask spark ray").split()

# Some, one that does not exist, and one that is not a plain path segment.
IDS = [*(f"g_{n}" for n in range(2_500)), "no-such-deal", "a/b c\u00e9"]


# Values that are hard to carry: digits, a date and a timestamp at the end of time, an undocumented field.
FULL = {
    "id": IDS[-1],
    "expiry_date": "9999-12-31",
    "created_at": "9999-12-31T23:59:59.999999Z",
    "sides": [{"side_percentage": 33.3333333333}, {}],
    "metadata": {"a": "b", "": ""},
    "brand_new": 1.10,
}


class World(NamedTuple):
    """A cluster, the service behind it, and all deals as one process exports them."""

    cluster: Cluster
    sandbox: Sandbox
    expected: pyarrow.Table
    ids: Path
    # Where PostgreSQL is not installed, there is none.
    ledger: str


@pytest.fixture(scope="module", params=ENGINES)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    # Not below pytest's own folder: the paths of Ray's sockets would be too long.
    folder = Path(tempfile.mkdtemp(prefix="dealkit-"))
    ids = folder / "ids.txt"
    # One twice, and an empty line at the end.
    ids.write_text("\n".join([*IDS, IDS[0], ""]))
    with Sandbox(generate=2_500, seed=7, service_key=KEY) as sandbox:
        sandbox.insert_deal(FULL)
        with Client(base_url=sandbox.url, service_key=KEY) as client:
            deals = client.deals.retrieve_many(IDS, concurrency=32, on_error="return").to_arrow()
            expected = pyarrow.table(deals).sort_by("id")
        found = programs()
        with nullcontext() if found is None else Postgres(found, PASSWORD) as server:
            url = "" if server is None else server.url
            with CLUSTERS[request.param](folder, sandbox, ledger=url) as cluster:
                yield World(cluster, sandbox, expected, ids, url)
                print(cluster.said()[-10_000:])
    shutil.rmtree(folder)


@pytest.fixture(autouse=True)
def without_faults(world: World) -> Iterator[None]:
    yield
    world.sandbox.clear_faults()


def exported(out: Path) -> pyarrow.Table:
    return parquet.read_table(out / "deals").sort_by("id")


def failed(out: Path) -> dict[str, dict[str, object]]:
    return {row["id"]: row for row in parquet.read_table(out / "failed").to_pylist()}


def sent(sandbox: Sandbox) -> int:
    """The number of requests so far."""
    return sandbox.requests[-1].number


def check_secrecy(cluster: Cluster) -> None:
    """No log, no file that holds tasks or results, and no process list contains the key or the ledger's password."""
    cluster.write_state()
    contents = {file: file.read_bytes() for file in cluster.folder.rglob("*") if file.is_file()}
    commands = {process.pid: " ".join(process.cmdline()).encode() for process in cluster.processes()}
    for secret in (KEY.encode(), PASSWORD.encode()):
        assert [name for name, text in (contents | commands).items() if secret in text] == []
    # The files do mention the tasks.
    assert any(cluster.task in text for text in contents.values())


def test_the_deals_of_one_process_and_what_failed_is_asked_for_alone(world: World, tmp_path: Path) -> None:
    cluster, sandbox, expected, ids, _ = world
    # An error of the service that contains the key, as none should.
    sandbox.fail_next(status=410, body={"title": f"gone, {KEY}"}, path="/v1/deals/g_17", times=None)
    sandbox.fail_next(status=503, path="/v1/deals/g_2300", times=None)
    code, said = cluster.run("export", ids, tmp_path)
    assert code == 1 and "Exported(deals=2499, failed=3)" in said, said
    errors = failed(tmp_path)
    assert {id: error["status"] for id, error in errors.items()} == {"g_17": 410, "g_2300": 503, "no-such-deal": 404}
    assert exported(tmp_path).num_rows == len(IDS) - 3
    assert KEY not in str(errors)

    sandbox.clear_faults()
    before = sent(sandbox)
    code, said = cluster.run("export", ids, tmp_path)
    assert code == 1 and "Exported(deals=2, failed=1)" in said, said
    asked = [request.path for request in sandbox.requests if request.number > before]
    assert sorted(asked) == sorted(f"/v1/deals/{id}" for id in errors)
    assert set(failed(tmp_path)) == {"no-such-deal"}
    assert exported(tmp_path).schema.equals(expected.schema)
    assert exported(tmp_path).equals(expected)
    check_secrecy(cluster)


def test_no_deal_can_be_had(world: World, tmp_path: Path) -> None:
    cluster, sandbox, _, ids, _ = world
    sandbox.fail_next(status=401, times=None)
    before = sent(sandbox)
    code, said = cluster.run("export", ids, tmp_path)
    assert code == 2 and "Traceback" not in said, said
    assert f"on_{cluster.name}.py: error: GET /v1/deals/{{id}}: 401 " in said, said
    assert sent(sandbox) - before == 5


def test_a_worker_is_killed(world: World, tmp_path: Path) -> None:
    cluster, sandbox, expected, ids, _ = world
    before, limit = sent(sandbox), 500
    process = cluster.begin("export", ids, tmp_path, "--rate-limit", limit, "--per-file", PER_FILE)
    until(lambda: sent(sandbox) >= before + 600 and len(cluster.workers()) == cluster.count, PATIENCE)
    came = [request.at for request in sandbox.requests if request.number > before]
    cluster.workers()[0].kill()
    cluster.write_state()
    # Both workers together stayed within the limit; each starts without waiting.
    assert (came[-1] - came[0]).total_seconds() > 0.95 * (len(came) - cluster.count) / limit

    assert process.wait(PATIENCE) == 1, cluster.said()  # One of the deals does not exist.
    assert exported(tmp_path).equals(expected)
    # What had been finished was not requested again.
    assert sent(sandbox) - before <= len(IDS) + PER_FILE
    check_secrecy(cluster)


def agents(sandbox: Sandbox) -> dict[str, str]:
    """The ids of the agents that the service has, by e-mail address."""
    found = sandbox.agents
    by_email = {agent.email: agent.id for agent in found}
    assert len(by_email) == len(found), "an agent is there twice"
    return by_email


def test_an_import_whose_tasks_run_twice_and_are_killed(world: World, tmp_path: Path) -> None:
    cluster, sandbox, _, _, url = world
    if not url:
        pytest.skip(f"an import on an engine needs {NEEDED}")
    rows = [
        {"email": f"agent{n}@example.com", "first_name": "Ada", "last_name": "Lovelace", "profile": {"tier": "A"}}
        for n in range(1_200)
    ]
    table = tmp_path / "agents.parquet"
    parquet.write_table(pyarrow.Table.from_pylist(rows), table)
    sandbox.fail_next(method="POST", times=None, act_then_reset=True, probability=0.005, seed=1)
    sandbox.fail_next(method="POST", times=None, status=503, probability=0.005, seed=2)
    sandbox.fail_next(method="POST", times=None, status=429, retry_after=0, probability=0.01, seed=3)
    sandbox.fail_next(method="POST", times=None, delay=0.1, probability=0.2, seed=4)
    job = ("import", table, tmp_path, "--key", "email", "--per-file", 100)

    process = cluster.begin(*job, twice=True)
    until(lambda: len(sandbox.agents) >= 250 and len(cluster.workers()) == cluster.count, PATIENCE)
    cluster.workers()[0].kill()
    until(lambda: len(sandbox.agents) >= 600, PATIENCE)
    for worker in cluster.workers():
        worker.kill()
    process.kill()
    process.wait()

    code, said = cluster.run(*job, twice=True)
    assert code == 1 and "Imported(" in said, said
    doubtful = [row["key"] for row in parquet.read_table(tmp_path / "failed").to_pylist() if row["result"] == "unknown"]
    assert len(doubtful) == len(ledger.show(url).in_doubt) >= 3, said
    there = agents(sandbox)
    ledger.settle(url, {email: there.get(email) for email in doubtful})
    sandbox.clear_faults()
    code, said = cluster.run(*job, twice=True)
    assert code == 0, said
    there = agents(sandbox)
    assert there.keys() == {row["email"] for row in rows}, "an agent is missing"
    done = {row["key"]: row["agent_id"] for row in parquet.read_table(tmp_path / "agents").to_pylist()}
    assert done == there
    check_secrecy(cluster)
