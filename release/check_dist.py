"""Inspects wheels and sdists before their release.

    release/check_dist.py FILE ...

Checks each wheel's platform and Python, its size, its files and their hashes, licences, SBOM and metadata, and that
no file reveals the build machine.
"""

import email.parser
import json
import re
import sys
import tarfile
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import parse_sdist_filename, parse_wheel_filename
from wheel.wheelfile import WheelError, WheelFile

ROOT = Path(__file__).resolve().parent.parent
VERSION = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]

# The oldest systems with wheels. pip on these systems ignores a wheel whose tag names only newer systems.
PLATFORMS = re.compile(
    r"manylinux_2_17_(x86_64|aarch64)|manylinux2014_(x86_64|aarch64)|musllinux_1_2_(x86_64|aarch64)"
    r"|macosx_10_12_x86_64|macosx_11_0_arm64|win_amd64|win_arm64"
)
PYTHONS = {"cp311", "cp312", "cp313", "cp314", "cp314t"}
# The maximum size of a wheel. A larger one has an error, such as a module with debug symbols; PyPI accepts 100 MB.
LARGEST = 12_000_000
LICENCES = {"LICENSE-MIT", "LICENSE-APACHE", "THIRD-PARTY-LICENSES.txt"}
# Folders where cargo, pip and CI keep files.
LOCAL_PATHS = (
    b"/.cargo/",
    b"\\.cargo\\",
    b"/home/",
    b"/Users/",
    b"C:\\Users",
    str(ROOT).encode(),
    str(Path.home()).encode(),
)


def check_wheel(path: Path) -> list[str]:
    wrong = []
    name, version, _, tags = parse_wheel_filename(path.name)
    if (name, str(version)) != ("dealkit", VERSION):
        wrong.append(f"it is {name} {version}, not dealkit {VERSION}")
    for tag in tags:
        if not PLATFORMS.fullmatch(tag.platform):
            wrong.append(f"its platform is {tag.platform}")
        if tag.abi not in PYTHONS or tag.interpreter != tag.abi.rstrip("t"):
            wrong.append(f"its Python is {tag.interpreter}-{tag.abi}")
    if path.stat().st_size > LARGEST:
        wrong.append(f"{path.stat().st_size:,} bytes are more than {LARGEST:,}")
    try:
        # Compares every file with RECORD.
        with WheelFile(path) as archive:
            files = {file: archive.read(file) for file in archive.namelist()}
    except WheelError as error:
        return [*wrong, str(error)]
    about = f"dealkit-{VERSION}.dist-info"
    modules = [file for file in files if file.endswith((".so", ".pyd"))]
    if len(modules) != 1 or not modules[0].startswith("dealkit/_native."):
        wrong.append(f"its native modules are {modules}")
    expected = {"dealkit/__init__.py", "dealkit/py.typed", "dealkit/_native.pyi", f"{about}/entry_points.txt"}
    expected |= {f"{about}/licenses/{licence}" for licence in LICENCES}
    wrong += [f"{file} is missing" for file in sorted(expected - files.keys())]
    # The wheel must contain exactly the files of the package's folder.
    sources = {
        str(file.relative_to(ROOT / "bindings/python").as_posix())
        for file in (ROOT / "bindings/python/dealkit").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts and file.suffix not in {".so", ".pyd"}
    }
    packaged = {file for file in files if not file.startswith(f"{about}/")} - set(modules)
    wrong += [f"{file} is in the package or the wheel alone" for file in sorted(sources ^ packaged)]
    wrong += check_metadata(files[f"{about}/METADATA"])
    sboms = [file for file in files if file.startswith(f"{about}/sboms/")]
    for sbom in sboms:
        names = {component["name"] for component in json.loads(files[sbom])["components"]}
        if not {"dealkit", "reqwest", "ring", "pyo3"} <= names:
            wrong.append(f"{sbom} does not list what is linked")
        if any(crate.startswith("windows") for crate in names) != path.name.endswith(
            ("win_amd64.whl", "win_arm64.whl")
        ):
            wrong.append(f"{sbom} is not of this platform")
        if b"file:" in files[sbom]:
            wrong.append(f"{sbom} has the path of a file")
    if len(sboms) != 1:
        wrong.append(f"its SBOMs are {sboms}")
    return wrong + find_local_paths(files)


def check_metadata(text: bytes) -> list[str]:
    metadata = email.parser.BytesParser().parsebytes(text)
    wanted = {"Version": VERSION, "Requires-Python": ">=3.11", "License-Expression": "MIT OR Apache-2.0"}
    wrong = [f"{field} is {metadata[field]}" for field, value in wanted.items() if metadata[field] != value]
    needed = map(Requirement, metadata.get_all("Requires-Dist", []))
    # Dependencies of an extra are not required.
    if any(needs.marker is None or needs.marker.evaluate({"extra": ""}) for needs in needed):
        wrong.append("it depends on other packages")
    if set(metadata.get_all("License-File", [])) != LICENCES:
        wrong.append(f"its licence files are {metadata.get_all('License-File')}")
    return wrong


def find_local_paths(files: dict[str, bytes]) -> list[str]:
    return [
        f"{file} has the path {content[max(content.find(local) - 20, 0) :][:80]!r}"
        for file, content in files.items()
        for local in LOCAL_PATHS
        # Only documentation may contain such paths, not compiled or generated files.
        if local in content and file.endswith((".so", ".pyd", ".json"))
    ]


def check_sdist(path: Path) -> list[str]:
    wrong = []
    name, version = parse_sdist_filename(path.name)
    if (name, str(version)) != ("dealkit", VERSION):
        wrong.append(f"it is {name} {version}, not dealkit {VERSION}")
    with tarfile.open(path) as archive:
        files = {member.name.split("/", 1)[1] for member in archive.getmembers() if member.isfile()}
    expected = {
        "Cargo.lock",
        "pyproject.toml",
        "bindings/README.md",
        "sdk/contract/openapi.json",
        "server/README.md",
        *LICENCES,
    }
    wrong += [f"{file} is missing" for file in sorted(expected - files)]
    return wrong + [f"{file} should not be there" for file in sorted(files) if file.startswith(("target/", ".git"))]


def main(paths: list[str]) -> None:
    failed = not paths
    for path in map(Path, paths):
        wrong = check_wheel(path) if path.suffix == ".whl" else check_sdist(path)
        print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB, {'; '.join(wrong) or 'as it should be'}")
        failed |= bool(wrong)
    sys.exit(failed)


if __name__ == "__main__":
    main(sys.argv[1:])
