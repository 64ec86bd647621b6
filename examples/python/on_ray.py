"""Export deals and import agents on a Ray cluster (`pip install dealkit ray
pyarrow`).

`python on_ray.py export ids.txt out` writes deals to `out/deals`, and `python
on_ray.py import agents.parquet out --key email` creates agents; `out/failed`
has the rest, and why. Run it again, and it does what is left. The workers have
DEALKIT_BASE_URL, DEALKIT_SERVICE_KEY and, for an import, DEALKIT_LEDGER in
their environment.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import ray

from dealkit import engines


def do(function: Callable[[object], object], task: object) -> object:
    return function(task)


@contextmanager
def engine() -> Iterator[tuple[engines.Map, int]]:
    with (
        ray.init()
    ):  # The cluster that RAY_ADDRESS names, or one on this machine.
        workers = int(ray.cluster_resources()["CPU"])
        remote = ray.remote(
            do
        )  # One processor for each task, which is tried four times.
        yield (
            lambda function, tasks: ray.get(
                [remote.remote(function, task) for task in tasks]
            ),
            workers,
        )


if __name__ == "__main__":
    engines.main(engine)
