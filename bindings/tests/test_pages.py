"""What the READMEs and the site show works as it stands: a reader's commands and programs run here as they are copied.

`examples/rust/tests/pages.rs` runs the Rust programs.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import signal
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from pathlib import Path

import pytest
from ports import reserved_port
from processes import HANGS, ended, needs_curl, python, run_pytest, until

from dealkit.testing import READINGS

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [*(ROOT / folder / "README.md" for folder in (".", "bindings", "sdk", "server")), *ROOT.glob("docs/**/*.md")]
)
ERRORS = ROOT / "docs/guide/errors.md"
# The pages with the introductory snippets that README and the packages' own pages share.
FIRST_LINES = {"python": "bindings/README.md", "rust(?:,no_run)?": "sdk/README.md"}
# Pages whose commands are run elsewhere, as they need an engine: `make test-engines` installs some.
ON_ENGINES = ["docs/howto/on-engines.md"]


def snippets(language: str) -> Iterator[tuple[str, str, str]]:
    """Where each snippet of a language is, its text, and its output, if that directly follows it."""
    fence = rf"^```{language}\n(.*?)^```$(?:\n+^```text\n(.*?)^```$)?"
    for page in PAGES:
        text = page.read_text("utf-8")
        for match in re.finditer(fence, text, re.MULTILINE | re.DOTALL):
            line = text[: match.start()].count("\n") + 1
            yield f"{page.relative_to(ROOT)}:{line}", match[1], match[2] or ""


class Shell:
    """A reader's shell in a folder of its own: what one block exports or starts is there for the next."""

    # pip finds installed whatever a page has it install, and need not build it. Cargo and npx would ask their registries.
    BEFORE = r"""
        pip() { [ "$*" = "install ." ] || command pip "$@"; }
        cargo() { true; }
        npx() { true; }
        make() { command make --dry-run --directory "$DEALKIT_ROOT" "$@" >/dev/null; }
        # A response that breaks off, as some are asked to, has its status all the same.
        curl() { command curl --silent --output /dev/null --write-out '%{http_code}\n' "$@" || true; }
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = ExitStack()
        self.address = "127.0.0.1", self._stack.enter_context(reserved_port(for_server=True))
        self.env = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PIP_NO_INDEX": "1",
            "DEALKIT_ROOT": str(ROOT),
            # In place of port 8080, which may be in use.
            "DEALKIT_SERVER_LISTEN": f"127.0.0.1:{self.address[1]}",
        }
        self._started: list[subprocess.Popen[bytes]] = []

    def run(self, block: str) -> str:
        """The output of a block, every command of which must succeed."""
        # What a block has started goes on writing to the block's log.
        log, env = self._folder / f"log{len(self._started)}", self._folder / "env"
        # A server without `&` is in a terminal of its own.
        block = re.sub(r"(?m)^dealkit-server$", "dealkit-server &", block)
        after = f'{block.replace("127.0.0.1:8080", self.env["DEALKIT_SERVER_LISTEN"])}\nenv --null >"{env}"'
        with log.open("ab") as output:
            process = subprocess.Popen(
                ["sh", "-e", "-c", f"{self.BEFORE}\n{after}"],
                cwd=self._folder,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._started.append(process)
            code = process.wait(timeout=HANGS)
        assert code == 0, f"{block}\n{log.read_text()}"
        self.env = dict(line.split("=", 1) for line in env.read_text().split("\0") if line)
        if re.search(r"^dealkit-server.*&", block, re.MULTILINE):
            until(self._listens)  # A reader takes longer to come to the next block.
        return log.read_text()

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(self.address) == 0

    def close(self) -> None:
        for process in self._started:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # Nothing that it has started is still running.
        self._stack.close()


@contextmanager
def shell(folder: Path) -> Iterator[Shell]:
    opened = Shell(folder)
    try:
        yield opened
    finally:
        opened.close()


def above(place: str) -> list[str]:
    """The shell blocks that stand above a snippet on its page."""
    page, line = place.split(":")
    found = (found.split(":") + [text] for found, text, _ in snippets("sh"))
    return [text for of, at, text in found if of == page and int(at) < int(line) and page not in ON_ENGINES]


def test_the_snippets_are_found() -> None:
    found = [*snippets("python")]
    assert len(found) >= 15
    assert any(shows for _, _, shows in found)


@pytest.mark.parametrize(
    ("place", "snippet", "shows"), [pytest.param(*given, id=given[0]) for given in snippets("python")]
)
def test_snippet(place: str, snippet: str, shows: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Some snippets write files.
    monkeypatch.chdir(tmp_path)
    with shell(tmp_path) as reader:
        for block in above(place):
            reader.run(block)
        run_snippet(snippet, shows, tmp_path, reader.env)


def run_snippet(snippet: str, shows: str, folder: Path, env: dict[str, str]) -> None:
    if "def test_" in snippet:
        script = folder / "test_snippet.py"
        script.write_text(snippet)
        shown = run_pytest(script)
        tests = len(READINGS) if "READINGS" in snippet else snippet.count("def test_")
        assert f"{tests} passed" in shown
        return
    process = python(snippet, url=env.get("DEALKIT_BASE_URL", ""), key=env.get("DEALKIT_SERVICE_KEY", ""))
    if "progress=True" in snippet:
        shown, bar = process.communicate(timeout=HANGS)
        assert process.returncode == 0 and bar and "Traceback" not in bar, bar
    else:
        shown = ended(process)
    # What differs from run to run is an ellipsis.
    assert re.fullmatch(re.escape(shows).replace("…", ".*"), shown), shown


@needs_curl
@pytest.mark.skipif(os.name != "posix", reason="needs sh")
@pytest.mark.parametrize("page", sorted({place.split(":")[0] for place, *_ in snippets("sh")} - set(ON_ENGINES)))
def test_commands(page: str, tmp_path: Path) -> None:
    """Every shell block of a page, one after the other; curl gets the status given after it, or otherwise a success."""
    blocks = [text for place, text, _ in snippets("sh") if place.split(":")[0] == page]
    with shell(tmp_path) as reader:
        if not any(line.startswith("dealkit-server") for block in blocks for line in block.splitlines()):
            reader.run("dealkit-server &")  # Its page says that it is running.
        for block in blocks:
            shown = reader.run(block)
            asked = re.findall("^curl .*$", block, re.MULTILINE)
            statuses = re.findall(r"^\d{3}$", shown, re.MULTILINE)
            assert len(statuses) == len(asked), shown
            for command, status in zip(asked, statuses, strict=True):
                expected = re.search(r"# (\d{3})\b", command)
                assert status == expected[1] if expected else status.startswith("2"), command


def test_pyright_finds_nothing_in_the_snippets(tmp_path: Path) -> None:
    for place, snippet, _ in snippets("python"):
        (tmp_path / (re.sub(r"\W", "_", place) + ".py")).write_text(snippet)
    pyright = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "."]
    done = subprocess.run(pyright, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"


@pytest.mark.parametrize("snippet", [pytest.param(text, id=place) for place, text, _ in snippets("toml")])
def test_toml_is_toml(snippet: str) -> None:
    assert tomllib.loads(snippet)


@pytest.mark.parametrize("page", [pytest.param(page, id=str(page.relative_to(ROOT))) for page in PAGES])
def test_code_fits_a_code_host(page: Path) -> None:
    """A code host cuts off longer lines, and shows those that rustdoc would hide."""
    blocks = re.findall(r"^```(\w+)[^\n]*\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    lines = [(language, line) for language, block in blocks for line in block.splitlines()]
    assert [line for language, line in lines if len(line) > 80] == []
    assert [line for language, line in lines if language == "rust" and line.startswith("# ")] == []


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_the_files_that_are_named_exist(page: str) -> None:
    folders = [".ci", "bindings", "docs", "examples", "release", "sdk", "server"]
    found = (path for folder in folders for path in (ROOT / folder).rglob("*.*") if path.suffix in (".py", ".rs"))
    files = [f"/{path.relative_to(ROOT).as_posix()}" for path in found]
    words = re.findall(r"`([\w./]+\.(?:py|rs))`", (ROOT / page).read_text("utf-8"))
    assert len(words) > 10
    assert [word for word in words if not any(file.endswith(f"/{word}") for file in files)] == []


@pytest.mark.parametrize("page", [pytest.param(page, id=str(page.relative_to(ROOT))) for page in PAGES])
def test_links_lead_to_files(page: Path) -> None:
    """As a code host follows them: `make site` checks what the site makes of them."""
    links = re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", page.read_text("utf-8"))
    found = [(file, anchor, (page.parent / file).resolve() if file else page) for file, anchor in links]
    assert [file for file, _, target in found if not target.is_file()] == []
    assert [(file, anchor) for file, anchor, target in found if anchor and anchor not in anchors(target)] == []


def anchors(page: Path) -> set[str]:
    """The anchors that a code host gives to a page's headings."""
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


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


def test_the_errors_under_troubleshooting_are_said() -> None:
    sources = "".join(path.read_text("utf-8") for path in (ROOT / "sdk/src").rglob("*.rs"))
    said = re.sub(r"\\\n\s*", "", sources) + "".join(f"{status.value} {status.phrase}\n" for status in HTTPStatus)
    text = (ROOT / "docs/guide/troubleshooting.md").read_text("utf-8")
    headings = re.findall(r"^### (?!500)(.*)$", text, re.MULTILINE)
    # The names and bounds of settings are put into the texts.
    pieces = [piece.strip() for heading in headings for piece in re.split(r"\w+_\w+|\b1024\b", heading)]
    assert len(pieces) > 20
    assert [piece for piece in pieces if piece not in said] == []
