"""Rust in the pages: programs as rustdoc shows them, and links to its output (`rust:dealkit/struct.Client.html`)."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.transforms import SphinxTransform

# Where `make site` puts the Rust reference.
REFERENCE = "reference/rust"


class Programs(SphinxTransform):
    """Removes what rustdoc compiles but hides: lines that begin with `# `, and what follows `rust` in a fence."""

    default_priority = 200

    def apply(self, **_: Any) -> None:
        for block in self.document.findall(nodes.literal_block):
            if block.get("language", "").split(",")[0] != "rust":
                continue
            lines = block.astext().split("\n")
            shown = "\n".join(line for line in lines if line.strip() != "#" and not line.lstrip().startswith("# "))
            block["language"] = "rust"
            block.rawsource = shown
            block.children = [nodes.Text(shown)]


def link(app: Any, document: nodes.document, page: str) -> None:
    up = "../" * page.count("/")
    for reference in document.findall(nodes.reference):
        scheme, _, path = reference.get("refuri", "").partition(":")
        if scheme == "rust":
            reference["refuri"] = f"{up}{REFERENCE}/{path}"
            reference["internal"] = True


def setup(app: Any) -> dict[str, bool]:
    app.add_transform(Programs)
    app.connect("doctree-resolved", link)
    return {"parallel_read_safe": True}
