"""Exports of deals and imports of agents on the workers of an engine such as Dask, Spark or Ray. Needs pyarrow.

All an engine has to do is map a function over tasks, like the executors in Python's standard library. So this is an
export by four processes on one machine:

>>> with ProcessPoolExecutor(4) as pool:
...     engines.export_deals(pool.map, ids, "export", workers=4, rate_limit=100)
Exported(deals=998, failed=2)

The workers run functions from this package, so dealkit must be installed there. Each worker reads the service's URL and
key from its own environment, ``DEALKIT_BASE_URL`` and ``DEALKIT_SERVICE_KEY``, and for an import the ledger,
``DEALKIT_LEDGER``: no task contains them. The workers write results into Parquet files, so if an engine reruns a task
because its result was lost, the task requests nothing that it had already finished.
"""

from __future__ import annotations

import os
import socket
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Required, TypeAlias, TypedDict, Unpack
from uuid import uuid4

import pyarrow  # type: ignore[import-untyped, unused-ignore]
from pyarrow import compute, parquet

from dealkit._client.client import Client
from dealkit._core.arguments import check_int
from dealkit.exceptions import ConfigError, DealkitError, LedgerError, RecordedError, StoppedError
from dealkit.ledger import path

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

__all__ = ["Exported", "Imported", "JobOptions", "Map", "export_deals", "import_agents", "main"]

Map: TypeAlias = Callable[[Callable[[Any], Any], list[Any]], Iterable[Any]]
"""What an engine does for a job: it calls a function with each of these tasks, on its workers, and returns the results
in the order of the tasks."""

# pyarrow's own types are unknown to type checkers.
_parquet: Any = parquet
_compute: Any = compute

# How long a row may take, in seconds. Another copy of its task may be sending it, or a worker may have been of which nobody
# knows yet that it is dead.
_PATIENCE = 120

_AGENTS = pyarrow.schema([(name, pyarrow.string()) for name in ("key", "agent_id", "result")])
_FAILED = pyarrow.schema(
    [
        *((name, pyarrow.string()) for name in ("key", "result", "kind")),
        ("status", pyarrow.int64()),
        *((name, pyarrow.string()) for name in ("request_id", "message")),
    ]
)

# What is there in the end.
_DONE = ("deals", "created", "created_before")

# How many rows one worker tries before the others begin: a 403 may concern a single deal.
_FIRST = 5


class JobOptions(TypedDict, total=False):
    """The options of a job, all keywords of ``export_deals`` and ``import_agents``."""

    workers: Required[int]
    """How many processes run tasks at the same time. Each gets the same number of tasks, and an equal share of the rate."""
    rate_limit: float | None
    """How many requests all workers together may send in a second."""
    limiter: Callable[[], object] | None
    """What a worker calls before each row, and what returns once the row may be sent: a function of yours that takes a
    token from Redis, for instance. It is pickled. Retries do not call it."""
    concurrency: int
    """How many requests a task has in flight, 32 by default."""
    per_file: int
    """How many rows a task has at most, 1,000 by default."""


class Exported(NamedTuple):
    """The result of an export."""

    deals: int
    """How many deals it has added to the folder ``deals``."""
    failed: int
    """How many deals could not be retrieved; the files in the folder ``failed`` say why."""


class Imported(NamedTuple):
    """The result of an import, as numbers of rows."""

    created: int
    """The agents that it has created."""
    created_before: int
    """Rows whose agents the ledger has from earlier runs, or from another copy of a task."""
    rejected: int
    """Rows that the service rejected, and that it will reject again."""
    unknown: int
    """Rows that may have an agent: find out, and record it with ``dealkit.ledger.settle``. No run sends them again."""
    in_flight: int
    """Rows that another job was sending all the time: it will know."""
    not_sent: int
    """Rows that were not sent: because they break the rules, or something has come in between."""


