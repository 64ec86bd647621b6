"""A pytest plugin that puts a proxy between the tests and their sandboxes.

``DEALKIT_INTERMEDIARY`` names the proxy. Clients learn of it from the environment, as users' clients may.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from intermediaries import Intermediaries, missing_packages

import dealkit.testing

# Tests of messages that only appear without a proxy.
WITHOUT_PROXY = {"test_no_connection"}

_intermediaries: Intermediaries | None = None


class Sandbox(dealkit.testing.Sandbox):
    """A sandbox that is reached through a proxy."""

    __slots__ = ("_process", "intermediary")

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        assert _intermediaries is not None
        self.intermediary, self._process = _intermediaries.start(int(super().url.rpartition(":")[2]))

    @property
    def url(self) -> str:
        return self.intermediary.url

    def reload(self) -> None:
        """Makes the proxy reload its configuration, which closes its connections."""
        self._process.reload()

    def close_service(self) -> None:
        """Closes the service but not the proxy."""
        super().close()

    def close(self) -> None:
        self._process.stop()
        super().close()


def pytest_configure(config: pytest.Config) -> None:
    global _intermediaries
    if packages := missing_packages():
        raise pytest.UsageError(f"these Debian packages are needed: apt-get install {' '.join(packages)}")
    _intermediaries = Intermediaries(os.environ["DEALKIT_INTERMEDIARY"])
    os.environ["SSL_CERT_FILE"] = str(_intermediaries.certificates.ca_file)
    # Tests import the sandbox by this name.
    dealkit.testing.Sandbox = Sandbox  # type: ignore[misc]
    with dealkit.testing.Sandbox() as sandbox:
        proxy = sandbox.intermediary.proxy
    if proxy is not None:
        os.environ["HTTPS_PROXY"] = proxy


def pytest_unconfigure() -> None:
    if _intermediaries is not None:
        _intermediaries.close()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects tests that use no sandbox, and tests that a proxy would break."""
    here = config.rootpath / "bindings" / "network"

    def is_relevant(item: pytest.Item) -> bool:
        if here in item.path.parents:
            return True
        # Tests outside this folder configure no client certificate.
        if os.environ["DEALKIT_INTERMEDIARY"] == "nginx-client-cert" or item.name.partition("[")[0] in WITHOUT_PROXY:
            return False
        return bool({"sandbox", "dealkit_sandbox"} & {*getattr(item, "fixturenames", ())})

    deselected = [item for item in items if not is_relevant(item)]
    items[:] = [item for item in items if is_relevant(item)]
    config.hook.pytest_deselected(items=deselected)
