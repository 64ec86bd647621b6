"""Every example runs to its end in a process of its own, without a warning, and prints the output that its file states."""

from __future__ import annotations

import asyncio
import re
import runpy
from pathlib import Path
from typing import Any

import httpx2
import pyarrow
import pytest
from conftest import ADA
from processes import HANG_SECONDS, Peer, run_pytest, start_python, wait_for_success
from pyarrow import parquet

from dealkit import AsyncClient
from dealkit.testing import Sandbox

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "python"
EMAILS = ["ada@example.com", "grace@example.com", "jean"]


def test_quickstart(dealkit_sandbox: Sandbox) -> None:
    shown = wait_for_success(start_python(EXAMPLES / "quickstart.py", url=dealkit_sandbox.url))
    for line in [
        "  name          Ada Lovelace",
        "  brokerage     b_1",
        "Read deal d_1",
        "  status        CLOSED",
        "    offer       10.10 % of the commission, fee 1.50 %, until 2025-11-19 23:59:59+00:00",
        "  status code   404",
    ]:
        assert f"{line}\n" in shown
    assert "  as text       GET /v1/deals/{id}: 404 Not Found" in shown
    assert "None" not in shown
    assert [agent.email for agent in dealkit_sandbox.agents] == ["ada@example.com"]


def test_async_quickstart(dealkit_sandbox: Sandbox) -> None:
    shown = wait_for_success(start_python(EXAMPLES / "async_quickstart.py", url=dealkit_sandbox.url))
    assert shown == "created a_1\nd_1 is CLOSED\nd_2 is OPEN\nd_3 is CANCELLED\nd_1 has 2 contacts\n"


def test_bulk(dealkit_sandbox: Sandbox) -> None:
    process = start_python(EXAMPLES / "bulk.py", url=dealkit_sandbox.url)
    shown, progress = process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == 0, progress
    lines = shown.splitlines()
    assert lines[0] == "d_1: CLOSED"
    assert lines[2].startswith("no-such-deal: GET /v1/deals/{id}: 404 Not Found")
    assert lines[4].startswith("..: ") and lines[4].endswith("(invalid_id)")
    assert lines[5] == "2 of 5 failed"
    # In a pipe, only the last state of the line appears.
    assert progress == "5/5 deals\n"


def test_container_examples_use_existing_settings() -> None:
    """The container examples themselves run only in `make test-container`."""
    files = [
        ROOT / "server/Containerfile",
        *(path for path in ROOT.glob("examples/container/**/*.*") if path.is_file()),
    ]
    named = {name for file in files for name in re.findall(r"DEALKIT_SERVER_\w+[A-Z]", file.read_text())}
    shown = wait_for_success(start_python("from dealkit._testing.server_command import main; main()", "--help"))
    assert len(named) >= 4
    assert not {name for name in named if f"[env: {name}]" not in shown}


def test_the_pytest_example_passes() -> None:
    """The fixture and the plugin work in a pytest run without this project's settings."""
    shown = run_pytest(EXAMPLES / "test_reward.py", "--rootdir", str(EXAMPLES))
    assert "1 passed" in shown


def test_a_disconnected_caller_of_the_fastapi_service_cancels_its_read() -> None:
    app = runpy.run_path(str(EXAMPLES / "fastapi_service.py"))["app"]
    messages: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        messages.append(message)

    async def main(tarpit: Peer) -> None:
        async def receive() -> dict[str, Any]:
            await asyncio.to_thread(tarpit.wait_for_requests, 1)
            return {"type": "http.disconnect"}

        app.state.client = AsyncClient(base_url=tarpit.url, service_key="k")
        scope = {"type": "http", "method": "GET", "path": "/deals/d_1", "query_string": b"", "headers": []}
        await app(scope, receive, send)
        await asyncio.to_thread(tarpit.wait_for_ends, 1)

    with Peer() as tarpit:
        asyncio.run(main(tarpit))
    assert messages[0]["status"] == 499


