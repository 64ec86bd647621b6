"""Memory and time must not become a multiple of the size of what a service sends."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from conftest import answer

from dealkit import APITimeoutError, Client, Deal, DecodeError


def undocumented(fields: int) -> str:
    return '{"id": "d_1"' + "".join(f', "k{number}": 1' for number in range(fields)) + "}"


def test_a_large_body_keeps_the_deadline(peer: Any) -> None:
    body = undocumented(900_000)
    with Client(base_url=peer(answer(200, body)).url, service_key="k", max_retries=0, timeout=0.3) as client:
        began = time.monotonic()
        with pytest.raises(APITimeoutError) as caught:
            client.agents.create(email="ada@example.com", first_name="Ada", last_name="Lovelace", profile={})
        took = time.monotonic() - began
    assert caught.value.outcome == "succeeded"
    # Reading it to its end takes several times as long.
    assert took < 1.5


def test_other_threads_go_on_while_a_large_document_is_read() -> None:
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
    # There are some 70 steps of 64 KB.
    assert during >= 10


def test_a_document_of_too_many_values_is_refused() -> None:
    for document in ('{"id": "d", "quotes": [' + "{}," * 1_000_000 + "{}]}", "[" * 2_000_000):
        with pytest.raises(DecodeError, match="at most 1000000 values") as caught:
            Deal.from_json(document)
        assert caught.value.body == document.encode()
