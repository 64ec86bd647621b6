"""Runs the program of an example on its engine, with two copies of each task at the same time, as engines do that suspect a
worker of being slow: `python twice.py on_dask.py import …`.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from dealkit import engines


@contextmanager
def twice() -> Iterator[tuple[engines.Map, int]]:
    with engine() as (run, workers):
        yield lambda function, tasks: [*run(function, [task for task in tasks for _ in range(2)])], workers


if __name__ == "__main__":
    engine = runpy.run_path(sys.argv.pop(1))["engine"]
    engines.main(twice)
