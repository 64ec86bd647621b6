"""Every vector of the contract, against the installed package."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from conftest import BOTH, answer, at, case_bytes, exact, made, of, vectors, written

from dealkit import Agent, Client, Deal, DecodeError, ValidationError
from dealkit.testing import Sandbox


def check_document(model: type[Deal] | type[Agent], case: dict[str, Any], document: bytes) -> None:
    expect = case["expect"]
    if "error" in expect:
        with pytest.raises(DecodeError) as caught:
            model.from_json(document)
        if "path" in expect["error"]:
            assert caught.value.path == expect["error"]["path"]
        assert caught.value.found == expect["error"]["found"]
        assert caught.value.body == document
        check_skipped(model, expect, document)
        return
    value = model.from_json(document)
    back = exact(value.to_json())
    found = {pointer: exact(text) for pointer, text in expect.get("exact", {}).items()}
    for pointer, wanted in (expect.get("values", {}) | found).items():
        assert written(at(back, pointer)) == written(wanted), pointer
        assert is_same(attribute(value, pointer), wanted), pointer
    for pointer in expect.get("absent", []):
        with pytest.raises((KeyError, IndexError)):
            at(back, pointer)
    assert model.from_json(value.to_json()) == value


def check_skipped(model: type[Deal] | type[Agent], expect: dict[str, Any], document: bytes) -> None:
    if expect.get("skipped") is None:
        if "skipped" in expect:
            with pytest.raises(DecodeError):
                model.from_json(document, on_unreadable="skip")
        return
    value = model.from_json(document, on_unreadable="skip")
    assert [[field.pointer, field.expected, field.json.text] for field in value.unreadable] == expect["skipped"]
    for again in (
        pickle.loads(pickle.dumps(value)),
        model.from_json(value.to_json(), on_unreadable="skip"),
    ):
        assert (again, again.unreadable, hash(again)) == (value, value.unreadable, hash(value))


def attribute(value: Any, pointer: str) -> Any:
    """The value at a JSON pointer into a document, read from the attributes of its model."""
    for token in pointer.split("/")[1:]:
        token = token.replace("~1", "/").replace("~0", "~")
        if hasattr(value, "__dealkit_fields__"):
            names = {wire: name for name, wire, *_ in value.__dealkit_fields__}
            value = getattr(value, names[token]) if token in names else value.extra[token]
        else:
            value = value[int(token)] if isinstance(value, tuple | list) else value[token]
    return value


def is_same(value: Any, expected: Any) -> bool:
    """Whether an attribute equals the value in a document, with numbers compared as written."""
    if hasattr(value, "__dealkit_fields__"):
        return written(exact(value.to_json())) == written(expected)
    if isinstance(value, datetime):
        # A datetime has microsecond precision.
        return bool(value == datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", expected)))
    if isinstance(value, date):
        return bool(value.isoformat() == expected)
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return bool(Decimal(expected) == value)
    if isinstance(value, tuple | list):
        return len(value) == len(expected) and all(map(is_same, value, expected))
    if isinstance(value, Mapping):
        return bool(value.keys() == expected.keys()) and all(is_same(value[name], expected[name]) for name in value)
    return bool(value == expected)


@pytest.mark.parametrize("case", vectors("deals"))
def test_deals(case: dict[str, Any]) -> None:
    document = case_bytes(case)
    assert len(document) >= case.get("bytes_at_least", 0)
    check_document(Deal, case, document)


@pytest.mark.parametrize("case", vectors("agents"))
def test_agents(case: dict[str, Any]) -> None:
    check_document(Agent, case, case_bytes(case))


SKIPPED = [case for case in vectors("deals") if case.values[0]["expect"].get("skipped") is not None]


@BOTH
@pytest.mark.parametrize("case", SKIPPED)
def test_what_a_call_skips(case: dict[str, Any], of_class: Any, peer: Any) -> None:
    client = of_class(base_url=peer(answer(200, case_bytes(case))).url, service_key="k")
    with pytest.raises(DecodeError, match=r"the field can be skipped \[see on_unreadable\]") as caught:
        made(client, lambda client: client.deals.retrieve("d_1"))
    assert (caught.value.body, caught.value.outcome) == (case_bytes(case), "succeeded")
    expected = Deal.from_json(case_bytes(case), on_unreadable="skip")
    assert made(client, lambda client: client.deals.retrieve("d_1", on_unreadable="skip")) == expected
    skipping = client.with_options(on_unreadable="skip")
    assert made(skipping, lambda client: client.deals.retrieve("d_1")) == expected


@pytest.fixture(scope="module")
def sandbox() -> Any:
    with Sandbox() as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def sandbox_client(sandbox: Sandbox) -> Any:
    with of(sandbox) as client:
        yield client


REQUIRED = ("email", "first_name", "last_name", "profile")
OPTIONAL = ("role", "phone", "image_url", "date_of_birth", "brokerage_id", "office_id", "collective_id")


def can_be_said(case: dict[str, Any]) -> bool:
    """Whether the body can be expressed with arguments: all required ones are present, and there are no others."""
    body = case.get("json")
    return (
        isinstance(body, dict)
        and not case.get("strict")
        and body.keys() >= set(REQUIRED)
        and body.keys() <= {*REQUIRED, *OPTIONAL}
        # The Python name of a documented member is taken for that member.
        and not (isinstance(body["profile"], dict) and "onboarding_complete" in body["profile"])
    )


CREATE = [case for case in vectors("create_agent") if can_be_said(case.values[0])]


def test_most_create_vectors_can_be_said() -> None:
    assert len(CREATE) >= 60


@pytest.mark.parametrize("case", CREATE)
def test_create_agent(case: dict[str, Any], sandbox: Sandbox, sandbox_client: Client) -> None:
    create = partial(sandbox_client.agents.create, **case["json"])
    expect = case["expect"]
    if expect["status"] == 422:
        before = len(sandbox.agents)
        with pytest.raises(ValidationError) as caught:
            create()
        assert [[error.pointer, error.code] for error in caught.value.errors] == expect["errors"]
        assert sandbox_client.agents.validate(**case["json"]) == list(caught.value.errors)
        assert caught.value.outcome == "not_sent"
        assert len(sandbox.agents) == before
        return
    assert sandbox_client.agents.validate(**case["json"]) == []
    agent = create()
    document = exact(agent.to_json())
    assert document.pop("id") == agent.id != ""
    wanted = exact(json.dumps(expect["agent"]))
    for pointer, text in expect.get("exact", {}).items():
        parent, _, name = pointer.rpartition("/")
        at(wanted, parent)[name] = exact(text)
    assert document == wanted
    assert sandbox.agents[-1] == agent
