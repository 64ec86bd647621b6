"""Export deals to Parquet on the workers of a Spark cluster: `pip install dealkit pyspark pyarrow`.

`spark-submit on_spark.py export ids.txt export --rate-limit 100` puts the deals into `export/deals`, and the errors of those
that could not be retrieved into `export/failed`. Run it again, even after it was killed, and it requests only the deals that
are not in `export/deals`.

Each worker reads the service's address and key from its own environment, DEALKIT_BASE_URL and DEALKIT_SERVICE_KEY. Workers
that this process starts inherit them; where there is a cluster, this process needs neither.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from dealkit import engines


@contextmanager
def spark() -> Iterator[tuple[engines.Map, int]]:
    with SparkSession.builder.appName("dealkit").getOrCreate() as session:
        context = session.sparkContext
        # The cores of the cluster: each has a process for Python. With dynamic allocation, say how many there may be.
        workers = context.defaultParallelism
        yield lambda function, tasks: context.parallelize(tasks, len(tasks)).map(function).collect(), workers


if __name__ == "__main__":
    engines.main(spark)
