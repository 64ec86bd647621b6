"""What is shown: results on standard output, everything else on standard error. On a terminal, no line is wider than it, and
no word is cut."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, TextIO

from dealkit._cli.exits import INCOMPLETE, Failed
from dealkit.ledger import path

# Characters that change the direction of the following text, so that a line reads differently.
_TURNING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")

_STYLES = {"bold": "1", "red": "31", "green": "32", "yellow": "33"}

_HEADINGS = {"extra": "Undocumented fields"}

# What the last column of a table needs to be read beside the others.
_LEAST_COLUMNS = 24


def say(text: str = "") -> None:
    """One or more lines of the result."""
    for line in _lines(text, room(sys.stdout)):
        print(line)


def say_all(lines: Iterator[str]) -> None:
    """Lines of the result, as they are."""
    for line in lines:
        print(line)


def tell(text: str) -> None:
    """One or more lines besides the result, after the output so far, even if both go to the same file."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        pass  # The next write, or the end of the command, reports it.
    _write("\n".join(_lines(f"{painted('dealkit:', 'red', sys.stderr)} {text}", room(sys.stderr))) + "\n")


def _write(text: str) -> None:
    """Writes to standard error. Nothing depends on it: it may be closed, full, or a terminal that is gone."""
    try:
        if sys.stderr is not None:
            sys.stderr.write(text)
            sys.stderr.flush()
    except OSError:
        pass


def write_json(result: Mapping[str, Any] | str, out: TextIO) -> None:
    """Writes a document as JSON, in UTF-8 whatever the terminal's encoding."""
    text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
    if is_terminal(out):
        # The same document: outside of strings, only line breaks and spaces could be meant.
        text = "".join(_json_escape(letter) if letter != "\n" and _is_hostile(letter) else letter for letter in text)
    out.buffer.write(text.encode(errors="replace") + b"\n")
    out.flush()


def safe(text: str) -> str:
    """A text from elsewhere, without anything that a terminal would obey: control characters are shown as escapes."""
    return "".join(letter.encode("unicode_escape").decode() if _is_hostile(letter) else letter for letter in text)


def _json_escape(letter: str) -> str:
    return json.dumps(letter)[1:-1] if letter != "\x7f" else "\\u007f"


