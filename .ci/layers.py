"""Holds the layers of the Rust trees: a folder uses those below it, never one beside or above it.

Usage: python .ci/layers.py, which `make lint` calls. Import-linter holds those of the Python package (pyproject.toml).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]

# The folders and files directly in each `src`, from bottom to top. Those on one line do not know each other.
LAYERS = {
    "sdk": """
        value
        contract
        json
        rules
        model
        http
        ledger
        error
        arrow
        calls
        bulk
        client
        blocking test_util
    """,
    "server": """
        json
        state
        contract
        sandbox
        config
        service
        net
        server
        cli
    """,
    "bindings": """
        python
        json
        models
        calls
        arrow
        bulk
        client
        testing
    """,
}

# What still points up, as "file -> folder". A line that is no longer needed is an error, so the list can only shrink.
EXCEPTIONS: dict[str, set[str]] = {
    "sdk": {
        "http/call_progress.rs -> error",
        "http/connect/cause.rs -> error",
        "http/connect/pools.rs -> error",
        "http/connect/progress.rs -> error",
        "http/connect/proxy.rs -> error",
        "http/connect/tls.rs -> error",
        "http/connect/tls_failure.rs -> error",
        "http/headers.rs -> error",
        "http/response.rs -> error",
        "http/retry/attempts.rs -> error",
        "http/send.rs -> error",
        "http/trace.rs -> error",
        "http/traffic/turns.rs -> error",
        "ledger/state.rs -> error",
    },
    "server": set(),
    "bindings": {"python/failure.rs -> json"},
}

# Comments and strings, which may name anything, and characters such as '"'.
NO_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|b?r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"|b?\'(?:\\.|[^\'\\])\'', re.DOTALL)
TESTS = re.compile(r"#\[cfg\((?:all\()?test\b[^\]]*\]\s*mod \w+ \{.*", re.DOTALL)


def code(file: Path) -> str:
    """A file without comments, strings, and its tests, which are at its end."""
    return TESTS.sub("", NO_CODE.sub('""', file.read_text("utf-8")))


def tree(text: str, prefix: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The paths that begin at a position in the code, with what is in braces taken apart."""
    found = re.match(r"(?:\w+::)*", text)
    assert found
    here = (*prefix, *found[0].split("::")[:-1])
    rest = text[found.end() :]
    if not rest.startswith("{"):
        name = re.match(r"\w+|\*|", rest)
        assert name
        yield (*here, name[0])
        return
    depth, start = 0, 1
    for at, character in enumerate(rest):
        depth += (character == "{") - (character == "}")
        if (character == "," and depth == 1) or depth == 0:
            if part := rest[start:at].strip():
                yield from tree(part, here)
            start = at + 1
            if depth == 0:
                return


def module(file: Path, source: Path) -> tuple[str, ...]:
    parts = file.relative_to(source).with_suffix("").parts
    return parts[:-1] if parts[-1] in ("mod", "lib", "main") else parts


def paths(file: Path, source: Path) -> Iterator[tuple[str, ...]]:
    """The paths within the crate that a file uses."""
    text = code(file)
    for found in re.finditer(r"\bcrate::", text):
        yield from tree(text[found.end() :], ())
    for found in re.finditer(r"(?<!:)\b((?:super::)+)", text):
        above = module(file, source)[: -found[1].count("super")]
        yield from tree(text[found.end() :], above)


def exported(source: Path, folders: set[str]) -> dict[str, str]:
    """In which folder that has a name which the crate's root, or a macro, has."""
    names = {}
    for found in re.finditer(r"\bpub use ", text := code(source / "lib.rs")):
        for path in tree(text[found.end() :].replace(" as ", "::").lstrip(":"), ()):
            if path[0] in folders:
                names[path[-1]] = path[0]
    for file in source.rglob("*.rs"):
        for name in re.findall(r"macro_rules! (\w+)", file.read_text("utf-8")):
            names[name] = (*module(file, source), "lib")[0]
    return names


def arrows(crate: str) -> Iterator[tuple[Path, str, str]]:
    """Each file, the folder that it is in, and another folder that it uses."""
    source = ROOT / crate / "src"
    folders = {path.stem for path in source.iterdir()} - {"lib", "main"}
    names = exported(source, folders)
    for file in sorted(source.rglob("*.rs")):
        own = module(file, source)
        # A module of tests in a file of its own may use anything.
        if own and file.name != "tests.rs":
            used = {path[0] if path[0] in folders else names.get(path[0], own[0]) for path in paths(file, source)}
            yield from ((file, own[0], folder) for folder in sorted(used - {own[0]}))


def main() -> int:
    wrong = 0
    for crate, drawn in LAYERS.items():
        rank = {folder: level for level, line in enumerate(drawn.split("\n")) for folder in line.split()}
        unused = set(EXCEPTIONS[crate])
        for file, own, used in arrows(crate):
            arrow = f"{file.relative_to(ROOT / crate / 'src')} -> {used}"
            unknown = {own, used} - rank.keys()
            if unknown:
                print(f"layers: {crate}/src/{arrow}: {', '.join(unknown)} is in no layer", file=sys.stderr)
            elif rank[used] < rank[own]:
                continue
            elif arrow in EXCEPTIONS[crate]:
                unused.discard(arrow)
                continue
            else:
                print(f"layers: {crate}/src/{arrow}: {used} is not below {own}", file=sys.stderr)
            wrong += 1
        for arrow in sorted(unused):
            print(f"layers: {crate}: the exception {arrow!r} is needed no more: take it out", file=sys.stderr)
            wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
