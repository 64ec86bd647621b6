"""Checks for every entry point of the native module that it runs no Python bytecode.

Before 3.14, CPython ends a daemon thread while the thread runs bytecode, which aborts the process if there is a native frame on
its stack. `test_exit.py` ends real processes.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from types import FrameType

import entries
import pytest
from processes import Peer

from dealkit.testing import Sandbox


@pytest.fixture(scope="module")
def cases() -> Iterator[dict[str, list[Callable[[], object]]]]:
    loop = asyncio.new_event_loop()
    with Sandbox() as sandbox, Peer() as tarpit, closing(loop):
        yield {
            **entries.model_entries(),
            **entries.value_entries(),
            **entries.call_entries(sandbox, loop),
            **entries.slow_call_entries(tarpit.url),
        }


def test_no_entry_is_missing(cases: dict[str, list[Callable[[], object]]]) -> None:
    assert cases.keys() | entries.SEPARATE == entries.names()


def test_no_entry_runs_bytecode(cases: dict[str, list[Callable[[], object]]]) -> None:
    """Nor finalisers: the garbage collector runs as often as possible, and has a callback in Python, which would be traced."""
    ran: list[str] = []

    def trace(frame: FrameType, event: str, _: object) -> None:
        ran.append(f"{frame.f_code.co_filename}:{frame.f_code.co_name}")

    def collected(*_: object) -> None:
        pass

    found: dict[str, set[str]] = {}
    threshold = gc.get_threshold()
    gc.collect()
    gc.freeze()  # Exempts the existing objects from the following collections, which makes them fast.
    gc.callbacks.append(collected)
    try:
        for name, calls in cases.items():
            for call in calls:
                runs = []
                # Three times, because the interpreter itself occasionally makes containers.
                for _ in range(3):
                    if sys.version_info < (3, 12):  # Later versions collect only between bytecodes.
                        gc.set_threshold(1)
                        gc.collect()
                    ran.clear()
                    sys.settrace(trace)
                    call()
                    sys.settrace(None)
                    gc.set_threshold(*threshold)
                    runs.append(set(ran))
                if bytecode := set.intersection(*runs):
                    found.setdefault(name, set()).update(bytecode)
    finally:
        sys.settrace(None)
        gc.callbacks.remove(collected)
        gc.set_threshold(*threshold)
    assert found == {}
    assert gc.isenabled()


def test_the_trace_function_detects_bytecode() -> None:
    ran: list[str] = []
    sys.settrace(lambda frame, event, _: ran.append(frame.f_code.co_name))
    sorted([2, 1], key=lambda number: number)
    sys.settrace(None)
    assert ran == ["<lambda>", "<lambda>"]


def test_entry_points_restore_the_collector(cases: dict[str, list[Callable[[], object]]]) -> None:
    gc.disable()
    try:
        for calls in cases.values():
            calls[0]()
        assert not gc.isenabled()
    finally:
        gc.enable()
    # While an entry point waits without the GIL, the collector is enabled for other threads.
    waits = threading.Thread(target=cases["BulkCalls.wait"][0])
    waits.start()
    assert gc.isenabled()
    waits.join()
