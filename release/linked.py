"""The crates that are linked into the compiled module: what the licences and the SBOM of a wheel speak of."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Its name and version, as Cargo.lock has them.
Crate = tuple[str, str]


def linked(targets: list[str]) -> set[Crate]:
    """What is in the module on any of these platforms: neither what only builds it, nor procedural macros."""
    command = ["cargo", "tree", "--locked", "--package", "dealkit-python", "--edges", "normal,no-proc-macro"]
    command += [*(f"--target={target}" for target in targets), "--prefix=none", "--format={p}"]
    tree = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    crates = (line.split() for line in tree.stdout.splitlines() if line)
    return {(name, version.removeprefix("v")) for name, version, *_ in crates}
