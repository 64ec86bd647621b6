"""The Python reader and the Rust reader agree on every document: on its validity, its content and its errors."""

from __future__ import annotations

import os
import re
from random import Random

import pytest
from conftest import encode_case, load_vectors, readers_agree
from entries import AGENT, DEAL

from dealkit import Agent, Deal

# The number of mutated documents for each model; `make soak` sets more.
COUNT = int(os.environ.get("DEALKIT_MUTATIONS", "3000"))

DOCUMENTS = {
    model: [
        example.encode(),
        *(encode_case(case.values[0]) for case in load_vectors(name) if "repeat" not in case.values[0]),
    ]
    for model, example, name in ((Deal, DEAL, "deals"), (Agent, AGENT, "agents"))
}

# Tokens that a mutation inserts in place of another token.
REPLACEMENT_TOKENS = [token.encode() for token in [
    "null", "true", "0", "-0", "1.0", "1.50e1", "1e400", "-", "01", "-1.", "1.e5", "0.0000000000000001", "9" * 30, "4.50E2",
    "9223372036854775807", "9223372036854775808", "-9223372036854775808", "79228162514264337593543950335", "0." + "1" * 29,
    "999999999999999999", "1234567890123456789", "12345678901234567.8", "0.10", "0.1", "-0.0", "1E-28", "1e-29", '""', '"x"',
    '"2024-02-30"', '"2024-02-29"', '"0000-01-01"', '"2024-2-29"', '"2024-02-29T12:00:00Z"', '"2024-02-29T24:00:00Z"',
    '"2024-06-30T23:59:60.5Z"', '"9999-12-31T23:59:59.999999999-01:00"', '"2024-01-31t09:30:00.1234567890z"',
    '"2024-01-31 09:30:00"', '"2024-01-31T09:30:00.Z"', '"2024-01-31T09:30:00+05:30"', '"2024-01-31T09:30:00.000001000Z"',
    '"\\ud800"', '"\\u0000"', '"\\u0041\\n\\/\\uD83D\\uDE00"', '"fifteen letters"', '"sixteen letters."', '"é\u2028\U0001f600"',
    "[]", "{}", "[null]", "[{}]", '{"id":null}', '{"id":"a","id":"b"}', "[" * 300 + "]" * 300, '{"a":"b","a":"c"}',
    '"id":', '"extra":1,', '"i\\u0064":', '"created_at":null,', '"created_at":"2024-01-31T09:30:00.123456789Z",', '"sides":[],',
    ",", ":", "}", "{", "]", "[", " ", "\n", "\t", "\v", '"', "\\", "\x00", "\x1f", "\x7f", "é", "\ufeff", "NaN", "Infinity",
]] + [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf0\x9f\x98"]  # fmt: skip

TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[^\s"{}\[\],:]+|.', re.DOTALL)


def token_kind(token: bytes) -> str:
    """Returns the kind of a token. Mutations often replace a token by another of its kind, so that many documents stay
    valid.
    """
    return "string" if token[:1] == b'"' else "number" if token[:1] in b"-0123456789" else token[:1].decode("latin-1")


TOKENS_BY_KIND: dict[str, list[bytes]] = {"string": [], "number": []}
for token in REPLACEMENT_TOKENS:
    if token_kind(token) in TOKENS_BY_KIND and token[-1:] not in b":,":
        TOKENS_BY_KIND[token_kind(token)].append(token)


def mutate(document: bytes, random: Random) -> bytes:
    """Replaces, drops, duplicates, moves or cuts some tokens of a document."""
    tokens = TOKEN.findall(document)
    for _ in range(random.choice([1, 1, 1, 2, 3])):
        tokens = [token for token in tokens if token]
        if not tokens:
            break
        at, other = random.randrange(len(tokens)), random.randrange(len(tokens))
        token = random.choice(REPLACEMENT_TOKENS) if random.random() < 0.9 else random.randbytes(random.randrange(1, 4))
        match random.randrange(14):
            case 0 | 1:
                tokens[at] = token
            case 2:
                tokens.insert(at, token)
            case 3:
                del tokens[at]
            case 4:
                tokens[at:at] = tokens[at : at + random.randrange(1, 12)]
            case 5:
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case 6:
                tokens[at] = tokens[at][: random.randrange(len(tokens[at]))]
            case 7 if tokens[at] in b",:{}[]":
                tokens[at] = random.choice([b" %b", b"%b  ", b"\n%b\t", b"\r\n%b"]) % tokens[at]
            case _:
                tokens[at] = random.choice(TOKENS_BY_KIND.get(token_kind(tokens[at]), [tokens[at]]))
    document = b"".join(tokens)
    return document if random.random() < 0.98 else document[: random.randrange(len(document) + 1)]


@pytest.mark.parametrize("model", DOCUMENTS, ids=lambda model: model.__name__)
def test_both_readers_agree_on_vectors_and_mutations(model: type[Deal] | type[Agent], seeded_random: Random) -> None:
    readable = [document for document in DOCUMENTS[model] if readers_agree(model, document)]
    assert 20 <= len(readable) <= len(DOCUMENTS[model]) - 20
    read = 0
    for _ in range(COUNT):
        document = mutate(
            seeded_random.choice(seeded_random.choice([readable, readable, DOCUMENTS[model]])), seeded_random
        )
        try:
            read += readers_agree(model, document)
        except BaseException as error:
            error.add_note(f"of the document {document!r}")
            raise
    # The test is meaningful only if it has many valid and many invalid documents.
    assert COUNT * 0.2 < read < COUNT * 0.8
