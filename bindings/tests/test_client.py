"""The blocking client: its configuration, its calls, and their requests."""

from __future__ import annotations

import copy
import gc
import json
import pickle
import signal
import sys
from collections import OrderedDict
from datetime import date
from decimal import Decimal
from random import Random
from types import MappingProxyType
from typing import Any
from weakref import ref

import pytest
from conftest import ADA, BOTH_CLIENTS, as_any, http_response, make_client, respond_after, wait_for_result
from processes import start_python, wait_for_success

from dealkit import (
    APITimeoutError,
    AsyncClient,
    AuthenticationError,
    Client,
    ConfigError,
    NotFoundError,
    Role,
    Timeout,
    ValidationError,
)
from dealkit.testing import Sandbox

AGENT = json.dumps({"id": "a_1", **ADA, "role_assignments": []})


def sent_body(request: bytes) -> Any:
    return json.loads(request.partition(b"\r\n\r\n")[2], parse_float=str)


@BOTH_CLIENTS
def test_create_and_retrieve(of_class: Any, dealkit_sandbox: Sandbox) -> None:
    client = make_client(dealkit_sandbox, of_class)
    profile = {"tier": "A", "external_id": "crm-1", "client_metadata": {"rate": Decimal("1.10")}}
    given = {**ADA, "profile": profile, "role": Role.BROKER_ADMIN, "phone": "+15550100", "image_url": None}
    given |= {"date_of_birth": date(1990, 2, 28), "brokerage_id": "b_1"}
    agent = wait_for_result(client, lambda client: client.agents.create(**given))
    assert agent.id == "a_1" and agent.date_of_birth == date(1990, 2, 28)
    assert agent.profile.external_id == "crm-1"
    assert agent.profile.client_metadata is not None
    assert str(agent.profile.client_metadata["rate"]) == "1.10"
    assert agent.role_assignments[0].role is Role.BROKER_ADMIN
    assert agent.current_brokerage_id == "b_1"
    assert dealkit_sandbox.agents == [agent]
    assert wait_for_result(client, lambda client: client.deals.retrieve("d_1")).id == "d_1"
    assert wait_for_result(client, lambda client: client.request("GET", "deals", "d_2")).json()["id"] == "d_2"
    with pytest.raises(NotFoundError):
        wait_for_result(client, lambda client: client.deals.retrieve("nope"))


def test_the_request_of_a_create(peer: Any) -> None:
    server = peer(http_response(201, AGENT))
    metadata = {"n": 2**70, "d": Decimal("10.10"), "f": 0.5, "t": (1, [True, None]), "m": MappingProxyType({"a": "ü"})}
    extra = {"unknown_key": 1, "nested": {"user_id": [None]}, "tier": "A"}
    profile = {"user_id": "u", "partner_uuid": "p", "partnerMlsId": "as it is", "extra": extra}
    given = as_any({**ADA, "profile": {**profile, "client_metadata": metadata}})
    with Client(base_url=server.url + "/base/", service_key="k", headers={"X-Team": "north"}) as client:
        client.agents.create(
            **given, role="ADMIN", office_id=None, extra=OrderedDict(referral={"userId": Decimal("1.10")})
        )
    request = server.requests[0]
    head = request.partition(b"\r\n\r\n")[0].decode().lower()
    assert request.startswith(b"POST /base/v1/agents HTTP/1.1")
    assert "x-service-key: k" in head and "x-team: north" in head and "content-type: application/json" in head
    assert sent_body(request) == {
        "email": "ada@example.com",
        "first_name": "Ada",
        "last_name": "Lovelace",
        "profile": {
            "userId": "u",
            "partnerUUID": "p",
            "partnerMlsId": "as it is",
            "unknown_key": 1,
            "nested": {"user_id": [None]},
            "tier": "A",
            "clientMetadata": {"n": 2**70, "d": "10.10", "f": "0.5", "t": [1, [True, None]], "m": {"a": "ü"}},
        },
        "role": "ADMIN",
        "office_id": None,
        "referral": {"userId": "1.10"},
    }


