"""The pytest plugin, in separate pytest runs."""

from __future__ import annotations

import sys

import pytest

from dealkit.testing import Sandbox

pytest_plugins = "pytester"

ADA = """
ADA = {"email": "ada@example.com", "first_name": "Ada", "last_name": "Lovelace", "profile": {}}
"""


NO_PLUGINS = "addopts = -p no:asyncio -p no:anyio\n"
ASYNCIO = "asyncio_default_fixture_loop_scope = function\nasyncio_mode = "


def run_tests(
    pytester: pytest.Pytester, test: str, ini: str = "", plugins: str = NO_PLUGINS, **outcomes: int
) -> pytest.RunResult:
    """Runs a test file in a separate process, with warnings as errors."""
    pytester.makepyfile(ADA + test)
    pytester.makeini(f"[pytest]\n{plugins}{ini}")
    result = pytester.runpytest_subprocess("-W", "error", "-p", "no:cacheprovider")
    result.assert_outcomes(**outcomes)
    return result


def test_each_test_has_its_own_sandbox_and_clients(pytester: pytest.Pytester) -> None:
    test = """
import pytest

@pytest.mark.parametrize("run", range(2))
def test_create(run, dealkit_client, dealkit_sandbox):
    agent = dealkit_client.agents.create(**ADA)
    assert agent.id == "a_1" and dealkit_sandbox.agents == [agent]
    dealkit_sandbox.fail_next(status=500, times=None)

def test_the_next(dealkit_sandbox, dealkit_client):
    assert dealkit_client.deals.retrieve("d_1").id == "d_1"
    assert [request.path for request in dealkit_sandbox.requests] == ["/v1/deals/d_1"]
"""
    run_tests(pytester, test, passed=3)


