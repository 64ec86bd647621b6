"""The commands and their options. They are parsed with argparse, so nothing else has to be installed."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from functools import partial
from typing import Any, NoReturn

from dealkit import __version__
from dealkit._cli.columns import ALL_FIELDS
from dealkit._cli.screen import folded, is_text, pairs, room

_ENVIRONMENT = {
    "DEALKIT_SERVICE_KEY": "your key; not an option, because others on the machine could see it",
    "DEALKIT_SERVICE_KEY_FILE": "or a file with the key",
    "DEALKIT_BASE_URL": "the service's URL, unless --base-url is given",
    "DEALKIT_LEDGER": "the ledger for imports, unless --ledger is given",
    "PGPASSWORD": "the password for a ledger's database; not an option either",
    "HTTPS_PROXY": "the proxy, if there is one",
    "NO_COLOR": "turns off colours, whatever its value",
}
_EXIT_CODES = """exit codes: 0 done, 1 incomplete or not confirmed, 2 wrong usage or an unusable file, 3 the service fails or rejects the key, \
4 a file or a ledger cannot be written, 130 Ctrl-C, 129 and 143 another signal, 141 nobody reads the output"""


# The options and arguments that are no paths.
_TEXTS = ("base_url", "date_format", "deal", "encoding", "id", "key", "map", "phone_country", "url", "map_value")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of the command that the arguments name, with the function that runs it in `run`, as its module and its
    name. Exits if they are wrong."""
    parser = _parser()
    if "_ARGCOMPLETE" in os.environ:
        # Only the user's shell sets it, if it was told to complete this command.
        import argcomplete

        argcomplete.autocomplete(parser)
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        options.parser.error(_surplus(unknown, options.parser))
    if "run" not in options:
        options.parser.print_help()
        options.parser.exit()
    for name in _TEXTS:
        given = getattr(options, name, None)
        if not all(map(is_text, given if isinstance(given, list) else [given or ""])):
            options.parser.error(f"{name.replace('_', '-')} is not valid text in the terminal's encoding")
    options.arguments = list(arguments)
    return options


def _surplus(unknown: list[str], parser: argparse.ArgumentParser) -> str:
    """Describes arguments that a command does not take, without their values."""
    names = [name.partition("=")[0] for name in unknown if name.startswith("--")]
    if not names:
        return "too many arguments"
    text = f"there is no option {names[0]} here"
    known = [option for action in parser._actions for option in action.option_strings]
    if similar := get_close_matches(names[0], known, 1, 0.8):
        return f"{text}; is it {similar[0]}?"
    is_of_key = "key" in names[0] or "token" in names[0]
    return f"{text}; the service key goes into DEALKIT_SERVICE_KEY" if is_of_key else text


class _Parser(argparse.ArgumentParser):
    """A parser whose errors repeat no values: a value may be a key in the wrong place."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(formatter_class=_Formatter, allow_abbrev=False, **settings)

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        # The help may not have been written.
        sys.stdout.flush()
        super().exit(status, message)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"dealkit: {message}\nTry: {self.prog} --help\n")


class _Formatter(argparse.HelpFormatter):
    """A formatter that keeps the lines of a text."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return folded(text, width)


def _number(kind: type[int] | type[float], text: str) -> float:
    try:
        number = kind(text)
    except ValueError:
        number = 0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError("must be a number greater than zero")
    return number


_COUNT, _POSITIVE = partial(_number, int), partial(_number, float)


def _parser() -> argparse.ArgumentParser:
    environment = pairs(_ENVIRONMENT, indent="  ", columns=min(room(sys.stdout), 80))
    parser = _Parser(
        prog="dealkit",
        description="Create agents and read deals with the Agent and Deal API.",
        epilog=f"environment:\n{environment}\n\n{_EXIT_CODES}",
    )
    parser.add_argument("--version", action="version", version=f"dealkit {__version__}")
    commands = _group(parser)
    _add_deal(commands)
    _add_export(_group(commands.add_parser("deals", help="export deals")))
    _add_import(_group(commands.add_parser("agents", help="import agents")))
    _add_ledger(_group(commands.add_parser("ledger", help="show an import's ledger, and record what was found out")))
    _add_check(commands)
    return parser


def _group(parser: argparse.ArgumentParser) -> Any:
    """Adds a group of commands. Without one of them, the help of the group is shown."""
    parser.set_defaults(parser=parser)
    return parser.add_subparsers(title="commands", metavar="COMMAND")


