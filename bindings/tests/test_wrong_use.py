"""Each invalid argument raises the right exception class, with a message that names the argument.

A wrong type raises TypeError. An invalid value raises ConfigError (a ValueError) for an option, and ValidationError (also a
ValueError) for a part of the request.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any, cast

import pytest
from conftest import BOTH_CLIENTS, as_any, make_client, wait_for_result

from dealkit import (
    Agent,
    AgentProfileResponse,
    AsyncClient,
    Client,
    ConfigError,
    CreateAgentParams,
    Deal,
    DecodeError,
    Headers,
    ListingContract,
    NotFoundError,
    Offer,
    Quote,
    Timeout,
    ValidationError,
)
from dealkit.testing import Sandbox

UNPAIRED = "\ud800"  # An unpaired surrogate: a valid Python str, which UTF-8 cannot encode.
URL = "http://127.0.0.1:9"
DAY, NOON = datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1, 12)


def cases(table: dict[str, list[tuple[Any, type[Exception], str]]]) -> list[Any]:
    """Converts a table for ``parametrize``: for each argument, invalid values with their exception and a part of its message."""
    return [
        pytest.param(name, value, error, text, id=f"{name}={value!r:.24}")
        for name, rows in table.items()
        for value, error, text in rows
    ]


def check_raises(error: type[Exception], text: str, call: Callable[[], object]) -> None:
    """Checks that a call raises exactly this class, with a message on one short line that contains the text."""
    with pytest.raises(error) as caught:
        call()
    assert type(caught.value) is error
    shown = str(caught.value)
    assert text in shown
    assert "\n" not in shown and len(shown) < 300, shown
    # Messages contain neither private names nor Rust's spelling.
    assert "_Base" not in shown and "(true)" not in shown, shown


SECONDS = "must be a number of seconds, more than zero and finite"
RATE = "rate_limit must be a number of calls a second, more than zero and finite"
WHOLE = "must be a whole number, 0 or more"

# One invalid value for each option, and values of wrong types. `sdk/tests/wire/configuration.rs` tests all invalid values.
SETTINGS: dict[str, list[tuple[Any, type[Exception], str]]] = {
    "base_url": [
        (1, TypeError, "base_url must be a str, not int"),
        ("", ConfigError, "base_url"),
        ("https://x.example/v1/", ConfigError, "base_url must not end in /v1: dealkit adds it"),
    ],
    "service_key": [
        (1, TypeError, "service_key must be a str, not int"),
        ("secret\n", ConfigError, "does it contain a line break or a space?"),
    ],
    "timeout": [
        (0, ConfigError, f"timeout {SECONDS}"),
        (10**400, ConfigError, "timeout must be"),
        ("5", TypeError, "timeout must be a number of seconds, not str"),
        (True, TypeError, "timeout must be a number of seconds, not bool"),
        (Timeout(connect=-1), ConfigError, f"connect {SECONDS}"),
        (Timeout(connect=True), TypeError, "connect must be a number of seconds, not bool"),
    ],
    "max_retries": [
        (-1, ConfigError, f"max_retries {WHOLE}, not one so small or so large"),
        (1.5, TypeError, f"max_retries {WHOLE}, not float"),
        (True, TypeError, f"max_retries {WHOLE}, not bool"),
    ],
    "rate_limit": [
        (0, ConfigError, RATE),
        (10**400, ConfigError, "rate_limit must be a number of calls a second, not one so small or so large"),
        (True, TypeError, "rate_limit must be a number of calls a second, not bool"),
    ],
    "headers": [
        ("a: b", TypeError, "headers must be a mapping or an iterable of pairs"),
        (5, TypeError, "headers must be a mapping or an iterable of pairs, not int"),
        ([("a",)], TypeError, "headers must be a mapping or an iterable of pairs, not a list that holds a tuple of 1"),
        (["ab", "cd"], TypeError, "headers must be a mapping or an iterable of pairs, not a list that holds a str"),
        ({"a": None}, TypeError, "the value of a in headers must be a str, not NoneType"),
        ({1: "a"}, TypeError, "a name in headers must be a str, not int"),
        ({"X-Service-Key": "other"}, ConfigError, "x-service-key is set by the client and cannot be overridden"),
    ],
    "proxy": [
        (5, TypeError, "proxy must be a str, not int"),
        ("socks5://127.0.0.1:1080", ConfigError, "SOCKS proxies are not supported"),
    ],
    "ca_file": [
        (5, TypeError, "ca_file must be the path of a file, not int"),
        ("", ConfigError, "ca_file  cannot be read: No such file or directory"),
        ("/dev/null", ConfigError, "ca_file contains no certificate"),
    ],
    "client_cert": [
        (5, TypeError, "client_cert must be the path of a file or a pair of them, not int"),
        (("a", "b", "c"), TypeError, "client_cert must be the path of a file or a pair of them, not tuple"),
        (("a", None), TypeError, "client_cert must be the path of a file, not NoneType"),
        (("/dev/null", "/nowhere"), ConfigError, "client_cert /nowhere cannot be read: No such file or directory"),
        (("/dev/null", "/dev/null"), ConfigError, "client_cert /dev/null contains no certificate"),
    ],
    "http2": [(1, TypeError, "http2 must be a bool, not int")],
    "max_idle_connections": [(-1, ConfigError, WHOLE), ("5", TypeError, f"max_idle_connections {WHOLE}, not str")],
    "max_response_bytes": [(-1, ConfigError, WHOLE), (2.5, TypeError, f"max_response_bytes {WHOLE}, not float")],
    "allow_http": [(1, TypeError, "allow_http must be a bool, not int")],
    "user_agent": [(5, TypeError, "user_agent must be a str, not int"), ("a\nb", ConfigError, "user_agent contains")],
}


@BOTH_CLIENTS
@pytest.mark.parametrize(("name", "value", "error", "text"), cases(SETTINGS))
def test_settings(of_class: Any, name: str, value: Any, error: type[Exception], text: str) -> None:
    good = {"base_url": URL, "service_key": "k"}
    check_raises(error, text, lambda: of_class(**{**good, name: value}))
    # `with_options` has the same message.
    check_raises(error, text, lambda: of_class(**good).with_options(**{name: value}))
    if error is ConfigError and name != "headers":
        with pytest.raises(ConfigError) as caught:
            of_class(**{**good, name: value})
        assert caught.value.setting == ("connect" if isinstance(value, Timeout) else name)


@BOTH_CLIENTS
@pytest.mark.parametrize("name", ["base_url", "service_key", "headers", "user_agent", "proxy", "ca_file"])
def test_settings_with_an_unpaired_surrogate(of_class: Any, name: str) -> None:
    value: Any = {"a": UNPAIRED} if name == "headers" else UNPAIRED
    with pytest.raises(ValueError, match=f"{name}.* contains an unpaired surrogate, which "):
        of_class(**{"base_url": URL, "service_key": "k", name: value})


@BOTH_CLIENTS
def test_missing_settings(of_class: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DEALKIT_BASE_URL", raising=False)
    monkeypatch.delenv("DEALKIT_SERVICE_KEY", raising=False)
    check_raises(
        ConfigError,
        "base_url is missing: pass it, or set the environment variable DEALKIT_BASE_URL",
        lambda: of_class(service_key="k"),
    )
    check_raises(
        ConfigError,
        "service_key is missing: pass it, or set the environment variable DEALKIT_SERVICE_KEY",
        lambda: of_class(base_url=URL),
    )
    for name in ("BASE_URL", "SERVICE_KEY", "SERVICE_KEY_FILE"):
        monkeypatch.setenv(f"DEALKIT_{name}", "")
    check_raises(ConfigError, "base_url is missing: pass it", lambda: of_class(service_key="k"))
    check_raises(ConfigError, "service_key is missing: pass it", lambda: of_class(base_url=URL))
    for setting, options in {"base_url": {"service_key": "k"}, "service_key": {"base_url": URL}}.items():
        with pytest.raises(ConfigError) as caught:
            of_class(**options)
        assert caught.value.setting == setting
    monkeypatch.setenv("DEALKIT_SERVICE_KEY", "'CANARY'")
    error = check_raises(
        ConfigError, "service_key must not be in quotation marks: remove them", lambda: of_class(base_url=URL)
    )
    assert "CANARY" not in str(error)
    monkeypatch.setenv("DEALKIT_BASE_URL", "ftp://x.example")
    monkeypatch.setenv("DEALKIT_SERVICE_KEY", "k")
    check_raises(ConfigError, "base_url must begin with https:// or http://", of_class)


@BOTH_CLIENTS
def test_unknown_keywords(of_class: Any) -> None:
    given: dict[str, Any] = {"base_url": URL, "service_key": "k"}
    calls = Calls(of_class(**given))
    name, row = of_class.__name__, {"email": "a@b.co"}
    unexpected = "%s() got an unexpected keyword argument %r; did you mean %r?"
    wrong_calls: list[tuple[Callable[..., object], str, str, str]] = [
        (lambda **wrong: of_class(**given, **wrong), name, "tmeout", "timeout"),
        (lambda **wrong: of_class.shared(**given, **wrong), f"{name}.shared", "retries", "max_retries"),
        (calls.client.with_options, f"{name}.with_options", "base_ulr", "base_url"),
        (calls.create, "agents.create", "frst_name", "first_name"),
        (lambda **wrong: calls.create(**GOOD, **wrong), "agents.create", "time_out", "timeout"),
        (calls.create_once, "agents.create_once", "idempotencykey", "idempotency_key"),
        (lambda **wrong: calls.create_once(**once, **GOOD, **wrong), "agents.create_once", "mail", "email"),
        (lambda **wrong: calls.create_many([row], **wrong), "agents.create_many", "legder", "ledger"),
        (lambda **wrong: calls.retrieve(**wrong), "deals.retrieve", "ids", "id"),
        (lambda **wrong: calls.retrieve("d", **wrong), "deals.retrieve", "on_unreadabel", "on_unreadable"),
        (lambda **wrong: calls.retrieve_many(["d"], **wrong), "deals.retrieve_many", "concurency", "concurrency"),
    ]
    once = {"idempotency_key": "k", "ledger": "never.ledger"}
    for call, label, keyword, suggestion in wrong_calls:
        with pytest.raises(TypeError) as caught:
            call(**{keyword: 1})
        assert type(caught.value) is TypeError and str(caught.value) == unexpected % (label, keyword, suggestion)
    with pytest.raises(TypeError, match=r"^deals\.retrieve\(\) got an unexpected keyword argument 'unlike'$"):
        calls.retrieve("d", unlike=1)
    with pytest.raises(TypeError, match=r"^agents\.create\(\) missing 4 required keyword-only arguments"):
        calls.create()
    with pytest.raises(TypeError, match="^Deal has no attribute 'staus'; did you mean 'status'\\?$"):
        as_any(Deal)(id="d", staus=1)
    (violation,) = calls.client.agents.validate(**GOOD, mail="a@b.co")
    assert (violation.pointer, violation.code) == ("/mail", "unknown_field")
    assert 'did you mean "email"?' in violation.detail


class Calls:
    """Makes the calls of a blocking or an async client."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def __call__(self, call: Callable[[Any], Any]) -> Any:
        return wait_for_result(self.client, call)

    def create(self, **given: Any) -> Any:
        return self(lambda client: client.agents.create(**given))

    def create_once(self, **given: Any) -> Any:
        return self(lambda client: client.agents.create_once(**given))

    def create_many(self, rows: Any, **given: Any) -> Any:
        return self(lambda client: client.agents.create_many(rows, **given))

    def retrieve_many(self, ids: Any, **given: Any) -> Any:
        return self(lambda client: client.deals.retrieve_many(ids, **given))

    def request(self, *given: Any, **options: Any) -> Any:
        return self(lambda client: client.request(*given, **options))

    def retrieve(self, *ids: Any, **given: Any) -> Any:
        return self(lambda client: client.deals.retrieve(*ids, **given))

    def many(self, ids: Any) -> Any:
        return self(lambda client: client.deals.retrieve_many(ids))


