"""Models in notebooks and terminals: trees that show what ``repr`` shows, and ``help``."""

from __future__ import annotations

import inspect
import pydoc
import re
from html.parser import HTMLParser
from typing import Any

import dealkit
from dealkit import Agent, AgentProfileResponse, Deal, Offer, Quote, Role, RoleAssignment

CANARY = "Canary <b>Lovelace</b>"

DOCUMENT = """{"id": "d_1<script>", "status": "CLOSED", "expiry_date": "nonsense", "external_id": "%s",
  "listing_contract": {"id": "lc_1", "sale_price": 450000, "address": {"line1": "%s"}, "agent": {"email": "%s"}},
  "application": {"offers": [{"percent_of_commission": 10.10}, {"id": "of_2"}]},
  "contacts": [{"id": "c_1", "fields": [{"label": "%s", "value": "%s"}]}], "metadata": {"%s": "x"}, "new %s": 1}"""
DEAL = Deal.from_json(DOCUMENT.replace("%s", CANARY), on_unreadable="skip")

AGENT = Agent(
    id="a_1",
    email="canary@example.com",
    first_name=CANARY,
    last_name=CANARY,
    profile=AgentProfileResponse(external_id=CANARY, client_metadata={CANARY: 1}),
    role_assignments=[RoleAssignment(role=Role.AGENT)],
)


class Printer:
    """IPython's printer of objects, as far as models use it."""

    def __init__(self) -> None:
        self.text_parts: list[str] = []
        self.indentation = 0

    def text(self, text: str) -> None:
        self.text_parts.append(text)

    def break_(self) -> None:
        self.text_parts.append("\n" + " " * self.indentation)

    def begin_group(self, indentation: int, text: str) -> None:
        self.text(text)
        self.indentation += indentation

    def end_group(self, indentation: int, text: str = "") -> None:
        self.indentation -= indentation
        self.text(text)

    def pretty(self, value: Any) -> None:
        if hasattr(value, "_repr_pretty_"):
            value._repr_pretty_(self, False)
        elif isinstance(value, tuple):
            for item in value:
                self.pretty(item)
        else:
            self.text(repr(value))


class Outline(HTMLParser):
    """Collects the tags, and the text without them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open_tags: list[str] = []
        self.lines: list[str] = []
        self.feed(html)
        assert not self.open_tags

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        self.open_tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open_tags.pop() == tag

    def handle_data(self, data: str) -> None:
        self.lines.append(data)


def test_a_model_is_a_tree_in_html() -> None:
    outline = Outline(DEAL._repr_html_())
    assert set(outline.tags) == {"div", "details", "summary"}
    assert outline.lines[:4] == ["Deal", "id: d_1<script>", "status: CLOSED", "listing_contract: ListingContract"]
    for line in ("sale_price: 450000", "offers: 2", "0: Offer", "percent_of_commission: 10.10", "value: <hidden>"):
        assert line in outline.lines
    assert "metadata: <1 hidden>" in outline.lines and "extra: <1 hidden>" in outline.lines
    assert "unreadable: ['expiry_date']" in outline.lines
    # Only the outermost tree is expanded.
    assert DEAL._repr_html_().count("<details open>") == 1
    assert "role: AGENT" in Outline(AGENT._repr_html_()).lines
    assert Outline(Offer()._repr_html_()).lines == ["Offer"]


def test_trees_show_no_more_than_the_repr() -> None:
    for model in (DEAL, AGENT):
        printer = Printer()
        model._repr_pretty_(printer, False)
        pretty_text = "".join(printer.text_parts)
        # The values are the ones that the repr has, in its order.
        normalize = lambda text: re.sub(r"[\s,()]", "", text)  # noqa: E731
        assert normalize(pretty_text) == normalize(repr(model))
        assert pretty_text.count("\n") > 8
        shown_texts = (repr(model), pretty_text, repr([*model.__rich_repr__()]), model._repr_html_())
        for text in shown_texts:
            assert "Canary" not in text and "canary@" not in text
        for number in ("450000", "10.10"):
            assert all((number in text) == (model is DEAL) for text in shown_texts)


def test_the_text_tree() -> None:
    printer = Printer()
    Quote(id="q", estimated_amount_min=1)._repr_pretty_(printer, False)
    assert "".join(printer.text_parts) == "Quote(\n    id='q',\n    estimated_amount_min=1,\n)"
    printer = Printer()
    Quote()._repr_pretty_(printer, False)
    assert "".join(printer.text_parts) == "Quote()"


def test_rich_gets_the_attributes() -> None:
    attributes = dict(AGENT.__rich_repr__())
    assert [*attributes] == ["id", "email", "first_name", "last_name", "profile", "role_assignments"]
    assert attributes["id"] == "a_1" and repr(attributes["email"]) == "<hidden>"
    assert attributes["profile"] is AGENT.profile
    # The placeholder does not hold the value, which rich could otherwise inspect.
    assert not hasattr(attributes["email"], "__dict__") and "canary" not in str(attributes["email"])


def test_help_lists_the_fields_with_their_types() -> None:
    for model in {type(DEAL), type(AGENT), Offer}:
        text = pydoc.plain(pydoc.render_doc(model))
        signature = inspect.signature(model)
        for field in dealkit.fields(model):
            (line,) = re.findall(rf"^ \|      {field.name} \((.+?)\): (.+)$", text, re.MULTILINE)
            assert line[1] == " ".join(field.doc.split())
            parameter = signature.parameters[field.name]
            assert parameter.annotation == line[0] and (parameter.default is inspect.Parameter.empty) == field.required
    assert "Deal(*, id: 'str', status: 'str | None' = None" in pydoc.plain(pydoc.render_doc(Deal))
