"""Secure connections: the settings as Python has them, and errors that name these.

What a connection does is tested in Rust (`sdk/tests/wire/tls.rs`).
"""

from __future__ import annotations

import pickle
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from conftest import Peer, answer, run
from cryptography.hazmat.primitives import serialization
from processes import python

from dealkit import APIConnectionError, AsyncClient, Client, ConfigError, DealkitError

ADA: Any = {"email": "ada@example.com", "first_name": "Ada", "last_name": "Lovelace", "profile": {}}
BODY = '{"id": "d_1", "email": "e", "first_name": "f", "last_name": "l", "profile": {}, "role_assignments": []}'
FINE = answer(200, BODY)


class TlsPeer(Peer):
    """A server that answers every request with the same bytes, over TLS."""

    def __init__(self, certificate: Path, clients: Path | None = None, response: bytes = FINE) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate)
        if clients is not None:
            self._context.verify_mode = ssl.CERT_REQUIRED
            self._context.load_verify_locations(clients)
        self.resumed: list[bool] = []
        super().__init__(response)

    @property
    def url(self) -> str:
        return f"https://localhost:{self._socket.getsockname()[1]}"

    def _serve(self, connection: socket.socket) -> None:
        try:
            secure = self._context.wrap_socket(connection, server_side=True)
        except OSError:
            connection.close()
            return
        self.connections[self.connections.index(connection)] = secure
        self.resumed.append(bool(secure.session_reused))
        try:
            if self._read(secure):
                secure.sendall(self._answer)  # type: ignore[arg-type]
                secure.unwrap()
        except OSError:
            pass
        secure.close()