def _command(group: Any, name: str, takes: str, run: str, text: str, *examples: str) -> argparse.ArgumentParser:
    """A command, of which the first sentence of the text is also in the list of commands."""
    lines = "\n".join(f"  dealkit {example}" for example in examples)
    short = text.partition(".")[0]
    parser: argparse.ArgumentParser = group.add_parser(
        name,
        usage=f"%(prog)s {takes}[OPTIONS]",
        help=short,
        description=text,
        epilog=f"examples:\n{lines}\n\nsee also: dealkit --help",
    )
    parser.set_defaults(run=run, parser=parser)
    _add(parser, "--json", "print one JSON object instead of text")
    return parser


def _add(to: Any, called: str, text: str, **more: Any) -> None:
    """Adds an option, or an argument by position, with what it takes: `--out FILE`. One that takes nothing is a flag."""
    name, _, takes = called.partition(" ")
    if not name.startswith("-"):
        name, takes = name.lower(), name
    flag = {"action": "store_true"} if not takes else {"metavar": takes}
    to.add_argument(name, help=text, **(flag | more))


_MANY: dict[str, Any] = {"action": "append", "default": []}


def _add_service(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the service")
    _add(group, "--base-url URL", "its URL, such as https://deals.example.com")
    _add(group, "--timeout SECONDS", "the timeout of a call (default: 60)", type=_POSITIVE)
    _add(group, "--ca-file FILE", "certificates (PEM) of further CAs to trust")
    _add(group, "--client-cert FILE", "your certificate and its key (PEM), if the service requires one")
    _add(group, "--allow-http", "allow http:// URLs; not secure", default=None)


def _add_speed(parser: argparse.ArgumentParser, concurrency: int) -> None:
    text = f"how many requests are in flight at a time (default: {concurrency})"
    _add(parser, "--concurrency N", text, type=_COUNT, default=concurrency)
    _add(parser, "--rate-limit N", "the maximum number of requests per second (default: no limit)", type=_POSITIVE)


_UNREADABLE = "fail a deal with an unreadable optional field (raise, the default), or keep the field's original under extra (skip)"
_ENCODING = "the file's encoding, such as cp1252 (default: UTF-8)"


def _add_deal(group: Any) -> None:
    parser = _command(group, "deal", "ID ", "service.deal", "Show a whole deal.", "deal d_1", "deal d_1 --json")
    _add(parser, "ID", "the id of the deal")
    _add(parser, "--on-unreadable raise|skip", _UNREADABLE, choices=("raise", "skip"))
    _add_service(parser)


def _add_export(group: Any) -> None:
    examples = ("deals export --ids ids.txt --out deals.csv", "deals export --ids ids.csv --out deals.parquet")
    parser = _command(
        group, "export", "--ids FILE --out FILE ", "export.run", "Retrieve deals and write them to a file.", *examples
    )
    _add(
        parser,
        "--ids FILE",
        "the ids of the deals: a file with one per line; a .csv or .tsv file with a column named id or deal_id, in any case; "
        "a .json or .jsonl file of ids or deals; an earlier export; or - for standard input. Blank lines are skipped, and "
        "duplicates are retrieved once",
        required=True,
    )
    out = "the file to write; its extension selects the format: .ndjson (one JSON deal per line), .csv or .parquet"
    _add(parser, "--out FILE", out, required=True)
    _add(parser, "--exclude-ids FILE", "like --ids: deals that are not retrieved again; repeatable", **_MANY)
    _add(parser, "--overwrite", "replace the file if it exists")
    _add(parser, "--on-unreadable raise|skip", _UNREADABLE, choices=("raise", "skip"))
    _add_speed(parser, 16)
    _add_service(parser)


def _default_ledger() -> str | None:
    """The ledger that the environment names; an empty variable counts as unset."""
    return os.environ.get("DEALKIT_LEDGER") or None


def _add_import(group: Any) -> None:
    text = (
        "Create an agent for each row of a table. First it shows which column goes to which field, and what is wrong. The "
        f"fields of an agent are {', '.join(ALL_FIELDS)}."
    )
    examples = ("agents import agents.csv --dry-run", "agents import agents.csv --map Mail=email")
    parser = _command(group, "import", "FILE ", "agents.run", text, *examples)
    _add(parser, "FILE", "the table: a CSV file with a header row")
    _add(parser, "--map COLUMN=FIELD", "the field of a column that is not named like it; repeatable", **_MANY)
    words = (
        'what a cell means, as in "role:Makler=AGENT", "phone:none=" (nothing) or "role:=AGENT" (if empty); repeatable'
    )
    _add(parser, "--map-value FIELD:CELL=VALUE", words, **_MANY)
    dates = "how dates are written, such as %%d.%%m.%%Y for 31.12.1990 (default: 1990-12-31); repeatable"
    _add(parser, "--date-format FORMAT", dates, **_MANY)
    _add(parser, "--phone-country CODE", "the country, such as DE, of phone numbers without; needs dealkit[phone]")
    ledger = (
        "where to record what was sent and its outcome, so that another run creates no agent twice: a file, or the URL of a "
        "PostgreSQL database, postgresql://… (default: DEALKIT_LEDGER, or else agents-SERVICE.ledger next to the table)"
    )
    _add(parser, "--ledger FILE", ledger, default=_default_ledger())
    key = "the column that identifies rows in the ledger (default: that for profile.external_id, or else for email)"
    _add(parser, "--key COLUMN", key)
    _add(parser, "--resend-unknown", "send rows whose outcome is unknown again; this may create an agent twice")
    _add(parser, "--wait-in-flight", "wait for rows that another import is sending")
    _add(parser, "--dry-run", "show what would be sent and what is wrong; send nothing")
    _add(parser, "--yes", "do not ask first")
    report = "the CSV file for the rows' results (default: the table's name with .report.csv; none after a dry run)"
    _add(parser, "--report FILE", report)
    _add(parser, "--encoding NAME", _ENCODING)
    # Fewer than by default in a program: when the service fails, people look up every row that was in flight.
    _add_speed(parser, 8)
    _add_service(parser)


def _add_ledger(group: Any) -> None:
    def command(name: str, takes: str, text: str, example: str) -> argparse.ArgumentParser:
        text, example = f"{text} Nothing is sent.", f"ledger {name} {example}"
        parser = _command(group, name, f"LEDGER {takes}", f"ledger.{name.replace('-', '_')}", text, example)
        given = _default_ledger()
        which = "a file, or the URL of a PostgreSQL database; optional if DEALKIT_LEDGER is set"
        _add(parser, "LEDGER", which, nargs="?" if given else None, default=given)
        return parser

    command(
        "show",
        "",
        "Count a ledger's rows, and list the unknown ones with time, status and request id.",
        "agents.ledger",
    )
    text = (
        "Record what became of unknown or rejected rows. FILE is the import's report, with agent_id filled in: the agent's id "
        "if you have found the agent, or none if there is no agent, so that the next import sends the row. Rows with an empty "
        "agent_id stay as they are."
    )
    resolve = command("resolve", "FILE ", text, "agents.ledger report.csv")
    _add(resolve, "FILE", "a CSV file with the columns key and agent_id, such as the import's report")
    _add(resolve, "--yes", "do not ask first")
    _add(resolve, "--encoding NAME", _ENCODING)
    text = "Record that the same service, with the same agents, has a new URL from now on."
    set_base_url = command("set-base-url", "URL ", text, "agents.ledger https://new.example.com")
    _add(set_base_url, "URL", "the new URL, as for --base-url")
    text = "Copy a ledger to a new file, as it is at one moment. Imports may be running."
    _add(
        command("backup", "FILE ", text, "agents.ledger agents.backup"),
        "FILE",
        "the file to write, which must not exist",
    )
    text = "Create the tables in a PostgreSQL database, so that imports need no permission to do so."
    command("init", "", text, "postgresql://user@db.example.com/deals")


def _add_check(group: Any) -> None:
    text = (
        "Check whether the service can be reached and accepts the key. With --conformance, sends more requests, and reports how "
        "the service reads the specification and where it breaks it. Nothing is created or changed."
    )
    parser = _command(group, "check", "", "service.check", text, "check", "check --conformance --deal d_1")
    contract = "test what the specification leaves open: other keys, methods and paths, unknown deals"
    _add(parser, "--conformance", contract, dest="run", action="store_const", const="contract.run")
    _add(parser, "--deal ID", "for --conformance: the id of a deal, which shows how deals are written")
    limit = "for --conformance: the maximum number of requests per second (default: 2)"
    _add(parser, "--rate-limit N", limit, type=_POSITIVE, default=2.0)
    _add_service(parser)
