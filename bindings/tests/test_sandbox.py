"""The sandbox: dealkit.testing, and the command dealkit-server."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import os
import pickle
import signal
import ssl
import subprocess
import sys
import sysconfig
import threading
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from conftest import ADA, BOTH_CLIENTS, CertificateAuthority, make_client, wait_for_result
from processes import HANG_SECONDS

from dealkit import (
    APIConnectionError,
    AsyncClient,
    AuthenticationError,
    Client,
    ConfigError,
    Deal,
    DealkitError,
    Headers,
    NotFoundError,
    Side,
    UnprocessableEntityError,
)
from dealkit.testing import CreatedAgent, Sandbox


@pytest.fixture(params=["started", "attached"])
def any_sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """A sandbox in this process, and a namespace on a server that could run in another process."""
    key = "test-sesame"
    if request.param == "started":
        with Sandbox(service_key=key) as sandbox:
            yield sandbox
    else:
        with Sandbox(namespaces="test-*") as server, Sandbox.attach(server.url, service_key=key) as sandbox:
            yield sandbox
            assert server.requests == [] == server.agents


def test_deals_of_every_type() -> None:
    deals: Any = [
        {"id": "dict", "status": "CLOSED"},
        '{"id": "text", "sides": [{"side_percentage": 10.10}]}',
        b'{"id": "bytes"}',
        Deal(id="model", sides=[Side(contact_id="c")]),
    ]
    with Sandbox(deals) as sandbox, make_client(sandbox) as client:
        assert client.deals.retrieve("dict").status == "CLOSED"
        assert str(client.deals.retrieve("text").sides[0].side_percentage) == "10.10"
        assert client.with_raw_response.deals.retrieve("text").body == deals[1].encode()
        assert client.deals.retrieve("bytes") == Deal(id="bytes")
        assert client.deals.retrieve("model") == deals[3]
        with pytest.raises(NotFoundError):
            client.deals.retrieve("d_1")
        sandbox.insert_deal({"id": "new"})
        sandbox.insert_deal({"id": "dict", "status": "OPEN"})
        assert client.deals.retrieve("new").id == "new" and client.deals.retrieve("dict").status == "OPEN"
        client.agents.create(**ADA)
        assert len(sandbox.agents) == 1
        sandbox.reset()
        assert sandbox.agents == [] and client.deals.retrieve("dict").status == "CLOSED"
        with pytest.raises(NotFoundError):
            client.deals.retrieve("new")
    with Sandbox([]) as sandbox, make_client(sandbox) as client, pytest.raises(NotFoundError):
        client.deals.retrieve("d_1")


@BOTH_CLIENTS
def test_clients_that_trust_the_certificate(of_class: Any) -> None:
    with Sandbox(tls=True) as sandbox, Sandbox(tls=True) as other:
        assert sandbox.url.startswith("https://127.0.0.1:") and sandbox.ca_file is not None
        make = Sandbox.client if of_class is Client else Sandbox.async_client
        client = make(sandbox, timeout=5)
        assert isinstance(client, of_class) and client.timeout == 5
        assert wait_for_result(client, lambda client: client.deals.retrieve("d_1")).id == "d_1"
        with pytest.raises(APIConnectionError, match="was not signed by the trusted issuer of that name"):
            wait_for_result(make(sandbox, ca_file=other.ca_file), lambda client: client.deals.retrieve("d_1"))
        with pytest.raises(AuthenticationError):
            wait_for_result(make(sandbox, service_key="wrong"), lambda client: client.deals.retrieve("d_1"))
        assert [request.status for request in sandbox.requests] == [200, 401]
        for http2, version in [(None, "HTTP/2"), (False, "HTTP/1.1")]:
            raw = wait_for_result(
                make(sandbox, http2=http2), lambda client: client.with_raw_response.deals.retrieve("d_1")
            )
            assert raw.http_version == version
    with Sandbox() as plain:
        assert plain.ca_file is None
        assert wait_for_result(make(plain), lambda client: client.deals.retrieve("d_1")).id == "d_1"


def test_urllib_trusts_the_certificate() -> None:
    """Python accepts the certificate with the strict checks that are its default since 3.13."""
    with Sandbox(tls=True) as sandbox:
        context = ssl.create_default_context(cafile=sandbox.ca_file)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        for url in (sandbox.url, sandbox.url.replace("127.0.0.1", "localhost")):
            with urllib.request.urlopen(f"{url}/__sandbox/ca.pem", context=context) as response:
                assert response.read() == Path(str(sandbox.ca_file)).read_bytes()
    assert not Path(str(sandbox.ca_file)).exists()


def test_certificates_in_files(tmp_path: Path) -> None:
    authority = CertificateAuthority(tmp_path / "authority")
    certificate, key = authority.pair("127.0.0.1")
    with Sandbox(tls=(certificate, str(key)), tls_client_ca=authority.file) as sandbox:
        assert sandbox.ca_file is None
        with sandbox.client(ca_file=authority.file, client_cert=authority.pair()) as client:
            assert client.deals.retrieve("d_1").id == "d_1"
        with sandbox.client(ca_file=authority.file) as client, pytest.raises(APIConnectionError):
            client.deals.retrieve("d_1")
    with (
        Sandbox(tls=authority.issue("127.0.0.1")) as sandbox,
        sandbox.client(ca_file=authority.file) as client,
    ):
        assert client.deals.retrieve("d_1").id == "d_1"


def test_async_use() -> None:
    async def main() -> None:
        async with Sandbox() as sandbox:
            async with AsyncClient(base_url=sandbox.url, service_key=sandbox.service_key) as client:
                assert (await client.deals.retrieve("d_1")).id == "d_1"

    asyncio.run(main())


def test_closed(any_sandbox: Sandbox) -> None:
    sandbox = any_sandbox
    sandbox.close()
    sandbox.close()
    for use in (
        lambda: sandbox.agents,
        lambda: sandbox.requests,
        lambda: sandbox.wait_for(),
        lambda: sandbox.verify(),
        lambda: sandbox.save_deals("deals.json"),
        lambda: sandbox.reload_deals(),
        lambda: sandbox.clear_requests(),
        lambda: sandbox.fail_next(malformed=True),
        lambda: sandbox.clear_faults(),
        lambda: sandbox.reset(),
        lambda: sandbox.insert_deal({"id": "a"}),
    ):
        with pytest.raises(RuntimeError, match="closed"):
            use()


def test_agents_include_their_requests(any_sandbox: Sandbox) -> None:
    sandbox = any_sandbox
    with make_client(sandbox) as client:
        arguments: Any = {**ADA, "phone": "+15555550100", "image_url": None, "role": "AGENT"}
        arguments["profile"] = {"onboarding_complete": True, "client_metadata": {"rate": Decimal("1.10")}}
        agent = client.agents.create(**arguments)
        assert sandbox.agents == [agent] and agent == sandbox.agents[0]
        (created,) = sandbox.agents
        assert isinstance(created, CreatedAgent) and created.agent == agent
        assert created.sent == {
            **arguments,
            "profile": {"onboardingComplete": True, "clientMetadata": {"rate": Decimal("1.10")}},
        }
        assert (created.email, created.role_assignments[0].role) == ("ada@example.com", "AGENT")
        assert "ada@" not in repr(created) and "555" not in repr(created) and repr(agent) in repr(created)
        assert pickle.loads(pickle.dumps(created)) == created != CreatedAgent(agent, {})


def test_recorded_requests(any_sandbox: Sandbox) -> None:
    sandbox = any_sandbox
    with make_client(sandbox) as client:
        sandbox.insert_deal({"id": "personal"})
        before = datetime.now(UTC)
        agent = client.agents.create(**ADA, extra_headers={"x-request-id": "import-42", "x-tenant": "7"})
        with pytest.raises(NotFoundError):
            client.request("GET", "deals", "a/b", query={"x": "1"})
        sandbox.fail_next(cut="before-head", path="/v1/deals/personal")
        assert client.deals.retrieve("personal").id == "personal"
        created, missing, cut, read = sandbox.requests
        assert (created.number, created.method, created.path, created.query) == (1, "POST", "/v1/agents", None)
        assert (created.path_template, created.status, created.request_id) == ("/v1/agents", 201, "import-42")
        assert json.loads(created.body) == ADA and created.body_bytes == len(created.body)
        assert isinstance(created.headers, Headers)
        assert (created.headers["X-Tenant"], created.headers["x-service-key"]) == ("7", "<redacted>")
        assert before <= created.at <= datetime.now(UTC) and 0 < created.duration < 10
        assert (missing.path, missing.path_template, missing.query) == ("/v1/deals/a%2Fb", "/v1/deals/{id}", "x=1")
        assert (missing.status, missing.fault, missing.body) == (404, None, b"")
        assert (cut.status, cut.fault, read.status) == (None, '{"cut":"before-head"}', 200)
        for request in sandbox.requests:
            shown = repr(request)
            assert shown.startswith(
                f"RecordedRequest(number={request.number}, method='{request.method}', path_template="
            )
            for secret in ("sesame", "ada", "Lovelace", "personal", "a%2Fb", "x-tenant"):
                assert secret not in shown
            with pytest.raises(AttributeError):
                request.status = 500  # type: ignore[misc]
            assert pickle.loads(pickle.dumps(request)) == request and hash(request) == hash(request)
        assert "sesame" not in str([all_attributes(request) for request in sandbox.requests])
        sandbox.clear_requests()
        assert [*sandbox.requests] == [] and sandbox.agents == [agent]
        client.deals.retrieve("d_1")
        assert [request.number for request in sandbox.requests] == [5]
        sandbox.reset()
        assert sandbox.requests == [] == sandbox.agents


def all_attributes(request: Any) -> dict[str, Any]:
    """Returns all attributes."""
    return {name: getattr(request, name) for name in request.__slots__}


def test_wait_for_requests(any_sandbox: Sandbox) -> None:
    async def main() -> None:
        sandbox = any_sandbox
        async with make_client(sandbox, AsyncClient) as client:
            # `wait_for` runs in a thread, because the calls that it waits for run in this event loop.
            waiting = asyncio.create_task(
                asyncio.to_thread(sandbox.wait_for, status=404, count=2, timeout=HANG_SECONDS)
            )
            for id in ("d_1", "secret", "secret"):
                with contextlib.suppress(NotFoundError):
                    await client.deals.retrieve(id)
            requests = await waiting
            assert [request.number for request in requests] == [2, 3] and requests == sandbox.requests[1:]
            cases: list[dict[str, Any]] = [{"method": "POST"}, {"count": 4}, {"path": "/v1/deals/x"}, {"status": 201}]
            with pytest.raises(ValueError, match="count: expected a number from 1 to 1000"):
                sandbox.wait_for(count=0)
            for filters in cases:
                with pytest.raises(TimeoutError, match=r"^\d of \d requests arrived in time$"):
                    sandbox.wait_for(**filters, timeout=0)
            assert sandbox.wait_for(method="get", path="/v1/deals/d_1", timeout=0) == sandbox.requests[:1]

    asyncio.run(main())


def test_held_requests(any_sandbox: Sandbox) -> None:
    any_sandbox.fail_next(hold=True, path="/v1/deals/{id}", times=2)
    with make_client(any_sandbox) as client, ThreadPoolExecutor(2) as threads:
        calls = [threads.submit(client.deals.retrieve, "d_1") for _ in range(2)]
        held = any_sandbox.wait_for(held=True, count=2, timeout=HANG_SECONDS)
        assert [(request.held, request.status, request.fault) for request in held] == [
            (True, None, '{"hold":true}')
        ] * 2
        # Other requests get responses. Without `held`, `wait_for` ignores held requests.
        client.agents.create(**ADA)
        assert [request.method for request in any_sandbox.wait_for(timeout=0)] == ["POST"]
        assert any_sandbox.release() == 2
        assert [call.result().id for call in calls] == ["d_1"] * 2
    assert any_sandbox.release() == 0
    assert [request.held for request in any_sandbox.requests] == [False] * 3
    with pytest.raises(TimeoutError):
        any_sandbox.wait_for(held=True, timeout=0)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signal")
def test_a_signal_interrupts_wait_for(any_sandbox: Sandbox) -> None:
    class Stop(Exception):
        pass

    def stop(*_: object) -> None:
        raise Stop

    before = signal.signal(signal.SIGUSR1, stop)
    try:
        with pytest.raises(Stop):
            threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1)).start()
            any_sandbox.wait_for(timeout=600)
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize(
    ("fault", "error", "text"),
    [
        (
            {},
            ValueError,
            "the fault has no effect: expected one of hold, delay, status, cut, malformed, process_then_reset",
        ),
        ({"status": "503"}, ValueError, "status: expected a status from 200 to 599, found a string"),
        ({"status": 500, "body": b"x"}, ValueError, "/body: .* got bytes"),
        ({"staus": 500}, TypeError, "unexpected keyword argument 'staus'"),
    ],
)
def test_wrong_faults(fault: Any, error: type[Exception], text: str, any_sandbox: Sandbox) -> None:
    with pytest.raises(error, match=text):
        any_sandbox.fail_next(**fault)
    assert any_sandbox.faults == []
    with make_client(any_sandbox) as client:
        assert client.with_raw_response.deals.retrieve("d_1").attempts == 1


def test_fail_next_has_all_fields_of_a_fault(any_sandbox: Sandbox) -> None:
    """The server's fields are the definition; the signature must follow them."""
    with pytest.raises(ConfigError, match="unknown field") as raised:
        any_sandbox._call("POST", "faults", {"unknown": 1})
    fields = str(raised.value).partition("expected one of ")[2].split(", ")
    parameters = list(inspect.signature(Sandbox.fail_next).parameters)
    assert sorted(parameters) == sorted(["self", *fields])


