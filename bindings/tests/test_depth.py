"""Nesting of any depth: the typed fields are read, the process survives, and what is too deep for Python objects stays
available as exact text."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from conftest import ADA, http_response

from dealkit import Client, Deal, RawJson

DEPTHS = [1, 126, 127, 128, 129, 990, 1_100, 100_000]


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


def depth_of(value: Any) -> int:
    """How deeply lists are nested, including those in text."""
    depth = 0
    while isinstance(value, list):
        depth += 1
        value = value[0] if value else None
    return depth + (value.text.count("[") if isinstance(value, RawJson) else 0)


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_created_agent_is_not_lost_to_deep_metadata(depth: int, peer: Any) -> None:
    profile = f'{{"client_metadata": {{"deep": {nested(depth)}, "n": 1.10}}}}'
    body = f'{{"id": "a_1", "email": "e", "first_name": "f", "last_name": "l", "profile": {profile}, "role_assignments": []}}'
    with Client(base_url=peer(http_response(201, body)).url, service_key="k") as client:
        agent = client.agents.create(**ADA)
        raw = client.with_raw_response.agents.create(**ADA).json()
    assert agent.id == "a_1"
    metadata = agent.profile.client_metadata
    assert metadata is not None and str(metadata["n"]) == "1.10"
    # The object that holds it counts as one of the 127 levels that are built.
    assert depth_of(metadata["deep"]) == depth
    assert depth_of(raw["profile"]["client_metadata"]["deep"]) == depth
    assert nested(depth) in agent.to_json()
    check_deep(agent)


@pytest.mark.parametrize("depth", DEPTHS)
def test_deep_undocumented_fields(depth: int) -> None:
    deal = Deal.from_json(f'{{"id": "d", "deep": {nested(depth)}, "quotes": [{{"deeper": {nested(depth)}}}]}}')
    assert depth_of(deal.extra["deep"]) == depth_of(deal.quotes[0].extra["deeper"]) == depth
    assert depth_of(deal.to_dict()["extra"]["deep"]) == depth
    check_deep(deal)


def check_deep(model: Any) -> None:
    """Does everything that can be done with a model."""
    again = type(model).from_json(model.to_json())
    assert again == model and hash(again) == hash(model)
    assert pickle.loads(pickle.dumps(model)) == model == copy.deepcopy(model) == model.__replace__()
    assert repr(model) and model.to_dict() == again.to_dict()


def test_json_that_is_too_deep_stays_exact_text() -> None:
    text = "[" * 200 + '{"rate": 1.10, "s": "]\\"["}' + "]" * 200
    deal = Deal.from_json(f'{{"id": "d", "deep": {text}}}')
    raw = deal.extra["deep"]
    for _ in range(127):
        (raw,) = raw
    assert type(raw) is RawJson and raw.text == text[127:-127]
    assert raw == RawJson(raw.text.replace("1.10", "1.1")) and hash(raw) == hash(RawJson(raw.text))
    assert raw != RawJson("[]") and raw != raw.text
    assert repr(raw) == f"RawJson(<{len(raw.text)} characters>)"
    assert pickle.loads(pickle.dumps(raw)) == copy.deepcopy(raw) == raw
    with pytest.raises(ValueError, match="text is not JSON"):
        RawJson("[")
    assert Deal(id="d", extra=deal.extra) == deal, "a model can be made of its own attributes"
