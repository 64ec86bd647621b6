"""Models for people: as one line, and as trees for notebooks. Both get passed on, so personal data is not shown."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from dealkit._native import _Model

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    # A line, and what is below it.
    Node = tuple[str, list["Node"]]

# A tree of more lines is folded.
_MOST = 40


def line(model: Any) -> str:
    """The repr of a model: the attributes that have a value."""
    attributes = ", ".join(
        f"{name}={_in_line(value) if is_shown else _hidden(value)}" for name, value, is_shown in _attributes(model)
    )
    return f"{type(model).__name__}({attributes})"


def tree(model: Any) -> str:
    """The attributes that have a value, one a line, for IPython."""
    root = _of_model(model)
    return "\n".join(_lines(root, _unfolded(root), ""))


def html(model: Any) -> str:
    """The same for notebooks, which can unfold the rest."""
    root = _of_model(model)
    return _details(root, _unfolded(root))


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


def _of_model(model: Any) -> Node:
    return type(model).__name__, [_node(*attribute) for attribute in _attributes(model)]


def _node(name: str, value: Any, is_shown: bool) -> Node:
    if not is_shown:
        return f"{name}: {_hidden(value)}", []
    if isinstance(value, tuple):
        return f"{name}: {len(value)}", [_of_model(one) for one in value]
    if isinstance(value, _Model):
        kind, children = _of_model(value)
        return f"{name}: {kind}", children
    return f"{name}: {_in_line(value) if isinstance(value, str | list) else value}", []


def _unfolded(root: Node) -> set[int]:
    """Which nodes are unfolded, by their ids: level by level, as long as there is room."""
    unfolded, count, nodes = set(), 1, [root]
    for node in nodes:
        if node is root or count + len(node[1]) <= _MOST:
            unfolded.add(id(node))
            count += len(node[1])
            nodes += node[1]
    return unfolded


def _lines(node: Node, unfolded: set[int], indent: str) -> Iterator[str]:
    label, children = node
    is_folded = children and id(node) not in unfolded
    yield f"{indent}{label}{' …' if is_folded else ''}"
    for child in () if is_folded else children:
        yield from _lines(child, unfolded, f"{indent}    ")


def _details(node: Node, unfolded: set[int]) -> str:
    label, children = node
    if not children:
        return f"<div>{escape(label)}</div>"
    below = "".join(_details(child, unfolded) for child in children)
    return (
        f"<details{' open' if id(node) in unfolded else ''}><summary>{escape(label)}</summary>"
        f'<div style="margin-left: 2em">{below}</div></details>'
    )
