"""Checks the package's types: mypy, pyright and stubtest must report no errors.

`tests/typing/models.py` and `tests/typing/calls.py` assert the type of every public name. `tests/typing/wrong.py` has code that must be
rejected: an unused ignore comment is an error there.

Usage: python bindings/check_types.py, in the environment of the tests
"""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from operator import attrgetter
from pathlib import Path

from dealkit import _native

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "bindings" / "tests"
SAMPLES = TESTS / "typing"
PACKAGE = ROOT / "bindings" / "python"
# Folders of mypy's cache, and of the programs on the pages, which pyrightconfig.json names.
CACHE = ROOT / "target" / "types"
SNIPPETS = CACHE / "snippets"

ENVIRONMENT = {
    **os.environ,
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    "VIRTUAL_ENV": sys.prefix,
}
# The folders in which mypy finds modules, as pytest does, before the environment of the tests.
SOURCES = {"MYPYPATH": os.pathsep.join([str(PACKAGE), str(TESTS)])}


def run_tool(tool: str, *arguments: object, env: dict[str, str] | None = None) -> str:
    """Runs a tool and returns its output.

    Raises:
        AssertionError: The tool reports something.
    """
    done = subprocess.run(
        [sys.executable, "-m", tool, *map(str, arguments)],
        env={**ENVIRONMENT, **(env or {})},
        cwd=TESTS,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    return done.stdout


def check_with_mypy() -> None:
    """Checks the package, the samples and the examples. The tests import so much that mypy would take a minute; pyright checks
    them."""
    files = [file for folder in (SAMPLES, ROOT / "examples" / "python") for file in sorted(folder.glob("*.py"))]
    strict = ("mypy", "--strict", "--python-version=3.11", f"--cache-dir={CACHE / 'mypy'}")
    run_tool(*strict, f"--config-file={ROOT / 'pyproject.toml'}", PACKAGE / "dealkit", *files, env=SOURCES)


def check_with_pyright() -> None:
    """Checks the package, the tests and the programs on the pages with pyright's defaults, the samples and the examples in its
    strict mode."""
    shutil.rmtree(SNIPPETS, ignore_errors=True)
    SNIPPETS.mkdir(parents=True)
    for location, snippet, _ in runpy.run_path(str(ROOT / "docs" / "check_pages.py"))["find_snippets"]("python"):
        (SNIPPETS / (re.sub(r"\W", "_", location) + ".py")).write_text(snippet)
    run_tool("pyright", "-p", SAMPLES, "--pythonpath", sys.executable)


def check_rejections() -> None:
    """Checks that pyright rejects the wrong code."""
    run_tool("pyright", "-p", SAMPLES / "wrong.json", "--pythonpath", sys.executable)


def check_completeness() -> None:
    """Checks that every public name has a type and documentation."""
    found = json.loads(run_tool("pyright", "--ignoreexternal", "--outputjson", "--verifytypes", "dealkit"))
    assert found["typeCompleteness"]["completenessScore"] == 1
    for symbol in found["typeCompleteness"]["symbols"]:
        if any("docstring" in one["message"] for one in symbol["diagnostics"]):
            # The native module, not its stub, documents its hidden parts.
            assert not symbol["isExported"], f"{symbol['name']} has no documentation"
            named = attrgetter(symbol["name"].removeprefix("dealkit._native."))(_native)
            assert named.__doc__, f"{symbol['name']} has no documentation"


def check_stubs() -> None:
    """Checks that the stubs match the built module."""
    run_tool("mypy.stubtest", "dealkit", "--allowlist", SAMPLES / "stubtest-allowed.txt")


# The slowest check first.
CHECKS = [check_with_pyright, check_stubs, check_with_mypy, check_completeness, check_rejections]


def find_failure(check: Callable[[], None]) -> str | None:
    """Runs a check and returns the reason if it fails."""
    try:
        check()
    except (AssertionError, subprocess.TimeoutExpired) as failure:
        return f"{check.__name__}: {failure}"
    return None


def main() -> int:
    with ThreadPoolExecutor(max_workers=2) as pool:
        failures = [failure for failure in pool.map(find_failure, CHECKS) if failure is not None]
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
