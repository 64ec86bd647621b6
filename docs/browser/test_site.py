"""The built site in Chromium: every page in light and dark and at the width of a phone, and the search."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect, sync_playwright

SITE = Path(__file__).parents[2] / "target/site"
CHROMIUM = shutil.which(os.environ.get("CHROMIUM", "chromium"))
# rustdoc's output is rustdoc's responsibility, and the index of names is a list of links.
PAGES = sorted(
    str(path.relative_to(SITE))
    for path in SITE.rglob("*.html")
    if not {"rust", "_static"} & set(path.relative_to(SITE).parts) and path.name != "py-modindex.html"
)
AXE = {
    # Preloading would load style sheet imports from a wrong URL.
    "preload": False,
    # Markup of the theme and Sphinx: the buttons that unfold the list of pages, and parameters within a signature.
    "rules": {"summary-name": {"enabled": False}, "definition-list": {"enabled": False}},
}
PHONE = {"width": 375, "height": 800}
TABLET = {"width": 768, "height": 1024}
# Queries of users, with the page that answers each.
QUESTIONS = {
    "429": "Errors",
    "422": "Errors",
    "host cannot be found": "Errors",
    "retry quota": "Configuration",
    "RetryPolicy": "Rust",
    "connect_timeout": "Configuration",
    "throttled": "Errors",
    "webhook": "The API and its specification",
    "rotate key": "Configuration",
    "unknown outcome": "Runbook: unknown outcomes",
    "backup ledger": "Operations",
    "mock pytest": "Test with the sandbox",
    "parquet polars": "Bulk and tables",
    "import excel": "Import a spreadsheet",
    "subPath": "Configuration",
    "no column holds": "Errors",
    "fastapi": "Complete programs",
    "upgrade": "Upgrading",
    "lost ledger": "Operations",
    "lost response": "Runbook: unknown outcomes",
    "jupyter": "Quickstart: Python",
    "pandas create": "Bulk and tables",
    "NaN": "Bulk and tables",
    "pytest fixture": "Test with the sandbox",
    "rate limit": "Configuration",
    "graceful shutdown": "Operations",
    "exit code": "Complete programs",
    "MSRV": "Quickstart: Rust",
    "compile time": "Quickstart: Rust",
    "ledger must exist": "Create agents safely",
}
DESKTOP = {"width": 1280, "height": 900}

# A long time limit, for a busy machine.
expect.set_options(timeout=30_000)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(SITE))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    # Chromium cannot use its sandbox as root, as in containers.
    arguments = ["--no-sandbox"] if os.getuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser, url: str) -> Iterator[Page]:
    """Opens a page; fails if it logs errors or requests a resource from another host."""
    # Without animations, because a button may otherwise be checked while its colour changes.
    context = browser.new_context(viewport=DESKTOP, reduced_motion="reduce")
    page = context.new_page()
    complaints: list[str] = []
    page.on(
        "console", lambda event: complaints.append(f"{event.text} {event.location}") if event.type == "error" else None
    )
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on(
        "request", lambda request: None if request.url.startswith((url, "data:")) else complaints.append(request.url)
    )
    yield page
    context.close()
    assert complaints == []


def test_the_site_is_built() -> None:
    assert len(PAGES) > 30


def violations(page: Page, **options: Any) -> list[Any]:
    found = Axe().run(page, options={**AXE, **options}).response["violations"]
    return [(one["id"], [node["html"] for node in one["nodes"]][:3]) for one in found]


@pytest.mark.parametrize("path", PAGES)
def test_pages_are_accessible(page: Page, url: str, path: str) -> None:
    page.goto(url + path)
    assert violations(page) == []
    page.emulate_media(color_scheme="dark")
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert violations(page, runOnly=["color-contrast"]) == []
    for size in (TABLET, PHONE):
        page.set_viewport_size(size)
        # Tables and programs may scroll horizontally, the page may not.
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]


@pytest.mark.parametrize("asked", QUESTIONS)
def test_the_search_finds(page: Page, url: str, asked: str) -> None:
    page.goto(url)
    page.keyboard.press("Control+k")
    page.locator("input[type=search]:visible").fill(asked)
    page.keyboard.press("Enter")
    found = page.locator("#search-results li:nth-child(-n + 10) > a")
    expect(found.get_by_text(QUESTIONS[asked], exact=True).first).to_be_visible()
    expect(found.first).not_to_have_text("Changelog")


def test_the_rust_reference_leads_back(page: Page, url: str) -> None:
    page.goto(f"{url}reference/rust/dealkit/struct.Client.html")
    page.get_by_role("link", name="dealkit: guide").click()
    expect(page).to_have_url(f"{url}index.html")
