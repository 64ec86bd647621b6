"""Terminal output: results go to standard output, messages to standard error. Lines wrap between words at the
terminal's width.
"""

from __future__ import annotations

import errno
import json
import os
import select
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

from dealkit._cli.exit_codes import INCOMPLETE, CommandError
from dealkit._cli.shells import quote
from dealkit._cli.signals import is_stopping
from dealkit.ledger import display_name

# Characters that change the direction of the following text and can make a line misleading.
_DIRECTION_CONTROLS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")

_STYLES = {"bold": "1", "red": "31", "green": "32", "yellow": "33"}

# The minimum width of a table's last column. If the terminal is too narrow for it, the table's rows are printed as
# lists.
_MIN_LAST_COLUMN_WIDTH = 24

# The maximum time, in seconds, to wait until a message can be written.
_MESSAGE_WAIT = 1.0

# The largest write that a pipe accepts without blocking, once select reports it as writable. Windows has no such limit,
# and its console needs whole characters.
_PIPE_BUF: int | None = getattr(select, "PIPE_BUF", None)


def print_result(text: str = "") -> None:
    """Prints lines of the result to standard output."""
    with _ignoring_closed_terminal(sys.stdout):
        wait_for_reader(sys.stdout)
        print(wrap_lines(text, line_width(sys.stdout)))


def print_message(text: str) -> None:
    """Prints lines to standard error. Flushes standard output first, so that the order is right if both streams go to
    the same file.
    """
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        pass  # the next write or the end of the command reports the error
    _write_to_stderr(_format_message(text))


def print_message_in_handler(text: str) -> None:
    """Writes a line to standard error from a signal handler, which may have interrupted another write."""
    _write_to_stderr(_format_message(text), seconds=0)


def _format_message(text: str) -> str:
    return wrap_lines(f"{colorize('dealkit:', 'red', sys.stderr)} {text}", line_width(sys.stderr)) + "\n"


def _write_to_stderr(text: str, seconds: float = _MESSAGE_WAIT) -> None:
    """Writes to standard error. Drops text that cannot be written within the given seconds, because a full pipe or a
    stopped terminal must not block the job. Bypasses Python's buffer, which is not reentrant in signal handlers.
    """
    if sys.stderr is None:
        return
    try:
        descriptor = sys.stderr.fileno()
    except OSError:
        sys.stderr.write(text)  # standard error is replaced by an object in memory
        return
    # On Windows, the raw stream of a console writes UTF-8 as Unicode. `os.write` would write it in the console's code
    # page.
    raw: Any = sys.stderr.buffer
    raw = getattr(raw, "raw", raw)
    data = text.encode(sys.stderr.encoding, "replace")
    try:
        while data and _is_writable(descriptor, seconds):
            data = data[raw.write(data[:_PIPE_BUF]) or 0 :]
    except OSError:
        pass  # the stream is closed, its disk is full, or the terminal is closed


def wait_for_reader(stream: TextIO) -> None:
    """Waits until a stream can be written to. After a signal, discards the output if the stream is still blocked after
    a second: a full pipe or a stopped terminal may never be read.
    """
    try:
        descriptor = stream.fileno()
    except OSError:
        return  # the stream is in memory
    while not _is_writable(descriptor, _MESSAGE_WAIT):
        if is_stopping():
            discard_output(stream)


def _is_writable(descriptor: int, seconds: float) -> bool:
    """Returns whether a few bytes can be written without blocking, now or within the given seconds."""
    if os.name != "posix":
        return True  # select accepts only sockets on Windows
    return bool(select.select([], [descriptor], [], seconds)[1])


def write_json(result: Mapping[str, Any] | str, out: TextIO) -> None:
    """Writes a JSON document in UTF-8, whichever encoding the terminal has."""
    text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
    if is_terminal(out):
        # Control characters occur only inside JSON strings, where an escape has the same meaning. Outside strings, the
        # document has only line breaks and spaces.
        text = "".join(f"\\u{ord(item):04x}" if item != "\n" and _is_unsafe(item) else item for item in text)
    with _ignoring_closed_terminal(out):
        wait_for_reader(out)
        out.buffer.write(text.encode(errors="replace") + b"\n")
        out.flush()


@contextmanager
def _ignoring_closed_terminal(out: TextIO) -> Iterator[None]:
    """Discards output to a closed terminal. If SIGHUP is ignored, as under nohup, the command continues, and its exit
    code then depends only on its work.
    """
    try:
        yield
    except OSError as error:
        # `isatty` is false for a closed terminal, so this checks for a character device.
        if error.errno != errno.EIO or not stat.S_ISCHR(os.fstat(out.fileno()).st_mode):
            raise
        discard_output(out)


