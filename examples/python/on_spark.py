"""Export deals and import agents on the workers of a Spark cluster: `pip install dealkit pyspark pyarrow`.

`spark-submit on_spark.py export ids.txt out --rate-limit 100` puts the deals into `out/deals`, and `spark-submit on_spark.py import
agents.parquet out --key email --rate-limit 100` what was created into `out/agents`; `out/failed` has the rest, and why. Run it
again, even after it was killed, and it does only what is left.

Each worker reads the service's address and key from its own environment, DEALKIT_BASE_URL and DEALKIT_SERVICE_KEY, and for an
import the ledger that all of them share, DEALKIT_LEDGER. Workers that this process starts inherit them; where there is a cluster,
this process needs none of them.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from dealkit import engines


@contextmanager
def engine() -> Iterator[tuple[engines.Map, int]]:
    with SparkSession.builder.appName("dealkit").getOrCreate() as session:
        context = session.sparkContext
        # The cores of the cluster: each has a process for Python. With dynamic allocation, say how many there may be.
        workers = context.defaultParallelism
        yield lambda function, tasks: context.parallelize(tasks, len(tasks)).map(function).collect(), workers


if __name__ == "__main__":
    engines.main(engine)