@pytest.mark.parametrize(
    ("extra", "pointer", "code"),
    [
        ({"first_nam": "Ada"}, None, None),
        ({"phone": 5}, "/phone", "wrong_type"),
        (["referral"], "/extra", "wrong_type"),
        ({"referral": float("nan")}, "/referral", "wrong_type"),
        ({"extra": {}}, None, None),
    ],
)
def test_undocumented_fields_of_a_request(client: Client, extra: Any, pointer: str | None, code: str | None) -> None:
    violations = client.agents.validate(**ADA, extra=extra)
    assert [(found.pointer, found.code) for found in violations] == ([(pointer, code)] if pointer else [])


def test_an_undocumented_field_that_is_an_argument_is_rejected(client: Client) -> None:
    with pytest.raises(TypeError, match=r"^extra must not hold a field that is also given as an argument$"):
        client.agents.create(**ADA, extra={"email": "grace@example.com"})


@pytest.mark.parametrize(
    ("profile", "pointer", "code", "detail"),
    [
        ({"teir": "A"}, "/profile/teir", "unknown_field", 'did you mean "tier"?'),
        ({"externl_id": "A"}, "/profile/externl_id", "unknown_field", 'did you mean "external_id"?'),
        ({"extra": {"tier": 5}}, "/profile/tier", "wrong_type", "must be a string"),
        (MappingProxyType({"extra": OrderedDict(tier=5)}), "/profile/tier", "wrong_type", "must be a string"),
    ],
)
def test_undocumented_fields_of_a_profile(
    client: Client, dealkit_sandbox: Sandbox, profile: Any, pointer: str, code: str, detail: str
) -> None:
    given = as_any({**ADA, "profile": profile})
    [violation] = client.agents.validate(**given)
    assert (violation.pointer, violation.code) == (pointer, code)
    assert detail in violation.detail
    with pytest.raises(ValidationError) as caught:
        client.agents.create(**given)
    assert caught.value.errors == (violation,)
    [creation] = client.agents.create_many([given], on_error="return")
    assert isinstance(creation.error, ValidationError) and creation.error.errors == (violation,)
    assert not dealkit_sandbox.agents


def test_request(client: Client, peer: Any) -> None:
    assert client.request("get", "deals", "d_1").json()["id"] == "d_1"
    server = peer(http_response(200, '{"rate": 1.10, "ok": true}', {"X-Request-Id": "r-1", "A": "1"}))
    with Client(base_url=server.url, service_key="k") as other:
        response = other.request(
            "PATCH", "agents", "a/b ü", json={"a": Decimal("1.50")}, query={"q": "x y"}, headers={"X-B": "2"}
        )
        assert response.json() == {"rate": Decimal("1.10"), "ok": True} == response.parse()
        assert (response.status_code, response.request_id, response.attempts) == (200, "r-1", 1)
        assert response.http_version == "HTTP/1.1"
        assert response.headers["x-request-ID"] == "r-1" and "nope" not in response.headers
        assert response.body == b'{"rate": 1.10, "ok": true}'
        assert "1.10" not in repr(response)
        request = server.requests[0]
        assert request.startswith(b"PATCH /v1/agents/a%2Fb%20%C3%BC?q=x+y HTTP/1.1")
        assert b"x-b: 2" in request.lower() and request.endswith(b'{"a":1.50}')
        other.request("DELETE", "agents", "a_1")
        assert b"content-type" not in server.requests[1].lower()
        other.request("POST", "agents", json=None, query=[("a", "1"), ("a", "2")])
        assert server.requests[2].endswith(b"\r\n\r\nnull") and b"?a=1&a=2 " in server.requests[2]


