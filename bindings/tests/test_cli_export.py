"""The command `dealkit deals export`: files, failures, and runs that are stopped."""

from __future__ import annotations

import csv
import json
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow
import pytest
from commands import COMMAND, dealkit, end, environment, start
from conftest import answer, exact
from processes import HANGS, until
from pyarrow import parquet

from dealkit import Client, Deal
from dealkit._cli import files
from dealkit.arrow import deals_to_arrow, schema
from dealkit.testing import Sandbox

COUNT = 300
# Puts what has come on disk more often, so that a test need not wait.
OFTEN = "from dealkit._cli import part; part._SAVED_EVERY = 0.1"
IDS = [f"g_{number}" for number in range(COUNT)]


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    """Each test has its own: what an export that ended early has in flight arrives late, and would use up faults."""
    with Sandbox(generate=COUNT, seed=7) as sandbox:
        yield sandbox


@pytest.fixture
def deals(sandbox: Sandbox) -> list[Deal]:
    with Client(base_url=sandbox.url, service_key=sandbox.service_key) as client:
        return [*client.deals.retrieve_many(IDS)]


@pytest.fixture
def ids(tmp_path: Path) -> Path:
    path = tmp_path / "ids.txt"
    path.write_text("\n".join(IDS) + "\n")
    return path


def written(path: Path) -> list[Deal]:
    with open(path, "rb") as lines:
        return [Deal.from_json(line) for line in lines]