def discard_output(stream: TextIO) -> None:
    """Discards the stream's buffer and all further output."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def escape_controls(text: str) -> str:
    """Escapes control characters, so that text from outside cannot control the terminal."""
    return "".join(
        character.encode("unicode_escape").decode() if _is_unsafe(character) else character for character in text
    )


def _is_unsafe(character: str) -> bool:
    return character in _DIRECTION_CONTROLS or unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")


def is_valid_unicode(text: str) -> bool:
    """Returns whether an argument or a variable is valid Unicode. Python decodes other bytes to unpaired surrogates,
    which only paths may contain.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_terminal(stream: TextIO | None) -> bool:
    """Returns whether a stream is an interactive terminal."""
    return stream is not None and not stream.closed and stream.isatty()


def line_width(stream: TextIO | None) -> int:
    """Returns the width of a line: the width of the terminal in columns, or no limit if the stream is not a
    terminal."""
    return shutil.get_terminal_size().columns if is_terminal(stream) else sys.maxsize


def colorize(text: str, style: str, stream: TextIO | None = None) -> str:
    """Adds the escape codes for a colour or bold text, if the stream is a terminal that shows them."""
    # See https://no-color.org for NO_COLOR.
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not is_terminal(stream or sys.stdout):
        return text
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m"


def wrap_lines(text: str, columns: int) -> str:
    """Wraps text at a number of columns. Leaves indented lines, which are commands or tables, unchanged."""
    return "\n".join(line if line.startswith(" ") else _wrap_entry("", line, columns) for line in text.split("\n"))


def _wrap_entry(start: str, text: str, columns: int) -> str:
    """Wraps text after a prefix, with the following lines indented below the text."""
    wrapper = textwrap.TextWrapper(
        columns,
        initial_indent=start,
        subsequent_indent=" " * len(start),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return wrapper.fill(text) or start.rstrip()


def format_pairs(values: Mapping[str, str], *, indent: str = "", columns: int | None = None) -> str:
    """Formats names and values, one pair per line. A long value continues on indented lines. If the line is narrow, the
    value begins below its name.
    """
    name_width = max(map(len, values), default=0)
    columns = columns or line_width(sys.stdout)
    if columns - len(indent) - name_width - 2 < _MIN_LAST_COLUMN_WIDTH:
        return "\n".join(
            f"{indent}{name}\n{_wrap_entry(f'{indent}  ', value, columns)}" for name, value in values.items()
        )
    return "\n".join(_wrap_entry(f"{indent}{name:{name_width}}  ", value, columns) for name, value in values.items())


def format_table(rows: Sequence[Mapping[str, str]]) -> str:
    """Formats rows as a table with a heading. If the line is too narrow, formats each row as a list of names and
    values."""
    *names, last = [name for name in rows[0] if any(row[name] for row in rows)]
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in names}
    columns = line_width(sys.stdout)
    longest_value = max(len(last), *(len(row[last]) for row in rows))
    if columns - 2 - sum(widths.values()) - 2 * len(widths) < min(longest_value, _MIN_LAST_COLUMN_WIDTH):
        return "\n\n".join(format_pairs({name: row[name] for name in (*names, last)}, indent="  ") for row in rows)
    heading, *lines = (
        _wrap_entry("  " + "".join(f"{row[name]:{widths[name]}}  " for name in names), row[last], columns)
        for row in ({name: name for name in (*names, last)}, *rows)
    )
    return "\n".join([colorize(heading, "bold"), *lines])


def format_outline(model: Mapping[str, Any], indent: str = "  ") -> Iterator[str]:
    """Formats a document for people: first its plain values, then its nested documents, each below its name. Omits
    empty values, and shows all digits of numbers.
    """
    nonempty_values = {escape_controls(name): value for name, value in model.items() if value not in (None, "", [], {})}
    nested_values = {name: value for name, value in nonempty_values.items() if isinstance(value, Mapping | list)}
    if plain_values := {
        name: _format_value(value) for name, value in nonempty_values.items() if name not in nested_values
    }:
        yield format_pairs(plain_values, indent=indent)
    for name, value in nested_values.items():
        yield indent + colorize(name, "bold")
        for index, item in enumerate(value if isinstance(value, list) else [value]):
            if index:
                yield ""
            yield from format_outline(item if isinstance(item, Mapping) else {"": item}, f"{indent}  ")


def _format_value(value: Any) -> str:
    return (
        f"{value:,}"
        if isinstance(value, int | Decimal) and not isinstance(value, bool)
        else escape_controls(str(value))
    )


