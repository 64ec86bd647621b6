"""Certificates, proxies and limits: the settings as Python has them, and errors that name these.

What connections do is tested in Rust: `sdk/tests/wire/{tls,proxy,limits}.rs`.
"""

from __future__ import annotations

import base64
import pickle
from pathlib import Path
from typing import Any

import pytest
from conftest import ADA, BODY, BOTH, Authority, answer, made

from dealkit import (
    APIConnectionError,
    ThrottledError,
)

FINE = answer(200, BODY)
# A name that nobody can resolve but a proxy.
HOST = "deals.invalid"
USER, AUTHORIZATION = "ada:pa%20s:tr33", base64.b64encode(b"ada:pa s:tr33").decode()


def retrieve(client: Any) -> Any:
    return made(client, lambda client: client.deals.retrieve("d_1")).id


def create(client: Any) -> Any:
    return made(client, lambda client: client.agents.create(**ADA))


def many(client: Any) -> Any:
    return made(client, lambda client: client.deals.retrieve_many(["d_1"]))


def fails(client: Any, told: str, attempts: int = 1) -> APIConnectionError:
    """Returns the error of a call that never reaches the service. Its message has Python's names of settings."""
    with pytest.raises(APIConnectionError) as caught:
        retrieve(client)
    assert told in str(caught.value), caught.value
    assert (caught.value.outcome, caught.value.attempts) == ("not_sent", attempts)
    for name in ("root_certificates", "identity"):
        assert name not in str(caught.value)
    return caught.value


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


@pytest.fixture
def other(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "other")


@BOTH
def test_ca_file(of_class: Any, authority: Authority, other: Authority, peer: Any) -> None:
    service = peer(FINE, authority.issue())
    for ca_file in (authority.file, str(authority.file), bytes(authority.file)):
        assert retrieve(of_class(base_url=service.url, service_key="k", ca_file=ca_file)) == "d_1"
    requests = len(service.requests)
    for wrong in (None, other.file):
        fails(
            of_class(base_url=service.url, service_key="k", ca_file=wrong),
            "is not trusted; if the issuer is yours, add its certificate to the trusted ones, or to the file in SSL_CERT_FILE "
            "[see ca_file]",
        )
    assert len(service.requests) == requests


@BOTH
def test_client_cert(of_class: Any, authority: Authority, other: Authority, peer: Any) -> None:
    service = peer(FINE, authority.issue(), clients=other.file)
    certificate, key = other.pair()
    # The key that is given is used, not one that the certificate's file happens to contain.
    both = certificate.with_name("both.pem")
    both.write_bytes(certificate.read_bytes() + authority.pair()[1].read_bytes())
    settings: Any = {"base_url": service.url, "service_key": "k", "ca_file": authority.file}
    for client_cert in ((certificate, key), [str(certificate), bytes(key)], other.issue("client"), (both, key)):
        assert retrieve(of_class(**settings, client_cert=client_cert)) == "d_1"
    for wrong, told in (
        (None, "the service asks for a client certificate, and none is set [see client_cert]"),
        (authority.issue("client"), "does not accept the client's certificate"),
    ):
        fails(of_class(**settings, client_cert=wrong), told)


@BOTH
def test_with_options_and_pickle(of_class: Any, authority: Authority, other: Authority, peer: Any) -> None:
    service = peer(FINE, authority.issue(), clients=other.file)
    client = of_class(base_url=service.url, service_key="k", max_retries=0)
    fails(client, "is not trusted")
    trusting = client.with_options(ca_file=authority.file)
    fails(trusting, "none is set [see client_cert]")
    both = trusting.with_options(client_cert=other.pair())
    assert {retrieve(one) for one in (both, both.with_options(timeout=5), pickle.loads(pickle.dumps(both)))} == {"d_1"}
    fails(both.with_options(ca_file=None), "is not trusted")
    assert repr(both) == f"{of_class.__name__}(base_url={service.url!r})"


@BOTH
@pytest.mark.parametrize("is_set", [True, False], ids=["setting", "environment"])
def test_a_proxy(of_class: Any, is_set: bool, peer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    refusing = peer(answer(407, headers={"Connection": "close"}))
    url = refusing.url.replace("://", f"://{USER}@")
    if not is_set:
        monkeypatch.setenv("HTTPS_PROXY", url)
    client = of_class(base_url=f"https://{HOST}", service_key="k", proxy=url if is_set else None)
    advice = "the proxy rejects the connection: 407 Proxy Authentication Required; does its URL contain the"
    error = fails(client, advice, attempts=3)
    assert error.setting == "proxy"
    head = refusing.requests[0].decode()
    assert head.startswith(f"CONNECT {HOST}:443 HTTP/1.1\r\n") and f": Basic {AUTHORIZATION}\r\n" in head
    assert "x-service-key" not in head
    for secret in ("pa%20s", "pa s", "tr33", AUTHORIZATION):
        assert secret not in f"{error} {error!r} {client!r} {client} {client.deals!r}"
        assert secret.encode() not in pickle.dumps(error)


@BOTH
def test_who_shares_a_limit(of_class: Any, peer: Any) -> None:
    service = peer(FINE)
    client = of_class(base_url=service.url, service_key="k", rate_limit=0.001, timeout=60)
    retrieve(client)
    # A client made from the one with the limit has the same limit.
    for same in (client, client.with_options(timeout=61), client.with_options(rate_limit=0.001, user_agent="u")):
        for call in (retrieve, create, many):
            with pytest.raises(ThrottledError, match=r"rate limit would delay this call by \d+ s, lo") as caught:
                call(same)
            assert (caught.value.outcome, caught.value.attempts) == ("not_sent", 0)
            assert 900 < (caught.value.retry_after or 0) <= 1000
            assert not isinstance(caught.value, TimeoutError | ConnectionError)
    retrieve(client.with_options(rate_limit=None))
    assert len(service.requests) == 2
