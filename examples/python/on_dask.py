"""Export deals and import agents on a Dask cluster (`pip install dealkit
"dask[distributed]" pyarrow`).

`python on_dask.py export ids.txt out` writes deals to `out/deals`, and `python
on_dask.py import agents.parquet out --key email` creates agents; `out/failed`
has the rest, and why. Run it again, and it does what is left. The workers have
DEALKIT_BASE_URL, DEALKIT_SERVICE_KEY and, for an import, DEALKIT_LEDGER in
their environment.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from dask.distributed import Client as Cluster

from dealkit import engines


@contextmanager
def engine() -> Iterator[tuple[engines.Map, int]]:
    with (
        Cluster() as cluster
    ):  # The one that DASK_SCHEDULER_ADDRESS names, or one on this machine.
        # Workers that are still starting, or starting again, are waited for.
        cluster.wait_for_workers(1, timeout=60)
        workers = len(cluster.scheduler_info(n_workers=-1)["workers"])
        yield (
            lambda function, tasks: cluster.gather(
                cluster.map(function, tasks, pure=False)
            ),
            workers,
        )


if __name__ == "__main__":
    engines.main(engine)