def _is_hostile(letter: str) -> bool:
    return letter in _TURNING or unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp")


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal, where somebody reads it or types into it."""
    return stream is not None and not stream.closed and stream.isatty()


def room(stream: TextIO | None) -> int:
    """How many columns a line may have: as many as the terminal has, and any number elsewhere."""
    if stream is None or not is_terminal(stream):
        return sys.maxsize
    given = os.environ.get("COLUMNS", "")
    with suppress(OSError):  # It may just have been closed.
        return (int(given) if given.isdigit() else 0) or os.get_terminal_size(stream.fileno()).columns or 80
    return 80


def painted(text: str, style: str, stream: TextIO | None = None) -> str:
    """A text in a colour or in bold, where that can be shown."""
    # https://no-color.org
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not is_terminal(stream or sys.stdout):
        return text
    # The older console of Windows shows the escapes.
    if sys.platform == "win32" and "WT_SESSION" not in os.environ:
        return text
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m"


def width(text: str) -> int:
    """How many columns of a terminal a text takes."""
    return sum(_columns(letter) for letter in re.sub("\x1b\\[[0-9]*m", "", text))


def _columns(letter: str) -> int:
    if unicodedata.combining(letter) or unicodedata.category(letter) == "Cf":
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def folded(text: str, columns: int) -> list[str]:
    """A text in lines of so many columns, between words."""
    lines = [""]
    for word in text.split(" "):
        if lines[-1] and width(lines[-1]) + 1 + width(word) > columns:
            lines.append(word)
        else:
            lines[-1] += f" {word}" if lines[-1] else word
    return lines


def _lines(text: str, columns: int) -> Iterator[str]:
    """The lines of a text. One that is indented is a command, to be copied as it is."""
    for line in text.split("\n"):
        yield from [line] if line.startswith(" ") else folded(line, columns)


def pairs(values: Mapping[str, str], *, indent: str = "", columns: int | None = None) -> Iterator[str]:
    """Names and values, a line for each; a longer value continues below itself."""
    columns = (columns or room(sys.stdout)) - len(indent)
    names = max(map(width, values), default=0)
    left = columns - names - 2
    for name, value in values.items():
        lines = folded(value, left if left >= _LEAST_COLUMNS else columns - 2)
        if left < _LEAST_COLUMNS and width(value) > left:
            yield indent + name
            yield from (f"{indent}  {line}" for line in lines)
            continue
        for at, line in enumerate(lines):
            yield f"{indent}{_padded('' if at else name, names)}  {line}".rstrip()


def table(rows: Sequence[Mapping[str, str]], *, indent: str = "", numbers: Sequence[str] = ()) -> Iterator[str]:
    """Records as a table below a heading, with the numbers to the right; where there is no room for that, one below the
    other."""
    columns = room(sys.stdout) - len(indent)
    names = [name for name in dict.fromkeys(name for row in rows for name in row) if any(row.get(name) for row in rows)]
    if not names:
        return
    widths = {name: max(width(name), *(width(row.get(name, "")) for row in rows)) for name in names}
    others = sum(widths[name] + 2 for name in names[:-1])
    left = columns - others
    # Numbers and names would be harder to read in pieces.
    if others + widths[names[-1]] > columns and (left < _LEAST_COLUMNS or widths[names[-1]] < 2 * _LEAST_COLUMNS):
        for at, row in enumerate(rows):
            if at:
                yield ""
            yield from pairs({name: row[name] for name in names if row.get(name)}, indent=indent)
        return
    for row in ({name: painted(name, "bold") for name in names}, *rows):
        start = "".join(f"{_padded(row.get(name, ''), widths[name], name in numbers)}  " for name in names[:-1])
        *_, last = names
        lines = folded(row.get(last, ""), left)
        lines[0] = _padded(lines[0], min(widths[last], left), last in numbers)
        for at, line in enumerate(lines):
            yield f"{indent}{' ' * width(start) if at else start}{line}".rstrip()


def _padded(text: str, columns: int, to_the_right: bool = False) -> str:
    space = " " * (columns - width(text))
    return space + text if to_the_right else text + space


def label(name: str) -> str:
    """`net_agent_commission` as `Net agent commission`, `line1` as `Line 1`."""
    words = re.sub(r"(?<=[a-z])(?=[0-9])", " ", safe(name).replace("_", " "))
    return words[:1].upper() + words[1:]


def tree(title: str, model: Mapping[str, Any], indent: str = "", named: Callable[[str], str] = label) -> Iterator[str]:
    """A document for people to read: a heading, the values, and then what is nested, each with its heading. What is empty is
    left out, and numbers have all their digits."""
    there = {name: value for name, value in model.items() if value is not None and value not in ("", [], {})}
    yield indent + painted(f"{title} {safe(str(there['id']))}" if "id" in there else title, "bold")
    inner = f"{indent}  "
    yield from pairs(
        {named(n): _text(value) for n, value in there.items() if _is_plain(value) and n != "id"}, indent=inner
    )
    below = indent if title == "Deal" else inner
    for name, value in there.items():
        if _is_plain(value):
            continue
        # What is not documented keeps its names.
        inside = safe if name in ("metadata", "extra") else named
        heading = _HEADINGS.get(name) or named(name)
        yield ""
        if isinstance(value, Mapping):
            yield from tree(heading, value, below, inside)
        elif all(isinstance(one, Mapping) and all(map(_is_plain, one.values())) for one in value):
            yield below + painted(heading, "bold")
            rows = [{named(key): _text(one) for key, one in row.items()} for row in value]
            numbers = {named(key) for row in value for key, one in row.items() if isinstance(one, int | Decimal)}
            yield from table(rows, indent=f"{below}  ", numbers=[*numbers])
        else:
            for at, one in enumerate(value):
                if at:
                    yield ""
                yield from tree(
                    heading.removesuffix("s"), one if isinstance(one, Mapping) else {"": one}, below, inside
                )


def _is_plain(value: Any) -> bool:
    return not value or not (
        isinstance(value, Mapping) or isinstance(value, list) and any(isinstance(one, Mapping | list) for one in value)
    )


def _text(value: Any) -> str:
    match value:
        case datetime():
            return value.astimezone(UTC).isoformat(" ").replace("+00:00", " UTC")
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case Decimal():
            return f"{value:,f}"
        case list():
            return ", ".join(map(_text, value))
        case None | {}:
            return ""
    return safe(str(value))


def ask(question: str, *, check: str, declined: str) -> None:
    """Asks for confirmation. Where nobody can be asked, `check` says what to do before --yes; `declined` says what a no
    means."""
    if not is_terminal(sys.stdin):
        raise Failed(f"nobody can be asked to confirm this: {check}, then add --yes")
    # The question refers to this output, which must come first.
    sys.stdout.flush()
    try:
        _write("\n".join(_lines(f"{question} [y/N]", room(sys.stderr))) + " ")
        answer = sys.stdin.readline()
    except KeyboardInterrupt:
        _write("\n")
        raise
    if answer.strip().lower() not in ("y", "yes"):
        raise Failed(declined, INCOMPLETE)


def counted(number: int, noun: str) -> str:
    """`1 row`, `1,200 rows`."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def command_line(arguments: Sequence[str]) -> str:
    """A command to be typed again. The password of a database is left out of it."""
    return f"dealkit {shlex.join(map(masked, arguments))}"


