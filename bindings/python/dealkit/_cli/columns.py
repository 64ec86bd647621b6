"""Maps the columns of a table to the fields of an agent, and violations back to columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any

from dealkit import AgentProfileParams, CreateAgentParams
from dealkit._cli.exits import Failed
from dealkit._cli.screen import safe
from dealkit._cli.tables import letters, listed
from dealkit._cli.values import Values

_PROFILE = "profile."
_METADATA = "profile.client_metadata."

FIELDS = (
    *(name for name in CreateAgentParams.__annotations__ if name != "profile"),
    *(f"{_PROFILE}{name}" for name in AgentProfileParams.__annotations__ if name != "client_metadata"),
)
"""The fields that a column can hold, besides `profile.client_metadata.` followed by any name."""

ALL_FIELDS = (*FIELDS, f"{_METADATA}NAME")

_REQUIRED = tuple(name for name in FIELDS if name in CreateAgentParams.__required_keys__)

# What else offices call a field, letters only. It only serves as a hint: nothing goes to a field because of it.
_ALSO_CALLED = {
    "email": "mail emailaddress mailaddress emailadresse mailadresse",
    "first_name": "givenname forename vorname",
    "last_name": "surname familyname name nachname familienname",
    "phone": "telephone tel phonenumber mobile mobilephone mobilenumber cell cellphone telefon telefonnummer handy mobil",
    "date_of_birth": "birthday birthdate dob geburtsdatum geburtstag geboren gebdatum",
    "role": "rolle funktion position",
    "image_url": "photo image foto bild",
    "brokerage_id": "brokerage",
    "office_id": "office büro",
}


class Columns:
    """The columns of a table, each with its field, if it has one."""

    def __init__(self, header: Sequence[str], mapped: Sequence[str], values: Values) -> None:
        """Takes the header, and what the user says about it, as in `E-mail=email`."""
        self.header = header
        self.values = values
        fields = [_field_named(name) for name in header]
        said: dict[int, str] = {}
        for one in mapped:
            # The name of a column may contain a =; that of a field does not.
            name, sign, field = (part.strip() for part in one.rpartition("="))
            if not sign:
                raise Failed('--map takes a column and a field, as in --map "E-mail=email"')
            known = field_said(field, "--map")
            at = self.index(name, "--map")
            if said.setdefault(at, known) != known:
                raise Failed(f"--map: column {safe(name)} cannot go to both {said[at]} and {known}; name one of them")
            fields[at] = known
        self.fields = fields
        """The field of each column, or None."""
        for double in {*fields} - {None}:
            names = [name for name, of in zip(header, fields, strict=True) if of == double]
            if len(names) > 1:
                raise Failed(f"{len(names)} columns go to {double}: {', '.join(map(safe, names))}. Only one may")

    @property
    def missing(self) -> list[str]:
        """The fields that every agent needs and nothing holds."""
        return [name for name in _REQUIRED if name not in self.fields and name not in self.values.constants]

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
        usual = (field for field in ("profile.external_id", "email") if field in self.fields)
        key_field = key if key is not None else next(usual, None)
        if key_field is None:
            raise Failed(
                "no column holds email or profile.external_id, so --key must name one that tells the rows apart"
            )
        return self.fields.index(key_field) if key_field in self.fields else self.index(key_field, "--key")

    def shown(self) -> Iterator[dict[str, str]]:
        """Each column and where it goes, for people."""
        for name, field in zip(self.header, self.fields, strict=True):
            meant = self._meant(name) if field is None else None
            hint = f"; if it holds {meant}, add {_option(name, meant)}" if meant else ""
            yield {"Column": safe(name) or "(no name)", "goes to": field or f"not sent{hint}"}

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
        for field in FIELDS:
            if plain == letters(field.removeprefix(_PROFILE)) or plain in _ALSO_CALLED.get(field, "").split():
                return None if field in self.fields else field
        return None

    def agent(self, cells: list[str]) -> dict[str, Any]:
        """The arguments of a create. An empty cell is left out."""
        texts = dict(self.values.constants)
        for cell, field in zip(cells, self.fields, strict=False):
            if cell and field is not None:
                texts[field] = cell
        agent: dict[str, Any] = {"profile": {}}
        for field, text in texts.items():
            if (value := self.values.read(field, text)) == "":
                continue
            if field.startswith(_METADATA):
                agent["profile"].setdefault("client_metadata", {})[field.removeprefix(_METADATA)] = value
            elif field.startswith(_PROFILE):
                agent["profile"][field.removeprefix(_PROFILE)] = value
            else:
                agent[field] = value
        return agent

    def at(self, pointer: str) -> tuple[str, str]:
        """The column that a violation is about, or nothing if no column holds the field; and the field."""
        # A pointer has the names that are sent: clientMetadata is client_metadata.
        sent = letters(pointer.replace("~1", "/"))
        field = next((field for field in (*self.fields, *FIELDS) if field and letters(field) == sent), "")
        return safe(self.header[self.fields.index(field)]) if field in self.fields else field, field


def field_said(name: str, option: str) -> str:
    """The field that an option names."""
    if (known := _field_named(name)) is None:
        close = get_close_matches(name, FIELDS, 1)
        meant = f"Did you mean {close[0]}?" if close else f"The fields are: {', '.join(ALL_FIELDS)}"
        raise Failed(f"{option}: {safe(name)} is not a field of an agent. {meant}")
    return known


def _field_named(name: str) -> str | None:
    """The field with the name of a column, in any letter case and with spaces or hyphens for underscores."""
    if name.lower().startswith(_METADATA) and len(name) > len(_METADATA):
        return _METADATA + name[len(_METADATA) :]
    plain = re.sub(r"[\s-]+", "_", name.strip().lower())
    return plain if plain in FIELDS else None


def _option(name: str, field: str) -> str:
    """The option that maps a column to a field."""
    return f'--map "{safe(name)}={field}"'
