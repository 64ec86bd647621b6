"""Puts faults into a copy of the SDK, one at a time, and checks that the simulator finds each within ten seconds.

Usage: python sdk/simulation/mutants.py [TEXT], which `make soak-mutants` calls. With a text, it runs only the mutants whose names contain
it. Takes a few minutes, mostly to build.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
COPY = ROOT / "target" / "mutants"
LIMIT = 10


def copy_sources() -> None:
    """Copies the files that git tracks. Unchanged files keep their times, so that cargo does not build them again."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True)
    for name in filter(None, listed.stdout.split("\0")):
        source, target = ROOT / name, COPY / name
        if source.is_file() and not (target.is_file() and target.read_bytes() == source.read_bytes()):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)


def find_violation(name: str) -> bool:
    """Builds the simulator, runs it until it finds a violation or the time limit, and prints the result."""
    env = {
        **os.environ,
        "CARGO_TARGET_DIR": str(ROOT / "target" / "mutants-target"),
        # Ignore warnings about code that a mutant leaves unused.
        "RUSTFLAGS": "-A warnings",
        "CARGO_PROFILE_DEV_OPT_LEVEL": "1",
    }
    build = ["cargo", "build", "--quiet", "--package", "dealkit-simulation"]
    subprocess.run(build, cwd=COPY, env=env, check=True, timeout=900)
    began = time.monotonic()
    command = [str(ROOT / "target/mutants-target/debug/dealkit-simulation"), "--find", "0", "1_000_000"]
    try:
        done = subprocess.run(command, cwd=COPY, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        print(f"NOT FOUND within {LIMIT} s: {name}")
        return False
    print(
        f"found after {time.monotonic() - began:.1f} s: {name}: {done.stdout.strip() or done.stderr.strip()}",
        flush=True,
    )
    return done.returncode == 1


def main() -> int:
    copy_sources()
    mutants = tomllib.loads((ROOT / "sdk/simulation/mutants.toml").read_text("utf-8"))["mutant"]
    mutants = [mutant for mutant in mutants if " ".join(sys.argv[1:]) in mutant["name"]]
    missed = 0
    for mutant in mutants:
        file = COPY / mutant["file"]
        original = file.read_text("utf-8")
        if original.count(mutant["find"]) != 1:
            sys.exit(f"{mutant['file']} must contain this text exactly once: {mutant['find']}")
        try:
            file.write_text(original.replace(mutant["find"], mutant["replace"]), "utf-8")
            missed += not find_violation(mutant["name"])
        finally:
            file.write_text(original, "utf-8")
    print(f"{len(mutants) - missed} of {len(mutants)} mutants were found")
    return missed > 0


if __name__ == "__main__":
    sys.exit(main())
