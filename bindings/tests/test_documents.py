"""The readers of both languages accept every document that conforms to openapi.json."""

from __future__ import annotations

import json
import os
from decimal import Decimal
from typing import Any

import jsonschema_rs
import pytest
from conftest import CONTRACT, agree, answer
from documents import Documents

from dealkit import Agent, APIStatusError, Client, Deal

OPENAPI = json.loads((CONTRACT / "openapi.json").read_text())
SCHEMAS = OPENAPI["components"]["schemas"]

# The number of documents of each schema; `make soak` asks for more, and another seed makes others.
COUNT = int(os.environ.get("DEALKIT_DOCUMENTS", "1000"))
SEED = int(os.environ.get("DEALKIT_DOCUMENTS_SEED", "0"))


def documents(name: str) -> list[bytes]:
    """Documents that another validator confirms to be valid."""
    schema = {"$ref": f"#/components/schemas/{name}", "components": OPENAPI["components"]}
    validator = jsonschema_rs.Draft202012Validator(schema, validate_formats=True)
    made = Documents(SCHEMAS, SEED)
    texts = [made.make(name) for _ in range(COUNT)]
    for text in texts:
        validator.validate(json.loads(text, parse_float=Decimal))
    return [text.encode() for text in texts]


@pytest.mark.parametrize("model", [Deal, Agent], ids=lambda model: model.__name__)
def test_both_readers_read_every_document(model: type[Deal] | type[Agent]) -> None:
    for document in documents(model.__name__):
        assert agree(model, document), document


def test_clients_read_every_problem(peer: Any) -> None:
    bodies = documents("Problem")
    headers = {"Content-Type": "application/problem+json"}
    left = iter(bodies)
    server = peer(lambda _: answer(422, next(left), headers))
    with Client(base_url=server.url, service_key="k", max_retries=0) as client:
        for body in bodies:
            with pytest.raises(APIStatusError) as caught:
                client.deals.retrieve("d_1")
            problem, sent = caught.value.problem, json.loads(body)
            assert problem is not None, body
            for name in ("type", "title", "status", "detail", "request_id"):
                assert getattr(problem, name) == sent[name], body
            found = [(error.pointer, error.code, error.detail) for error in problem.errors]
            assert found == [(error["pointer"], error["code"], error["detail"]) for error in sent.get("errors", [])], (
                body
            )
