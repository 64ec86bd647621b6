"""The directive `measured`: the figures of `docs/speed/measured.json`, which `make bench` writes, with a bar for each ratio."""

from __future__ import annotations

import html
import json
import re
from itertools import groupby
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

FIGURES = Path(__file__).parents[1] / "speed" / "measured.json"
# What is twice as much as the peer's fills the column of bars.
WIDEST = 2.0


def text(words: str) -> str:
    return re.sub(r"`(.*?)`", r"<code>\1</code>", html.escape(words))


def bar(ratio: float) -> str:
    share, peer = min(ratio, WIDEST) / WIDEST, 1 / WIDEST
    return f'<span class="bar" aria-hidden="true" style="--share: {share:.3f}; --peer: {peer:.3f}"></span>'


def table(language: str, rows: list[Any]) -> list[str]:
    lines = [f'<table class="table measured"><caption>{html.escape(language)}</caption><thead><tr>']
    lines += ['<th scope="col">work</th><th scope="col">beside</th><th scope="col">ratio</th></tr></thead><tbody>']
    for what, of in groupby(rows, key=lambda row: row["what"]):
        peers = list(of)
        for position, row in enumerate(peers):
            head = f'<th scope="rowgroup" rowspan="{len(peers)}">{text(what)}</th>' if position == 0 else ""
            spread = " (quartiles {} to {})".format(*row["quartiles"]) if "quartiles" in row else ""
            ratio = f'<span title="{row["ratio"]}{spread}">{row["ratio"]:.2f}</span>'
            lines.append(f"<tr>{head}<td>{text(row['beside'])}</td><td>{bar(row['ratio'])}{ratio}</td></tr>")
    return [*lines, "</tbody></table>"]


class Measured(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(FIGURES))
        figures = json.loads(FIGURES.read_text("utf-8"))
        lines = [f"<p>Measured: {html.escape(figures['measured'])}. Machine: {html.escape(figures['machine'])}.</p>"]
        for language, rows in groupby(figures["rows"], key=lambda row: row["language"]):
            lines += table(language, list(rows))
        if figures["sandbox"]:
            lines.append('<table class="table"><caption>The sandbox alone</caption><tbody>')
            for what, value in figures["sandbox"].items():
                lines.append(f'<tr><th scope="row">{html.escape(what)}</th><td>{html.escape(value)}</td></tr>')
            lines.append("</tbody></table>")
        return [nodes.raw("", "\n".join(lines), format="html")]


def setup(app: Any) -> dict[str, bool]:
    app.add_directive("measured", Measured)
    return {"parallel_read_safe": True}
