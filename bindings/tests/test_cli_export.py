"""`dealkit deals export`: output files, failures, and stopped runs."""

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
from commands import COMMAND_SCRIPT, command_environment, finish_command, run_command, start_command
from conftest import http_response, parse_exact
from processes import HANG_SECONDS, wait_until
from pyarrow import parquet

from dealkit import Client, Deal
from dealkit._cli import files
from dealkit._cli.excel_tables import read_sheet
from dealkit.arrow import deals_to_arrow, schema
from dealkit.testing import Sandbox

COUNT = 300
# Makes the export save more often, so that a test does not have to wait.
SAVE_OFTEN = "from dealkit._cli import partial_export; partial_export._SAVE_INTERVAL = 0.1"
IDS = [f"g_{number}" for number in range(COUNT)]


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    """A new sandbox for each test. Requests of an export that ended early may arrive late and would use up the next
    test's faults.
    """
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


def read_deals(path: Path) -> list[Deal]:
    with open(path, "rb") as lines:
        return [Deal.from_json(line) for line in lines]


def read_csv(path: Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8-sig", newline="") as file:
        return [*csv.DictReader(file)]


def read_deal_ids(out: Path) -> list[str]:
    """Returns the ids of the deals in a file."""
    if out.suffix == ".parquet":
        table = parquet.read_table(out)
        return [str(id) for id in table["id"].to_pylist()]
    if out.suffix == ".xlsx":
        return [row.cells[0] for row in read_sheet(out, None).rows][1:]
    return [row["id"] for row in read_csv(out)] if out.suffix == ".csv" else [deal.id for deal in read_deals(out)]


def list_files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("file_format", ["ndjson", "csv", "parquet"])
def test_each_format_has_every_deal(
    file_format: str, sandbox: Sandbox, deals: list[Deal], ids: Path, tmp_path: Path
) -> None:
    out = f"deals.{file_format}"
    completed = run_command("deals", "export", "--ids", ids, "--out", out, url=sandbox.url, cwd=tmp_path)
    assert completed == (0, f"300 deals in {out}\n", "")
    assert list_files(tmp_path) == [out, "ids.txt"]
    if file_format == "ndjson":
        lines = (tmp_path / out).read_text().splitlines()
        assert [parse_exact(line) for line in lines] == [parse_exact(deal.to_json()) for deal in deals]
    elif file_format == "parquet":
        found = parquet.read_table(tmp_path / out)
        assert found.schema == pyarrow.schema(schema())
        assert found == pyarrow.table(deals_to_arrow(deals))
    else:
        for row, deal in zip(read_csv(tmp_path / out), deals, strict=True):
            assert deal.application is not None and deal.created_at is not None
            assert row["application.requested_amount"] == str(deal.application.requested_amount)
            assert row["created_at"] == deal.created_at.isoformat().replace("+00:00", "Z")
            assert parse_exact(row["application.offers"]) == [
                parse_exact(offer.to_json()) for offer in deal.application.offers
            ]
            assert json.loads(row["metadata"] or "{}") == dict(deal.metadata)


def test_csv_of_undocumented_fields(tmp_path: Path) -> None:
    deal = """{"id": "=1+1\\n\\"x\\"", "metadata": {"a;b": "ü,"}, "new": {"rate": 1.10}, "sides": [{"gross_commission": 1.5000}],
        "application": {"requested_amount": 12500.50, "newer": [1.10]}, "created_at": "2024-01-01T00:00:00.5Z"}"""
    (tmp_path / "ids.csv").write_text('id\n"=1+1\n""x"""\n')
    with Sandbox([deal]) as sandbox:
        completed = run_command("deals", "export", "--ids", "ids.csv", "--out", "o.csv", url=sandbox.url, cwd=tmp_path)
    assert completed == (0, "1 deal in o.csv\n", "")
    (row,) = read_csv(tmp_path / "o.csv")
    assert {name: text for name, text in row.items() if text} == {
        # Must not be evaluated as a formula.
        "id": '\'=1+1\n"x"',
        "created_at": "2024-01-01T00:00:00.500000Z",
        "application.requested_amount": "12500.50",
        "application.extra": '{"newer":[1.10]}',
        "sides": '[{"gross_commission":1.5000}]',
        "metadata": '{"a;b":"ü,"}',
        "extra": '{"new":{"rate":1.10}}',
    }


def test_a_number_that_parquet_cannot_hold(tmp_path: Path) -> None:
    deals = [
        f'{{"id": "d_{at}", "sides": [{{"agent_units": {value}}}]}}' for at, value in enumerate(["1.5", "1e-11", "2"])
    ]
    (tmp_path / "ids.txt").write_text("d_0\nd_1\nd_2\n")
    with Sandbox(deals) as sandbox:
        command = ["deals", "export", "--ids", "ids.txt", "--out"]
        completed = run_command(*command, "o.parquet", url=sandbox.url, cwd=tmp_path)
        assert completed.code == 1 and read_deal_ids(tmp_path / "o.parquet") == ["d_0", "d_2"]
        (failed,) = read_csv(tmp_path / "o.parquet.failed.csv")
        assert (failed["id"], failed["kind"]) == ("d_1", "decode") and "sides[0].agent_units" in failed["message"]
        # NDJSON can hold any number.
        completed = run_command(*command, "o.csv", "--ids", "o.parquet.failed.csv", url=sandbox.url, cwd=tmp_path)
        assert completed.code == 0 and '"agent_units""' in (tmp_path / "o.csv").read_text()


def test_on_unreadable_skip_exports_the_rest_of_a_deal(tmp_path: Path, peer: Any) -> None:
    (tmp_path / "ids.txt").write_text("d_1\n")
    url = peer(http_response(200, '{"id": "d_1", "status": "CLOSED", "expiry_date": "31.12.2026"}')).url
    command = ["deals", "export", "--ids", "ids.txt", "--out"]
    completed = run_command(*command, "o.csv", url=url, cwd=tmp_path)
    (failed,) = read_csv(tmp_path / "o.csv.failed.csv")
    assert completed.code == 1 and "the field can be skipped [see --on-unreadable skip]" in failed["message"]
    for name in ("o.ndjson", "p.csv", "o.parquet"):
        assert run_command(*command, name, "--on-unreadable", "skip", url=url, cwd=tmp_path).code == 0
    (row,) = read_csv(tmp_path / "p.csv")
    assert (row["status"], row["expiry_date"], row["extra"]) == ("CLOSED", "", '{"expiry_date":"31.12.2026"}')
    (row,) = parquet.read_table(tmp_path / "o.parquet").to_pylist()
    assert (row["status"], row["expiry_date"], row["extra"]) == ("CLOSED", None, '{"expiry_date":"31.12.2026"}')


def test_an_invalid_deal_fails_without_affecting_others(tmp_path: Path, peer: Any) -> None:
    bodies = {"d_1": "", "d_2": " \n", "d_3": "<html>", "d_4": "{}", "d_5": '{"id": "d_5"}'}
    (tmp_path / "ids.txt").write_text("\n".join(bodies))
    url = peer(lambda request: http_response(200, bodies[request.decode().split()[1].rpartition("/")[2]])).url
    for name in ("o.ndjson", "o.parquet"):
        completed = run_command("deals", "export", "--ids", "ids.txt", "--out", name, url=url, cwd=tmp_path)
        failed = read_csv(tmp_path / f"{name}.failed.csv")
        assert (completed.code, [row["id"] for row in failed]) == (1, ["d_1", "d_2", "d_3", "d_4"])
        assert {(row["kind"], row["outcome"]) for row in failed} == {("decode", "succeeded")}
        assert read_deal_ids(tmp_path / name) == ["d_5"]


def test_parquet_without_pyarrow(sandbox: Sandbox, ids: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error appears before any request, and names the package to install."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    completed = run_command("deals", "export", "--ids", ids, "--out", tmp_path / "d.parquet", url=sandbox.url)
    assert (completed.code, completed.stdout) == (2, "") and 'pip install "dealkit[parquet]"' in completed.stderr
    assert list_files(tmp_path) == ["ids.txt"] and not sandbox.requests


def test_ids_are_read_from_each_kind_of_file(sandbox: Sandbox, tmp_path: Path) -> None:
    def export(source: str, stdin: str = "") -> Any:
        return run_command(
            "deals", "export", "--ids", source, "--out", "o.ndjson", "--overwrite",
            url=sandbox.url, cwd=tmp_path, stdin=stdin,
        )  # fmt: skip

    (tmp_path / "ids.txt").write_bytes(b"\xef\xbb\xbfg_1\r\n\r\n  g_2 \r\ng_1\r\ng_2\r\ng_1")
    completed = export("ids.txt")
    assert completed.stdout == "2 deals in o.ndjson\n"
    assert [deal.id for deal in read_deals(tmp_path / "o.ndjson")] == ["g_1", "g_2"]

    assert export("-", "g_3\n").stdout == "1 deal in o.ndjson\n"
    assert [deal.id for deal in read_deals(tmp_path / "o.ndjson")] == ["g_3"]

    (tmp_path / "ids.csv").write_text("name;id\nx;g_4\ny;\nz;g_5\n")
    assert export("ids.csv").stdout == "2 deals in o.ndjson\n"

    for name in ("ID", "Deal-ID", "deal_id", "DealId"):
        (tmp_path / "ids.tsv").write_text(f"name\t{name}\nx\tg_4\n")
        completed = export("ids.tsv")
        assert (completed.stdout, completed.stderr) == ("1 deal in o.ndjson\n", "")
    # The first line may be an id, so the message must not repeat it.
    for table, expected_error in (
        ("name,Number\nx,g_1\n", "The first row has name, Number"),
        ("g_canary\ng_2\n", "If the file is a list without column names, give it a name that ends in .txt."),
        ("id,x,Deal ID\ng_1,y,g_2\n", "The first row has id, x, Deal ID"),
    ):
        (tmp_path / "wrong.csv").write_text(table)
        must = "dealkit: wrong.csv needs exactly one column named id or deal_id, in its first row."
        assert export("wrong.csv") == (2, "", f"{must} {expected_error}\n")
    assert "dealkit: Nothing was retrieved: standard input has no ids" in export("-", "\n \n").stderr
    assert export("nothing.txt").stderr == (
        "dealkit: nothing.txt cannot be read: it does not exist. Check its name and its folder.\n"
    )
    (tmp_path / "latin.txt").write_bytes(b"g_1\n\xe9\n")
    assert export("latin.txt").stderr.startswith("dealkit: latin.txt: line 2 cannot be read as UTF-8. ")


def test_escaped_ids_are_read_back_unchanged(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_text("=1+1\n-2\n'=3\n")
    command = ["deals", "export", "--ids", "ids.txt", "--out", "d.csv"]
    sandbox.fail_next(status=409, times=None)
    assert run_command(*command, url=sandbox.url, cwd=tmp_path).code == 1
    assert [row["id"] for row in read_csv(tmp_path / "d.csv.failed.csv")] == ["'=1+1", "'-2", "''=3"]
    sandbox.clear_requests()
    retry_command = ["deals", "export", "--ids", "d.csv.failed.csv", "--out", "e.csv", "--concurrency", "1"]
    assert run_command(*retry_command, url=sandbox.url, cwd=tmp_path).code == 1
    requested_ids = [request.path.rpartition("/")[2] for request in sandbox.requests]
    assert [unquote(id) for id in requested_ids] == ["=1+1", "-2", "'=3"]


def test_failures_are_listed_in_a_separate_file(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_text("g_0\nnope\ng_1\n..\ng_2\n")
    sandbox.fail_next(status=500, times=3, path="/v1/deals/g_1", body={"title": "Out of order"})
    completed = run_command("deals", "export", "--ids", "ids.txt", "--out", "d.ndjson", url=sandbox.url, cwd=tmp_path)
    assert (completed.code, completed.stderr) == (1, "")
    assert completed.stdout == (
        "2 of 5 deals are in d.ndjson. d.ndjson.failed.csv lists the other deals:\n"
        "1 deal not found: the service has no deal with this id.\n"
        "2 deals could not be retrieved, for the reasons in the column message. Once they are solved, retrieve the rest into "
        "another file:\n"
        "  dealkit deals export --ids d.ndjson.failed.csv --out d-2.ndjson\n"
    )
    failed = read_csv(tmp_path / "d.ndjson.failed.csv")
    assert [[*row.values()][:4] for row in failed] == [
        ["nope", "status", "404", "rejected"],
        ["g_1", "status", "500", "unknown"],
        ["..", "validation", "", "not_sent"],
    ]
    assert "500 Internal Server Error: Out of order" in failed[1]["message"]
    assert "nope" not in failed[0]["message"]

    # Runs the printed command unchanged. It requests only the deals that may still exist.
    retry_command = completed.stdout.splitlines()[-1].split()[1:]
    sandbox.clear_requests()
    completed = run_command(*retry_command, url=sandbox.url, cwd=tmp_path)
    assert (
        completed.stdout.startswith("1 of 2 deals are in d-2.ndjson. ")
        and "1 deal could not be retrieved, " in completed.stdout
    )
    assert [deal.id for deal in read_deals(tmp_path / "d-2.ndjson")] == ["g_1"]
    assert {request.path for request in sandbox.requests} == {"/v1/deals/g_1"}

    # Without such deals, no command is printed.
    (tmp_path / "ids.txt").write_text("g_0\nnope\n")
    completed = run_command(
        "deals", "export", "--ids", "ids.txt", "--out", "e.csv", "--json", url=sandbox.url, cwd=tmp_path
    )
    assert completed.code == 1 and "dealkit deals export" not in completed.stderr
    assert json.loads(completed.stdout)["counts"] == {"deals": 2, "written": 1, "failed": 1, "missing": 1}
    completed = run_command(
        "deals", "export", "--ids", "e.csv.failed.csv", "--out", "f.csv", url=sandbox.url, cwd=tmp_path
    )
    assert completed.code == 2 and "e.csv.failed.csv has no ids to retrieve" in completed.stderr


def test_an_existing_file_is_replaced_only_with_overwrite(sandbox: Sandbox, ids: Path, tmp_path: Path) -> None:
    out = tmp_path / "d.ndjson"
    out.write_text("mine")
    completed = run_command("deals", "export", "--ids", ids, "--out", out, url=sandbox.url)
    assert (completed.code, completed.stderr) == (
        2,
        f"dealkit: {out} already exists. Choose another name with --out, or use --overwrite to replace the file.\n",
    )
    assert out.read_text() == "mine" and not sandbox.requests
    assert run_command("deals", "export", "--ids", ids, "--out", out, "--overwrite", url=sandbox.url).code == 0
    assert len(read_deals(out)) == COUNT


def test_the_export_overwrites_no_other_files(sandbox: Sandbox, ids: Path, tmp_path: Path) -> None:
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
    for source, out, expected_error in (
        (
            "o.csv.failed.csv",
            "o.csv",
            "o.csv.failed.csv would be overwritten, but it is the same file as o.csv.failed.csv",
        ),
        ("ids.txt", "a.csv", "a.csv.part was not written by dealkit"),
        ("ids.txt", "b.csv", "b.csv.failed.csv was not written by dealkit"),
        ("ids.txt", "c.csv", "c.csv.part was not written by dealkit"),
        ("ids.txt", "d.csv", "d.csv.part cannot be written: it is a link"),
        ("ids.txt", "e.csv", "e.csv.failed.csv cannot be written: it is a link"),
        ("ids.txt", "f.csv", "f.csv cannot be written: it is a link"),
        ("ids.txt", "g.csv", "g.csv.part cannot be written: it is a link"),
        ("ids.txt", "h.csv", "h.csv cannot be written: it is a folder"),
    ):
        options = ["--ids", source, "--out", out, "--overwrite"]
        completed = run_command("deals", "export", *options, url=sandbox.url, cwd=tmp_path)
        assert completed.code in (2, 4) and f"dealkit: {expected_error}" in completed.stderr, completed
    options = ["--ids", "ids.txt", "--out", "o.csv"]
    assert (
        "o.csv.failed.csv, the list of failed deals of an earlier export, already exists. "
        in run_command("deals", "export", *options, url=sandbox.url, cwd=tmp_path).stderr
    )
    with open(tmp_path / "ids.txt") as stdin:
        command = [sys.executable, "-m", "dealkit", "deals", "export", "--ids", "-", "--out", "ids.csv", "--overwrite"]
        (tmp_path / "ids.csv").hardlink_to(tmp_path / "ids.txt")
        env = command_environment(sandbox.url, sandbox.service_key)
        piped = subprocess.run(command, stdin=stdin, env=env, cwd=tmp_path, capture_output=True, timeout=HANG_SECONDS)
    assert piped.returncode == 2 and b"is the same file as standard input" in piped.stderr
    (tmp_path / "ids.csv").unlink()
    assert files() == before and not sandbox.requests


def test_endless_input_is_an_error(sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_INPUT_BYTES", 1 << 16)
    (tmp_path / "endless.txt").write_text("d_1\n" * (1 << 14))
    for source, wrong in (("/dev/zero", "is not a text file in UTF-8"), ("endless.txt", "is larger than ")):
        completed = run_command("deals", "export", "--ids", source, "--out", "o.csv", url=sandbox.url, cwd=tmp_path)
        assert completed.code == 2 and f"{source} {wrong}" in completed.stderr
    (tmp_path / "ids.csv").write_bytes("id\né\n".encode("cp1252"))
    completed = run_command("deals", "export", "--ids", "ids.csv", "--out", "o.csv", url=sandbox.url, cwd=tmp_path)
    assert completed.stderr == (
        "dealkit: ids.csv: line 2 cannot be read as UTF-8. In Excel or another spreadsheet program, save the original table as "
        '"CSV UTF-8".\n'
    )


def count_saved(out: Path) -> tuple[int, int]:
    """Returns the number of groups that an export has on disk, and the number of ids whose results they hold."""
    with suppress(sqlite3.Error), closing(sqlite3.connect(f"file:{out}.part?immutable=1", uri=True)) as part:
        groups, completed = part.execute("SELECT count(*), max(next) FROM deal_groups").fetchone()
        return groups, completed or 0
    return 0, 0


def wait_until_saved(process: Any, out: Path) -> None:
    """Waits until an export writes its third group, so that the second is complete."""
    wait_until(lambda: count_saved(out)[0] >= 3 or process.poll() is not None)
    assert process.poll() is None, "it does not come as far"


@pytest.mark.parametrize(
    ("file_format", "how"),
    [
        ("ndjson", signal.SIGINT),
        ("csv", signal.SIGTERM),
        ("xlsx", signal.SIGINT),
        ("ndjson", signal.SIGKILL),
        ("parquet", signal.SIGKILL),
    ],
)
def test_a_stopped_export_resumes(
    file_format: str, how: signal.Signals, sandbox: Sandbox, deals: list[Deal], ids: Path, tmp_path: Path
) -> None:
    out = tmp_path / f"d.{file_format}"
    ids.write_text("nope\n" + ids.read_text())
    # The delay makes the export save several times before it ends, on a slow machine too.
    sandbox.fail_next(delay=0.1, times=150)
    sandbox.fail_next(hold=True, times=None)
    command = ["deals", "export", "--ids", str(ids), "--out", str(out), "--concurrency", "4"]
    process = start_command(*command, url=sandbox.url, setup_code=SAVE_OFTEN)
    wait_until_saved(process, out)
    process.send_signal(how)
    completed = finish_command(process)
    assert not out.exists() and completed.stdout == ""
    if how == signal.SIGKILL:
        assert completed.code == -signal.SIGKILL
    else:
        assert completed.code == 128 + how
        saved_counts = re.match(
            r"dealkit: The export was stopped.\nSaved: (\d+) deals, and 1 that could not be retrieved, in (.*)\. To ",
            completed.stderr,
        )
        assert saved_counts and saved_counts[2] == f"{out}.part"
        # A deal that does not exist counts as done, but is not among the saved deals.
        assert int(saved_counts[1]) == count_saved(out)[1] - 1
        assert completed.stderr.endswith(f"To continue, run the same command again:\n  dealkit {' '.join(command)}\n")

    sandbox.clear_faults()
    sandbox.clear_requests()
    completed = run_command(*command, url=sandbox.url)
    assert completed.code == 1 and completed.stdout.startswith("300 of 301 deals are in ")
    assert re.search(
        r"Continuing the stopped export: \d+ of 301 deals are done, 1 of them could not be ", completed.stderr
    )
    # Deals on disk are not retrieved again. Deals that were in flight or not yet saved may be.
    assert 0 < len(sandbox.requests) < COUNT
    failures = tmp_path / f"d.{file_format}.failed.{'xlsx' if file_format == 'xlsx' else 'csv'}"
    assert read_deal_ids(failures) == ["nope"]
    assert read_deal_ids(out) == IDS
    if file_format == "ndjson":
        assert read_deals(out) == deals
    assert list_files(tmp_path) == sorted(["ids.txt", f"d.{file_format}", failures.name])


def test_a_stopped_export_resumes_only_with_its_ids_and_service(sandbox: Sandbox, ids: Path, tmp_path: Path) -> None:
    out, part = tmp_path / "d.ndjson", tmp_path / "d.ndjson.part"
    sandbox.fail_next(delay=0.1, times=150)
    sandbox.fail_next(hold=True, times=None)
    command: list[str | Path] = ["deals", "export", "--ids", ids, "--out", out]
    process = start_command(*command, url=sandbox.url, setup_code=SAVE_OFTEN)
    wait_until_saved(process, out)

    # Another process may not write the file while the export runs.
    assert run_command(*command, url=sandbox.url).stderr == (
        f"dealkit: {out} is being written by another dealkit command. Wait until that command has ended.\n"
    )
    process.send_signal(signal.SIGINT)
    assert finish_command(process).code == 130
    sandbox.clear_faults()
    sandbox.release()

    saved_counts = part.read_bytes()
    with Sandbox(generate=COUNT, seed=7) as another:
        rejected = run_command(*command, url=another.url)
        assert rejected.code == 2 and "of other ids or from another service" in rejected.stderr
    ids.write_text("g_7\n")
    rejected = run_command(*command, url=sandbox.url)
    assert rejected.code == 2 and "To start over, delete the file." in rejected.stderr
    assert part.read_bytes() == saved_counts

    part.unlink()
    assert run_command(*command, url=sandbox.url).stdout == f"1 deal in {out}\n"
    assert [deal.id for deal in read_deals(out)] == ["g_7"]


@pytest.mark.parametrize("damage", ["header", "page", "deal", "group"])
@pytest.mark.parametrize("file_format", ["ndjson", "parquet"])
def test_a_damaged_partial_export_is_an_error(
    damage: str, file_format: str, sandbox: Sandbox, ids: Path, tmp_path: Path
) -> None:
    """Running the same command again would always fail."""
    out = tmp_path / f"d.{file_format}"
    part = tmp_path / f"d.{file_format}.part"
    command: list[str | Path] = ["deals", "export", "--ids", ids, "--out", out]
    sandbox.fail_next(status=500, times=None, after=100)
    assert run_command(*command, url=sandbox.url).code == 3
    sandbox.clear_faults()
    match damage:
        case "header":
            part.write_bytes(b"x" * 100 + part.read_bytes()[100:])
        case "page":
            data = part.read_bytes()
            part.write_bytes(data[:4096] + b"\xff" * (len(data) - 4096))
        case "deal":
            with closing(sqlite3.connect(part)) as file, file:
                deals = bytearray(file.execute("SELECT deals FROM deal_groups ORDER BY first").fetchone()[0])
                deals[len(deals) // 2] ^= 1
                file.execute("UPDATE deal_groups SET deals = ? WHERE first = 0", [bytes(deals)])
        case "group":
            with closing(sqlite3.connect(part)) as file, file:
                file.execute("UPDATE deal_groups SET first = 1 WHERE first = 0")
    saved_counts = part.read_bytes()
    completed = run_command(*command, url=sandbox.url)
    assert f"{part}" in completed.stderr and "Move it to another folder" in completed.stderr, completed
    assert not completed.stderr.endswith(f"{out}\n") and "To continue" not in completed.stderr and not out.exists()
    assert part.exists() and (damage in ("deal", "group") or part.read_bytes() == saved_counts)
    part.unlink()
    assert run_command(*command, url=sandbox.url).code == 0


def test_ids_survive_a_spreadsheet_that_opens_and_saves_the_list_of_failures(sandbox: Sandbox, tmp_path: Path) -> None:
    ids, out = tmp_path / "ids.txt", tmp_path / "d.ndjson"
    ids.write_text("00123\n123\n")
    sandbox.fail_next(status=400, times=2)
    assert run_command("deals", "export", "--ids", ids, "--out", out, url=sandbox.url).code == 1
    failed = tmp_path / "d.ndjson.failed.csv"
    assert [row["id"] for row in read_csv(failed)] == ["'00123", "123"]
    sandbox.clear_requests()
    run_command("deals", "export", "--ids", failed, "--out", tmp_path / "e.ndjson", url=sandbox.url)
    assert sorted(request.path for request in sandbox.requests) == ["/v1/deals/00123", "/v1/deals/123"]


def test_consecutive_service_errors_end_the_export(sandbox: Sandbox, ids: Path, tmp_path: Path) -> None:
    """The export stops instead of recording 300 failed deals."""
    out = tmp_path / "d.ndjson"
    command: list[str | Path] = ["deals", "export", "--ids", ids, "--out", out]
    sandbox.fail_next(status=500, times=None)
    completed = run_command(*command, url=sandbox.url)
    assert (
        completed.code == 3
        and "requests have all failed" in completed.stderr
        and "The service failed." in completed.stderr
    )
    assert list_files(tmp_path) == ["ids.txt"], "there was nothing to keep"

    sandbox.clear_faults()
    sandbox.fail_next(status=500, times=None, after=100)
    completed = run_command(*command, url=sandbox.url)
    assert completed.code == 3 and "To continue, run the same command again:" in completed.stderr
    sandbox.clear_faults()
    assert "Continuing the stopped export: " in run_command(*command, url=sandbox.url).stderr
    # A deal in between may have failed before a later one succeeded.
    failed = tmp_path / "d.ndjson.failed.csv"
    lost = [row["id"] for row in read_csv(failed)] if failed.exists() else []
    assert {*lost, *(deal.id for deal in read_deals(out))} == {*IDS} and len(lost) < 32


@pytest.mark.parametrize(("file_format", "limit"), [("ndjson", 100), ("parquet", 40_000)])
def test_a_full_disk(file_format: str, limit: int, sandbox: Sandbox, ids: Path, tmp_path: Path) -> None:
    """Saved deals remain, and the export resumes when the disk has space again."""
    out = tmp_path / f"d.{file_format}"
    command = ["deals", "export", "--ids", str(ids), "--out", str(out)]
    # Python ignores SIGXFSZ, so exceeding the size limit fails as on a full disk. Python must not write bytecode files,
    # because the limit would truncate them for all later processes.
    limited = f"import resource, sys\nsys.dont_write_bytecode = True\nresource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))"
    process = subprocess.run(
        [sys.executable, "-c", limited + COMMAND_SCRIPT, *command],
        env=command_environment(sandbox.url, sandbox.service_key),
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
    )
    assert process.returncode == 4 and "Traceback" not in process.stderr
    assert process.stderr.startswith(f"dealkit: {out} cannot be written: ")
    if limit == 100:
        assert list_files(tmp_path) == ["ids.txt"]
    assert run_command(*command, url=sandbox.url).code == 0
    assert read_deal_ids(out) == IDS


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
    completed = run_command("deals", "export", "--ids", name, "--out", "d.ndjson", url=sandbox.url, cwd=tmp_path)
    assert completed.code == 0 and read_deal_ids(tmp_path / "d.ndjson") == ["g_1", "g_2"][: text.count("g_")]
    (tmp_path / "ids.txt").write_text("g_1\ng_2\ng_3\n")
    skip = ["--exclude-ids", name, "--out", "e.ndjson"]
    completed = run_command("deals", "export", "--ids", "ids.txt", *skip, url=sandbox.url, cwd=tmp_path)
    assert completed.code == 0 and read_deal_ids(tmp_path / "e.ndjson") == ["g_1", "g_2", "g_3"][text.count("g_") :]


@pytest.mark.parametrize(
    ("name", "text", "expected_error"),
    [
        ("ids.txt", 'g_1\n{"id": "g_2", "email": "canary@example.com"}\n', "ids.txt: line 2 does not look like an id"),
        ("ids.txt", "g_1,canary,canary@example.com\n", "ids.txt: line 1 does not look like an id"),
        ("ids.txt", "g_1\tcanary\n", "ids.txt: line 1 does not look like an id"),
        ("ids.jsonl", '{"id": "g_1"}\n{"name": "canary"}\n', "ids.jsonl must contain ids, or deals with their ids"),
        ("ids.json", '{"id": 5, "name": "canary"}', "ids.json must contain ids, or deals with their ids"),
        ("ids.json", "[canary]", "ids.json must contain ids, or deals with their ids"),
    ],
)
def test_lines_that_look_like_records_are_not_sent_as_ids(
    name: str, text: str, expected_error: str, sandbox: Sandbox, tmp_path: Path
) -> None:
    """A line that does not look like an id may be personal data, and would become part of a request's path. Nothing is
    sent, and the message does not show the line.
    """
    (tmp_path / name).write_text(text)
    completed = run_command("deals", "export", "--ids", name, "--out", "d.ndjson", url=sandbox.url, cwd=tmp_path)
    assert (
        completed.code == 2
        and expected_error in completed.stderr
        and "canary" not in completed.stderr
        and not sandbox.requests
    )


def test_exclude_ids_skips_deals(sandbox: Sandbox, tmp_path: Path) -> None:
    def export(ids: str, *arguments: str) -> Any:
        (tmp_path / "ids.txt").write_text(ids)
        return run_command("deals", "export", "--ids", "ids.txt", "--out", *arguments, url=sandbox.url, cwd=tmp_path)

    for file_format in ("ndjson", "csv", "parquet"):
        assert export("g_1\ng_2\n", f"d.{file_format}").code == 0
        known = ["--exclude-ids", f"d.{file_format}"]
        completed = export("g_1\ng_2\ng_3\n", f"e.{file_format}", *known)
        assert completed == (
            0,
            f"1 deal in e.{file_format}\n",
            f"dealkit: 2 ids skipped: d.{file_format} already has these deals.\n",
        )
        assert read_deal_ids(tmp_path / f"e.{file_format}") == ["g_3"]
    completed = export("g_1\ng_2\ng_3\n", "f.csv", *known, "--exclude-ids", "e.csv")
    assert (completed.code, completed.stdout) == (
        0,
        "Nothing was retrieved: the files in --exclude-ids already have all of these deals.\n",
    )
    (tmp_path / "g.ndjson").write_text("{}")
    completed = export("g_1\n", "f.csv", "--exclude-ids", "g.ndjson")
    assert (
        completed.code == 2
        and "g.ndjson must contain ids, or deals with their ids, as the file of an export does" in completed.stderr
    )
