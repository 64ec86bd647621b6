"""Maps the columns of a table to the fields of an agent, and violations back to columns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

from dealkit import CreateAgentParams
from dealkit._cli.agent_fields import FIELDS, FULL_NAME, FULL_NAMES, METADATA, PROFILE
from dealkit._cli.column_names import match_column, match_columns, suggest_fields
from dealkit._cli.csv_tables import (
    MAX_COLUMNS_SHOWN,
    REASON_COLUMN,
    display_column_names,
    join_names,
    list_column_names,
    looks_like_data,
    normalize_column_name,
    normalize_spaces,
)
from dealkit._cli.excel_survey import column_letters, column_position
from dealkit._cli.exit_codes import CommandError
from dealkit._cli.import_settings import IGNORED, ImportSettings
from dealkit._cli.shells import quote
from dealkit._cli.terminal import escape_controls, format_table

_COLUMN_LETTER = re.compile(r"column ([a-z]{1,3})", re.IGNORECASE)

# Rank of a column that the user has mapped: it precedes all columns that are found by their names.
_MAPPED_BY_USER = -1


class _Candidate(NamedTuple):
    """A column that may hold a field."""

    rank: int
    position: int


class ColumnMapping:
    """Maps the columns of a table to the fields that they hold. A column may hold no field."""

    def __init__(
        self,
        header: Sequence[str],
        settings: ImportSettings,
        filled_counts: Mapping[int, int],
        optional: Collection[str] = (),
    ) -> None:
        """Maps the columns that the settings name, and then the others by their names. `filled_counts` has the number
        of filled cells of each column. The `optional` names in the settings may be missing from the table.
        """
        self.header = header
        self.names = _unique_names(header)
        """The names of the columns for messages and options, with the letter of a column whose name is not unique."""
        self._display_names = [*map(escape_controls, self.names)]
        self.fields: list[str | None] = [None] * len(header)
        """The field of each column, one of `FULL_NAMES` for a column with two fields, or None."""
        self.notes = [""] * len(header)
        """The reason why a column is not sent, if the user should know it."""
        self.suggestions: dict[str, str] = {}
        """The fields of columns that a person must confirm, by the column's name."""
        self.similar: dict[str, str] = {}
        """The fields that unsent columns may hold, by the column's name."""
        self.alternatives: dict[str, list[str]] = {}
        """The columns that may hold a field as well as the column that was chosen by its name, by field."""
        self.missing: list[str] = []
        """The columns of the mapping file that the table does not have."""
        self._has_data_as_header = looks_like_data(header)
        ignored = {index for index, name in enumerate(header) if name == REASON_COLUMN}
        candidates: dict[str, list[_Candidate]] = {}
        for name, target in settings.columns.items():
            index = self._find_column(name, "--ignore" if target == IGNORED else "--map", name in optional)
            if index is None:
                self.missing.append(name)
            elif target == IGNORED:
                ignored.add(index)
                self.notes[index] = "ignored"
            else:
                candidates.setdefault(target, []).append(_Candidate(_MAPPED_BY_USER, index))
        used = ignored | {candidate.position for group in candidates.values() for candidate in group}
        for index, match in enumerate(match_columns(header)):
            if index in used:
                continue
            if _is_metadata(header[index]):
                field = METADATA + header[index][len(METADATA) :]
                candidates.setdefault(field, []).append(_Candidate(0, index))
            elif match is not None:
                candidates.setdefault(match.field, []).append(_Candidate(match.rank, index))
        _resolve_names(candidates)
        for target, group in candidates.items():
            self._choose_column(target, group, filled_counts)
        self._index_by_field = {field: index for index, field in enumerate(self.fields) if field is not None}
        self._check_required(settings)
        self._note_similar_fields(settings)

    def _choose_column(self, target: str, group: list[_Candidate], filled_counts: Mapping[int, int]) -> None:
        """Chooses the column for a field: the column of the user, or else the column whose name fits best, unless it is
        empty in most of the rows in which another is filled.
        """
        fullest = max(filled_counts.get(candidate.position, 0) for candidate in group)
        is_full = {candidate: filled_counts.get(candidate.position, 0) * 2 > fullest for candidate in group}
        best_rank = min(
            candidate.rank
            for candidate in group
            if is_full[candidate] or candidate.rank == _MAPPED_BY_USER or not fullest
        )
        best = [candidate.position for candidate in group if candidate.rank == best_rank]
        if len(best) > 1 and best_rank == _MAPPED_BY_USER:
            names = join_names([self.names[index] for index in best])
            raise CommandError(
                f"{len(best):,} columns go to {target}: {names}. Keep one of them in --map, or in the mapping file"
            )
        # Of several columns with the same name, only one may have cells.
        chosen = next((index for index in best if filled_counts.get(index)), best[0])
        if best_rank != _MAPPED_BY_USER and (
            target in FULL_NAMES or sum(filled_counts.get(index, 0) > 0 for index in best) > 1
        ):
            self.suggestions[self.names[chosen]] = target
        self.fields[chosen] = target
        for candidate in group:
            if candidate.position != chosen:
                self.notes[candidate.position] = f"{target} comes from {self.names[chosen]}"
                has_other_name = self.header[candidate.position] != self.header[chosen]
                if best_rank != _MAPPED_BY_USER and has_other_name and filled_counts.get(candidate.position):
                    self.alternatives.setdefault(target, []).append(self.names[candidate.position])

    def leave_out(self, field: str, note: str) -> None:
        """Leaves out the column that was found for an optional field."""
        index = self._index_by_field.pop(field)
        self.fields[index], self.notes[index] = None, note

    def _check_required(self, settings: ImportSettings) -> None:
        """Raises CommandError if no column holds a field that every agent needs."""
        held = {*self.fields, *settings.constants}
        if not held.isdisjoint(FULL_NAMES):
            held |= {"first_name", "last_name"}
        missing = sorted(CreateAgentParams.__required_keys__ - {"profile"} - held)
        if not missing:
            return
        similar = {field: self._similar_column(field) for field in missing}
        examples = quote([part for field in missing for part in ("--map", f"{similar[field] or 'COLUMN'}={field}")])
        both_names = (
            f"\nIf one column holds both names, add\n  {quote(['--map', f'COLUMN={FULL_NAME}'])}"
            if {"first_name", "last_name"} <= {*missing}
            else ""
        )
        raise CommandError(
            f"no column holds {' or '.join(missing)}, which every agent needs. Name the columns, as in\n"
            f"  {examples}{both_names}\nThe columns are {list_column_names(self.header)}"
        )

    def _similar_column(self, field: str) -> str | None:
        """Returns a column that holds no field, but whose name is similar to the names of a field."""
        if self._has_data_as_header:
            return None
        return next(
            (
                name
                for name, held in zip(self.names, self.fields, strict=True)
                if held is None and field in suggest_fields(name)
            ),
            None,
        )

    def _note_similar_fields(self, settings: ImportSettings) -> None:
        """Notes the fields that unsent columns may hold."""
        free_fields = {*FIELDS} - {*self.fields} - {*settings.constants}
        for index, name in enumerate(self.names):
            if self.fields[index] is None and not self.notes[index]:
                similar = [field for field in suggest_fields(name) if field in free_fields]
                if similar:
                    self.similar[name] = similar[0]

    def unconfirmed(self) -> str:
        """Returns the options that confirm the suggestions."""
        return quote([part for name, target in self.suggestions.items() for part in ("--map", f"{name}={target}")])

    def _find_column(self, name: str, option: str, is_optional: bool = False) -> int | None:
        """Returns the index of the column that an option names: by its name or its letter, as in `column F`."""
        wanted = normalize_spaces(name)
        for form in (normalize_spaces, lambda text: normalize_spaces(text).casefold()):
            indexes = [index for index, column in enumerate(self.names) if form(column) == form(wanted)]
            indexes = indexes or [index for index, column in enumerate(self.header) if form(column) == form(wanted)]
            if len(indexes) == 1:
                return indexes[0]
            if len(indexes) > 1:
                letters = join_names([f'"column {column_letters(index + 1)}"' for index in indexes])
                raise CommandError(
                    f"{option}: {len(indexes)} columns are named {escape_controls(name)}; use the letter of one of them, as in a spreadsheet: {letters}"
                )
        if (letter := _COLUMN_LETTER.fullmatch(wanted)) and (index := column_position(letter[1].upper()) - 1) < len(
            self.header
        ):
            return index
        if is_optional:
            return None
        similar = [] if self._has_data_as_header else get_close_matches(wanted, self.names, 1)
        hint = f" Did you mean {escape_controls(similar[0])}?" if similar else ""
        raise CommandError(
            f"{option}: there is no column {escape_controls(name)}.{hint} The columns are {list_column_names(self.header)}"
        )

    def key_indexes(self, columns: Sequence[str]) -> list[int]:
        """Returns the indexes of the columns that identify rows: the columns named by `--key`, or else the column with
        the external id or the e-mail address.
        """
        if not columns:
            usual_keys = (field for field in ("profile.external_id", "email") if field in self.fields)
            if (key_field := next(usual_keys, None)) is None:
                raise CommandError(
                    "no column holds email or profile.external_id. Choose a column with a different value in every row, with --key"
                )
            columns = [key_field]
        indexes = [self._find_key_column(column) for column in columns]
        if len({*indexes}) < len(indexes):
            raise CommandError(
                "--key names the same column twice: each column that identifies a row needs to be named only once"
            )
        return indexes

    def _find_key_column(self, name: str) -> int:
        if name in self.fields:
            return self.fields.index(name)
        index = self._find_column(name, "--key")
        assert index is not None
        return index

    def key_name(self, indexes: Sequence[int]) -> str:
        """Returns the name that a ledger records for the idempotency keys in columns. It consists of the names of the
        fields, because each table may name its columns differently.
        """
        return join_key(self.fields[index] or self.header[index] for index in indexes)

    def column_settings(self) -> dict[str, str]:
        """Returns the field of each column that is sent, and the ignored columns, as in a mapping file."""
        return {
            name: field or IGNORED
            for name, field, note, column in zip(self.names, self.fields, self.notes, self.header, strict=True)
            if field is not None or (note == "ignored" and column != REASON_COLUMN)
        }

    def describe(self, key_columns: Sequence[str]) -> str:
        """Describes the columns for the screen: first the columns with their fields, then the unsent columns, and the
        columns that identify a row. If many columns go to metadata, or are not sent, lists only the first of them.
        """
        rows: list[dict[str, str]] = []
        unsent: list[str] = []
        metadata_count = 0
        for name, column, field, note in zip(
            display_column_names(self.names), self.header, self.fields, self.notes, strict=True
        ):
            if field is None:
                if column != REASON_COLUMN:
                    unsent.append(f"{name} ({note})" if note else name)
                continue
            metadata_count += field.startswith(METADATA)
            if not field.startswith(METADATA) or metadata_count <= MAX_COLUMNS_SHOWN:
                rows.append({"Column": name, "goes to": field})
        if metadata_count > MAX_COLUMNS_SHOWN:
            rows.append({"Column": f"… and {metadata_count - MAX_COLUMNS_SHOWN:,} more", "goes to": f"{METADATA}…"})
        key_names = " and ".join(self.display_name(index) for index in self.key_indexes(key_columns))
        unsent_line = f"\nNot sent: {join_names(unsent)}" if unsent else ""
        return f"{format_table(rows)}{unsent_line}\nA person is recognized by: {key_names}"

    def texts_by_field(self, cells: Sequence[str]) -> dict[str, str]:
        """Returns the cells of a row by field, without empty cells."""
        return {field: cell for cell, field in zip(cells, self.fields, strict=False) if cell and field is not None}

    def display_name(self, index: int) -> str:
        """Returns the name of a column for messages."""
        return self._display_names[index]

    def field_for_pointer(self, pointer: str) -> str:
        """Returns the field that a violation concerns."""
        # The pointer contains the service's names, such as clientMetadata for client_metadata.
        fields = {normalize_column_name(field): field for field in (*reversed(FIELDS), *reversed(self._index_by_field))}
        return fields.get(normalize_column_name(pointer.replace("~1", "/")), "")

    def column_for_field(self, field: str) -> str:
        """Returns the column that holds a field, or the field's name if no column holds it."""
        if field in ("first_name", "last_name") and field not in self._index_by_field:
            field = next((name for name in FULL_NAMES if name in self._index_by_field), field)
        return self.display_name(self._index_by_field[field]) if field in self._index_by_field else field