def rows(path: Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8-sig", newline="") as file:
        return [*csv.DictReader(file)]


def found_in(out: Path) -> list[str]:
    """The ids of the deals in a file."""
    if out.suffix == ".parquet":
        table = parquet.read_table(out)
        return [str(id) for id in table["id"].to_pylist()]
    return [row["id"] for row in rows(out)] if out.suffix == ".csv" else [deal.id for deal in written(out)]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("form", ["ndjson", "csv", "parquet"])
def test_each_form_has_every_deal(form: str, sandbox: Sandbox, deals: list[Deal], ids: Path, tmp_path: Path) -> None:
    out = f"deals.{form}"
    done = dealkit("deals", "export", "--ids", ids, "--out", out, url=sandbox.url, cwd=tmp_path)
    assert done == (0, f"300 deals in {out}\n", "")
    assert names(tmp_path) == [out, "ids.txt"]
    if form == "ndjson":
        lines = (tmp_path / out).read_text().splitlines()
        assert [exact(line) for line in lines] == [exact(deal.to_json()) for deal in deals]
    elif form == "parquet":
        found = parquet.read_table(tmp_path / out)
        assert found.schema == pyarrow.schema(schema())
        assert found == pyarrow.table(deals_to_arrow(deals))
    else:
        for row, deal in zip(rows(tmp_path / out), deals, strict=True):
            assert deal.application is not None and deal.created_at is not None
            assert row["application.requested_amount"] == str(deal.application.requested_amount)
            assert row["created_at"] == deal.created_at.isoformat().replace("+00:00", "Z")
            assert exact(row["application.offers"]) == [exact(offer.to_json()) for offer in deal.application.offers]
            assert json.loads(row["metadata"] or "{}") == dict(deal.metadata)


def test_csv_of_what_nobody_knows(tmp_path: Path) -> None:
    deal = """{"id": "=1+1\\n\\"x\\"", "metadata": {"a;b": "ü,"}, "new": {"rate": 1.10}, "sides": [{"gross_commission": 1.5000}],
        "application": {"requested_amount": 12500.50, "newer": [1.10]}, "created_at": "2024-01-01T00:00:00.5Z"}"""
    (tmp_path / "ids.csv").write_text('id\n"=1+1\n""x"""\n')
    with Sandbox([deal]) as sandbox:
        done = dealkit("deals", "export", "--ids", "ids.csv", "--out", "o.csv", url=sandbox.url, cwd=tmp_path)
    assert done == (0, "1 deal in o.csv\n", "")
    (row,) = rows(tmp_path / "o.csv")
    assert {name: text for name, text in row.items() if text} == {
        # No spreadsheet may take it for a formula.
        "id": '\'=1+1\n"x"',
        "created_at": "2024-01-01T00:00:00.500000Z",
        "application.requested_amount": "12500.50",
        "application.extra": '{"newer":[1.10]}',
        "sides": '[{"gross_commission":1.5000}]',
        "metadata": '{"a;b":"ü,"}',
        "extra": '{"new":{"rate":1.10}}',
    }


def test_a_number_that_parquet_cannot_hold(tmp_path: Path) -> None:
    deals = [f'{{"id": "d_{at}", "sides": [{{"agent_units": {one}}}]}}' for at, one in enumerate(["1.5", "1e-11", "2"])]
    (tmp_path / "ids.txt").write_text("d_0\nd_1\nd_2\n")
    with Sandbox(deals) as sandbox:
        command = ["deals", "export", "--ids", "ids.txt", "--out"]
        done = dealkit(*command, "o.parquet", url=sandbox.url, cwd=tmp_path)
        assert done.code == 1 and found_in(tmp_path / "o.parquet") == ["d_0", "d_2"]
        (failed,) = rows(tmp_path / "o.parquet.failed.csv")
        assert (failed["id"], failed["kind"]) == ("d_1", "decode") and "sides[0].agent_units" in failed["message"]
        # A format that holds any number accepts it.
        done = dealkit(*command, "o.csv", "--ids", "o.parquet.failed.csv", url=sandbox.url, cwd=tmp_path)
        assert done.code == 0 and '"agent_units""' in (tmp_path / "o.csv").read_text()


def test_a_field_that_cannot_be_read_costs_that_field_if_asked(tmp_path: Path, peer: Any) -> None:
    (tmp_path / "ids.txt").write_text("d_1\n")
    url = peer(answer(200, '{"id": "d_1", "status": "CLOSED", "expiry_date": "31.12.2026"}')).url
    command = ["deals", "export", "--ids", "ids.txt", "--out"]
    done = dealkit(*command, "o.csv", url=url, cwd=tmp_path)
    (failed,) = rows(tmp_path / "o.csv.failed.csv")
    assert done.code == 1 and "the field can be skipped [see --on-unreadable skip]" in failed["message"]
    for name in ("o.ndjson", "p.csv", "o.parquet"):
        assert dealkit(*command, name, "--on-unreadable", "skip", url=url, cwd=tmp_path).code == 0
    (row,) = rows(tmp_path / "p.csv")
    assert (row["status"], row["expiry_date"], row["extra"]) == ("CLOSED", "", '{"expiry_date":"31.12.2026"}')
    (row,) = parquet.read_table(tmp_path / "o.parquet").to_pylist()
    assert (row["status"], row["expiry_date"], row["extra"]) == ("CLOSED", None, '{"expiry_date":"31.12.2026"}')


def test_what_is_no_deal_fails_alone(tmp_path: Path, peer: Any) -> None:
    bodies = {"d_1": "", "d_2": " \n", "d_3": "<html>", "d_4": "{}", "d_5": '{"id": "d_5"}'}
    (tmp_path / "ids.txt").write_text("\n".join(bodies))
    url = peer(lambda request: answer(200, bodies[request.decode().split()[1].rpartition("/")[2]])).url
    for name in ("o.ndjson", "o.parquet"):
        done = dealkit("deals", "export", "--ids", "ids.txt", "--out", name, url=url, cwd=tmp_path)
        failed = rows(tmp_path / f"{name}.failed.csv")
        assert (done.code, [row["id"] for row in failed]) == (1, ["d_1", "d_2", "d_3", "d_4"])
        assert {(row["kind"], row["outcome"]) for row in failed} == {("decode", "succeeded")}
        assert found_in(tmp_path / name) == ["d_5"]


def test_parquet_without_pyarrow(sandbox: Sandbox, ids: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user is told before anything is retrieved, and told what to install."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    done = dealkit("deals", "export", "--ids", ids, "--out", tmp_path / "d.parquet", url=sandbox.url)
    assert (done.code, done.shown) == (2, "") and "pip install 'dealkit[parquet]'" in done.told
    assert names(tmp_path) == ["ids.txt"] and not sandbox.requests


def test_ids_as_people_have_them(sandbox: Sandbox, tmp_path: Path) -> None:
    def export(source: str, given: str = "") -> Any:
        return dealkit(
            "deals", "export", "--ids", source, "--out", "o.ndjson", "--overwrite",
            url=sandbox.url, cwd=tmp_path, given=given,
        )  # fmt: skip

    (tmp_path / "ids.txt").write_bytes(b"\xef\xbb\xbfg_1\r\n\r\n  g_2 \r\ng_1\r\ng_2\r\ng_1")
    done = export("ids.txt")
    assert done.shown == "2 deals in o.ndjson\n"
    assert [deal.id for deal in written(tmp_path / "o.ndjson")] == ["g_1", "g_2"]

    assert export("-", "g_3\n").shown == "1 deal in o.ndjson\n"
    assert [deal.id for deal in written(tmp_path / "o.ndjson")] == ["g_3"]

    (tmp_path / "ids.csv").write_text("name;id\nx;g_4\ny;\nz;g_5\n")
    assert export("ids.csv").shown == "2 deals in o.ndjson\n"

    for name in ("ID", "Deal-ID", "deal_id", "DealId"):
        (tmp_path / "ids.tsv").write_text(f"name\t{name}\nx\tg_4\n")
        done = export("ids.tsv")
        assert (done.shown, done.told) == ("1 deal in o.ndjson\n", "")
    # The first line may be an id, so the message does not repeat it.
    for table, told in (
        ("name,Number\nx,g_1\n", "it has name, Number"),
        ("g_canary\ng_2\n", "put a list without one into a .txt file"),
        ("id,x,Deal ID\ng_1,y,g_2\n", "it has id, x, Deal ID"),
    ):
        (tmp_path / "wrong.csv").write_text(table)
        must = "dealkit: wrong.csv must have one column named id or deal_id in its first row"
        assert export("wrong.csv") == (2, "", f"{must}; {told}\n")
    assert export("-", "\n \n").told == "dealkit: there are no ids to retrieve in standard input\n"
    assert export("nothing.txt").told == "dealkit: nothing.txt cannot be read: No such file or directory\n"
    (tmp_path / "latin.txt").write_bytes(b"g_1\n\xe9\n")
    assert export("latin.txt").told.startswith("dealkit: latin.txt: line 2 is not UTF-8; ")


def test_ids_that_look_like_formulas_go_round(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_text("=1+1\n-2\n'=3\n")
    command = ["deals", "export", "--ids", "ids.txt", "--out", "d.csv"]
    sandbox.fail_next(status=409, times=None)
    assert dealkit(*command, url=sandbox.url, cwd=tmp_path).code == 1
    assert [row["id"] for row in rows(tmp_path / "d.csv.failed.csv")] == ["'=1+1", "'-2", "''=3"]
    sandbox.clear_requests()
    again = ["deals", "export", "--ids", "d.csv.failed.csv", "--out", "e.csv", "--concurrency", "1"]
    assert dealkit(*again, url=sandbox.url, cwd=tmp_path).code == 1
    asked = [request.path.rpartition("/")[2] for request in sandbox.requests]
    assert [unquote(id) for id in asked] == ["=1+1", "-2", "'=3"]


def test_what_fails_is_in_a_file_of_its_own(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_text("g_0\nnope\ng_1\n..\ng_2\n")
    sandbox.fail_next(status=500, times=3, path="/v1/deals/g_1", body={"title": "Out of order"})
    done = dealkit("deals", "export", "--ids", "ids.txt", "--out", "d.ndjson", url=sandbox.url, cwd=tmp_path)
    assert (done.code, done.told) == (1, "")
    assert done.shown == (
        "2 of 5 deals in d.ndjson; d.ndjson.failed.csv has the others:\n"
        "1 not found: according to the service, there is no such deal\n"
        "2 could not be retrieved. When that is fixed, retrieve them into another file:\n"
        "  dealkit deals export --ids d.ndjson.failed.csv --out d-2.ndjson\n"
    )
    failed = rows(tmp_path / "d.ndjson.failed.csv")
    assert [[*row.values()][:4] for row in failed] == [
        ["nope", "status", "404", "rejected"],
        ["g_1", "status", "500", "unknown"],
        ["..", "validation", "", "not_sent"],
    ]
    assert "500 Internal Server Error: Out of order" in failed[1]["message"]
    assert "nope" not in failed[0]["message"]

    # The command exactly as the message gave it. It asks only for what may still come.
    again = done.shown.splitlines()[-1].split()[1:]
    sandbox.clear_requests()
    done = dealkit(*again, url=sandbox.url, cwd=tmp_path)
    assert done.shown.startswith("1 of 2 deals in d-2.ndjson; ") and "1 could not be retrieved. " in done.shown
    assert [deal.id for deal in written(tmp_path / "d-2.ndjson")] == ["g_1"]
    assert {request.path for request in sandbox.requests} == {"/v1/deals/g_1"}

    # If nothing else is left, there is nothing to run again.
    (tmp_path / "ids.txt").write_text("g_0\nnope\n")
    done = dealkit("deals", "export", "--ids", "ids.txt", "--out", "e.csv", "--json", url=sandbox.url, cwd=tmp_path)
    assert done.code == 1 and "dealkit deals export" not in done.told
    assert json.loads(done.shown)["counts"] == {"deals": 2, "written": 1, "failed": 1, "missing": 1}
    done = dealkit("deals", "export", "--ids", "e.csv.failed.csv", "--out", "f.csv", url=sandbox.url, cwd=tmp_path)
    assert done.code == 2 and "there are no ids to retrieve in e.csv.failed.csv" in done.told


def test_a_file_that_is_there_is_not_replaced_unless_asked(sandbox: Sandbox, ids: Path, tmp_path: Path) -> None:
    out = tmp_path / "d.ndjson"
    out.write_text("mine")
    done = dealkit("deals", "export", "--ids", ids, "--out", out, url=sandbox.url)
    assert (done.code, done.told) == (
        2,
        f"dealkit: {out} exists: choose another name, or replace it with --overwrite\n",
    )
    assert out.read_text() == "mine" and not sandbox.requests
    assert dealkit("deals", "export", "--ids", ids, "--out", out, "--overwrite", url=sandbox.url).code == 0
    assert len(written(out)) == COUNT


def test_nothing_is_written_but_files_of_the_export(sandbox: Sandbox, ids: Path, tmp_path: Path) -> None:
    def files() -> dict[str, Any]:
        return {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}

    (tmp_path / "precious").write_text("mine")
    (tmp_path / "o.csv.failed.csv").write_bytes(
        b"\xef\xbb\xbfid,kind,status,outcome,message\ng_1,status,404,rejected,x\n"
    )
    (tmp_path / "a.csv.part").write_text("mine")
    (tmp_path / "b.csv.failed.csv").write_text("mine")
    (tmp_path / "c.csv.part").hardlink_to(tmp_path / "precious")
    (tmp_path / "d.csv.part").symlink_to("precious")
    (tmp_path / "e.csv.failed.csv").symlink_to("precious")
    (tmp_path / "f.csv").symlink_to("precious")
    (tmp_path / "g.csv.part").symlink_to("not-there")
    (tmp_path / "h.csv").mkdir()
    before = files()
    for source, out, told in (
        ("o.csv.failed.csv", "o.csv", "o.csv.failed.csv would be written, but is the same file as o.csv.failed.csv"),
        ("ids.txt", "a.csv", "a.csv.part is not of a stopped export: move it away"),
        ("ids.txt", "b.csv", "b.csv.failed.csv is not the list of an export: move it away"),
        ("ids.txt", "c.csv", "c.csv.part is not of a stopped export: move it away"),
        ("ids.txt", "d.csv", "d.csv.part cannot be written: it is a link"),
        ("ids.txt", "e.csv", "e.csv.failed.csv cannot be written: it is a link"),
        ("ids.txt", "f.csv", "f.csv cannot be written: it is a link"),
        ("ids.txt", "g.csv", "g.csv.part cannot be written: it is a link"),
        ("ids.txt", "h.csv", "h.csv cannot be written: it is a folder"),
    ):
        options = ["--ids", source, "--out", out, "--overwrite"]
        done = dealkit("deals", "export", *options, url=sandbox.url, cwd=tmp_path)
        assert done.code in (2, 4) and f"dealkit: {told}" in done.told, done
    options = ["--ids", "ids.txt", "--out", "o.csv"]
    assert "o.csv.failed.csv exists; " in dealkit("deals", "export", *options, url=sandbox.url, cwd=tmp_path).told
    with open(tmp_path / "ids.txt") as given:
        command = [sys.executable, "-m", "dealkit", "deals", "export", "--ids", "-", "--out", "ids.csv", "--overwrite"]
        (tmp_path / "ids.csv").hardlink_to(tmp_path / "ids.txt")
        env = environment(sandbox.url, sandbox.service_key)
        refused = subprocess.run(command, stdin=given, env=env, cwd=tmp_path, capture_output=True, timeout=HANGS)
    assert refused.returncode == 2 and b"is the same file as standard input" in refused.stderr
    (tmp_path / "ids.csv").unlink()
    assert files() == before and not sandbox.requests


def test_ids_that_do_not_end(sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST_BYTES", 1 << 16)
    (tmp_path / "endless.txt").write_text("d_1\n" * (1 << 14))
    for source, wrong in (("/dev/zero", "is not text in UTF-8"), ("endless.txt", "is longer than ")):
        done = dealkit("deals", "export", "--ids", source, "--out", "o.csv", url=sandbox.url, cwd=tmp_path)
        assert done.code == 2 and f"{source} {wrong}" in done.told
    (tmp_path / "ids.csv").write_bytes("id\né\n".encode("cp1252"))
    done = dealkit("deals", "export", "--ids", "ids.csv", "--out", "o.csv", url=sandbox.url, cwd=tmp_path)
    assert done.told == 'dealkit: ids.csv: line 2 is not UTF-8; in a spreadsheet, save it as "CSV UTF-8"\n'


def saved(out: Path) -> tuple[int, int]:
    """How many groups an export has on disk, and how many of its ids are done with them."""
    with suppress(sqlite3.Error), closing(sqlite3.connect(f"file:{out}.part?immutable=1", uri=True)) as part:
        groups, done = part.execute("SELECT count(*), max(until) FROM come").fetchone()
        return groups, done or 0
    return 0, 0


def wait_until_saved(process: Any, out: Path) -> None:
    """Waits until an export writes its third group: the second is whole."""
    until(lambda: saved(out)[0] >= 3 or process.poll() is not None)
    assert process.poll() is None, "it does not come as far"


@pytest.mark.parametrize(
    ("form", "how"),
    [("ndjson", signal.SIGINT), ("csv", signal.SIGTERM), ("ndjson", signal.SIGKILL), ("parquet", signal.SIGKILL)],
)
def test_what_was_stopped_goes_on(
    form: str, how: signal.Signals, sandbox: Sandbox, deals: list[Deal], ids: Path, tmp_path: Path
) -> None:
    out = tmp_path / f"d.{form}"
    ids.write_text("nope\n" + ids.read_text())
    # It saves several times, and does not come further, however slow this machine is.
    sandbox.fail_next(delay=0.1, times=150)
    sandbox.fail_next(hold=True, times=None)
    command = ["deals", "export", "--ids", str(ids), "--out", str(out), "--concurrency", "4"]
    process = start(*command, url=sandbox.url, before=OFTEN)
    wait_until_saved(process, out)
    process.send_signal(how)
    done = end(process)
    assert not out.exists() and done.shown == ""
    if how == signal.SIGKILL:
        assert done.code == -signal.SIGKILL
    else:
        assert done.code == 128 + how
        kept = re.match(
            r"dealkit: stopped\nKept: (\d+) deals, and 1 that could not be retrieved, in (.*)\. To ", done.told
        )
        assert kept and kept[2] == f"{out}.part"
        # One of the ids is not a deal, so it is not among the deals that are kept.
        assert int(kept[1]) == saved(out)[1] - 1
        assert done.told.endswith(f"To continue, run the same command again:\n  dealkit {' '.join(command)}\n")

    sandbox.clear_faults()
    sandbox.clear_requests()
    done = dealkit(*command, url=sandbox.url)
    assert done.code == 1 and done.shown.startswith("300 of 301 deals in ")
    assert re.search(
        r"resuming where the last run stopped: \d+ of 301 deals are done, of which 1 could not be ", done.told
    )
    # Deals already on disk are not retrieved again, except those that were in flight or not yet written.
    assert 0 < len(sandbox.requests) < COUNT
    assert [row["id"] for row in rows(tmp_path / f"d.{form}.failed.csv")] == ["nope"]
    assert found_in(out) == IDS
    if form == "ndjson":
        assert written(out) == deals
    assert names(tmp_path) == sorted(["ids.txt", f"d.{form}", f"d.{form}.failed.csv"])


def test_what_was_stopped_belongs_to_its_ids_and_its_service(sandbox: Sandbox, ids: Path, tmp_path: Path) -> None:
    out, part = tmp_path / "d.ndjson", tmp_path / "d.ndjson.part"
    sandbox.fail_next(delay=0.1, times=150)
    sandbox.fail_next(hold=True, times=None)
    command: list[str | Path] = ["deals", "export", "--ids", ids, "--out", out]
    process = start(*command, url=sandbox.url, before=OFTEN)
    wait_until_saved(process, out)

    # While it runs, nobody else may write the file.
    assert dealkit(*command, url=sandbox.url).told == f"dealkit: another dealkit process is writing {out}\n"
    process.send_signal(signal.SIGINT)
    assert end(process).code == 130
    sandbox.clear_faults()
    sandbox.release()

    kept = part.read_bytes()
    with Sandbox(generate=COUNT, seed=7) as another:
        refused = dealkit(*command, url=another.url)
        assert refused.code == 2 and "of other ids or from another service" in refused.told
    ids.write_text("g_7\n")
    refused = dealkit(*command, url=sandbox.url)
    assert refused.code == 2 and "remove the file to start over" in refused.told
    assert part.read_bytes() == kept

    part.unlink()
    assert dealkit(*command, url=sandbox.url).shown == f"1 deal in {out}\n"
    assert [deal.id for deal in written(out)] == ["g_7"]


@pytest.mark.parametrize("damage", ["header", "page", "deal", "group"])
@pytest.mark.parametrize("form", ["ndjson", "parquet"])
def test_what_was_stopped_and_damaged_is_named(
    damage: str, form: str, sandbox: Sandbox, ids: Path, tmp_path: Path
) -> None:
    """The same command would fail forever."""
    out = tmp_path / f"d.{form}"
    part = tmp_path / f"d.{form}.part"
    command: list[str | Path] = ["deals", "export", "--ids", ids, "--out", out]
    sandbox.fail_next(status=500, times=None, after=100)
    assert dealkit(*command, url=sandbox.url).code == 3
    sandbox.clear_faults()
    match damage:
        case "header":
            part.write_bytes(b"x" * 100 + part.read_bytes()[100:])
        case "page":
            data = part.read_bytes()
            part.write_bytes(data[:4096] + b"\xff" * (len(data) - 4096))
        case "deal":
            with closing(sqlite3.connect(part)) as file, file:
                deals = bytearray(file.execute("SELECT deals FROM come ORDER BY first").fetchone()[0])
                deals[len(deals) // 2] ^= 1
                file.execute("UPDATE come SET deals = ? WHERE first = 0", [bytes(deals)])
        case "group":
            with closing(sqlite3.connect(part)) as file, file:
                file.execute("UPDATE come SET first = 1 WHERE first = 0")
    kept = part.read_bytes()
    done = dealkit(*command, url=sandbox.url)
    assert f"{part}" in done.told and "move it away" in done.told, done
    assert not done.told.endswith(f"{out}\n") and "To continue" not in done.told and not out.exists()
    assert part.exists() and (damage in ("deal", "group") or part.read_bytes() == kept)
    part.unlink()
    assert dealkit(*command, url=sandbox.url).code == 0


def test_ids_survive_a_spreadsheet_that_opens_and_saves_the_list_of_failures(sandbox: Sandbox, tmp_path: Path) -> None:
    ids, out = tmp_path / "ids.txt", tmp_path / "d.ndjson"
    ids.write_text("00123\n123\n")
    sandbox.fail_next(status=400, times=2)
    assert dealkit("deals", "export", "--ids", ids, "--out", out, url=sandbox.url).code == 1
    failed = tmp_path / "d.ndjson.failed.csv"
    assert [row["id"] for row in rows(failed)] == ["'00123", "123"]
    sandbox.clear_requests()
    dealkit("deals", "export", "--ids", failed, "--out", tmp_path / "e.ndjson", url=sandbox.url)
    assert sorted(request.path for request in sandbox.requests) == ["/v1/deals/00123", "/v1/deals/123"]


def test_a_service_that_fails_ends_the_export(sandbox: Sandbox, ids: Path, tmp_path: Path) -> None:
    """A service that is down is not a fault of 300 deals."""
    out = tmp_path / "d.ndjson"
    command: list[str | Path] = ["deals", "export", "--ids", ids, "--out", out]
    sandbox.fail_next(status=500, times=None)
    done = dealkit(*command, url=sandbox.url)
    assert done.code == 3 and "calls in a row have failed" in done.told and "The service failed." in done.told
    assert names(tmp_path) == ["ids.txt"], "there was nothing to keep"

    sandbox.clear_faults()
    sandbox.fail_next(status=500, times=None, after=100)
    done = dealkit(*command, url=sandbox.url)
    assert done.code == 3 and "To continue, run the same command again:" in done.told
    sandbox.clear_faults()
    assert "resuming where the last run stopped: " in dealkit(*command, url=sandbox.url).told
    # Some of the deals in between may have failed before another one succeeded.
    failed = tmp_path / "d.ndjson.failed.csv"
    lost = [row["id"] for row in rows(failed)] if failed.exists() else []
    assert {*lost, *(deal.id for deal in written(out))} == {*IDS} and len(lost) < 32


@pytest.mark.parametrize(("form", "limit"), [("ndjson", 100), ("parquet", 40_000)])
def test_a_full_disk(form: str, limit: int, sandbox: Sandbox, ids: Path, tmp_path: Path) -> None:
    """Deals that were already on disk are kept, and the export resumes once there is room."""
    out = tmp_path / f"d.{form}"
    command = ["deals", "export", "--ids", str(ids), "--out", str(out)]
    # Python ignores SIGXFSZ, so writing beyond the limit fails as on a full disk.
    # Python would cut off the bytecode files that it writes, too, for all later processes.
    limited = f"import resource, sys\nsys.dont_write_bytecode = True\nresource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))"
    process = subprocess.run(
        [sys.executable, "-c", limited + COMMAND, *command],
        env=environment(sandbox.url, sandbox.service_key),
        capture_output=True,
        text=True,
        timeout=HANGS,
    )
    assert process.returncode == 4 and "Traceback" not in process.stderr
    assert process.stderr.startswith(f"dealkit: {out} cannot be written: ")
    if limit == 100:
        assert names(tmp_path) == ["ids.txt"]
    assert dealkit(*command, url=sandbox.url).code == 0
    assert found_in(out) == IDS


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ids.jsonl", '{"id": "g_1", "email": "x"}\n\n"g_2"\n'),
        ("ids.json", '[{"id": "g_1"},\n "g_2"]'),
        ("ids.JSON", '{"id": "g_1"}'),
    ],
)
def test_ids_in_json(name: str, text: str, sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    done = dealkit("deals", "export", "--ids", name, "--out", "d.ndjson", url=sandbox.url, cwd=tmp_path)
    assert done.code == 0 and found_in(tmp_path / "d.ndjson") == ["g_1", "g_2"][: text.count("g_")]
    (tmp_path / "ids.txt").write_text("g_1\ng_2\ng_3\n")
    skip = ["--exclude-ids", name, "--out", "e.ndjson"]
    done = dealkit("deals", "export", "--ids", "ids.txt", *skip, url=sandbox.url, cwd=tmp_path)
    assert done.code == 0 and found_in(tmp_path / "e.ndjson") == ["g_1", "g_2", "g_3"][text.count("g_") :]


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("ids.txt", 'g_1\n{"id": "g_2", "email": "canary@example.com"}\n', "ids.txt: line 2 does not look like an id"),
        ("ids.txt", "g_1,canary,canary@example.com\n", "ids.txt: line 1 does not look like an id"),
        ("ids.txt", "g_1\tcanary\n", "ids.txt: line 1 does not look like an id"),
        ("ids.jsonl", '{"id": "g_1"}\n{"name": "canary"}\n', "ids.jsonl must contain ids, or deals with their ids"),
        ("ids.json", '{"id": 5, "name": "canary"}', "ids.json must contain ids, or deals with their ids"),
        ("ids.json", "[canary]", "ids.json must contain ids, or deals with their ids"),
    ],
)
def test_records_do_not_become_ids(name: str, text: str, told: str, sandbox: Sandbox, tmp_path: Path) -> None:
    """They may be personal data, and ids become part of the path of a request. Nothing is sent, and nothing of them is shown."""
    (tmp_path / name).write_text(text)
    done = dealkit("deals", "export", "--ids", name, "--out", "d.ndjson", url=sandbox.url, cwd=tmp_path)
    assert done.code == 2 and told in done.told and "canary" not in done.told and not sandbox.requests


def test_deals_that_are_known_are_skipped(sandbox: Sandbox, tmp_path: Path) -> None:
    def export(ids: str, *arguments: str) -> Any:
        (tmp_path / "ids.txt").write_text(ids)
        return dealkit("deals", "export", "--ids", "ids.txt", "--out", *arguments, url=sandbox.url, cwd=tmp_path)

    for form in ("ndjson", "csv", "parquet"):
        assert export("g_1\ng_2\n", f"d.{form}").code == 0
        known = ["--exclude-ids", f"d.{form}"]
        done = export("g_1\ng_2\ng_3\n", f"e.{form}", *known)
        assert done == (0, f"1 deal in e.{form}\n", f"dealkit: 2 ids skipped: d.{form} has the deals\n")
        assert found_in(tmp_path / f"e.{form}") == ["g_3"]
    done = export("g_1\ng_2\ng_3\n", "f.csv", *known, "--exclude-ids", "e.csv")
    assert (done.code, done.shown) == (0, "there are no ids left, so nothing was retrieved\n")
    (tmp_path / "g.ndjson").write_text("{}")
    done = export("g_1\n", "f.csv", "--exclude-ids", "g.ndjson")
    assert done.code == 2 and "g.ndjson must contain ids, or deals with their ids, as an export does" in done.told
