"""Namespaces on a shared server. test_pytest_plugin.py uses them concurrently from several processes."""

from __future__ import annotations

import os

import pytest
from conftest import ADA, of
from processes import ended, python

from dealkit import ConfigError, NotFoundError, UnprocessableEntityError
from dealkit.testing import Sandbox


def test_closing_deletes_the_namespace() -> None:
    with Sandbox(namespaces="test-*", max_namespaces=1, generate=1) as server:
        with Sandbox.attach(server.url) as sandbox, of(sandbox) as client:
            assert client.deals.retrieve("g_0").id == "g_0"
            client.agents.create(**ADA)
            with pytest.raises(ConfigError, match="--max-namespaces"):
                Sandbox.attach(server.url)
            with pytest.raises(ConfigError, match="only the server's own keys can change"):
                sandbox.accept_keys("other")
        with Sandbox.attach(server.url, service_key=sandbox.service_key) as again:
            assert again.agents == [] and repr(again) == f"Sandbox(url={server.url!r})"


def test_a_namespace_has_its_own_settings() -> None:
    with Sandbox(namespaces="test-*") as server:
        with Sandbox.attach(server.url, variant="ok,sparse", strict=True) as sandbox, of(sandbox) as client:
            assert client.with_raw_response.agents.create(**ADA).status_code == 200
            with pytest.raises(UnprocessableEntityError):
                client.request("POST", "agents", json={**ADA, "phnoe": "1"})
            sandbox.reset()
            assert client.deals.retrieve("d_1").status is None
        with of(server) as client:
            assert client.deals.retrieve("d_1").status is not None
            with pytest.raises(ConfigError, match="variant: expected one of"):
                Sandbox.attach(server.url, variant="odd")


@pytest.mark.parametrize(
    ("url", "token", "message"),
    [
        ("{url}", None, "x-sandbox-token"),
        ("{url}", "two words", "visible ASCII"),
        ("{plain}", None, "--namespaces"),
        ("http://{nowhere}", None, "cannot be reached"),
        ("http://u:hunter2@localhost", None, "http://"),
        ("{url}/elsewhere", None, "http://"),
        ("http://127.0.0.1:x", None, "http://"),
    ],
)
def test_attach_errors(url: str, token: str | None, message: str, nowhere: str) -> None:
    with Sandbox(namespaces="test-*", admin_token="hunter2") as server, Sandbox() as plain:
        with pytest.raises(ConfigError, match=message) as error:
            Sandbox.attach(url.format(url=server.url, plain=plain.url, nowhere=nowhere), admin_token=token)
        assert "hunter2" not in str(error.value)
        with Sandbox.attach(server.url, admin_token="hunter2") as sandbox:
            assert sandbox.agents == []


def test_attach_over_tls() -> None:
    with Sandbox(namespaces="test-*", tls=True) as server:
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
def test_a_forked_process_can_use_but_not_delete_a_namespace() -> None:
    code = """
import os, sys, warnings
from dealkit.testing import Sandbox
warnings.filterwarnings("ignore", message=".*multi-threaded", category=DeprecationWarning)
with Sandbox(namespaces="test-*") as server, Sandbox.attach(server.url) as sandbox:
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
    ended(python(code))
