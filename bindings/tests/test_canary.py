"""No message, log or repr contains the service key or personal data."""

from __future__ import annotations

import json
import logging
import re
import traceback
from typing import Any

import pytest
from conftest import http_response

from dealkit import APIStatusError, Client, DealkitError, DecodeError, ValidationError
from dealkit.testing import Sandbox

KEY = "sk-canary-0b5e1f"
PERSON = "Canary Lovelace"
ID = "d_canary"

ADA: Any = {"email": "canary@example.com", "first_name": PERSON, "last_name": PERSON, "profile": {"tier": PERSON}}
OF_RECORD = re.compile(rf"^\[?(?:(?:Deal|Agent)\(id='(?:a_)?{ID}'|Creation\(index=\d+, agent_id='a_{ID}')")
CANARIES = (KEY, PERSON, ID, "canary@example.com")


def check(*texts: str) -> None:
    for text in texts:
        for canary in CANARIES:
            assert canary not in text


def texts_of(error: BaseException) -> list[str]:
    lines = traceback.TracebackException.from_exception(error)
    return [str(error), repr(error), "".join(lines.format_exception_only())]


def provoke(client: Client) -> list[str]:
    """Returns the messages of errors of every kind, and reprs."""
    texts = [repr(client), str(client), repr(client.deals), repr(client.with_raw_response)]
    wrong: Any = {**ADA, "first_name": PERSON * 100, "email": PERSON}
    rows: Any = [ADA, wrong, {PERSON: PERSON}, PERSON]
    calls = (
        lambda: client.deals.retrieve(ID),
        lambda: client.agents.create(**ADA),
        lambda: client.agents.create(**wrong),
        lambda: client.request("GET", "x", ID),
        lambda: list(client.deals.retrieve_many([ID])),
        lambda: list(client.agents.create_many(rows, on_error="return")),
        lambda: client.agents.create_many([ADA]),
        lambda: list(client.agents.create_many([wrong])),
    )
    for call in calls:
        try:
            value = call()
        except DealkitError as error:
            texts += texts_of(error)
        else:
            texts.append(repr(value))
    return texts


@pytest.mark.parametrize("status", [200, 201, 302, 401, 422, 500])
@pytest.mark.parametrize(
    "body",
    [
        json.dumps({"id": ID, "expiry_date": PERSON}),
        json.dumps({"title": f"key {KEY} wrong", "detail": "x"}),
        "",
        f"<h1>{PERSON}</h1>",
        json.dumps({"id": ID, "metadata": {PERSON: PERSON}, "external_id": PERSON}),
        json.dumps({"id": f"a_{ID}", **ADA, "role_assignments": []}),
    ],
)
def test_every_text(status: int, body: str, peer: Any, caplog: pytest.LogCaptureFixture) -> None:
    headers = {"Location": f"https://other.example.com/{ID}"}
    server = peer(http_response(status, body, headers))
    with caplog.at_level(logging.DEBUG):
        with Client(base_url=server.url, service_key=KEY, max_retries=0) as client:
            texts = provoke(client)
    # Only the reprs of a model and of a Creation contain an identifier: the object's own.
    check(*(OF_RECORD.sub("", text) for text in texts), caplog.text)
    assert "dealkit" in {record.name for record in caplog.records}


def test_reprs_of_models_and_sandbox() -> None:
    deal = {"id": "d", "metadata": {"a": PERSON}, "contacts": [{"fields": [{"value": PERSON, "label": PERSON}]}]}
    with Sandbox([deal], service_key=KEY) as sandbox:
        with Client(base_url=sandbox.url, service_key=KEY) as client:
            found = client.deals.retrieve("d")
            agent = client.agents.create(**ADA)
            check(repr(found), repr(agent), repr(agent.profile))
            check(repr(found.contacts), repr(sandbox), repr(sandbox.agents))


def test_wrong_keys() -> None:
    for wrong in (f"{KEY} ", f"{KEY}\n", f"{KEY}\u00e9"):
        with pytest.raises(DealkitError) as caught:
            Client(base_url="http://127.0.0.1:1", service_key=wrong)
        check(*texts_of(caught.value))
    with pytest.raises(TypeError) as type_error:
        Client(base_url="http://127.0.0.1:1", service_key=KEY.encode())  # type: ignore[arg-type]
    check(*texts_of(type_error.value))
    with pytest.raises(DealkitError) as caught:
        Client(base_url=f"https://{KEY}:x@deals.example.com", service_key="k")
    check(*texts_of(caught.value))


def test_names_that_are_data_are_in_no_message(peer: Any) -> None:
    for body in (
        f'{{"id": "d", "metadata": {{"a": "b", "{PERSON}": 5}}}}',
        f'{{"id": "d", "metadata": {{"{PERSON}": null}}}}',
    ):
        with Client(base_url=peer(http_response(200, body)).url, service_key="k") as client:
            with pytest.raises(DecodeError, match=r"metadata\[entry [12]\]") as caught:
                client.deals.retrieve("d")
        assert PERSON not in str(caught.value) + repr(caught.value) + caught.value.path
        assert PERSON in caught.value.pointer
    wrong: Any = {**ADA, "profile": {"client_metadata": {PERSON: {1}}}}
    with pytest.raises(ValidationError) as invalid:
        Client(base_url="http://127.0.0.1:9", service_key="k").agents.create(**wrong)
    (violation,) = invalid.value.errors
    assert violation.pointer == f"/profile/clientMetadata/{PERSON}"
    assert str(violation) == str(invalid.value).partition(": ")[2]
    for text in (str(invalid.value), repr(invalid.value), str(violation), repr(violation), repr(invalid.value.errors)):
        assert PERSON not in text and "/profile/clientMetadata/*" in text


def test_control_characters_of_a_title_are_removed(peer: Any) -> None:
    title = "a\u202eb\u2066c\u2028d\u200fe\x1b[31mf\ng"
    with Client(base_url=peer(http_response(400, json.dumps({"title": title}))).url, service_key="k") as client:
        with pytest.raises(APIStatusError) as caught:
            client.deals.retrieve("d")
    text = str(caught.value)
    assert not set("\u202e\u2066\u2028\u200f\x1b\n") & set(text), ascii(text)
    assert caught.value.problem is not None and caught.value.problem.title == title
