"""The page at /__sandbox/docs in a browser."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.error import HTTPError

import pytest
from axe_playwright_python.sync_playwright import Axe
from conftest import Sandbox, Visit
from playwright.sync_api import Error, Page, expect

HOSTILE = '<img src=x onerror="alert(1)">'


def rows(page: Page) -> list[str]:
    """Returns the visible requests of the journal, one string for each."""
    return [" ".join(row.split()) for row in page.locator("#journal summary:visible").all_inner_texts()]


def test_creating_an_agent(visit: Visit, sandbox: Sandbox) -> None:
    page = visit.page
    assert visit.send("createAgent").startswith("201 Created, ")
    expect(page.get_by_label("Body of the response")).to_contain_text('"id": "a_1"')
    expect(page.locator("#journal summary")).to_have_count(1)
    assert rows(page)[0].split(" ", 1)[1].startswith("POST /v1/agents 201 ")
    [agent] = sandbox.call("GET", "/__sandbox/agents")["agents"]
    assert (agent["agent"]["id"], agent["sent"]["email"]) == ("a_1", "ada@example.com")

    body = page.locator("#createAgent-body")
    body.fill('{"email": "no"}')
    body.press("Control+Enter")
    expect(page.locator("#createAgent .outcome")).to_contain_text("422")
    expect(page.get_by_label("Body of the response")).to_contain_text('"pointer": "/first_name"')


def test_deals_keep_all_digits(visit: Visit, sandbox: Sandbox) -> None:
    page = visit.page
    assert visit.send("retrieveDeal").startswith("200 OK, ")
    expect(page.get_by_label("Body of the response")).to_contain_text('"id": "d_1"')

    deal = '{"id":"a/b é","application":{"requested_amount":10.10},"quotes":[],"x":123456789012345678901234567.0,"y":"\\u00e9{[,"}'
    sandbox.call("PUT", "/__sandbox/deals/a%2Fb%20%C3%A9", deal)
    page.locator("#retrieveDeal-id").fill("a/b é")
    assert visit.send("retrieveDeal").startswith("200 OK, ")
    assert page.get_by_label("Body of the response").text_content() == (
        '{\n  "id": "a/b é",\n  "application": {\n    "requested_amount": 10.10\n  },\n  "quotes": [],\n'
        '  "x": 123456789012345678901234567.0,\n  "y": "é{[,"\n}'
    )

    page.locator("#retrieveDeal-id").fill("nobody")
    assert visit.send("retrieveDeal").startswith("404 Not Found, ")
    response = page.locator("#retrieveDeal")
    expect(response.get_by_label("Body of the response")).to_contain_text("unknown-deal")
    response.get_by_text("Headers").click()
    expect(response.get_by_label("Headers of the response")).to_contain_text("x-request-id: req_")


def test_the_journal_is_filtered_repeated_and_cleared(visit: Visit, sandbox: Sandbox) -> None:
    page = visit.page
    visit.send("createAgent")
    visit.send("retrieveDeal")
    # Requests of other programs appear without a reload.
    sandbox.call("GET", "/v1/deals/d_2?from=elsewhere", x_service_key="sandbox-key", x_tenant="7")
    expect(page.locator("#journal summary")).to_have_count(3)
    assert [row.split(" ", 1)[1].rsplit(" ", 2)[0] for row in rows(page)] == [
        "GET /v1/deals/d_2?from=elsewhere 200",
        "GET /v1/deals/d_1 200",
        "POST /v1/agents 201",
    ]
    opened = page.locator("#journal li").first
    opened.locator("summary").click()
    command = opened.get_by_label("Command that repeats it")
    expect(command).to_contain_text(f"'{sandbox.url}/v1/deals/d_2?from=elsewhere'")
    expect(command).to_contain_text("-H 'x-service-key: sandbox-key' -H 'x-tenant: 7'")
    opened.get_by_role("button", name="Copy curl command").click()
    expect(opened.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == command.inner_text()
    expect(opened.get_by_label("Headers of the request")).to_contain_text("x-service-key: <redacted>")

    filter = page.get_by_label("Filter", exact=True)
    filter.fill("POST 201")
    expect(page.get_by_text("1 of 3 requests")).to_be_visible()
    assert rows(page)[0].split(" ", 1)[1].startswith("POST /v1/agents 201")
    visit.send("createAgent")
    expect(page.get_by_text("2 of 4 requests")).to_be_visible()
    filter.fill("d_2 elsewhere")
    expect(page.locator("#journal summary:visible")).to_have_count(1)
    filter.fill("")
    expect(page.locator("#journal summary")).to_have_count(4)

    page.get_by_role("button", name="Clear").click()
    expect(page.locator("#journal summary")).to_have_count(0)
    assert sandbox.call("GET", "/__sandbox/requests")["requests"] == []
    # Another program can clear the journal too.
    visit.send("retrieveDeal")
    expect(page.locator("#journal summary")).to_have_count(1)
    sandbox.call("POST", "/__sandbox/reset", "{}")
    expect(page.locator("#journal summary")).to_have_count(0)


def test_a_copied_command_has_no_control_characters(visit: Visit, sandbox: Sandbox) -> None:
    # In a terminal, this pasted control character would start another command.
    body = "{}\x15touch created\n\u202e'\\"
    with suppress(HTTPError):  # The body is not JSON.
        sandbox.call("POST", "/v1/agents", body, x_service_key="sandbox-key")
    opened = visit.page.locator("#journal li").first
    opened.locator("summary").click()
    command = opened.get_by_label("Command that repeats it").inner_text()
    assert command.isprintable()
    assert subprocess.check_output(["bash", "-c", f'curl() {{ printf %s "${{@: -1}}"; }}; {command}']).decode() == body


def test_faults_can_be_added_applied_and_removed(visit: Visit, sandbox: Sandbox) -> None:
    page = visit.page
    faults = page.get_by_role("article", name="Pending faults")
    faults.get_by_label("What goes wrong").select_option("503, Retry-After 1")
    faults.get_by_label("For").select_option("POST /v1/agents")
    faults.get_by_label("Times").fill("2")
    faults.get_by_role("button", name="Add", exact=True).click()
    listed = faults.get_by_role("listitem")
    for text in ('"status":503', '"method":"POST"', '"path":"/v1/agents"', '"times":2', "applied 0 times"):
        expect(listed).to_contain_text(text)
    assert visit.send("retrieveDeal").startswith("200 OK")
    assert visit.send("createAgent").startswith("503 Service Unavailable")
    expect(page.locator("#journal summary").first).to_contain_text('{"status":503,"retry_after":1}')
    expect(listed).to_contain_text("applied 1 times")
    listed.get_by_role("button", name="Remove").click()
    expect(listed).to_have_count(0)
    expect(page.locator("#faults-heading")).to_be_focused()
    assert sandbox.call("GET", "/__sandbox/faults")["faults"] == []

    faults.get_by_label("Times").fill("")
    faults.get_by_role("button", name="Add", exact=True).click()
    expect(listed).to_contain_text('"times":null')
    # A seed above the largest exact integer of JavaScript.
    sandbox.call("POST", "/__sandbox/faults", '{"malformed": true, "probability": 0.5, "seed": 18446744073709551615}')
    expect(faults.get_by_text('"seed":18446744073709551615')).to_be_visible()


def test_a_fault_can_depend_on_the_body(visit: Visit) -> None:
    faults = visit.page.get_by_role("article", name="Pending faults")
    faults.get_by_label("What goes wrong").select_option("422")
    contains = faults.get_by_label("Only if the body contains")
    for body, status in (("{", "What the body contains must be JSON."), ("[]", "request_body: expected an object")):
        contains.fill(body)
        faults.get_by_role("button", name="Add", exact=True).click()
        expect(visit.page.locator("#fault-status")).to_contain_text(status)
    # The sandbox rejected the fault whose body is an array.
    visit.expected_errors.append("400 (Bad Request)")
    contains.fill('{"email": "ada@example.com", "profile": {"tier": "A"}}')
    faults.get_by_role("button", name="Add", exact=True).click()
    expect(faults.get_by_role("listitem")).to_contain_text(
        '"request_body":{"email":"ada@example.com","profile":{"tier":"A"}}'
    )
    assert visit.send("retrieveDeal").startswith("200 OK")
    assert visit.send("createAgent").startswith("422 Unprocessable")
    expect(faults.get_by_role("listitem")).to_have_count(0)


def test_a_request_is_held_until_it_is_released(visit: Visit) -> None:
    page = visit.page
    faults = page.get_by_role("article", name="Pending faults")
    faults.get_by_label("What goes wrong").select_option("held until released")
    faults.get_by_label("For").select_option("GET /v1/deals/{id}")
    faults.get_by_role("button", name="Add", exact=True).click()
    expect(page.locator("#fault-status")).to_have_text("Added.")
    page.locator("#retrieveDeal").get_by_role("button", name="Send").click()
    expect(page.locator("#journal summary")).to_contain_text(["no response"])
    visit.send("createAgent")
    faults.get_by_role("button", name="Release held requests").click()
    expect(page.locator("#fault-status")).to_have_text("Released 1.")
    assert "200" in visit.outcome("retrieveDeal")
    expect(page.locator("#journal summary").last).to_contain_text("200")
    assert [row.split()[3] for row in rows(page)] == ["201", "200"]


def add_fault(page: Page, preset: str) -> None:
    page.get_by_label("What goes wrong").select_option(preset)
    # Without a limit, because browsers repeat requests whose connections broke.
    page.get_by_label("Times").fill("")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.locator("#fault-status")).to_have_text("Added.")


def remove_fault(page: Page) -> None:
    page.get_by_role("button", name="Remove").click()
    expect(page.locator("#fault-list li")).to_have_count(0)


def test_all_presets_are_valid_faults(visit: Visit) -> None:
    page = visit.page
    presets = page.locator("#fault-preset option").all_inner_texts()
    assert len(presets) == 12
    for preset in presets:
        add_fault(page, preset)
        if not re.search("stall|late|held", preset):  # tested separately
            assert not visit.send("retrieveDeal").startswith(("200", "400")) or "10 bytes" in preset, preset
        remove_fault(page)


def test_a_cut_response_is_reported(visit: Visit) -> None:
    page = visit.page
    retrieve = page.locator("#retrieveDeal")
    add_fault(page, "connection reset after 10 bytes of the body")
    assert visit.send("retrieveDeal").startswith("200 OK. The browser says: ")
    remove_fault(page)

    add_fault(page, "invalid HTTP response")
    assert visit.send("retrieveDeal").startswith("No response. The browser says: ")
    remove_fault(page)

    add_fault(page, "stalls after 10 bytes of the body")
    retrieve.get_by_role("button", name="Send").click()
    expect(retrieve.get_by_text("Waiting for the response")).to_be_visible()
    # The journal contains the request once its response has started, and other requests are not blocked.
    expect(page.locator("#journal summary").first).to_contain_text("stall")
    remove_fault(page)
    assert visit.send("retrieveDeal").startswith("200 OK, ")


def test_deals_are_listed(visit: Visit, sandbox: Sandbox) -> None:
    visit.unfold("Deals")
    deals = visit.page.locator("#deals")
    expect(deals.locator("li")).to_have_count(3)
    deals.locator("summary", has_text="d_1").click()
    expect(deals.get_by_label("d_1")).to_contain_text('"sale_price": 450000')
    # Deals of other programs appear, and open entries stay open.
    sandbox.call("PUT", "/__sandbox/deals/n%2F1", '{"id": "n/1", "application": {"requested_amount": 10.10}}')
    expect(deals.locator("li")).to_have_count(4)
    expect(deals.get_by_label("d_1")).to_be_visible()
    deals.locator("summary", has_text="n/1").click()
    expect(deals.get_by_label("n/1")).to_contain_text('"requested_amount": 10.10')


def test_many_deals_are_shown_in_part(open_page: Callable[..., Visit], start: Callable[..., Sandbox]) -> None:
    visit = open_page(start("--generate", "1500"))
    visit.unfold("Deals")
    expect(visit.page.locator("#deals").get_by_text(" shown; there are more")).to_be_visible()


def test_agents_are_listed_and_reset(visit: Visit, sandbox: Sandbox) -> None:
    page = visit.page
    visit.send("createAgent")
    visit.unfold("Agents")
    agents = page.locator("#agents")
    agents.locator("summary", has_text="a_1").click()
    expect(agents.get_by_label("a_1")).to_contain_text('"sent": {')
    # Open entries stay open when another agent is created.
    sent = sandbox.call("GET", "/__sandbox/agents")["agents"][0]["sent"]
    sandbox.call("POST", "/v1/agents", json.dumps(sent), x_service_key="sandbox-key")
    expect(agents.locator("li")).to_have_count(2)
    expect(agents.get_by_label("a_1")).to_be_visible()

    page.get_by_role("button", name="Reset …").click()
    expect(page.locator("#journal li")).to_have_count(2)
    visit.confirms = True
    page.get_by_role("button", name="Reset …").click()
    expect(page.locator("#journal li")).to_have_count(0)
    expect(agents.get_by_text("None.")).to_be_visible()
    assert sandbox.call("GET", "/__sandbox/agents")["agents"] == []


def test_the_url_selects_the_namespace(open_page: Callable[..., Visit], sandbox: Sandbox) -> None:
    visit = open_page(sandbox, query="?namespace=sandbox-key")
    with visit.page.expect_request("**/__sandbox/requests?*namespace=sandbox-key*"):
        assert visit.send("retrieveDeal").startswith("200 OK")


def test_hostile_text_is_shown_as_text(visit: Visit, sandbox: Sandbox, screenshots: Path) -> None:
    page = visit.page
    agent = {
        "email": "eve@example.com",
        "first_name": HOSTILE,
        "last_name": "\u202e</pre><script>alert(2)</script>",
        "profile": {},
    }
    page.locator("#createAgent-body").fill(json.dumps(agent, ensure_ascii=False))
    assert visit.send("createAgent").startswith("201")
    response = page.get_by_label("Body of the response")
    expect(response).to_contain_text("<img src=x onerror=")
    # A control character that reverses the direction of the following text is escaped.
    expect(response).to_contain_text('"last_name": "\\u202e</pre><script>alert(2)</script>"')
    hostile = {"x-service-key": "sandbox-key", "x-tenant": HOSTILE, "x-request-id": "<b>id</b>"}
    sandbox.call("GET", "/v1/deals/d_1?'onload=alert(3)&long=" + "x" * 3_000, **hostile)
    expect(page.locator("#journal summary")).to_have_count(2)
    for row in page.locator("#journal summary").all():
        row.click()
    expect(page.get_by_label("Command that repeats it").last).to_contain_text("\\342\\200\\256</pre>")
    expect(page.get_by_label("Headers of the request").first).to_contain_text(f"x-tenant: {HOSTILE}")
    expect(page.get_by_label("Body of the request")).to_contain_text("<script>alert(2)</script>")
    sandbox.call(
        "POST", "/__sandbox/faults", json.dumps({"status": 500, "body": HOSTILE, "retry_after": "<b>bold</b>"})
    )
    expect(page.locator("#fault-list")).to_contain_text("<img src=x onerror=")
    assert page.locator("main img, main b, main script").count() == 0
    screenshot(page, screenshots, "hostile")


def test_the_policy_forbids_markup_and_other_hosts(
    open_page: Callable[..., Visit], start: Callable[..., Sandbox]
) -> None:
    visit, other = open_page(start()), start()
    with pytest.raises(Error, match="TrustedHTML"):
        visit.page.evaluate("document.body.innerHTML = '<b>bold</b>'")
    with pytest.raises(Error, match="Failed to fetch"):
        visit.page.evaluate("url => fetch(url, {mode: 'no-cors'})", f"{other.url}/v1/deals/d_1")
    visit.page.evaluate(
        "document.body.append(Object.assign(new Image(), {src: 'data:image/gif;base64,R0lGODlhAQABAAAAACw='}))"
    )
    assert other.call("GET", "/__sandbox/requests")["requests"] == []
    expect(visit.page.locator("h1")).to_be_visible()
    assert sum("Content Security Policy" in text for text in visit.errors) >= 2, visit.errors
    visit.expected_errors += ["Content Security Policy", "TrustedHTML"]
    visit.foreign_urls.clear()


def test_keyboard_navigation(visit: Visit) -> None:
    page = visit.page

    def tab_to(name: str, key: str = "Tab", selector: str = "*") -> None:
        """Presses `key` until the element with this name has focus. The focus must always be visible."""
        for _ in range(90):
            page.keyboard.press(key)
            focused = page.evaluate(
                """selector => {
                    const { outlineStyle, outlineWidth } = getComputedStyle(document.activeElement);
                    const { width, top, bottom } = document.activeElement.getBoundingClientRect();
                    const element = document.activeElement;
                    return {
                        name: element.getAttribute("aria-label") ?? element.labels?.[0]?.innerText ?? element.innerText,
                        outline: outlineStyle !== "none" && outlineWidth !== "0px",
                        inView: width > 0 && bottom > 0 && top < innerHeight,
                        fits: element.matches(selector),
                    };
                }""",
                selector,
            )
            assert focused["outline"] and focused["inView"], focused
            if focused["name"].startswith(name) and focused["fits"]:
                return
        raise AssertionError(f"the keyboard does not reach {name}")

    page.locator("#retrieveDeal").wait_for()
    tab_to("Service key")
    tab_to("id")
    page.keyboard.type("d_2")
    page.keyboard.press("Enter")
    assert visit.outcome("retrieveDeal").startswith("200")
    tab_to("Headers")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Headers of the response")).to_be_visible()
    tab_to("Body", "Tab", "textarea")
    page.keyboard.press("Control+a")
    page.keyboard.type('{"email": "kay@example.com", "first_name": "Kay", "last_name": "Board", "profile": {}}')
    page.keyboard.press("Control+Enter")
    assert visit.outcome("createAgent").startswith("201")
    tab_to("What goes wrong")
    tab_to("Add")
    page.keyboard.press("Enter")
    expect(page.locator("#fault-list li")).to_have_count(1)
    tab_to("Remove")
    page.keyboard.press("Enter")
    expect(page.locator("#fault-list li")).to_have_count(0)
    expect(page.locator("#faults-heading")).to_be_focused()
    tab_to("Filter")
    page.keyboard.type("post")
    expect(page.locator("#journal summary:visible")).to_have_count(1)
    tab_to("", "Tab", "#journal summary")
    page.keyboard.press("Space")
    expect(page.get_by_label("Body of the request")).to_contain_text("Kay")
    tab_to("Deals", "Shift+Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#deals li")).to_have_count(3)
    tab_to("d_1", "Tab", "#deals summary")
    page.keyboard.press("Enter")
    expect(page.locator("#deals pre")).to_be_visible()
    tab_to("Agents")
    page.keyboard.press("Enter")
    expect(page.locator("#agents li")).to_have_count(1)
    tab_to("Reset …", "Shift+Tab")
    visit.confirms = True
    page.keyboard.press("Enter")
    expect(page.locator("#agents li")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 768, 390])
def test_accessibility(
    open_page: Callable[..., Visit], sandbox: Sandbox, screenshots: Path, scheme: str, width: int
) -> None:
    visit = open_page(sandbox, viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = visit.page
    sandbox.call(
        "POST", "/__sandbox/faults", '{"status": 503, "retry_after": 1, "times": 2, "method": "POST", "after": 9}'
    )
    for number in range(20):
        sandbox.call("GET", f"/v1/deals/d_1?number={number}&long={'x' * 20 * number}", x_service_key="sandbox-key")

    def look(name: str, unfold: str = "details") -> None:
        page.evaluate(f"for (const one of [...document.querySelectorAll('{unfold}')].slice(0, 9)) one.open = true")
        screenshot(page, screenshots, f"{scheme}-{width}-{name}")
        assert page.evaluate("document.scrollingElement.scrollWidth") <= width, name
        findings = Axe().run(page)
        assert findings.violations_count == 0, f"{name}: {findings.generate_report()}"

    expect(page.locator("#journal li")).to_have_count(20)
    look("requests", "#journal li:first-child details")
    page.locator("#retrieveDeal-id").fill("d_404")
    visit.send("retrieveDeal")
    visit.send("createAgent")
    for name in ("Deals", "Agents"):
        visit.unfold(name)
        page.locator(f"#{name.lower()} li").first.wait_for()
    look("all")


def test_a_chosen_key_is_never_in_the_page(
    open_page: Callable[..., Visit], start: Callable[..., Sandbox], screenshots: Path
) -> None:
    sandbox = start("--service-key", "chosen-key")
    visit = open_page(sandbox)
    page = visit.page
    expect(page.get_by_label("Service key")).to_have_value("")
    assert "chosen-key" not in page.content()
    assert visit.send("retrieveDeal").startswith("401 Unauthorized")
    # With a service key of its own, the journal requires a token.
    expect(page.get_by_text("Send the token in the header x-sandbox-token")).to_be_visible()
    screenshot(page, screenshots, "token")
    page.get_by_label("Service key").fill("chosen-key")
    page.get_by_label("Sandbox token").fill("chosen-key")
    page.get_by_label("Sandbox token").press("Enter")
    expect(page.locator("#journal summary")).to_have_count(1)
    assert visit.send("retrieveDeal").startswith("200 OK")
    # The sandbox rejected the page's requests without the token.
    visit.expected_errors.append("401 (Unauthorized)")


def test_the_page_reconnects_to_a_restarted_sandbox(visit: Visit, start: Callable[..., Sandbox]) -> None:
    page = visit.page
    for _ in range(3):
        visit.send("retrieveDeal")
    expect(page.locator("#journal summary")).to_have_count(3)
    port = int(visit.sandbox.url.rsplit(":", 1)[1])
    # After the stop, connections fail, and a request in flight may be reset.
    visit.expected_errors.append("net::ERR_")
    with page.expect_event("requestfailed"):
        page.route("**/__sandbox/faults", lambda route: route.abort("connectionreset"), times=1)
    visit.sandbox.stop()
    expect(page.get_by_text("The sandbox does not respond.")).to_be_visible()
    again = start(port=port)
    again.call("GET", "/v1/deals/d_2", x_service_key="sandbox-key")
    expect(page.locator("#journal summary")).to_have_count(1)
    assert rows(page)[0].split(" ", 1)[1].startswith("GET /v1/deals/d_2 200")


def screenshot(page: Page, folder: Path, name: str) -> None:
    page.evaluate("scrollTo(0, 0)")
    page.screenshot(path=folder / f"{name}.png", full_page=True)
