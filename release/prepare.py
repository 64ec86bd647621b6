"""Prepares a release in this repository: version, changelog, commit and tag. It pushes nothing.

    release/prepare.py VERSION
    release/prepare.py --check [VERSION]

With --check, only CHANGELOG.md is checked: it must have a section for unreleased changes, and notes for VERSION, or
for the version in Cargo.toml once that is tagged.
"""

import datetime
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CARGO = ROOT / "Cargo.toml"
CHANGELOG = ROOT / "CHANGELOG.md"
UNRELEASED = "## Unreleased\n"


def fail(text: str) -> None:
    sys.exit(f"release: {text}")


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def find_version(cargo: str) -> str:
    found = re.search(r'(?m)^version = "(.+)"', cargo)
    assert found, "Cargo.toml has the version of all packages"
    return found[1]


def find_notes(changelog: str, heading: str) -> str | None:
    """Returns the text below a heading, up to the next heading."""
    found = re.search(rf"(?ms)^{re.escape(heading)}[^\n]*\n(.*?)(?=^## |\Z)", changelog)
    return found and found[1].strip()


def replace_version(cargo: str, version: str) -> str:
    """Replaces the version in Cargo.toml: once for all packages, and, as `=`, once for each dependency between packages."""
    old = re.escape(find_version(cargo))
    cargo = re.sub(rf'(?m)^version = "{old}"', f'version = "{version}"', cargo)
    return re.sub(rf'(?m)^(dealkit[\w-]* = {{.*?version = "=){old}"', rf'\g<1>{version}"', cargo)


def add_version_heading(changelog: str, version: str, date: str) -> str:
    """Moves the unreleased find_notes under a heading with this version."""
    return changelog.replace(UNRELEASED, f"{UNRELEASED}\n## {version} ({date})\n", 1)


def check(version: str | None) -> None:
    changelog = CHANGELOG.read_text()
    if changelog.count(UNRELEASED) != 1:
        fail("CHANGELOG.md needs one heading `## Unreleased`")
    headings = re.findall(r"(?m)^## (.+)$", changelog)
    for heading in headings[1:]:
        if not re.fullmatch(r"\d+\.\d+\.\d+ \(\d{4}-\d\d-\d\d\)", heading):
            fail(f"CHANGELOG.md: `## {heading}` is not like `## 1.2.3 (2026-11-30)`")
    if headings[0] != "Unreleased" or not all(find_notes(changelog, f"## {heading}") for heading in headings[1:]):
        fail("CHANGELOG.md: Unreleased comes first, and every release has notes")
    current = find_version(CARGO.read_text())
    if version is None and git("tag", "--list", f"v{current}"):
        version = current
    if version is not None and version != current:
        fail(f"Cargo.toml has the version {current}, not {version}")
    if version is not None and not find_notes(changelog, f"## {version} ("):
        fail(f"CHANGELOG.md says nothing of {version}")
    print(f"release: CHANGELOG.md is in order{f' for {version}' if version else ''}")


def prepare(version: str) -> None:
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        fail("a version is needed: make release VERSION=1.2.3")
    if git("status", "--porcelain"):
        fail("there are changes that are not committed")
    if git("tag", "--list", f"v{version}"):
        fail(f"the tag v{version} is there already")
    check(None)
    cargo, changelog = CARGO.read_text(), CHANGELOG.read_text()
    newest, current = (tuple(map(int, text.split("."))) for text in (version, find_version(cargo)))
    if newest < current:
        fail(f"{version} is older than {find_version(cargo)}")
    if not find_notes(changelog, UNRELEASED.strip()):
        fail("CHANGELOG.md has nothing under Unreleased to release")
    CARGO.write_text(replace_version(cargo, version))
    CHANGELOG.write_text(
        add_version_heading(changelog, version, datetime.datetime.now(datetime.UTC).date().isoformat())
    )
    # In Cargo.lock, only the versions of the workspace's packages change.
    subprocess.run(["cargo", "update", "--workspace", "--offline", "--quiet"], cwd=ROOT, check=True)
    check(version)
    git("commit", "--all", "--message", f"Release {version}")
    git("tag", "--annotate", f"v{version}", "--message", f"dealkit {version}")
    print(f"release: committed and tagged v{version}. Nothing was pushed: git push --follow-tags publishes it")


def main(arguments: list[str]) -> None:
    match arguments:
        case ["--check", *version] if len(version) < 2:
            check(version[0] if version else None)
        case [version]:
            prepare(version)
        case _:
            fail("a version is needed: make release VERSION=1.2.3")


if __name__ == "__main__":
    main(sys.argv[1:])