@pytest.fixture(params=[Client, AsyncClient], ids=["sync", "async"])
def calls(request: pytest.FixtureRequest, dealkit_sandbox: Sandbox) -> Calls:
    return Calls(make_client(dealkit_sandbox, request.param))


@pytest.mark.parametrize("id", [1, None, b"d_1", True, ["d_1"], Deal(id="d_1")])
def test_identifiers_that_are_not_str(calls: Calls, id: Any) -> None:
    kind = type(id).__name__
    check_raises(TypeError, f"id must be a str, not {kind}", lambda: calls.retrieve(id))
    check_raises(TypeError, f"ids[1] must be a str, not {kind}", lambda: calls.many(["d_1", id]))


GOOD: dict[str, Any] = {"email": "a@b.co", "first_name": "A", "last_name": "B", "profile": {}}
OPTIONAL = ("role", "phone", "image_url", "date_of_birth", "brokerage_id", "office_id", "collective_id")
STRINGS = ("email", "first_name", "last_name", *OPTIONAL)


@pytest.mark.parametrize("validate", [True, False])
@pytest.mark.parametrize("name", STRINGS)
def test_fields_that_json_cannot_represent(calls: Calls, name: str, validate: bool) -> None:
    """They are rejected even without ``validate``, because they cannot be sent."""
    for value, text in [
        (b"x", "got bytes"),
        (object(), "got object"),
        ({1}, "got set"),
        (math.inf, "got float" if validate else "must be a finite number"),
        (UNPAIRED, "must be Unicode text, got an unpaired surrogate"),
    ]:
        with pytest.raises(ValidationError) as caught:
            calls.create(**as_any({**GOOD, name: value}), validate=validate)
        (violation,) = caught.value.errors
        assert (violation.pointer, violation.code) == (f"/{name}", "wrong_type")
        assert text in violation.detail
        # The message lists other types only without `validate`.
        assert not (validate and "tuple" in violation.detail), violation.detail


