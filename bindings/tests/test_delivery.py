"""Results reach their futures, even if a signal handler interrupts the delivery at any point."""

from __future__ import annotations

import asyncio
import os
import sys
from random import Random
from types import FrameType
from typing import Any

from conftest import seed_script
from processes import start_python, wait_for_success

from dealkit import AsyncClient, Deal
from dealkit._calls import event_loop
from dealkit.testing import Sandbox

# Number of rounds, each of 16 calls during frequent signals. `make soak` makes more.
TRIES = int(os.environ.get("DEALKIT_SIGNAL_TRIES", "30"))

# A signal every third of a millisecond, whose handler cancels one of the tasks, as asyncio.run's own handler does.
SIGNALS = """
import asyncio, signal, sys
from dealkit import AsyncClient, Timeout

async def main():
    client = AsyncClient(timeout=Timeout(attempt=3600, total=3600))
    lost = 0
    for _ in range(int(sys.argv[1])):
        tasks = [asyncio.ensure_future(client.deals.retrieve("d_1")) for _ in range(16)]
        victims = random.sample(tasks, 8)
        def cancel(*_):
            if victims:
                victims.pop().cancel()
        signal.signal(signal.SIGALRM, cancel)
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.0003)
        done, pending = await asyncio.wait(tasks, timeout=60)
        signal.setitimer(signal.ITIMER_REAL, 0)
        lost += len(pending)
        for task in done:
            assert task.cancelled() or task.result().id == "d_1"
    assert lost == 0, lost
asyncio.run(main())
"""


def test_a_signal_handler_that_cancels_loses_no_other_call(dealkit_sandbox: Sandbox, seeded_random: Random) -> None:
    script = seed_script(seeded_random) + SIGNALS
    wait_for_success(start_python(script, str(TRIES), url=dealkit_sandbox.url, flags=("-W", "error")), 1200)


def test_delivery_continues_after_an_exception_at_any_line(async_client: AsyncClient) -> None:
    """A trace function raises at each line in turn, like a signal handler."""
    code = event_loop._deliver.__code__

    class Now(BaseException):
        pass

    loop = asyncio.new_event_loop()
    for step in range(1, 40):
        left = step

        def trace(frame: FrameType, event: str, _: object) -> Any:
            nonlocal left
            if frame.f_code is not code:
                return None
            left -= 1
            if left == 0:
                raise Now
            return trace

        task = loop.create_task(_gather(async_client))
        sys.settrace(trace)
        try:
            loop.run_until_complete(task)
        except Now:
            sys.settrace(None)
            deals = loop.run_until_complete(asyncio.wait_for(task, 60))
        else:
            deals = task.result()
        finally:
            sys.settrace(None)
        assert [deal.id for deal in deals] == ["d_1"] * 3, step
    loop.close()


async def _gather(client: AsyncClient) -> list[Deal]:
    return await asyncio.gather(*(client.deals.retrieve("d_1") for _ in range(3)))
