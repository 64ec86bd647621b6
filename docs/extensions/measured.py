"""The directives `measured` and `curves`: tables with a bar for each ratio, and plots, of the figures in
`docs/speed/measured.json`, which `make bench-docs` writes."""

from __future__ import annotations

import html
import json
import re
from io import StringIO
from itertools import groupby
from pathlib import Path
from typing import Any

from docutils import nodes
from matplotlib import rc_context
from matplotlib.figure import Figure
from sphinx.util.docutils import SphinxDirective

FIGURES = Path(__file__).parents[1] / "speed" / "measured.json"
# A bar of full width is twice the peer's figure.
WIDEST = 2.0


def render_text(markdown: str) -> str:
    return re.sub(r"`(.*?)`", r"<code>\1</code>", html.escape(markdown))


def draw_bar(ratio: float) -> str:
    share, peer = min(ratio, WIDEST) / WIDEST, 1 / WIDEST
    return f'<span class="bar" aria-hidden="true" style="--share: {share:.3f}; --peer: {peer:.3f}"></span>'


def render_table(language: str, rows: list[Any]) -> list[str]:
    lines = [f'<table class="table measured"><caption>{html.escape(language)}</caption><thead><tr>']
    lines += [
        '<th scope="col">work</th><th scope="col">compared with</th><th scope="col">ratio</th></tr></thead><tbody>'
    ]
    for what, of in groupby(rows, key=lambda row: row["what"]):
        peers = list(of)
        for position, row in enumerate(peers):
            head = f'<th scope="rowgroup" rowspan="{len(peers)}">{render_text(what)}</th>' if position == 0 else ""
            spread = " (quartiles {} to {})".format(*row["quartiles"]) if "quartiles" in row else ""
            ratio = f'<span title="{row["ratio"]}{spread}">{row["ratio"]:.2f}</span>'
            lines.append(
                f"<tr>{head}<td>{render_text(row['beside'])}</td><td>{draw_bar(row['ratio'])}{ratio}</td></tr>"
            )
    return [*lines, "</tbody></table>"]


class Measured(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(FIGURES))
        figures = json.loads(FIGURES.read_text("utf-8"))
        lines = [f"<p>Measured: {html.escape(figures['measured'])}. Machine: {html.escape(figures['machine'])}.</p>"]
        for language, rows in groupby(figures["rows"], key=lambda row: row["language"]):
            lines += render_table(language, list(rows))
        if figures["sandbox"]:
            lines.append('<table class="table"><caption>The sandbox alone</caption><tbody>')
            for what, value in figures["sandbox"].items():
                lines.append(f'<tr><th scope="row">{html.escape(what)}</th><td>{html.escape(value)}</td></tr>')
            lines.append("</tbody></table>")
        return [nodes.raw("", "\n".join(lines), format="html")]


COLOURS = ["#1f77b4", "#d95f02", "#2a9d5c", "#9467bd", "#c2498f"]
# Axes and labels are drawn in this colour, which is then replaced by the page's text colour.
INK = "#808080"


def describe_plot(curve: dict[str, Any]) -> str:
    """Describes a plot in a sentence: the ratio of dealkit to the closest peer at each point."""
    ours, *others = ([point[2] for point in series["points"]] for series in curve["series"])
    peers = ([our / its for our, its in zip(ours, other, strict=False)] for other in others)
    closest, ratios = min(enumerate(peers, 1), key=lambda peer: abs(1 - sum(peer[1]) / len(peer[1])))
    low, high = f"{min(ratios):.2g}", f"{max(ratios):.2g}"
    times = low if low == high else f"{low} to {high}"
    title = curve["title"][0].upper() + curve["title"][1:]
    return f"{title}:\n{times} times {curve['series'][closest]['name']}"


def draw_curve(curve: dict[str, Any]) -> str:
    """Draws a curve as SVG with a transparent background: the median and the quartiles of each point."""
    inked = ["text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"]
    style: Any = {**dict.fromkeys(inked, INK), "svg.fonttype": "none", "svg.hashsalt": curve["title"]}
    better = "higher" if "/s" in curve["unit"] else "lower"
    with rc_context(style):
        figure = Figure(figsize=(5, 3.3), layout="constrained")
        axes = figure.subplots()
        for colour, series in zip(COLOURS, curve["series"], strict=False):
            at, low, middle, high = zip(*series["points"], strict=True)
            axes.plot(at, middle, marker="o", markersize=4, color=colour, label=series["name"])
            axes.fill_between(at, low, high, color=colour, alpha=0.2, linewidth=0)
        axes.set(xscale="log", xlabel=curve["along"], ylabel=f"{curve['unit']} ({better} is better)")
        axes.set_title(describe_plot(curve), fontsize="medium")
        every = [value for series in curve["series"] for point in series["points"] for value in point[1:]]
        if max(every) > 20 * min(every):
            axes.set_yscale("log")
        else:
            axes.set_ylim(0, 1.15 * max(every))
        at = sorted({point[0] for series in curve["series"] for point in series["points"]})
        axes.set_xticks(at, [f"{value:,}" for value in at])
        axes.set_xticks([], minor=True)
        axes.grid(alpha=0.25, color=INK)
        axes.legend(frameon=False)
        file = StringIO()
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    return file.getvalue()


def render_plot(curve: dict[str, Any]) -> str:
    """Returns a plot to embed in a page: in the page's text colour, and without declarations that would affect the page."""
    svg = draw_curve(curve)
    svg = svg[svg.index("<svg") :].replace(INK, "currentColor")
    svg = re.sub(r"<metadata>.*?</metadata>|<defs>\s*<style.*?</style>\s*</defs>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    label = html.escape(describe_plot(curve).replace("\n", " "))
    return svg.replace("<svg", f'<svg class="plot" role="img" aria-label="{label}"', 1)


class Curves(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(FIGURES))
        curves = json.loads(FIGURES.read_text("utf-8")).get("curves", [])
        # Skip a curve without a peer.
        plots = [render_plot(curve) for curve in curves if len(curve["series"]) > 1]
        return [nodes.raw("", f'<div class="plots">{"".join(plots)}</div>', format="html")] if plots else []


def setup(app: Any) -> dict[str, bool]:
    app.add_directive("curves", Curves)
    app.add_directive("measured", Measured)
    return {"parallel_read_safe": True}