def test_values_that_contain_themselves(calls: Calls) -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(ValidationError, match="wrong_type"):
        calls.create(**as_any({**GOOD, "profile": {"client_metadata": {"a": endless}}}))
    with pytest.raises(ValidationError, match="wrong_type"):
        calls.request("PATCH", "agents", "a_1", json=endless)


def test_other_wrong_use_of_create(calls: Calls) -> None:
    def create(**given: Any) -> Callable[[], object]:
        return lambda: calls.create(**given)

    check_raises(TypeError, "'email', 'first_name', 'last_name', and 'profile'", create())
    check_raises(TypeError, "unexpected keyword argument 'tier'", create(**GOOD, tier="A"))
    for profile in ({"userId": "a", "user_id": "b"}, {"user_id": "a", "extra": {"userId": "b"}}):
        text = "profile names one field twice: user_id is userId"
        check_raises(TypeError, text, create(**as_any({**GOOD, "profile": profile})))
    for wrong in ("no", 0):
        check_raises(TypeError, f"validate must be a bool, not {type(wrong).__name__}", create(**GOOD, validate=wrong))


IDS: dict[str, list[tuple[Any, type[Exception], str]]] = {
    "ids": [
        (5, TypeError, "ids must be an iterable of str, not int"),
        ("d_1", TypeError, "for one deal use retrieve()"),
        (Deal(id="d_1"), TypeError, "ids must be an iterable of str, not Deal"),
    ],
}
ROWS: dict[str, list[tuple[Any, type[Exception], str]]] = {
    "rows": [
        ({}, TypeError, "rows must be an iterable of mappings, not a dict; for one agent use create()"),
        ("a", TypeError, "rows must be an iterable of mappings, not str"),
    ],
    "validate": [(1, TypeError, "validate must be a bool, not int")],
}
# Arguments of both bulk calls.
MANY: dict[str, list[tuple[Any, type[Exception], str]]] = {
    "concurrency": [
        (0, ValueError, "concurrency must be at least 1"),
        ("4", TypeError, "concurrency must be an int, not str"),
        (True, TypeError, "concurrency must be an int, not bool"),
    ],
    "ordered": [
        ("no", TypeError, "ordered must be a bool, not str"),
    ],
    "on_error": [
        ("ignore", ValueError, 'on_error must be "raise" or "return"'),
        ([], ValueError, 'on_error must be "raise" or "return"'),
    ],
    "progress": [
        (1, TypeError, "progress must be a bool or a callable, not int"),
    ],
    "timeout": [
        ("5", TypeError, "timeout must be a number of seconds, not str"),
        (0, ConfigError, f"timeout {SECONDS}"),
    ],
    "max_retries": [(-1, ConfigError, f"max_retries {WHOLE}")],
    "extra_headers": [({"a": 1}, TypeError, "the value of a in extra_headers must be a str, not int")],
}


