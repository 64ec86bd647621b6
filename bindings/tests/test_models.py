"""Models: exact values, equality, pickling, serialization, and the single definition of their fields."""

from __future__ import annotations

import copy
import json
import pickle
import pickletools
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from conftest import as_any

import dealkit
from dealkit import (
    Address,
    Agent,
    AgentProfileResponse,
    Application,
    Deal,
    DecodeError,
    ListingContract,
    Offer,
    Quote,
    Role,
    RoleAssignment,
    Side,
)

# The module without types, for arguments that a type checker would reject.
untyped: Any = dealkit

MODELS = [value for name in dealkit.__all__ if hasattr(value := getattr(dealkit, name), "__dealkit_fields__")]

DOCUMENT = r"""{
  "id": "d_1", "status": "CLOSED", "phase": "NEW", "expiry_date": "2024-02-29",
  "created_at": "2024-01-31T10:30:00.123456789+01:00", "surprise": {"rate": 1.10, "n": 7, "list": [null, true, "x"]},
  "listing_contract": {"id": "lc_1", "sale_price": 450000.0, "address": {"line1": "1 Main St"},
                       "agent": {"id": "a_1", "email": "ada@example.com"}},
  "application": {"id": "ap_1", "requested_amount": 12500.50, "decisioned_on": "soon",
                  "offers": [{"id": "o_1", "percent_of_commission": 10.10, "hidden_gem": 1e400}]},
  "quotes": [{"id": "q_1", "estimated_amount_min": 5}], "contacts": [{"contactSchemaId": "cs_1", "type": "BUYER",
  "fields": [{"fieldSchemaId": "fs_1", "label": "Name", "value": "Ada"}]}],
  "sides": [{"contact_id": "c_1", "side_percentage": 1.50e1}], "metadata": {"a": "1"}, "external_id": "crm-1"
}"""


@pytest.fixture
def deal() -> Deal:
    return Deal.from_json(DOCUMENT)


def test_undocumented_fields_are_accessible_and_serialized(deal: Deal) -> None:
    assert deal.extra == {"surprise": {"rate": Decimal("1.10"), "n": 7, "list": [None, True, "x"]}}
    assert str(deal.extra["surprise"]["rate"]) == "1.10"
    with pytest.raises(TypeError):
        deal.extra["b"] = "2"  # type: ignore[index]
    assert deal.application is not None
    assert deal.application.offers[0].extra == {"hidden_gem": Decimal("1e400")}
    text = deal.to_json()
    assert '"rate": 1.10' in text and "1e400" in text and '"percent_of_commission":10.10' in text
    assert '"created_at":"2024-01-31T09:30:00.123456789Z"' in text


def test_undocumented_fields_may_hold_any_json() -> None:
    digits = "9" * 5000
    deep = "[" * 500 + "]" * 500
    deal = Deal.from_json(
        f'{{"id": "d", "a": {digits}, "b": 1e99999999999999999999, "c": {deep}, "d": -0, "e": "\\ud800"}}'
    )
    assert deal.extra["a"] == Decimal(digits)
    assert deal.extra["b"] == "1e99999999999999999999"
    assert deal.extra["e"] == "\ud800"
    assert Deal.from_json(deal.to_json()) == deal


def test_equality_and_hash(deal: Deal) -> None:
    copy_of_deal = Deal.from_json(DOCUMENT)
    assert deal == copy_of_deal and hash(deal) == hash(copy_of_deal) and deal is not copy_of_deal
    assert len({deal, copy_of_deal}) == 1
    other = Deal.from_json(DOCUMENT.replace("10.10", "10.11"))
    assert deal != other
    assert deal == Deal.from_json(DOCUMENT.replace("10.10", "10.1"))
    assert hash(deal) == hash(Deal.from_json(DOCUMENT.replace("10.10", "10.1")))
    assert deal != Deal.from_json(DOCUMENT.replace("1.10,", "1.11,")), "an unknown member counts"
    finer = Deal.from_json(DOCUMENT.replace("456789", "456780"))
    assert deal == finer and hash(deal) == hash(finer), "what a datetime cannot hold is in no attribute"
    assert deal.to_json() != finer.to_json()
    assert deal != "d_1" and deal != Side()
    with pytest.raises(TypeError):
        _ = deal < copy_of_deal  # type: ignore[operator]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_and_copies(deal: Deal, protocol: int) -> None:
    copy_of_deal = pickle.loads(pickle.dumps(deal, protocol))
    assert copy_of_deal == deal and copy_of_deal.to_json() == deal.to_json()
    assert copy.copy(deal) is deal and copy.deepcopy(deal) is deal
    assert copy.deepcopy([deal]) == [deal]


