"""The readers of both languages accept every document that conforms to openapi.json."""

from __future__ import annotations

import json
import os
from decimal import Decimal
from typing import Any

import jsonschema_rs
import pytest
from conftest import http_response, readers_agree
from documents import COMPONENTS, document_texts
from hypothesis import given, settings

from dealkit import Agent, APIStatusError, Client, Deal

# The number of documents of each schema; `make soak` sets more.
COUNT = int(os.environ.get("DEALKIT_DOCUMENTS", "100"))
many = settings(max_examples=COUNT)


def parse_valid(name: str, document: str) -> Any:
    """Parses a document, and asserts with another validator that it conforms to the schema."""
    schema = {"$ref": f"#/components/schemas/{name}", "components": COMPONENTS}
    found = json.loads(document, parse_float=Decimal)
    jsonschema_rs.Draft202012Validator(schema, validate_formats=True).validate(found)
    return found


@pytest.mark.parametrize("model", [Deal, Agent], ids=lambda model: model.__name__)
def test_both_readers_read_every_document(model: type[Deal] | type[Agent]) -> None:
    @many
    @given(document_texts(model.__name__))
    def check(document: str) -> None:
        parse_valid(model.__name__, document)
        assert readers_agree(model, document.encode())

    check()


def test_clients_read_every_problem(peer: Any) -> None:
    sent: list[str] = []
    server = peer(lambda _: http_response(422, sent[-1], {"Content-Type": "application/problem+json"}))
    with Client(base_url=server.url, service_key="k", max_retries=0) as client:

        @many
        @given(document_texts("Problem"))
        def check(document: str) -> None:
            sent.append(document)
            with pytest.raises(APIStatusError) as caught:
                client.deals.retrieve("d_1")
            problem, expected = caught.value.problem, parse_valid("Problem", document)
            assert problem is not None
            for name in ("type", "title", "status", "detail", "request_id"):
                assert getattr(problem, name) == expected[name]
            found = [(error.pointer, error.code, error.detail) for error in problem.errors]
            errors = expected.get("errors", [])
            assert found == [(error["pointer"], error["code"], error["detail"]) for error in errors]

        check()
