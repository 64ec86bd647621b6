"""The console command ``dealkit``, for people who do not write code.

``arguments`` defines the commands and their options, and each command has a file of its own. The rest of the package
imports nothing from here.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType

from dealkit import DealkitError
from dealkit._cli.arguments import parse
from dealkit._cli.exits import INTERRUPTED, STOPPED, UNWRITABLE, Failed, Interrupted
from dealkit._cli.files import named
from dealkit._cli.screen import tell


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command with these arguments, or those of the command line. Returns the exit code."""
    _set_up_streams()
    on_stop = signal.signal(signal.SIGTERM, _stop)
    try:
        return _run(sys.argv[1:] if arguments is None else arguments)
    except BrokenPipeError:
        # The reader of the output has closed it.
        return 128 + 13
    finally:
        _let_go_of_output()
        signal.signal(signal.SIGTERM, on_stop)


def _run(arguments: Sequence[str]) -> int:
    if sys.stdout is None:
        tell("standard output is closed, so nothing was done; to see no output, redirect it to a file")
        return UNWRITABLE
    try:
        options = parse(arguments)
        code: int = options.run(options)
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
    except Interrupted as interrupted:
        tell(str(interrupted))
        return STOPPED if _is_stop(interrupted) else INTERRUPTED
    except KeyboardInterrupt as interrupted:
        tell("stopped")
        return STOPPED if _is_stop(interrupted) else INTERRUPTED


def _let_go_of_output() -> None:
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except OSError:
        # Otherwise, what is left in its buffer would be written when the interpreter ends, and fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Stop(KeyboardInterrupt):
    """A request to end the process, which stops as it does for Ctrl-C."""


def _stop(signum: int, frame: FrameType | None) -> None:
    raise _Stop


def _is_stop(interrupted: BaseException) -> bool:
    return isinstance(interrupted, _Stop) or isinstance(interrupted.__cause__, _Stop)


def _set_up_streams() -> None:
    # A terminal that cannot show a character shows a replacement, rather than nothing at all.
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
