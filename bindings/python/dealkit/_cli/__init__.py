"""The console command ``dealkit``, for people who do not write code.

The module ``arguments`` defines the commands and their options. A command prints text while it works. It also fills
``options.result``, an object with counts, files and errors, which ``--json`` prints at the end.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout
from types import ModuleType
from warnings import catch_warnings

from dealkit import DealkitError, IdempotencyKeyReusedWarning
from dealkit._cli.arguments import parse_arguments
from dealkit._cli.error_messages import to_command_error
from dealkit._cli.exit_codes import UNWRITABLE, CommandError
from dealkit._cli.files import explain_os_error
from dealkit._cli.signals import Signals
from dealkit._cli.terminal import discard_output, escape_controls, print_message, wait_for_reader, write_json


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code. The arguments default to the command line's."""
    for stream in (sys.stdout, sys.stderr):
        # A stream whose encoding lacks a character prints a replacement character instead of failing.
        if stream is not None:
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    # The report names the rows that have changed, so the warning is not shown.
    with Signals() as signals, catch_warnings(action="ignore", category=IdempotencyKeyReusedWarning):
        try:
            try:
                code = _run_command(sys.argv[1:] if arguments is None else arguments, signals)
            except BrokenPipeError:
                # The program that read the output has closed the pipe.
                code = 128 + 13
            finally:
                signals.mark_finishing()
        except KeyboardInterrupt:
            signals.mark_finishing()
            print_message("The command was stopped.")
            code = 130
        _flush_output()
        # Output to a closed terminal is lost, but that does not change the exit code.
        return signals.code or code


def _run_command(arguments: Sequence[str], signals: Signals) -> int:
    if sys.stdout is None:
        print_message("Nothing was done, because standard output is closed. To hide the output, send it to a file.")
        return UNWRITABLE
    out, code = sys.stdout, 0
    try:
        options = parse_arguments(arguments)
        options.signals, options.result = signals, {"counts": {}, "files": {}, "errors": []}
        module, function = options.run.split(".")
        try:
            # Only the JSON object goes to standard output.
            with redirect_stdout(sys.stderr) if options.json else nullcontext():
                code = getattr(_import_command_module(module), function)(options)
            out.flush()
        except (DealkitError, sqlite3.Error, CommandError) as error:
            # No variable may hold the exception beyond this block: the exception holds the frames, and thus open files.
            message, code = _describe_failure(error)
            options.result["errors"].append({"message": message})
            print_message(message)
        if options.json:
            write_json(options.result, out)
    except BrokenPipeError:
        raise
    except OSError as error:
        # The commands themselves report errors of the files that they use. The remaining errors are of standard output,
        # and have no file name.
        print_message(f"{escape_controls(error.filename or 'The output')} cannot be written: {explain_os_error(error)}")
        return UNWRITABLE
    return code


def _describe_failure(error: DealkitError | sqlite3.Error | CommandError) -> tuple[str, int]:
    """Returns the message and the exit code of an error."""
    failure = error if isinstance(error, CommandError) else to_command_error(error)
    return str(failure), failure.code


def _import_command_module(name: str) -> ModuleType:
    """Imports the module of one command only, because importing all of them takes long. The import statements are
    literal, so that tools such as PyInstaller find the modules.
    """
    match name:
        case "import_agents":
            from dealkit._cli import import_agents

            return import_agents
        case "conformance":
            from dealkit._cli import conformance

            return conformance
        case "export_deals":
            from dealkit._cli import export_deals

            return export_deals
        case "ledger_commands":
            from dealkit._cli import ledger_commands

            return ledger_commands
        case _:
            from dealkit._cli import service

            return service


def _flush_output() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is None:
            continue
        try:
            wait_for_reader(stream)
            stream.flush()
        except OSError:
            # The interpreter would flush the rest of the buffer at exit and fail again.
            discard_output(stream)
