"""The directives `measured` and `curves`: the figures of `docs/speed/measured.json`, which `make bench-docs` puts there,
with a bar for each ratio, and the plots next to that file."""

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
# Twice the peer's figure fills the column of bars.
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


# The colour in which bindings/benches/report.py draws everything that is neither line nor marker.
INK = "#808080"


def plot(title: str, file: Path) -> str:
    """A plot as part of the page: in its text colour, and without anything meant for the rest of the page."""
    drawn = file.read_text("utf-8")
    drawn = drawn[drawn.index("<svg") :].replace(INK, "currentColor")
    drawn = re.sub(r"<metadata>.*?</metadata>|<defs>\s*<style.*?</style>\s*</defs>", "", drawn, flags=re.DOTALL)
    drawn = re.sub(r'<g id="[^"]*"', "<g", drawn)
    drawn = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", drawn, count=1)
    drawn = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", drawn, count=1)
    label = html.escape(title[0].upper() + title[1:])
    return drawn.replace("<svg", f'<svg class="plot" role="img" aria-label="{label}"', 1)


class Curves(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(FIGURES))
        curves = json.loads(FIGURES.read_text("utf-8")).get("curves", [])
        plots = [plot(curve["title"], FIGURES.with_name(curve["plot"])) for curve in curves]
        return [nodes.raw("", f'<div class="plots">{"".join(plots)}</div>', format="html")] if plots else []


def setup(app: Any) -> dict[str, bool]:
    app.add_directive("curves", Curves)
    app.add_directive("measured", Measured)
    return {"parallel_read_safe": True}