def test_models_work_in_match_statements(deal: Deal) -> None:
    match deal:
        case Deal(id="d_1", status="CLOSED", application=Application(offers=(Offer(id=found), *_))):
            assert found == "o_1"
        case _:
            pytest.fail("no match")


def test_replace(deal: Deal) -> None:
    changed = deal.replace(status="OPEN", sides=[Side(side_percentage=3)])
    assert (changed.status, changed.sides[0].side_percentage, changed.phase) == ("OPEN", Decimal(3), "NEW")
    assert changed.extra == deal.extra
    assert '"2024-01-31T09:30:00.123456789Z"' in changed.to_json()
    moved = deal.replace(created_at=deal.created_at)
    assert '"2024-01-31T09:30:00.123456Z"' in moved.to_json()
    assert deal.__replace__(status="OPEN") == deal.replace(status="OPEN")
    assert deal.replace(extra={}).extra == {}
    assert deal.status == "CLOSED"
    with pytest.raises(TypeError, match="Deal has no attribute 'staus'; did you mean 'status'"):
        as_any(deal).replace(staus="OPEN")
    with pytest.raises(TypeError, match="Deal lacks its required attribute id"):
        deal.replace(id=as_any(None))
    replace = getattr(copy, "replace", None)  # Python 3.13
    if replace is not None:
        assert replace(deal, status="OPEN").status == "OPEN"


def test_to_dict_rebuilds_the_model(deal: Deal) -> None:
    copy_of_deal = Deal(**deal.to_dict())
    assert copy_of_deal == deal and copy_of_deal.to_dict() == deal.to_dict()
    assert (
        str(copy_of_deal.sides[0].side_percentage) == "15.0" and str(copy_of_deal.extra["surprise"]["rate"]) == "1.10"
    )
    quotes: Any = [Quote(id="q"), {"id": "r"}]
    assert Deal(id="d", quotes=quotes) == Deal(id="d", quotes=[Quote(id="q"), Quote(id="r")])
    agent = make_agent('{"a": [1.10, {"b": null}]}')
    assert Agent(**agent.to_dict()) == agent


def test_a_documented_field_in_extra_becomes_its_attribute() -> None:
    sides = [{"side_percentage": Decimal("10.10")}]
    given = {"status": "CLOSED", "expiry_date": "2030-01-31", "sides": sides, "badge": 5}
    expected = Deal(
        id="d",
        status="CLOSED",
        expiry_date=date(2030, 1, 31),
        sides=[Side(side_percentage=Decimal("10.10"))],
        extra={"badge": 5},
    )
    assert Deal(id="d", extra=given) == Deal(id="d").replace(extra=given) == expected
    assert untyped.Contact(extra={"contactSchemaId": "s"}).contact_schema_id == "s"
    with pytest.raises(DecodeError) as raised:
        Deal(id="d", extra={"status": 7})
    assert raised.value.path == "status"


def test_get_finds_documented_and_undocumented_fields() -> None:
    deal = Deal.from_json(DOCUMENT)
    for name, value in json.loads(deal.to_json(), parse_float=Decimal).items():
        assert deal.get(name) == value, name
    assert deal.get("nothing") is Deal(id="d").get("status") is Deal(id="d", extra={"badge": None}).get("badge") is None


def pickle_of_other_version(json: str) -> bytes:
    """Returns the pickle that every version writes: the class by its public name, and the JSON."""
    return f"cbuiltins\ngetattr\n(cdealkit\nDeal\nVfrom_json\ntR(V{json}\ntR.".encode("ascii")


def test_pickles_of_other_versions_are_read_or_rejected(deal: Deal) -> None:
    # A version with fewer or more documented fields writes the same JSON.
    other = pickle.loads(pickle_of_other_version('{"id": "d_1", "status": "CLOSED", "badge": "gold"}'))
    assert other == Deal(id="d_1", status="CLOSED", extra={"badge": "gold"})
    with pytest.raises(DecodeError) as raised:
        pickle.loads(pickle_of_other_version('{"id": "d_1", "status": {"code": 7}}'))
    assert raised.value.path == "status"
    # This version writes the same format.
    named = {argument for _, argument, _ in pickletools.genops(pickle.dumps(deal, 0)) if isinstance(argument, str)}
    assert {"dealkit Deal", "from_json", deal.to_json()} <= named


