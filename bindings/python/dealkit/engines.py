"""Exports of deals on the workers of an engine such as Dask, Spark or Ray, into Parquet files. Needs pyarrow.

All that an engine has to do is to map a function over tasks, as the executors of Python's standard library do. So this
is an export by four processes of one machine:

>>> with ProcessPoolExecutor(4) as pool:
...     engines.export_deals(pool.map, ids, "export", workers=4, rate_limit=100)
Exported(deals=998, failed=2, missing=1)

The functions that the workers run are in this package, so dealkit must be installed there. Each worker reads the
service's address and key from its own environment, ``DEALKIT_BASE_URL`` and ``DEALKIT_SERVICE_KEY``: no task holds
them. Results are written by the workers, so a task that an engine runs once more, because it has lost what the first
time came to, asks for nothing again that it had finished.
"""

from __future__ import annotations

import os
from argparse import ArgumentParser
from collections.abc import Callable, Iterable
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias
from uuid import uuid4

import pyarrow  # type: ignore[import-untyped, unused-ignore]
from pyarrow import compute, parquet

from dealkit._client.client import Client
from dealkit._core.arguments import check_int
from dealkit.exceptions import DealkitError, StoppedError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

__all__ = ["Exported", "Map", "export_deals", "main"]

Map: TypeAlias = Callable[[Callable[[Any], Any], list[Any]], Iterable[Any]]
"""What an engine does for a job: it calls a function with each of these tasks, on its workers, and returns the results
in the order of the tasks."""

# pyarrow's own types are unknown to type checkers.
_parquet: Any = parquet
_compute: Any = compute

# How many rows one worker tries before the others begin: a 403 may concern a single deal.
_FIRST = 5


class Exported(NamedTuple):
    """What an export came to."""

    deals: int
    """How many deals it has added to the folder ``deals``."""
    failed: int
    """How many deals could not be retrieved; the files in the folder ``failed`` say why."""
    missing: int
    """How many of those do not exist, says the service (404 or 410): another run will not find them either."""


def export_deals(
    run: Map,
    ids: Iterable[str],
    out: str | os.PathLike[str],
    *,
    workers: int,
    rate_limit: float | None = None,
    concurrency: int = 32,
    per_file: int = 1_000,
) -> Exported:
    """Retrieves deals on an engine's workers into Parquet files in ``out/deals``, and the errors of those that could not
    be retrieved into ``out/failed``.

    Deals that are in ``out/deals`` are not requested again. So the same call, made again, requests only what has
    failed, or resumes a run that was killed, and its files are added to those of earlier runs.

    Args:
        run: What maps a function over tasks on the workers.
        ids: The ids of the deals. Repeated and empty ones are skipped.
        out: A folder that all workers share.
        workers: How many processes run tasks at the same time. Each gets the same number of tasks, and an equal share
            of the rate.
        rate_limit: How many requests all workers together may send in a second.
        concurrency: How many deals a task has in flight.
        per_file: How many deals a task retrieves at most. If a worker dies, they are retrieved again.

    Raises:
        DealkitError: No deal can be retrieved, as one worker has found out with the first five: it has no key, or the
            service cannot be reached or does not accept the key.
    """
    job = _Export(Path(out), workers, rate_limit, concurrency, per_file)
    wanted = _compute.unique(_texts(ids))
    failed = job.run(run, pyarrow.table({"id": wanted.filter(_compute.not_equal(wanted, ""))}))
    missing = sum(status in (404, 410) for status in failed["status"].to_pylist())
    deals = sum(_parquet.read_metadata(file).num_rows for file in job.written(job.done))
    return Exported(deals, failed.num_rows, missing)


def main(cluster: Callable[[], AbstractContextManager[tuple[Map, int]]]) -> None:
    """The command line of a program that runs on an engine: ``export IDS OUT`` does ``export_deals``, and ``--help``
    shows the options.

    The program ends with 0 if all deals are there, with 1 if some are not, and with 2 if it could not begin.

    >>> @contextmanager
    ... def four_processes():
    ...     with ProcessPoolExecutor(4) as pool:
    ...         yield pool.map, 4
    >>> if __name__ == "__main__":
    ...     engines.main(four_processes)

    Args:
        cluster: Opens the engine: what maps a function over tasks, and how many processes run tasks at the same time.
    """
    parser = ArgumentParser()
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    export = commands.add_parser("export", help="deals into Parquet files")
    export.add_argument("ids", type=Path, help="a file with one id a line")
    export.set_defaults(command=_export)
    for command in (export,):
        command.add_argument("out", type=Path, help="a folder that all workers share, for the results")
        command.add_argument("--rate-limit", type=float, help="requests a second, of all workers together")
        command.add_argument("--concurrency", type=int, default=32, help="requests in flight of a task, 32 by default")
        command.add_argument("--per-file", type=int, default=1_000, help="rows of a task, at most 1000 by default")
    options = vars(parser.parse_args())
    try:
        said, is_complete = options.pop("command")(cluster, **options)
    except (DealkitError, OSError, ValueError) as error:
        parser.error(str(error))
    print(said)
    if not is_complete:
        raise SystemExit(1)