def test_pending_faults(any_sandbox: Sandbox) -> None:
    sandbox = any_sandbox
    arguments: dict[str, Any] = {
        "status": 503,
        "retry_after": "0.5",
        "body": {"a": [1]},
        "path": "/v1/deals/{id}",
        "times": 2,
    }
    with make_client(sandbox) as client:
        sandbox.fail_next(**arguments)
        sandbox.fail_next(delay=0.5, method="POST", times=None)
        first, second = sandbox.faults
        assert (first.id, first.arguments, first.matched, first.applied) == (1, arguments, 0, 0)
        assert second.arguments == {"delay": Decimal("0.5"), "method": "POST", "times": None}
        with pytest.raises(DealkitError):
            client.deals.retrieve("d_1", max_retries=0)
        assert [(fault.id, fault.matched, fault.applied) for fault in sandbox.faults] == [(1, 1, 1), (2, 0, 0)]
        assert pickle.loads(pickle.dumps(second)) == second == sandbox.faults[1]
        sandbox.clear_faults()
        for fault in (first, second):
            sandbox.fail_next(**fault.arguments)
        assert [fault.arguments for fault in sandbox.faults] == [first.arguments, second.arguments]
    sandbox.close()
    with pytest.raises(RuntimeError, match="closed"):
        _ = sandbox.faults


