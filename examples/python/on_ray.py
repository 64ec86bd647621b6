"""Export deals to Parquet on the workers of a Ray cluster: `pip install dealkit ray pyarrow`.

`python on_ray.py export ids.txt export --rate-limit 100` puts the deals into `export/deals`, and the errors of those that
could not be retrieved into `export/failed`. Run it again, even after it was killed, and it requests only the deals that are
not in `export/deals`.

Each worker reads the service's address and key from its own environment, DEALKIT_BASE_URL and DEALKIT_SERVICE_KEY. Workers
that this process starts inherit them; where there is a cluster, this process needs neither.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import ray

from dealkit import engines


def do(function: Callable[[object], object], task: object) -> object:
    return function(task)


@contextmanager
def on_ray() -> Iterator[tuple[engines.Map, int]]:
    with ray.init():  # The cluster that RAY_ADDRESS names, or one on this machine.
        workers = int(ray.cluster_resources()["CPU"])
        remote = ray.remote(do)  # One processor for each task, which is tried four times.
        yield lambda function, tasks: ray.get([remote.remote(function, task) for task in tasks]), workers


if __name__ == "__main__":
    engines.main(on_ray)
