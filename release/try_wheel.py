"""Installs the wheel that pip chooses into an empty virtual environment, and runs the quickstart against its sandbox.

release/try_wheel.py FOLDER
"""

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

QUICKSTART = """
import os, runpy, sys
from dealkit.testing import Sandbox

with Sandbox() as sandbox:
    os.environ["DEALKIT_BASE_URL"], os.environ["DEALKIT_SERVICE_KEY"] = sandbox.url, sandbox.service_key
    runpy.run_path(sys.argv[1], run_name="__main__")
    assert len(sandbox.agents) == 1, sandbox.agents
"""


def main(folder: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        environment = Path(scratch) / "venv"
        venv.create(environment, with_pip=True)
        programs = environment / ("Scripts" if os.name == "nt" else "bin")
        python = programs / ("python.exe" if os.name == "nt" else "python")
        pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-index"]
        subprocess.run([*pip, "--only-binary=:all:", f"--find-links={Path(folder).resolve()}", "dealkit"], check=True)
        # Run isolated and in a separate folder, so that Python imports the installed package, not the checkout.
        quickstart = [python, "-I", "-c", QUICKSTART, ROOT / "examples" / "python" / "quickstart.py"]
        subprocess.run(quickstart, check=True, cwd=scratch)
        for program in ["dealkit", "dealkit-server"]:
            subprocess.run([programs / program, "--version"], check=True, cwd=scratch)
    print(f"try_wheel: installed from {folder} and run with Python {sys.version.split()[0]}")


if __name__ == "__main__":
    main(sys.argv[1])