def test_faults_match_headers_and_bodies(any_sandbox: Sandbox) -> None:
    bob: Any = {**ADA, "email": "bob@example.com"}
    any_sandbox.fail_next(status=422, request_body={"email": "bob@example.com", "profile": {}})
    any_sandbox.fail_next(status=418, request_header={"X-Tenant": "7", "traceparent": True}, times=None)
    with make_client(any_sandbox) as client:
        client.agents.create(**ADA)
        with pytest.raises(UnprocessableEntityError):
            client.agents.create(**bob)
        client.agents.create(**bob)
        for headers, status in [({"x-tenant": "7"}, 200), ({"x-tenant": "7", "traceparent": "00"}, 418)]:
            with contextlib.suppress(DealkitError):
                client.deals.retrieve("d_1", extra_headers=headers, max_retries=0)
            assert any_sandbox.requests[-1].status == status
    (pending,) = any_sandbox.faults
    assert pending.arguments["request_header"] == {"x-tenant": "7", "traceparent": True} and pending.matched == 1
    any_sandbox.fail_next(**pending.arguments)
    assert repr(pending) == "PendingFault(id=2, status=418, request_header=<hidden>, times=None, matched=1, applied=1)"
    with pytest.raises(ValueError, match="request_body: expected an object, .* found an array"):
        any_sandbox.fail_next(status=422, request_body=["email"])  # type: ignore[arg-type]