@BOTH_CLIENTS
def test_with_raw_response(of_class: Any, dealkit_sandbox: Sandbox) -> None:
    client = make_client(dealkit_sandbox, of_class)
    response = wait_for_result(client, lambda client: client.with_raw_response.deals.retrieve("d_1"))
    assert response.status_code == 200 and response.attempts == 1
    assert response.parse() == wait_for_result(client, lambda client: client.deals.retrieve("d_1"))
    assert response.json()["id"] == "d_1"
    assert response.request_id == response.headers["X-Request-Id"]
    created = wait_for_result(client, lambda client: client.with_raw_response.agents.create(**ADA))
    assert created.status_code == 201 and created.parse().email == "ada@example.com"


def test_closed(client: Client) -> None:
    many = client.deals.retrieve_many(["d_1"] * 3)
    assert next(many).id == "d_1"
    client.close()
    assert [deal.id for deal in many] == ["d_1", "d_1"], "calls in flight continue"
    assert pickle.loads(pickle.dumps(client)).is_closed


def test_with_options(client: Client, peer: Any) -> None:
    slow = Client(base_url=peer(b"").url, service_key="k", timeout=Timeout(attempt=3600, total=3600))
    hurried = slow.with_options(timeout=0.05)
    for client_ in (hurried, pickle.loads(pickle.dumps(hurried))):
        with pytest.raises(APITimeoutError, match=r"0\.05 s"):
            client_.deals.retrieve("d_1")
    late = peer(respond_after(0.3, http_response(200, '{"id":"d_1"}')))
    hurried = Client(base_url=late.url, service_key="k", timeout=0.05)
    assert hurried.with_options(timeout=None).deals.retrieve("d_1").id == "d_1", "None is the default"
    other = client.with_options(headers={"x-a": "1"}, service_key="other")
    with pytest.raises(AuthenticationError):
        other.deals.retrieve("d_1")


def test_a_call_pickles(client: Client) -> None:
    """As ``executor.map(client.deals.retrieve, ids)`` requires."""
    retrieve = pickle.loads(pickle.dumps(client.deals.retrieve))
    assert retrieve("d_1").id == "d_1"
    with_raw_response = pickle.loads(pickle.dumps(client.with_raw_response))
    assert with_raw_response.deals.retrieve("d_1").status_code == 200
    deals = client.deals
    client.close()
    with pytest.raises(ConfigError, match="the client is closed"):
        pickle.loads(pickle.dumps(deals)).retrieve("d_1")


@BOTH_CLIENTS
def test_repr_and_pickle(of_class: Any, sandbox: Sandbox) -> None:
    client = make_client(sandbox, of_class)
    again = pickle.loads(pickle.dumps(client))
    assert repr(again) == repr(client) == f"{of_class.__name__}(base_url='{client.base_url}')"
    assert wait_for_result(again, lambda client: client.deals.retrieve("d_1")).id == "d_1"


def test_a_timeout_and_headers_pickle(client: Client) -> None:
    timeout = Timeout(connect=1, attempt=2, total=3)
    assert hash(timeout) == hash(Timeout(connect=1, attempt=2, total=3))
    with Client(base_url=client.base_url, service_key="sandbox-key", timeout=timeout, headers={"x-a": "b"}) as full:
        assert pickle.loads(pickle.dumps(full)).deals.retrieve("d_1").id == "d_1"


class Labelled(Client):
    """A typical subclass of a user, with more arguments and attributes."""

    def __init__(self, label: str, **settings: Any) -> None:
        super().__init__(**settings)
        self.label = label


def test_subclasses_keep_their_attributes(dealkit_sandbox: Sandbox) -> None:
    client = Labelled("north", base_url=dealkit_sandbox.url, service_key=dealkit_sandbox.service_key)
    for other in (
        client.with_options(timeout=5),
        client.with_options(headers={"x-a": "1"}),
        copy.copy(client),
        copy.deepcopy(client),
        pickle.loads(pickle.dumps(client)),
    ):
        assert type(other) is Labelled and other is not client
        assert other.label == "north" and other.base_url == client.base_url
        assert other.deals.retrieve("d_1").id == "d_1"
    client.close()
    assert copy.copy(client).is_closed


