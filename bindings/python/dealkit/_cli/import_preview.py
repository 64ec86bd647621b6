"""The part of an import's output that comes before anything is sent: the columns, the problems, three rows as they will be
sent, the settings to confirm or to decide, and the next command.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date
from itertools import islice
from typing import Any

from dealkit._cli.agent_fields import FIELDS
from dealkit._cli.cell_values import ROLES
from dealkit._cli.date_formats import display_format, order_support
from dealkit._cli.import_plan import ImportPlan
from dealkit._cli.import_rows import SKIPPED
from dealkit._cli.shells import quote
from dealkit._cli.terminal import (
    colorize,
    escape_controls,
    format_command,
    format_count,
    format_pairs,
    print_result,
)

_SAMPLE_COUNT = 3
# The number of rows in which instructive samples are searched.
_ROWS_SEARCHED = 500
# The maximum numbers that are shown: characters of a value, undecided words, and fields of a row.
_MAX_VALUE_LENGTH = 40
_MAX_WORDS_SHOWN = 20
_MAX_FIELDS_SHOWN = 30

# The options whose settings the next command states anew.
_SETTING_OPTIONS = (
    "--sheet",
    "--header-row",
    "--encoding",
    "--map",
    "--ignore",
    "--map-value",
    "--date-format",
    "--phone-country",
    "--key",
)

_EXAMPLE_DATE = date(1990, 6, 5)


def print_table(plan: ImportPlan) -> None:
    """Prints the columns with their fields, and what is unusual about the table."""
    name = escape_controls(str(plan.path))
    sheet = f", sheet {escape_controls(plan.source.sheet)}" if plan.source.sheet else ""
    print_result(f"{name}{sheet}:\n{plan.mapping.describe(plan.key)}\n")
    notes = [*plan.source.notes]
    if plan.mapping.missing and plan.mapping_path and not plan.source.has_reasons:
        missing = ", ".join(map(escape_controls, plan.mapping.missing))
        notes.append(f"The mapping file has columns that this table does not have: {missing}.")
    if placeholders := plan.evidence.placeholders:
        cells = [
            f"{escape_controls(text)} in {plan.mapping.column_for_field(field)} ({format_count(count, 'row')})"
            for (field, text), count in placeholders.most_common(_MAX_WORDS_SHOWN)
        ]
        notes.append(f"Read as empty: {', '.join(cells)}.")
    for note in notes:
        print_result(note)
    if notes:
        print_result()


def print_undecided_counts(plan: ImportPlan) -> None:
    """Prints the number of rows with undecided words, without the words, which may be personal data."""
    if words := plan.undecided_words("role"):
        print_result(
            f"{format_count(sum(words.values()), 'row')} cannot be sent, because of words in {plan.mapping.column_for_field('role')} that are no "
            "roles. A dry run lists the words."
        )


def print_counts(plan: ImportPlan, result: dict[str, Any]) -> None:
    """Prints the number of rows that are ready, worth a look, and not to be sent."""
    outcomes = plan.rows.count_outcomes()
    invalid_count, other_count = outcomes["invalid", False], outcomes[SKIPPED, False]
    sendable_count = outcomes.total() - invalid_count - other_count
    warned_count = plan.rows.count_warned()
    result["counts"] = {
        "rows": outcomes.total(),
        "sendable": sendable_count,
        "ready": sendable_count - warned_count,
        "worth_a_look": warned_count,
        "invalid": invalid_count,
        "skipped": other_count,
    }
    texts = {"Ready": f"{sendable_count - warned_count:,}"}
    if warned_count:
        texts["Worth a look"] = f"{warned_count:,}  see above; they will be sent, so correct mistakes first"
    is_undecided = any(plan.undecided_words(field) for field in ("role", "phone", "date_of_birth"))
    action = "correct them, or decide the open questions" if is_undecided else "correct them"
    texts["Cannot be sent"] = f"{invalid_count:,}  see above; {action}" if invalid_count else "0"
    if other_count:
        texts["Skipped"] = f"{other_count:,}  not people, or repeated rows; see above"
    print_result(format_pairs(texts))


def print_samples(plan: ImportPlan) -> None:
    """Prints three rows as they will be sent, which show a wrong encoding or a wrong order of day and month."""
    numbers = plan.rows.unsent_row_numbers(_ROWS_SEARCHED)
    samples = {number: plan.rows.values(number) for number in _choose_samples(plan, numbers)}
    if not samples:
        return
    print_result(f"\n{colorize('As it will be sent: check names, dates and phone numbers', 'bold')}")
    for number, values in samples.items():
        fields = sorted(
            {"role", *values}, key=lambda field: (FIELDS.index(field) if field in FIELDS else len(FIELDS), field)
        )
        texts = {field: _format_value(field, values) for field in fields[:_MAX_FIELDS_SHOWN]}
        if len(fields) > _MAX_FIELDS_SHOWN:
            texts["…"] = "…"
        print_result(f"Row {number}\n{format_pairs(texts, indent='  ')}")


def _choose_samples(plan: ImportPlan, numbers: Sequence[int]) -> list[int]:
    """Chooses the first row, a row with letters outside ASCII, and a row with a date of birth."""
    chosen = [*numbers[:1]]
    wanted: list[Callable[[dict[str, Any]], bool]] = [
        lambda values: not str(values).isascii(),
        lambda values: "date_of_birth" in values,
    ]
    for is_wanted in wanted:
        if found := next((number for number in numbers if is_wanted(plan.rows.values(number))), None):
            chosen.append(found)
    return sorted(islice(dict.fromkeys([*chosen, *numbers[1:]]), _SAMPLE_COUNT))


def _format_value(field: str, values: dict[str, Any]) -> str:
    if field not in values:
        return "AGENT (as no role is given)" if field == "role" else ""
    text = escape_controls(str(values[field]))
    if field == "date_of_birth":
        with suppress(ValueError):
            day = date.fromisoformat(text)
            return f"{text} ({day.day} {_MONTHS[day.month - 1]} {day.year})"
    return text if len(text) <= _MAX_VALUE_LENGTH else f"{text[:_MAX_VALUE_LENGTH]}…"


_MONTHS = "January February March April May June July August September October November December".split()


def list_decisions(plan: ImportPlan) -> Iterator[str]:
    """Yields what only the user knows about the table, and the options that decide it."""
    column = plan.mapping.column_for_field
    if plan.parser.uncertain_formats:
        lines = [
            f"  {quote(['--date-format', display_format(text)])}   reads {_EXAMPLE_DATE.strftime(text)} as 5 June 1990"
            for text in plan.parser.offered_formats()
        ]
        count, other_rows = order_support(plan.parser.uncertain_formats[:1], plan.evidence.dates)
        finding = (
            f"contradict each other ({format_count(count, 'row')} and {format_count(len(other_rows), 'row')}, such as row {other_rows[0]})"
            if count and other_rows
            else "do not show whether the day or the month comes first"
        )
        yield f"The dates in {column('date_of_birth')} {finding}. Add the option that is right:\n" + "\n".join(lines)
    kinds = {kind for _, kind in plan.rows.problems}
    if words := plan.undecided_words("role"):
        yield _describe_words(plan, words)
    for field in ("phone", "date_of_birth"):
        if words := plan.undecided_words(field):
            yield _describe_repeated_cells(plan, field, words)
    if plan.settings.phone_country is None and plan.evidence.has_national_phones:
        yield _describe_phones(plan)
    if "invalid_date" in kinds and not plan.parser.can_read_dates:
        yield f"Add the form of the dates in {column('date_of_birth')}, as in --date-format DD.MM.YYYY."
    for name, field in plan.mapping.similar.items():
        yield (
            f"The column {escape_controls(name)} is not sent. If it holds {field}, add {quote(['--map', f'{name}={field}'])}. Otherwise "
            f"add {quote(['--ignore', name])}."
        )


def _describe_words(plan: ImportPlan, words: dict[str, int]) -> str:
    column = plan.mapping.column_for_field("role")
    ignore = quote(["--ignore", column])
    if len(words) > _MAX_WORDS_SHOWN:
        return f"The column {column} has {len(words):,} different words that are no roles. If it does not hold the agents' roles, add {ignore}."
    if plan.mapping_path:
        lines = [
            format_pairs(
                {escape_controls(word): format_count(count, "row") for word, count in words.items()}, indent="  "
            )
        ]
        advice = f"In {escape_controls(str(plan.mapping_path))}, replace the question mark after each with its role"
    else:
        lines = [
            f"  {quote(['--map-value', f'role:{escape_controls(word)}=ROLE'])}   {format_count(count, 'row')}"
            for word, count in words.items()
        ]
        advice = "Add these options, each with a role in place of ROLE"
    return (
        f"These words in the column {column} are no roles. {advice}; the roles are {', '.join(ROLES)}. The rows of a word without a "
        f"role are not sent, and can be corrected later. Or ignore the column, so that all become {ROLES[-1]}: {ignore}\n"
        + "\n".join(lines)
    )


def _describe_repeated_cells(plan: ImportPlan, field: str, words: dict[str, int]) -> str:
    lines = [
        f"  {quote(['--map-value', f'{field}:{escape_controls(word)}='])}   {format_count(count, 'row')}"
        for word, count in words.items()
    ]
    file = (
        f", or delete the question mark after each in {escape_controls(str(plan.mapping_path))}"
        if plan.mapping_path
        else ""
    )
    return (
        f"These cells in the column {plan.mapping.column_for_field(field)} are repeated. If they mean that nothing is known, add these "
        f"options{file}:\n" + "\n".join(lines)
    )


def _describe_phones(plan: ImportPlan) -> str:
    found = plan.evidence.phones.suggest_country()
    if found is None:
        return f"Phone numbers in {plan.mapping.column_for_field('phone')} have no country code. Add their country, as in --phone-country US."
    country, valid_count, count = found
    return f"Phone numbers without a country code: --phone-country {country} can read {valid_count:,} of the first {count:,}."


def next_command(plan: ImportPlan, options: Namespace) -> str:
    """Returns the command that imports the table, with all settings that the dry run has found."""
    arguments = _without_options(options.arguments, _SETTING_OPTIONS)
    if plan.mapping_path is None:
        arguments += plan.settings.options()
    return format_command(arguments)


def rest_command(options: Namespace) -> str:
    """Returns the command that sends the rows beyond the limit."""
    return format_command(_without_options(options.arguments, ("--limit",)))


def corrected_rows_command(plan: ImportPlan, options: Namespace, path: str) -> str:
    """Returns the command that imports the corrected rows in another file."""
    own_options = (*_SETTING_OPTIONS, "--limit", "--rejects", "--report")
    arguments = [
        path if argument == options.file else argument for argument in _without_options(options.arguments, own_options)
    ]
    if plan.mapping_path is None:
        # The file has neither other sheets nor rows above its header.
        arguments += replace(plan.settings, sheet=None, header_rows=None, encoding=None).options()
    return format_command(arguments)


def _without_options(arguments: Sequence[str], names: Collection[str]) -> list[str]:
    """Returns the arguments without options that take a value, and without --dry-run and --yes: the user should look at
    the next step before it is taken.
    """
    remaining: list[str] = []
    unread = iter(arguments)
    for argument in unread:
        name, equals_sign, _ = argument.partition("=")
        if name in names:
            if not equals_sign:
                next(unread, None)
        elif name not in ("--dry-run", "--yes"):
            remaining.append(argument)
    return remaining
