"""Fixtures: a sandbox as a process, and headless Chromium without access to other hosts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Dialog, Page, Request, expect, sync_playwright

ROOT = Path(__file__).parents[3]
SERVER = os.environ.get("DEALKIT_SERVER", str(ROOT / "target/debug/dealkit-server"))
CHROMIUM = shutil.which(os.environ.get("CHROMIUM", "chromium"))

# For busy machines.
expect.set_options(timeout=20_000)


class Sandbox:
    """A running `dealkit-server`."""

    def __init__(self, *flags: str, port: int = 0) -> None:
        command = [SERVER, "--listen", f"127.0.0.1:{port}", "--log", "off", *flags]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("DEALKIT_")}
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout
        self.url = self.process.stdout.readline().split()[-1]

    def call(self, method: str, path: str, body: str | None = None, **headers: str) -> Any:
        """Sends a request without the browser. Returns the parsed JSON body of the response."""
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None:
            headers["content-type"] = "application/json"
        request = urllib.request.Request(self.url + path, body and body.encode(), headers, method=method)
        # Ignore the proxies of the environment.
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as response:
            text = response.read()
        return json.loads(text) if text else None

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class Visit:
    """An open page. Records its console messages, exceptions and requests to other hosts."""

    def __init__(self, page: Page, sandbox: Sandbox, query: str) -> None:
        self.page = page
        self.sandbox = sandbox
        self.errors: list[str] = []
        # Errors with one of these texts are expected, however late the browser reports them.
        self.expected_errors: list[str] = []
        self.foreign_urls: list[str] = []
        self.confirms = False
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.errors.append(f"exception: {error}"))
        page.on("dialog", self._on_dialog)
        page.on("request", self._on_request)
        page.goto(f"{sandbox.url}/__sandbox/docs{query}")

    def _on_console(self, message: ConsoleMessage) -> None:
        # The browser logs failed requests to /v1, which tests cause on purpose.
        is_expected = message.text.startswith("Failed to load resource") and "/v1/" in message.location["url"]
        if message.type in ("error", "warning") and not is_expected:
            self.errors.append(f"{message.type}: {message.text} ({message.location['url']})")

    def _on_dialog(self, dialog: Dialog) -> None:
        if not dialog.message.startswith("Drop agents, requests and faults"):
            self.errors.append(f"dialog: {dialog.message}")
        (dialog.accept if self.confirms else dialog.dismiss)()

    def _on_request(self, request: Request) -> None:
        if not request.url.startswith(self.sandbox.url):
            self.foreign_urls.append(request.url)

    def unexpected_errors(self) -> list[str]:
        return [error for error in self.errors if not any(text in error for text in self.expected_errors)]

    def unfold(self, name: str) -> None:
        """Opens the section with this heading."""
        self.page.get_by_role("heading", name=name, exact=True).click()

    def send(self, operation: str) -> str:
        """Submits the form of an operation. Returns the page's line about the response."""
        article = self.page.locator(f"#{operation}")
        article.get_by_role("button", name="Send").click()
        return self.outcome(operation)

    def outcome(self, operation: str) -> str:
        outcome = self.page.locator(f"#{operation} .outcome")
        outcome.get_by_text(" ms").wait_for()
        return outcome.inner_text()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.exit("Chromium is missing: apt-get install chromium (or CHROMIUM=google-chrome)", returncode=1)
    # Chromium's own sandbox does not work as root, which is the user in containers.
    arguments = ["--no-sandbox"] if os.getuid() == 0 else []
    arguments.append("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def start() -> Iterator[Callable[..., Sandbox]]:
    """Starts sandboxes, and stops them after the test."""
    started: list[Sandbox] = []

    def start(*flags: str, port: int = 0) -> Sandbox:
        started.append(Sandbox(*flags, port=port))
        return started[-1]

    yield start
    for sandbox in started:
        sandbox.stop()


@pytest.fixture
def sandbox(start: Callable[..., Sandbox]) -> Sandbox:
    return start()


@pytest.fixture
def open_page(browser: Browser, start: Callable[..., Sandbox]) -> Iterator[Callable[..., Visit]]:
    """Opens the pages of sandboxes. After the test, asserts that no page has logged unexpected errors or called another
    host.
    """
    contexts: list[BrowserContext] = []
    visits: list[Visit] = []

    def open_page(sandbox: Sandbox, query: str = "", **options: Any) -> Visit:
        options = {"viewport": {"width": 1280, "height": 900}, **options}
        contexts.append(browser.new_context(permissions=["clipboard-read", "clipboard-write"], **options))
        visits.append(Visit(contexts[-1].new_page(), sandbox, query))
        return visits[-1]

    yield open_page
    for context in contexts:
        context.close()
    assert [error for visit in visits for error in visit.unexpected_errors()] == []
    assert [url for visit in visits for url in visit.foreign_urls] == []


@pytest.fixture
def visit(open_page: Callable[..., Visit], sandbox: Sandbox) -> Visit:
    return open_page(sandbox)


@pytest.fixture(scope="session")
def screenshots() -> Path:
    """The folder for screenshots."""
    folder = ROOT / "target/browser"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