def check_raises_early(error: type[Exception], text: str, call: Callable[[], object]) -> None:
    """Checks that a bulk call raises immediately, not at the first item."""
    with pytest.raises((error, ConfigError) if error is ValueError else error) as caught:
        call()
    assert text in str(caught.value)


@BOTH_CLIENTS
@pytest.mark.parametrize(("name", "value", "error", "text"), cases({**IDS, **MANY}))
def test_retrieve_many(of_class: Any, name: str, value: Any, error: type[Exception], text: str) -> None:
    deals = of_class(base_url=URL, service_key="k").deals
    check_raises_early(error, text, lambda: deals.retrieve_many(**as_any({"ids": ["d_1"], name: value})))


@BOTH_CLIENTS
@pytest.mark.parametrize(("name", "value", "error", "text"), cases({**ROWS, **MANY}))
def test_create_many(of_class: Any, name: str, value: Any, error: type[Exception], text: str) -> None:
    agents = of_class(base_url=URL, service_key="k").agents
    check_raises_early(error, text, lambda: agents.create_many(**as_any({"rows": [GOOD], name: value})))


def test_request(calls: Calls) -> None:
    def request(*given: Any, **options: Any) -> Callable[[], object]:
        return lambda: calls.request(*given, **options)

    check_raises(TypeError, "'method'", request())
    check_raises(TypeError, "method must be a str, not int", request(5, "deals"))
    for method in ("", "G T", "GÉT", "GET\r\n"):
        check_raises(ConfigError, "method must be an HTTP method such as PATCH", request(method, "deals"))
    check_raises(TypeError, "segments[1] must be a str, not int", request("GET", "deals", 5))
    check_raises(TypeError, "segments[0] must be a str, not list", request("GET", ["deals", "d_1"]))
    check_raises(ValidationError, "invalid_id", request("GET", "deals", ".."))
    check_raises(ValidationError, "got set", request("PATCH", "agents", "a_1", json={1}))
    check_raises(ValidationError, "must be a finite number", request("PATCH", "agents", "a_1", json=math.nan))
    check_raises(ConfigError, "x-service-key is set by the client", request("GET", "d", headers={"X-Service-Key": "o"}))
    check_raises(ConfigError, "the value of the header a contains", request("GET", "d", headers={"a": "b\r\nc: d"}))
    check_raises(TypeError, "unexpected keyword argument 'data'", request("GET", "deals", data="x"))
    # A path in one string would be sent as a single segment, so it is rejected. Segments after the first may contain slashes.
    for path in (["/v1/deals/d_1"], ["deals/d_1"], ["v1", "deals", "d_1"], ["/deals", "d_1"], ["http://x/v1/deals"]):
        check_raises(ConfigError, "pass the segments separately and without /v1", request("GET", *path))
    check_raises(NotFoundError, "GET /v1/{}/{}: 404", request("GET", "deals", "/v1/a"))
    check_raises(NotFoundError, "GET /v1/{}/{}: 404", request("GET", "deals", "v1"))


