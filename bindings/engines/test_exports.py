"""The examples that export deals on an engine's workers: the same tables as in one process, whatever happens."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import cloudpickle
import pyarrow
import pytest
from clusters import CLUSTERS, EXAMPLES, PATIENCE, Cluster, until
from pyarrow import parquet

from dealkit import Client
from dealkit.testing import Sandbox

KEY = "sk-canary-0b5e1f77"

ENGINES = os.environ.get("DEALKIT_ENGINES", "dask spark ray").split()

# More than fit into two tasks, one that does not exist, and one that is not a plain path segment.
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
        with CLUSTERS[request.param](folder, sandbox) as cluster:
            yield World(cluster, sandbox, expected, ids)
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
    """No log, no file that holds tasks or results, and no process list contains the key."""
    cluster.write_state()
    contents = {file: file.read_bytes() for file in cluster.folder.rglob("*") if file.is_file()}
    commands = {process.pid: " ".join(process.cmdline()).encode() for process in cluster.processes()}
    assert [name for name, text in (contents | commands).items() if KEY.encode() in text] == []
    # The files do mention the tasks.
    assert any(cluster.task in text for text in contents.values())


def test_the_deals_of_one_process_and_what_failed_is_asked_for_alone(world: World, tmp_path: Path) -> None:
    cluster, sandbox, expected, ids = world
    # An error of the service that contains the key, as none should.
    sandbox.fail_next(status=410, body={"title": f"gone, {KEY}"}, path="/v1/deals/g_17", times=None)
    sandbox.fail_next(status=503, path="/v1/deals/g_2300", times=None)
    code, said = cluster.export(ids, tmp_path)
    assert code == 1 and "3 of 2502 deals failed: " in said, said
    errors = failed(tmp_path)
    assert {id: error["status"] for id, error in errors.items()} == {"g_17": 410, "g_2300": 503, "no-such-deal": 404}
    assert exported(tmp_path).num_rows == len(IDS) - 3
    assert KEY not in str(errors)

    sandbox.clear_faults()
    before = sent(sandbox)
    code, said = cluster.export(ids, tmp_path)
    assert code == 1 and "1 of 3 deals failed: " in said, said
    first, *asked = [request.path for request in sandbox.requests if request.number > before]
    assert first == "/v1/deals/g_17" and sorted(asked) == sorted(f"/v1/deals/{id}" for id in errors)
    assert set(failed(tmp_path)) == {"no-such-deal"}
    assert exported(tmp_path).schema.equals(expected.schema)
    assert exported(tmp_path).equals(expected)
    check_secrecy(cluster)


def test_no_deal_can_be_had(world: World, tmp_path: Path) -> None:
    cluster, sandbox, _, ids = world
    for status, requests in ((401, 1), (403, 5)):
        sandbox.clear_faults()
        sandbox.fail_next(status=status, times=None)
        before = sent(sandbox)
        code, said = cluster.export(ids, tmp_path)
        assert code == 2 and "Traceback" not in said, said
        assert f"_export.py: error: GET /v1/deals/{{id}}: {status} " in said, said
        assert sent(sandbox) - before == requests
    code, said = cluster.export(tmp_path / "none.txt", tmp_path)
    assert code == 2 and "Traceback" not in said and "the ids cannot be read: " in said, said
    assert sent(sandbox) - before == requests and not (tmp_path / "failed").exists()


def test_one_deal_that_may_not_be_read(world: World, tmp_path: Path) -> None:
    cluster, sandbox, _, _ = world
    sandbox.fail_next(status=403, path="/v1/deals/g_0", times=None)
    some = tmp_path / "some.txt"
    some.write_text("g_0\ng_1\ng_2")
    code, said = cluster.export(some, tmp_path)
    assert code == 1 and "1 of 3 deals failed: " in said, said
    assert set(failed(tmp_path)) == {"g_0"}


def test_a_worker_without_the_key_or_the_service(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = runpy.run_path(str(EXAMPLES / f"{world.cluster.name}_export.py"))["refusal"]
    for name in world.cluster.secrets:
        monkeypatch.delenv(name, raising=False)
    assert "DEALKIT_BASE_URL" in refusal(["g_1"], 60)
    monkeypatch.setenv("DEALKIT_BASE_URL", "http://127.0.0.1:1")
    assert "DEALKIT_SERVICE_KEY" in refusal(["g_1"], 60)
    monkeypatch.setenv("DEALKIT_SERVICE_KEY", KEY)
    assert "no connection could be made" in refusal(["g_1"], 60)
    monkeypatch.setenv("DEALKIT_BASE_URL", world.sandbox.url)
    assert refusal(["no-such-deal"], 61) is None and refusal([".."], 61) is None


def test_a_worker_is_killed(world: World, tmp_path: Path) -> None:
    cluster, sandbox, expected, ids = world
    before, limit = sent(sandbox), 500
    process = cluster.begin(ids, tmp_path, limit)
    until(lambda: sent(sandbox) >= before + 600 and len(cluster.workers()) == cluster.count)
    came = [request.at for request in sandbox.requests if request.number > before]
    cluster.workers()[0].kill()
    cluster.write_state()
    # Both workers together stayed within the limit; each starts without waiting.
    assert (came[-1] - came[0]).total_seconds() > 0.95 * (len(came) - cluster.count) / limit

    assert process.wait(PATIENCE) != 0  # One of the deals does not exist.
    if cluster.runs_lost_tasks_again:
        assert exported(tmp_path).equals(expected)
    code, said = cluster.export(ids, tmp_path)
    assert code == 1 and "1 of " in said, said
    assert exported(tmp_path).equals(expected)
    check_secrecy(cluster)


def test_everything_is_killed(world: World, tmp_path: Path) -> None:
    cluster, sandbox, expected, ids = world
    before = sent(sandbox)
    process = cluster.begin(ids, tmp_path, 1000)
    until(lambda: sent(sandbox) >= before + 2_200)
    for worker in cluster.workers():
        worker.kill()
    process.kill()
    process.wait()
    # The remains of a file that a worker was writing.
    (tmp_path / "deals").mkdir(exist_ok=True)
    (tmp_path / "deals" / "half.parquet").write_bytes(b"PAR1\0\0\0")
    code, said = cluster.export(ids, tmp_path)
    assert code == 1 and "1 of " in said, said
    assert exported(tmp_path).equals(expected)
    check_secrecy(cluster)


def test_tasks_of_a_process_share_a_client_and_hold_no_key(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, sandbox, _, _ = world
    for name, value in cluster.secrets.items():
        monkeypatch.setenv(name, value)
    export = runpy.run_path(str(EXAMPLES / f"{cluster.name}_export.py"))["export"]
    client = Client.shared(rate_limit=50)
    tasks = [partial(export, [id], tmp_path, 50) for id in ("g_1", "g_2")]
    pickled = [cloudpickle.dumps(task) for task in tasks]
    for text in (*pickled, repr(tasks).encode(), repr(client).encode()):
        assert KEY.encode() not in text
    # As it would if the client were a variable of the task.
    assert KEY.encode() in cloudpickle.dumps(client)

    worker = """
import gc, pickle, sys
from dealkit import Client
for task in pickle.load(sys.stdin.buffer):
    print(*pickle.loads(task)()["id"].to_pylist())
print(sum(isinstance(one, Client) for one in gc.get_objects()))
"""
    run = subprocess.run(
        [sys.executable, "-c", worker], input=cloudpickle.dumps(pickled), capture_output=True, check=True
    )
    assert run.stdout.decode().split() == ["g_1", "g_2", "1"]


def test_the_examples_differ_in_their_engine_alone() -> None:
    texts = [(EXAMPLES / f"{name}_export.py").read_text() for name in CLUSTERS]
    shared = {text[text.index("# How many deals a task") : text.index("        return print(")] for text in texts}
    assert len(shared) == 1
    assert len({text[text.index("    if count := ") :] for text in texts}) == 1
