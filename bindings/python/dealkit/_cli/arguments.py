"""The commands and their options, parsed with argparse."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

from dealkit import __version__
from dealkit._cli.agent_fields import ALL_FIELDS
from dealkit._cli.csv_tables import DELIMITERS
from dealkit._cli.exit_codes import MEANINGS
from dealkit._cli.parser import Parser
from dealkit._cli.terminal import format_pairs, is_valid_unicode, line_width

ENVIRONMENT = {
    "DEALKIT_SERVICE_KEY": "the service key (your password for the service); there is no option for it, because other users of "
    "the computer could see it",
    "DEALKIT_SERVICE_KEY_FILE": "the name of a file with the service key, instead of DEALKIT_SERVICE_KEY",
    "DEALKIT_BASE_URL": "the service's address (URL), unless --base-url is given",
    "DEALKIT_LEDGER": "the ledger (the list of rows already sent) for imports, unless --ledger is given",
    "PGPASSWORD": "the password for a ledger in a PostgreSQL database",
    "HTTPS_PROXY": "the address of your network's proxy, if there is one",
    "NO_COLOR": "turns off colours if it has any value",
}

# The options and arguments that must be valid Unicode. Paths may contain any bytes.
_TEXT_OPTIONS = (
    "base_url",
    "date_format",
    "deal",
    "encoding",
    "header_row",
    "id",
    "ignore",
    "key",
    "map",
    "map_value",
    "phone_country",
    "sheet",
    "url",
)


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Parses the command line. The attribute `run` of the result names the module and the function that run the
    command. Exits if the arguments are invalid.
    """
    parser = build_parser()
    if "_ARGCOMPLETE" in os.environ:
        # Shells set this variable when they complete a command.
        import argcomplete

        argcomplete.autocomplete(parser)
    options: argparse.Namespace
    options, unknown_arguments = parser.parse_known_args(arguments)
    if unknown_arguments:
        options.parser.error(options.parser.describe_unknown_arguments(unknown_arguments, parser))
    if "run" not in options:
        options.parser.print_help()
        options.parser.exit()
    for name in _TEXT_OPTIONS:
        value = getattr(options, name, None)
        if not all(map(is_valid_unicode, value if isinstance(value, list) else [value or ""])):
            options.parser.error(
                f"{options.parser.display_name(name)} contains characters that are not text. Enter it again."
            )
    options.arguments = list(arguments)
    return options


def _parse_positive(kind: type[int] | type[float], text: str) -> float:
    try:
        number = kind(text)
    except ValueError:
        number = 0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError("must be a number greater than zero")
    return number


_POSITIVE_INT, _POSITIVE_FLOAT = partial(_parse_positive, int), partial(_parse_positive, float)


def build_parser() -> Parser:
    columns = min(line_width(sys.stdout), 80)
    environment = format_pairs(ENVIRONMENT, indent="  ", columns=columns)
    exit_codes = format_pairs({str(code): text for code, text in MEANINGS.items()}, indent="  ", columns=columns)
    parser = Parser(
        prog="dealkit",
        description="Create agents and read deals with the Agent and Deal API.",
        epilog=f"environment variables:\n{environment}\n\nexit codes:\n{exit_codes}",
    )
    parser.add_argument("--version", action="version", version=f"dealkit {__version__}")
    commands = _add_subcommands(parser)
    _add_deal(commands)
    _add_export(_add_subcommands(commands.add_parser("deals", help="Export deals")))
    _add_import(_add_subcommands(commands.add_parser("agents", help="Import agents")))
    _add_ledger(
        _add_subcommands(
            commands.add_parser(
                "ledger", help="Show the list of rows already sent (ledger), and record the agents of unknown rows"
            )
        )
    )
    _add_check(commands)
    return parser


def _add_subcommands(parser: argparse.ArgumentParser) -> Any:
    """Adds a group of subcommands. Without a subcommand, the command prints the group's help."""
    parser.set_defaults(parser=parser)
    return parser.add_subparsers(title="commands", metavar="COMMAND")


