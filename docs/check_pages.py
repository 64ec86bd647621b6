"""Fails if links, TOML, long lines of code, named files, repeated programs, figures or errors on the pages are wrong.

Usage: python docs/check_pages.py [CHECK...], such as check_links; all by default, in the environment of the tests. `make site` checks
the pages of the site, and `bindings/tests/test_pages.py` runs their programs and commands.
"""

from __future__ import annotations

import json
import re
import runpy
import sys
import tomllib
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [*(ROOT / folder / "README.md" for folder in (".", "bindings", "sdk", "server")), *ROOT.glob("docs/**/*.md")]
)
# The pages that begin with the same program as README, because they are read alone.
FIRST_PROGRAMS = {
    "python": ["bindings/README.md", "docs/guide/python.md"],
    "rust(?:,no_run)?": ["sdk/README.md", "docs/guide/rust.md"],
}
ERRORS = ROOT / "docs/guide/errors.md"
# The folders with the files that ARCHITECTURE.md and CONTRIBUTING.md name.
FOLDERS = [".ci", "bindings", "docs", "examples", "release", "sdk", "server"]


def find_snippets(language: str) -> Iterator[tuple[str, str, str]]:
    """Finds the location of each snippet of a language, its text, and its output, if that directly follows it."""
    fence = rf"^```{language}\n(.*?)^```$(?:\n+^```text\n(.*?)^```$)?"
    for page in PAGES:
        text = page.read_text("utf-8")
        for match in re.finditer(fence, text, re.MULTILINE | re.DOTALL):
            line = text[: match.start()].count("\n") + 1
            yield f"{page.relative_to(ROOT)}:{line}", match[1], match[2] or ""


def check_toml() -> Iterator[str]:
    """Finds TOML that cannot be read."""
    for location, snippet, _ in find_snippets("toml"):
        try:
            if not tomllib.loads(snippet):
                yield f"{location}: the TOML is empty"
        except tomllib.TOMLDecodeError as error:
            yield f"{location}: not TOML: {error}"


def check_widths() -> Iterator[str]:
    """Finds code that a code host cuts off, and lines that rustdoc would hide and a code host shows."""
    for page in PAGES:
        blocks = re.findall(r"^```(\w+)[^\n]*\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
        for language, line in ((language, line) for language, block in blocks for line in block.splitlines()):
            if len(line) > 80:
                yield f"{page.relative_to(ROOT)}: more than 80 columns: {line}"
            if language == "rust" and line.startswith("# "):
                yield f"{page.relative_to(ROOT)}: a hidden line: {line}"


def check_files() -> Iterator[str]:
    """Finds names of files that do not exist, in the pages about the source code."""
    found = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.*") if path.suffix in (".py", ".rs"))
    files = [f"/{path.relative_to(ROOT).as_posix()}" for path in found]
    for page in ("ARCHITECTURE.md", "CONTRIBUTING.md"):
        names = re.findall(r"`([\w./]+\.(?:py|rs))`", (ROOT / page).read_text("utf-8"))
        yield from check_count(11, names, f"names of files in {page}")
        for name in names:
            if not any(file.endswith(f"/{name}") for file in files):
                yield f"{page}: there is no file {name}"


def check_links() -> Iterator[str]:
    """Finds links to missing files and anchors, as a code host follows them."""
    for page in PAGES:
        for file, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", page.read_text("utf-8")):
            target = (page.parent / file).resolve() if file else page
            if not target.is_file() or (anchor and anchor not in find_anchors(target)):
                yield f"{page.relative_to(ROOT)}: leads nowhere: {file}{'#' if anchor else ''}{anchor}"


def find_anchors(page: Path) -> set[str]:
    """Finds the anchors that a code host gives to a page's headings."""
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def check_first_programs() -> Iterator[str]:
    """Finds pages whose first program differs from the one in README."""
    for language, pages in FIRST_PROGRAMS.items():
        first = {location.partition(":")[0]: text for location, text, _ in reversed([*find_snippets(language)])}
        for page in pages:
            if first["README.md"] != first[page]:
                yield f"{page}: its first program is not that of README.md"


def check_figures() -> Iterator[str]:
    """Finds figures for code hosts that differ from the site's. `make bench-docs` writes both."""
    publish = runpy.run_path(str(ROOT / "bindings/benches/publish.py"))
    measured = json.loads((ROOT / "docs/speed/measured.json").read_text("utf-8"))
    page = (ROOT / "docs/speed.md").read_text("utf-8")
    if publish["replace_sections"](page, measured) != page or measured["measured"] not in page:
        yield "docs/speed.md: its figures are not those of docs/speed/measured.json: make bench-docs"


def check_exceptions() -> Iterator[str]:
    """Finds exceptions that the page of errors lacks."""
    import dealkit

    page = ERRORS.read_text("utf-8")
    for name in dealkit.__all__:
        if name.endswith("Error") and name != "DealkitError" and f"`{name}`" not in page:
            yield f"docs/guide/errors.md: lacks {name}"


def check_messages() -> Iterator[str]:
    """Finds messages on the page of errors that neither the SDK nor the command reports."""
    sources = "".join(path.read_text("utf-8") for path in (ROOT / "sdk/src").rglob("*.rs"))
    command = "".join(path.read_text("utf-8") for path in (ROOT / "bindings/python/dealkit/_cli").glob("*.py"))
    # Joins the parts of a message on several lines.
    sources += re.sub(r'"\n\s*f?"', "", command)
    reported = re.sub(r"\\\n\s*", "", sources) + "".join(f"{status.value} {status.phrase}\n" for status in HTTPStatus)
    text = ERRORS.read_text("utf-8").partition("\n## Messages\n")[2]
    headings = re.findall(r"^### (?!500)(.*)$", text, re.MULTILINE)
    # The names and bounds of settings are put into the messages.
    parts = [part.strip() for heading in headings for part in re.split(r"\w+_\w+|\b1024\b", heading)]
    yield from check_count(45, parts, "messages in docs/guide/errors.md")
    for part in parts:
        if part not in reported:
            yield f"docs/guide/errors.md: no error reads: {part}"


def check_count(count: int, found: Iterable[object], names: str) -> Iterator[str]:
    """Reports a number that is so low that the check must have looked in the wrong place."""
    number = len([*found])
    if number < count:
        yield f"only {number} {names} are found"


def main() -> int:
    checks = [
        check_toml,
        check_widths,
        check_files,
        check_links,
        check_first_programs,
        check_figures,
        check_exceptions,
        check_messages,
    ]
    by_name = {check.__name__: check for check in checks}
    faults = [fault for name in sys.argv[1:] or by_name for fault in by_name[name]()]
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
