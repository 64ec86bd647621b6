"""Rejects retired words, and comments that begin with neither a noun nor a verb.

Usage: python .ci/words.py [FILE ...], which `make lint` calls. CONTRIBUTING.md ("Words") has the rules in full. Checked are the comments,
docstrings and names of the source files, the strings of the files in MESSAGES, and all text of the files in PAGES. To keep a word that has its ordinary meaning, add
it to EXCEPTIONS with the reason.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]

# Retired words in comments and docstrings, as regular expressions, with what to write instead.
IN_TEXT = {
    r"somebody|anybody|nobody|whoever": "the caller, another job, a person, or: unknown",
    r"whatever": "name the thing",
    r"beside": "next to, or compared with",
    r"of late": "recently",
    r"refus(?:e[sd]?|ing|als?)": "reject (by rules or by the service), deny (access), error",
    r"becomes? of|became of": "the outcome or the handling of",
    r"(?:has|have|had) come|came here": "arrived, finished",
    r"th(?:ose|at) of|of which|of whom": "repeat the noun, or: whose",
    r"gives? up|given up|giving up|gave up": "cancel (if the caller stops the work), abandon",
    r"goes? by|insists?|patience": "detached, wait limit",
    r"settle[sd]?|settling": "resolve",
    r"in doubt": "unresolved (a row), unknown (an outcome)",
    r"worlds?": "namespace",
    r"lanes?": "connection group, pool shard",
    r"pace[sd]?|pacing": "rate limiter, rate",
    r"allowances?": "rate-limit headers",
    r"open sets?": "extensible enum",
    r"apart": "off-thread, in `extra`",
    r"tell(?:s|ing)?|told": "notify, report, record",
    r"news": "message, event",
    r"native half": "the native module",
    r"for ever": "never returns, deadlocks",
}

# Retired words in names: parts of an identifier such as `is_given_up` or `RowInDoubt`.
IN_NAMES = {
    "place|places": "permit (semaphore), location (JSON, argument), path or URL (ledger)",
    "pace": "rate limiter",
    "allowance": "rate-limit headers",
    "lane|lanes": "connection group, pool shard",
    "room": "memory budget, width",
    "kept": "cached, retained",
    "told|tell|said|say|news": "notify, report, record, message, event",
    "refuse|refused|refuses|refusal": "reject, deny, error",
    "doubt|doubts": "unresolved, unknown",
    "settle|settled": "resolve",
    "world|worlds": "namespace",
    "readings": "variant",
    "garbage": "malformed",
    "come|came|fate|course": "event, progress, fault outcome",
    "apart": "off_thread, extra",
    "patience|insist": "wait limit",
    "beside|whatever|somebody|nobody|anybody|whoever": "name the thing or the person",
}

# A comment or docstring begins with the noun for an item, or with a verb in the third person for a function.
OPENINGS = r"What|Why|Who|Whose|Whoever|Whatever|Those|That of|None of|One of whom"

# Files whose whole text is checked for the words in IN_TEXT.
PAGES = ("ARCHITECTURE.md", "CONTRIBUTING.md")

# Folders whose files have messages for users in their strings, which are checked for the words in IN_TEXT.
MESSAGES = ("bindings/python/dealkit/_cli/",)

# A file (or a folder, ending in "/"), the word as it is written there, and why it may stay.
EXCEPTIONS: list[tuple[str, str, str]] = [
    ("sdk/src/arrow/deal_batch.rs", "has_room_for", "a public name: space in a batch"),
    ("sdk/", "ConnectionRefused", "a name of std"),
    ("sdk/", "REFUSED_STREAM", "a name of RFC 9113"),
    ("sdk/src/transport/connect/h2_errors.rs", "refused", "RFC 9113's term for a stream"),
    ("bindings/src/arrow/table_builder.rs", "has_room_for", "a public name: space in a batch"),
    ("bindings/tests/", "places", "decimal places"),
    ("bindings/tests/", "decimal_places", "decimal places"),
    ("bindings/tests/conftest.py", "collect_garbage", "garbage collection"),
    ("sdk/tests/wire/proxy.rs", "TOLD", "a marker in a child's output"),
    ("sdk/src/transport/connect/rustls_errors.rs", "come", "part of a message"),
]

Finding = tuple[int, str, str]


def sources() -> list[Path]:
    names = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    checked = (".rs", ".py", ".pyi")
    return [Path(name) for name in names if name.endswith(checked) or name in (*PAGES, "Makefile")]


def parts(path: Path, text: str) -> Iterator[tuple[int, str, str]]:
    """Yields the comments, docstrings and names of a file with their first lines; adjacent comment lines are one comment."""
    if path.suffix in (".py", ".pyi"):
        yield from _python_parts(text, has_messages=path.as_posix().startswith(MESSAGES))
    elif path.suffix == ".md":
        yield from ((number, "page", line) for number, line in enumerate(text.splitlines(), 1))
    else:
        yield from _line_parts(text, "#" if path.name == "Makefile" else "//", has_names=path.suffix == ".rs")


def _python_parts(text: str, *, has_messages: bool) -> Iterator[tuple[int, str, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], "comment", token.string.lstrip("# ")
        elif token.type == tokenize.NAME:
            yield token.start[0], "name", token.string
    docstrings = set()
    for node in ast.walk(ast.parse(text)):
        # `walk` visits a statement before its value.
        value = node.value if isinstance(node, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            docstrings.add(value)
            yield value.lineno, "docstring", value.value
        elif has_messages and isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docstrings:
            yield node.lineno, "message", node.value


_STRING = re.compile(r"""b?r#*".*?"#*|b?"(?:\\.|[^"\\])*"|b?'(?:\\.|[^'\\])'""")


