"""What is shown: results on standard output, everything else on standard error. On a terminal, no word is cut."""

from __future__ import annotations

import errno
import json
import os
import select
import shlex
import shutil
import stat
import sys
import textwrap
import time
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, TextIO

from dealkit._cli.exits import INCOMPLETE, Failed
from dealkit._cli.signals import is_stopping
from dealkit.ledger import display_name

# Characters that change the direction of the following text, so that a line reads differently.
_TURNING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")

_STYLES = {"bold": "1", "red": "31", "green": "32", "yellow": "33"}

# What the last column of a table needs to be read beside the others.
_LEAST_COLUMNS = 24

# The seconds that a message waits for a reader.
_MESSAGE_WAIT = 1.0

# As many bytes as a pipe takes without waiting if it takes any.
_PIPE_BUF = getattr(select, "PIPE_BUF", 512)


def say(text: str = "") -> None:
    """One or more lines of the result."""
    with _ignoring_closed_terminal(sys.stdout):
        wait_for_reader(sys.stdout)
        print(folded(text, room(sys.stdout)))


def tell(text: str) -> None:
    """One or more lines besides the result, after the output so far, even if both go to the same file."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        pass  # The next write, or the end of the command, reports it.
    _write(_message(text))


def tell_in_handler(text: str) -> None:
    """Writes a line to standard error from a signal handler, which may have interrupted a write to it."""
    _write(_message(text), seconds=0)


def _message(text: str) -> str:
    return folded(f"{painted('dealkit:', 'red', sys.stderr)} {text}", room(sys.stderr)) + "\n"


def _write(text: str, seconds: float = _MESSAGE_WAIT) -> None:
    """Writes to standard error. Drops text that cannot be written within these seconds, because a full pipe or a stopped
    terminal must not hold up the job. Bypasses Python's buffer, which a signal handler must not enter again.
    """
    if sys.stderr is None:
        return
    try:
        descriptor = sys.stderr.fileno()
    except OSError:
        sys.stderr.write(text)  # It is in memory.
        return
    data = text.encode(sys.stderr.encoding, "replace")
    try:
        while data and _is_writable(descriptor, seconds):
            data = data[os.write(descriptor, data[:_PIPE_BUF]) :]
    except OSError:
        pass  # It is closed, its disk is full, or the terminal is gone.


def wait_for_reader(stream: TextIO) -> None:
    """Waits until a stream can be written to. A command that was asked to stop waits no longer than a second, and then discards
    its output: the full pipe or the stopped terminal may never be read.
    """
    try:
        descriptor = stream.fileno()
    except OSError:
        return  # It is in memory.
    while not _is_writable(descriptor, _MESSAGE_WAIT):
        if is_stopping():
            discard(stream)


def _is_writable(descriptor: int, seconds: float) -> bool:
    """Returns whether a few bytes can be written without waiting, now or within these seconds."""
    if os.name != "posix":
        return True  # Windows has no select for files.
    return bool(select.select([], [descriptor], [], seconds)[1])


def write_json(result: Mapping[str, Any] | str, out: TextIO) -> None:
    """Writes a document as JSON, in UTF-8 whatever the terminal's encoding."""
    text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
    if is_terminal(out):
        # The same document: outside of strings, only line breaks and spaces could be meant.
        text = "".join(f"\\u{ord(one):04x}" if one != "\n" and _is_hostile(one) else one for one in text)
    with _ignoring_closed_terminal(out):
        wait_for_reader(out)
        out.buffer.write(text.encode(errors="replace") + b"\n")
        out.flush()


@contextmanager
def _ignoring_closed_terminal(out: TextIO) -> Iterator[None]:
    """Discards output to a terminal that is closed. The command gets this far if SIGHUP is ignored, as under nohup, and its
    exit code then depends only on its work.
    """
    try:
        yield
    except OSError as error:
        # A closed terminal no longer counts as one for `isatty`.
        if error.errno != errno.EIO or not stat.S_ISCHR(os.fstat(out.fileno()).st_mode):
            raise
        discard(out)


def discard(stream: TextIO) -> None:
    """Discards what is left in a stream's buffer and all further output, none of which can be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def safe(text: str) -> str:
    """A text from elsewhere, without anything that a terminal would obey: control characters are shown as escapes."""
    return "".join(letter.encode("unicode_escape").decode() if _is_hostile(letter) else letter for letter in text)


def _is_hostile(letter: str) -> bool:
    return letter in _TURNING or unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp")


def is_text(given: str) -> bool:
    """Returns whether an argument or a variable is valid text. Other bytes become unpaired surrogates, which are for paths only."""
    try:
        given.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal, where somebody reads it or types into it."""
    return stream is not None and not stream.closed and stream.isatty()


def room(stream: TextIO | None) -> int:
    """How many columns a line may have: as many as the terminal has, and any number elsewhere."""
    return shutil.get_terminal_size().columns if is_terminal(stream) else sys.maxsize


def painted(text: str, style: str, stream: TextIO | None = None) -> str:
    """A text in a colour or in bold, where that can be shown."""
    # https://no-color.org
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not is_terminal(stream or sys.stdout):
        return text
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m"


def folded(text: str, columns: int) -> str:
    """A text in lines of so many columns. A line that is indented is a command or a table, and stays as it is."""
    return "\n".join(line if line.startswith(" ") else _line("", line, columns) for line in text.split("\n"))


