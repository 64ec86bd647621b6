"""Renders the parsers of the command `dealkit` as Markdown, at the end of the page `reference/command`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from typing import Any

from contract import format_table

PAGE = "reference/command"
# The group of options that several commands share. The page describes it once.
SERVICE = "the service"

# The headings of the tables of argparse's own groups.
HEADS = {"positional arguments": "argument", "options": "option"}


def format_text(text: str) -> str:
    """Formats a help text: options, variables and file extensions become code."""
    return re.sub(r"(?<![\w/])(--[a-z][\w-]*|[A-Z]+(?:_[A-Z]+)+|\.[a-z]+(?![\w.]))", r"`\1`", text.replace("<", "&lt;"))


def format_actions(parser: argparse.ArgumentParser, head: str, actions: Iterable[argparse.Action]) -> list[str]:
    """Formats a table of arguments or options."""
    rows = []
    for action in actions:
        names = [f"{name} {action.metavar}" if action.metavar else name for name in action.option_strings]
        text = format_text(parser._get_formatter()._expand_help(action))
        required = "required: " if action.required and action.option_strings else ""
        rows.append([", ".join(f"`{name}`" for name in names or [str(action.metavar)]), f"{required}{text}"])
    return format_table([head, "meaning"], rows) if rows else []


def list_groups(parser: argparse.ArgumentParser) -> dict[str, list[argparse.Action]]:
    """Returns the arguments and options of a command by the titles of their groups, without `--help`."""
    return {
        str(group.title): [action for action in group._group_actions if not isinstance(action, argparse._HelpAction)]
        for group in parser._action_groups
    }


def format_command(parser: argparse.ArgumentParser) -> list[str]:
    usage = parser.format_usage().removeprefix("usage: ").strip()
    lines = ["", f"## {parser.prog}", "", format_text(parser.description or ""), "", "```text", usage, "```"]
    for title, actions in list_groups(parser).items():
        if title == SERVICE:
            lines += ["", "The command also takes [the options for the service](#options-for-the-service)."]
        else:
            lines += format_actions(parser, HEADS.get(title, title), actions)
    return lines


def render_markdown() -> str:
    from dealkit._cli.arguments import ENVIRONMENT, build_parser
    from dealkit._cli.exit_codes import MEANINGS
    from dealkit._cli.parser import list_commands

    root = build_parser()
    commands = [*list_commands(root)]
    lines = [line for command in commands for line in format_command(command)]
    with_service = next(command for command in commands if SERVICE in list_groups(command))
    lines += ["", "## Options for the service", ""]
    lines += format_actions(with_service, "option", list_groups(with_service)[SERVICE])
    lines += ["", "## Environment variables", ""]
    lines += format_table(
        ["variable", "meaning"], [[f"`{name}`", format_text(text)] for name, text in ENVIRONMENT.items()]
    )
    lines += ["", "## Exit codes", ""]
    lines += format_table(["code", "meaning"], [[str(code), format_text(text)] for code, text in MEANINGS.items()])
    return "\n".join(lines) + "\n"


def write(_app: Any, page: str, source: list[str]) -> None:
    if page == PAGE:
        source[0] += "\n" + render_markdown()


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", write)
    return {"parallel_read_safe": True}
