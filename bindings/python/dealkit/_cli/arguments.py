"""The commands and their options, stated once. They are parsed with argparse, so nothing else has to be installed."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from dealkit import __version__
from dealkit._cli.exits import EXIT_CODES
from dealkit._cli.screen import folded, pairs, room

if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction[Any]

_ENVIRONMENT = {
    "DEALKIT_SERVICE_KEY": "the key issued to you; there is no option for it, which others on the machine could see",
    "DEALKIT_SERVICE_KEY_FILE": "a file with the key instead",
    "DEALKIT_BASE_URL": "the address of the service, unless --base-url is given",
    "DEALKIT_LEDGER": "the ledger of imports, unless --ledger is given",
    "PGPASSWORD": "the password of a ledger's database, which has no place in an option either",
    "HTTPS_PROXY": "the proxy to go through, if there is one",
    "NO_COLOR": "no colours, if set to anything",
}


_EXAMPLES = {
    "service.deal": ["deal d_1", "deal d_1 --json"],
    "service.check": ["check", "check --contract --deal d_1"],
    "export.run": ["deals export --ids ids.txt --out deals.csv", "deals export --ids ids.csv --out deals.parquet"],
    "agents.run": ["agents import agents.csv --dry-run", 'agents import agents.csv --map "E-mail=email"'],
    "ledger.show": ["ledger show agents.ledger", "ledger show agents.ledger --json"],
    "ledger.settle": ["ledger settle agents.ledger report.csv", "ledger settle agents.ledger report.csv --undo"],
    "ledger.move": ["ledger move agents.ledger https://new.example.com"],
    "ledger.copy": ["ledger copy agents.ledger postgresql://user@db.example.com/deals"],
    "ledger.init": ["ledger init postgresql://user@db.example.com/deals"],
}


class _Parser(argparse.ArgumentParser):
    """A parser whose errors repeat no values: a value may be a key in the wrong place."""

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        # The help may not have been written.
        sys.stdout.flush()
        super().exit(status, message)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"dealkit: {message}\nTry: {self.prog} --help\n")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of the command that the arguments name, with the function that runs it in `run`, as its module and its
    name. Exits if they are wrong, or, after showing the help, if there are none."""
    parser = _parser()
    if "_ARGCOMPLETE" in os.environ:
        # Only the user's shell sets it, if it was told to complete this command.
        import argcomplete

        argcomplete.autocomplete(parser)
    if not arguments:
        parser.print_help(sys.stderr)
        parser.exit(2)
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        names = [name.partition("=")[0] for name in unknown if name.startswith("--")]
        if any(name in ("--key", "--service-key", "--api-key") for name in names):
            parser.error(f"there is no option {names[0]} here; the service key goes into DEALKIT_SERVICE_KEY")
        parser.error(f"there is no option {names[0]} here" if names else "too many arguments")
    options.arguments, options.parse = list(arguments), parse
    return options


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="dealkit",
        description=_filled("Create agents and read deals over the Agent and Deal interface."),
        epilog=_epilog(environment=_ENVIRONMENT, exit_codes=EXIT_CODES),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"dealkit {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    deal = _command(commands, "deal", "ID", "show a deal", "Shows the whole deal.", "service.deal")
    deal.add_argument("id", metavar="ID", help="the id of the deal")
    _add_unreadable(deal)
    _add_export(_group(commands, "deals", "export deals"))
    _add_import(_group(commands, "agents", "import agents"))
    _add_ledger(_group(commands, "ledger", "show the ledger of an import, and record in it what you have found out"))
    _add_check(commands)
    return parser


def _add_check(commands: _Commands) -> None:
    check = _command(
        commands,
        "check",
        "",
        "check whether the service can be reached and accepts the key",
        "Asks the service for a deal that does not exist, and reports the result. With --contract, it asks more, and reports how "
        "the service reads the specification and what breaks it. Nothing is created or changed.",
        "service.check",
    )
    contract = check.add_argument_group("the contract")
    add = contract.add_argument
    add(
        "--contract",
        dest="run",
        action="store_const",
        const="contract.run",
        help="ask what the specification leaves open: without a key, with other methods and paths, for known and unknown deals",
    )
    add("--deal", metavar="ID", help="the id of a deal that exists; without one, how deals are written is not asked")
    add(
        "--creates",
        action="store_true",
        help="send invalid creates, too: none has any of the required fields, and none is sent after one that is accepted",
    )
    add(
        "--profile-out", metavar="FILE", help="the file to write for dealkit-server --profile, which then answers alike"
    )
    add(
        "--rate-limit",
        type=_positive,
        default=2.0,
        metavar="N",
        help="the maximum number of requests per second (default: 2)",
    )


