"""``agents.validate``: reports every violation in what ``create`` would send, and sends nothing."""

from __future__ import annotations

import inspect
import json
import re
from datetime import date
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from conftest import CONTRACT

from dealkit import AgentProfileParams, AsyncClient, Client, Omitted, Role
from dealkit._client.resources import AgentCalls
from dealkit.params import CreateAgentParams, RoleName
from dealkit.testing import Sandbox

VALID: dict[str, Any] = {"email": "ada@example.com", "first_name": "Ada", "last_name": "L", "profile": {"tier": "A"}}


@pytest.fixture(params=[Client, AsyncClient])
def client(request: pytest.FixtureRequest, dealkit_sandbox: Sandbox) -> Any:
    return request.param(base_url=dealkit_sandbox.url, service_key=dealkit_sandbox.service_key)


def test_nothing_is_wrong(client: Any, dealkit_sandbox: Sandbox) -> None:
    assert client.agents.validate(**VALID) == []
    more = {**VALID, "role": Role.ADMIN, "date_of_birth": date(1815, 12, 10), "image_url": None, "phone": "+1"}
    assert client.agents.validate(**more) == []
    assert dealkit_sandbox.agents == []


def test_every_field_of_the_profile_is_the_specifications() -> None:
    """AgentProfileParams has the fields of the contract, and the core knows each by its name in Python."""
    schemas = json.loads((CONTRACT / "openapi.json").read_text())["components"]["schemas"]
    client: Any = Client(base_url="http://127.0.0.1:9", service_key="k")
    names = AgentProfileParams.__annotations__.keys() - {"extra"}
    violations = client.agents.validate(**{**VALID, "profile": dict.fromkeys(names)})
    assert {one.code for one in violations} == {"null_not_allowed"}
    assert {one.pointer for one in violations} == {f"/profile/{name}" for name in schemas["AgentProfile"]["properties"]}


def test_the_roles_are_the_specifications() -> None:
    schemas = json.loads((CONTRACT / "openapi.json").read_text())["components"]["schemas"]
    assert list(get_args(RoleName)) == [role.value for role in Role] == schemas["Role"]["enum"]


def union_members(hint: Any) -> set[Any]:
    return {*get_args(hint)} if get_origin(hint) in (Union, UnionType) else {hint}


def test_the_params_are_the_arguments_of_create() -> None:
    """CreateAgentParams has what ``create`` takes, with the same types and descriptions."""
    taken = get_type_hints(AgentCalls.create)
    params = {name: union_members(hint) for name, hint in get_type_hints(CreateAgentParams).items()}
    assert taken.keys() - params.keys() == {"validate", "options", "return"}
    assert params == {name: union_members(taken[name]) - {Omitted} for name in params}
    described = " ".join(str(AgentCalls.create.__doc__).split())
    for words in re.findall(r'^    """(.*)"""$', inspect.getsource(CreateAgentParams), re.MULTILINE):
        assert words in described
