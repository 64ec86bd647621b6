"""Extends Markdown for the site with constructs that code hosts also show well:

* The comment `<!-- {toctree} … -->` is that directive.
* Between `<!-- tabs -->` and `<!-- /tabs -->`, lines such as `**Python**` begin a tab.
* A line that is only a link to a program shows the program; `part.md#name` shows the part of a page between
  `<!-- name -->` and `<!-- end -->`.
* A link to a file that is a page of the site leads to that page.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any

# Pages whose files are outside this folder.
PAGES = {
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "guide/security.md",
    "sdk/contract/README.md": "reference/vectors.md",
    "sdk/contract/ledger.md": "reference/ledger.md",
    "server/README.md": "reference/sandbox.md",
}
LANGUAGES = {"py": "python", "rs": "rust", "yml": "yaml", "yaml": "yaml"}
COMMENT = re.compile(r"^<!-- (\{\w+\}.*?)-->$", re.MULTILINE | re.DOTALL)
TABS = re.compile(r"^<!-- tabs -->\n(.*?)^<!-- /tabs -->$", re.MULTILINE | re.DOTALL)
TAB = re.compile(r"^\*\*([^*\n]+)\*\*\n(.*?)(?=^\*\*[^*\n]+\*\*$|\Z)", re.MULTILINE | re.DOTALL)
INCLUDED = re.compile(r"^\[[^\]]+\]\(([\w./-]+\.(py|rs|ya?ml|md))(?:#(\w+))?\)$", re.MULTILINE)
LINK = re.compile(r"(?<=\]\()([\w./-]+\.md)(?=[#)])")


def render_tab(found: re.Match[str]) -> str:
    # Choosing a language on one page chooses it on all.
    language = found[1].partition(":")[0].lower()
    return f"::::{{tab-item}} {found[1]}\n:sync: {language}\n\n{found[2].strip()}\n::::\n"


def include_file(found: re.Match[str]) -> str:
    file, suffix, part = found.groups()
    if suffix == "md":
        return f":::{{include}} {file}\n:start-after: <!-- {part} -->\n:end-before: <!-- end -->\n:::"
    return f":::{{literalinclude}} {file}\n:language: {LANGUAGES[suffix]}\n:::"


def convert_page(page: str, text: str) -> str:
    folder = posixpath.dirname(page)

    def convert_link(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join("docs", folder, found[1]))
        return posixpath.relpath(PAGES[target], folder or ".") if target in PAGES else found[1]

    text = LINK.sub(convert_link, COMMENT.sub(r":::\1:::", text))
    text = INCLUDED.sub(include_file, text)
    return TABS.sub(lambda found: f":::::{{tab-set}}\n{TAB.sub(render_tab, found[1])}:::::", text)


def write(_app: Any, page: str, source: list[str]) -> None:
    source[0] = convert_page(page, source[0])


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", write)
    return {"parallel_read_safe": True}
