"""The pytest plugin, which pytest loads automatically if dealkit is installed.

The fixtures ``dealkit_sandbox``, ``dealkit_client`` and ``dealkit_async_client`` are available in every test.
``dealkit_environment`` is for programs that make their own clients, and ``dealkit_sandbox_session`` is one sandbox for
all tests. With ``dealkit_strict = true`` in pytest's configuration, the sandboxes reject undocumented fields.

If ``DEALKIT_SANDBOX_URL`` is set, the sandboxes are namespaces on the server at that URL instead of servers in this
process. ``DEALKIT_SANDBOX_TOKEN`` is the server's token, if it has one.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dealkit import AsyncClient, Client
    from dealkit.testing import Sandbox


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option ``dealkit_strict`` to pytest's configuration file."""
    parser.addini(
        "dealkit_strict",
        "whether the sandboxes of dealkit's fixtures reject undocumented fields, to catch typos",
        type="bool",
        default=False,
    )


def _start_sandbox(config: pytest.Config) -> Sandbox:
    from dealkit.testing import Sandbox

    if url := os.environ.get("DEALKIT_SANDBOX_URL"):
        token, ca_file = (os.environ.get(f"DEALKIT_SANDBOX_{name}") or None for name in ("TOKEN", "CA_FILE"))
        return Sandbox.attach(url, admin_token=token, ca_file=ca_file, strict=config.getini("dealkit_strict"))
    return Sandbox(strict=config.getini("dealkit_strict"))


@pytest.fixture
def dealkit_sandbox(pytestconfig: pytest.Config) -> Iterator[Sandbox]:
    """A sandbox with the sample deals d_1, d_2 and d_3, separate for each test."""
    with _start_sandbox(pytestconfig) as sandbox:
        yield sandbox


@pytest.fixture
def dealkit_environment(dealkit_sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """The test's own sandbox, ``dealkit_sandbox``, to which the environment variables lead: ``Client()`` calls it."""
    monkeypatch.setenv("DEALKIT_BASE_URL", dealkit_sandbox.url)
    monkeypatch.setenv("DEALKIT_SERVICE_KEY", dealkit_sandbox.service_key)
    monkeypatch.delenv("DEALKIT_SERVICE_KEY_FILE", raising=False)
    return dealkit_sandbox


@pytest.fixture(scope="session")
def dealkit_sandbox_session(pytestconfig: pytest.Config) -> Iterator[Sandbox]:
    """One sandbox with the sample deals for all tests. Changes by earlier tests remain."""
    with _start_sandbox(pytestconfig) as sandbox:
        yield sandbox


@pytest.fixture
def dealkit_client(dealkit_sandbox: Sandbox) -> Iterator[Client]:
    """A client for the test's own sandbox, ``dealkit_sandbox``."""
    with dealkit_sandbox.client() as client:
        yield client


@pytest.fixture
def dealkit_async_client(dealkit_sandbox: Sandbox) -> Iterator[AsyncClient]:
    """An async client for the test's own sandbox, ``dealkit_sandbox``.

    It is created and closed without an event loop, so it works with pytest-asyncio, with anyio's plugin on its
    ``asyncio`` backend, and in a test that calls ``asyncio.run``.
    """
    client = dealkit_sandbox.async_client()
    yield client
    # Does what `aclose` does, without the event loop that `aclose` needs.
    client._session.client = None
