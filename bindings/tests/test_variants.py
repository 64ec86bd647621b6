"""The contract's vectors with all variants: clients accept them, and read the reference's values unless the variant changes
them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from conftest import BOTH, case_bytes, made, of, vectors
from test_vectors import CREATE

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
from dealkit.testing import VARIANTS, Sandbox

# The variant `numbers` replaces every third integer with ABOVE_2_53; the variant `extra` replaces values of extensible enums
# with NEW.
ABOVE_2_53 = 2**53 + 1
NEW = "SOMETHING_NEW"


@pytest.fixture(params=VARIANTS)
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    with Sandbox([], variant=request.param) as sandbox:
        yield sandbox


@pytest.fixture
def variant(sandbox: Sandbox, request: pytest.FixtureRequest) -> str:
    name: str = request.node.callspec.params["sandbox"]
    return name


def compare(variant: str, actual: Any, reference: Any, location: str = "") -> None:
    """Asserts that ``actual`` is the model ``reference`` with the changes of the variant."""
    if variant not in ("sparse", "nulls", "extra", "numbers"):
        assert actual == reference, location
        return
    extra = actual.extra
    if variant == "extra":
        assert any(name.startswith("x_") for name in extra), location
        extra = {name: value for name, value in extra.items() if name in reference.extra}
    assert extra == reference.extra, location
    for name, _, kind, need, *_ in reference.__dealkit_fields__:
        compare_field(variant, kind, need, getattr(actual, name), getattr(reference, name), f"{location}.{name}")


def compare_field(variant: str, kind: str, need: str, actual: Any, reference: Any, location: str) -> None:
    if variant == "sparse" and need != "required":
        assert actual is None or len(actual) == 0, location
    elif kind.startswith("["):
        assert len(actual) == len(reference), location
        for at, (one, other) in enumerate(zip(actual, reference, strict=True)):
            compare(variant, one, other, f"{location}[{at}]")
    elif kind[0].isupper() and reference is not None:
        compare(variant, actual, reference, location)
    elif variant == "nulls" and need != "required":
        assert actual is None or actual == {}, location
    elif variant == "numbers" and kind == "integer":
        assert actual == reference or (actual == ABOVE_2_53 and reference is not None), location
    elif variant == "extra" and kind in ("text", "role"):
        assert actual == reference or (actual == NEW and reference is not None), location
    else:
        assert actual == reference, location


def test_deals(sandbox: Sandbox, client: Client, variant: str) -> None:
    found = []
    for parameters in vectors("deals"):
        case = parameters.values[0]
        if "error" in case["expect"]:
            continue
        document = case_bytes(case)
        reference = Deal.from_json(document)
        try:
            sandbox.insert_deal(document)
            actual = client.deals.retrieve(reference.id)
        except (ConfigError, ValidationError):
            continue  # JSON that is not strict, and identifiers that no path can contain.
        compare(variant, actual, reference, case["name"])
        assert Deal.from_json(actual.to_json()) == actual
        found.append(actual)
    assert len(found) >= 80


VALID = [case.values[0] for case in CREATE if case.values[0]["expect"]["status"] == 201]
INVALID = [case.values[0] for case in CREATE if case.values[0]["expect"]["status"] == 422]


@BOTH
def test_agents(of_class: Any, sandbox: Sandbox, variant: str) -> None:
    client = of(sandbox, of_class)
    agents = [made(client, lambda client, case=case: client.agents.create(**case["json"])) for case in VALID]  # type: ignore[misc]
    for case, agent, reference in zip(VALID, agents, sandbox.agents, strict=True):
        compare(variant, agent, reference.agent, case["name"])
    assert len(agents) >= 30
    assert {request.status for request in sandbox.requests} == {200 if variant == "ok" else 201}


def test_invalid_agents(client: Client, variant: str) -> None:
    error_class = BadRequestError if variant == "bad-request" else UnprocessableEntityError
    for case in INVALID:
        with pytest.raises(error_class) as caught:
            client.agents.create(**case["json"], validate=False)
        assert caught.value.outcome == "rejected" and caught.value.request_id, case["name"]
        errors = [[error.pointer, error.code] for error in caught.value.errors]
        assert errors == ([] if variant.startswith("errors-") else case["expect"]["errors"]), case["name"]


def test_errors(client: Client, variant: str) -> None:
    has_problem = not variant.startswith("errors-")
    with pytest.raises(NotFoundError) as missing:
        client.deals.retrieve("none")
    with pytest.raises(APIStatusError) as invalid:
        client.request("POST", "agents", json={})
    assert (missing.value.problem is not None and missing.value.problem.title is not None) == has_problem
    assert len(invalid.value.errors) == (4 if has_problem else 0)
    text = str(missing.value)
    assert text.startswith("GET /v1/deals/{id}: 404 Not Found") and "<" not in text and "\n" not in text
    assert missing.value.request_id and missing.value.outcome == "rejected"