def test_a_closed_client(calls: Calls) -> None:
    closed = calls.client
    for _ in range(2):
        calls(lambda client: client.close() if isinstance(client, Client) else client.aclose())
    assert closed.is_closed and "closed" in repr(closed)
    for call in (
        lambda client: client.deals.retrieve("d_1"),
        lambda client: client.agents.create(**GOOD),
        lambda client: client.request("GET", "deals", "d_1"),
        lambda client: client.with_raw_response.deals.retrieve("d_1"),
        lambda client: client.with_raw_response.agents.create(**GOOD),
    ):
        with pytest.raises(ConfigError, match="the client is closed; create another one"):
            calls(call)
    check_raises(ConfigError, "the client is closed", lambda: calls.many(["d_1"]))
    check_raises(
        ConfigError, "the client is closed", lambda: closed.agents.create_many([cast(CreateAgentParams, GOOD)])
    )

    with pytest.raises(ConfigError, match="the client is closed"):
        calls(lambda client: client.__enter__() if isinstance(client, Client) else client.__aenter__())
    with pytest.raises(ConfigError, match="closed"):
        closed.with_options(timeout=5)


MODELS: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
    (Deal, {}, TypeError, "Deal lacks its required attribute id"),
    (Deal, {"id": None}, TypeError, "Deal lacks its required attribute id"),
    (Agent, {"id": "a", "first_name": "A", "profile": {}}, TypeError, "attributes email, last_name, role_assignments"),
    (Agent, {"id": "a", "emial": "a@example.com"}, TypeError, "Agent has no attribute 'emial'; did you mean 'email'"),
    (Agent, {"role_assignments": [{}]}, TypeError, "RoleAssignment lacks its required attribute role"),
    (Deal, {"id": "d", "expiry_date": NOON}, TypeError, "Deal.expiry_date must be a date, not datetime"),
    (Deal, {"id": "d", "created_at": NOON}, ValueError, "must be an aware datetime"),
    (Deal, {"id": "d", "listing_contract": Quote()}, TypeError, "must be of type ListingContract, not Quote"),
    (Deal, {"id": "d", "quotes": [Quote(), 5]}, TypeError, "Deal.quotes[1] must be of type Quote, not int"),
    (Deal, {"id": "d", "metadata": {"a": 1}}, DecodeError, "metadata[entry 1]: expected a string, found a number"),
    (Deal, {"id": "d", "extra": {"id": "e"}}, ValueError, "Deal.extra must not hold id"),
    (Deal, {"id": "d", "extra": {"a": {1}}}, ValueError, "Deal.extra holds something that JSON cannot"),
    (Offer, {"percent_of_commission": 10.1}, TypeError, "must be a Decimal or an int, not float"),
    (Offer, {"percent_of_commission": Decimal("NaN")}, ValueError, "Offer holds something that JSON cannot"),
    (ListingContract, {"sale_price": True}, TypeError, "ListingContract.sale_price must be an int, not bool"),
    (ListingContract, {"sale_price": 2**63}, DecodeError, "sale_price: expected"),
    (AgentProfileResponse, {"onboarding_complete": 1}, TypeError, "a bool, not int"),
    (AgentProfileResponse, {"client_metadata": {"a": math.nan}}, ValueError, "client_metadata holds something"),
]