def _line_parts(text: str, mark: str, *, has_names: bool) -> Iterator[tuple[int, str, str]]:
    comment: list[str] = []
    start = 0
    for number, line in enumerate([*text.splitlines(), ""], 1):
        code, found, rest = _STRING.sub("S", line).partition(mark)
        if found and not code.strip():
            rest = rest.lstrip("/!# ")
            start = start if comment else number
            comment.append(rest)
            continue
        if comment:
            yield start, "comment", " ".join(comment)
            comment = []
        if found:
            yield number, "comment", rest.strip()
        if has_names:
            yield from ((number, "name", name) for name in re.findall(r"[A-Za-z_]\w+", code))


def check(path: Path, number: int, kind: str, text: str) -> Iterator[Finding]:
    if kind == "name":
        words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", text)
        for pattern, instead in IN_NAMES.items():
            for word in words:
                if re.fullmatch(pattern, word, re.IGNORECASE) and not is_excepted(path, text):
                    yield number, text, instead
        return
    prose = re.sub(r"`[^`]*`|\[[^\]]*\]\([^)]*\)|https?://\S+", "`", text)
    for pattern, instead in IN_TEXT.items():
        for match in re.finditer(rf"\b(?:{pattern})\b", prose, re.IGNORECASE):
            if not is_excepted(path, match.group()):
                yield number, match.group(), instead
    if kind == "message":
        return
    opening = re.match(rf"(?:{OPENINGS})\b", prose)
    if opening and not prose.rstrip().endswith("?") and not is_excepted(path, opening.group()):
        yield number, f"{prose[:40]}…", "begin with the noun for the item, or the verb for the function"


def is_excepted(path: Path, word: str) -> bool:
    name = path.as_posix()
    return any(
        word.lower() == excepted.lower() and (name.startswith(where) if where.endswith("/") else name == where)
        for where, excepted, _ in EXCEPTIONS
    )


def main() -> int:
    given = [Path(name).resolve().relative_to(ROOT) for name in sys.argv[1:]]
    found = 0
    for path in given or sources():
        if path.as_posix() == ".ci/words.py":
            continue
        seen = set()
        for part in parts(path, (ROOT / path).read_text()):
            for number, word, instead in check(path, *part):
                if (word, instead) not in seen:
                    seen.add((word, instead))
                    found += 1
                    print(f"{path}:{number}: {word!r} is retired: {instead}")
    if found:
        print(f"words: {found} findings; .ci/words.py lists the words, their replacements and the exceptions")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
