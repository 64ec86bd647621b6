"""Runs the shell commands and Python programs of the READMEs and the site unchanged.

`examples/rust/tests/pages.rs` runs the Rust programs. `make lint` checks the rest of the pages (`docs/check_pages.py`)
and the types of the programs (`bindings/check_types.py`).
"""

from __future__ import annotations

import os
import re
import runpy
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from ports import reserved_port
from processes import HANG_SECONDS, needs_curl, run_pytest, start_python, wait_for_success, wait_until

from dealkit.testing import VARIANTS

ROOT = Path(__file__).parents[2]
snippets = runpy.run_path(str(ROOT / "docs/check_pages.py"))["find_snippets"]
# Pages whose commands need an engine. `make test-engines` installs some engines and runs the commands.
ENGINE_PAGES = ["docs/guide/engines.md"]


class Shell:
    """A reader's shell in a folder of its own. Variables and processes of one block remain for the next."""

    # pip installs nothing, because all packages are installed already: a new environment gets no pip of its own. Cargo and npx would
    # access their registries.
    PREAMBLE = r"""
        pip() { case "$*" in "install ."|"install ../dealkit") ;; *) command pip "$@";; esac; }
        python3() { case "$*" in "-m venv "*) command python3 "$@" --without-pip;; *) command python3 "$@";; esac; }
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
            # Replaces port 8080, which may be in use.
            "DEALKIT_SERVER_LISTEN": f"127.0.0.1:{self.address[1]}",
        }
        self._started: list[subprocess.Popen[bytes]] = []

    def run(self, block: str) -> str:
        """Runs a block and returns its output. Fails if any command fails."""
        # Background processes of a block continue to write to the block's log.
        log, env = self._folder / f"log{len(self._started)}", self._folder / "env"
        # A reader starts a server without `&` in another terminal.
        block = re.sub(r"(?m)^dealkit-server$", "dealkit-server &", block)
        after = f'{block.replace("127.0.0.1:8080", self.env["DEALKIT_SERVER_LISTEN"])}\nenv --null >"{env}"'
        with log.open("ab") as output:
            process = subprocess.Popen(
                ["sh", "-e", "-c", f"{self.PREAMBLE}\n{after}"],
                cwd=self._folder,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._started.append(process)
            code = process.wait(timeout=HANG_SECONDS)
        assert code == 0, f"{block}\n{log.read_text()}"
        self.env = dict(line.split("=", 1) for line in env.read_text().split("\0") if line)
        if re.search(r"^dealkit-server.*&", block, re.MULTILINE):
            wait_until(self._listens)  # a reader takes longer to continue with the next block
        return log.read_text()

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(self.address) == 0

    def close(self) -> None:
        for process in self._started:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # no process that the shell has started is still running
        self._stack.close()


@contextmanager
def open_shell(folder: Path) -> Iterator[Shell]:
    opened = Shell(folder)
    try:
        yield opened
    finally:
        opened.close()


def shell_blocks_above(location: str) -> list[str]:
    """Returns the shell blocks above a snippet on its page."""
    page, line = location.split(":")
    found = (found.split(":") + [text] for found, text, _ in snippets("sh"))
    return [
        text for name, number, text in found if name == page and int(number) < int(line) and page not in ENGINE_PAGES
    ]


def test_pages_contain_snippets() -> None:
    found = [*snippets("python")]
    assert len(found) >= 15
    assert any(expected for _, _, expected in found)


@pytest.mark.parametrize(
    ("location", "snippet", "expected"), [pytest.param(*given, id=given[0]) for given in snippets("python")]
)
def test_snippet_prints_its_stated_output(
    location: str, snippet: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Some snippets write files.
    monkeypatch.chdir(tmp_path)
    with open_shell(tmp_path) as reader:
        for block in shell_blocks_above(location):
            reader.run(block)
        run_snippet(snippet, expected, tmp_path, reader.env)


def run_snippet(snippet: str, expected: str, folder: Path, env: dict[str, str]) -> None:
    if "def test_" in snippet:
        script = folder / "test_snippet.py"
        script.write_text(snippet)
        shown = run_pytest(script)
        tests = len(VARIANTS) if "VARIANTS" in snippet else snippet.count("def test_")
        assert f"{tests} passed" in shown
        return
    process = start_python(snippet, url=env.get("DEALKIT_BASE_URL", ""), key=env.get("DEALKIT_SERVICE_KEY", ""))
    if "progress=True" in snippet:
        shown, bar = process.communicate(timeout=HANG_SECONDS)
        assert process.returncode == 0 and bar and "Traceback" not in bar, bar
    else:
        shown = wait_for_success(process)
    # An ellipsis stands for output that differs between runs.
    assert re.fullmatch(re.escape(expected).replace("…", ".*"), shown), shown


@needs_curl
@pytest.mark.skipif(os.name != "posix", reason="needs sh")
@pytest.mark.parametrize(
    "page", sorted({location.split(":")[0] for location, *_ in snippets("sh")} - set(ENGINE_PAGES))
)
def test_shell_commands_of_a_page_succeed(page: str, tmp_path: Path) -> None:
    """Runs the shell blocks of a page in order. curl must get the status that follows its block, or else a success."""
    blocks = [text for location, text, _ in snippets("sh") if location.split(":")[0] == page]
    with open_shell(tmp_path) as reader:
        if not any(line.startswith("dealkit-server") for block in blocks for line in block.splitlines()):
            reader.run("dealkit-server &")  # the page says that a server is running
        for block in blocks:
            shown = reader.run(block)
            curl_commands = re.findall("^curl .*$", block, re.MULTILINE)
            statuses = re.findall(r"^\d{3}$", shown, re.MULTILINE)
            assert len(statuses) == len(curl_commands), shown
            for command, status in zip(curl_commands, statuses, strict=True):
                expected = re.search(r"# (\d{3})\b", command)
                assert status == expected[1] if expected else status.startswith("2"), command
