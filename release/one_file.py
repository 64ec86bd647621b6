"""Builds the command `dealkit` as one file, which needs no Python, with PyInstaller. A trial: no release contains the file.

PyInstaller finds all imports, because `dealkit._cli` has a literal import statement for each command. The file has the extras for
Excel workbooks and phone numbers, not for Parquet. It runs on this kind of system, with this version of glibc or a newer one.

release/one_file.py FOLDER OUT, where FOLDER has the wheel, and OUT is the folder of the file
"""

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

PYINSTALLER = "pyinstaller==6.22.3"
PROGRAM = "import sys\nfrom dealkit._cli import main\nsys.exit(main())\n"
# Names of places and networks, which PyInstaller's hook for phonenumbers adds, and modules that the command never imports.
UNUSED = ["phonenumbers.geodata", "phonenumbers.carrierdata", "phonenumbers.tzdata", "readline", "tkinter"]


def main(folder: str, out: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        environment = Path(scratch) / "venv"
        venv.create(environment, with_pip=True)
        python = environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--only-binary=:all:"]
        # The wheel in the folder, even if the package index has a newer one. The second command adds its extras.
        subprocess.run([*pip, "--no-index", f"--find-links={Path(folder).resolve()}", "dealkit"], check=True)
        subprocess.run([*pip, "dealkit[excel,phone]", PYINSTALLER], check=True)
        program = Path(scratch) / "program.py"
        program.write_text(PROGRAM, "utf-8")
        options = ["--onefile", "--name=dealkit", "--log-level=ERROR", f"--distpath={Path(out).resolve()}"]
        # Symbols of a Python that was built from source take a quarter of the file.
        options += ["--strip"] if sys.platform == "linux" else []
        options += [f"--exclude-module={module}" for module in UNUSED]
        subprocess.run([python, "-m", "PyInstaller", *options, program], check=True, cwd=scratch)
        file = Path(out).resolve() / ("dealkit.exe" if os.name == "nt" else "dealkit")
        # An empty folder as HOME and PATH: the file must not depend on an installed Python.
        clean = {"PATH": scratch, "HOME": scratch, "SYSTEMROOT": os.environ.get("SYSTEMROOT", "")}
        subprocess.run([file, "--version"], check=True, cwd=scratch, env=clean)
    print(f"one_file: {file} has {file.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main(*sys.argv[1:])