@pytest.mark.parametrize(("model", "given", "error", "text"), MODELS)
def test_models(model: Any, given: dict[str, Any], error: type[Exception], text: str) -> None:
    check_raises(error, text, lambda: model(**given))


def test_models_are_frozen() -> None:
    deal: Any = Deal(id="d_1", metadata={"a": "b"})
    text = r"^Deal is frozen: id cannot be set; use replace\(id=…\)$"
    with pytest.raises(AttributeError, match=text):
        deal.id = "d_2"
    with pytest.raises(AttributeError, match="^Deal is frozen, and has no field 'other'$"):
        deal.other = "d_2"
    with pytest.raises(AttributeError, match="^Deal is frozen: id cannot be deleted"):
        del deal.id
    with pytest.raises(TypeError):
        deal.metadata["a"] = "c"
    with pytest.raises(TypeError):
        type("Own", (Deal,), {})
    with pytest.raises(TypeError, match="not supported between"):
        sorted([deal, deal])
    with pytest.raises(AttributeError, match="contactSchemaId"):
        _ = deal.contactSchemaId
    assert (deal.id, dict(deal.metadata)) == ("d_1", {"a": "b"})


def test_headers() -> None:
    headers: Any = Headers({"A": "b"})
    assert headers["a"] == "b" and headers == Headers([("a", "b")])
    check_raises(KeyError, "5", lambda: headers[5])
    assert headers.get(5) is None and 5 not in headers
    wrong: Any
    for wrong in (5, ["ab"], "ab"):
        check_raises(TypeError, "values must be a mapping or an iterable of pairs", lambda wrong=wrong: Headers(wrong))  # type: ignore[misc]