def export_deals(
    run: Map,
    ids: Iterable[str],
    out: str | os.PathLike[str],
    **options: Unpack[JobOptions],
) -> Exported:
    """Retrieves deals on an engine's workers into Parquet files in ``out/deals``, and the errors of those that could not
    be retrieved into ``out/failed``.

    Deals already in ``out/deals`` are not requested again. So repeat the call to request only what failed, or to resume
    a run that was killed; its files are added to those of earlier runs.

    Args:
        run: Maps a function over tasks on the workers.
        ids: The ids of the deals. Duplicates and empty ones are skipped.
        out: A folder that all workers share.
        **options: See ``JobOptions``. If a worker dies, the deals of its tasks are retrieved again, ``per_file`` for
            each.

    Raises:
        DealkitError: No deal can be retrieved, as one worker found with the first five: it has no key, or the service
            cannot be reached or rejects the key.
    """
    job = _Export(Path(out), **options)
    rest = iter(ids)
    # A list of them all would take several times the memory.
    some = iter(lambda: pyarrow.array(islice(rest, 65_536), pyarrow.string()), pyarrow.array([], pyarrow.string()))
    wanted = _compute.unique(pyarrow.chunked_array(some, pyarrow.string()))
    failed = job.run(run, pyarrow.table({"id": job.left(wanted)}))
    deals = sum(_parquet.read_metadata(file).num_rows for file in job.written(job.done))
    return Exported(deals, failed.num_rows)


def import_agents(
    run: Map,
    rows: object,
    out: str | os.PathLike[str],
    *,
    key: str,
    **options: Unpack[JobOptions],
) -> Imported:
    """Creates an agent for each row of a table on an engine's workers. However often tasks are rerun, or run twice at a
    time, there is one agent, because they share a ledger.

    The agents go into Parquet files in ``out/agents`` (``key``, ``agent_id`` and ``result``, which is ``created`` or
    ``created_before``), and the other rows into ``out/failed`` (``key``, ``result``, ``kind``, ``status``,
    ``request_id`` and ``message``). Both have the results of the latest run. Repeat the call to resume a run that was
    killed: the ledger has the agents created so far.

    When a worker dies, whatever it had in flight is unknown. The ledger has these rows, and no run sends them until
    somebody finds out and records what became of them.

    The ledger is the one named by ``DEALKIT_LEDGER`` where the workers run: a PostgreSQL database or, if they all run
    on this machine, the absolute path of a file.

    Args:
        run: Maps a function over tasks on the workers.
        rows: A table of agents: anything with Arrow's stream interface, such as a pyarrow or polars table. Its columns
            are the fields of ``CreateAgentParams``; ``profile`` is a struct. Nulls are not sent.
        out: A folder that all workers share.
        key: The field that identifies rows in the ledger, such as ``"email"`` or ``"profile.external_id"``.
        **options: See ``JobOptions``. If a worker dies, ``concurrency`` rows of each of its tasks are unknown.

    Raises:
        ValueError: There is no such key, or some rows have none, or share one.
        DealkitError: No agent can be created, as one worker found with the first five rows: it has no key or no ledger,
            or the service cannot be reached or rejects the key.
    """
    job = _Import(Path(out), **options)
    job.key_name = key
    results = Counter(job.run(run, job.keyed(pyarrow.table(rows)))["result"].to_pylist())
    for file in job.written(job.done):
        results.update(_parquet.read_table(file, columns=["result"])["result"].to_pylist())
    return Imported(**{field: results[field] for field in Imported._fields})


def main(cluster: Callable[[], AbstractContextManager[tuple[Map, int]]]) -> None:
    """The command line of a program that runs on an engine: ``export IDS OUT`` does ``export_deals``, and
    ``import TABLE OUT --key FIELD`` does ``import_agents`` with a Parquet file. ``--help`` shows the options.

    The program exits with 0 if it got all deals or agents, 1 if some are missing, and 2 if it could not start.

    >>> @contextmanager
    ... def four_processes():
    ...     with ProcessPoolExecutor(4) as pool:
    ...         yield pool.map, 4
    >>> if __name__ == "__main__":
    ...     engines.main(four_processes)

    Args:
        cluster: Opens the engine, and returns what maps a function over tasks, and how many processes run tasks at a
            time.
    """
    parser = ArgumentParser()
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    export = commands.add_parser("export", help="deals into Parquet files")
    export.add_argument("ids", type=Path, help="a file with one id a line")
    export.set_defaults(command=_export)
    imports = commands.add_parser("import", help="an agent for each row of a Parquet file")
    imports.add_argument("table", type=Path, help="a Parquet file, or a folder of them, with a column for each field")
    imports.add_argument("--key", required=True, help="the field that no two rows share, such as email")
    imports.set_defaults(command=_import)
    for command in (export, imports):
        command.add_argument("out", type=Path, help="a folder that all workers share, for the results")
        command.add_argument("--rate-limit", type=float, help="requests a second, of all workers together")
        command.add_argument("--concurrency", type=int, default=32, help="requests in flight of a task, 32 by default")
        command.add_argument("--per-file", type=int, default=1_000, help="rows of a task, at most 1000 by default")
    options = vars(parser.parse_args())
    out, command = options["out"], options.pop("command")
    try:
        with cluster() as (run, workers):
            done = command(run, workers=workers, **options)
    except (DealkitError, OSError, ValueError) as error:
        parser.error(str(error))
    print(done)
    if any(number for name, number in done._asdict().items() if name not in _DONE):
        print(f"{out / 'failed'} says why some are not there")
        raise SystemExit(1)


