"""What the READMEs and the site show works as it stands: a reader's commands and programs run here as they are copied.

`examples/rust/tests/pages.rs` runs the Rust programs. `make lint` checks the rest of the pages (`docs/check_pages.py`) and the types
of the programs (`bindings/check_types.py`).
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
from processes import HANGS, ended, needs_curl, python, run_pytest, until

from dealkit.testing import VARIANTS

ROOT = Path(__file__).parents[2]
snippets = runpy.run_path(str(ROOT / "docs/check_pages.py"))["find_snippets"]
# Pages whose commands are run elsewhere, as they need an engine: `make test-engines` installs some.
ON_ENGINES = ["docs/howto/on-engines.md"]


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
        tests = len(VARIANTS) if "VARIANTS" in snippet else snippet.count("def test_")
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