def _add_command(group: Any, name: str, metavar: str, run: str, text: str, *examples: str) -> argparse.ArgumentParser:
    """Adds a command. The list of commands shows the first sentence of its description."""
    lines = "\n".join(f"  dealkit {example}" for example in examples)
    summary = text.partition(".")[0]
    parser: argparse.ArgumentParser = group.add_parser(
        name,
        usage=f"%(prog)s {metavar}[OPTIONS]",
        help=summary,
        description=text,
        epilog=f"examples:\n{lines}\n\nsee also: dealkit --help",
    )
    parser.set_defaults(run=run, parser=parser)
    _add_argument(parser, "--json", "print one JSON object, for programs, instead of text")
    return parser


def _add_argument(parser: Any, usage: str, text: str, **keywords: Any) -> None:
    """Adds an option or a positional argument. `usage` is its name and its value, as in `--out FILE`. An option
    without a value is a flag.
    """
    name, _, metavar = usage.partition(" ")
    if not name.startswith("-"):
        name, metavar = name.lower(), name
    flag = {"action": "store_true"} if not metavar else {"metavar": metavar}
    parser.add_argument(name, help=text, **(flag | keywords))


_REPEATABLE: dict[str, Any] = {"action": "append", "default": []}


def _add_service(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the service")
    _add_argument(group, "--base-url URL", "its address (URL), such as https://deals.example.com")
    _add_argument(
        group,
        "--timeout SECONDS",
        "the maximum time for a request, with its repetitions (default: 60)",
        type=_POSITIVE_FLOAT,
    )
    _add_argument(group, "--ca-file FILE", "a file of further certificates (PEM) to trust")
    _add_argument(
        group, "--client-cert FILE", "a file with your certificate and its key (PEM), if the service requires one"
    )
    _add_argument(group, "--allow-http", "allow an address that begins with http://, which is not secure", default=None)


def _add_request_limits(parser: Any, concurrency: int) -> None:
    text = f"the maximum number of requests at the same time (default: {concurrency})"
    _add_argument(parser, "--concurrency N", text, type=_POSITIVE_INT, default=concurrency)
    _add_argument(
        parser, "--rate-limit N", "the maximum number of requests per second (default: no limit)", type=_POSITIVE_FLOAT
    )


def _add_delimiter(parser: Any, default: str) -> None:
    """Adds the delimiter of a CSV file that is written. The value in the result is the character."""
    text = f"what separates the cells of a .csv file: {', '.join(DELIMITERS)} (default: {default}), or the character in quotation marks"
    _add_argument(parser, "--delimiter NAME", text, type=_parse_delimiter)


def _parse_delimiter(text: str) -> str:
    delimiter = DELIMITERS.get(text.lower(), text)
    if delimiter not in DELIMITERS.values():
        raise argparse.ArgumentTypeError(f"must be one of {', '.join(DELIMITERS)}")
    return delimiter


_UNREADABLE_HELP = "if an optional field of a deal cannot be read: report an error (raise, the default), or put the field's original under extra (skip)"
_ENCODING_HELP = "the encoding of the file, such as cp1252 (default: UTF-8)"


def _add_deal(group: Any) -> None:
    parser = _add_command(
        group, "deal", "ID ", "service.show_deal", "Show a whole deal.", "deal d_1", "deal d_1 --json"
    )
    _add_argument(parser, "ID", "the id of the deal")
    _add_argument(parser, "--on-unreadable raise|skip", _UNREADABLE_HELP, choices=("raise", "skip"))
    _add_service(parser)


def _add_export(group: Any) -> None:
    examples = ("deals export --ids ids.txt --out deals.csv", "deals export --ids ids.xlsx --out deals.xlsx")
    parser = _add_command(
        group,
        "export",
        "--ids FILE --out FILE ",
        "export_deals.run",
        "Retrieve deals and write them to a file.",
        *examples,
    )
    _add_argument(
        parser,
        "--ids FILE",
        "the file with the ids of the deals: one id per line; a .csv, .tsv or .xlsx table with a column named id or deal_id; a .json or "
        ".jsonl file of ids or deals; an earlier export; or - for standard input. Blank lines are skipped, and repeated ids "
        "are retrieved once",
        required=True,
    )
    out_help = "the file to write; the end of its name selects the format: .csv or .xlsx (a table), .parquet, or .ndjson (one JSON deal per line)"
    _add_argument(parser, "--out FILE", out_help, required=True)
    _add_delimiter(parser, "comma")
    _add_argument(parser, "--sheet NAME", "the sheet with the ids, if a workbook has several sheets")
    _add_argument(
        parser, "--exclude-ids FILE", "a file of ids, as for --ids, of deals to leave out; repeatable", **_REPEATABLE
    )
    _add_argument(parser, "--overwrite", "replace the file if it exists")
    _add_argument(parser, "--on-unreadable raise|skip", _UNREADABLE_HELP, choices=("raise", "skip"))
    _add_request_limits(parser, 16)
    _add_service(parser)


def _default_ledger() -> str | None:
    """Returns the ledger in the environment variable; an empty variable counts as unset."""
    return os.environ.get("DEALKIT_LEDGER") or None


def _add_import(group: Any) -> None:
    text = (
        "Create an agent for each row of a table. First it shows which column goes to which field, what is wrong, and three rows "
        f"as they will be sent. The fields of an agent are {', '.join(ALL_FIELDS)}."
    )
    examples = (
        "agents import agents.xlsx --mapping agents.toml --dry-run",
        "agents import agents.xlsx --mapping agents.toml --limit 5",
        'agents import agents.csv --map "Agent Name=first_name+last_name"',
    )
    parser = _add_command(group, "import", "FILE ", "import_agents.run", text, *examples)
    _add_argument(parser, "FILE", "the table: an Excel workbook (.xlsx) or a CSV file")
    table = parser.add_argument_group("the table")
    mapping_help = "a file with the settings of this table, such as roster.toml: it is written by a dry run and by an import, and read by the next"
    _add_argument(table, "--mapping FILE", mapping_help)
    _add_argument(table, "--sheet NAME", "the worksheet, if the workbook has several")
    header_help = (
        "the row with the column names, such as 4, or two rows, such as 4-5 (default: found by the known names)"
    )
    _add_argument(table, "--header-row N", header_help)
    map_help = (
        'the field of a column, as in "Mail=email", or "Agent Name=first_name+last_name" for a column with both names; a column '
        'may also be named by its letter, as in "column F=phone"; repeatable'
    )
    _add_argument(table, "--map COLUMN=FIELD", map_help, **_REPEATABLE)
    _add_argument(table, "--ignore COLUMN", "a column that is not sent; repeatable", **_REPEATABLE)
    value_help = 'the meaning of a cell, as in "role:Makler=AGENT", "phone:none=" (nothing) or "role:=AGENT" (if empty); repeatable'
    _add_argument(table, "--map-value FIELD:CELL=VALUE", value_help, **_REPEATABLE)
    date_help = (
        "how dates are written, such as DD.MM.YYYY or MM/DD/YYYY (default: as the dates themselves show); repeatable"
    )
    _add_argument(table, "--date-format FORMAT", date_help, **_REPEATABLE)
    phone_help = "the country, such as DE, of phone numbers without a country code; needs dealkit[phone]"
    _add_argument(table, "--phone-country CODE", phone_help)
    _add_argument(table, "--encoding NAME", _ENCODING_HELP)
    key_help = (
        "the column that identifies rows in the ledger (default: the column for profile.external_id, or else for email); repeat it for "
        "columns that identify a row only together"
    )
    _add_argument(table, "--key COLUMN", key_help, **_REPEATABLE)
    shared_help = (
        "send rows of different people who share an e-mail address, if their keys differ (default: hold them back)"
    )
    _add_argument(table, "--allow-shared-email", shared_help)
    run = parser.add_argument_group("the import")
    _add_argument(run, "--dry-run", "show what would be sent and what is wrong; send nothing")
    _add_argument(run, "--limit N", "send only the first N rows that were not sent before", type=_POSITIVE_INT)
    _add_argument(run, "--yes", "do not ask first")
    ledger_option_help = (
        "where to record what was sent and its outcome, so that another run creates no agent twice: a file, or the URL of a "
        "PostgreSQL database, postgresql://… (default: DEALKIT_LEDGER, or else agents-SERVICE.ledger next to the table)"
    )
    _add_argument(run, "--ledger FILE", ledger_option_help, default=_default_ledger())
    _add_argument(run, "--resend-unknown", "send rows whose outcome is unknown again; this may create an agent twice")
    _add_argument(run, "--wait-in-flight", "wait for rows that another import is sending")
    # The limit is lower than the library's default, because a person must look up every row in flight if the service
    # fails.
    _add_request_limits(run, 8)
    files = parser.add_argument_group("the results")
    report_help = "the file for the rows' outcomes, .csv or .xlsx (default: the table's name with .report.csv or .report.xlsx; none after a dry run)"
    _add_argument(files, "--report FILE", report_help)
    rejects_help = (
        "the file for the rows to be corrected, with the reasons, .csv or .xlsx (default: the table's name with .rejects.xlsx, or "
        ".rejects.csv without dealkit[excel]; none after a dry run)"
    )
    _add_argument(files, "--rejects FILE", rejects_help)
    _add_delimiter(files, "the delimiter of the table")
    _add_service(parser)


def _add_ledger(group: Any) -> None:
    def add_command(name: str, metavar: str, text: str, example: str) -> argparse.ArgumentParser:
        text, example = f"{text} Nothing is sent to the service.", f"ledger {name} {example}"
        parser = _add_command(
            group, name, f"LEDGER {metavar}", f"ledger_commands.{name.replace('-', '_')}", text, example
        )
        default = _default_ledger()
        ledger_help = "the ledger (the list of rows already sent): a file, or the URL of a PostgreSQL database; optional if DEALKIT_LEDGER is set"
        _add_argument(parser, "LEDGER", ledger_help, nargs="?" if default else None, default=default)
        return parser

    add_command(
        "show",
        "",
        "Count the rows of a ledger by result, and list the requests of unknown rows, whose agents may exist.",
        "agents.ledger",
    )
    text = (
        "Record the agents of unknown rows (whose agents may exist). FILE is the import's report, with entries in agent_id: the "
        "agent's id, if the service has the agent, or none, if the service's operator has confirmed, an hour or more after the "
        "import, that there is no agent. The next import sends the rows with none. Also enter none for a rejected row once it is corrected. Rows with an empty agent_id stay "
        "unchanged."
    )
    report_help = "the import's report, or another CSV file with the columns key and agent_id"
    resolve = add_command("resolve", "FILE ", text, "agents.ledger report.csv")
    text = (
        "Mark rows as unknown (their agents may exist) that were sent without the ledger's knowledge, because it was restored from an older copy. "
        "FILE is the import's report: its created and unknown rows are marked, unless the ledger has their agents. The next import does not "
        "send them. Then record their agents with dealkit ledger resolve."
    )
    mark_unknown = add_command("mark-unknown", "FILE ", text, "agents.ledger report.csv")
    for parser in (resolve, mark_unknown):
        _add_argument(parser, "FILE", report_help)
        _add_argument(parser, "--yes", "do not ask for confirmation")
        _add_argument(parser, "--encoding NAME", _ENCODING_HELP)
    text = "Record the new address (URL) of a service that still has the same agents."
    set_base_url = add_command("set-base-url", "URL ", text, "agents.ledger https://new.example.com")
    _add_argument(set_base_url, "URL", "the new address, as for --base-url")
    text = "Copy a ledger to a new file, as a backup. Imports may be running."
    _add_argument(
        add_command("backup", "FILE ", text, "agents.ledger agents.backup"),
        "FILE",
        "the new file, which must not exist yet",
    )
    text = "Prepare a PostgreSQL database for ledgers: create its tables, so that imports need no permission to do so."
    add_command("init", "", text, "postgresql://user@db.example.com/deals")


def _add_check(group: Any) -> None:
    text = (
        "Check whether the service can be reached and accepts the service key. With --conformance, sends more requests, and reports "
        "how the service interprets the specification, and where it violates it. Nothing is created or changed."
    )
    parser = _add_command(group, "check", "", "service.check_service", text, "check", "check --conformance --deal d_1")
    conformance_help = (
        "test the behavior that the specification leaves open, with other keys, methods and paths, and unknown deals"
    )
    _add_argument(parser, "--conformance", conformance_help, dest="run", action="store_const", const="conformance.run")
    _add_argument(parser, "--deal ID", "for --conformance: the id of a deal to read")
    rate_limit_help = "for --conformance: the maximum number of requests per second (default: 2)"
    _add_argument(parser, "--rate-limit N", rate_limit_help, type=_POSITIVE_FLOAT, default=2.0)
    _add_service(parser)
