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
    # Do not write bytecode next to the sources.
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(PACKAGE))
    native = ModuleType("dealkit._native")
    native.__file__ = str(STUBS)
    # autodoc reads the source through the loader, to determine the order of the members.
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
    native.__getattr__ = find_private_function  # type: ignore[method-assign]
    # The stub already declares the methods that the package adds to the models.
    native._Model.__subclasses__ = list


def find_private_function(name: str) -> Any:
    """Returns a function in place of each that only dealkit's own code calls, because the stub lacks these."""
    if not name.islower():
        # `dealkit` looks for its classes here first.
        raise AttributeError(name)
    return lambda *_: None


def with_constructor(model: Any, names: dict[str, Any]) -> None:
    """Replaces the attributes of a model, as type checkers do, by its constructor and the types of reading."""
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
    # The pages document the method once, as inherited from the base class.
    for name in {"replace", "__replace__"} & vars(model).keys():
        delattr(model, name)


def without_constructor(
    _app: Any, what: str, _name: str, _value: Any, _options: Any, signature: str | None, _returns: str | None
) -> tuple[str, None] | None:
    """Removes the signatures of exceptions, and of classes with empty parentheses, because programs do not construct them."""
    return ("", None) if what == "exception" or (what == "class" and signature == "()") else None


def without_private_bases(_app: Any, _name: str, _of: Any, _options: Any, bases: list[Any]) -> None:
    """Removes the private bases of exceptions."""
    for at, base in enumerate(bases):
        if isinstance(base, type) and issubclass(base, Exception) and base.__name__.startswith("_"):
            bases[at] = base.__base__


def without_builtins(_app: Any, document: nodes.document) -> None:
    """Ignores references to built-ins such as `type` that an attribute of the same name would resolve."""
    for reference in list(document.findall(pending_xref)):
        if reference.get("refdomain") == "py" and hasattr(builtins, reference["reftarget"]):
            reference.replace_self(nodes.Text(reference.children[0].astext()))


def setup(app: Any) -> dict[str, bool]:
    load(app.config.release)
    app.connect("autodoc-process-signature", without_constructor)
    app.connect("autodoc-process-bases", without_private_bases)
    app.connect("doctree-read", without_builtins)
    # Hide attributes' docstrings from Napoleon, which would take text before a colon for the type.
    hidden: dict[str, list[str]] = {}

    def hide_docstring(_app: Any, what: str, name: str, _value: Any, _options: Any, lines: list[str]) -> None:
        if what in ("attribute", "property"):
            hidden[name] = lines[:]
            lines.clear()

    def restore_docstring(_app: Any, what: str, name: str, _value: Any, _options: Any, lines: list[str]) -> None:
        if what in ("attribute", "property"):
            lines[:] = hidden.pop(name)

    app.connect("autodoc-process-docstring", hide_docstring, priority=499)
    app.connect("autodoc-process-docstring", restore_docstring, priority=501)
    return {"parallel_read_safe": True}
