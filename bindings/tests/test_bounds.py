"""Memory and time must not become a multiple of the size of what a service sends."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from conftest import ADA, http_response
from processes import HANG_SECONDS

from dealkit import APITimeoutError, Client, Deal, DealkitError, DecodeError, Timeout


def undocumented(fields: int) -> str:
    return '{"id": "d_1"' + "".join(f', "k{number}": 1' for number in range(fields)) + "}"


def test_a_large_body_keeps_the_deadline(peer: Any) -> None:
    url = peer(http_response(200, undocumented(300_000))).url

    def create(timeout: float) -> tuple[DealkitError, float]:
        """Returns the error of a create, and the processor time until then, which is the same on a busy machine."""
        with Client(
            base_url=url, service_key="k", max_retries=0, timeout=Timeout(attempt=timeout, total=timeout)
        ) as client:
            before = time.process_time()
            with pytest.raises(DealkitError) as caught:
                client.agents.create(**ADA)
            return caught.value, time.process_time() - before

    # Something is wrong with the document, as is found at its end.
    error, to_the_end = create(HANG_SECONDS)
    assert isinstance(error, DecodeError)
    timeout = 0.05
    while (found := create(timeout))[0].outcome != "succeeded":
        timeout *= 1.5  # The body has not arrived in time.
    error, took = found
    assert isinstance(error, APITimeoutError)
    assert took < to_the_end * 0.75


def test_other_threads_go_on_while_a_large_document_is_read() -> None:
    # On a busy machine, the other thread may have no processor for a while.
    assert any(ticks_while_reading() >= 10 for _ in range(20))


def ticks_while_reading() -> int:
    """Returns how often another thread runs during the some 70 steps of 64 KB in which a document is read."""
    ticks = 0
    is_read = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not is_read.wait(0.001):
            ticks += 1

    document = undocumented(300_000)
    thread = threading.Thread(target=tick)
    thread.start()
    before = ticks
    deal = Deal.from_json(document)
    during = ticks - before
    is_read.set()
    thread.join()
    assert len(deal.extra) == 300_000
    return during


def test_a_document_with_too_many_values_is_rejected() -> None:
    for document in ('{"id": "d", "quotes": [' + "{}," * 1_000_000 + "{}]}", "[" * 2_000_000):
        with pytest.raises(DecodeError, match="at most 1000000 values") as caught:
            Deal.from_json(document)
        assert caught.value.body == document.encode()
