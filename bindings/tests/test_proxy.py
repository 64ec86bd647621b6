"""Proxies: tunnels, passwords, proxies that fail, and the one that the environment names."""

from __future__ import annotations

import base64
import pickle
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Peer, answer
from processes import ended, python, shut_down
from test_tls import FINE, Authority, TlsPeer, outcomes

from dealkit import APIConnectionError, APITimeoutError, AsyncClient, Client, ConfigError, Timeout

# A name that the proxies here map to the service behind them, and that nobody else can resolve.
HOST = "deals.invalid"
USER, AUTHORIZATION = "ada:pa%20s:tr33", "Basic " + base64.b64encode(b"ada:pa s:tr33").decode()
ENVIRONMENT = (
    "HTTPS_PROXY",
    "https_proxy",
    "HTTP_PROXY",
    "http_proxy",
    "ALL_PROXY",
    "all_proxy",
    "NO_PROXY",
    "no_proxy",
)


class Proxy(Peer):
    """A proxy that maps every name to one service, or responds to everything in the same way."""

    def __init__(self, response: bytes | None = None, *, to: Peer | None = None, authorization: str = "") -> None:
        self._response = response
        self._to = to
        self._authorization = authorization
        self.heads: list[str] = []
        super().__init__(b"")

    def url_for(self, user: str) -> str:
        return self.url.replace("://", f"://{user}@")

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                self._pass_on(connection)
            except OSError:
                pass

    def _pass_on(self, connection: socket.socket) -> None:
        request = self._read(connection)
        if not request:
            return
        head, _, body = request.partition(b"\r\n\r\n")
        self.heads.append(head.decode())
        if self._to is None:
            if self._response is None:
                connection.recv(1)  # It stalls until the client goes.
            else:
                connection.sendall(self._response)
            return
        if self._authorization and f": {self._authorization}" not in self.heads[-1]:
            connection.sendall(answer(407, headers={"Connection": "close"}))
            return
        with socket.create_connection(("127.0.0.1", int(self._to.url.rpartition(":")[2]))) as service:
            if head.startswith(b"CONNECT "):
                connection.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
            else:
                # As a proxy forwards it: without the host, and without the headers meant for the proxy.
                lines = head.replace(f"http://{HOST}".encode(), b"").split(b"\r\n")
                kept = [line for line in lines if not line.lower().startswith(b"proxy-")]
                service.sendall(b"\r\n".join(kept) + b"\r\n\r\n" + body)
            back = threading.Thread(target=self._carry, args=(service, connection), daemon=True)
            back.start()
            self._carry(connection, service)
            back.join(5)

    @staticmethod
    def _carry(source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                target.sendall(data)
        except OSError:
            pass
        shut_down(target)
        shut_down(source)


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def proxy() -> Iterator[Callable[..., Proxy]]:
    """Makes proxies."""
    proxies: list[Proxy] = []

    def make(*arguments: Any, **options: Any) -> Proxy:
        proxies.append(Proxy(*arguments, **options))
        return proxies[-1]

    yield make
    for one in proxies:
        one.close()


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[tuple[TlsPeer, Path]]:
    """A service with a certificate for HOST, and the file with the certificate of its issuer."""
    authority = Authority(tmp_path / "authority")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.issue(HOST))
    service = TlsPeer(context, FINE, True)
    yield service, authority.file
    service.close()


def succeed(url: str, **options: Any) -> None:
    assert [getattr(outcome, "id", outcome) for outcome in outcomes(url, **options)] == ["d_1"] * 6


def fail(url: str, told: str, attempts: int, **options: Any) -> None:
    for error in outcomes(url, **options):
        assert type(error) is APIConnectionError and told in str(error), error
        assert (error.outcome, error.attempts) == ("not_sent", attempts), error
        for secret in ("pa%20s", "pa s", "tr33", AUTHORIZATION[6:], "CANARY"):
            assert secret not in str(error) and secret not in repr(error)
            assert secret.encode() not in pickle.dumps(error)


def test_https_goes_through_a_tunnel(secure: Any, proxy: Any) -> None:
    service, ca_file = secure
    through = proxy(to=service, authorization=AUTHORIZATION)
    url = f"https://{HOST}"
    succeed(url, ca_file=ca_file, proxy=through.url_for(USER))
    for head in through.heads:
        assert head.startswith(f"CONNECT {HOST}:443 HTTP/1.1\r\n") and "x-service-key" not in head
    for request in service.requests:
        assert b"proxy" not in request.lower() and b"x-service-key" in request.lower()
    for user in (None, "ada:password"):
        refused = through.url if user is None else through.url_for(user)
        told = "the proxy refuses to connect: 407 Proxy Authentication Required; does its URL contain the right user"
        fail(url, told, 1, ca_file=ca_file, proxy=refused)


