"""Type checkers and editors understand the package: mypy, pyright and stubtest report nothing.

`typing/models.py` and `typing/calls.py` state the type of every public name (assert_type), and
`typing/wrong.py` what must be rejected: an ignore comment with nothing to ignore is an error there.
"""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from operator import attrgetter
from pathlib import Path

import dealkit
from dealkit import _native

TESTS = Path(__file__).parent
SAMPLES = TESTS / "typing"
PACKAGE = TESTS.parent / "python"
EXAMPLES = TESTS.parents[1] / "examples" / "python"

# Where the tools look for modules, as pytest does. The environment of the tests comes after it.
PATH = {"MYPYPATH": os.pathsep.join([str(PACKAGE), str(TESTS)]), "VIRTUAL_ENV": sys.prefix}


def says_nothing(tool: str, *arguments: object, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        [sys.executable, "-m", tool, *map(str, arguments)],
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", **(env or {})},
        cwd=TESTS,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    return done.stdout


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.py"))


def test_mypy_strict(tmp_path: Path) -> None:
    """The package, the samples and the examples: what the tests import would take a minute, and pyright checks them."""
    strict = ("mypy", "--strict", "--python-version=3.11", f"--cache-dir={tmp_path}")
    # The example for engines, which are not installed here, is checked without them.
    [on_engines] = EXAMPLES.glob("on_*.py")
    others = [file for file in files(EXAMPLES) if file != on_engines]
    says_nothing(*strict, PACKAGE / "dealkit", *files(SAMPLES), *others, env=PATH)
    says_nothing(*strict, "--ignore-missing-imports", on_engines, env=PATH)


def test_pyright() -> None:
    """The package and the tests with pyright's defaults, the samples and the examples in its strict mode."""
    says_nothing("pyright", "-p", SAMPLES, "--pythonpath", sys.executable)


def test_pyright_refuses_what_is_wrong() -> None:
    says_nothing("pyright", "-p", SAMPLES / "wrong.json", "--pythonpath", sys.executable)


def test_every_public_name_has_a_type_and_documentation() -> None:
    arguments = ("--ignoreexternal", "--outputjson", "--verifytypes", "dealkit")
    found = json.loads(says_nothing("pyright", *arguments, env={"VIRTUAL_ENV": sys.prefix}))["typeCompleteness"]
    assert found["completenessScore"] == 1
    for symbol in found["symbols"]:
        if any("docstring" in one["message"] for one in symbol["diagnostics"]):
            # What users do not see of the native half has its documentation in the module, not in the stub.
            assert not symbol["isExported"]
            assert attrgetter(symbol["name"].removeprefix("dealkit._native."))(_native).__doc__, symbol["name"]


def test_the_stubs_are_those_of_the_built_module() -> None:
    says_nothing("mypy.stubtest", "dealkit", "--allowlist", SAMPLES / "stubtest-allowed.txt")
    done = subprocess.run(
        [sys.executable, TESTS.parent / "stubs.py", "--check"], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_samples_run() -> None:
    """What a type checker believes about the models is true at run time as well."""
    runpy.run_path(str(SAMPLES / "models.py"))


def test_every_name_is_public_on_purpose() -> None:
    assert len(set(dealkit.__all__)) == len(dealkit.__all__)
    for name in dealkit.__all__:
        assert getattr(dealkit, name) is not None
        assert name in dir(dealkit)
    assert (Path(dealkit.__file__).parent / "py.typed").exists()