def confirm(question: str) -> None:
    """Asks the user to confirm. Raises CommandError if the user declines or cannot be asked."""
    if not is_terminal(sys.stdin):
        raise CommandError("Cannot ask for confirmation: input is not a terminal. Review the output, then use --yes.")
    # The user must see the output before the question.
    sys.stdout.flush()
    try:
        _write_to_stderr(wrap_lines(f"{question} [y/N]", line_width(sys.stderr)) + " ")
        answer = sys.stdin.readline()
    except KeyboardInterrupt:
        _write_to_stderr("\n")
        raise
    if answer.strip().lower() not in ("y", "yes"):
        raise CommandError("Nothing was done, because the answer was not y.", INCOMPLETE)


def choose(question: str, choices: Sequence[str], advice: str) -> str:
    """Asks the user to choose, and returns the choice. `advice` names the option that answers the question: if the user
    cannot be asked, raises CommandError with the question, the choices and the advice.
    """
    if not is_terminal(sys.stdin):
        raise CommandError(f"{question} {advice}\n" + "\n".join(f"  {choice}" for choice in choices))
    print_result("\n".join([question, *(f"  {number}  {choice}" for number, choice in enumerate(choices, 1))]))
    sys.stdout.flush()
    try:
        _write_to_stderr(f"Enter a number from 1 to {len(choices)}: ")
        answer = sys.stdin.readline().strip()
    except KeyboardInterrupt:
        _write_to_stderr("\n")
        raise
    if not (answer.isdecimal() and 1 <= int(answer) <= len(choices)):
        raise CommandError(
            f"Nothing was done, because the answer was not a number from 1 to {len(choices)}.", INCOMPLETE
        )
    return choices[int(answer) - 1]


def format_count(number: int, noun: str) -> str:
    """Formats a count, as in `1 row` or `1,200 rows`."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def format_command(arguments: Sequence[str]) -> str:
    """Formats a command that the user can enter again in the shell. A ledger's URL is shown without user and password.

    Leaves out --resend-unknown: the repeated command would send unknown rows once more, and could create agents twice.
    """
    parts = []
    for index, argument in enumerate(arguments):
        option, equals, value = argument.partition("=")
        if argument == "--resend-unknown":
            continue
        if equals and option == "--ledger":
            parts.append(f"{option}={ledger_display_name(value)}")
        elif arguments[index - 1 : index] == ["--ledger"] or (index == 2 and arguments[0] == "ledger"):
            parts.append(ledger_display_name(argument))
        else:
            parts.append(escape_controls(argument))
    return f"dealkit {quote(parts)}"


def ledger_display_name(ledger: str | Path) -> str:
    """Returns a ledger's path, or the URL of its database without the user and the password."""
    return escape_controls(display_name(ledger))


class Progress:
    """Shows the progress of a job. On a terminal, it rewrites one line. Elsewhere, it prints a new line every 10
    seconds."""

    def __init__(self, noun: str, total: int, done: int = 0, failed: int = 0) -> None:
        self._noun, self._total, self._done, self._failed = noun, total, done, failed
        self._done_at_start = done
        self._on_terminal = is_terminal(sys.stderr) and os.environ.get("TERM") != "dumb"
        self._interval = 0.1 if self._on_terminal else 10.0
        self._started_at = self._shown_at = time.monotonic()
        self._is_displayed = False
        if self._on_terminal:
            self._show()

    def advance(self, *, failed: bool = False) -> None:
        """Counts one more item as done."""
        self._done += 1
        self._failed += failed
        now = time.monotonic()
        if now - self._shown_at >= self._interval:
            self._shown_at = now
            self._show()

    def end(self) -> None:
        """Ends the progress line, so that further output begins on a new line."""
        if self._is_displayed and self._on_terminal:
            self._show()
            _write_to_stderr("\n", seconds=0)
        self._is_displayed = False

    def _show(self) -> None:
        self._is_displayed = True
        text = f"{self._done:,} of {format_count(self._total, self._noun)}"
        text += f", {self._failed:,} failed" if self._failed else ""
        seconds, done = time.monotonic() - self._started_at, self._done - self._done_at_start
        if seconds >= 1 and done:
            minutes, seconds_left = divmod(round((self._total - self._done) * seconds / done), 60)
            text += f", {done / seconds:,.1f} per second, {minutes} min {seconds_left:02} s left"
        if self._on_terminal:
            # The escape code first erases the previous text, which may be longer.
            _write_to_stderr(f"\r\x1b[K{text[: line_width(sys.stderr) - 1]}", seconds=0)
        else:
            print_message(text)
