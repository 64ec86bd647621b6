"""The repr of models, and their trees in notebooks and terminals. All show the same values and no personal data, because
they end up in logs and in saved notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


def format_model(model: Any) -> str:
    """Formats a model's repr on one line, with the attributes that have a value."""
    attributes = ", ".join(f"{name}={value!r}" for name, value in list_shown_attributes(model))
    return f"{type(model).__name__}({attributes})"


def list_shown_attributes(model: Any) -> Iterator[tuple[str, Any]]:
    """Yields the name and value of each attribute that has a value. An object whose repr is ``<hidden>`` stands for a
    value that must not be shown.
    """
    for name, value, is_shown in _iterate_attributes(model):
        if not is_shown:
            yield name, _Hidden(value)
        else:
            # Shows a role as its string.
            yield name, str(value) if isinstance(value, str) else value


class _Hidden:
    """Stands for a value that must not be shown. Does not hold the value."""

    __slots__ = ("_text",)

    def __init__(self, value: Any) -> None:
        self._text = f"<{len(value)} hidden>" if hasattr(value, "items") else "<hidden>"

    def __repr__(self) -> str:
        return self._text


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


def print_tree(model: Any, printer: Any) -> None:
    """Prints a model on IPython's printer, with each attribute on a line of its own."""
    indentation = 4
    attributes = [*list_shown_attributes(model)]
    printer.begin_group(indentation, f"{type(model).__name__}(")
    for name, value in attributes:
        printer.break_()
        printer.text(f"{name}=")
        printer.pretty(value)
        printer.text(",")
    printer.end_group(indentation)
    if attributes:
        printer.break_()
    printer.text(")")


def format_html(model: Any) -> str:
    """Formats a model as a tree in HTML, whose nested models can be expanded."""
    return f'<div style="font-family: monospace">{_format_html_model(type(model).__name__, model, " open")}</div>'


def _format_html_model(label: str, model: Any, is_open: str = "") -> str:
    rows = "".join(_format_html_value(name, value) for name, value in list_shown_attributes(model))
    return _format_html_details(label, rows, is_open)


def _format_html_value(name: str, value: Any) -> str:
    if hasattr(value, "__dealkit_fields__"):
        return _format_html_model(f"{name}: {type(value).__name__}", value)
    if isinstance(value, tuple):
        items = "".join(_format_html_value(str(index), item) for index, item in enumerate(value))
        return _format_html_details(f"{name}: {len(value)}", items)
    return f"<div>{_escape(name)}: {_escape(str(value))}</div>"


def _format_html_details(label: str, content: str, is_open: str = "") -> str:
    return (
        f"<details{is_open}><summary>{_escape(label)}</summary>"
        f'<div style="margin-left: 1.5em">{content}</div></details>'
    )


def _escape(text: str) -> str:
    # Imported here, because only notebooks need it.
    from html import escape

    return escape(text)
