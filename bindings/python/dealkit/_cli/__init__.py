"""The console command ``dealkit``, for people who do not write code.

``arguments`` defines the commands and their options, and each command has a file of its own. The rest of the package
imports nothing from here.
"""

from __future__ import annotations

import os
import sys

# For type checkers only: what is imported here can be interrupted before `main` looks after that.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from dealkit._cli.signals import Signals


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command with these arguments, or those of the command line. Returns the exit code."""
    try:
        from dealkit._cli.signals import Signals

        _set_up_streams()
        with Signals() as signals:
            try:
                code = _run(sys.argv[1:] if arguments is None else arguments, signals)
            except BrokenPipeError:
                # The reader of the output has closed it.
                code = 128 + 13
            except KeyboardInterrupt:
                from dealkit._cli.screen import tell

                tell("stopped")
                code = 130
            finally:
                _let_go_of_output()
            # A terminal that is gone takes no output, which is then no failure of its own.
            return signals.code or code
    except KeyboardInterrupt:
        return 130


def _run(arguments: Sequence[str], signals: Signals) -> int:
    from importlib import import_module

    from dealkit._cli.arguments import parse
    from dealkit._cli.exits import UNWRITABLE, Failed
    from dealkit._cli.files import named
    from dealkit._cli.screen import tell
    from dealkit.exceptions import DealkitError

    if sys.stdout is None:
        tell("standard output is closed, so nothing was done; to see no output, redirect it to a file")
        return UNWRITABLE
    try:
        options = parse(arguments)
        options.signals = signals
        module, function = options.run.split(".")
        code: int = getattr(import_module(f"dealkit._cli.{module}"), function)(options)
        sys.stdout.flush()
        return code
    except Failed as failed:
        tell(str(failed))
        return failed.code
    except DealkitError as error:
        from dealkit._cli.advice import code_of, explanation

        tell(explanation(error))
        return code_of(error)
    except BrokenPipeError:
        raise
    except OSError as error:
        # The commands say which file of theirs it was; what they print has no name.
        name = named(error.filename) if error.filename else "standard output"
        tell(f"{name} cannot be written: {error.strerror or error}")
        return UNWRITABLE


def _let_go_of_output() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is None:
            continue
        try:
            stream.flush()
        except OSError:
            # Otherwise, what is left in its buffer would be written when the interpreter ends, and fail again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _set_up_streams() -> None:
    # A terminal that cannot show a character shows a replacement, rather than nothing at all.
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