def test_a_program_that_makes_its_own_client(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEALKIT_BASE_URL", "https://deals.example.com")
    monkeypatch.setenv("DEALKIT_SERVICE_KEY_FILE", "missing")
    test = """
import os
from dealkit import Client

def test_create(dealkit_environment, dealkit_sandbox):
    with Client() as client:
        agent = client.agents.create(**ADA)
    assert dealkit_environment.agents == [agent] and dealkit_environment is dealkit_sandbox

def test_without_the_fixture():
    assert os.environ["DEALKIT_BASE_URL"] == "https://deals.example.com"
    assert os.environ["DEALKIT_SERVICE_KEY_FILE"] == "missing" and "DEALKIT_SERVICE_KEY" not in os.environ
"""
    run_tests(pytester, test, passed=2)


def test_processes_share_a_server(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    test = """
import pytest

@pytest.mark.parametrize("run", range(12))
def test_create(run, dealkit_client, dealkit_sandbox, dealkit_sandbox_session):
    agent = dealkit_client.agents.create(**ADA)
    assert agent.id == "a_1" and dealkit_sandbox.agents == [agent]
    dealkit_sandbox.insert_deal({"id": "mine", "status": f"OF {run}"})
    assert dealkit_client.deals.retrieve("mine").status == f"OF {run}" and len(dealkit_sandbox.requests) == 2
    assert dealkit_sandbox.url == dealkit_sandbox_session.url and dealkit_sandbox_session.agents == []
    dealkit_sandbox.fail_next(status=500, times=None)
"""
    with Sandbox(namespaces="test-*", admin_token="token") as server:
        monkeypatch.setenv("DEALKIT_SANDBOX_URL", server.url)
        monkeypatch.setenv("DEALKIT_SANDBOX_TOKEN", "token")
        monkeypatch.setenv("DEALKIT_SANDBOX_CA_FILE", "")
        run_tests(pytester, test, plugins=NO_PLUGINS.replace("\n", " -n 3\n"), passed=12)
        assert server.requests == server.agents == []


def test_one_sandbox_for_all_tests(pytester: pytest.Pytester) -> None:
    test = """
import pytest
from dealkit import Client

@pytest.fixture(scope="session")
def client(dealkit_sandbox_session):
    with Client(base_url=dealkit_sandbox_session.url, service_key=dealkit_sandbox_session.service_key) as client:
        yield client

@pytest.mark.parametrize("run", [1, 2, 3])
def test_create(run, client, dealkit_sandbox_session, dealkit_sandbox):
    assert client.agents.create(**ADA).id == f"a_{run}"
    assert len(dealkit_sandbox_session.agents) == run and dealkit_sandbox.agents == []
"""
    run_tests(pytester, test, passed=3)


@pytest.mark.parametrize("strict", [None, "false", "true"])
def test_strict(pytester: pytest.Pytester, strict: str | None) -> None:
    test = """
import pytest
from dealkit import UnprocessableEntityError

@pytest.fixture(params=["dealkit_sandbox", "dealkit_sandbox_session"])
def client(request, dealkit_client):
    sandbox = request.getfixturevalue(request.param)
    return dealkit_client.with_options(base_url=sandbox.url)

def test_a_typing_mistake(client):
    client.request("POST", "agents", json={**ADA, "phnoe": "+15555550100"})
"""
    if strict == "true":
        result = run_tests(pytester, test, "dealkit_strict = true", failed=2)
        result.stdout.fnmatch_lines(["*UnprocessableEntityError*unknown_field*"])
    else:
        run_tests(pytester, test, f"dealkit_strict = {strict}" if strict else "", passed=2)


ASYNC = """
async def test_create(dealkit_async_client, dealkit_sandbox):
    agent = await dealkit_async_client.agents.create(**ADA)
    assert dealkit_sandbox.agents == [agent]
"""


@pytest.mark.parametrize(
    ("plugins", "mark"),
    [
        pytest.param(f"{ASYNCIO}strict", "@pytest.mark.asyncio", id="pytest-asyncio"),
        pytest.param(f"{ASYNCIO}auto", "", id="pytest-asyncio in auto mode"),
        pytest.param(f"{ASYNCIO}strict", "@pytest.mark.anyio", id="anyio with pytest-asyncio"),
        pytest.param("addopts = -p no:asyncio", "@pytest.mark.anyio", id="anyio"),
    ],
)
def test_an_async_client(pytester: pytest.Pytester, plugins: str, mark: str) -> None:
    test = f"""
import pytest

@pytest.fixture
def anyio_backend():
    return "asyncio"

{mark}
{ASYNC}

{mark}
{ASYNC.replace("test_create", "test_again")}
"""
    run_tests(pytester, test, plugins=plugins, passed=2)


def test_an_async_client_without_any_other_plugin(pytester: pytest.Pytester) -> None:
    test = f"""
import asyncio
{ASYNC.replace("test_create", "create")}

def test_create(dealkit_async_client, dealkit_sandbox):
    asyncio.run(create(dealkit_async_client, dealkit_sandbox))
    asyncio.run(dealkit_async_client.deals.retrieve("d_1"))
"""
    run_tests(pytester, test, passed=1)


def test_fixtures_and_options_are_documented(pytester: pytest.Pytester) -> None:
    output = pytester.runpytest_subprocess("--fixtures", "-p", "no:cacheprovider").stdout.str()
    sandboxes = ("dealkit_sandbox", "dealkit_sandbox_session", "dealkit_environment")
    for name in (*sandboxes, "dealkit_client", "dealkit_async_client"):
        assert f"{name} " in output or f"{name} [session scope] " in output, name
    output = pytester.runpytest_subprocess("--help").stdout.str()
    assert "dealkit_strict (bool):" in output


def test_imports(pytester: pytest.Pytester) -> None:
    """Every pytest run loads the plugin, so it must not import dealkit.testing. That does not import pytest either."""
    test = "import sys\n\ndef test_nothing():\n    assert 'dealkit.testing' not in sys.modules\n"
    run_tests(pytester, test, passed=1)
    script = "import dealkit.testing, sys; sys.exit('pytest' in sys.modules)"
    assert pytester.run(sys.executable, "-c", script).ret == 0
