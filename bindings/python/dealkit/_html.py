"""Models as tables, for notebooks."""

from collections.abc import Iterable
from html import escape
from typing import Any

_CELL = 'style="text-align: left; vertical-align: top"'


def table(model: Any) -> str:
    """The attributes of a model as a table. What is personal is not shown: notebooks travel."""
    rows = "".join(
        f"<tr><th {_CELL}>{escape(name)}</th><td {_CELL}>{_value(getattr(model, name), show)}</td></tr>"
        for name, _, _, _, show, _ in model.__dealkit_fields__
        if not _is_nothing(getattr(model, name))
    )
    if model.extra:
        rows += f"<tr><th {_CELL}>extra</th><td {_CELL}>{_hidden(len(model.extra))}</td></tr>"
    return f"<table><caption>{escape(type(model).__name__)}</caption><tbody>{rows}</tbody></table>"


def _is_nothing(value: object) -> bool:
    return value is None or value == () or value == {}


def _hidden(count: int | None = None) -> str:
    what = "hidden" if count is None else f"{count} hidden"
    return f"<i>{what}</i>"


def _value(value: Any, show: str) -> str:
    if show == "hidden":
        return _hidden(len(value)) if hasattr(value, "items") else _hidden()
    if isinstance(value, tuple):
        return _many(value)
    if hasattr(value, "__dealkit_fields__"):
        return table(value)
    return escape(str(value))


def _many(models: Iterable[Any]) -> str:
    models = tuple(models)
    tables = "".join(table(model) for model in models)
    return f"<details><summary>{len(models)}</summary>{tables}</details>"
