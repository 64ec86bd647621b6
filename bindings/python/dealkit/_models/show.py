"""Models for people: as one line, and as tables for notebooks. Both get passed on, so personal data is not shown."""

from __future__ import annotations

from html import escape

from dealkit._native import _Model

# For type checkers only: importing typing takes longer than importing all of dealkit.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

_CELL = 'style="text-align: left; vertical-align: top"'


def line(model: Any) -> str:
    """The repr of a model: the attributes that have a value."""
    attributes = ", ".join(
        f"{name}={_in_line(value) if is_shown else _hidden(value)}" for name, value, is_shown in _attributes(model)
    )
    return f"{type(model).__name__}({attributes})"


def lines(model: Any, width: int) -> str:
    """A few lines of this width at most, for IPython: what a model holds is folded."""
    parts = [
        f"{name}={_folded(value) if is_shown else _hidden(value)}, " for name, value, is_shown in _attributes(model)
    ]
    text = f"{type(model).__name__}("
    indent = len(text)
    room = width - indent
    for part in parts:
        if len(part) > room < width - indent:
            text = f"{text.rstrip()}\n{' ' * indent}"
            room = width - indent
        text += part
        room -= len(part)
    return f"{text.removesuffix(', ')})"


def table(model: Any) -> str:
    """The attributes that have a value, as an HTML table."""
    rows = "".join(
        f"<tr><th {_CELL}>{escape(name)}</th>"
        f"<td {_CELL}>{_in_table(value) if is_shown else escape(_hidden(value))}</td></tr>"
        for name, value, is_shown in _attributes(model)
    )
    return f"<table><caption>{escape(type(model).__name__)}</caption><tbody>{rows}</tbody></table>"


def _attributes(model: Any) -> Iterator[tuple[str, Any, bool]]:
    """Each attribute that has a value, and whether that is shown, which the core decides."""
    extra = {**model.extra}
    unreadable = []
    for name, wire, _, _, show, _ in model.__dealkit_fields__:
        value = getattr(model, name)
        if extra.pop(wire, None) is not None:
            unreadable.append(name)
        elif value is not None and value != () and value != {}:
            yield name, value, show == "shown"
    if extra:
        yield "extra", extra, False
    if unreadable:
        yield "unreadable", unreadable, True


def _hidden(value: Any) -> str:
    return f"<{len(value)} hidden>" if hasattr(value, "items") else "<hidden>"


def _in_line(value: Any) -> str:
    # A role is shown as its text.
    return repr(str(value)) if isinstance(value, str) else repr(value)


def _folded(value: Any) -> str:
    if isinstance(value, tuple):
        return f"<{len(value)}>"
    if hasattr(value, "isoformat"):
        return value.isoformat()  # type: ignore[no-any-return]
    return f"<{type(value).__name__}>" if isinstance(value, _Model) else _in_line(value)


def _in_table(value: Any) -> str:
    if isinstance(value, tuple):
        return _many(value)
    return table(value) if isinstance(value, _Model) else escape(str(value))


def _many(models: Iterable[Any]) -> str:
    models = tuple(models)
    tables = "".join(table(model) for model in models)
    return f"<details><summary>{len(models)}</summary>{tables}</details>"
