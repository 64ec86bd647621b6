"""Export deals and import agents on the workers of a Dask cluster: `pip install dealkit "dask[distributed]" pyarrow`.

`python on_dask.py export ids.txt out --rate-limit 100` puts the deals into `out/deals`, and `python on_dask.py import
agents.parquet out --key email --rate-limit 100` what was created into `out/agents`; `out/failed` has the rest, and why. Run it
again, even after it was killed, and it does only what is left.

Each worker reads the service's address and key from its own environment, DEALKIT_BASE_URL and DEALKIT_SERVICE_KEY, and for an
import the ledger that all of them share, DEALKIT_LEDGER. Workers that this process starts inherit them; where there is a cluster,
this process needs none of them.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from dask.distributed import Client as Cluster

from dealkit import engines


@contextmanager
def engine() -> Iterator[tuple[engines.Map, int]]:
    with Cluster() as cluster:  # The one that DASK_SCHEDULER_ADDRESS names, or one on this machine.
        workers = len(cluster.scheduler_info(n_workers=-1)["workers"])
        yield lambda function, tasks: cluster.gather(cluster.map(function, tasks, pure=False)), workers


if __name__ == "__main__":
    engines.main(engine)
