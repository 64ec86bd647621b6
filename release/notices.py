"""Writes THIRD-PARTY-LICENSES.txt, which wheels and sdist carry: the licences of the crates in the compiled module.

    release/notices.py CARGO_ABOUT

What is allowed, and for which platforms, is read from deny.toml.
"""

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def toml_list(items: list[str]) -> str:
    return "[%s]" % ", ".join('"%s"' % item for item in items)


def main(cargo_about: str) -> None:
    deny = tomllib.loads((ROOT / "deny.toml").read_text())
    config = ROOT / "target" / "about.toml"
    config.parent.mkdir(exist_ok=True)
    config.write_text(
        f"accepted = {toml_list(deny['licenses']['allow'])}\n"
        f"targets = {toml_list(deny['graph']['targets'])}\n"
        "ignore-build-dependencies = true\n"
        "ignore-dev-dependencies = true\n"
    )
    notices = ROOT / "THIRD-PARTY-LICENSES.txt"
    command = [cargo_about, "generate", "--frozen", "--fail", "--config", config]
    command += ["--manifest-path", ROOT / "bindings" / "Cargo.toml", "--output-file", notices]
    subprocess.run([*command, ROOT / "release" / "notices.hbs"], check=True)
    if "aws-lc-sys" not in notices.read_text():
        sys.exit(f"notices: {notices} lacks aws-lc-sys, which is in every module")


if __name__ == "__main__":
    main(sys.argv[1])
