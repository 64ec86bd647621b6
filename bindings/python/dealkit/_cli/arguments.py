"""The commands and their options, stated once. They are parsed with argparse, so nothing else has to be installed."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

from dealkit import __version__
from dealkit._cli.columns import ALL_FIELDS
from dealkit._cli.exits import EXIT_CODES
from dealkit._cli.screen import folded, pairs, room

_ENVIRONMENT = {
    "DEALKIT_SERVICE_KEY": "your key; not an option, because others on the machine could see it",
    "DEALKIT_SERVICE_KEY_FILE": "or a file with the key",
    "DEALKIT_BASE_URL": "the service's URL, unless --base-url is given",
    "DEALKIT_LEDGER": "the ledger for imports, unless --ledger is given",
    "PGPASSWORD": "the password for a ledger's database; not an option either",
    "HTTPS_PROXY": "the proxy, if there is one",
    "NO_COLOR": "turns off colours, whatever its value",
}


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


class _Command(NamedTuple):
    name: str
    usage: str
    short: str
    description: str
    run: str
    """The module of the function that runs it, and its name."""
    examples: tuple[str, ...]
    options: list[tuple[Any, ...]]
    """What each option is called, with what it takes (with … if it can be repeated), what it does, and what else argparse is
    told. One without dashes is an argument by position."""
    calls: bool = True
    """Whether it calls the service."""
    group: str = ""
    """The title of the options in the help."""


_SERVICE = [
    ("--base-url URL", "its URL, such as https://deals.example.com"),
    ("--timeout SECONDS", "the timeout of a call (default: 60)", {"type": _positive}),
    ("--ca-file FILE", "certificates (PEM) of further CAs to trust"),
    ("--client-cert FILE", "your certificate and its key (PEM), if the service requires one"),
    ("--allow-http", "allow http:// URLs; not secure", {"default": None}),
]
_READING = [
    ("--encoding NAME", "the file's encoding, such as cp1252 (default: UTF-8)"),
    ("--delimiter CHARACTER", "the character between columns (default: detected)"),
]
_UNREADABLE = (
    "--on-unreadable raise|none",
    "what to do about an unreadable optional field: fail the deal (raise, the default), or leave it empty and "
    "keep the original under extra (none)",
    {"choices": ("raise", "none")},
)
_WHICH = [
    ("--base-url URL", "its service's URL, if the database has several ledgers"),
    ("--key NAME", "the name of its keys, such as email, if the database has several ledgers"),
]


def _speed(concurrency: int, noun: str) -> list[tuple[Any, ...]]:
    in_flight = f"how many {noun} are in flight at a time (default: {concurrency})"
    return [
        ("--concurrency N", in_flight, {"type": _count, "default": concurrency}),
        ("--rate-limit N", "the maximum number of requests per second (default: no limit)", {"type": _positive}),
    ]


_COMMANDS = [
    _Command(
        "deal",
        "ID",
        "show a deal",
        "Shows a whole deal.",
        "service.deal",
        ("deal d_1", "deal d_1 --json"),
        [("ID", "the id of the deal"), _UNREADABLE],
    ),
    _Command(
        "deals export",
        "--ids FILE --out FILE",
        "write many deals to a file",
        "Retrieves deals and writes them to a file.",
        "export.run",
        ("deals export --ids ids.txt --out deals.csv", "deals export --ids ids.csv --out deals.parquet"),
        [
            (
                "--ids FILE",
                "the ids of the deals: a file with one per line; a .csv or .tsv file with a column named id or "
                "deal_id, in any case; or - for standard input. Blank lines are skipped, and duplicates are "
                "retrieved once",
                {"required": True},
            ),
            (
                "--out FILE",
                "the file to write; its extension selects the format: .ndjson (one JSON deal per line), .csv or "
                ".parquet; or - for NDJSON on standard output",
                {"required": True},
            ),
            ("--skip-known FILE …", "an earlier export, whose deals are not retrieved again; repeatable"),
            ("--overwrite", "replace the file if it exists"),
            ("--restart", "start over instead of resuming an interrupted run"),
            *_speed(16, "deals"),
            _UNREADABLE,
        ],
    ),
    _Command(
        "agents import",
        "FILE",
        "create agents from a table",
        "Creates an agent for each row of a CSV file. First it shows which column goes to which field, and what "
        "is wrong.",
        "agents.run",
        ("agents import agents.csv --dry-run", 'agents import agents.csv --map "E-mail=email"'),
        [
            ("FILE", "the table: a CSV file with a header row"),
            (
                "--map COLUMN=FIELD …",
                'the field for a column, as in "E-mail=email"; not needed for columns named like a field; repeatable',
            ),
            (
                "--value FIELD:CELL=VALUE …",
                'what a cell means, as in "role:Makler=AGENT"; "phone:none=" means no value; repeatable',
            ),
            ("--set FIELD=VALUE …", "the value for rows without one, as in role=AGENT; repeatable"),
            (
                "--date-format FORMAT …",
                "how dates are written, such as %%d.%%m.%%Y for 31.12.1990 (default: 1990-12-31); repeatable",
            ),
            (
                "--phone-country CODE",
                "the country of phone numbers without a country code, such as DE; needs dealkit[phone]",
            ),
            (
                "--ledger FILE",
                "where to record what was sent and its outcome, so that another run creates no agent twice: a "
                "file, or the URL of a PostgreSQL database, postgresql://… (default: DEALKIT_LEDGER, or else "
                "agents-SERVICE.ledger next to the table, whatever the table's name)",
            ),
            (
                "--key COLUMN",
                "the column that identifies rows in the ledger (default: the one for profile.external_id, or "
                "else for email)",
            ),
            ("--resend-unknown", "send rows whose outcome is unknown again; this may create an agent twice"),
            ("--wait-in-flight", "wait for rows that another import is sending"),
            ("--dry-run", "show what would be sent and what is wrong; send nothing"),
            ("--yes", "do not ask first"),
            (
                "--report FILE",
                "the CSV file for the result of each row (default: the table's name with .report.csv; none after "
                "a dry run)",
            ),
            *_READING,
            # Fewer than by default in a program: when the service fails, people look up every row that was in flight.
            *_speed(8, "agents"),
        ],
    ),
    _Command(
        "ledger show",
        "LEDGER",
        "show a ledger's contents",
        "Shows how many rows were created, rejected and settled, and lists the unknown ones with time, status "
        "and request id. Nothing is sent.",
        "ledger.show",
        ("ledger show agents.ledger", "ledger show agents.ledger --json"),
        _WHICH,
        calls=False,
    ),
    _Command(
        "ledger settle",
        "LEDGER FILE",
        "record what became of unknown or rejected rows",
        "Records in an import's ledger what became of rows. FILE is the import's report, with agent_id filled "
        "in: the agent's id if you have found the agent, or none if there is no agent, so that the next import "
        "sends the row. Rows with an empty agent_id stay as they are. Nothing is sent.",
        "ledger.settle",
        ("ledger settle agents.ledger report.csv", "ledger settle agents.ledger report.csv --undo"),
        [
            ("FILE", "a CSV file with the columns key and agent_id, such as the import's report"),
            ("--undo", "undo the settlement of rows that have an agent_id"),
            ("--yes", "do not ask first"),
            *_READING,
            *_WHICH,
        ],
        calls=False,
    ),
    _Command(
        "ledger move",
        "LEDGER URL",
        "record the service's new URL",
        "Records in an import's ledger that the same service, with the same agents, has a new URL from now on. "
        "Nothing is sent.",
        "ledger.move",
        ("ledger move agents.ledger https://new.example.com",),
        [("URL", "the new URL, as for --base-url"), *_WHICH],
        calls=False,
    ),
    _Command(
        "ledger init",
        "LEDGER",
        "create the tables in a database, and a ledger",
        "Creates the tables in a PostgreSQL database, so that imports need no permission to do so, and with "
        "--base-url a service's ledger. The first import does both by itself. A second service, or keys from "
        "another column, need this command, because they are more often a mistake that would create every agent "
        "again.",
        "ledger.init",
        ("ledger init postgresql://user@db.example.com/deals",),
        _WHICH,
        calls=False,
    ),
    _Command(
        "ledger copy",
        "LEDGER TARGET",
        "copy a ledger into a database or a file",
        "Copies a ledger's rows and their history into an empty one: from a file into a database, or back. From "
        "then on, use only the copy.",
        "ledger.copy",
        ("ledger copy agents.ledger postgresql://user@db.example.com/deals",),
        [("TARGET", "the new ledger: a file, or the URL of a database"), *_WHICH],
        calls=False,
    ),
    _Command(
        "check",
        "",
        "check whether the service can be reached and accepts the key",
        "Requests a deal that does not exist, and reports the result. With --contract, sends more requests, and "
        "reports how the service reads the specification and where it breaks it. Nothing is created or changed.",
        "service.check",
        ("check", "check --contract --deal d_1"),
        [
            (
                "--contract",
                "test what the specification leaves open: without a key, with other methods and paths, for known "
                "and unknown deals",
                {"dest": "run", "action": "store_const", "const": "contract.run"},
            ),
            ("--deal ID", "the id of an existing deal; without one, the check cannot tell how deals are written"),
            (
                "--creates",
                "also send invalid creates: none has any of the required fields, and if one is accepted, no more "
                "are sent",
            ),
            (
                "--profile-out FILE",
                "write a profile to this file: dealkit-server --profile then responds like the service",
            ),
            (
                "--rate-limit N",
                "the maximum number of requests per second (default: 2)",
                {"type": _positive, "default": 2.0},
            ),
        ],
        group="the contract",
    ),
]

_GROUPS = {
    "deals": "export deals",
    "agents": "import agents",
    "ledger": "show an import's ledger, and record what you have found out",
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
        description=_filled("Create agents and read deals with the Agent and Deal API."),
        epilog=_epilog(environment=_ENVIRONMENT, exit_codes=EXIT_CODES),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"dealkit {__version__}")
    commands = {"": parser.add_subparsers(title="commands", metavar="COMMAND", required=True)}
    for command in _COMMANDS:
        of, _, name = command.name.rpartition(" ")
        if of not in commands:
            group = commands[""].add_parser(of, help=_GROUPS[of], description=f"{_GROUPS[of].capitalize()}.")
            commands[of] = group.add_subparsers(title="commands", metavar="COMMAND", required=True)
        more = {"the fields of an agent": {"": ", ".join(ALL_FIELDS)}} if of == "agents" else {}
        examples = [f"  dealkit {example}" for example in command.examples]
        one = commands[of].add_parser(
            name,
            help=command.short,
            description=_filled(command.description),
            epilog="\n".join([_epilog(**more), "", "examples:", *examples, "", "see also: dealkit --help"]),
            usage=f"%(prog)s {command.usage} [OPTIONS]".replace("  ", " "),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        one.set_defaults(run=command.run)
        _add(one, [("--json", "print one JSON object instead of text")])
        ledger = os.environ.get("DEALKIT_LEDGER")
        if of == "ledger":
            which = "the ledger: a file, or the URL of a PostgreSQL database; optional if DEALKIT_LEDGER is set"
            _add(one, [("LEDGER", which, {"nargs": "?" if ledger else None})])
        _add(one.add_argument_group(command.group) if command.group else one, command.options)
        if command.calls:
            _add(one.add_argument_group("the service"), _SERVICE)
        if ledger:
            one.set_defaults(ledger=ledger)
    return parser


def _add(to: Any, options: list[tuple[Any, ...]]) -> None:
    for called, text, *more in options:
        name, _, takes = called.partition(" ")
        how: dict[str, Any] = {"metavar": takes.removesuffix(" …")} if takes else {"action": "store_true"}
        if takes.endswith("…"):
            how |= {"action": "append", "default": []}
        if not name.startswith("-"):
            how = {"metavar": name}
        to.add_argument(
            name if name.startswith("-") else name.lower(), help=text, **{**how, **(more[0] if more else {})}
        )


def _filled(text: str) -> str:
    return "\n".join(folded(text, min(room(sys.stdout), 80) - 2))


def _epilog(**sections: dict[str, str]) -> str:
    columns = min(room(sys.stdout), 80)
    shown = [
        "\n".join([f"{title.replace('_', ' ')}:", *pairs(values, indent="  ", columns=columns)])
        for title, values in sections.items()
    ]
    return "\n\n".join(shown)