def _line(start: str, text: str, columns: int) -> str:
    """A text that goes on below itself, as one of a table does."""
    fold = textwrap.TextWrapper(
        columns,
        initial_indent=start,
        subsequent_indent=" " * len(start),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return fold.fill(text) or start.rstrip()


def pairs(values: Mapping[str, str], *, indent: str = "", columns: int | None = None) -> str:
    """Names and values, a line for each; a longer value continues below itself, or, where there is little room, below its
    name."""
    names = max(map(len, values), default=0)
    columns = columns or room(sys.stdout)
    if columns - len(indent) - names - 2 < _LEAST_COLUMNS:
        return "\n".join(f"{indent}{name}\n{_line(f'{indent}  ', value, columns)}" for name, value in values.items())
    return "\n".join(_line(f"{indent}{name:{names}}  ", value, columns) for name, value in values.items())


def table(rows: Sequence[Mapping[str, str]]) -> str:
    """Records as a table below a heading; where there is no room for that, one below the other."""
    *names, last = [name for name in rows[0] if any(row[name] for row in rows)]
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in names}
    columns = room(sys.stdout)
    longest = max(len(last), *(len(row[last]) for row in rows))
    if columns - 2 - sum(widths.values()) - 2 * len(widths) < min(longest, _LEAST_COLUMNS):
        return "\n\n".join(pairs({name: row[name] for name in (*names, last)}, indent="  ") for row in rows)
    heading, *lines = (
        _line("  " + "".join(f"{row[name]:{widths[name]}}  " for name in names), row[last], columns)
        for row in ({name: name for name in (*names, last)}, *rows)
    )
    return "\n".join([painted(heading, "bold"), *lines])


def outline(model: Mapping[str, Any], indent: str = "  ") -> Iterator[str]:
    """A document for people to read: its values, and then what is nested, below its name. What is empty is left out, and
    numbers have all their digits."""
    there = {safe(name): value for name, value in model.items() if value not in (None, "", [], {})}
    nested = {name: value for name, value in there.items() if isinstance(value, Mapping | list)}
    if plain := {name: _text(value) for name, value in there.items() if name not in nested}:
        yield pairs(plain, indent=indent)
    for name, value in nested.items():
        yield indent + painted(name, "bold")
        for at, one in enumerate(value if isinstance(value, list) else [value]):
            if at:
                yield ""
            yield from outline(one if isinstance(one, Mapping) else {"": one}, f"{indent}  ")


def _text(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int | Decimal) and not isinstance(value, bool) else safe(str(value))


def ask(question: str) -> None:
    """Asks for confirmation before anything is done."""
    if not is_terminal(sys.stdin):
        raise Failed("nobody can be asked to confirm this: check what is shown above, then add --yes")
    # The question refers to this output, which must come first.
    sys.stdout.flush()
    try:
        _write(folded(f"{question} [y/N]", room(sys.stderr)) + " ")
        answer = sys.stdin.readline()
    except KeyboardInterrupt:
        _write("\n")
        raise
    if answer.strip().lower() not in ("y", "yes"):
        raise Failed("nothing was done", INCOMPLETE)


def counted(number: int, noun: str) -> str:
    """`1 row`, `1,200 rows`."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def command_line(arguments: Sequence[str]) -> str:
    """A command to be typed again. The user and the password of a database are left out of it."""
    shown = []
    for index, argument in enumerate(arguments):
        option, equals, value = argument.partition("=")
        if equals and option == "--ledger":
            shown.append(f"{option}={masked(value)}")
        elif arguments[index - 1 : index] == ["--ledger"] or (index == 2 and arguments[0] == "ledger"):
            shown.append(masked(argument))
        else:
            shown.append(safe(argument))
    return f"dealkit {shlex.join(shown)}"


def masked(ledger: str | Path) -> str:
    """The name of a ledger: a path, or the URL of a database without the user and the password."""
    return safe(display_name(ledger))


class Progress:
    """How far a job has come: a line that is rewritten on a terminal, and a line from time to time elsewhere."""

    def __init__(self, noun: str, total: int, done: int = 0, failed: int = 0) -> None:
        self._noun, self._total, self._done, self._failed = noun, total, done, failed
        self._begun_with = done
        self._on_terminal = is_terminal(sys.stderr) and os.environ.get("TERM") != "dumb"
        self._every = 0.1 if self._on_terminal else 10.0
        self._begun_at = self._shown_at = time.monotonic()
        self._is_shown = False
        if self._on_terminal:
            self._show()

    def advance(self, *, failed: bool = False) -> None:
        """Counts one more item, which may have failed."""
        self._done += 1
        self._failed += failed
        now = time.monotonic()
        if now - self._shown_at >= self._every:
            self._shown_at = now
            self._show()

    def end(self) -> None:
        """Ends the display: what is shown next goes on a line of its own."""
        if self._is_shown and self._on_terminal:
            self._show()
            _write("\n", seconds=0)
        self._is_shown = False

    def _show(self) -> None:
        self._is_shown = True
        text = f"{self._done:,} of {counted(self._total, self._noun)}"
        text += f", {self._failed:,} failed" if self._failed else ""
        seconds, done = time.monotonic() - self._begun_at, self._done - self._begun_with
        if seconds >= 1 and done:
            minutes, rest = divmod(round((self._total - self._done) * seconds / done), 60)
            text += f", {done / seconds:,.1f} per second, {minutes} min {rest:02} s left"
        if self._on_terminal:
            # Erases the rest of an earlier, longer line.
            _write(f"\r\x1b[K{text[: room(sys.stderr) - 1]}", seconds=0)
        else:
            tell(text)
