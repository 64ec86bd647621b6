"""Substitutes the stubs for the native module, so that autodoc reads the package without compiling anything."""

from __future__ import annotations
import __future__

import builtins
import sys
from importlib.machinery import SourceFileLoader
from inspect import Parameter, Signature
from pathlib import Path
from types import ModuleType
from typing import Any, get_args, get_origin

from docutils import nodes
from sphinx.addnodes import pending_xref

PACKAGE = Path(__file__).parents[2] / "bindings" / "python"
STUBS = PACKAGE / "dealkit" / "_native.pyi"


def load(version: str) -> None:
    # Leaves no bytecode next to the sources.
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(PACKAGE))
    native = ModuleType("dealkit._native")
    native.__file__ = str(STUBS)
    # autodoc asks the loader for the source, to determine the order of the members.
    native.__loader__ = SourceFileLoader(native.__name__, str(STUBS))
    # The stubs only declare the types of these.
    native.__version__ = version  # type: ignore[attr-defined]
    native.VARIANTS = ()  # type: ignore[attr-defined]
    # Registered before the code runs, because modules that it imports import it.
    sys.modules[native.__name__] = native
    future = __future__.annotations.compiler_flag
    code = compile(STUBS.read_text("utf-8"), str(STUBS), "exec", flags=future, dont_inherit=True)
    exec(code, native.__dict__)
    for model in [*native._Model.__subclasses__(), native._Model]:
        with_constructor(model, native.__dict__)
    # The stub says nothing of what only dealkit's own code calls.
    native.__getattr__ = lambda name: lambda *_: None  # type: ignore[method-assign]
    # The stub has all of each model, to which the package would add what follows from its fields.
    native._Model.__subclasses__ = list


def with_constructor(model: Any, names: dict[str, Any]) -> None:
    """What type checkers make of the attributes of a model: its constructor, and the type that each is read as."""
    parameters = []
    for name, text in {**model.__annotations__, **names["_Model"].__annotations__}.items():
        given = read = eval(text, names)
        if get_origin(given) is names["_Attribute"]:
            given, read = get_args(given)
        if name in model.__annotations__:
            model.__annotations__[name] = read
        default = None if hasattr(model, name) else Parameter.empty
        parameters.append(Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=given))
        if name in vars(model):
            delattr(model, name)
    model.__signature__ = Signature(parameters)


def without_constructor(
    _app: Any, what: str, _name: str, _value: Any, _options: Any, signature: str | None, _returns: str | None
) -> tuple[str, None] | None:
    """Nobody makes exceptions, or classes shown with empty parentheses, by hand, so their signature is left out."""
    return ("", None) if what == "exception" or (what == "class" and signature == "()") else None


def without_private_bases(_app: Any, _name: str, _of: Any, _options: Any, bases: list[Any]) -> None:
    """An exception's private base is of no use to readers."""
    for at, base in enumerate(bases):
        if isinstance(base, type) and issubclass(base, Exception) and base.__name__.startswith("_"):
            bases[at] = base.__base__


def without_builtins(_app: Any, document: nodes.document) -> None:
    """A reference to a built-in such as the type `type` does not mean an attribute of that name."""
    for reference in list(document.findall(pending_xref)):
        if reference.get("refdomain") == "py" and hasattr(builtins, reference["reftarget"]):
            reference.replace_self(nodes.Text(reference.children[0].astext()))


def setup(app: Any) -> dict[str, bool]:
    load(app.config.release)
    app.connect("autodoc-process-signature", without_constructor)
    app.connect("autodoc-process-bases", without_private_bases)
    app.connect("doctree-read", without_builtins)
    # Napoleon takes text before a colon in an attribute's docstring for its type, so these docstrings are kept from it.
    kept: dict[str, list[str]] = {}

    def keep(_app: Any, what: str, name: str, _value: Any, _options: Any, lines: list[str]) -> None:
        if what in ("attribute", "property"):
            kept[name] = lines[:]
            lines.clear()

    def put_back(_app: Any, what: str, name: str, _value: Any, _options: Any, lines: list[str]) -> None:
        if what in ("attribute", "property"):
            lines[:] = kept.pop(name)

    app.connect("autodoc-process-docstring", keep, priority=499)
    app.connect("autodoc-process-docstring", put_back, priority=501)
    return {"parallel_read_safe": True}
