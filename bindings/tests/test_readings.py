"""The contract's vectors against every other reading of the specification: nothing breaks, and the values read are
those of the reference wherever the reading carries the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from conftest import BOTH_CLIENTS, encode_case, load_vectors, make_client, wait_for_result
from test_vectors import CREATE_CASES

from dealkit import (
    APIStatusError,
    BadRequestError,
    Client,
    ConfigError,
    Deal,
    NotFoundError,
    UnprocessableEntityError,
    ValidationError,
)
from dealkit.testing import READINGS, Sandbox

# Replaces every third integer in the reading `numbers`, and the strings of open sets in the reading `extra`.
PAST_FLOATS = 2**53 + 1
NEW = "SOMETHING_NEW"


@pytest.fixture(params=READINGS)
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    with Sandbox([], reading=request.param) as sandbox:
        yield sandbox


@pytest.fixture
def reading(sandbox: Sandbox, request: pytest.FixtureRequest) -> str:
    name: str = request.node.callspec.params["sandbox"]
    return name


def compare(reading: str, read: Any, reference: Any, place: str = "") -> None:
    """Asserts that ``read`` is what a reading makes of the model ``reference``."""
    if reading not in ("sparse", "nulls", "extra", "numbers"):
        assert read == reference, place
        return
    extra = read.extra
    if reading == "extra":
        assert any(name.startswith("x_") for name in extra), place
        extra = {name: value for name, value in extra.items() if name in reference.extra}
    assert extra == reference.extra, place
    for name, _, kind, need, *_ in reference.__dealkit_fields__:
        compare_field(reading, kind, need, getattr(read, name), getattr(reference, name), f"{place}.{name}")


def compare_field(reading: str, kind: str, need: str, read: Any, reference: Any, place: str) -> None:
    if reading == "sparse" and need != "required":
        assert read is None or len(read) == 0, place
    elif kind.startswith("["):
        assert len(read) == len(reference), place
        for at, (one, other) in enumerate(zip(read, reference, strict=True)):
            compare(reading, one, other, f"{place}[{at}]")
    elif kind[0].isupper() and reference is not None:
        compare(reading, read, reference, place)
    elif reading == "nulls" and need != "required":
        assert read is None or read == {}, place
    elif reading == "numbers" and kind == "integer":
        assert read == reference or (read == PAST_FLOATS and reference is not None), place
    elif reading == "extra" and kind in ("text", "role"):
        assert read == reference or (read == NEW and reference is not None), place
    else:
        assert read == reference, place


def test_deals(sandbox: Sandbox, client: Client, reading: str) -> None:
    found = []
    for parameters in load_vectors("deals"):
        case = parameters.values[0]
        if "error" in case["expect"]:
            continue
        document = encode_case(case)
        reference = Deal.from_json(document)
        try:
            sandbox.insert_deal(document)
            read = client.deals.retrieve(reference.id)
        except (ConfigError, ValidationError):
            continue  # JSON that is not strict, and identifiers that no path can contain.
        compare(reading, read, reference, case["name"])
        assert Deal.from_json(read.to_json()) == read
        found.append(read)
    assert len(found) >= 80


VALID = [case.values[0] for case in CREATE_CASES if case.values[0]["expect"]["status"] == 201]
INVALID = [case.values[0] for case in CREATE_CASES if case.values[0]["expect"]["status"] == 422]


@BOTH_CLIENTS
def test_agents(of_class: Any, sandbox: Sandbox, reading: str) -> None:
    client = make_client(sandbox, of_class)
    agents = [wait_for_result(client, lambda client, case=case: client.agents.create(**case["json"])) for case in VALID]  # type: ignore[misc]
    for case, agent, reference in zip(VALID, agents, sandbox.agents, strict=True):
        compare(reading, agent, reference.agent, case["name"])
    assert len(agents) >= 30
    assert {request.status for request in sandbox.requests} == {200 if reading == "ok" else 201}


def test_invalid_agents(client: Client, reading: str) -> None:
    refusal = BadRequestError if reading == "bad-request" else UnprocessableEntityError
    for case in INVALID:
        with pytest.raises(refusal) as caught:
            client.agents.create(**case["json"], validate=False)
        assert caught.value.outcome == "rejected" and caught.value.request_id, case["name"]
        errors = [[error.pointer, error.code] for error in caught.value.errors]
        assert errors == ([] if reading.startswith("errors-") else case["expect"]["errors"]), case["name"]


def test_refusals(client: Client, reading: str) -> None:
    has_problem = not reading.startswith("errors-")
    with pytest.raises(NotFoundError) as missing:
        client.deals.retrieve("none")
    with pytest.raises(APIStatusError) as invalid:
        client.request("POST", "agents", json={})
    assert (missing.value.problem is not None and missing.value.problem.title is not None) == has_problem
    assert len(invalid.value.errors) == (4 if has_problem else 0)
    text = str(missing.value)
    assert text.startswith("GET /v1/deals/{id}: 404 Not Found") and "<" not in text and "\n" not in text
    assert missing.value.request_id and missing.value.outcome == "rejected"
