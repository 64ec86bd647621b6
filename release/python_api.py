"""Writes down the public names of the Python package with their signatures, as the Rust crates have theirs.

Usage: python release/python_api.py >release/api/python.txt
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator

import dealkit


def signature(value: object) -> str:
    try:
        return str(inspect.signature(value))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return ""


class Api:
    """The names of all public modules, each object described where it comes first."""

    def __init__(self) -> None:
        public = (found.name for found in pkgutil.iter_modules(dealkit.__path__) if not found.name.startswith("_"))
        modules = map(importlib.import_module, ["dealkit", *(f"dealkit.{name}" for name in sorted(public))])
        self.names = [
            (f"{module.__name__}.{name}", getattr(module, name))
            for module in modules
            for name in sorted(getattr(module, "__all__", ()))
        ]
        self.first = {id(value): path for path, value in reversed(self.names) if callable(value)}

    def lines(self) -> Iterator[str]:
        for path, value in self.names:
            first = self.first.get(id(value), path)
            if first != path:
                yield f"{path} is {first}"
            elif isinstance(value, type):
                bases = ", ".join(base.__name__ for base in value.__bases__)
                yield f"class {path}({bases}){signature(value)}"
                yield from self.members(path, value)
            else:
                yield f"def {path}{signature(value)}" if callable(value) else f"value {path}: {type(value).__name__}"
        # The calls of every client; their classes have no public names.
        calls = importlib.import_module("dealkit._client.resources")
        yield from self.members("client.agents", calls.AgentCalls)
        yield from self.members("client.deals", calls.DealCalls)

    def members(self, path: str, owner: type) -> Iterator[str]:
        """What a class has of its own, or inherits from one of ours that is not public."""
        for found in inspect.classify_class_attrs(owner):
            of = found.defining_class
            is_inherited = of is not owner and (id(of) in self.first or not of.__module__.startswith("dealkit"))
            if not found.name.startswith("_") and not is_inherited:
                value = getattr(owner, found.name)
                kind = found.kind.removesuffix(" method")
                yield f"{kind} {path}.{found.name}{signature(value) if callable(value) else ''}"


if __name__ == "__main__":
    print("\n".join(Api().lines()))