def _add_export(commands: _Commands) -> None:
    export = _command(
        commands,
        "export",
        "--ids FILE --out FILE",
        "write many deals to a file",
        "Retrieves deals and writes them to a file.",
        "export.run",
    )
    add = export.add_argument
    add(
        "--ids",
        required=True,
        metavar="FILE",
        help="the ids of the deals: a file with one per line; a .csv or .tsv file with a column named id or deal_id, in upper "
        "or lower case; or - for standard input. Blank lines are skipped, and an id that occurs twice is retrieved once",
    )
    add(
        "--out",
        required=True,
        metavar="FILE",
        help="the file to write; its extension selects the format: .ndjson (one deal per line, as JSON), .csv or .parquet; or "
        "- for standard output, as NDJSON",
    )
    add(
        "--skip-known",
        action="append",
        default=[],
        metavar="FILE",
        help="a file of an earlier export, whose deals are not retrieved again. Repeatable",
    )
    add("--overwrite", action="store_true", help="replace the file if it exists")
    add("--restart", action="store_true", help="start over instead of resuming an earlier run that was stopped")
    _add_speed(export, 16, "deals")
    _add_unreadable(export)


def _add_import(commands: _Commands) -> None:
    # Only this command needs them.
    from dealkit._cli.columns import ALL_FIELDS

    imports = _command(
        commands,
        "import",
        "FILE",
        "create agents from a table",
        "Creates an agent for each row of a CSV file, after showing which column goes to which field and what is wrong.",
        "agents.run",
        fields_that_map_and_value_and_set_know={"": ", ".join(ALL_FIELDS)},
    )
    add = imports.add_argument
    add("file", metavar="FILE", help="the table: a CSV file with a header")
    many: dict[str, Any] = {"action": "append", "default": []}
    add(
        "--map",
        **many,
        metavar="COLUMN=FIELD",
        help='the field that a column holds, as in "E-mail=email"; not needed for columns named like a field. Repeatable',
    )
    add(
        "--value",
        **many,
        metavar="FIELD:CELL=VALUE",
        help='what a cell means, as in "role:Makler=AGENT", or nothing, as in "phone:none=". Repeatable',
    )
    add("--set", **many, metavar="FIELD=VALUE", help="the value where a row has none, as in role=AGENT. Repeatable")
    add(
        "--date-format",
        **many,
        metavar="FORMAT",
        help="how dates are written, as in %%d.%%m.%%Y for 31.12.1990 (default: 1990-12-31). Repeatable",
    )
    add(
        "--phone-country",
        metavar="CODE",
        help="the country of phone numbers that do not say it, such as DE; needs dealkit[phone]",
    )
    add(
        "--ledger",
        metavar="FILE",
        default=os.environ.get("DEALKIT_LEDGER"),
        help="where to record what was sent and its outcome, so that a second run creates no agent twice: a file, or the URL of "
        "a PostgreSQL database, postgresql://… (default: what DEALKIT_LEDGER names, or else agents-SERVICE.ledger beside the "
        "table, whatever the table is called)",
    )
    add(
        "--key",
        metavar="COLUMN",
        help="the column that tells the rows apart in the ledger (default: that of profile.external_id, otherwise that of email)",
    )
    add(
        "--resend-unknown",
        action="store_true",
        help="send again the rows whose outcome is unknown; an agent may then be created twice",
    )
    add("--wait-in-flight", action="store_true", help="wait for rows that another import is sending")
    add("--dry-run", action="store_true", help="show what would be sent and what is wrong; send nothing")
    add("--yes", action="store_true", help="do not ask before agents are created")
    add(
        "--report",
        metavar="FILE",
        help="the CSV file that says what became of each row (default: the table's name with .report.csv; after a dry run, none)",
    )
    _add_reading(imports)
    # Fewer than by default in a program: when the service fails, people look up every row that was in flight.
    _add_speed(imports, 8, "agents")


