"""The crates that are linked into the compiled module, which a wheel's licences and SBOM cover."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# A crate's name and version, as in Cargo.lock.
Crate = tuple[str, str]


def linked(targets: list[str]) -> set[Crate]:
    """Returns the crates in the module on any of these platforms, without build dependencies and procedural macros."""
    command = ["cargo", "tree", "--locked", "--package", "dealkit-python", "--edges", "normal,no-proc-macro"]
    command += [*(f"--target={target}" for target in targets), "--prefix=none", "--format={p}"]
    tree = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    crates = (line.split() for line in tree.stdout.splitlines() if line)
    return {(name, version.removeprefix("v")) for name, version, *_ in crates}