def masked(ledger: str | Path) -> str:
    """The name of a ledger: a path as it is, and the URL of a database without a password, which then comes from
    ``PGPASSWORD``."""
    text = safe(str(ledger))
    if path(text) is not None:
        return text
    scheme, _, rest = text.partition("://")
    user, at, host = rest.rpartition("@")
    base, _, query = host.partition("?")
    kept = [part for part in query.split("&") if part and not part.startswith("password=")]
    return f"{scheme}://{user.partition(':')[0]}{at}{base}{'?' * bool(kept)}{'&'.join(kept)}"


class Progress:
    """The progress of a job: a bar on a terminal, and a line from time to time elsewhere."""

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
        if self._on_terminal and self._is_shown:
            self._show()
            _write("\n")
            self._is_shown = False

    def _show(self) -> None:
        self._is_shown = True
        if not self._on_terminal:
            tell(", ".join(self._numbers()))
            return
        columns = min(room(sys.stderr), 200) - 1
        shown, *more = self._numbers()
        for part in more:
            if len(shown) + 2 + len(part) <= columns:
                shown += f", {part}"
        bar = min(columns - len(shown) - 3, 30)
        if bar >= 10:
            full = bar * self._done // self._total if self._total else bar
            shown = f"[{'#' * full}{'-' * (bar - full)}] {shown}"
        # The spaces replace the rest of an earlier, longer line.
        _write(f"\r{shown[:columns].ljust(columns)}\r{shown[:columns]}")

    def _numbers(self) -> Iterator[str]:
        yield f"{self._done:,} of {counted(self._total, self._noun)}"
        if self._failed:
            yield f"{self._failed:,} failed"
        seconds, done = time.monotonic() - self._begun_at, self._done - self._begun_with
        if seconds >= 1 and done:
            rate = done / seconds
            yield f"{rate:,.0f} per second" if rate >= 10 else f"{rate:,.1f} per second"
            if self._done < self._total:
                yield f"{_duration((self._total - self._done) / rate)} left"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(max(round(seconds), 1), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
