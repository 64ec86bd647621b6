"""Fails if a page of the built site links to a missing page, file or anchor, or loads something from another host.

Usage: python check_links.py FOLDER. It sends no requests; `--list` lists the links to other hosts.
"""

from __future__ import annotations

import argparse
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Attributes whose target the browser loads with the page.
LOADS = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src", "use": "href"}


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = {"", "top"}
        self.links: list[tuple[str, bool]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        # The browser does not load canonical and alternate URLs.
        is_declaration = tag == "link" and given.get("rel") in ("canonical", "alternate", "next", "prev")
        if tag in LOADS and LOADS[tag] in given and not is_declaration:
            self.links.append((given[LOADS[tag]], True))
        elif tag == "a" and "href" in given:
            self.links.append((given["href"], False))


@cache
def parse_page(path: Path) -> Page:
    return Page(path.read_text("utf-8"))


def find_error(at: Path, link: str, is_loaded: bool) -> str | None:
    """Returns the error in a link, or None."""
    parts = urlsplit(link)
    if parts.scheme == "data":
        return None
    if parts.scheme or parts.netloc:
        return "is loaded from another host" if is_loaded else None
    target = (at.parent / unquote(parts.path)).resolve() if parts.path else at
    if target.is_dir():
        target /= "index.html"
    if not target.is_file():
        return "leads nowhere"
    # rustdoc creates the anchors of source code lines with a script.
    is_source = "src" in target.parts and target.name.endswith(".rs.html")
    if target.suffix != ".html" or is_source or unquote(parts.fragment) in parse_page(target).anchors:
        return None
    return "has no such anchor"


def main() -> None:
    arguments = argparse.ArgumentParser(description="Check the links of the built site.")
    arguments.add_argument("folder", type=Path)
    # rustdoc checks its own links.
    arguments.add_argument("--but", type=Path, help="a folder in it whose pages are only linked to")
    arguments.add_argument("--list", action="store_true", help="list the links to other hosts")
    given = arguments.parse_args()
    folder, but = given.folder.resolve(), given.but.resolve() if given.but else None
    # The folder of static files contains templates of the theme, which are not pages.
    left_out = {but, folder / "_static"}
    pages = [path for path in sorted(folder.rglob("*.html")) if left_out.isdisjoint(path.parents)]
    links = [(path, *link) for path in pages for link in parse_page(path).links]
    found = [
        f"{path.relative_to(folder)}: {link} {error}"
        for path, link, is_loaded in links
        if (error := find_error(path, link, is_loaded))
    ]
    if given.list:
        print("\n".join(sorted({link for _, link, _ in links if urlsplit(link).netloc})))
    if found:
        sys.exit("\n".join(found))
    print(f"{len(links)} links in {len(pages)} pages lead somewhere")


if __name__ == "__main__":
    main()
