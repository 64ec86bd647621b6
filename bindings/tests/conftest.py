"""Helpers and fixtures that many tests share: test vectors, scripted servers, clients and rows."""

from __future__ import annotations

import asyncio
import base64
import copy
import gc
import itertools
import json
import os
import random
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import trustme
from commands import TableImport
from ports import reserved_port
from processes import Peer

from dealkit import Agent, AsyncClient, Client, Deal, DecodeError
from dealkit._core.errors import unwrap
from dealkit.params import CreateAgentParams
from dealkit.testing import Sandbox

# Child processes inherit ignored signals: a shell ignores SIGINT and SIGQUIT for background jobs, and nohup ignores
# SIGHUP. The tests' child processes must react to these signals.
signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGTERM, signal.SIGQUIT):
    signal.signal(number, signal.SIG_DFL)
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    # Child processes do not inherit a handler, so they react to SIGHUP, while this process ignores it and survives the
    # end of its terminal.
    signal.signal(signal.SIGHUP, lambda *_: None)

# Numbers of repetitions for randomized tests, which `make soak` sets.
COUNTS = {
    "DEALKIT_DOCUMENTS",
    "DEALKIT_EXIT_TRIES",
    "DEALKIT_LEDGER_KILLS",
    "DEALKIT_MUTATIONS",
    "DEALKIT_SIGNAL_TRIES",
}
# Tests are random if one of these variables is set, and otherwise repeat the same choices in each run. DEALKIT_SEED
# repeats the random choices of a run, and pytest's --hypothesis-seed repeats the documents.
IS_RANDOM = not COUNTS.isdisjoint(os.environ)
SEED = int(os.environ.get("DEALKIT_SEED", random.randrange(1 << 32) if IS_RANDOM else 1))

hypothesis.settings.register_profile(
    "dealkit",
    deadline=None,
    derandomize=not IS_RANDOM,
    print_blob=True,
    # Generating a document takes longer than Hypothesis expects of an example.
    suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.large_base_example],
)
hypothesis.settings.load_profile("dealkit")

CONTRACT = Path(__file__).parents[2] / "sdk" / "contract"


def load_vectors(name: str) -> list[Any]:
    """Loads the cases of a vector file for `parametrize`."""
    file = json.loads((CONTRACT / "vectors" / f"{name}.json").read_text())
    base = file.get("base", {})
    cases = (case for element in file["cases"] for case in expand_cases(element, base))
    return [pytest.param(fill_in_base(case, base), id=case["name"]) for case in cases]


