"""What a call may have done at the service: every status, method and earlier attempt in the contract."""

from __future__ import annotations

import pickle
import socket
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from conftest import ADA, BOTH, answer, made, untyped, vectors

from dealkit import Client, ConfigError, Deal, DealkitError, DecodeError, ValidationError

# Python has no such option.
CASES = [case for case in vectors("outcomes") if "retry_non_idempotent" not in case.values[0]]


def bytes_of(attempt: int | str) -> bytes:
    """What the service sends before it closes the connection."""
    close = {"Connection": "close"}
    if isinstance(attempt, int):
        return answer(attempt, b"", close)
    return {
        "breaks": b"",
        "cut": b'HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\n{"id"',
        "unreadable": answer(201, "[]", close),
        "too-large": answer(201, " " * 2000, close),
    }[attempt]


def fails(make: Callable[[], Any], attempts: int, outcome: str, *, is_read: bool = False) -> None:
    with pytest.raises(DealkitError) as caught:
        make()
    error = caught.value
    assert (error.outcome, error.attempts) == (outcome, attempts), error
    assert error.may_have_acted is (not is_read and outcome in ("unknown", "succeeded"))
    again = pickle.loads(pickle.dumps(error))
    assert (again.outcome, again.may_have_acted) == (error.outcome, error.may_have_acted)


@BOTH
@pytest.mark.parametrize("case", CASES)
def test_every_outcome_of_the_vectors(case: dict[str, Any], of_class: Any, peer: Any) -> None:
    attempts: list[int | str] = case["attempts"]
    left: list[int | str] = []

    def respond(_: bytes) -> bytes:
        connection: socket.socket = server.connections[-1]
        connection.sendall(bytes_of(left.pop(0)))
        connection.shutdown(socket.SHUT_RDWR)
        return b""

    server = peer(respond)
    options: dict[str, Any] = {
        "base_url": server.url,
        "service_key": "k",
        "max_retries": len(attempts) - 1,
        "max_response_bytes": 1000,
    }

    calls: dict[str, Callable[[Any], Any]] = {
        "GET": lambda client: client.deals.retrieve("d_1"),
        "POST": lambda client: client.agents.create(**ADA),
    }
    for method in case["methods"]:
        left[:] = attempts
        call = partial(made, of_class(**options), calls[method])
        fails(call, len(attempts), case["expect"]["outcome"], is_read=method == "GET")
        assert not left


def test_what_is_wrong_before_sending_is_not_sent(client: Client) -> None:
    for kind, make in (
        (ConfigError, lambda: Client(base_url="no", service_key="k")),
        (ConfigError, lambda: client.deals.retrieve("d_1", extra_headers={"x-service-key": "other"})),
        (ValidationError, lambda: client.deals.retrieve("..")),
        (ValidationError, lambda: client.agents.create(**untyped({**ADA, "email": "no"}))),
        (DecodeError, lambda: Deal.from_json("[]")),
    ):
        with pytest.raises(kind):
            make()
        fails(make, 0, "not_sent")