def _export(cluster: Any, ids: Path, out: Path, **options: Any) -> tuple[str, bool]:
    with ids.open(encoding="utf-8", newline="\n") as file:
        wanted = _texts(line.strip() for line in file)
    with cluster() as (run, workers):
        new, failed, missing = export_deals(run, wanted, out, workers=workers, **options)
    said = f"{new:,} deals are new in {out / 'deals'}"
    if failed:
        said += f"; {failed:,} failed: {out / 'failed'} says why"
    if missing:
        said += f"; {missing:,} of them do not exist, says the service, and no run will find them"
    if failed > missing:
        said += "; run it again to ask for what failed"
    return said, not failed


class _Job:
    """A job, as its tasks have it."""

    # The folder of its results, and the column that tells them apart.
    folder: ClassVar[str]
    key: str

    def __init__(self, out: Path, workers: int, rate_limit: float | None, concurrency: int, per_file: int) -> None:
        check_int("workers", workers, 1)
        check_int("concurrency", concurrency, 1)
        check_int("per_file", per_file, 1)
        self.done, self.failed = out.absolute() / self.folder, out.absolute() / "failed"
        self.workers, self.concurrency, self.per_file = workers, concurrency, per_file
        self.rate_limit = None if rate_limit is None else rate_limit / workers
        # Begins the names of the files of this run.
        self.name = uuid4().hex

    def results(self, table: Any) -> tuple[Any, Any]:
        """Sends the requests for the rows of a task: a table of what is done, and one of what failed."""
        raise NotImplementedError

    def run(self, run: Map, table: Any) -> Any:
        """Runs tasks for the rows that are not among the results yet, and returns a table of what failed."""
        for folder in (self.done, self.failed):
            folder.mkdir(parents=True, exist_ok=True)
        first, *others = self.tasks(self.left(table))
        for tasks in ([first], others):
            for error in run(self.do_task, tasks) if tasks else ():
                if error is not None:
                    raise error
            for file in self.failed.iterdir():
                if not file.name.startswith(self.name):
                    file.unlink()
        return pyarrow.concat_tables(_parquet.read_table(file) for file in self.written(self.failed))

    def left(self, table: Any) -> Any:
        files = self.done.glob("*.parquet")
        done = [_parquet.read_table(file, columns=[self.key])[self.key].combine_chunks() for file in files]
        is_done = _compute.is_in(table[self.key], pyarrow.chunked_array(done, pyarrow.string()))
        return table.filter(_compute.invert(is_done))

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

    def client(self) -> Client:
        """The client of all tasks of a process, made there from the environment: no task holds the key."""
        return Client.shared(rate_limit=self.rate_limit)

    def written(self, folder: Path) -> list[Path]:
        """The files that this run has written into a folder."""
        return sorted(folder.glob(f"{self.name}-*.parquet"))


class _Export(_Job):
    folder = "deals"
    key = "id"

    def results(self, table: Any) -> tuple[Any, Any]:
        ids = table["id"].to_pylist()
        deals = self.client().deals.retrieve_many(ids, concurrency=self.concurrency, on_error="return").to_arrow()
        return pyarrow.table(deals), pyarrow.table(deals.errors)


def _texts(texts: Iterable[str]) -> Any:
    """Texts as Arrow has them, which takes a tenth of the memory of Python's."""
    rest = iter(texts)
    chunks = iter(lambda: pyarrow.array([*islice(rest, 65_536)], pyarrow.string()), pyarrow.array([], pyarrow.string()))
    return pyarrow.chunked_array([*chunks], pyarrow.string())


def _for_all(failed: Any) -> str | None:
    """Why all rows have failed, if it is nothing about the rows."""
    rows = failed.to_pylist()
    is_for_all = all(row["kind"] in ("connect", "stopped") or row["status"] in (401, 403) for row in rows)
    return rows[0]["message"] if rows and is_for_all else None


def _write(table: Any, file: Path) -> None:
    """Writes a file as a whole or not at all: another process may be doing the same task."""
    unfinished = file.with_name(f".{file.name}-{uuid4().hex}")
    with unfinished.open("wb") as out:
        _parquet.write_table(table, out)
        out.flush()
        os.fsync(out.fileno())
    unfinished.replace(file)
