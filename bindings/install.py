"""Installs the package into the current Python environment, with the native module that cargo has built.

`pip install .` would make cargo build only this package, with fewer features of the shared dependencies, and so compile all of them
again. The metadata of the installed package is maturin's.

Usage: python install.py FOLDER, the output folder of cargo, such as target/debug
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "bindings" / "python"
# Names of the native module on Linux, macOS and Windows, as cargo writes it.
MODULES = ["lib_native.so", "lib_native.dylib", "_native.dll"]


def package(folder: Path) -> dict[str, Path]:
    """Returns the files of the package, by their paths in a wheel."""
    built = [folder / name for name in MODULES if (folder / name).exists()]
    if not built:
        sys.exit(f"install: no native module in {folder}: cargo build --workspace --all-features --lib")
    sources = [file for file in SOURCES.rglob("*") if file.suffix in (".py", ".pyi") or file.name == "py.typed"]
    module = f"dealkit/_native{sysconfig.get_config_var('EXT_SUFFIX')}"
    return {module: built[0], **{file.relative_to(SOURCES).as_posix(): file for file in sources}}


def metadata(scratch: Path) -> Path:
    """Has maturin write the folder *.dist-info, and returns it."""
    maturin = [sys.executable, "-m", "maturin", "pep517", "write-dist-info", "--interpreter", sys.executable]
    done = subprocess.run([*maturin, "--metadata-directory", scratch], cwd=ROOT, capture_output=True, encoding="utf-8")
    if done.returncode:
        sys.exit(f"install: maturin cannot write the metadata:\n{done.stderr}")
    [folder] = scratch.glob("*.dist-info")
    return folder


def main() -> None:
    arguments = argparse.ArgumentParser(description="Install the package with the native module that cargo has built.")
    arguments.add_argument("folder", type=Path, help="where cargo has built, such as target/debug")
    files = package(arguments.parse_args().folder)
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        about = metadata(scratch)
        files |= {file.relative_to(scratch).as_posix(): file for file in about.rglob("*") if file.is_file()}
        [tag] = [line[5:] for line in (about / "WHEEL").read_text("utf-8").splitlines() if line.startswith("Tag: ")]
        wheel = scratch / f"{about.stem}-{tag}.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            for path, file in files.items():
                archive.write(file, path)
            record = f"{about.name}/RECORD"
            archive.writestr(record, "".join(f"{path},,\n" for path in [*files, record]))
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]
        subprocess.run([*pip, "--force-reinstall", "--no-deps", wheel], check=True)


if __name__ == "__main__":
    main()