def expand_cases(element: dict[str, Any], base: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Expands an element of ``cases`` to the cases that it describes."""
    if "cases" in element:
        for case in element.pop("cases"):
            yield from expand_cases({**copy.deepcopy(element), **case}, base)
    elif "values" in element:
        locations, values = element.pop("at"), element.pop("values")
        for number, (location, value) in enumerate(itertools.product(locations, values), 1):
            parent, _, member = location.rpartition("/")
            document = copy.deepcopy(base["json"])
            resolve_pointer(document, parent)[member] = value
            expect = json.loads(json.dumps(element["expect"]).replace("{at}", location))
            yield {**element, "name": f"{element['name']}-{number}", "json": document, "expect": expect}
    else:
        yield element


def fill_in_base(case: dict[str, Any], base: dict[str, Any]) -> dict[str, Any]:
    """Fills in the parts of a case that its file's ``base`` provides."""
    if "patch" in case:
        case["json"] = merge_patch(base["json"], case.pop("patch"))
    if "agent" in case["expect"]:
        case["expect"]["agent"] = merge_patch(base["agent"], case["expect"]["agent"])
    if "headers" in base:
        case.setdefault("headers", base["headers"])
    return case


def merge_patch(document: Any, patch: Any) -> Any:
    """Applies a JSON merge patch (RFC 7396) to a document."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(document) if isinstance(document, dict) else {}
    for name, change in patch.items():
        value = merged.pop(name, None)
        if change is not None:
            merged[name] = merge_patch(value, change)
    return merged


def encode_case(case: dict[str, Any]) -> bytes:
    """Encodes the document of a case. A case gives its document as base64, as text or as JSON."""
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


class NumberLiteral(str):
    """The text of a number."""


def parse_exact(document: str | bytes) -> Any:
    """Parses a document and keeps each number as its text."""
    return json.loads(document, parse_int=NumberLiteral, parse_float=NumberLiteral)


def resolve_pointer(value: Any, pointer: str) -> Any:
    """Returns the value at a JSON pointer. Raises KeyError or IndexError if it does not exist."""
    for token in pointer.split("/")[1:]:
        token = token.replace("~1", "/").replace("~0", "~")
        value = value[int(token)] if isinstance(value, list) else value[token]
    return value


def write_exact(value: Any) -> str:
    """Encodes a value from `parse_exact` without white space."""
    if isinstance(value, NumberLiteral):
        return str(value)
    if isinstance(value, list):
        return "[" + ",".join(map(write_exact, value)) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(k)}:{write_exact(v)}" for k, v in value.items()) + "}"
    return json.dumps(value)


def readers_agree(model: type[Deal] | type[Agent], document: bytes) -> bool:
    """Returns whether a document is valid for a model. Asserts that the Python reader and the Rust reader agree on it
    exactly.
    """
    try:
        untyped_model: Any = model
        expected = unwrap(untyped_model._core_json(document))
    except DecodeError as error:
        with pytest.raises(DecodeError) as caught:
            model.from_json(document)
        assert vars(caught.value) == vars(error) and str(caught.value) == str(error)
        return False
    value = model.from_json(document)
    assert parse_exact(value.to_json()) == parse_exact(expected)
    assert model.from_json(expected) == value
    return True


def as_any(arguments: Any) -> Any:
    """Hides the type of arguments from type checkers."""
    return arguments


def run_async(coroutine: Any) -> Any:
    """Runs a coroutine in a new event loop."""
    return asyncio.run(coroutine)


# Valid arguments for an agent, and a response body that is both a deal and an agent.
ADA: Any = {"email": "ada@example.com", "first_name": "Ada", "last_name": "Lovelace", "profile": {}}
DEAL_AND_AGENT_BODY = (
    '{"id": "d_1", "email": "e", "first_name": "f", "last_name": "l", "profile": {}, "role_assignments": []}'
)


def make_row(number: int) -> CreateAgentParams:
    """Makes a row for ``create_many``."""
    return {"email": f"row{number}@example.com", "first_name": "Canary Lovelace", "last_name": "L", "profile": {}}


def make_rows(count: int) -> list[CreateAgentParams]:
    return [make_row(number) for number in range(count)]


def row_email(row: CreateAgentParams) -> str:
    return row["email"]


# Defines the rows of `make_rows` as `rows` in a script; takes the number of rows.
ROWS_SCRIPT = (
    'rows = [{"email": f"row{n}@example.com", "first_name": "Canary Lovelace", "last_name": "L", "profile": {}} '
    "for n in range(%s)]\n"
)

BOTH_CLIENTS = pytest.mark.parametrize("of_class", [Client, AsyncClient], ids=["sync", "async"])


def make_client(sandbox: Sandbox, of_class: Any = Client, **options: Any) -> Any:
    """Makes a client of the sandbox."""
    return of_class(base_url=sandbox.url, service_key=sandbox.service_key, **options)


def wait_for_result(client: Any, call: Callable[[Any], Any]) -> Any:
    """Returns the result of a call, which is awaited if the client is asynchronous. Collects an iterator in a list."""

    async def awaited() -> Any:
        result = call(client)
        return [item async for item in result] if hasattr(result, "__aiter__") else await result

    if isinstance(client, AsyncClient):
        return run_async(awaited())
    result = call(client)
    return [*result] if hasattr(result, "__next__") else result


def make_retriever(kind: str, of_class: Any, raw: bool) -> Callable[..., None]:
    def call(url: str, id: str, times: int, extra_headers: Any = None, **settings: Any) -> None:
        """Retrieves a deal several times."""
        options = {"extra_headers": extra_headers}

        def retrieve(client: Any) -> Any:
            deals = (client.with_raw_response if raw else client).deals
            if kind == "many":
                return deals.retrieve_many([id] * times, **options)
            if kind == "request":
                return client.request("GET", "deals", id, **options)
            return deals.retrieve(id, **options)

        client = of_class(base_url=url, **settings)
        for _ in range(1 if kind == "many" else times):
            wait_for_result(client, retrieve)

    return call


# All ways to retrieve deals: by name, a function that retrieves a deal several times.
RETRIEVERS = {
    f"{kind}{', raw' if raw else ''}{', awaited' if of_class is AsyncClient else ''}": make_retriever(
        kind, of_class, raw
    )
    for kind, of_class, raw in itertools.product(("one", "many", "request"), (Client, AsyncClient), (False, True))
    if not (kind == "request" and raw)
}


def http_response(status: int, body: bytes | str = b"", headers: dict[str, str] | None = None) -> bytes:
    """Encodes a response."""
    body = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def respond_after(seconds: float, then: bytes) -> Callable[[bytes], bytes]:
    """Returns a handler that delays its response."""

    def respond(_: bytes) -> bytes:
        time.sleep(seconds)
        return then

    return respond


async def time_out_when(awaitable: Awaitable[Any], when: Callable[[], object]) -> None:
    """Cancels an awaitable with a timeout that expires as soon as ``when`` returns. ``when`` waits for an event."""

    async def expire() -> None:
        await asyncio.to_thread(when)
        timeout.reschedule(0)

    timeout = asyncio.timeout(None)
    expiring = asyncio.create_task(expire())
    with pytest.raises(TimeoutError):
        async with timeout:
            await awaitable
    await expiring


class CertificateAuthority:
    """A certificate authority. It writes its files to a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self._ca = trustme.CA()
        self.file = self._write(self._ca.cert_pem)

    def issue(self, name: str = "localhost") -> Path:
        """Issues a certificate, and returns a file with the certificate and its key."""
        return self._write(self._ca.issue_cert(name).private_key_and_cert_chain_pem)

    def pair(self, name: str = "client") -> tuple[Path, Path]:
        """Issues a certificate, and returns the file of the certificate and the file of its key."""
        leaf = self._ca.issue_cert(name)
        return self._write(leaf.cert_chain_pems[0]), self._write(leaf.private_key_pem)

    def _write(self, pem: trustme.Blob) -> Path:
        file = self._folder / f"{len([*self._folder.iterdir()])}.pem"
        pem.write_to_path(str(file))
        return file


def pytest_collection_finish() -> None:
    """Excludes the imported modules from garbage collection, which would slow down every test."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def collect_garbage() -> Iterator[None]:
    """Finalizes a test's objects when the test ends. Otherwise, warnings from their finalizers would fail a later test."""
    yield
    gc.collect()


@pytest.fixture
def seeded_random() -> random.Random:
    """A random generator with a known seed. pytest prints the seed if the test fails."""
    print(f"DEALKIT_SEED={SEED}")
    return random.Random(SEED)


def seed_script(seeded_random: random.Random) -> str:
    """Returns the first lines of a script, which seed its random choices."""
    return f"import random\nrandom.seed({seeded_random.randrange(1 << 32)})\n"


@pytest.fixture
def refusing_address() -> Iterator[str]:
    """The address of a port that rejects connections during the test."""
    with reserved_port() as port:
        yield f"127.0.0.1:{port}"


@pytest.fixture
def peer() -> Iterator[Callable[..., Peer]]:
    """Starts servers with scripted responses."""
    with ExitStack() as stack:
        yield lambda *given, **options: stack.enter_context(Peer(*given, **options))


@pytest.fixture
def sandbox(dealkit_sandbox: Sandbox) -> Sandbox:
    """The test's sandbox."""
    return dealkit_sandbox


@pytest.fixture
def client(sandbox: Sandbox) -> Iterator[Client]:
    """A client of the test's sandbox."""
    with make_client(sandbox) as client:
        yield client


@pytest.fixture
def imports(dealkit_sandbox: Sandbox, tmp_path: Path) -> TableImport:
    """A table of agents and its imports into the test's sandbox."""
    return TableImport(tmp_path, dealkit_sandbox)


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "agents.ledger"


@pytest.fixture
def async_client(sandbox: Sandbox) -> AsyncClient:
    """An async client of the test's sandbox."""
    client: AsyncClient = make_client(sandbox, AsyncClient)
    return client
