"""Export deals and import agents on the workers of an engine: Dask, Spark or
Ray, or processes of this machine (`pip install dealkit pyarrow` and the engine).

`python on_engines.py dask export ids.txt out` writes deals to `out/deals`, and
`python on_engines.py dask import agents.parquet out` creates agents, which
`out/agents` lists; `out/failed` has the rest, and why. Run it again, and it
does what is left. The workers have DEALKIT_BASE_URL, DEALKIT_SERVICE_KEY and,
for an import, DEALKIT_LEDGER in their environment.
"""

import os
from argparse import ArgumentParser
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from socket import gethostname
from typing import Any
from uuid import uuid4

import pyarrow
from pyarrow import parquet

from dealkit import Client, ledger


@dataclass(frozen=True)
class Job:
    """The task function of the workers. It is pickled, without the key."""

    operation: str
    out: Path
    rate_limit: float | None
    host: str  # of the main program
    prefix: str  # of the file names

    def __call__(self, task: tuple[int, list[Any]]) -> int:
        """Runs a task, and returns the number of failed rows."""
        number, rows = task
        name = f"{self.prefix}-{number:06}.parquet"
        # If the file exists, the engine has lost the result of the task.
        if not (self.out / "failed" / name).exists():
            # All tasks of a worker share this client.
            client = Client.shared(rate_limit=self.rate_limit)
            done, failed = self.run(client, rows)
            write(done, self.out / folder_name(self.operation) / name)
            write(failed, self.out / "failed" / name)
        errors = parquet.read_table(self.out / "failed" / name)
        return len(errors)

    def run(self, client: Client, rows: list[Any]) -> tuple[Any, Any]:
        if self.operation == "import":
            shared = os.environ["DEALKIT_LEDGER"]
            if ledger.path(shared) and gethostname() != self.host:
                # With a file on each machine, each would create the agents.
                raise ValueError("DEALKIT_LEDGER must be postgresql://…")
            return create(client, rows, shared)
        deals = client.deals.retrieve_many(
            rows, concurrency=32, on_error="return"
        ).to_arrow()
        return pyarrow.table(deals), pyarrow.table(deals.errors)


def create(client: Client, rows: list[Any], shared: str) -> tuple[Any, Any]:
    """Creates one agent for each row, even if its task runs twice."""
    creations = client.agents.create_many(
        map(without_nulls, rows),
        concurrency=32,
        on_error="return",
        ledger=shared,
        key="email",
        # A second copy of the task may be sending the same row.
        wait_in_flight=True,
        timeout=120,
    )
    results = {creation.index: creation for creation in creations}
    agents, failed = [], []
    for index, row in enumerate(rows):
        creation = results.get(index)
        if creation is None:  # After a 401, the other rows have no result.
            failed.append((row["email"], "not_sent", ""))
        elif creation.outcome == "succeeded":
            agents.append((row["email"], creation.agent_id))
        else:
            failed.append((row["email"], creation.outcome, str(creation.error)))
    return (
        string_table(agents, ["email", "agent_id"]),
        string_table(failed, ["email", "outcome", "message"]),
    )


def without_nulls(row: dict[str, Any]) -> Any:
    """Removes null cells, which must not be sent."""
    return {
        name: without_nulls(cell) if isinstance(cell, dict) else cell
        for name, cell in row.items()
        if cell is not None
    }


def string_table(rows: list[tuple[Any, ...]], names: list[str]) -> Any:
    columns = zip(*rows, strict=True) if rows else ([] for _ in names)
    return pyarrow.table([pyarrow.array(c, "string") for c in columns], names)


def folder_name(operation: str) -> str:
    return "deals" if operation == "export" else "agents"


def write(table: Any, file: Path) -> None:
    """Writes the file atomically, because a worker may be killed."""
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_name(f".{uuid4().hex}")
    parquet.write_table(table, unfinished)
    unfinished.replace(file)


def remaining_ids(ids: Iterable[str], deals: Path) -> list[str]:
    """Returns the ids without a deal in the folder, without duplicates."""
    files = deals.glob("*.parquet")
    tables = [parquet.read_table(file, columns=["id"]) for file in files]
    done = {id for table in tables for id in table["id"].to_pylist()}
    return [id for id in dict.fromkeys(ids) if id and id not in done]


def on_processes(do: Callable[[Any], int], tasks: list[Any]) -> Iterable[int]:
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        return [*pool.map(do, tasks)]


def on_dask(do: Callable[[Any], int], tasks: list[Any]) -> Iterable[int]:
    from dask.distributed import Client as Cluster

    # The cluster of DASK_SCHEDULER_ADDRESS, or a new one on this machine.
    with Cluster() as cluster:
        cluster.wait_for_workers(1, timeout=60)
        return [*cluster.gather(cluster.map(do, tasks, pure=False))]


def on_spark(do: Callable[[Any], int], tasks: list[Any]) -> Iterable[int]:
    from pyspark.sql import SparkSession

    with SparkSession.builder.getOrCreate() as session:
        spread = session.sparkContext.parallelize(tasks, len(tasks))
        return [*spread.map(do).collect()]


def on_ray(do: Callable[[Any], int], tasks: list[Any]) -> Iterable[int]:
    import ray

    def do_task(task: Any) -> int:
        return do(task)

    remote = ray.remote(do_task)
    with ray.init():  # The cluster of RAY_ADDRESS, or a new one.
        return [*ray.get([remote.remote(task) for task in tasks])]


ENGINES = {
    "processes": on_processes,
    "dask": on_dask,
    "spark": on_spark,
    "ray": on_ray,
}


def main() -> None:
    parser = ArgumentParser()
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("operation", choices=["export", "import"])
    parser.add_argument("file", type=Path, help="ids, one a line; or agents")
    parser.add_argument("out", type=Path, help="a folder all workers share")
    parser.add_argument("--rate-limit", type=float, help="of each worker")
    parser.add_argument("--per-task", type=int, default=1_000)
    arguments = parser.parse_args()

    out: Path = arguments.out.absolute()
    if arguments.operation == "export":
        rows = remaining_ids(
            arguments.file.read_text().split("\n"), out / "deals"
        )
    else:
        rows = parquet.read_table(arguments.file).to_pylist()
    starts = range(0, len(rows), arguments.per_task)
    tasks = [
        (n, rows[at : at + arguments.per_task]) for n, at in enumerate(starts)
    ]
    # The results of the last run, which this run replaces.
    earlier = [*out.glob("failed/*"), *out.glob("agents/*")]
    job = Job(
        arguments.operation,
        out,
        arguments.rate_limit,
        gethostname(),
        uuid4().hex,
    )
    failed = sum(ENGINES[arguments.engine](job, tasks)) if tasks else 0
    for file in earlier:
        file.unlink()
    print(f"{len(rows) - failed} done, {failed} failed")
    raise SystemExit(failed > 0)


if __name__ == "__main__":
    main()
