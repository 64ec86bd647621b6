"""Search of the site, which also finds numbers such as 429, and llms.txt, a list of pages for programs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from sphinx.search.en import SearchEnglish

HERE = Path(__file__).parents[1]
# The JavaScript with which Sphinx filters a query.
NUMBERS = " || queryTerm.match(/^\\d+$/)"
# The JavaScript hook for the order of results: rank the changelog last, because it mentions every topic and explains none.
SCORER = "var Scorer = {"
ORDER = 'score: ([page, , , , score]) => (page === "changelog" ? score - 1000 : score),'


class Search(SearchEnglish):
    def word_filter(self, word: str) -> bool:
        return word.isdigit() or super().word_filter(word)


def finish(app: Any, failure: Exception | None) -> None:
    if failure or app.builder.name != "html":
        return
    script = Path(app.outdir) / "_static/searchtools.js"
    text = script.read_text("utf-8")
    assert NUMBERS in text, "Sphinx's searchtools.js is another one now: do queries with numbers work?"
    assert SCORER in text
    script.write_text(text.replace(NUMBERS, "").replace(SCORER, SCORER + ORDER), encoding="utf-8")
    (Path(app.outdir) / "llms.txt").write_text(write_llms_txt(), encoding="utf-8")


def write_llms_txt() -> str:
    """Writes llms.txt (https://llmstxt.org) with the pages that README and the list of the guide name."""
    readme = (HERE.parent / "README.md").read_text("utf-8")
    what = readme.partition("<!-- what -->\n")[2].partition("\n<!-- end -->")[0]
    lines = ["# dealkit", f"\n> {what}".replace("\n", " ").replace(" ", "\n", 1)]
    text = (HERE / "guide/index.md").read_text("utf-8").replace("../../SECURITY.md", "security.md")
    for heading, item in re.findall(r"^#+( .*)|^(\* .*)", text, re.MULTILINE):
        lines.append(item.replace("](", "](guide/").replace(".md)", ".html)") or f"\n##{heading}\n")
    return "\n".join(lines) + "\n"


def setup(app: Any) -> dict[str, bool]:
    app.add_search_language(Search)
    app.connect("build-finished", finish)
    return {"parallel_read_safe": True}