def join_key(parts: Any) -> str:
    """Joins the cells, or the names of the columns, that together identify a row. Different cells give different
    keys."""
    parts = [*parts]
    if len(parts) == 1:
        return str(parts[0])
    return "|".join(part.replace("\\", "\\\\").replace("|", "\\|") for part in parts)


def nest_agent_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """Converts values by field to the nested arguments of `create`."""
    arguments: dict[str, Any] = {"profile": {}}
    for field, value in values.items():
        if field.startswith(METADATA):
            arguments["profile"].setdefault("client_metadata", {})[field.removeprefix(METADATA)] = value
        elif field.startswith(PROFILE):
            arguments["profile"][field.removeprefix(PROFILE)] = value
        else:
            arguments[field] = value
    return arguments


def is_known_column(name: str) -> bool:
    """Returns whether a text is the name of a column that dealkit knows."""
    return _is_metadata(name) or match_column(name) is not None


def _is_metadata(name: str) -> bool:
    return name.lower().startswith(METADATA) and len(name) > len(METADATA)


def _resolve_names(candidates: dict[str, list[_Candidate]]) -> None:
    """Decides between columns with one name and columns with first and last name in one cell."""
    by_user = {field for field, group in candidates.items() if any(item.rank == _MAPPED_BY_USER for item in group)}
    if mapped_full_names := by_user.intersection(FULL_NAMES):
        # The user's choice replaces the columns that were found by their names.
        for field in {"first_name", "last_name", *FULL_NAMES} - mapped_full_names - by_user:
            candidates.pop(field, None)
    elif FULL_NAME in candidates:
        if {"first_name", "last_name"} <= candidates.keys():
            del candidates[FULL_NAME]
        elif by_user.isdisjoint(("first_name", "last_name")):
            for field in ("first_name", "last_name"):
                candidates.pop(field, None)


def _unique_names(header: Sequence[str]) -> list[str]:
    """Returns the names of the columns, with the letter of each column whose name is not unique."""
    names = [normalize_spaces(name) for name in header]
    counts = Counter(names)
    letters = [f"column {column_letters(number)}" for number in range(1, len(header) + 1)]
    return [
        (name if counts[name] == 1 else f"{name} ({letter})") if name else letter
        for name, letter in zip(names, letters, strict=True)
    ]
