"""The repr of models: one line without personal data, because reprs end up in logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


def format_model(model: Any) -> str:
    """Formats a model's repr with the attributes that have a value."""
    attributes = ", ".join(
        f"{name}={_format_value(value) if is_shown else _format_hidden(value)}"
        for name, value, is_shown in _iterate_attributes(model)
    )
    return f"{type(model).__name__}({attributes})"


def _iterate_attributes(model: Any) -> Iterator[tuple[str, Any, bool]]:
    """Yields the name and value of each attribute that has a value, and whether the value may be shown. The native core
    defines which fields may be shown.
    """
    extra = {**model.extra}
    unreadable_names = []
    for name, wire_name, _, _, visibility, _ in model.__dealkit_fields__:
        value = getattr(model, name)
        if extra.pop(wire_name, None) is not None:
            unreadable_names.append(name)
        elif value is not None and value != () and value != {}:
            yield name, value, visibility == "shown"
    if extra:
        yield "extra", extra, False
    if unreadable_names:
        yield "unreadable", unreadable_names, True


def _format_hidden(value: Any) -> str:
    return f"<{len(value)} hidden>" if hasattr(value, "items") else "<hidden>"


def _format_value(value: Any) -> str:
    # Shows a role as its string.
    return repr(str(value)) if isinstance(value, str) else repr(value)
