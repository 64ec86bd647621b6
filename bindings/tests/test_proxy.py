"""Proxies: the setting, the environment, and errors that hide the password.

What goes through a proxy is tested in Rust (`sdk/tests/wire/proxy.rs`).
"""

from __future__ import annotations

import base64
import pickle
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Peer, answer
from processes import shut_down
from test_tls import FINE, Authority, TlsPeer, all_succeed, outcomes

from dealkit import APIConnectionError, AsyncClient, Client

# A name that the proxies here map to the service behind them, and that nobody else can resolve.
HOST = "deals.invalid"
USER, AUTHORIZATION = "ada:pa%20s:tr33", "Basic " + base64.b64encode(b"ada:pa s:tr33").decode()


class Proxy(Peer):
    """A proxy that maps every name to one service, for users with the right password."""

    def __init__(self, to: Peer) -> None:
        self._to = to
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
        if f": {AUTHORIZATION}" not in self.heads[-1]:
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
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
def proxy() -> Iterator[Callable[[Peer], Proxy]]:
    """Makes proxies."""
    proxies: list[Proxy] = []

    def make(to: Peer) -> Proxy:
        proxies.append(Proxy(to))
        return proxies[-1]

    yield make
    for one in proxies:
        one.close()


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[tuple[TlsPeer, Path]]:
    """A service with a certificate for HOST, and the file with the certificate of its issuer."""
    authority = Authority(tmp_path / "authority")
    service = TlsPeer(authority.issue(HOST))
    yield service, authority.file
    service.close()


def all_fail(url: str, told: str, **options: Any) -> None:
    for error in outcomes(url, **options):
        assert type(error) is APIConnectionError and told in str(error), error
        assert (error.outcome, error.attempts) == ("not_sent", 1), error
        for secret in ("pa%20s", "pa s", "tr33", AUTHORIZATION[6:], "CANARY"):
            assert secret not in str(error) and secret not in repr(error)
            assert secret.encode() not in pickle.dumps(error)


def test_https_goes_through_a_tunnel(secure: Any, proxy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    service, ca_file = secure
    through = proxy(service)
    url = f"https://{HOST}"
    all_succeed(url, ca_file=ca_file, proxy=through.url_for(USER))
    monkeypatch.setenv("HTTPS_PROXY", through.url_for(USER))
    all_succeed(url, ca_file=ca_file)
    for head in through.heads:
        assert head.startswith(f"CONNECT {HOST}:443 HTTP/1.1\r\n") and "x-service-key" not in head
    for refused in (through.url, through.url_for("ada:pa%20s:tr332")):
        told = "the proxy refuses to connect: 407 Proxy Authentication Required; does its URL contain the right user"
        all_fail(url, told, ca_file=ca_file, proxy=refused)


def test_http_is_handed_on_by_the_proxy(peer: Any, proxy: Any) -> None:
    through = proxy(peer(FINE))
    all_succeed(f"http://{HOST}", allow_http=True, proxy=through.url_for(USER))
    lines = {head.split("\r\n")[0] for head in through.heads}
    assert lines == {f"POST http://{HOST}/v1/agents HTTP/1.1", f"GET http://{HOST}/v1/deals/d_1 HTTP/1.1"}
    for error in outcomes(f"http://{HOST}", allow_http=True, proxy=through.url):
        assert (error.status_code, error.outcome) == (407, "rejected")


def test_a_proxy_that_is_down() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        down = f"http://{USER}@127.0.0.1:{listener.getsockname()[1]}"
    all_fail(f"https://{HOST}", "the proxy cannot be reached", proxy=down, max_retries=0)


@pytest.mark.parametrize("of_class", [Client, AsyncClient])
def test_nothing_shows_the_password(of_class: Any) -> None:
    client = of_class(base_url=f"https://{HOST}", service_key="k", proxy=f"http://{USER}@proxy.invalid:3128")
    shown = f"{client!r} {client} {client.deals!r}"
    assert "tr33" not in shown and "pa%20s" not in shown
