"""Links names such as `dealkit::Client` on the page of the Rust reference to rustdoc's output, and adds a list of the documented items,
for the search. Code hosts, which lack that output, show the names."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes

# The folder of the Rust reference in the site, and the folder that rustdoc has written.
REFERENCE = "reference/rust"
RUSTDOC = Path(__file__).parents[2] / "target" / "doc"
ITEM = re.compile(r'<dt><a class="(?!mod)\w+" href="([^"]+)"[^>]*>(.*?)</a>.*?</dt>(?:<dd>(.*?)</dd>)?', re.DOTALL)


def strip_tags(markup: str) -> str:
    return html.unescape(re.sub(r"<[^>]*>|\n", " ", markup)).replace("*", "\\*").strip()


def find_items() -> Iterator[tuple[str, str, str]]:
    """Yields each item: its name, its page, and a line with its kind and its public methods."""
    for module in sorted(RUSTDOC.glob("dealkit*/**/index.html")):
        folders = module.parent.relative_to(RUSTDOC)
        yield "::".join(folders.parts), f"{folders}/index.html", ""
        for path, name, what in ITEM.findall(module.read_text("utf-8")):
            target = module.parent / path
            if not target.is_file():
                continue  # of another crate
            page, _, _ = target.read_text("utf-8").partition('id="trait-implementations"')
            called = sorted(set(re.findall(r'id="method\.(\w+)"', page)))
            calls = f" ({', '.join(f'`{each}`' for each in called)})" if called else ""
            shown = "::".join([*folders.parts, re.sub(r"<[^>]*>", "", name)])
            yield shown, str(target.relative_to(RUSTDOC)), f"{strip_tags(what)}{calls}"


def write(_app: Any, page: str, source: list[str]) -> None:
    if page != REFERENCE:
        return
    found = [*find_items()]
    targets = {name: target for name, target, _ in found}

    def link_names(name: re.Match[str]) -> str:
        return f"[{name[0]}](rust:{targets[name[1]]})" if name[1] in targets else name[0]

    source[0] = re.sub(r"`(dealkit[\w:]*)`", link_names, source[0])
    lines = (f"* [`{name}`](rust:{target}): {text}" for name, target, text in found if text)
    source[0] += "\n" + "\n".join(dict.fromkeys(lines)) + "\n"


def make_link(app: Any, document: nodes.document, page: str) -> None:
    up = "../" * page.count("/")
    for reference in document.findall(nodes.reference):
        scheme, _, path = reference.get("refuri", "").partition(":")
        if scheme == "rust":
            reference["refuri"] = f"{up}{REFERENCE}/{path}"
            reference["internal"] = True


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", write)
    app.connect("doctree-resolved", make_link)
    return {"parallel_read_safe": True}
