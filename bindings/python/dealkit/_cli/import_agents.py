"""`dealkit agents import`: an agent for each row of a table."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from dealkit._cli import report
from dealkit._cli.advice import code_of, explanation
from dealkit._cli.columns import Columns
from dealkit._cli.connection import address, connect, probe
from dealkit._cli.creates import Creates, ledger_of
from dealkit._cli.exits import DONE, INCOMPLETE, Failed, Interrupted
from dealkit._cli.plan import Plan, plan_of
from dealkit._cli.report import Result
from dealkit._cli.screen import bold, command_line, counted, is_terminal, safe, say, table
from dealkit._cli.table_file import Table, read_table
from dealkit._client import Client
from dealkit.exceptions import APIConnectionError, AuthenticationError


def run(options: Namespace) -> int:
    """Shows what goes where and what is wrong, and creates the agents unless that is all that is wanted."""
    path = Path(options.file)
    rows = read_table(path, options.encoding, options.delimiter)
    columns = Columns(rows.header, options.map)
    _show_table(path, rows, columns)
    if columns.missing:
        raise Failed(
            f"no column holds {' or '.join(columns.missing)}, which every agent needs. Say which does with "
            f'--map "COLUMN={columns.missing[0]}"'
        )
    plan = plan_of(rows, columns, columns.key_index(options.key))
    if plan.mistakes:
        report.show_mistakes(plan.mistakes)
        say()
    invalid = plan.invalid()
    say(f"{counted(len(plan.lines), 'row')} can be sent, {len(invalid):,} cannot")
    if options.dry_run:
        if options.report:
            report.write(Path(options.report), [*invalid, *(Result(line.number, "not sent") for line in plan.lines)])
        say("Nothing was sent: this was a dry run.")
        return INCOMPLETE if invalid else DONE
    if not plan.lines:
        return INCOMPLETE if invalid else DONE
    with connect(options) as client:
        _ask_whether(plan, options)
        if options.report:
            report.check(Path(options.report))
        _see_whether_it_can_work(client)
        return _import(client, plan, options)


def _show_table(path: Path, rows: Table, columns: Columns) -> None:
    say(f"{safe(str(path))}: {counted(len(rows.rows), 'row')}, {rows.encoding}, separated by {rows.separated_by}")
    say()
    head, *body = table([("Column", "goes to"), *columns.shown()], indent="  ")
    say(bold(head))
    for line in body:
        say(line)
    say()


def _ask_whether(plan: Plan, options: Namespace) -> None:
    """Has somebody confirm that agents are to be created."""
    if options.yes:
        return
    if not is_terminal(sys.stdin):
        raise Failed("nobody can be asked whether this is right: look at it with --dry-run, and then add --yes")
    # What is asked about comes first.
    sys.stdout.flush()
    agents, ledger = counted(len(plan.lines), "agent"), ledger_of(options)
    question = f"Create {agents} at {safe(address(options))}?"
    if ledger.exists():
        question += f" Those that {safe(str(ledger))} has from an earlier run are not sent again."
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    try:
        answer = sys.stdin.readline()
    except KeyboardInterrupt:
        print(file=sys.stderr)
        raise
    if answer.strip().lower() not in ("y", "yes"):
        raise Failed("nothing was sent", INCOMPLETE)


def _see_whether_it_can_work(client: Client) -> None:
    """A key that is refused, or a service that is not there, is found out before a row is used up."""
    response = probe(client)
    if isinstance(response, AuthenticationError | APIConnectionError):
        raise response


def _import(client: Client, plan: Plan, options: Namespace) -> int:
    creates = Creates(client, plan.lines, options)
    interrupt = None
    try:
        creates.run()
    except KeyboardInterrupt as stop:
        interrupt = stop
    results = [*creates.results(), *plan.invalid()]
    # First: whoever reads the screen may have stopped reading.
    if options.report:
        report.write(Path(options.report), results)
    say()
    report.show(results)
    say()
    say(f"{safe(str(ledger_of(options)))} records it: the same command creates nobody a second time.")
    go_on = f"To go on, run the same command again:\n  {command_line(options.arguments)}"
    if interrupt is not None:
        raise Interrupted(f"stopped. {go_on}") from interrupt
    if creates.stopped_by is not None:
        raise Failed(f"{explanation(creates.stopped_by)}\n{go_on}", code_of(creates.stopped_by))
    return DONE if all(result.came_to == "created" for result in results) else INCOMPLETE