def test_http_is_handed_on_by_the_proxy(peer: Any, proxy: Any) -> None:
    service = peer(FINE)
    through = proxy(to=service, authorization=AUTHORIZATION)
    succeed(f"http://{HOST}", allow_http=True, proxy=through.url_for(USER))
    lines = {head.split("\r\n")[0] for head in through.heads}
    assert lines == {f"POST http://{HOST}/v1/agents HTTP/1.1", f"GET http://{HOST}/v1/deals/d_1 HTTP/1.1"}
    assert all(b"proxy-" not in request.lower() for request in service.requests)
    for error in outcomes(f"http://{HOST}", allow_http=True, proxy=through.url):
        assert (error.status_code, error.outcome) == (407, "rejected")


def test_a_proxy_that_refuses(proxy: Any) -> None:
    through = proxy(answer(403, "CANARY", {"Via": "CANARY"}))
    told = "the proxy refuses to connect to the service, or cannot"
    fail(f"https://{HOST}", told, 2, proxy=through.url_for(USER), max_retries=1)


def test_a_proxy_that_is_down() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        down = f"http://{USER}@127.0.0.1:{listener.getsockname()[1]}"
    told = "the proxy cannot be reached; is its address right, and is it up?"
    fail(f"https://{HOST}", told, 1, proxy=down, max_retries=0)
    fail(f"http://{HOST}", told, 1, proxy=down, max_retries=0, allow_http=True)


def test_a_proxy_that_stalls(proxy: Any) -> None:
    through = proxy()
    options: dict[str, Any] = {"max_retries": 0, "timeout": Timeout(connect=0.1)}
    for error in outcomes(f"https://{HOST}", proxy=through.url, **options):
        assert type(error) is APITimeoutError and error.outcome == "not_sent", error
        assert "timed out after 0.1 s" in str(error)


@pytest.mark.parametrize("of_class", [Client, AsyncClient])
def test_nothing_shows_the_password(of_class: Any) -> None:
    client = of_class(base_url=f"https://{HOST}", service_key="k", proxy=f"http://{USER}@proxy.invalid:3128")
    shown = f"{client!r} {client} {client.deals!r}"
    assert "tr33" not in shown and "pa%20s" not in shown


@pytest.mark.parametrize("of_class", ["Client", "AsyncClient"])
def test_the_environment_names_a_proxy(of_class: str, secure: Any, proxy: Any, peer: Any) -> None:
    service, ca_file = secure
    through = proxy(to=service, authorization=AUTHORIZATION)
    here = peer(FINE)
    script = """
import asyncio, inspect, sys, dealkit
of_class, ca_file, *urls = sys.argv[1:]
async def call(client):
    result = client.deals.retrieve("d_1")
    return (await result if inspect.isawaitable(result) else result).id
for url in urls:
    try:
        print(asyncio.run(call(getattr(dealkit, of_class)(base_url=url, service_key="k", ca_file=ca_file, max_retries=0))))
    except dealkit.DealkitError as error:
        print(type(error).__name__, error)
"""

    def lines(**variables: str) -> list[str]:
        urls = (f"https://{HOST}", here.url)
        empty = {name: "" for name in ENVIRONMENT if name.lower() not in {given.lower() for given in variables}}
        child = python(script, of_class, str(ca_file), *urls, env={**empty, **variables})
        return ended(child).splitlines()

    named = through.url_for(USER)
    for name in ("HTTPS_PROXY", "https_proxy"):
        assert lines(**{name: named}) == ["d_1", "d_1"]
    assert len(through.heads) == len(here.requests) == 2
    for no_proxy in (HOST, "other.invalid, .invalid", "*"):
        first, second = lines(HTTPS_PROXY=named, NO_PROXY=no_proxy)
        assert "APIConnectionError" in first and "the host in base_url cannot be found" in first and second == "d_1"
    assert len(through.heads) == 2
    first, second = lines(HTTPS_PROXY="socks5://CANARY@127.0.0.1:1080")
    told = "ConfigError the proxy in the environment (HTTPS_PROXY, HTTP_PROXY or ALL_PROXY) is a SOCKS proxy"
    assert first.startswith(told) and "CANARY" not in first and second == "d_1"


def test_socks_is_refused() -> None:
    for of_class in (Client, AsyncClient):
        with pytest.raises(ConfigError, match="SOCKS proxies are not supported: name an HTTP proxy"):
            of_class(base_url=f"https://{HOST}", service_key="k", proxy="socks5://127.0.0.1:1080")
