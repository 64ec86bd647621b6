"""A pytest plugin that sends the tests' requests to the sandbox through an intermediary.

``DEALKIT_INTERMEDIARY`` names the intermediary. Clients find its URL in environment variables, as users' clients can.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from intermediaries import Intermediaries, missing

import dealkit.testing

# Tests of messages that appear only without an intermediary.
DIRECT = {"test_no_connection"}

_of_kind: Intermediaries | None = None


class Sandbox(dealkit.testing.Sandbox):
    """A sandbox behind an intermediary."""

    __slots__ = ("_process", "intermediary")

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        assert _of_kind is not None
        self.intermediary, self._process = _of_kind.start(int(super().url.rpartition(":")[2]))

    @property
    def url(self) -> str:
        return self.intermediary.url

    def reload(self) -> None:
        """Makes the intermediary reload its configuration, which closes its connections."""
        self._process.reload()

    def close_service(self) -> None:
        """Closes the service but not the intermediary."""
        super().close()

    def close(self) -> None:
        self._process.stop()
        super().close()


def pytest_configure(config: pytest.Config) -> None:
    global _of_kind
    if packages := missing():
        raise pytest.UsageError(f"these Debian packages are needed: apt-get install {' '.join(packages)}")
    _of_kind = Intermediaries(os.environ["DEALKIT_INTERMEDIARY"])
    os.environ["SSL_CERT_FILE"] = str(_of_kind.certificates.ca_file)
    # Tests import it under this name.
    dealkit.testing.Sandbox = Sandbox  # type: ignore[misc]
    with dealkit.testing.Sandbox() as sandbox:
        proxy = sandbox.intermediary.proxy
    if proxy is not None:
        os.environ["HTTPS_PROXY"] = proxy


def pytest_unconfigure() -> None:
    if _of_kind is not None:
        _of_kind.close()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects tests without the sandbox, and tests that an intermediary does not affect."""
    here = config.rootpath / "bindings" / "network"

    def concerned(item: pytest.Item) -> bool:
        if here in item.path.parents:
            return True
        # The clients of other tests have no certificate.
        if os.environ["DEALKIT_INTERMEDIARY"] == "nginx-client-cert" or item.name.partition("[")[0] in DIRECT:
            return False
        return bool({"sandbox", "dealkit_sandbox"} & {*getattr(item, "fixturenames", ())})

    left_out = [item for item in items if not concerned(item)]
    items[:] = [item for item in items if concerned(item)]
    config.hook.pytest_deselected(items=left_out)
