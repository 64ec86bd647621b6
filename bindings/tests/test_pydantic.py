"""Models and arguments in pydantic and FastAPI: exact numbers, undocumented fields, schemas."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pydantic
import pytest
from conftest import CONTRACT, encode_case, load_vectors, resolve_pointer
from hypothesis import given
from hypothesis import strategies as st
from processes import start_python, wait_for_success
from pydantic import BaseModel, TypeAdapter
from pydantic_core import PydanticSerializationError

import dealkit
from dealkit import (
    AgentProfileParams,
    Contact,
    CreateAgentParams,
    Deal,
    Offer,
    RawJson,
    Side,
)

MODELS: list[Any] = [
    value for name in dealkit.__all__ if hasattr(value := getattr(dealkit, name), "__dealkit_fields__")
]

DOCUMENT = """{"id": "d_1", "status": "CLOSED", "expiry_date": "2024-02-29",
  "created_at": "2024-01-31T10:30:00.123456789+01:00", "new": {"rate": 1.10, "n": 12345678901234567890, "a": [null]},
  "application": {"requested_amount": 1234567890123456789012.3456, "offers": [{"percent_of_commission": 10.10}]},
  "contacts": [{"contactSchemaId": "cs_1", "fields": [{"fieldSchemaId": "fs_1", "value": "Ada"}]}],
  "quotes": [{"estimated_amount_min": 9007199254740993}], "sides": [{"side_percentage": 1.50e1, "extra": {"x": 1}}],
  "metadata": {"a": "1"}}"""


class Envelope(BaseModel):
    deal: Deal
    best: Offer | None = None
    note: str = ""


@pytest.fixture
def deal() -> Deal:
    return Deal.from_json(DOCUMENT)


def test_a_model_is_a_field_of_a_pydantic_model(deal: Deal) -> None:
    envelope = Envelope(deal=deal, best=Offer(percent_of_commission=Decimal("10.10")))
    assert envelope.deal is deal
    text = envelope.model_dump_json()
    assert '"percent_of_commission":"10.10"' in text and '"requested_amount":"1234567890123456789012.3456"' in text
    assert '"created_at":"2024-01-31T09:30:00.123456789Z"' in text and '"contactSchemaId":"cs_1"' in text
    assert '"estimated_amount_min":9007199254740993' in text and '"rate":"1.10",' in text
    again = Envelope.model_validate_json(text)
    assert again == Envelope.model_validate(json.loads(text)) == Envelope.model_validate(again.model_dump(mode="json"))
    # The undocumented number is now a string.
    assert again.deal.replace(extra={}) == deal.replace(extra={})
    assert envelope.model_dump()["deal"] is deal and Envelope.model_validate(envelope.model_dump()) == envelope


def test_pydantic_accepts_python_values() -> None:
    # Contains models, other mapping types and other number types.
    mixed = {"id": "d", "sides": [Side(agent_units=1)], "contacts": ({"contactSchemaId": "c"},)}
    assert Envelope.model_validate({"deal": mixed}).deal == Deal(
        id="d", sides=[Side(agent_units=1)], contacts=[Contact(contact_schema_id="c")]
    )


@pytest.mark.parametrize("case", [case for case in load_vectors("deals") if "repeat" not in case.values[0]])
def test_pydantic_round_trips_every_deal_vector(case: dict[str, Any]) -> None:
    try:
        deal = Deal.from_json(encode_case(case), on_unreadable="skip")
    except dealkit.DecodeError:
        return
    adapter = TypeAdapter(Deal)
    try:
        dumped = adapter.dump_json(deal)
    except PydanticSerializationError as error:
        assert "to_json()" in str(error) or "surrogates" in str(error) or "Circular" in str(error)
        return
    for field in deal.unreadable:
        # A number of an unreadable decimal field also becomes a string.
        assert resolve_pointer(json.loads(dumped), field.pointer) in (json.loads(field.json.text), field.json.text)
    if not deal.unreadable:
        assert numbers_to_strings(adapter.validate_json(dumped)) == numbers_to_strings(deal)


def numbers_to_strings(deal: Deal) -> Any:
    return json.loads(deal.to_json(), parse_float=str)


@given(
    st.decimals(allow_nan=False, allow_infinity=False, places=None).filter(lambda one: len(one.as_tuple().digits) < 29)
)
def test_no_decimal_changes(number: Decimal) -> None:
    try:
        side = Side(side_percentage=number)
    except ValueError:
        return
    adapter = TypeAdapter(Side)
    assert adapter.validate_json(adapter.dump_json(side)) == side
    assert str(adapter.validate_json(adapter.dump_json(side)).side_percentage) == str(side.side_percentage)


@pytest.mark.parametrize(
    ("document", "location", "text"),
    [
        ("5", (), "a Deal or an object"),
        ("{}", ("id",), "a required field is missing"),
        ('{"id": 5}', ("id",), "expected a string, found a number"),
        ('{"id": "d", "sides": [{}, {"side_percentage": "x"}]}', ("sides", 1, "side_percentage"), "28 digits"),
        ('{"id": "d", "sides": [{"side_percentage": "null"}]}', ("sides", 0, "side_percentage"), "found a string"),
        ('{"id": "d", "sides": [{"side_percentage": "1e99"}]}', ("sides", 0, "side_percentage"), "28 digits"),
        ('{"id": "d", "sides": [{"side_percentage": "12 "}, 5]}', ("sides", 1), "found a number"),
        ('{"id": "d", "sides": [{"side_percentage": 123456789012345678.12}]}', ("sides", 0, "side_percentage"), "lost"),
        ('{"id": "d", "sides": [{"side_percentage": 1e400}]}', ("sides", 0, "side_percentage"), "lost digits"),
        ('{"id": "d", "quotes": [{"estimated_amount_min": 9007199254740993.0}]}', None, "lost digits"),
        ('{"id": "d", "ada@example.com": {"a": [0.1234567890123456789]}}', ("*",), "read the JSON with from_json"),
        ('{"id": "d", "metadata": {"ada@example.com": 5}}', ("metadata", "*"), "expected a string"),
        ('{"id": "d", "expiry_date": "ada@example.com"}', ("expiry_date",), "found another string"),
    ],
)
def test_invalid_deals_are_rejected(document: str, location: tuple[str | int, ...] | None, text: str) -> None:
    for validate in (TypeAdapter(Deal).validate_json, lambda it: TypeAdapter(Deal).validate_python(json.loads(it))):
        with pytest.raises(pydantic.ValidationError, match=text) as caught:
            validate(document)
        (error,) = caught.value.errors()
        assert location in (None, error["loc"]) and error["input"] == "<hidden>"
        assert "ada@" not in str(caught.value)


def test_pydantic_rejects_invalid_python_values() -> None:
    endless: list[Any] = []
    endless.append(endless)
    moment = {"created_at": datetime(2024, 1, 1, tzinfo=UTC)}
    wrongs: list[dict[Any, Any]] = [{"new": {1}}, {"new": endless}, {1: 2}, moment, {"metadata": {"a": 1}}]
    for wrong in wrongs:
        with pytest.raises(pydantic.ValidationError):
            TypeAdapter(Deal).validate_python({"id": "d", **wrong})


def test_an_undocumented_number_keeps_its_digits() -> None:
    for value in ("123456789012345678.12", "51.507350912345670", "1e400"):
        deal = Deal.from_json('{"id": "d", "new": %s}' % value)
        assert TypeAdapter(Deal).dump_python(deal, mode="json")["new"] == value
    for value in ("9" * 5000, "[" * 5000 + "]" * 5000):
        deal = Deal.from_json('{"id": "d", "ada@example.com": {"x": %s}}' % value)
        with pytest.raises(PydanticSerializationError) as caught:
            TypeAdapter(Deal).dump_json(deal)
        assert "ada@" not in str(caught.value)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("mode", ["validation", "serialization"])
def test_the_pydantic_schema_has_the_documented_fields(model: Any, mode: Any) -> None:
    schema = TypeAdapter(model).json_schema(mode=mode)
    schema = schema if "properties" in schema else schema["$defs"][model.__name__]
    assert schema["title"] == model.__name__ and schema["description"] and schema["additionalProperties"] is True
    fields = dealkit.fields(model)
    assert list(schema["properties"]) == [field.wire_name for field in fields]
    for field in fields:
        described = schema["properties"][field.wire_name]
        assert described["description"] == field.doc
        assert (field.wire_name in schema.get("required", ())) == field.required
        assert field.required or {"type": "null"} in described["anyOf"]
        assert ({"type": "number"} in described.get("anyOf", ())) == (
            field.type == Decimal | None and mode == "validation"
        )


VALID: dict[str, Any] = {"email": "ada@example.com", "first_name": "Ada", "last_name": "L", "profile": {"tier": "A"}}


def test_pydantic_applies_every_validation_rule_to_arguments() -> None:
    adapter = TypeAdapter(CreateAgentParams)
    full = {**VALID, "role": "AGENT", "image_url": None, "date_of_birth": "1815-12-10", "extra": {"referral": 1}}
    extra = {"new": [1.5, None]}
    full["profile"] = {"external_id": "crm-17", "extra": extra, "client_metadata": {"a": 0.1 + 0.2}}
    assert adapter.validate_python(full) == full == adapter.validate_json(json.dumps(full))
    born = date(1815, 12, 10)
    assert adapter.validate_python({**VALID, "date_of_birth": born}).get("date_of_birth") == born
    wrong = {
        "email": "no",
        "first_name": "",
        "profile": {"tier": 5, "canary@example.com": {1}},
        "emial": "x",
        "role": "X",
    }
    with pytest.raises(pydantic.ValidationError) as caught:
        adapter.validate_python(wrong)
    assert {(error["loc"], error["type"]) for error in caught.value.errors()} == {
        (("emial",), "extra_forbidden"),
        (("email",), "invalid_email"),
        (("first_name",), "too_short"),
        (("last_name",), "required"),
        (("profile", "tier"), "wrong_type"),
        (("profile", "*"), "wrong_type"),
        (("role",), "unknown_value"),
    }
    messages = {error["loc"]: error["msg"] for error in caught.value.errors()}
    assert messages["emial",] == 'is not a documented field; did you mean "email"?'
    assert "canary" not in str(caught.value)
    for rejected in (5, {**VALID, "profile": {"user_id": "a", "userId": "b"}}):
        with pytest.raises(pydantic.ValidationError):
            adapter.validate_python(rejected)


def test_locations_name_the_misspelt_field_and_messages_its_correction() -> None:
    profile = {"exernal_id": "x", "teir": "A", "canary@example.com": 1, "user_id": 5, "mlsId": 6}
    misspelt = {**VALID, "frst_name": "Ada", "a/b~c": 1, "profile": profile}
    expected = {
        ("frst_name",): 'did you mean "first_name"?',
        ("a/b~c",): "check the spelling",
        ("profile", "exernal_id"): 'did you mean "external_id"? (undocumented fields go into profile["extra"])',
        ("profile", "teir"): 'did you mean "tier"?',
        ("profile", "*"): "check the spelling",
        ("profile", "user_id"): "must be a string, got a number",
        ("profile", "mlsId"): "must be a string, got a number",
    }
    with pytest.raises(pydantic.ValidationError) as caught:
        TypeAdapter(CreateAgentParams).validate_python(misspelt)
    found = {error["loc"]: error["msg"] for error in caught.value.errors()}
    assert found.keys() == expected.keys()
    for location, text in expected.items():
        assert text in found[location]
    with pytest.raises(pydantic.ValidationError) as caught:
        TypeAdapter(AgentProfileParams).validate_python(profile)
    assert {error["loc"] for error in caught.value.errors()} == {(name,) for _, *names in expected for name in names}

    # The messages of the client's own checks name the same fields.
    untyped: Any = misspelt
    violations = "; ".join(map(str, dealkit.validate_agent(**untyped)))
    with dealkit.Client(base_url="http://127.0.0.1:9", service_key="k") as client:
        (creation,) = client.agents.create_many([untyped], on_error="return")
    for text in (violations, repr(dealkit.validate_agent(**untyped)), str(creation.error)):
        for pointer in ("/frst_name", "/profile/exernal_id", "/profile/teir", "/profile/*"):
            assert pointer in text
        assert "canary@" not in text and "a/b~c" not in text


def test_the_pydantic_schema_is_the_contracts() -> None:
    contract = json.loads((CONTRACT / "openapi.json").read_text())["components"]["schemas"]
    schema = TypeAdapter(CreateAgentParams).json_schema()
    definitions = schema["$defs"]
    assert definitions.keys() == {"AgentProfileParams", "Role"}
    assert definitions["Role"]["enum"] == contract["Role"]["enum"]
    for documented, properties in (
        (contract["CreateAgent"]["properties"], schema["properties"]),
        (contract["AgentProfile"]["properties"], definitions["AgentProfileParams"]["properties"]),
    ):
        by_wire_name = {name.replace("_", ""): field for name, field in properties.items() if name != "extra"}
        assert by_wire_name.keys() == {name.replace("_", "").lower() for name in documented}
        for name, field in documented.items():
            found = by_wire_name[name.replace("_", "").lower()]
            for keyword in {*field} - {"$ref"}:
                assert found[keyword] == field[keyword], (name, keyword)
            assert ("$ref" in found) == ("$ref" in field)
    assert "date_of_birth" in schema["properties"] and schema["properties"]["extra"]["description"]


def test_the_pydantic_schema_of_arguments() -> None:
    schema = TypeAdapter(CreateAgentParams).json_schema()
    profile = schema["$defs"]["AgentProfileParams"]
    assert schema["properties"].keys() == CreateAgentParams.__annotations__.keys()
    assert set(schema["required"]) == {"email", "first_name", "last_name", "profile"}
    assert profile["properties"].keys() == AgentProfileParams.__annotations__.keys() and "required" not in profile
    assert schema["additionalProperties"] is profile["additionalProperties"] is False


def test_pydantic_validates_a_profile_alone() -> None:
    class Row(BaseModel):
        profile: AgentProfileParams

    given = {"tier": "A", "externalId": "x", "extra": {"something_new": 5}, "client_metadata": {"a": 1}}
    assert Row.model_validate({"profile": given}).profile == given
    for wrong in ({"tier": 5}, {"teir": "A"}, 5):
        with pytest.raises(pydantic.ValidationError, match=r"profile"):
            Row.model_validate({"profile": wrong})


def test_dealkit_does_not_import_pydantic() -> None:
    script = """
import sys
import dealkit
from dealkit import *
Client(base_url="http://127.0.0.1:9", service_key="k").agents.validate(email="no")
Deal.from_json('{"id": "d"}'), CreateAgentParams, fields(Deal)
assert not [name for name in sys.modules if name.startswith(("pydantic", "typing_extensions"))]
"""
    wait_for_success(start_python(script))


def test_deeply_nested_fields_are_serialized() -> None:
    deep = TypeAdapter(Deal).validate_python({"id": "d", "new": RawJson("[1.10, 123456789012345678.12]")})
    assert "123456789012345678.12" in deep.to_json()
