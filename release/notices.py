"""Writes THIRD-PARTY-LICENSES.txt for wheels and sdists: the licences of the crates in the compiled module.

release/notices.py

The texts are the licence files of the crates that cargo has downloaded. deny.toml, which `make check-deny` checks, lists the
allowed licences and the platforms.
"""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from linked import linked

ROOT = Path(__file__).resolve().parent.parent
NOTICES = ROOT / "THIRD-PARTY-LICENSES.txt"
# File names of licences, and of notices that a licence requires.
FILE = re.compile(r"(?i)(un)?(licen[cs]e|copying|copyright|notice)([-_.].*)?(?<!\.rs)")

HEADING = """\
Licences of the software that dealkit's compiled module contains
================================================================

dealkit itself is licensed under MIT or Apache-2.0: LICENSE-MIT and LICENSE-APACHE. Its module is linked with the Rust
crates below, each under the licence that is named with it. The texts that follow are those that lie in the crates; for
a crate that has none, and may be used under Apache-2.0, it is dealkit's own copy of that text. Crates that only some
platforms have are listed for all.
"""


def third_party_crates() -> list[dict]:
    """Returns cargo's metadata of the third-party crates in the module, for all platforms."""
    targets = tomllib.loads((ROOT / "deny.toml").read_text(encoding="utf-8"))["graph"]["targets"]
    contained = linked(targets)
    command = ["cargo", "metadata", "--locked", "--format-version=1"]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
    return [
        package
        for package in sorted(metadata["packages"], key=lambda package: (package["name"], package["version"]))
        if (package["name"], package["version"]) in contained and package["source"]
    ]


def find_licence_texts(package: dict) -> list[str]:
    folder = Path(package["manifest_path"]).parent
    files = sorted(path for path in folder.rglob("*") if FILE.fullmatch(path.name) and path.is_file())
    if not files and re.search(r"\bApache-2\.0\b", package["license"]):
        # Some crates have no licence file. The text of this licence is the same for all works.
        files = [ROOT / "LICENSE-APACHE"]
    return [path.read_text(encoding="utf-8", errors="replace").strip() for path in files]


def main() -> None:
    packages = third_party_crates()
    # Many crates have the same text with other line breaks.
    texts: dict[str, str] = {}
    crates_with: dict[str, list[str]] = {}
    for package in packages:
        crate = f"{package['name']} {package['version']}"
        found = find_licence_texts(package)
        if not found:
            sys.exit(f"notices: no licence lies in {crate} ({package['license']}), which the module contains")
        for text in found:
            same = " ".join(text.split())
            texts.setdefault(same, text)
            crates = crates_with.setdefault(same, [])
            if crate not in crates:
                crates.append(crate)
    with NOTICES.open("w", encoding="utf-8", newline="\n") as file:
        file.write(f"{HEADING}\n")
        for package in packages:
            file.write(f"{package['name']} {package['version']}: {package['license']}\n")
        for same, text in texts.items():
            file.write(f"\n{'-' * 80}\n{', '.join(crates_with[same])}\n\n{text}\n")
    print(f"notices: {NOTICES.name} has {len(texts)} texts of {len(packages)} crates")


if __name__ == "__main__":
    main()