def test_an_exception_of_a_signal_handler_is_not_a_validation_error(client: Client, seeded_random: Random) -> None:
    """Python checks for signals while it formats a long number."""

    class Now(BaseException):
        pass

    def now(*_: object) -> None:
        raise Now

    former = signal.signal(signal.SIGALRM, now)
    # The garbage collector calls Python code, which would swallow the exception.
    gc.disable()
    try:
        for _ in range(20):
            with pytest.raises(Now):
                # Inside the block, because the signal may arrive before the next line.
                signal.setitimer(signal.ITIMER_REAL, seeded_random.uniform(0.0005, 0.01))
                for _ in range(100_000):
                    client.agents.create(
                        **as_any({**ADA, "email": "no", "profile": {"client_metadata": {"n": [7**4000] * 100}}})
                    )
    finally:
        gc.enable()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)


# Python 3.14 reserves half of a stack of 64 KiB, and makes no calls when only that half is left.
@pytest.mark.parametrize("stack", [*([64] if sys.version_info < (3, 14) else []), 128, 256])
def test_threads_with_a_small_stack(stack: int, dealkit_sandbox: Sandbox, refusing_address: str) -> None:
    """Threads on Alpine have small stacks. Deep nesting needs more stack in a debug build than in a release build."""
    code = """
import sys, threading
from dealkit import APIConnectionError, AsyncClient, Client
def work():
    client = Client()
    assert client.deals.retrieve("d_1").id == "d_1"
    assert client.agents.create(email="a@b.co", first_name="A", last_name="L", profile={}).id
    assert [deal.id for deal in client.deals.retrieve_many(["d_1"])] == ["d_1"]
    try:
        Client(base_url="https://" + sys.argv[2], max_retries=0).deals.retrieve("d_1")
    except APIConnectionError:
        print("done")
threading.stack_size(int(sys.argv[1]) * 1024)
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""
    assert wait_for_success(start_python(code, str(stack), refusing_address, url=dealkit_sandbox.url)) == "done\n"


def test_a_shared_client(dealkit_sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEALKIT_BASE_URL", dealkit_sandbox.url)
    monkeypatch.setenv("DEALKIT_SERVICE_KEY", dealkit_sandbox.service_key)
    client = Client.shared(rate_limit=1000, headers={"x-tenant": "7"})
    assert client.deals.retrieve("d_1").id == "d_1"
    assert Client.shared(headers=[("x-tenant", "7")], rate_limit=1000) is client
    assert type(AsyncClient.shared(rate_limit=1000, headers={"x-tenant": "7"})) is AsyncClient
    for other in (Client.shared(), Client.shared(rate_limit=1000), Client.shared(rate_limit=1000, headers={})):
        assert other is not client and type(other) is Client

    # In another environment, `shared` returns another client. In the former environment, it returns the former client.
    monkeypatch.setenv("DEALKIT_SERVICE_KEY", "another")
    with pytest.raises(AuthenticationError):
        Client.shared(rate_limit=1000, headers={"x-tenant": "7"}).deals.retrieve("d_1")
    monkeypatch.setenv("DEALKIT_SERVICE_KEY", dealkit_sandbox.service_key)
    assert Client.shared(rate_limit=1000, headers={"x-tenant": "7"}) is client

    client.close()
    again = Client.shared(rate_limit=1000, headers={"x-tenant": "7"})
    assert again is not client and again.deals.retrieve("d_1").id == "d_1"
    # The cache has no reference to the closed client.
    closed = ref(client)
    del client
    gc.collect()
    assert closed() is None
    assert Client.shared(rate_limit=1000, headers={"x-tenant": "7"}) is again

    with pytest.raises(ConfigError, match="rate_limit"):
        Client.shared(rate_limit=-1)
    with pytest.raises(TypeError, match=r"got an unexpected keyword argument 'rate'"):
        Client.shared(**as_any({"rate": 1}))
