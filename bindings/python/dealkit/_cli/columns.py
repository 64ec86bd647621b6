"""Maps the columns of a table to the fields of an agent, and violations back to columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple, get_type_hints

from dealkit import AgentProfileParams, CreateAgentParams
from dealkit._cli.exits import Failed
from dealkit._cli.screen import safe
from dealkit._cli.table_file import Row, letters, listed

_PROFILE = "profile."
_METADATA = "profile.client_metadata."

FIELDS = (
    *(name for name in CreateAgentParams.__annotations__ if name != "profile"),
    *(f"{_PROFILE}{name}" for name in AgentProfileParams.__annotations__ if name != "client_metadata"),
)
"""The fields that a column can hold, besides `profile.client_metadata.` followed by any name."""

_ALL = (*FIELDS, f"{_METADATA}NAME")

_REQUIRED = tuple(name for name in FIELDS if name in CreateAgentParams.__required_keys__)

_YES_OR_NO = frozenset(f"{_PROFILE}{name}" for name, kind in get_type_hints(AgentProfileParams).items() if kind is bool)
_BOOLEANS = {"true": True, "false": False}


# Other names for fields, letters only. They only serve as hints: nothing goes to a field because of them.
_MEANT = {
    "mail": "email",
    "emailaddress": "email",
    "mailaddress": "email",
    "givenname": "first_name",
    "forename": "first_name",
    "surname": "last_name",
    "familyname": "last_name",
    "telephone": "phone",
    "tel": "phone",
    "phonenumber": "phone",
    "mobile": "phone",
    "mobilephone": "phone",
    "mobilenumber": "phone",
    "cell": "phone",
    "cellphone": "phone",
    "birthday": "date_of_birth",
    "birthdate": "date_of_birth",
    "dob": "date_of_birth",
    "photo": "image_url",
    "image": "image_url",
    "brokerage": "brokerage_id",
    "office": "office_id",
}


class Mistake(NamedTuple):
    """What is wrong with a row, or may be: it contains no values of the row."""

    row: int
    column: str
    kind: str
    """Which rule: mistakes of a kind in a column are shown as one."""
    text: str
    of_row: str = ""
    """What else there is to say of this row."""

    def __str__(self) -> str:
        text = f"{self.column}: {self.text}".removeprefix(": ")
        return f"{text} ({self.of_row})" if self.of_row else text


class Columns:
    """The columns of a table, each with its field, if it has one."""

    def __init__(self, header: Sequence[str], mapped: Sequence[str]) -> None:
        """Takes the header, and what the user says about it, as in `E-mail=email`."""
        self.header = header
        fields = [_field_named(name) for name in header]
        said: dict[int, str] = {}
        for one in mapped:
            # The name of a column may contain a =; that of a field does not.
            name, sign, field = (part.strip() for part in one.rpartition("="))
            if not sign:
                raise Failed('--map takes a column and a field, as in --map "E-mail=email"')
            if (known := _field_named(field)) is None:
                close = get_close_matches(field, FIELDS, 1)
                meant = f"Did you mean {close[0]}?" if close else f"The fields are: {', '.join(_ALL)}"
                raise Failed(f"--map: {safe(field)} is not a field of an agent. {meant}")
            at = self.index(name, "--map")
            if said.setdefault(at, known) != known:
                raise Failed(f"--map: column {safe(name)} cannot go to both {said[at]} and {known}; name one of them")
            fields[at] = known
        self.fields = fields
        """The field of each column, or None."""
        self._refuse_doubles()

    @property
    def missing(self) -> list[str]:
        """The fields that every agent needs and no column holds."""
        return [name for name in _REQUIRED if name not in self.fields]

    def index(self, name: str, option: str) -> int:
        """The index of a column that an option names."""
        found = [at for at, column in enumerate(self.header) if column == name]
        if len(found) != 1:
            if found:
                raise Failed(f"{option}: there is more than one column {safe(name)}; rename all but one")
            raise Failed(f"{option}: there is no column {safe(name)}; the columns are {listed(self.header)}")
        return found[0]

    def key_name(self, index: int) -> str:
        """The name of a column's keys in a ledger: that of the field, since tables name their columns as they like."""
        return self.fields[index] or self.header[index]

    def key_index(self, key: str | None) -> int:
        """The index of the column that identifies rows: the one that is named, or one that usually does."""
        if key is not None:
            return self.fields.index(key) if key in self.fields else self.index(key, "--key")
        return self.fields.index(next(field for field in ("profile.external_id", "email") if field in self.fields))

    def _refuse_doubles(self) -> None:
        for field in {*self.fields} - {None}:
            names = [name for name, of in zip(self.header, self.fields, strict=True) if of == field]
            if len(names) > 1:
                raise Failed(f"{len(names)} columns go to {field}: {', '.join(map(safe, names))}. Only one may")

    def shown(self) -> Iterator[tuple[str, str]]:
        """Each column and where it goes, for people."""
        for name, field in zip(self.header, self.fields, strict=True):
            meant = self._meant(name) if field is None else None
            hint = f"; if it holds {meant}, add {_option(name, meant)}" if meant else ""
            yield safe(name) or "(no name)", field or f"not sent{hint}"

    def options_for_missing(self) -> str:
        """The options that would map columns to the required fields that none holds, as far as the names tell."""
        options = []
        for field in self.missing:
            meant = [
                name for name, of in zip(self.header, self.fields, strict=True) if not of and self._meant(name) == field
            ]
            options.append(_option(meant[0] if len(meant) == 1 else "COLUMN", field))
        return " ".join(options)

    def _meant(self, name: str) -> str | None:
        """The field that a column that is not sent may be meant to hold, if no other column holds it."""
        plain = letters(name)
        meant = _MEANT.get(plain) or next(
            (field for field in FIELDS if letters(field.removeprefix(_PROFILE)) == plain), None
        )
        return None if meant in self.fields else meant

    def name_of(self, field: str) -> str | None:
        """The column that holds a field."""
        return self.header[self.fields.index(field)] if field in self.fields else None

    def agent(self, row: Row) -> dict[str, Any]:
        """The arguments of a create. An empty cell is left out."""
        agent: dict[str, Any] = {"profile": {}}
        for cell, field in zip(row.cells, self.fields, strict=False):
            if not cell or field is None:
                continue
            if field.startswith(_METADATA):
                agent["profile"].setdefault("client_metadata", {})[field.removeprefix(_METADATA)] = cell
            elif field.startswith(_PROFILE):
                value = _BOOLEANS.get(cell.lower(), cell) if field in _YES_OR_NO else cell
                agent["profile"][field.removeprefix(_PROFILE)] = value
            else:
                agent[field] = cell
        return agent

    def is_yes_or_no(self, column: str) -> bool:
        """Whether a column holds booleans."""
        return any(
            safe(name) == column and field in _YES_OR_NO for name, field in zip(self.header, self.fields, strict=True)
        )

    def column_of(self, pointer: str) -> str:
        """The name of the column that a violation is about, or of the field if no column holds it."""
        # A pointer has the names that are sent: clientMetadata is client_metadata.
        sent = letters(pointer.replace("~1", "/"))
        for name, field in zip(self.header, self.fields, strict=True):
            if field is not None and letters(field) == sent:
                return safe(name)
        return next((field for field in FIELDS if letters(field) == sent), "")


def _field_named(name: str) -> str | None:
    """The field with the name of a column, in any letter case and with spaces or hyphens for underscores."""
    if name.lower().startswith(_METADATA) and len(name) > len(_METADATA):
        return _METADATA + name[len(_METADATA) :]
    plain = re.sub(r"[\s-]+", "_", name.strip().lower())
    return plain if plain in FIELDS else None


def _option(name: str, field: str) -> str:
    """The option that maps a column to a field."""
    return f'--map "{safe(name)}={field}"'
