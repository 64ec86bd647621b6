"""The tree of exceptions. Every exception can be pickled with its attributes."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from conftest import BOTH_CLIENTS, http_response, make_client, wait_for_result

import dealkit
from dealkit import (
    AlreadyAttemptedError,
    APIConnectionError,
    APIStatusError,
    APITimeoutError,
    Client,
    ConfigError,
    DealkitError,
    DecodeError,
    DuplicateKeyError,
    IdempotencyKeyReusedError,
    InternalServerError,
    LedgerError,
    ServiceKeyError,
    StoppedError,
    ThrottledError,
    ValidationError,
    exceptions,
)
from dealkit.testing import Sandbox

CLASSES = [value for value in vars(exceptions).values() if isinstance(value, type) and issubclass(value, DealkitError)]

BY_STATUS = {
    300: APIStatusError,
    302: APIStatusError,
    400: dealkit.BadRequestError,
    401: dealkit.AuthenticationError,
    402: APIStatusError,
    403: dealkit.PermissionDeniedError,
    404: dealkit.NotFoundError,
    405: APIStatusError,
    409: dealkit.ConflictError,
    418: APIStatusError,
    422: dealkit.UnprocessableEntityError,
    429: dealkit.RateLimitError,
    500: InternalServerError,
    503: InternalServerError,
    599: InternalServerError,
}


def test_the_tree() -> None:
    parents: dict[type, tuple[type, ...]] = {
        ConfigError: (DealkitError, ValueError),
        ValidationError: (DealkitError, ValueError),
        APIConnectionError: (DealkitError, ConnectionError),
        APITimeoutError: (APIConnectionError, TimeoutError),
        ThrottledError: (DealkitError,),
        DecodeError: (DealkitError, ValueError),
        APIStatusError: (DealkitError,),
        LedgerError: (DealkitError,),
        AlreadyAttemptedError: (DealkitError,),
        IdempotencyKeyReusedError: (DealkitError, ValueError),
        DuplicateKeyError: (DealkitError, ValueError),
        ServiceKeyError: (DealkitError,),
        StoppedError: (DealkitError,),
    }
    for of_class, bases in parents.items():
        assert issubclass(of_class, bases[0]) and all(issubclass(of_class, base) for base in bases)
    assert all(issubclass(of_class, APIStatusError) for of_class in BY_STATUS.values())
    assert len(CLASSES) == 22
    assert all(getattr(dealkit, of_class.__name__) is of_class for of_class in CLASSES)


@pytest.mark.parametrize("of_class", CLASSES)
def test_every_class_can_be_made_and_pickled(of_class: Any) -> None:
    attributes: dict[str, Any] = {
        "kind": "connect",
        "outcome": "unknown",
        "attempts": 3,
        "request_id": "r",
        "retry_after": 1.5,
    }
    error = of_class("text", **attributes)
    error.index, error.id = 7, "d_7"
    error.add_note("a note")
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(again) is of_class and str(again) == "text" and vars(again) == vars(error)
    assert of_class().attempts == 0
    assert of_class.__doc__


def test_kinds_of_errors_without_a_response(client: Client) -> None:
    with pytest.raises(ValidationError) as invalid:
        client.deals.retrieve("..")
    with pytest.raises(ConfigError) as misconfigured:
        Client(base_url="nothing", service_key="k")
    with pytest.raises(DecodeError) as unreadable:
        dealkit.Deal.from_json("{}")
    found = [caught.value.kind for caught in (invalid, misconfigured, unreadable)]
    assert found == ["validation", "config", "decode"]
    # Errors that a program constructs.
    assert {of_class().kind for of_class in CLASSES} == {
        *("config", "validation", "interrupted", "timeout", "throttled", "decode", "status"),
        *("cancelled", "ledger", "already_attempted", "idempotency_key_reused", "duplicate_key", "service_key"),
        "stopped",
    }


@pytest.mark.parametrize("status", BY_STATUS)
def test_a_class_for_each_status(status: int, peer: Any) -> None:
    body = '{"title": "Oh", "detail": "no", "request_id": "r-2", "errors": [{"pointer": "/a", "code": "x", "detail": "y"}], "n": 1.10}'
    headers = {"X-Request-Id": "r-1", "Retry-After": "7", "Location": "https://other.example.com/secret"}
    server = peer(http_response(status, body, headers))
    with Client(base_url=server.url, service_key="sk-secret", max_retries=0) as client:
        with pytest.raises(DealkitError) as caught:
            client.deals.retrieve("d_secret")
    error = caught.value
    assert type(error) is BY_STATUS[status]
    assert isinstance(error, APIStatusError)
    assert (error.status_code, error.body, error.attempts) == (status, body.encode(), 1)
    assert error.http_version == "HTTP/1.1"
    assert error.headers["x-request-id"] == error.request_id == "r-1"
    assert error.problem is not None
    assert (error.problem.title, error.problem.detail, error.problem.request_id) == ("Oh", "no", "r-2")
    assert error.problem.errors == error.errors and str(error.errors[0]) == "/*: y (x)"
    assert str(error.problem.extra["n"]) == "1.10"
    assert error.retry_after == 7.0
    assert str(status) in str(error) and "r-1" in str(error) and "GET /v1/deals/{id}" in str(error)
    for secret in ("secret", "/secret", "d_secret", "sk-secret"):
        assert secret not in str(error) and secret not in repr(error)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and str(again) == str(error)
    assert again.headers == error.headers and again.problem == error.problem
    assert vars(again) == vars(error)


def test_an_unreadable_response(peer: Any) -> None:
    body = b'{"id": "d_1", "expiry_date": "soon"}'
    server = peer(http_response(200, body, {"X-Request-Id": "r-1"}))
    with Client(base_url=server.url, service_key="k") as client:
        with pytest.raises(DecodeError) as caught:
            client.deals.retrieve("d_1")
        error = caught.value
        assert (error.path, error.found, error.body) == ("expiry_date", "a string", body)
        assert error.detail == "expected a date YYYY-MM-DD, found another string"
        advice = "the field can be skipped [request id r-1] [see on_unreadable]"
        assert str(error).endswith(f"at {error.path}: {error.detail}; {advice}")
        assert error.setting == "on_unreadable"
        assert (error.outcome, error.attempts, error.request_id) == ("succeeded", 1, "r-1")
        assert "GET /v1/deals/{id}: 200 OK" in str(error) and "soon" not in str(error)
        assert vars(pickle.loads(pickle.dumps(error))) == vars(error)
        with pytest.raises(DecodeError):
            client.with_raw_response.deals.retrieve("d_1").parse()
        assert client.with_raw_response.deals.retrieve("d_1").json()["expiry_date"] == "soon"


@BOTH_CLIENTS
@pytest.mark.parametrize("body", ['{"id": 5}', "{}"])
def test_an_error_has_the_requested_identifier(body: str, of_class: Any, dealkit_sandbox: Sandbox, peer: Any) -> None:
    client = make_client(dealkit_sandbox, of_class)
    unreadable = of_class(base_url=peer(http_response(200, body)).url, service_key="k")

    def failure(client: Any, call: Callable[[Any], Any]) -> DealkitError:
        with pytest.raises(DealkitError) as caught:
            wait_for_result(client, call)
        return caught.value

    for of_which, id in ((client, "no-such-deal"), (client, ".."), (unreadable, "d_secret")):
        error = failure(of_which, lambda client, id=id: client.deals.retrieve(id))  # type: ignore[misc]
        assert error.id == pickle.loads(pickle.dumps(error)).id == id
        assert error.index is None
        assert id == ".." or (id not in str(error) and id not in repr(error))
    assert failure(client, lambda client: client.with_raw_response.deals.retrieve("nothing")).id == "nothing"
    assert failure(client, lambda client: client.request("GET", "deals", "nothing")).id is None


@pytest.mark.parametrize("of_class", CLASSES)
def test_the_default_outcome_of_an_exception(of_class: Any) -> None:
    """The default is ``unknown`` for errors that follow a request, unless the status rules out an effect, and otherwise
    ``not_sent``.
    """
    if getattr(of_class(), "status_code", 0) in range(400, 500):
        expected = "rejected"
    else:
        of_calls = issubclass(of_class, APIConnectionError | APIStatusError | AlreadyAttemptedError)
        expected = "unknown" if of_calls else "not_sent"
    if of_class is IdempotencyKeyReusedError:
        expected = "succeeded"  # The agent of the earlier request.
    assert of_class("text").outcome == expected
    assert of_class("text", outcome="rejected").outcome == "rejected"
