"""Models for people, on one line. It gets passed on, so personal data is not shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


def line(model: Any) -> str:
    """The repr of a model: the attributes that have a value."""
    attributes = ", ".join(
        f"{name}={_in_line(value) if is_shown else _hidden(value)}" for name, value, is_shown in _attributes(model)
    )
    return f"{type(model).__name__}({attributes})"


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
