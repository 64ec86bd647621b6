"""A deal for people to read: every field that it has, in sections, with dates and numbers written out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from dealkit import Deal, fields
from dealkit._cli.json_text import json_text
from dealkit._cli.screen import bold, safe, table

_INDENT = "  "


def view(deal: Deal) -> Iterator[str]:
    """The lines."""
    yield from _section("Deal", deal, "")


def _section(title: str, model: Any, indent: str) -> Iterator[str]:
    """A model: its heading, its values, one per line, and then its nested models."""
    yield indent + bold(safe(f"{title} {model.id}") if getattr(model, "id", None) else title)
    inner = indent + _INDENT
    values = [(_label(name), value) for name, value in _parts(model) if _is_plain(value) and name != "id"]
    yield from table([(label, _text(value)) for label, value in values], indent=inner)
    for name, value in _parts(model):
        if not _is_plain(value):
            yield ""
            yield from _nested(_label(name), value, indent if indent == "" and title == "Deal" else inner)


def _nested(title: str, value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield indent + bold(title)
        yield from table([(safe(name), _text(one)) for name, one in value.items()], indent=indent + _INDENT)
    elif not isinstance(value, tuple):
        yield from _section(title, value, indent)
    elif any(not _is_plain(part) for model in value for _, part in _parts(model)):
        for at, model in enumerate(value):
            if at:
                yield ""
            yield from _section(_singular(title), model, indent)
    else:
        yield indent + bold(title)
        yield from _rows(value, indent + _INDENT)


def _rows(models: tuple[Any, ...], indent: str) -> Iterator[str]:
    """Models that hold only values, as a table with the columns that any of them has."""
    found = [dict(_parts(model)) for model in models]
    # In the order of the fields, which need not be the order in which the models first have them.
    order = [field.name for field in fields(models[0])]
    names = [name for name in order if any(name in one for one in found)]
    right = frozenset(
        at for at, name in enumerate(names) if all(isinstance(one.get(name), int | Decimal | None) for one in found)
    )
    head = tuple(_label(name) for name in names)
    body = [tuple(_text(one[name]) if name in one else "" for name in names) for one in found]
    yield from table([head, *body], indent=indent, right=right)


def _parts(model: Any) -> Iterator[tuple[str, Any]]:
    """The attributes that have a value, and undocumented fields."""
    for field in fields(model):
        value = getattr(model, field.name)
        if value is not None and value not in ((), {}, ""):
            yield field.name, value
    if model.extra:
        yield "undocumented_fields", model.extra


def _is_plain(value: Any) -> bool:
    return not isinstance(value, tuple | Mapping) and not hasattr(value, "to_json")


def _label(name: str) -> str:
    """`net_agent_commission` as `Net agent commission`, `line1` as `Line 1`."""
    words = re.sub(r"(?<=[a-z])(?=[0-9])", " ", name.replace("_", " "))
    return words[:1].upper() + words[1:]


def _singular(title: str) -> str:
    return title.removesuffix("s")


def _text(value: Any) -> str:
    """A value for people to read; numbers keep all their digits."""
    match value:
        case datetime():
            moment = value.astimezone(UTC)
            return f"{_day(moment)}, {moment:%H:%M:%S} UTC"
        case date():
            return _day(value)
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case Decimal():
            return f"{value:,f}"
        case str():
            return safe(value)
    return safe(json_text(value))


def _day(day: date) -> str:
    # Not strftime's month name, which depends on the machine's locale.
    months = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
    return f"{day.day} {months[day.month - 1]} {day.year:04}"