@pytest.mark.parametrize("role", ["AGENT", "TEAM_LEAD"])
def test_roles_compare_by_their_strings(role: str) -> None:
    match RoleAssignment.from_json(json.dumps({"role": role})):
        case RoleAssignment(role="AGENT" | "TEAM_LEAD" as found):
            assert (found, f"{found}", {found}) == (role, role, {role})
        case _:
            pytest.fail("a documented role must match the text that it matched before")


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({}, TypeError, "id"),
        ({"id": "d", "staus": "x"}, TypeError, "staus"),
        ({"id": "d", "contacts": [{"contactSchemaId": "x"}]}, TypeError, "contactSchemaId"),
        ({"id": "d", "quotes": 5}, TypeError, r"Deal\.quotes must be an iterable of Quote, not int"),
    ],
)
def test_invalid_deals_are_rejected(given: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        Deal(**given)


def test_to_json_with_indent(deal: Deal) -> None:
    for indent in (0, 2, 4):
        assert Deal.from_json(deal.to_json(indent=indent)) == deal
        plain = Deal.from_json(r'{"id": "a \\\" {[:,]} \\\\", "x": [ [ ] , { } , "\u0000 :", true ], "y": {"z": -1.5}}')
        assert plain.to_json(indent=indent) == json.dumps(json.loads(plain.to_json()), indent=indent)
    text = deal.to_json(indent=2)
    assert '"percent_of_commission": 10.10' in text and '"rate": 1.10,\n' in text and "1e400" in text
    deep = Deal.from_json('{"id": "d", "x": %s}' % ("[" * 50_000 + "]" * 50_000))
    assert Deal.from_json(deep.to_json(indent=2)) == deep and len(deep.to_json(indent=2)) < 200_000
    for wrong in (-1, "  ", True, 1.0):
        with pytest.raises(TypeError, match="a number of spaces"):
            deal.to_json(indent=wrong)  # type: ignore[arg-type]


def test_fields() -> None:
    named = {field.name: field for field in dealkit.fields(Deal)}
    assert tuple(named) == tuple(name for name, *_ in Deal.__dealkit_fields__)
    assert named["id"].type is str and named["id"].required and not named["id"].personal
    assert named["application"].type == Application | None
    assert named["quotes"].type == tuple[Quote, ...]
    assert named["metadata"].personal and not named["metadata"].required
    contact = dealkit.fields(dealkit.Contact(id="c"))
    assert [field.wire_name for field in contact] == ["id", "contactSchemaId", "type", "fields"]
    assert dealkit.fields(Side)[1].type == Decimal | None and dealkit.fields(Side)[1].doc == "Gross commission."
    with pytest.raises(TypeError, match="takes a model such as Deal, not int"):
        dealkit.fields(5)


def test_models_can_be_constructed() -> None:
    deal = Deal(
        id="d_1",
        status="CLOSED",
        expiry_date=date(2024, 2, 29),
        created_at=datetime(2024, 1, 31, 10, 30, tzinfo=timezone(timedelta(hours=1))),
        listing_contract=ListingContract(sale_price=7, address=Address(line1="x")),
        application=Application(offers=[Offer(percent_of_commission=Decimal("1E+3"))]),
        quotes=(quote for quote in [Quote(id="q")]),
        metadata={"a": "b"},
        extra={"new": [1, Decimal("2.50"), None]},
    )
    assert deal.created_at == datetime(2024, 1, 31, 9, 30, tzinfo=UTC)
    assert deal.created_at is not None and deal.created_at.tzinfo is UTC
    assert Deal.from_json(deal.to_json()) == deal
    document = json.loads(deal.to_json(), parse_float=str)
    assert document["new"] == [1, "2.50", None]
    assert document["application"]["offers"][0]["percent_of_commission"] == 1000
    agent = Agent(
        id="a",
        email="e",
        first_name="f",
        last_name="l",
        profile=AgentProfileResponse(client_metadata={"a": {"b": [1]}}),
        role_assignments=[RoleAssignment(role="AGENT"), RoleAssignment(role="OTHER")],
    )
    assert agent.role_assignments[0].role is Role.AGENT
    assert agent.role_assignments[1].role == "OTHER"
    assert json.loads(agent.to_json())["date_of_birth"] is None
    assert Agent.from_json(agent.to_json()) == agent
    assert agent.profile.client_metadata == {"a": {"b": [1]}}


def test_repr_shows_nothing_personal(deal: Deal) -> None:
    for personal in ("Main St", "ada@example.com", "'Ada'", ">Ada<", "crm-1", "Name", "surprise", "1.10"):
        assert personal not in repr(deal)
    for shown in ("d_1", "10.10", "450000", "cs_1", "BUYER", "soon"):
        assert shown in repr(deal)


def test_repr_shows_attributes_that_have_a_value() -> None:
    offer = Offer(id="o_1", percent_of_commission=Decimal("10.10"), created_at=datetime(2024, 1, 31, tzinfo=UTC))
    assert repr(offer) == (
        "Offer(id='o_1', percent_of_commission=Decimal('10.10'), "
        "created_at=datetime.datetime(2024, 1, 31, 0, 0, tzinfo=datetime.timezone.utc))"
    )
    deal = Deal(id="d", quotes=[Quote(id="q")], metadata={"a": "b", "c": "d"}, external_id="x", extra={"new": 1})
    assert repr(deal) == (
        "Deal(id='d', quotes=(Quote(id='q'),), metadata=<2 hidden>, external_id=<hidden>, extra=<1 hidden>)"
    )
    assert repr(RoleAssignment(role=Role.AGENT, office_id="o")) == "RoleAssignment(office_id='o', role='AGENT')"
    agent = Agent(id="a", email="e", first_name="f", last_name="l", profile=AgentProfileResponse(), role_assignments=())
    assert repr(agent) == (
        "Agent(id='a', email=<hidden>, first_name=<hidden>, last_name=<hidden>, profile=AgentProfileResponse())"
    )


UNREADABLE_DOCUMENT = """{
    "id": "d_1", "expiry_date": "CANARY", "quotes": [{"created_at": "CANARY"}, {}], "metadata": {"a": ["CANARY"]},
    "sides": "CANARY", "badge": "CANARY", "application": {"requested_amount": "CANARY", "offers": ["CANARY"]}
}"""


def test_unreadable_fields_are_serialized_and_hidden_in_repr() -> None:
    deal = Deal.from_json(UNREADABLE_DOCUMENT, on_unreadable="skip")
    pointers = ["/expiry_date", "/application/requested_amount", "/application/offers", "/quotes/0/created_at"]
    assert [field.pointer for field in deal.unreadable] == [*pointers, "/sides", "/metadata"]
    assert [field.pointer for field in deal.quotes[0].unreadable] == ["/created_at"] and not deal.quotes[1].unreadable
    assert (deal.expiry_date, deal.sides, dict(deal.metadata)) == (None, (), {})
    assert deal.get("sides") == deal.extra["sides"] == "CANARY" and deal.get("metadata") == {"a": ["CANARY"]}
    assert json.loads(deal.to_json()) == json.loads(UNREADABLE_DOCUMENT) | {"contacts": []}
    shown = repr(deal)
    assert "extra=<1 hidden>, unreadable=['expiry_date', 'sides', 'metadata'])" in shown
    assert "CANARY" not in shown + repr(deal.unreadable)
    assert deal != Deal.from_json(UNREADABLE_DOCUMENT.replace('"sides": "CANARY"', '"sides": 1'), on_unreadable="skip")


def test_unreadable_fields_can_be_replaced() -> None:
    deal = Deal.from_json(UNREADABLE_DOCUMENT, on_unreadable="skip")
    mended = deal.replace(expiry_date=date(2030, 1, 31), sides=[Side()], status="OPEN")
    assert {"/expiry_date", "/sides"}.isdisjoint(field.pointer for field in mended.unreadable)
    assert len(mended.unreadable) == len(deal.unreadable) - 2 and mended.get("sides") == [{}]
    assert deal.replace(status="OPEN").unreadable == deal.unreadable
    emptied = deal.replace(sides=None, extra={"badge": 1, "metadata": 5})
    assert emptied.extra == {"badge": 1, "metadata": 5} and "/sides" not in {one.pointer for one in emptied.unreadable}
    with pytest.raises(DecodeError):
        Deal(**deal.to_dict())
    with pytest.raises(ValueError, match='on_unreadable must be "raise" or "skip"'):
        Deal.from_json(UNREADABLE_DOCUMENT, on_unreadable="none")  # type: ignore[arg-type]


def make_agent(metadata: str) -> Agent:
    return Agent.from_json(
        f'{{"id": "a", "email": "e", "first_name": "f", "last_name": "l", "profile": {{"client_metadata": {metadata}}},'
        f'"role_assignments": []}}'
    )


def test_nested_values_of_a_model_are_immutable() -> None:
    agent = make_agent('{"k": [1], "m": {"a": 1}}')
    deal = Deal.from_json('{"id": "d", "new": {"list": [1]}, "metadata": {"a": "b"}}')
    before = agent.to_json(), agent.to_dict(), deal.to_json(), deal.to_dict(), hash(agent)
    metadata: Any = agent.profile.client_metadata
    metadata["k"].append(9)
    metadata["m"]["a"] = 9
    deal.extra["new"]["list"].append(9)
    agent.to_dict()["profile"]["client_metadata"]["k"].append(9)
    for mapping in (agent.profile.client_metadata, deal.extra, deal.metadata):
        with pytest.raises(TypeError):
            mapping["k"] = 9  # type: ignore[index]
    assert (agent.to_json(), agent.to_dict(), deal.to_json(), deal.to_dict(), hash(agent)) == before
    assert agent.profile.client_metadata == {"k": [1], "m": {"a": 1}}
    given: dict[str, Any] = {"k": [1]}
    profile = AgentProfileResponse(client_metadata=given)
    given["k"].append(2)
    assert profile.client_metadata == {"k": [1]} and profile.to_json() == '{"client_metadata":{"k":[1]}}'
