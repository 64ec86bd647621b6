"""Checks the layers of the Rust trees: a folder may use only folders below it, and no two files may use each other.

Usage: python .ci/layers.py, which `make lint` calls. Import-linter checks the layers of the Python package (pyproject.toml).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]

# The folders and files directly in each `src`, from bottom to top. Folders on the same line must not use each other.
LAYERS = {
    "sdk": """
        value
        specification
        json
        rules
        model
        transport
        ledger
        error
        arrow
        calls
        bulk
        operations
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
        server health
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

# Existing violations: upward dependencies, as "file -> folder", and cycles, as "file <-> file". An unneeded entry is an error, so the
# list can only shrink.
EXCEPTIONS: dict[str, set[str]] = {
    "sdk": set(),
    "server": set(),
    "bindings": {
        "python/failure.rs -> json",
    },
}

# Comments, strings and character literals, whose content is not code.
NO_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|b?r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"|b?\'(?:\\.|[^\'\\])\'', re.DOTALL)
TESTS = re.compile(r"#\[cfg\((?:all\()?test\b[^\]]*\]\s*mod \w+ \{.*", re.DOTALL)


def code(file: Path) -> str:
    """Returns the code of a file without comments, strings, and the tests at its end."""
    return TESTS.sub("", NO_CODE.sub('""', file.read_text("utf-8")))


def tree(text: str, prefix: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Finds the paths at the start of the code; a list in braces is several paths."""
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
    """Finds the paths within the crate that a file uses."""
    text = code(file)
    for found in re.finditer(r"\bcrate::", text):
        yield from tree(text[found.end() :], ())
    for found in re.finditer(r"(?<!:)\b((?:super::)+)", text):
        above = module(file, source)[: -found[1].count("super")]
        yield from tree(text[found.end() :], above)


def exported(source: Path) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Maps the path of each re-exported item and macro to the module that defines it."""
    names = {}
    for file in source.rglob("*.rs"):
        folder, text = module(file, source), code(file)
        if file.name in ("lib.rs", "mod.rs"):
            for found in re.finditer(r"\bpub(?:\(crate\))? use (crate::)?(?!::)", text):
                above = () if found[1] else folder
                for path in tree(text[found.end() :].replace(" as ", "::"), above):
                    names[*folder, path[-1]] = path
        for name in re.findall(r"macro_rules! (\w+)", text):
            names[(name,)] = folder
    return names


def uses(source: Path) -> dict[Path, set[tuple[str, ...]]]:
    """Finds the modules that each file uses. Test modules in separate files are left out, because they may use any module."""
    files = {module(file, source): file for file in sorted(source.rglob("*.rs")) if file.name != "tests.rs"}
    names = exported(source)

    def used(path: tuple[str, ...]) -> tuple[str, ...]:
        for end in range(len(path), 0, -1):
            if path[:end] in files:
                return path[:end]
            # A re-exported name, unless the path is the item's own.
            if (found := names.get(path[:end])) and found[:end] != path[:end]:
                return used(found)
        return ()

    return {file: {used(path) for path in paths(file, source)} - {own, ()} for own, file in files.items() if own}


def circles(crate: str) -> Iterator[str]:
    """Finds the files of a folder that use each other, directly or through other files of the folder."""
    source = ROOT / crate / "src"
    direct = {
        own: {to for to in used if to[0] == own[0]}
        for file, used in uses(source).items()
        if (own := module(file, source))
    }
    reached = {own: set(used) for own, used in direct.items()}
    for _ in direct:
        reached = {own: used.union(*(reached.get(to, set()) for to in used)) for own, used in reached.items()}
    found = {frozenset(to for to in used if own in reached[to]) for own, used in reached.items() if own in used}
    yield from sorted(" <-> ".join("/".join(part) for part in sorted(circle)) for circle in found)


def arrows(crate: str) -> Iterator[tuple[str, str, str]]:
    """Finds the dependencies between folders: a file, its folder, and another folder that the file uses."""
    source = ROOT / crate / "src"
    for file, used in uses(source).items():
        own = module(file, source)[0]
        yield from ((str(file.relative_to(source)), own, to) for to in sorted({path[0] for path in used} - {own}))


def main() -> int:
    wrong = []
    for crate, drawn in LAYERS.items():
        rank = {folder: level for level, line in enumerate(drawn.split("\n")) for folder in line.split()}
        source = ROOT / crate / "src"
        missing = sorted(name for name in rank if not ((source / name).is_dir() or (source / f"{name}.rs").is_file()))
        wrong += [f"{crate}: {name} is in a layer, but is neither a folder nor a file" for name in missing]
        found = set()
        for file, own, used in arrows(crate):
            if unknown := {own, used} - rank.keys():
                wrong.append(f"{crate}/src/{file} -> {used}: {', '.join(unknown)} is in no layer")
            elif rank[used] >= rank[own]:
                found.add(f"{file} -> {used}")
        found.update(circles(crate))
        wrong += [f"{crate}/src: {arrow}: points up or in a circle" for arrow in sorted(found - EXCEPTIONS[crate])]
        unused = sorted(EXCEPTIONS[crate] - found)
        wrong += [f"{crate}: the exception {arrow!r} is needed no more: take it out" for arrow in unused]
    for line in wrong:
        print(f"layers: {line}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