def _add_ledger(commands: _Commands) -> None:
    def command(name: str, usage: str, short: str, description: str) -> argparse.ArgumentParser:
        parser = _command(commands, name, f"LEDGER {usage}", short, description, f"ledger.{name}", calls=False)
        ledger = os.environ.get("DEALKIT_LEDGER")
        parser.add_argument(
            "ledger",
            metavar="LEDGER",
            nargs="?" if ledger else None,
            default=ledger,
            help="the ledger of the import: a file, or the URL of a PostgreSQL database; may be left out if DEALKIT_LEDGER names it",
        )
        which = parser.add_argument_group("which ledger, if a database has several")
        which.add_argument("--base-url", metavar="URL", help="the address of its service")
        which.add_argument("--key", metavar="NAME", help="the name of its keys, such as email")
        return parser

    command(
        "show",
        "",
        "show what a ledger has",
        "Shows how many rows were created, rejected and settled, and which are unknown, with time, status and request id. "
        "Nothing is sent.",
    )
    settle = command(
        "settle",
        "FILE",
        "record what became of rows that are unknown or were rejected",
        "Records in the ledger of an import what became of rows. FILE is the import's report, with agent_id filled in: the "
        "agent's id if you have found the agent, or none if there is no agent, so that the next import sends the row. "
        "Rows with an empty agent_id do not change. Nothing is sent.",
    )
    settle.add_argument(
        "file", metavar="FILE", help="a CSV file with the columns key and agent_id: the report of the import"
    )
    settle.add_argument("--undo", action="store_true", help="undo what was settled of the rows that have an agent_id")
    settle.add_argument("--yes", action="store_true", help="do not ask before it is recorded")
    _add_reading(settle)
    move = command(
        "move",
        "URL",
        "record that the service has another address",
        "Records in the ledger of an import that the service, still the same and with the same agents, has another address "
        "from now on. Nothing is sent.",
    )
    move.add_argument("url", metavar="URL", help="the new address, as --base-url takes it")
    command(
        "init",
        "",
        "make the tables in a database, and a ledger",
        "Makes the tables in a PostgreSQL database, so that imports need no right to make any, and with --base-url the ledger "
        "of a service. The first import does both by itself; a second service, or keys from another column, need this "
        "command, because they are more often a mistake, which creates everybody again.",
    )
    copy = command(
        "copy",
        "TARGET",
        "copy a ledger into a database, or into a file",
        "Copies all rows of a ledger, and their history, into another that has none: from a file into a database, or back. "
        "Use only the copy from then on.",
    )
    copy.add_argument("target", metavar="TARGET", help="the new ledger: a file, or the URL of a database")


def _add_reading(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--encoding", metavar="NAME", help="the encoding of the file, such as cp1252 (default: UTF-8)")
    parser.add_argument("--delimiter", metavar="CHARACTER", help="the character between columns (default: detected)")


def _add_speed(parser: argparse.ArgumentParser, concurrency: int, noun: str) -> None:
    parser.add_argument(
        "--concurrency",
        type=_count,
        default=concurrency,
        metavar="N",
        help=f"how many {noun} are in flight at the same time (default: {concurrency})",
    )
    parser.add_argument(
        "--rate-limit",
        type=_positive,
        metavar="N",
        help="the maximum number of requests per second (default: no limit)",
    )


def _add_unreadable(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--on-unreadable",
        choices=("raise", "none"),
        metavar="raise|none",
        help="what to make of an optional field that cannot be read: an error of the deal (raise, the default), or an empty "
        "value, with what was there under extra (none)",
    )


def _command(
    commands: _Commands,
    name: str,
    usage: str,
    short: str,
    description: str,
    run: str,
    *,
    calls: bool = True,
    **more: dict[str, str],
) -> argparse.ArgumentParser:
    """A command; one that calls the service has the options that every such command has."""
    examples = [f"  dealkit {example}" for example in _EXAMPLES[run]]
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=short,
        description=_filled(description),
        epilog="\n".join([_epilog(**more), "", "examples:", *examples, "", "see also: dealkit --help"]),
        usage=f"%(prog)s {usage} [OPTIONS]".replace("  ", " "),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(run=run)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    if not calls:
        return parser
    service = parser.add_argument_group("the service")
    service.add_argument("--base-url", metavar="URL", help="its address, such as https://deals.example.com")
    service.add_argument("--timeout", type=_positive, metavar="SECONDS", help="the time limit of a call (default: 60)")
    service.add_argument("--ca-file", metavar="FILE", help="certificates (PEM) of issuers to trust as well")
    service.add_argument(
        "--client-cert", metavar="FILE", help="your certificate and its key (PEM), if the service asks for one"
    )
    service.add_argument(
        "--allow-http", action="store_true", default=None, help="allow an address that begins with http://: not secure"
    )
    return parser


def _group(commands: _Commands, name: str, short: str) -> _Commands:
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=short, description=short.capitalize() + ".", allow_abbrev=False
    )
    return parser.add_subparsers(title="commands", metavar="COMMAND", required=True)


def _filled(text: str) -> str:
    return "\n".join(folded(text, min(room(sys.stdout), 80) - 2))


def _epilog(**sections: dict[str, str]) -> str:
    columns = min(room(sys.stdout), 80)
    shown = [
        "\n".join([f"{title.replace('_', ' ')}:", *pairs(values, indent="  ", columns=columns)])
        for title, values in sections.items()
    ]
    return "\n\n".join(shown)


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError("must be a whole number, at least 1")
    return int(text)


def _positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError("must be a number greater than zero")
    return number
