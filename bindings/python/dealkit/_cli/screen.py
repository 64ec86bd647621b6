"""What is shown: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import time
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from dealkit._cli.exits import INCOMPLETE, Failed

DATABASES = ("postgresql://", "postgres://")
"""What the name of a ledger begins with that is a database."""

# Characters that change the direction of the following text, so that a line reads differently.
_TURNING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def say(text: str = "") -> None:
    """A line of the result."""
    print(text)


def tell(text: str) -> None:
    """One or more lines besides the result, after the output so far, even if both go to the same file."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        pass  # The next write, or the end of the command, reports it.
    _write(f"dealkit: {text}\n")


def _write(text: str) -> None:
    """Writes to standard error. Nothing depends on it: it may be closed, full, or a terminal that is gone."""
    try:
        if sys.stderr is not None:
            sys.stderr.write(text)
            sys.stderr.flush()
    except OSError:
        pass


def safe(text: str) -> str:
    """A text from elsewhere, without anything that a terminal would obey: control characters are shown as escapes."""
    return "".join(_escape(letter) if _is_hostile(letter) else letter for letter in text)


def json_safe(text: str) -> str:
    """JSON, with the same characters as the escapes of JSON: it is still the same document."""
    # Outside of strings, only line breaks and spaces could be meant.
    return "".join(_json_escape(letter) if letter != "\n" and _is_hostile(letter) else letter for letter in text)


def _is_hostile(letter: str) -> bool:
    return letter in _TURNING or unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp")


def _escape(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")


def _json_escape(letter: str) -> str:
    return json.dumps(letter)[1:-1] if ord(letter) != 0x7F else "\\u007f"


def width(text: str) -> int:
    """How many columns of a terminal a text takes."""
    return sum(_columns(letter) for letter in text)


def _columns(letter: str) -> int:
    if unicodedata.combining(letter) or unicodedata.category(letter) == "Cf":
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def padded(text: str, columns: int, *, right: bool = False) -> str:
    """A text padded with spaces to a width."""
    space = " " * (columns - width(text))
    return space + text if right else text + space


def table(rows: Sequence[tuple[str, ...]], *, indent: str = "", right: frozenset[int] = frozenset()) -> list[str]:
    """Rows as aligned lines; the columns in `right` are right-aligned."""
    if not rows:
        return []
    widths = [max(width(row[at]) for row in rows) for at in range(len(rows[0]))]
    return [
        (indent + "  ".join(padded(cell, widths[at], right=at in right) for at, cell in enumerate(row))).rstrip()
        for row in rows
    ]


def say_table(rows: Sequence[tuple[str, ...]], *, indent: str = "", right: frozenset[int] = frozenset()) -> None:
    """Rows as aligned lines of the result."""
    for line in table(rows, indent=indent, right=right):
        say(line)


def ask(question: str, *, check: str, declined: str) -> None:
    """Asks for confirmation. Where nobody can be asked, `check` says what to do before --yes; `declined` says what a no
    means."""
    if not is_terminal(sys.stdin):
        raise Failed(f"nobody can be asked to confirm this: {check}, then add --yes")
    # The question refers to this output, which must come first.
    sys.stdout.flush()
    try:
        print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
        answer = sys.stdin.readline()
    except KeyboardInterrupt:
        print(file=sys.stderr)
        raise
    if answer.strip().lower() not in ("y", "yes"):
        raise Failed(declined, INCOMPLETE)


def bold(text: str) -> str:
    """A heading of the result."""
    return f"\x1b[1m{text}\x1b[0m" if _has_colors(sys.stdout) else text


def _has_colors(stream: TextIO) -> bool:
    # https://no-color.org
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    # The older console of Windows shows the escapes.
    return is_terminal(stream) and (sys.platform != "win32" or "WT_SESSION" in os.environ)


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal, where somebody reads it or types into it."""
    return stream is not None and not stream.closed and stream.isatty()


def counted(number: int, noun: str) -> str:
    """`1 deal`, `2,000 deals`."""
    return f"{number:,} {noun if number == 1 else noun + 's'}"


def command_line(arguments: Sequence[str]) -> str:
    """A command of dealkit, as it is typed, without a password."""
    return f"dealkit {shlex.join(map(masked, arguments))}"


def masked(ledger: str | Path) -> str:
    """The name of a ledger: a path as it is, and the URL of a database without a password, which then comes from
    ``PGPASSWORD``."""
    text = str(ledger)
    if not text.startswith(DATABASES):
        return text
    scheme, _, rest = text.partition("://")
    user, at, host = rest.rpartition("@")
    base, _, query = host.partition("?")
    kept = [part for part in query.split("&") if part and not part.startswith("password=")]
    return f"{scheme}://{user.partition(':')[0]}{at}{base}{'?' * bool(kept)}{'&'.join(kept)}"


class Progress:
    """The progress of a job: a bar on a terminal, and a line from time to time elsewhere."""

    # How often progress is shown, in seconds.
    _ON_TERMINAL = 0.1
    _ELSEWHERE = 10.0

    def __init__(self, noun: str, total: int, done: int = 0, failed: int = 0) -> None:
        self._noun = noun
        self._total = total
        self._begun_with = done
        self._done = done
        self._failed = failed
        self._on_terminal = is_terminal(sys.stderr) and os.environ.get("TERM") != "dumb"
        self._begun_at = self._shown_at = time.monotonic()
        self._is_shown = False
        self._shown_columns = 0
        if self._on_terminal:
            self._show()

    def advance(self, *, failed: bool = False) -> None:
        """Counts one more item, which may have failed."""
        self._done += 1
        self._failed += failed
        now = time.monotonic()
        if now - self._shown_at >= (self._ON_TERMINAL if self._on_terminal else self._ELSEWHERE):
            self._shown_at = now
            self._show()

    def end(self) -> None:
        """Ends the display: what is shown next goes on a line of its own."""
        if self._on_terminal and self._is_shown:
            self._show()
            _write("\n")
            self._is_shown = False

    def _show(self) -> None:
        self._is_shown = True
        if not self._on_terminal:
            tell(self._numbers())
            return
        columns = shutil.get_terminal_size().columns - 1
        numbers = self._numbers()
        bar = min(columns - len(numbers) - 4, 30)
        line = numbers
        if bar >= 10:
            full = bar * self._done // self._total if self._total else bar
            line = f"[{'#' * full}{'-' * (bar - full)}] {numbers}"
        line = line[:columns]
        # Padding overwrites the rest of an earlier, longer line.
        _write(f"\r{line.ljust(self._shown_columns)}")
        self._shown_columns = len(line)

    def _numbers(self) -> str:
        parts = [f"{self._done:,} of {counted(self._total, self._noun)}"]
        if self._failed:
            parts.append(f"{self._failed:,} failed")
        seconds = time.monotonic() - self._begun_at
        done = self._done - self._begun_with
        if seconds >= 1 and done:
            rate = done / seconds
            parts.append(f"{rate:,.0f} per second" if rate >= 10 else f"{rate:,.1f} per second")
            if self._done < self._total:
                parts.append(f"{_duration((self._total - self._done) / rate)} left")
        return ", ".join(parts)


def _duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{max(whole, 1)} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"
