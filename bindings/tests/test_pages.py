"""What the READMEs and the site show works as stated: each Python snippet in a process of its own against a sandbox.

rustdoc compiles and runs the Rust snippets, from examples/rust/lib.rs.
"""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import ended, needs_curl, python

from dealkit.testing import READINGS, Sandbox

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "bindings/README.md", ROOT / "sdk/README.md", *ROOT.glob("docs/**/*.md")])
ERRORS = ROOT / "docs/guide/errors.md"
# The pages with the introductory snippets that README and the packages' own pages share.
FIRST_LINES = {"python": "bindings/README.md", "rust,no_run": "sdk/README.md"}


def snippets(language: str) -> Iterator[tuple[str, str, str]]:
    """Where each snippet of a language is, its text, and its output, if that directly follows it."""
    fence = rf"^```{language}\n(.*?)^```$(?:\n+^```text\n(.*?)^```$)?"
    for page in PAGES:
        text = page.read_text("utf-8")
        for match in re.finditer(fence, text, re.MULTILINE | re.DOTALL):
            line = text[: match.start()].count("\n") + 1
            yield f"{page.relative_to(ROOT)}:{line}", match[1], match[2] or ""


def test_the_snippets_are_found() -> None:
    found = [*snippets("python")]
    assert len(found) >= 15
    assert any(shows for _, _, shows in found)


@pytest.mark.parametrize(("snippet", "shows"), [pytest.param(*given, id=place) for place, *given in snippets("python")])
def test_snippet(
    snippet: str, shows: str, tmp_path: Path, dealkit_sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Some snippets write files.
    monkeypatch.chdir(tmp_path)
    # Replaces the one address that only a real service has.
    snippet = snippet.replace("https://deals.example.com", dealkit_sandbox.url).replace('"my-key"', '"sandbox-key"')
    if "def test_" in snippet:
        script = tmp_path / "test_snippet.py"
        script.write_text(snippet)
        run_pytest = "import sys, pytest; sys.exit(pytest.main(sys.argv[1:]))"
        options = ["-q", "-p", "no:cacheprovider", "-p", "no:asyncio", "-W", "error"]
        shown = ended(python(run_pytest, str(script), *options, flags=()))
        tests = len(READINGS) if "READINGS" in snippet else snippet.count("def test_")
        assert f"{tests} passed" in shown
        return
    process = python(snippet, url=dealkit_sandbox.url)
    if "progress=True" in snippet:
        shown, bar = process.communicate(timeout=60)
        assert process.returncode == 0 and bar and "Traceback" not in bar, bar
    else:
        shown = ended(process)
    assert shows in ("", shown)


@needs_curl
@pytest.mark.parametrize(
    "snippet",
    [pytest.param(text, id=place) for place, text, _ in snippets("sh") if re.search("^curl ", text, re.MULTILINE)],
)
def test_curl(snippet: str, dealkit_sandbox: Sandbox) -> None:
    """Each command returns the status given after it, or otherwise a success."""
    for command in re.findall("^curl .*$", snippet.replace("http://127.0.0.1:8080", dealkit_sandbox.url), re.MULTILINE):
        asked = command.replace("curl ", "curl -s -o /dev/null -w '%{http_code}' ", 1)
        status = subprocess.run(asked, shell=True, check=True, capture_output=True, text=True, timeout=60).stdout
        expected = re.search(r"# (\d{3})\b", command)
        assert status == expected[1] if expected else status.startswith("2"), command


@pytest.mark.parametrize("snippet", [pytest.param(text, id=place) for place, text, _ in snippets("toml")])
def test_toml_is_toml(snippet: str) -> None:
    assert tomllib.loads(snippet)


@pytest.mark.parametrize("page", [pytest.param(page, id=str(page.relative_to(ROOT))) for page in PAGES])
def test_rust_is_compiled(page: Path) -> None:
    if re.search(r"^```rust", page.read_text("utf-8"), re.MULTILINE):
        assert f'include_str!("../../{page.relative_to(ROOT)}")' in (ROOT / "examples/rust/lib.rs").read_text("utf-8")


def test_the_links_of_the_readme_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^):]+)\)", (ROOT / "README.md").read_text("utf-8"))
    assert len(links) > 20
    assert [link for link in links if not (ROOT / link).is_file()] == []


@pytest.mark.parametrize("language", FIRST_LINES)
def test_the_first_lines_are_the_same_everywhere(language: str) -> None:
    """The packages' own pages cannot include text, so they repeat what README shows."""
    first = {place.partition(":")[0]: text for place, text, _ in reversed([*snippets(language)])}
    assert first["README.md"] == first[FIRST_LINES[language]]


def test_the_figures_of_the_readme_are_those_of_the_site() -> None:
    """`make bench-docs` writes both."""
    publish = runpy.run_path(str(ROOT / "bindings/benches/publish.py"))
    measured = json.loads((ROOT / "docs/speed/measured.json").read_text("utf-8"))
    readme = (ROOT / "README.md").read_text("utf-8")
    assert publish["marked"](readme, measured) == readme
    assert measured["measured"] in readme


def test_every_exception_is_in_the_table() -> None:
    import dealkit

    shown = ERRORS.read_text("utf-8")
    for name in dealkit.__all__:
        if name.endswith("Error") and name != "DealkitError":
            assert f"`{name}`" in shown, name
