"""Export deals to Parquet on the workers of a Dask cluster: `pip install dealkit "dask[distributed]" pyarrow`.

`python on_dask.py export ids.txt export --rate-limit 100` puts the deals into `export/deals`, and the errors of those that
could not be retrieved into `export/failed`. Run it again, even after it was killed, and it requests only the deals that are
not in `export/deals`.

Each worker reads the service's address and key from its own environment, DEALKIT_BASE_URL and DEALKIT_SERVICE_KEY. Workers
that this process starts inherit them; where there is a cluster, this process needs neither.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from dask.distributed import Client as Cluster

from dealkit import engines


@contextmanager
def dask() -> Iterator[tuple[engines.Map, int]]:
    with Cluster() as cluster:  # The one that DASK_SCHEDULER_ADDRESS names, or one on this machine.
        workers = len(cluster.scheduler_info(n_workers=-1)["workers"])
        yield lambda function, tasks: cluster.gather(cluster.map(function, tasks, pure=False)), workers


if __name__ == "__main__":
    engines.main(dask)