def test_verify_requests(any_sandbox: Sandbox) -> None:
    sandbox = any_sandbox
    sandbox.verify(times=0)
    with make_client(sandbox) as client:
        profile = {"client_metadata": {"rate": Decimal("1.10")}}
        client.agents.create(**{**ADA, "profile": profile}, extra_headers={"x-tenant": "c4n4ry"})
        client.deals.retrieve("d_1")
    sandbox.verify(times=2)
    sandbox.verify(method="POST", path="/v1/agents", headers={"X-Tenant": "c4n4ry", "x-service-key": True})
    sandbox.verify(body={"profile": {"clientMetadata": {"rate": Decimal("1.1")}}})
    sandbox.verify(path="/v1/deals/d_1")
    with pytest.raises(AssertionError) as failed:
        sandbox.verify(headers={"x-tenant": "7"}, body={"email": "bob@example.com"}, times=3)
    assert str(failed.value) == (
        "expected 3 requests with header x-tenant and a body; found 0\n"
        "These requests have arrived:\n"
        "  1. POST /v1/agents 201: differs in header x-tenant, body /email\n"
        "  2. GET /v1/deals/{id} 200: differs in header x-tenant, body"
    )
    with pytest.raises(ConfigError, match="path: expected one of /v1/agents, /v1/deals/{id}"):
        sandbox.verify(path="/v1/agent", times=0)
    with pytest.raises(ConfigError, match="x-service-key is a secret"):
        sandbox.verify(headers={"x-service-key": "test-sesame"})