class Authority:
    """A certificate authority, whose files are in a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self._issued = 0
        self.ca = trustme.CA()
        self.file = folder / "ca.pem"
        self.ca.cert_pem.write_to_path(str(self.file))

    def issue(self, name: str = "localhost", **options: Any) -> Path:
        """A file with a certificate and its key."""
        self._issued += 1
        file = self._folder / f"{self._issued}.pem"
        self.ca.issue_cert(name, **options).private_key_and_cert_chain_pem.write_to_path(str(file))
        return file

    def pair(self) -> tuple[Path, Path]:
        """A certificate and its key, in a file each."""
        leaf = self.ca.issue_cert("client")
        self._issued += 1
        certificate, key = (self._folder / f"{self._issued}-{name}.pem" for name in ("certificate", "key"))
        leaf.cert_chain_pems[0].write_to_path(str(certificate))
        leaf.private_key_pem.write_to_path(str(key))
        return certificate, key


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


@pytest.fixture
def other(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "other")


@pytest.fixture
def service() -> Iterator[Callable[..., TlsPeer]]:
    """Makes services that use the certificate in a file."""
    peers: list[TlsPeer] = []

    def make(*arguments: Any, **options: Any) -> TlsPeer:
        peers.append(TlsPeer(*arguments, **options))
        return peers[-1]

    yield make
    for one in peers:
        one.close()


def outcomes(url: str, **options: Any) -> list[Any]:
    """The results of every kind of call, waited for and awaited: a value, or the exception."""
    settings: Any = {"base_url": url, "service_key": "k", **options}

    def caught(call: Callable[[], Any]) -> Any:
        try:
            return call()
        except DealkitError as error:
            return error

    async def awaited(call: Callable[[AsyncClient], Any]) -> Any:
        async with AsyncClient(**settings) as client:
            return await call(client)

    async def many(client: AsyncClient) -> Any:
        return [deal async for deal in client.deals.retrieve_many(["d_1"])][0]

    with Client(**settings) as client:
        return [
            caught(lambda: client.deals.retrieve("d_1")),
            caught(lambda: client.agents.create(**ADA)),
            caught(lambda: list(client.deals.retrieve_many(["d_1"]))[0]),
            caught(lambda: run(awaited(lambda client: client.deals.retrieve("d_1")))),
            caught(lambda: run(awaited(lambda client: client.agents.create(**ADA)))),
            caught(lambda: run(awaited(many))),
        ]


def all_succeed(url: str, **options: Any) -> None:
    assert [getattr(outcome, "id", outcome) for outcome in outcomes(url, **options)] == ["d_1"] * 6


def all_fail(url: str, told: str, **options: Any) -> None:
    for error in outcomes(url, **options):
        assert type(error) is APIConnectionError, error
        assert told in str(error)
        assert (error.outcome, error.attempts) == ("not_sent", 1), error
        for name in ("in Python", "root_certificates", "identity"):
            assert name not in str(error)


def test_ca_file(authority: Authority, other: Authority, service: Any) -> None:
    peer = service(authority.issue())
    for ca_file in (authority.file, str(authority.file), bytes(authority.file)):
        all_succeed(peer.url, ca_file=ca_file)
    requests = len(peer.requests)
    unknown = (
        "is not trusted; if it is yours, add the issuer's certificate with ca_file or to the file in SSL_CERT_FILE"
    )
    all_fail(peer.url, unknown)
    all_fail(peer.url, unknown, ca_file=other.file)
    assert len(peer.requests) == requests


def test_client_cert(authority: Authority, other: Authority, service: Any) -> None:
    peer = service(authority.issue(), other.file)
    certificate, key = other.pair()
    # The key that is given is used, not one that the certificate's file happens to contain.
    both = certificate.with_name("both.pem")
    both.write_bytes(certificate.read_bytes() + authority.pair()[1].read_bytes())
    for client_cert in ((certificate, key), [str(certificate), bytes(key)], other.issue("client"), (both, key)):
        all_succeed(peer.url, ca_file=authority.file, client_cert=client_cert)
    requests = len(peer.requests)
    for wrong, told in (
        (None, "the service asks for a client certificate; set client_cert"),
        (authority.issue("client"), "the certificate in client_cert has an issuer that the service does not trust"),
    ):
        for error in outcomes(peer.url, ca_file=authority.file, client_cert=wrong):
            # A service this close may have closed the connection before dealkit has sent anything.
            closed = "the service closed the connection after it had seen the certificate in client_cert"
            assert told in str(error) or closed in str(error), error
            assert (type(error), error.outcome, error.attempts) == (APIConnectionError, "not_sent", 1)
    assert len(peer.requests) == requests


def test_files_that_cannot_be_used(authority: Authority, other: Authority, tmp_path: Path) -> None:
    certificate, key = authority.pair()
    private: Any = serialization.load_pem_private_key(key.read_bytes(), None)
    password = serialization.BestAvailableEncryption(b"password")
    locked = tmp_path / "locked.pem"
    locked.write_bytes(private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, password))
    cut = tmp_path / "cut.pem"
    cut.write_bytes(certificate.read_bytes()[:300])
    binary = tmp_path / "binary.pem"
    binary.write_bytes(bytes(range(256)))
    no_key = "contains no private key that can be read: it must be PEM without a password"
    cases: list[tuple[Any, str]] = [
        ({"ca_file": key}, f"ca_file {key} contains no certificate: it must be PEM"),
        ({"ca_file": cut}, f"ca_file {cut} is not complete PEM"),
        ({"ca_file": binary}, f"ca_file {binary} contains no certificate"),
        ({"ca_file": tmp_path}, f"ca_file {tmp_path} cannot be read: Is a directory"),
        ({"client_cert": certificate}, f"client_cert {certificate} {no_key}"),
        ({"client_cert": key}, f"client_cert {key} contains no certificate"),
        ({"client_cert": (certificate, locked)}, f"client_cert ({certificate}, {locked}) {no_key}"),
        (
            {"client_cert": (certificate, other.pair()[1])},
            "contains a private key that does not belong to its first certificate",
        ),
        ({"client_cert": (certificate, tmp_path / "x")}, f"client_cert {tmp_path / 'x'} cannot be read: No such file"),
    ]
    for options, told in cases:
        settings: Any = {"base_url": "https://deals.example.com", "service_key": "k"}
        for client in (Client, AsyncClient):
            with pytest.raises(ConfigError) as caught:
                client(**settings, **options)
            assert told in str(caught.value)
            for file in (certificate, key, locked):
                for line in file.read_text().splitlines()[1:-1]:
                    assert line not in str(caught.value)
            with pytest.raises(ConfigError):
                client(**settings).with_options(**options)


@pytest.mark.parametrize("of_class", [Client, AsyncClient])
def test_with_options_and_pickle(of_class: Any, authority: Authority, other: Authority, service: Any) -> None:
    peer = service(authority.issue(), clients=other.file)

    def call(client: Any) -> Any:
        async def wait() -> Any:
            return await client.deals.retrieve("d_1")

        return (run(wait()) if isinstance(client, AsyncClient) else client.deals.retrieve("d_1")).id

    client = of_class(base_url=peer.url, service_key="k", max_retries=0)
    with pytest.raises(APIConnectionError, match="is not trusted"):
        call(client)
    trusting = client.with_options(ca_file=authority.file)
    with pytest.raises(APIConnectionError):
        call(trusting)
    both = trusting.with_options(client_cert=other.pair())
    assert call(both) == call(both.with_options(timeout=5)) == call(pickle.loads(pickle.dumps(both))) == "d_1"
    with pytest.raises(APIConnectionError, match="is not trusted"):
        call(both.with_options(ca_file=None))
    assert repr(both) == f"{of_class.__name__}(base_url={peer.url!r})"


def test_after_a_fork(authority: Authority, service: Any) -> None:
    """The child has the certificates, but none of the sessions."""
    peer = service(authority.issue())
    script = """
import os, sys
from dealkit import Client
client = Client(ca_file=sys.argv[1])
client.deals.retrieve("d_1")
child = os.fork()
if child == 0:
    client.deals.retrieve("d_1")
    Client(ca_file=sys.argv[1]).deals.retrieve("d_1")
    os._exit(0)
print(os.waitpid(child, 0)[1])
"""
    child = python(script, str(authority.file), url=peer.url)
    shown, wrong = child.communicate(timeout=60)
    assert (shown.split(), wrong) == (["0"], "")
    assert peer.resumed == [False, False, True]
