"""Many tests on one server, with a world for each; at the same time, and in several processes, in test_pytest_plugin.py."""

from __future__ import annotations

import os

import pytest
from conftest import ADA, make_client
from processes import start_python, wait_for_success

from dealkit import ConfigError, NotFoundError, UnprocessableEntityError
from dealkit.testing import Sandbox


def test_a_world_ends_with_its_sandbox() -> None:
    with Sandbox(worlds="test-*", max_worlds=1, generate=1) as server:
        with Sandbox.attach(server.url) as sandbox, make_client(sandbox) as client:
            assert client.deals.retrieve("g_0").id == "g_0"
            client.agents.create(**ADA)
            with pytest.raises(ConfigError, match="--max-worlds"):
                Sandbox.attach(server.url)
            with pytest.raises(ConfigError, match="only the server's own keys can change"):
                sandbox.accept_keys("other")
        with Sandbox.attach(server.url, service_key=sandbox.service_key) as again:
            assert again.agents == [] and repr(again) == f"Sandbox(url={server.url!r})"


def test_a_world_has_settings_of_its_own() -> None:
    with Sandbox(worlds="test-*") as server:
        with Sandbox.attach(server.url, reading="ok,sparse", strict=True) as sandbox, make_client(sandbox) as client:
            assert client.with_raw_response.agents.create(**ADA).status_code == 200
            with pytest.raises(UnprocessableEntityError):
                client.request("POST", "agents", json={**ADA, "phnoe": "1"})
            sandbox.reset()
            assert client.deals.retrieve("d_1").status is None
        with make_client(server) as client:
            assert client.deals.retrieve("d_1").status is not None
            with pytest.raises(ConfigError, match="reading: expected one of"):
                Sandbox.attach(server.url, reading="odd")


@pytest.mark.parametrize(
    ("url", "token", "text"),
    [
        ("{url}", None, "x-sandbox-token"),
        ("{url}", "two words", "visible ASCII"),
        ("{plain}", None, "--worlds"),
        ("http://{refusing_address}", None, "cannot be reached"),
        ("http://u:hunter2@localhost", None, "http://"),
        ("{url}/elsewhere", None, "http://"),
        ("http://127.0.0.1:x", None, "http://"),
    ],
)
def test_what_cannot_be_attached_to(url: str, token: str | None, text: str, refusing_address: str) -> None:
    with Sandbox(worlds="test-*", admin_token="hunter2") as server, Sandbox() as plain:
        with pytest.raises(ConfigError, match=text) as raised:
            Sandbox.attach(
                url.format(url=server.url, plain=plain.url, refusing_address=refusing_address), admin_token=token
            )
        assert "hunter2" not in str(raised.value)
        with Sandbox.attach(server.url, admin_token="hunter2") as sandbox:
            assert sandbox.agents == []


def test_a_server_that_speaks_tls() -> None:
    with Sandbox(worlds="test-*", tls=True) as server:
        with Sandbox.attach(server.url, ca_file=server.ca_file) as sandbox, sandbox.client() as client:
            sandbox.fail_next(status=404)
            with pytest.raises(NotFoundError):
                client.deals.retrieve("d_1")
            assert [request.status for request in sandbox.requests] == [404] and not server.requests
        with server.client() as client:
            assert client.deals.retrieve("d_1").id == "d_1"
        with pytest.raises(ConfigError, match="cannot be reached: .*certificate"):
            Sandbox.attach(server.url)
    with pytest.raises(ConfigError, match="ca_file .*gone.pem cannot be read"):
        Sandbox.attach(server.url, ca_file="gone.pem")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_uses_it_and_does_not_end_it() -> None:
    code = """
import os, sys, warnings
from dealkit.testing import Sandbox
warnings.filterwarnings("ignore", message=".*multi-threaded", category=DeprecationWarning)
with Sandbox(worlds="test-*") as server, Sandbox.attach(server.url) as sandbox:
    child = os.fork()
    if child == 0:
        try:
            sandbox.insert_deal({"id": "of the child"})
            sandbox.close()
        finally:
            os._exit(sys.exception() is not None)
    assert os.waitpid(child, 0)[1] == 0
    with sandbox.client() as client:
        assert client.deals.retrieve("of the child").id == "of the child"
"""
    wait_for_success(start_python(code))
