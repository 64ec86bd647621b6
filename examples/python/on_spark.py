"""Export deals and import agents on a Spark cluster (`pip install dealkit
pyspark pyarrow`).

`spark-submit on_spark.py export ids.txt out` writes deals to `out/deals`, and
`spark-submit on_spark.py import agents.parquet out --key email` creates agents;
`out/failed` has the rest, and why. Run it again, and it does what is left. The
workers have DEALKIT_BASE_URL, DEALKIT_SERVICE_KEY and, for an import,
DEALKIT_LEDGER in their environment.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from dealkit import engines


@contextmanager
def engine() -> Iterator[tuple[engines.Map, int]]:
    with SparkSession.builder.appName("dealkit").getOrCreate() as session:
        context = session.sparkContext
        # The cluster's cores: each runs a Python process. With dynamic allocation,
        # say how many there may be.
        workers = context.defaultParallelism
        yield (
            lambda function, tasks: (
                context.parallelize(tasks, len(tasks)).map(function).collect()
            ),
            workers,
        )


if __name__ == "__main__":
    engines.main(engine)
