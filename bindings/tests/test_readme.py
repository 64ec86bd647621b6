"""The README's Python snippets do what they say, each in a process of its own against a sandbox."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from processes import ended, python

from dealkit.testing import READINGS, Sandbox

README = (Path(__file__).parents[2] / "README.md").read_text()
SNIPPETS = [
    pytest.param(match[1], id=f"line {README[: match.start()].count(chr(10)) + 1}")
    for match in re.finditer(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
]


def test_the_snippets_are_found() -> None:
    assert len(SNIPPETS) >= 7


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_snippet(snippet: str, tmp_path: Path, dealkit_sandbox: Sandbox) -> None:
    # The one address that only a real service has.
    snippet = snippet.replace("https://deals.example.com", dealkit_sandbox.url).replace('"my-key"', '"sandbox-key"')
    snippet = snippet.replace('"agents.ndjson"', repr(str(tmp_path / "agents.ndjson")))
    if "def test_" in snippet:
        script = tmp_path / "test_snippet.py"
        script.write_text(snippet)
        run_pytest = "import sys, pytest; sys.exit(pytest.main(sys.argv[1:]))"
        options = ["-q", "-p", "no:cacheprovider", "-p", "no:asyncio", "-W", "error"]
        shown = ended(python(run_pytest, str(script), *options, flags=()))
        tests = len(READINGS) if "READINGS" in snippet else snippet.count("def test_")
        assert f"{tests} passed" in shown
        return
    process = python(snippet, url=dealkit_sandbox.url, folder=tmp_path)
    if "progress=True" not in snippet:
        ended(process)
        return
    shown, progress = process.communicate(timeout=60)
    assert process.returncode == 0, progress
    assert shown.startswith("d_1: CLOSED\n") and shown.count("\n") == 100
    assert "100" in progress and "Traceback" not in progress


def test_every_exception_is_in_the_table() -> None:
    import dealkit

    for name in dealkit.__all__:
        if name.endswith("Error") and name != "DealkitError":
            assert f"`{name}`" in README, name
