"""Builds wheels for publication.

    release/wheels.py OUT [--target TRIPLE] [--python VERSION ...]

Without a target, it builds for this machine; without versions, for each interpreter that is found. On Linux, zig does
the linking, so that wheels work on old systems (glibc 2.17, musl 1.2) and can be built for other processors. Wheels contain no
paths of the build machine.
"""

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from linked import linked

ROOT = Path(__file__).resolve().parent.parent


def target_of_this_machine() -> str:
    if sys.platform == "linux":
        # Build for musl only if this Python uses it, so that this machine can install the wheel.
        libc = "gnu" if platform.libc_ver()[0] == "glibc" else "musl"
        return f"{platform.machine()}-unknown-linux-{libc}"
    version = subprocess.run(["rustc", "-vV"], check=True, stdout=subprocess.PIPE, text=True).stdout
    return re.findall(r"(?m)^host: (.+)$", version)[0]


def build(out: Path, target: str, pythons: list[str]) -> None:
    # Override the profile in pyproject.toml, which is for installs from source.
    command = [sys.executable, "-m", "maturin", "build", "--release", "--locked", "--out", str(out), "--target", target]
    if "linux" in target:
        command += ["--zig", "--compatibility", "musllinux_1_2" if "musl" in target else "manylinux2014"]
    command += ["--interpreter", *(f"python{version}" for version in pythons)] if pythons else ["--find-interpreter"]
    environment = os.environ | {"RUSTFLAGS": f"{os.environ.get('RUSTFLAGS', '')} {remap()}".strip()}
    # Each interpreter needs a separate build.
    environment.pop("PYO3_PYTHON", None)
    # zig is installed next to this interpreter.
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    subprocess.run(command, check=True, cwd=ROOT, env=environment)


def remap() -> str:
    """Returns compiler flags that replace this machine's paths in panic messages by crate names."""
    cargo = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo")
    indices = sorted((cargo / "registry" / "src").glob("*")) or [cargo / "registry" / "src"]
    return " ".join(
        f"--remap-path-prefix={path}={name}" for path, name in [*((i, "crates") for i in indices), (ROOT, "dealkit")]
    )


def reduce_sbom(sbom: dict, target: str) -> dict:
    """Reduces an SBOM to the crates in the wheel, without crates for other platforms and build dependencies."""
    contained = linked([target])
    sbom["components"] = [part for part in sbom["components"] if (part["name"], part["version"]) in contained]
    references = {part["bom-ref"] for part in [sbom["metadata"]["component"], *sbom["components"]]}
    sbom["dependencies"] = [
        node | {"dependsOn": [part for part in node.get("dependsOn", []) if part in references]}
        for node in sbom["dependencies"]
        if node["ref"] in references
    ]
    sbom["metadata"]["properties"] = [{"name": "cdx:rustc:sbom:target:triple", "value": target}]
    return sbom


def remove_paths(sbom: str) -> str:
    """Removes this machine's paths from an SBOM: the workspace's packages are identified by name and version."""
    sbom = re.sub(r'path\+file://[^"#]*#', "", sbom)
    return re.sub(r'\?download_url=file:[^"#]*', "", sbom)


def repack_wheel(wheel: Path, out: Path, target: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        run = [sys.executable, "-m", "wheel"]
        subprocess.run([*run, "unpack", "--dest", scratch, str(wheel)], check=True, stdout=subprocess.DEVNULL)
        (unpacked,) = Path(scratch).iterdir()
        for path in unpacked.glob("*.dist-info/sboms/*.json"):
            sbom = reduce_sbom(json.loads(path.read_text(encoding="utf-8")), target)
            path.write_text(remove_paths(json.dumps(sbom, indent=2)) + "\n", encoding="utf-8")
        # Packing rewrites RECORD.
        subprocess.run([*run, "pack", "--dest-dir", str(out), str(unpacked)], check=True, stdout=subprocess.DEVNULL)
    print(f"wheels: {out / wheel.name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument(
        "--target", help="a Rust target, such as aarch64-unknown-linux-musl", default=target_of_this_machine()
    )
    parser.add_argument("--python", nargs="+", default=[], help="versions, such as 3.14t")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as built:
        build(Path(built), arguments.target, arguments.python)
        for wheel in sorted(Path(built).glob("*.whl")):
            repack_wheel(wheel, arguments.out, arguments.target)


if __name__ == "__main__":
    main()
