"""Export deals and import agents on the workers of a Ray cluster: `pip install dealkit ray pyarrow`.

`python on_ray.py export ids.txt out --rate-limit 100` puts the deals into `out/deals`, and `python on_ray.py import
agents.parquet out --key email --rate-limit 100` what was created into `out/agents`; `out/failed` has the rest, and why. Run it
again, even after it was killed, and it does only what is left.

Each worker reads the service's address and key from its own environment, DEALKIT_BASE_URL and DEALKIT_SERVICE_KEY, and for an
import the ledger that all of them share, DEALKIT_LEDGER. Workers that this process starts inherit them; where there is a cluster,
this process needs none of them.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import ray

from dealkit import engines


def do(function: Callable[[object], object], task: object) -> object:
    return function(task)


@contextmanager
def engine() -> Iterator[tuple[engines.Map, int]]:
    with ray.init():  # The cluster that RAY_ADDRESS names, or one on this machine.
        workers = int(ray.cluster_resources()["CPU"])
        remote = ray.remote(do)  # One processor for each task, which is tried four times.
        yield lambda function, tasks: ray.get([remote.remote(function, task) for task in tasks]), workers


if __name__ == "__main__":
    engines.main(engine)
