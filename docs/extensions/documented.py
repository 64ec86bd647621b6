"""Warns about each public name of the Python package that no page of the reference documents."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from sphinx.util import logging

MODULES = [
    "dealkit",
    "dealkit.arrow",
    "dealkit.enums",
    "dealkit.ledger",
    "dealkit.params",
    "dealkit.testing",
]


def check(_app: Any, env: Any) -> None:
    documented = env.get_domain("py").objects
    for module in MODULES:
        for name in import_module(module).__all__:
            # A name of one module may be documented under another module that also exports it.
            if name != "__version__" and not any(f"{shown}.{name}" in documented for shown in MODULES):
                logging.getLogger(__name__).warning("%s.%s stands on no page of the reference", module, name)


def setup(app: Any) -> dict[str, bool]:
    app.connect("env-check-consistency", check)
    return {"parallel_read_safe": True}
