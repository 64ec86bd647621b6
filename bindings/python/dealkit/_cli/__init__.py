"""The console command ``dealkit``, for people who do not write code.

``arguments`` defines the commands and their options. A command prints for people as it goes, and notes in
``options.result`` what ``--json`` prints at the end: one object with counts, files and errors.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout
from types import ModuleType

from dealkit import DealkitError
from dealkit._cli.advice import failure_of
from dealkit._cli.arguments import parse
from dealkit._cli.exits import UNWRITABLE, Failed
from dealkit._cli.screen import discard, safe, tell, wait_for_reader, write_json
from dealkit._cli.signals import Signals


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command with these arguments, or those of the command line. Returns the exit code."""
    for stream in (sys.stdout, sys.stderr):
        # What cannot show a character shows a replacement, rather than nothing at all.
        if stream is not None:
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    with Signals() as signals:
        try:
            try:
                code = _run(sys.argv[1:] if arguments is None else arguments, signals)
            except BrokenPipeError:
                # The reader of the output has closed it.
                code = 128 + 13
            finally:
                signals.begin_to_end()
        except KeyboardInterrupt:
            signals.begin_to_end()
            tell("stopped")
            code = 130
        _let_go_of_output()
        # A terminal that is gone takes no output, which is then no failure of its own.
        return signals.code or code


def _run(arguments: Sequence[str], signals: Signals) -> int:
    if sys.stdout is None:
        tell("standard output is closed, so nothing was done; to see no output, redirect it to a file")
        return UNWRITABLE
    out, failed, code = sys.stdout, None, 0
    try:
        options = parse(arguments)
        options.signals, options.result = signals, {"counts": {}, "files": {}, "errors": []}
        module, function = options.run.split(".")
        try:
            # Standard output is for the object alone.
            with redirect_stdout(sys.stderr) if options.json else nullcontext():
                code = getattr(_module(module), function)(options)
            out.flush()
        except (DealkitError, sqlite3.Error, Failed) as error:
            failed = error if isinstance(error, Failed) else failure_of(error)
            options.result["errors"].append({"message": str(failed)})
            tell(str(failed))
            code = failed.code
        if options.json:
            write_json(options.result, out)
    except BrokenPipeError:
        raise
    except OSError as error:
        # The commands say which file of theirs it was; what they print has no name.
        tell(f"{safe(error.filename or 'standard output')} cannot be written: {error.strerror or error}")
        return UNWRITABLE
    return code


def _module(name: str) -> ModuleType:
    """Imports the module of a command, and no other, which would take long. Statements name the modules, because tools such as
    PyInstaller look for those.
    """
    match name:
        case "agents":
            from dealkit._cli import agents

            return agents
        case "contract":
            from dealkit._cli import contract

            return contract
        case "export":
            from dealkit._cli import export

            return export
        case "ledger":
            from dealkit._cli import ledger

            return ledger
        case _:
            from dealkit._cli import service

            return service


def _let_go_of_output() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is None:
            continue
        try:
            wait_for_reader(stream)
            stream.flush()
        except OSError:
            # Otherwise, what is left in its buffer would be written when the interpreter ends, and fail again.
            discard(stream)
