"""Export deals to Parquet on the workers of a Spark cluster: `pip install "pyspark[sql]"`.

`spark-submit spark_export.py ids.txt export --rate-limit 100` puts the deals into `export/deals`. The errors of deals
that could not be retrieved are in `export/failed`. Run it again, even after it was killed, and it requests only the
deals that are not in `export/deals`. The exit code is 0 when all deals are there, 1 when some failed, and 2 when it
could not begin.

Each worker reads the service's address and key from its own environment, DEALKIT_BASE_URL and DEALKIT_SERVICE_KEY. Workers
that this process starts inherit them; where there is a cluster, this process needs neither.
"""

from argparse import ArgumentParser
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from shutil import rmtree

import pyarrow
from pyarrow import parquet
from pyspark.sql import SparkSession

import dealkit.arrow
from dealkit import AuthenticationError, Client, ConfigError, DealkitError, PermissionDeniedError

# How many deals a task retrieves: what has to be done again when a worker is lost.
TASK = 1_000


def export(ids: list[str], failed: Path, rate_limit: float) -> pyarrow.Table:
    """The deals of some ids, on a worker. Those that cannot be retrieved become rows of a file in `failed`."""
    # One client for all tasks of a process, created there from the environment: no task holds the key.
    client = Client.shared(rate_limit=rate_limit)
    deals = client.deals.retrieve_many(ids, concurrency=32, on_error="return").to_arrow()
    table = pyarrow.table(deals)
    # The file has the same name when the engine runs the task again.
    name = sha256(ids[0].encode()).hexdigest()[:32]
    parquet.write_table(pyarrow.table(deals.errors), failed / f"{name}.parquet")
    return table


def refusal(ids: list[str], rate_limit: float) -> str | None:
    """Why no deal can be retrieved, as a worker finds out with the first ids before all are requested; or None."""
    found: object = None
    try:
        client = Client.shared(rate_limit=rate_limit)
        for found in client.deals.retrieve_many(ids[:5], concurrency=1, on_error="return"):
            if not isinstance(found, PermissionDeniedError):  # A 403 may concern only one deal.
                break
    except ConfigError as error:
        found = error
    is_for_all = isinstance(found, DealkitError) and (
        found.kind in ("config", "connect") or isinstance(found, AuthenticationError | PermissionDeniedError)
    )
    return str(found) if is_for_all else None


def remaining(ids: list[str], deals: Path) -> list[str]:
    """The ids whose deals have not been exported yet."""
    done = {""}
    for file in deals.glob("*.parquet"):
        try:
            done.update(parquet.read_table(file, columns=["id"])["id"].to_pylist())
        except pyarrow.ArrowInvalid:
            file.unlink()  # It was never finished: its worker was killed.
    return [id for id in dict.fromkeys(ids) if id not in done]


def empty(folder: Path) -> None:
    """Creates a folder, or empties an existing one."""
    rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def main() -> None:
    parser = ArgumentParser()
    parser.add_argument("ids", type=Path, help="a file with one id a line")
    parser.add_argument("out", type=Path, help="a folder that all workers share")
    parser.add_argument("--rate-limit", type=float, required=True, help="requests a second, of all workers together")
    given = parser.parse_args()
    deals, failed, limit = given.out.absolute() / "deals", given.out.absolute() / "failed", given.rate_limit
    try:
        ids = remaining(given.ids.read_text().split("\n"), deals)
    except (OSError, UnicodeDecodeError) as error:
        parser.error(f"the ids cannot be read: {error}")
    tasks = [ids[n : n + TASK] for n in range(0, len(ids), TASK)]
    if not tasks:
        return print(f"every deal is in {deals}")
    schema = pyarrow.schema(dealkit.arrow.schema())

    spark = SparkSession.builder.appName("deals").getOrCreate()
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")  # INT96 does not hold the year 9999.
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(TASK))
    # The cores of the cluster: each has a process for Python. With dynamic allocation, say how many there may be.
    workers = spark.sparkContext.defaultParallelism
    if why := spark.sparkContext.parallelize([ids[:5]], 1).map(lambda some: refusal(some, limit / workers)).first():
        parser.error(why)
    empty(failed)

    def export_batches(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for batch in batches:
            yield from export(batch["id"].to_pylist(), failed, limit / workers).to_batches()

    rmtree(deals / "_temporary", ignore_errors=True)  # Otherwise, Spark would commit what a killed run left.
    asked = spark.createDataFrame(pyarrow.table({"id": ids})).repartition(len(tasks))
    found = asked.mapInArrow(export_batches, spark.createDataFrame(schema.empty_table()).schema)
    found.write.mode("append").parquet(str(deals))

    if count := parquet.read_table(failed).num_rows:
        raise SystemExit(f"{count} of {len(ids)} deals failed: {failed} says why. Run it again to ask for those alone.")
    print(f"{len(ids)} deals are new in {deals}")


if __name__ == "__main__":
    main()