def make_fastapi_app(sandbox: Sandbox, **options: Any) -> Any:
    """Returns the FastAPI service, whose client is open, in this process."""
    app = runpy.run_path(str(EXAMPLES / "fastapi_service.py"))["app"]
    app.state.client = AsyncClient(base_url=sandbox.url, service_key=sandbox.service_key, **options)
    return app


async def send_request(app: Any, method: str, path: str, **changes: str) -> httpx2.Response:
    """Sends a request to the service, and returns its response."""
    transport = httpx2.ASGITransport(app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as caller:
        return await caller.request(method, path, json={**ADA, **changes})


def test_a_disconnected_caller_of_the_fastapi_service_leaves_no_unknown_outcome(
    dealkit_sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEALKIT_LEDGER", str(tmp_path / "agents.ledger"))

    async def main() -> None:
        app = make_fastapi_app(dealkit_sandbox)
        for count, (method, path) in enumerate([("PUT", "/agents/crm-4711"), ("POST", "/agents")], 1):
            dealkit_sandbox.fail_next(hold=True)
            handler = asyncio.create_task(send_request(app, method, path))
            await asyncio.to_thread(dealkit_sandbox.wait_for, held=True, timeout=HANG_SECONDS)
            # Middleware or a server may cancel the handler.
            handler.cancel()
            with pytest.raises(asyncio.CancelledError):
                await handler
            assert dealkit_sandbox.release() == 1
            await asyncio.to_thread(dealkit_sandbox.wait_for, status=201, count=count, timeout=HANG_SECONDS)
        # Until the ledger records the outcome, the create is in flight.
        while (response := await send_request(app, "PUT", "/agents/crm-4711")).status_code == 409:
            pass
        assert (response.status_code, response.json()) == (200, {"id": "a_1"})

    asyncio.run(main())
    assert len(dealkit_sandbox.agents) == 2


def test_the_fastapi_service_tells_its_callers_what_to_do_next(
    dealkit_sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEALKIT_LEDGER", str(tmp_path / "agents.ledger"))

    async def main() -> None:
        app = make_fastapi_app(dealkit_sandbox, timeout=30)
        dealkit_sandbox.fail_next(status=500)
        # At the second request, the ledger knows that the outcome is unknown.
        unknown = [await send_request(app, "PUT", "/agents/with-id") for _ in range(2)]
        sent = {"request_id": dealkit_sandbox.requests[0].request_id}
        assert [(response.status_code, response.json()) for response in unknown] == [(202, sent)] * 2
        for method, path in [("PUT", "/agents/without-id"), ("POST", "/agents")]:
            dealkit_sandbox.fail_next(process_then_reset=True)
            response = await send_request(app, method, path)
            assert (response.status_code, response.json()) == (202, {"request_id": None})
        dealkit_sandbox.fail_next(status=422)
        rejected = [await send_request(app, "PUT", "/agents/rejected") for _ in range(2)]
        assert [response.status_code for response in rejected] == [422, 422]
        # The corrected agent is sent with the same key. Later, the key stands for that agent only.
        corrected = [await send_request(app, "PUT", "/agents/rejected", first_name="Augusta") for _ in range(2)]
        assert [response.status_code for response in corrected] == [201, 200]
        assert corrected[0].json() == corrected[1].json() and corrected[0].json()["id"]
        reused = await send_request(app, "PUT", "/agents/rejected")
        assert (reused.status_code, reused.json()["id"]) == (409, corrected[0].json()["id"])
        # The first request gets the 429. The second is not sent before its timeout.
        dealkit_sandbox.fail_next(status=429, retry_after=50)
        requests = len(dealkit_sandbox.requests) + 1
        for method, path in [("PUT", "/agents/busy"), ("POST", "/agents")]:
            response = await send_request(app, method, path)
            assert response.status_code == 503
            assert 30 < int(response.headers["retry-after"]) <= 50
        assert len(dealkit_sandbox.requests) == requests

    asyncio.run(main())


def test_fastapi_service(dealkit_sandbox: Sandbox, tmp_path: Path) -> None:
    requests = """
import runpy, sys
from fastapi.testclient import TestClient
with TestClient(runpy.run_path(sys.argv[1])["app"]) as client:
    agent = {"email": "ada@example.com", "first_name": "Ada", "last_name": "Lovelace", "profile": {"tier": "A"}}
    created = client.post("/agents", json=agent)
    print(created.status_code, created.json()["id"])
    for email in ("grace@example.com", "no", "grace@example.com", "joan@example.com"):
        kept = client.put("/agents/crm-4711", json={**agent, "email": email})
        print(kept.status_code, kept.json().get("id"))
    refused = client.post("/agents", json={**agent, "email": "no", "role": "AGNT", "profile": {"teir": "A"}})
    print(refused.status_code, [error["loc"] for error in refused.json()["detail"]])
    deal = client.get("/deals/d_1")
    print(deal.status_code, deal.json()["application"]["offers"][0]["percent_of_commission"])
    for path in ("/deals/no-such-deal", "/deals/%2E%2E%20", "/docs", "/openapi.json"):
        print(client.get(path).status_code)
"""
    env = {"DEALKIT_LEDGER": str(tmp_path / "agents.ledger")}
    shown = wait_for_success(
        start_python(requests, str(EXAMPLES / "fastapi_service.py"), url=dealkit_sandbox.url, env=env)
    )
    assert shown.splitlines() == [
        "201 a_1",
        "201 a_2",
        "422 None",
        "200 a_2",
        "409 a_2",
        "422 [['body', 'email'], ['body', 'profile', 'teir'], ['body', 'role']]",
        "200 10.10",
        "404",
        "404",
        "200",
        "200",
    ]
    assert [agent.email for agent in dealkit_sandbox.agents] == ["ada@example.com", "grace@example.com"]


def test_on_engines(dealkit_sandbox: Sandbox, tmp_path: Path) -> None:
    """Runs on processes of this machine; `bindings/engines` runs it on engines."""
    ids, out, table = tmp_path / "ids.txt", tmp_path / "out", tmp_path / "agents.parquet"
    ids.write_text("d_1\nd_2\nno-such-deal\nd_1\n")
    rows = [
        {"email": email, "first_name": "A", "phone": None, "last_name": "L", "profile": {"tier": None}}
        for email in EMAILS
    ]
    parquet.write_table(pyarrow.Table.from_pylist(rows), table)

    def run_on_processes(*arguments: object) -> str:
        given = ["processes", *map(str, arguments), "--per-task", "2"]
        env = {"DEALKIT_LEDGER": str(tmp_path / "agents.ledger")}
        process = start_python(EXAMPLES / "on_engines.py", *given, url=dealkit_sandbox.url, env=env)
        shown, errors = process.communicate(timeout=HANG_SECONDS)
        assert errors == ""
        return shown

    assert run_on_processes("export", ids, out) == "2 done, 1 failed\n"
    assert run_on_processes("export", ids, out) == "0 done, 1 failed\n"
    assert sorted(parquet.read_table(out / "deals")["id"].to_pylist()) == ["d_1", "d_2"]
    assert parquet.read_table(out / "failed")["id"].to_pylist() == ["no-such-deal"]
    for _ in range(2):
        assert run_on_processes("import", table, out) == "2 done, 1 failed\n"
        done = parquet.read_table(out / "agents").to_pylist()
        assert {row["email"]: row["agent_id"] for row in done} == {
            agent.email: agent.id for agent in dealkit_sandbox.agents
        }
        assert parquet.read_table(out / "failed")["outcome"].to_pylist() == ["not_sent"]
    assert len(dealkit_sandbox.agents) == 2


def test_every_example_has_a_test() -> None:
    names = {path.stem for path in EXAMPLES.glob("*.py")}
    assert names == {"quickstart", "async_quickstart", "bulk", "fastapi_service", "on_engines", "test_reward"}
