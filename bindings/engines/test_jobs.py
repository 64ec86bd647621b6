"""The example on an engine's workers: the same tables as in one process, and no agent twice, whatever happens."""

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
from clusters import CLUSTERS, PATIENCE, WORKERS, Cluster
from postgres import NEEDED, Postgres, must_skip, required_programs
from processes import until
from pyarrow import parquet

from dealkit import Client, ledger
from dealkit.testing import Sandbox

ENGINES = os.environ.get("DEALKIT_ENGINES", "dask spark ray").split()

# Deals of a task: as many as may have to be requested again when a worker dies.
PER_TASK = 250

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
    """A cluster, and the service behind it."""

    cluster: Cluster
    sandbox: Sandbox
    # Where PostgreSQL is not installed, there is none.
    ledger: str


@pytest.fixture(scope="module", params=ENGINES)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    # Not below pytest's own folder: the paths of Ray's sockets would be too long.
    folder = Path(tempfile.mkdtemp(prefix="dealkit-"))
    with Sandbox(generate=2_500, seed=7) as sandbox:
        sandbox.insert_deal(FULL)
        with nullcontext() if must_skip() else Postgres(required_programs(), "password") as server:
            url = "" if server is None else server.url
            with CLUSTERS[request.param](folder, sandbox, url) as cluster:
                yield World(cluster, sandbox, url)
    shutil.rmtree(folder)


def sent(sandbox: Sandbox) -> int:
    """The number of requests so far."""
    return sandbox.requests[-1].number if sandbox.requests else 0


def test_an_export_whose_worker_is_killed(world: World, tmp_path: Path) -> None:
    cluster, sandbox, _ = world
    ids = tmp_path / "ids.txt"
    # One twice, and an empty line at the end.
    ids.write_text("\n".join([*IDS, IDS[0], ""]))
    sandbox.fail_next(status=503, path="/v1/deals/g_2300", times=None)
    job = ("export", ids, tmp_path, "--rate-limit", 250, "--per-task", PER_TASK)
    process = cluster.begin(*job)
    until(lambda: sent(sandbox) >= 600 and len(cluster.workers()) == WORKERS, PATIENCE)
    cluster.workers()[0].kill()
    assert process.wait(PATIENCE) == 1
    # What had been finished was not requested again; the 503 was retried, perhaps twice.
    assert sent(sandbox) <= len(IDS) + PER_TASK + 4

    sandbox.clear_faults()
    before = sent(sandbox)
    code, said = cluster.run(*job)
    assert code == 1 and "1 done, 1 failed" in said, said
    asked = {request.path for request in sandbox.requests if request.number > before}
    assert asked == {"/v1/deals/g_2300", "/v1/deals/no-such-deal"}
    failed = parquet.read_table(tmp_path / "failed").to_pylist()
    assert [(row["id"], row["status"]) for row in failed] == [("no-such-deal", 404)]
    with Client(base_url=sandbox.url, service_key=sandbox.service_key) as client:
        deals = client.deals.retrieve_many(IDS, on_error="return").to_arrow()
        expected = pyarrow.table(deals).sort_by("id")
    assert parquet.read_table(tmp_path / "deals").sort_by("id").equals(expected)


def test_an_import_whose_workers_are_killed(world: World, tmp_path: Path) -> None:
    cluster, sandbox, url = world
    if not url:
        pytest.skip(f"an import on an engine needs {NEEDED}")
    rows = [
        {"email": f"agent{n}@example.com", "first_name": "Ada", "last_name": "Lovelace", "profile": {"tier": "A"}}
        for n in range(1_200)
    ]
    table = tmp_path / "agents.parquet"
    parquet.write_table(pyarrow.Table.from_pylist(rows), table)
    sandbox.fail_next(method="POST", times=None, process_then_reset=True, probability=0.005, seed=1)
    sandbox.fail_next(method="POST", times=None, delay=0.1, probability=0.2, seed=4)
    job = ("import", table, tmp_path, "--per-task", 100)

    process = cluster.begin(*job)
    until(lambda: len(sandbox.agents) >= 250 and len(cluster.workers()) == WORKERS, PATIENCE)
    cluster.workers()[0].kill()
    until(lambda: len(sandbox.agents) >= 600, PATIENCE)
    for worker in cluster.workers():
        worker.kill()
    process.kill()
    process.wait()

    code, said = cluster.run(*job)
    assert code == 1, said
    failed = parquet.read_table(tmp_path / "failed").to_pylist()
    doubtful = [row["email"] for row in failed if row["outcome"] == "unknown"]
    there = {agent.email: agent.id for agent in sandbox.agents}
    ledger.resolve(url, {email: there.get(email) for email in doubtful})
    sandbox.clear_faults()
    code, said = cluster.run(*job)
    assert code == 0, said
    agents = {agent.email: agent.id for agent in sandbox.agents}
    assert len(agents) == len(sandbox.agents) == len(rows), "an agent is there twice, or missing"
    done = parquet.read_table(tmp_path / "agents").to_pylist()
    assert {row["email"]: row["agent_id"] for row in done} == agents
