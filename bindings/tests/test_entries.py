"""The rule of the native module, checked for every one of its entry points.

Native code runs no Python bytecode: before 3.14, CPython ends a daemon thread while it runs bytecode, and a native
frame below it takes the whole process down. `test_exit.py` ends processes for real.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType

import entries
import pytest
from processes import Peer

from dealkit.testing import Sandbox


@pytest.fixture(scope="module")
def cases() -> Iterator[dict[str, list[Callable[[], object]]]]:
    with Sandbox() as sandbox, Peer() as tarpit:
        yield {
            **entries.model_calls(),
            **entries.value_calls(),
            **entries.sandbox_calls(sandbox),
            **entries.unanswered_calls(tarpit.url),
        }


def test_no_entry_is_missing(cases: dict[str, list[Callable[[], object]]]) -> None:
    assert cases.keys() | entries.CALLED_SEPARATELY == entries.entry_names()


def test_no_entry_runs_bytecode(cases: dict[str, list[Callable[[], object]]]) -> None:
    """Not even that of finalisers: the garbage collector is as eager as can be, and its callback is Python code."""
    ran: list[str] = []

    def trace(frame: FrameType, event: str, _: object) -> None:
        ran.append(f"{frame.f_code.co_filename}:{frame.f_code.co_name}")

    def collected(*_: object) -> None:
        pass

    found: dict[str, set[str]] = {}
    threshold = gc.get_threshold()
    gc.collect()
    gc.freeze()  # The objects so far need not be examined again each time.
    gc.callbacks.append(collected)
    try:
        for name, calls in cases.items():
            for call in calls:
                runs = []
                # Three times, because the interpreter occasionally creates containers of its own.
                for _ in range(3):
                    if sys.version_info < (3, 12):  # Later versions collect between bytecodes: here, not in the entry.
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


def test_an_entry_that_runs_bytecode_would_be_found() -> None:
    ran: list[str] = []
    sys.settrace(lambda frame, event, _: ran.append(frame.f_code.co_name))
    sorted([2, 1], key=lambda number: number)
    sys.settrace(None)
    assert ran == ["<lambda>", "<lambda>"]


def test_the_collector_stays_as_it_was(cases: dict[str, list[Callable[[], object]]]) -> None:
    gc.disable()
    try:
        for calls in cases.values():
            calls[0]()
        assert not gc.isenabled()
    finally:
        gc.enable()
    # An entry point that waits without the GIL leaves the collector to other threads.
    waits = threading.Thread(target=cases["Many.wait"][0])
    waits.start()
    assert gc.isenabled()
    waits.join()