def test_save_and_reload_deals(tmp_path: Path) -> None:
    file, copy = tmp_path / "deals.json", tmp_path / "copy.json"
    first = '{"id": "x", "sides": [{"side_percentage": 10.10}],  "later": 1.0e2}'
    file.write_text(f"[{first}]")
    with Sandbox(deals_file=file, generate=1001, namespaces="test-*") as server, Sandbox.attach(server.url) as attached:
        for sandbox in (server, attached):
            second = '{\n"id": "y]",\n"a": 0.10}'
            sandbox.insert_deal(second)
            sandbox.save_deals(copy)
            assert copy.read_text().startswith('[\n{"id":"g_0",')
            assert copy.read_text().endswith(f",\n{first},\n{second}\n]\n")
            with Sandbox(deals_file=str(copy)) as other, make_client(other) as client:
                assert client.with_raw_response.deals.retrieve("y]").body == second.encode()
                assert client.deals.retrieve("g_1000").id == "g_1000"
        file.write_text('{"id": "x", "status": "NEW"}')
        attached.reload_deals()
        with make_client(attached) as client, make_client(server) as other_client:
            assert client.deals.retrieve("x").status == "NEW" and other_client.deals.retrieve("x").status is None
            with pytest.raises(NotFoundError):
                client.deals.retrieve("y]")
        file.write_text('{"id": "x", "status": "NEW"}\n{"id": 5}\n{}')
        for sandbox in (server, attached):
            with pytest.raises(ConfigError) as invalid:
                sandbox.reload_deals()
            assert str(invalid.value) == (
                "2 errors in the deals:\n"
                f"  {file}: line 2: /id: expected a string, found a number\n"
                f"  {file}: line 3: /id: a required field is missing"
            )
        with pytest.raises(FileNotFoundError):
            server.save_deals(tmp_path / "none" / "deals.json")
        with pytest.raises(OSError):  # A folder.
            server.save_deals(tmp_path)
        assert {*tmp_path.iterdir()} == {file, copy}
    with Sandbox([]) as sandbox:
        sandbox.save_deals(copy)
        assert copy.read_text() == "[]\n"
        with pytest.raises(ConfigError, match="there is no file of deals to reload"):
            sandbox.reload_deals()
    with pytest.raises(ConfigError, match="copy.jsonx: cannot be read"):
        Sandbox(deals_file=f"{copy}x")
    with pytest.raises(TypeError, match="deals_file must be the path of a file, not int"):
        Sandbox(deals_file=5)  # type: ignore[arg-type]


COMMAND = Path(sysconfig.get_path("scripts")) / "dealkit-server"


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_the_command(stop: signal.Signals) -> None:
    command = [str(COMMAND), "--listen", "127.0.0.1:0", "--generate", "2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None and server.stderr is not None
        first = server.stdout.readline()
        assert first.startswith("dealkit-server listening on http://127.0.0.1:")
        with Client(base_url=first.split()[-1], service_key="sandbox-key") as client:
            assert client.deals.retrieve("g_1").id == "g_1"
        server.send_signal(stop)
        assert server.wait(HANG_SECONDS) == 0
        assert "Traceback" not in server.stderr.read()


def test_the_command_reports_errors() -> None:
    wrong = subprocess.run([str(COMMAND), "--nonsense"], capture_output=True, text=True, timeout=HANG_SECONDS)
    assert wrong.returncode == 2 and "--nonsense" in wrong.stderr
    version = subprocess.run(
        [sys.executable, "-m", "dealkit._testing.server_command", "--version"],
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
    )
    assert version.returncode == 0 and version.stdout.startswith("dealkit-server ")
    taken = subprocess.run(
        [str(COMMAND), "--deals", os.devnull + "/nope"], capture_output=True, text=True, timeout=HANG_SECONDS
    )
    assert taken.returncode == 2 and "Traceback" not in taken.stderr
