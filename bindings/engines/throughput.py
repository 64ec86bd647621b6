"""How many deals per second the examples export with one worker process, and with two.

The sandbox delays each response, as a distant service would: this measures how the work of several workers adds up, not
how many processors there are. `python throughput.py dask spark ray`
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path

from clusters import CLUSTERS, missing, until

from dealkit.testing import Sandbox

DEALS = 4_000
DELAY = 0.2
# How many deals one worker tries by itself.
TRIED = 5


def measure(engine: str, workers: int) -> tuple[float, float]:
    """Deals per second from the first request to the last, and the duration of the whole command in seconds."""
    folder = Path(tempfile.mkdtemp(prefix="dealkit-"))
    ids = folder / "ids.txt"
    ids.write_text("\n".join(f"g_{n}" for n in range(DEALS)))
    with Sandbox(generate=DEALS, seed=7) as sandbox, CLUSTERS[engine](folder, sandbox, workers) as cluster:
        sandbox.fail_next(delay=DELAY, times=None)
        begun = time.monotonic()
        process = cluster.begin("export", ids, folder / "export")
        # The sandbox keeps the latest requests only. The very first ones find out whether it is worth sending more.
        until(lambda: len(sandbox.requests) > TRIED or process.poll() is not None)
        first = sandbox.requests[TRIED]
        assert process.wait() == 0, cluster.said()
        took = time.monotonic() - begun
        last = sandbox.requests[-1]
    shutil.rmtree(folder)
    assert (first.number, last.number) == (TRIED + 1, DEALS)
    return (DEALS - TRIED - 1) / (last.at - first.at).total_seconds(), took


def main() -> None:
    print(f"{DEALS} deals, {DELAY} s a response, 32 in flight for each worker")
    for engine in sys.argv[1:] or CLUSTERS:
        if lacks := missing(engine):
            print(f"{engine}: not measured: {lacks}")
            continue
        for workers in (1, 2):
            rate, took = measure(engine, workers)
            print(f"{engine}, {workers} workers: {rate:.0f} deals/s; {took:.0f} s from the command's start to its end")


if __name__ == "__main__":
    main()
