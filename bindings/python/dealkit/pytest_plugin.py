"""The pytest plugin: loaded by itself wherever dealkit is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dealkit.testing import Sandbox


@pytest.fixture
def dealkit_sandbox() -> Iterator[Sandbox]:
    """A running sandbox server with the sample deals d_1, d_2 and d_3; every test has its own."""
    from dealkit.testing import Sandbox

    with Sandbox() as sandbox:
        yield sandbox