def _export(run: Map, ids: Path, **options: Any) -> Exported:
    with ids.open(encoding="utf-8", newline="\n") as file:
        return export_deals(run, map(str.strip, file), **options)


def _import(run: Map, table: Path, **options: Any) -> Imported:
    return import_agents(run, _parquet.read_table(table), **options)


class _Job:
    """A job, as its tasks have it."""

    # The folder of its results, and whether those of earlier runs stay there.
    folder: ClassVar[str]
    adds: ClassVar[bool]

    def __init__(
        self,
        out: Path,
        *,
        workers: int,
        rate_limit: float | None = None,
        limiter: Callable[[], object] | None = None,
        concurrency: int = 32,
        per_file: int = 1_000,
    ) -> None:
        check_int("workers", workers, 1)
        check_int("concurrency", concurrency, 1)
        check_int("per_file", per_file, 1)
        self.done, self.failed = out.absolute() / self.folder, out.absolute() / "failed"
        self.workers, self.concurrency, self.per_file = workers, concurrency, per_file
        self.rate_limit, self.limiter = None if rate_limit is None else rate_limit / workers, limiter
        # Where the program runs.
        self.host = socket.gethostname()
        # Begins the names of the files of this run.
        self.name = uuid4().hex

    def results(self, table: Any) -> tuple[Any, Any]:
        """Sends the requests for the rows of a task: a table of what is done, and one of what failed."""
        raise NotImplementedError

    def run(self, run: Map, table: Any) -> Any:
        """Runs the tasks for these rows, and returns a table of what failed."""
        for folder in (self.done, self.failed):
            folder.mkdir(parents=True, exist_ok=True)
        first, *others = self.tasks(table)
        for tasks in ([first], others):
            for error in run(self.do_task, tasks) if tasks else ():
                if error is not None:
                    raise error
            earlier = [*self.failed.iterdir(), *(() if self.adds else self.done.iterdir())]
            for file in earlier:
                if self.name not in file.name:
                    file.unlink()
        return pyarrow.concat_tables(_parquet.read_table(file) for file in self.written(self.failed))

    def tasks(self, table: Any) -> list[tuple[int, Any]]:
        """A few rows to begin with, and then equal tasks, as many for each worker: none idles while another works."""
        end = len(table)
        begin = min(_FIRST, end)
        count = self.workers * -(-(end - begin) // (self.workers * self.per_file))
        bounds = [begin + (end - begin) * n // count for n in range(count + 1)] if count else []
        # Copies: a slice would be pickled with all that it was cut from.
        return [
            (n, table.take(pyarrow.array(range(*span), pyarrow.int64())))
            for n, span in enumerate([(0, begin), *pairwise(bounds)])
        ]

    def do_task(self, task: tuple[int, Any]) -> DealkitError | None:
        """Does a task, on a worker. Returns why it cannot be done, or, of the first one, why none can."""
        number, table = task
        name = f"{self.name}-{number:06}.parquet"
        if (self.failed / name).exists():
            return None  # It has been done, and the engine runs it once more.
        try:
            done, failed = self.results(table)
        except DealkitError as error:
            return error
        if number == 0 and done.num_rows == 0 and (why := _for_all(failed)):
            return StoppedError(why)
        if done.num_rows:
            _write(done, self.done / name)
        _write(failed, self.failed / name)
        return None

    def limited(self, rows: Iterable[Any]) -> Iterator[Any]:
        for row in rows:
            if self.limiter is not None:
                self.limiter()
            yield row

    def client(self) -> Client:
        """The client of all tasks of a process, made there from the environment: no task holds the key."""
        return Client.shared(rate_limit=self.rate_limit)

    def written(self, folder: Path) -> list[Path]:
        """The files that this run has written into a folder."""
        return sorted(folder.glob(f"{self.name}-*.parquet"))


class _Export(_Job):
    folder = "deals"
    adds = True

    def left(self, ids: Any) -> Any:
        """The ids whose deals are not there yet."""
        files = self.done.glob("*.parquet")
        done = [_parquet.read_table(file, columns=["id"])["id"].combine_chunks() for file in files]
        known = pyarrow.chunked_array([*done, pyarrow.array([""])], pyarrow.string())
        return ids.filter(_compute.invert(_compute.is_in(ids, known)))

    def results(self, table: Any) -> tuple[Any, Any]:
        ids = self.limited(table["id"].to_pylist())
        deals = self.client().deals.retrieve_many(ids, concurrency=self.concurrency, on_error="return").to_arrow()
        return pyarrow.table(deals), pyarrow.table(deals.errors)


class _Import(_Job):
    folder = "agents"
    adds = False

    key_name: str

    def keyed(self, table: Any) -> Any:
        """The rows, each with its key."""
        field, *path = self.key_name.split(".")
        try:
            keys = _compute.struct_field(table[field], path) if path else table[field]
        except (KeyError, pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError):
            raise ValueError(f"the table has no field {self.key_name!r} to tell rows apart by") from None
        apart = "the key that tells rows apart"
        if keys.null_count:
            first = _compute.index(_compute.is_null(keys), True)
            raise ValueError(
                f"{keys.null_count:,} rows have no {self.key_name}, {apart}; the first is at index {first}"
            )
        if many := len(keys) - len(_compute.unique(keys)):
            raise ValueError(f"{many:,} rows share with another row their {self.key_name}, {apart}")
        return pyarrow.table({"key": keys.cast(pyarrow.string()), "row": table.to_struct_array()})

    def results(self, table: Any) -> tuple[Any, Any]:
        rows = [_row(cells) for cells in table["row"].to_pylist()]
        creations = self.client().agents.create_many(
            self.limited(rows),
            concurrency=self.concurrency,
            ordered=False,
            on_error="return",
            ledger=self.ledger(),
            key=self.key_name,
            wait_in_flight=True,
            timeout=_PATIENCE,
        )
        found = {creation.index: creation for creation in creations}
        # Of a job that is stopped, some rows do not come back.
        errors = [error for one in found.values() for error in (one.error, one.ledger_error)]
        stopped = next((str(error) for error in errors if isinstance(error, LedgerError | StoppedError)), "")
        agents, failed = [], []
        for n, key in enumerate(table["key"].to_pylist()):
            error = found[n].error if n in found else StoppedError(stopped)
            if error is None or error.outcome == "succeeded":
                result = "created_before" if found[n].recorded else "created"
                agents.append({"key": key, "agent_id": found[n].agent_id, "result": result})
                continue
            known = {"kind": error.kind, "status": getattr(error, "status_code", None), "request_id": error.request_id}
            result = "in_flight" if isinstance(error, RecordedError) and error.in_flight else error.outcome
            failed.append({"key": key, "result": result, **known, "message": str(error)})
        return pyarrow.Table.from_pylist(agents, _AGENTS), pyarrow.Table.from_pylist(failed, _FAILED)

    def ledger(self) -> str:
        """The ledger of all workers. It is named where they run, because a database's address may hold a password."""
        ledger = os.environ.get("DEALKIT_LEDGER", "")
        if ledger and path(ledger) is None:
            return ledger
        if not os.path.isabs(ledger):
            raise ConfigError(
                "DEALKIT_LEDGER must name the ledger of all workers, where they run: postgresql://…, or the absolute "
                "path of a file, if all of them are on one machine"
            )
        if socket.gethostname() != self.host:
            raise ConfigError(
                "the ledger is a file, but a worker is not on the machine where the program runs: workers that do not "
                "share a ledger create agents twice. Set DEALKIT_LEDGER to postgresql://… where they run"
            )
        return ledger


def _row(cells: dict[str, Any]) -> Any:
    """A row of a table as `create_many` takes it: what is null is not sent."""
    row = {name: cell for name, cell in cells.items() if cell is not None}
    if isinstance(row.get("profile"), dict):
        row["profile"] = {name: cell for name, cell in row["profile"].items() if cell is not None}
    return row


def _for_all(failed: Any) -> str | None:
    """Why all rows have failed, if it is nothing about the rows."""
    rows = failed.to_pylist()
    is_for_all = all(row["kind"] in ("connect", "ledger", "stopped") or row["status"] in (401, 403) for row in rows)
    return rows[0]["message"] if rows and is_for_all else None


def _write(table: Any, file: Path) -> None:
    """Writes a file as a whole or not at all: another process may be doing the same task."""
    unfinished = file.with_name(f".{file.name}-{uuid4().hex}")
    with unfinished.open("wb") as out:
        _parquet.write_table(table, out)
        out.flush()
        os.fsync(out.fileno())
    unfinished.replace(file)
