"""The server to test against: dealkit.testing, the fixture, the command."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest
from conftest import untyped

from dealkit import AsyncClient, Client, ConfigError, Deal, InternalServerError, NotFoundError, Side
from dealkit.testing import Sandbox

ADA: Any = {"email": "ada@example.com", "first_name": "Ada", "last_name": "Lovelace", "profile": {}}


def of(sandbox: Sandbox) -> Client:
    return Client(base_url=sandbox.url, service_key=sandbox.service_key)


def test_deals_of_every_kind() -> None:
    deals: Any = [
        {"id": "dict", "status": "CLOSED"},
        '{"id": "text", "sides": [{"side_percentage": 10.10}]}',
        b'{"id": "bytes"}',
        Deal(id="model", sides=[Side(contact_id="c")]),
    ]
    with Sandbox(deals) as sandbox, of(sandbox) as client:
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
    with Sandbox([]) as sandbox, of(sandbox) as client, pytest.raises(NotFoundError):
        client.deals.retrieve("d_1")


def test_generated_deals_and_settings() -> None:
    with Sandbox(generate=3, seed=7, service_key="mine", strict=True) as sandbox, of(sandbox) as client:
        assert sandbox.service_key == "mine"
        assert client.deals.retrieve("g_2").id == "g_2"
        with pytest.raises(Exception) as caught:
            client.agents.create(**untyped({**ADA, "profile": {"nonsense": 1}}))
        assert [error.code for error in caught.value.errors] == ["unknown_field"]  # type: ignore[attr-defined]
        assert "mine" not in repr(sandbox)


def test_a_full_store() -> None:
    for settings in ({"max_agents": 1}, {"max_store_bytes": 500}):
        with Sandbox(**untyped(settings)) as sandbox, of(sandbox) as client:
            client.agents.create(**ADA)
            with pytest.raises(InternalServerError) as caught:
                client.agents.create(**ADA)
            assert caught.value.status_code == 507 and len(sandbox.agents) == 1
            sandbox.reset()
            client.agents.create(**ADA)


def test_async_use() -> None:
    async def main() -> None:
        async with Sandbox() as sandbox:
            async with AsyncClient(base_url=sandbox.url, service_key=sandbox.service_key) as client:
                assert (await client.deals.retrieve("d_1")).id == "d_1"

    asyncio.run(main())


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"deals": [{"id": 5}]}, ConfigError, "index 0"),
        ({"deals": ['{"id": "a"}', "{"]}, ConfigError, "index 1"),
        ({"deals": [{"id": "a"}, {"id": "a"}]}, ConfigError, "index 1"),
        ({"deals": [{"id": "a", "x": object()}]}, ConfigError, r"deals\[0\]"),
        ({"deals": [5]}, TypeError, r"deals\[0\] must be a mapping, a JSON text or a Deal, not int"),
        ({"deals": {"id": "a"}}, TypeError, "not one dict"),
        ({"deals": '{"id": "a"}'}, TypeError, "not one str"),
        ({"deals": 5}, TypeError, "int"),
        ({"service_key": "a b"}, ConfigError, "service key"),
        ({"generate": -1}, (OverflowError, TypeError, ValueError), "-1|negative|convert"),
        ({"nonsense": 1}, TypeError, "nonsense"),
    ],
)
def test_wrong_settings(arguments: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text) as caught:
        Sandbox(**arguments)
    assert "a b" not in str(caught.value).replace("a bool", "")


def test_closed() -> None:
    sandbox = Sandbox()
    sandbox.close()
    sandbox.close()
    for use in (lambda: sandbox.agents, lambda: sandbox.reset(), lambda: sandbox.insert_deal({"id": "a"})):
        with pytest.raises(RuntimeError, match="closed"):
            use()


def test_the_port_can_be_chosen() -> None:
    with Sandbox() as first:
        port = int(first.url.rpartition(":")[2])
        with pytest.raises(ConfigError, match="cannot listen"):
            Sandbox(port=port)
    with Sandbox(port=port) as again:
        assert again.url == first.url


def test_the_fixture_is_fresh_for_each_test(dealkit_sandbox: Sandbox) -> None:
    assert dealkit_sandbox.agents == []
    with of(dealkit_sandbox) as client:
        client.agents.create(**ADA)


def test_the_fixture_is_fresh_for_each_test_indeed(dealkit_sandbox: Sandbox) -> None:
    assert dealkit_sandbox.agents == []


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
        assert server.wait(10) == 0
        assert "Traceback" not in server.stderr.read()


def test_the_command_says_what_is_wrong() -> None:
    wrong = subprocess.run([str(COMMAND), "--nonsense"], capture_output=True, text=True, timeout=30)
    assert wrong.returncode == 2 and "--nonsense" in wrong.stderr
    version = subprocess.run(
        [sys.executable, "-m", "dealkit._cli", "--version"], capture_output=True, text=True, timeout=30
    )
    assert version.returncode == 0 and version.stdout.startswith("dealkit-server ")
    taken = subprocess.run([str(COMMAND), "--deals", os.devnull + "/nope"], capture_output=True, text=True, timeout=30)
    assert taken.returncode == 2 and "Traceback" not in taken.stderr