SANDBOX: dict[str, list[tuple[Any, type[Exception], str]]] = {
    "deals": [
        (5, TypeError, "deals must be an iterable of deals, not int"),
        ({"id": "d"}, TypeError, "deals must be an iterable of deals, not dict"),
        ([5], TypeError, "deals[0] must be a mapping, a JSON text or a Deal, not int"),
        ([b"\xff"], ConfigError, "deals[0] is not UTF-8"),
        ([{"id": "d", "a": {1}}], ConfigError, "deals[0] is not JSON: /a: must be"),
    ],
    "generate": [
        (-1, ConfigError, "generate"),
        (10**12, ConfigError, "generate: expected at most 1000000 deals"),
    ],
    "seed": [(-1, ConfigError, "seed"), ("x", TypeError, "seed")],
    "service_key": [(5, TypeError, "service_key"), ("a b", ConfigError, "key must be 1 to 1,024 visible ASCII")],
    "strict": [("yes", TypeError, "strict")],
    "port": [(-1, ConfigError, "port"), (70_000, ConfigError, "port"), ("1", TypeError, "port")],
    "variant": [
        (1, TypeError, "variant must be a str, not int"),
        ("sparsely", ConfigError, "variant: expected one of reference, ok, forbidden, "),
    ],
    "rate_limit": [
        ("50/s", TypeError, "rate_limit must be a whole number, 0 or more, not str"),
        (70_000, ConfigError, "rate_limit must be a whole number, 0 or more, not one so small or so large"),
    ],
    "admin_token": [
        (5, TypeError, "admin_token"),
        ("a b", ConfigError, "sandbox token must be 1 to 1,024 visible ASCII"),
    ],
    "tls": [
        (5, TypeError, "tls must be the path of a file, a pair of them, or a bool, not int"),
        ("/nowhere", ConfigError, "/nowhere cannot be read: No such file or directory"),
        (("/dev/null", "/dev/null"), ConfigError, "/dev/null contains no private key that can be read"),
        (("a", None), TypeError, "tls must be the path of a file, not NoneType"),
    ],
    "tls_client_ca": [(5, TypeError, "tls_client_ca must be the path of a file, not int")],
    "raeding": [("sparse", TypeError, "got an unexpected keyword argument 'raeding'")],
}


@pytest.mark.parametrize(("name", "value", "error", "text"), cases(SANDBOX))
def test_sandbox(name: str, value: Any, error: type[Exception], text: str) -> None:
    check_raises(error, text, lambda: Sandbox(**{name: value}))
