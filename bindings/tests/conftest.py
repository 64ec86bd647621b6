"""What the tests share: the contract's vectors, servers that answer as they are told, clients."""

from __future__ import annotations

import asyncio
import base64
import copy
import itertools
import json
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from processes import shut_down

from dealkit import Agent, AsyncClient, Client, Deal, DecodeError
from dealkit._core.failure import unwrap
from dealkit.testing import Sandbox

# Ctrl-C may be ignored here, as in processes that a shell runs in the background, and child processes inherit that:
# those of the tests must be interruptible.
signal.signal(signal.SIGINT, signal.default_int_handler)

CONTRACT = Path(__file__).parents[2] / "sdk" / "contract"


def vectors(name: str) -> list[Any]:
    """The cases of a vector file, for parametrize."""
    file = json.loads((CONTRACT / "vectors" / f"{name}.json").read_text())
    base = file.get("base", {})
    cases = (case for element in file["cases"] for case in expanded(element, base))
    return [pytest.param(complete(case, base), id=case["name"]) for case in cases]


def expanded(element: dict[str, Any], base: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The cases that an element of ``cases`` stands for."""
    if "cases" in element:
        for case in element.pop("cases"):
            yield from expanded({**copy.deepcopy(element), **case}, base)
    elif "values" in element:
        places, values = element.pop("at"), element.pop("values")
        for place, value in itertools.product(places, values):
            parent, _, member = place.rpartition("/")
            document = copy.deepcopy(base["json"])
            at(document, parent)[member] = value
            expect = json.loads(json.dumps(element["expect"]).replace("{at}", place))
            name = f"{element['name']} {place} {json.dumps(value)}"
            yield {**element, "name": name, "json": document, "expect": expect}
    else:
        yield element


def complete(case: dict[str, Any], base: dict[str, Any]) -> dict[str, Any]:
    """A case with what it takes from its file's ``base``."""
    if "patch" in case:
        case["json"] = merge(base["json"], case.pop("patch"))
    if "agent" in case["expect"]:
        case["expect"]["agent"] = merge(base["agent"], case["expect"]["agent"])
    if "headers" in base:
        case.setdefault("headers", base["headers"])
    return case


def merge(document: Any, patch: Any) -> Any:
    """A document with a JSON merge patch (RFC 7396)."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(document) if isinstance(document, dict) else {}
    for name, change in patch.items():
        value = merged.pop(name, None)
        if change is not None:
            merged[name] = merge(value, change)
    return merged


def case_bytes(case: dict[str, Any]) -> bytes:
    """The bytes of a case, which gives them in one of three ways."""
    if "base64" in case:
        return base64.b64decode(case["base64"])
    if "text" in case:
        text: str = case["text"]
        return text.encode()
    value = copy.deepcopy(case["json"])
    if "repeat" in case:
        steps = case["repeat"]["pointer"].split("/")[1:]
        parent = value
        for step in steps[:-1]:
            parent = parent[step]
        parent[steps[-1]] = parent[steps[-1]] * case["repeat"]["times"]
    return json.dumps(value, separators=(",", ":")).encode()


class Literal(str):
    """A number, as written."""


def exact(document: str | bytes) -> Any:
    """A document whose numbers are kept as written."""
    return json.loads(document, parse_int=Literal, parse_float=Literal)


def at(value: Any, pointer: str) -> Any:
    """The value at a JSON pointer; KeyError or IndexError if there is none."""
    for token in pointer.split("/")[1:]:
        token = token.replace("~1", "/").replace("~0", "~")
        value = value[int(token)] if isinstance(value, list) else value[token]
    return value


def written(value: Any) -> str:
    """A value without white space, with numbers as they were written."""
    if isinstance(value, Literal):
        return str(value)
    if isinstance(value, list):
        return "[" + ",".join(map(written, value)) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(k)}:{written(v)}" for k, v in value.items()) + "}"
    return json.dumps(value)


def agree(model: type[Deal] | type[Agent], document: bytes) -> bool:
    """Whether the document is one of the model; both readers must agree, digit for digit."""
    try:
        untyped_model: Any = model
        expected = unwrap(untyped_model._core_json(document))
    except DecodeError as error:
        with pytest.raises(DecodeError) as caught:
            model.from_json(document)
        assert vars(caught.value) == vars(error) and str(caught.value) == str(error)
        return False
    value = model.from_json(document)
    assert exact(value.to_json()) == exact(expected)
    assert model.from_json(expected) == value
    return True


def untyped(arguments: Any) -> Any:
    """Arguments that a type checker does not look into."""
    return arguments


def run(coroutine: Any) -> Any:
    """Runs a coroutine in an event loop of its own."""
    return asyncio.run(coroutine)


class Peer:
    """A server that answers every request with the same bytes, or as a function says."""

    def __init__(self, answer: bytes | Callable[[bytes], bytes]) -> None:
        self._answer = answer
        self.requests: list[bytes] = []
        self.closed = threading.Event()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.connections: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.connections.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                while request := self._read(connection):
                    self.requests.append(request)
                    answer = self._answer(request) if callable(self._answer) else self._answer
                    if answer:
                        connection.sendall(answer)
            except OSError:
                pass
        self.closed.set()

    def _read(self, connection: socket.socket) -> bytes:
        data = b""
        while b"\r\n\r\n" not in data:
            chunk = connection.recv(65536)
            if not chunk:
                return b""
            data += chunk
        head, _, body = data.partition(b"\r\n\r\n")
        length = 0
        for line in head.split(b"\r\n"):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        while len(body) < length:
            body += connection.recv(65536)
        return head + b"\r\n\r\n" + body

    def close(self) -> None:
        # The threads are woken and joined before anything is closed: otherwise one that is about to call accept would
        # accept for whatever socket has reused the descriptor by then.
        for one in (self._socket, *self.connections):
            shut_down(one)
        for thread in self._threads:
            thread.join(5)
        self._socket.close()


def answer(status: int, body: bytes | str = b"", headers: dict[str, str] | None = None) -> bytes:
    """The bytes of a response."""
    body = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def after(seconds: float, then: bytes) -> Callable[[bytes], bytes]:
    """A response that takes its time."""

    def respond(_: bytes) -> bytes:
        time.sleep(seconds)
        return then

    return respond


@pytest.fixture
def peer() -> Iterator[Callable[..., Peer]]:
    """Makes servers that answer as they are told."""
    peers: list[Peer] = []

    def make(answer: bytes | Callable[[bytes], bytes]) -> Peer:
        peers.append(Peer(answer))
        return peers[-1]

    yield make
    for one in peers:
        one.close()


@pytest.fixture
def client(dealkit_sandbox: Sandbox) -> Iterator[Client]:
    """A client of the test's sandbox."""
    with Client(base_url=dealkit_sandbox.url, service_key=dealkit_sandbox.service_key) as client:
        yield client


@pytest.fixture
def async_client(dealkit_sandbox: Sandbox) -> AsyncClient:
    """An async client of the test's sandbox."""
    return AsyncClient(base_url=dealkit_sandbox.url, service_key=dealkit_sandbox.service_key)


def until(condition: Callable[[], object], seconds: float = 5) -> None:
    """Waits until a condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)
