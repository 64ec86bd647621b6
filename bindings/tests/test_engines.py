"""Jobs that an engine maps over its workers: what comes of them, and what a task may hold. `bindings/engines` runs them on
Dask, Spark and Ray.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from dealkit import Client, ConfigError, StoppedError, engines
from dealkit.engines import Exported, Imported, export_deals, import_agents
from dealkit.ledger import settle
from dealkit.testing import Sandbox

KEY = "sk-canary-0b5e1f77"
IDS = [f"g_{n}" for n in range(120)]


@pytest.fixture
def sandbox(monkeypatch: pytest.MonkeyPatch) -> Iterable[Sandbox]:
    with Sandbox(generate=len(IDS), seed=7, service_key=KEY) as sandbox:
        monkeypatch.setenv("DEALKIT_BASE_URL", sandbox.url)
        monkeypatch.setenv("DEALKIT_SERVICE_KEY", KEY)
        yield sandbox


def twice(do: Callable[[Any], Any], tasks: list[Any]) -> list[Any]:
    """An engine that pickles tasks and functions, and does every task twice."""
    pickled = [pickle.dumps((do, task)) for task in tasks]
    assert not any(KEY.encode() in text for text in pickled)
    done = []
    for text in pickled:
        function, task = pickle.loads(text)
        done.append(function(task))
        assert type(function(task)) is type(done[-1])
    return done


def test_an_export(sandbox: Sandbox, tmp_path: Path) -> None:
    sandbox.fail_next(status=503, path="/v1/deals/g_17", times=None)
    wanted = [*IDS, "no-such-deal", "", IDS[0]]
    assert export_deals(twice, wanted, tmp_path, workers=2, per_file=30) == Exported(119, 2)
    # Each deal once, though each task was run twice; with retries.
    paths = [request.path for request in sandbox.requests]
    assert len({*paths}) == 121 and paths.count("/v1/deals/g_18") == 1
    # A first task, and two for each worker.
    assert sorted(parquet.read_metadata(file).num_rows for file in (tmp_path / "deals").iterdir()) == [
        5,
        28,
        28,
        29,
        29,
    ]
    failed = parquet.read_table(tmp_path / "failed")
    assert sorted(zip(failed["id"].to_pylist(), failed["status"].to_pylist(), strict=True)) == [
        ("g_17", 503),
        ("no-such-deal", 404),
    ]

    sandbox.clear_faults()
    sandbox.clear_requests()
    assert export_deals(twice, iter(wanted), tmp_path, workers=2) == Exported(1, 1)
    assert {request.path for request in sandbox.requests} == {"/v1/deals/g_17", "/v1/deals/no-such-deal"}
    with Client() as client:
        expected = pyarrow.table(client.deals.retrieve_many(IDS).to_arrow())
    assert parquet.read_table(tmp_path / "deals").sort_by("id").equals(expected.sort_by("id"))
    assert export_deals(twice, IDS, tmp_path, workers=2) == Exported(0, 0)


@pytest.mark.parametrize(("status", "refused"), [(401, True), (403, True), (404, False), (500, False)])
def test_the_first_task_finds_out_whether_any_can_be_done(
    sandbox: Sandbox, tmp_path: Path, status: int, refused: bool
) -> None:
    sandbox.fail_next(status=status, times=None)
    if refused:
        with pytest.raises(StoppedError, match=str(status)):
            export_deals(map, IDS, tmp_path, workers=2)
    else:
        assert export_deals(map, IDS[:10], tmp_path, workers=2).failed == 10
    assert refused == (len(sandbox.requests) == 5)
    # One that may not be read does not stop the others.
    sandbox.clear_faults()
    sandbox.fail_next(status=403, path="/v1/deals/g_0", times=None)
    assert export_deals(map, IDS[:10], tmp_path, workers=2) == Exported(9, 1)


def test_a_worker_without_the_key_or_the_service(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("DEALKIT_SERVICE_KEY", raising=False)
    monkeypatch.setenv("DEALKIT_BASE_URL", "http://127.0.0.1:1")
    with pytest.raises(ConfigError, match="DEALKIT_SERVICE_KEY"):
        export_deals(map, IDS, tmp_path, workers=1)
    monkeypatch.setenv("DEALKIT_SERVICE_KEY", KEY)
    with pytest.raises(StoppedError, match="no connection could be made"):
        export_deals(map, IDS[:1], tmp_path, workers=1)
    with pytest.raises(ValueError, match="workers must be at least 1, not 0"):
        export_deals(map, IDS, tmp_path, workers=0)


@dataclass
class Permits:
    """A limiter that all workers share, and that counts."""

    file: Path

    def __call__(self) -> None:
        with self.file.open("a") as file:
            file.write(".")


def test_the_workers_share_the_rate_or_ask_a_limiter(sandbox: Sandbox, tmp_path: Path) -> None:
    given: list[Any] = []

    def run(do: Any, tasks: list[Any]) -> list[Any]:
        given.append((do.__self__.rate_limit, len(tasks)))
        return [*map(do, tasks)]

    export_deals(run, IDS, tmp_path, workers=4, rate_limit=10_000)
    assert given == [(2_500, 1), (2_500, 4)]
    permits = Permits(tmp_path / "permits")
    assert export_deals(twice, [*IDS, "none"], tmp_path, workers=4, limiter=permits).failed == 1
    export_deals(twice, IDS, tmp_path / "other", workers=4, limiter=permits)
    assert permits.file.read_text() == "." * (1 + len(IDS))


EMAILS = [f"agent{n}@example.com" for n in range(40)]
# What is null is not sent, and the last row breaks the rules.
AGENTS = pyarrow.Table.from_pylist(
    [
        {"email": email, "first_name": "Ada", "last_name": "Lovelace", "phone": None, "profile": {"external_id": email}}
        for email in EMAILS
    ]
    + [{"email": "nobody", "first_name": "", "last_name": "N.", "profile": {"external_id": "x", "tier": None}}]
)


def test_an_import(sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "agents.ledger"
    monkeypatch.setenv("DEALKIT_LEDGER", str(path))
    sandbox.fail_next(act_then_reset=True)
    sandbox.fail_next(cut="before-head")
    sandbox.fail_next(status=409)
    how: Any = {"key": "email", "workers": 2, "per_file": 10}
    assert import_agents(twice, AGENTS, tmp_path, **how) == Imported(37, 0, 1, 2, 0, 1)
    failed = {row["key"]: row for row in parquet.read_table(tmp_path / "failed").to_pylist()}
    assert failed["nobody"]["kind"] == "validation" and failed["nobody"]["result"] == "not_sent"
    assert [row["status"] for row in failed.values() if row["result"] == "rejected"] == [409]

    there = {agent.email: agent.id for agent in sandbox.agents}
    settle(path, {key: there.get(key) for key, row in failed.items() if row["result"] in ("unknown", "rejected")})
    assert import_agents(twice, AGENTS, tmp_path, **how) == Imported(2, 38, 0, 0, 0, 1)
    # Somewhere else, everything comes from the ledger.
    assert import_agents(twice, AGENTS, tmp_path / "other", **how) == Imported(0, 40, 0, 0, 0, 1)
    there = {agent.email: agent.id for agent in sandbox.agents}
    assert there.keys() == {*EMAILS} and len(sandbox.agents) == len(EMAILS)
    for folder in (tmp_path, tmp_path / "other"):
        assert {row["key"]: row["agent_id"] for row in parquet.read_table(folder / "agents").to_pylist()} == there


def test_an_import_that_cannot_begin(sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(key: str = "email", run: Any = map, error: type[Exception] = ValueError) -> str:
        with pytest.raises(error) as raised:
            import_agents(run, AGENTS, tmp_path, key=key, workers=1)
        return str(raised.value)

    for key, why in {
        "e-mail": "the table has no field 'e-mail' to tell rows apart by",
        "profile.e-mail": "the table has no field 'profile.e-mail' to tell rows apart by",
        "phone": "41 rows have no phone, the key that tells rows apart; the first is at index 0",
        "first_name": "39 rows share with another row their first_name, the key that tells rows apart",
    }.items():
        assert refused(key) == why
    # A ledger that not all workers would have.
    for ledger in ("", "agents.ledger"):
        monkeypatch.setenv("DEALKIT_LEDGER", ledger)
        assert "DEALKIT_LEDGER must name the ledger of all workers" in refused(error=ConfigError)
    monkeypatch.setenv("DEALKIT_LEDGER", str(tmp_path / "agents.ledger"))

    def elsewhere(do: Any, tasks: list[Any]) -> list[Any]:
        monkeypatch.setattr("socket.gethostname", lambda: "another")
        return [*map(do, tasks)]

    assert "a worker is not on the machine" in refused(run=elsewhere, error=ConfigError)
    monkeypatch.undo()
    monkeypatch.setenv("DEALKIT_BASE_URL", sandbox.url)
    monkeypatch.setenv("DEALKIT_SERVICE_KEY", "wrong")
    monkeypatch.setenv("DEALKIT_LEDGER", str(tmp_path / "agents.ledger"))
    assert "401 Unauthorized" in refused(error=StoppedError)
    # Of the first five rows, those that are not yet sent when the first refusal comes stay unsent.
    assert 1 <= len(sandbox.requests) <= 5 and not sandbox.agents


def test_the_command_line(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from contextlib import nullcontext

    def program(*arguments: object) -> int:
        monkeypatch.setattr("sys.argv", ["on_map.py", *map(str, arguments)])
        try:
            engines.main(lambda: nullcontext((map, 2)))
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else -1
        return 0

    ids, out = tmp_path / "ids.txt", tmp_path / "out"
    ids.write_text("g_0\r\ng_1\n\nno-such-deal\n")
    assert program("export", ids, out, "--rate-limit", 100) == 1
    assert capsys.readouterr().out == f"Exported(deals=2, failed=1)\n{out / 'failed'} says why some are not there\n"
    ids.write_text("g_0\ng_1\n")
    assert program("export", ids, out) == 0
    assert capsys.readouterr().out == "Exported(deals=0, failed=0)\n"

    table = tmp_path / "agents.parquet"
    parquet.write_table(AGENTS, table)
    monkeypatch.setenv("DEALKIT_LEDGER", str(tmp_path / "agents.ledger"))
    assert program("import", table, out, "--key", "email") == 1
    assert capsys.readouterr().out.startswith(f"{Imported(40, 0, 0, 0, 0, 1)}\n")
    parquet.write_table(AGENTS.slice(0, 40), table)
    assert program("import", table, out / "other", "--key", "email") == 0
    assert capsys.readouterr().out == f"{Imported(0, 40, 0, 0, 0, 0)}\n"

    sandbox.fail_next(status=401, times=None)
    ids.write_text("g_2\n")
    for file, why in ((ids, "401 Unauthorized"), (tmp_path / "none.txt", "No such file")):
        assert program("export", file, out) == 2
        assert why in capsys.readouterr().err
