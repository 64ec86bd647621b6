"""``create_many`` with a ledger: results, errors, keys and arguments. The rules of ledgers are tested in
`sdk/tests/wire/ledger`.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from conftest import make_row, make_rows, row_email
from ledgers import BOTH_CALL_STYLES, create_rows, list_outcomes, make_client_without_retries

from dealkit import (
    AlreadyAttemptedError,
    ConfigError,
    DuplicateKeyError,
    IdempotencyKeyReusedWarning,
    UnprocessableEntityError,
    ValidationError,
)
from dealkit.ledger import look_up
from dealkit.params import CreateAgentParams
from dealkit.testing import Sandbox


@BOTH_CALL_STYLES
def test_creations_of_rows_that_the_ledger_knows(run: Callable[..., list[Any]], sandbox: Sandbox, ledger: Path) -> None:
    client = make_client_without_retries(sandbox)
    sandbox.fail_next(process_then_reset=True)
    sandbox.fail_next(status=422)
    started = datetime.now(UTC).replace(microsecond=0)
    first = run(client, rows=make_rows(3), ledger=ledger, concurrency=1)
    ended = datetime.now(UTC)
    assert [creation.key for creation in first] == [row_email(row) for row in make_rows(3)]

    second = run(client, rows=make_rows(3), ledger=str(ledger))
    assert list_outcomes(second) == [("unknown", True), ("rejected", True), ("succeeded", True)]
    assert [creation.result for creation in second] == ["failed", "failed", "already_created"]
    unknown, rejected, created = second
    assert isinstance(unknown.error, AlreadyAttemptedError) and unknown.error.status_code is None
    assert isinstance(rejected.error, AlreadyAttemptedError) and rejected.error.status_code == 422
    assert rejected.error.index == rejected.index == 1 and rejected.error.request_id
    assert (created.agent, created.agent_id, created.error) == (None, first[2].agent_id, None)
    assert started <= created.sent_at <= ended and pickle.loads(pickle.dumps(created)) == created

    third = run(client, rows=make_rows(3), ledger=ledger, resend_unknown=True)
    assert list_outcomes(third)[0] == ("succeeded", False) and len(sandbox.requests) == 4


@BOTH_CALL_STYLES
def test_corrected_rows_are_sent_again(run: Callable[..., list[Any]], sandbox: Sandbox, ledger: Path) -> None:
    client = make_client_without_retries(sandbox)
    sandbox.fail_next(status=422, times=2)
    sandbox.fail_next(process_then_reset=True)
    run(client, rows=make_rows(4), ledger=ledger, concurrency=1)
    rows = make_rows(4)
    for row in rows[1:]:
        row["first_name"] = "Grace"
    found = look_up(ledger, [row_email(row) for row in rows], requests=rows)
    outcomes = [(row.outcome, row.request_differs) for row in found if row]
    assert outcomes == [("rejected", False), ("rejected", True), ("unknown", True), ("succeeded", True)]

    with pytest.warns(
        IdempotencyKeyReusedWarning, match="^the agent of row 3 was created earlier from other data"
    ) as warned:
        unchanged = run(client, rows=rows, ledger=ledger)
    # The file of the code that takes the results.
    assert len(warned) == 1 and Path(warned[0].filename).name == "conftest.py"
    expected = [("rejected", True), ("rejected", True), ("unknown", True), ("succeeded", True)]
    assert list_outcomes(unchanged) == expected
    assert [creation.request_differs for creation in unchanged] == [False, True, True, True]
    for is_earlier in [False, True]:
        with pytest.warns(IdempotencyKeyReusedWarning):
            corrected = run(client, rows=rows, ledger=ledger, resend_corrected=True)
        expected[1] = ("succeeded", is_earlier)
        assert list_outcomes(corrected) == expected and len(sandbox.requests) == 5
    assert not corrected[1].request_differs


def test_recorded_rejections_are_raised_and_created_rows_returned(sandbox: Sandbox, ledger: Path) -> None:
    client = make_client_without_retries(sandbox)
    sandbox.fail_next(status=422, after=1)
    many = client.agents.create_many(make_rows(3), ledger=ledger, key=row_email, concurrency=1)
    assert next(many).outcome == "succeeded"
    with pytest.raises(UnprocessableEntityError):
        next(many)
    many.close()
    many = client.agents.create_many(make_rows(3), ledger=ledger, key=row_email, concurrency=1)
    assert next(many).from_ledger
    with pytest.raises(AlreadyAttemptedError, match="nothing was sent") as raised:
        next(many)
    assert (raised.value.outcome, raised.value.index) == ("rejected", 1)
    many.close()


def test_a_row_without_a_valid_key_fails_alone(sandbox: Sandbox, ledger: Path) -> None:
    client = make_client_without_retries(sandbox)
    keys: list[Any] = ["a", KeyError("CANARY"), 7, "", "\ud800", None, "b"]

    def key(row: CreateAgentParams) -> str:
        found = keys[int(row["email"][3])]
        if isinstance(found, Exception):
            raise found
        return found  # type: ignore[no-any-return]

    given = make_rows(7)
    given[5]["email"] = "row5"
    creations = [*client.agents.create_many(given, ledger=ledger, key=key, on_error="return")]
    assert [creation.outcome for creation in creations] == ["succeeded", *["not_sent"] * 5, "succeeded"]
    texts = [str(creation.error) for creation in creations]
    assert "the key of the row cannot be determined: KeyError" in texts[1] and "CANARY" not in texts[1]
    assert "key must return a str for each row, not int" in texts[2]
    assert "key is missing or empty" in texts[3]
    assert "UnicodeEncodeError" in texts[4]
    assert all(isinstance(creations[index].error, ConfigError) for index in range(1, 5))
    # A row's own error takes precedence over errors of the ledger.
    assert isinstance(creations[5].error, ValidationError)
    (_, twice) = create_rows(client, rows=[make_row(7), make_row(7)], ledger=ledger)
    assert isinstance(twice.error, DuplicateKeyError)
    assert (twice.error.outcome, twice.error.index, twice.error.first_index) == ("not_sent", 1, 0)


def test_invalid_ledger_options_are_rejected(sandbox: Sandbox, ledger: Path) -> None:
    create_many: Any = make_client_without_retries(sandbox).agents.create_many
    cases: list[tuple[dict[str, Any], str]] = [
        ({"ledger": ledger}, "with key="),
        ({"key": row_email}, "key needs a ledger"),
        ({"resend_unknown": True}, "resend_unknown needs a ledger"),
        ({"ledger": ledger, "key": 5}, "key must be the name of a field, or a function of a row, not int"),
        ({"resend_corrected": True}, "resend_corrected needs a ledger"),
        ({"ledger": 5, "key": row_email}, "ledger must be the path of a file, not int"),
        ({"ledger": ledger, "key": row_email, "resend_unknown": 1}, "resend_unknown must be a bool, not int"),
        ({"ledger": ledger, "key": row_email, "resend_corrected": 1}, "resend_corrected must be a bool, not int"),
        ({"ledger": ledger, "key": row_email, "wait_in_flight": 1}, "wait_in_flight must be a bool, not int"),
        ({"wait_in_flight": True}, "wait_in_flight needs a ledger"),
        ({"resolve": print}, "resolve needs a ledger"),
        (
            {"ledger": ledger, "key": row_email, "resolve": "x"},
            "resolve must be a function of an UnresolvedRow, not str",
        ),
        ({"ledger": ledger, "key": row_email, "resolve": print, "resend_unknown": True}, "exclude each other"),
    ]
    for options, text in cases:
        with pytest.raises(TypeError, match=text):
            create_many(make_rows(1), **options)
    for key in ["emial", "", "E-mail", "profile.\ud800"]:
        with pytest.raises(ValueError, match="key does not name a field of a row"):
            create_many(make_rows(1), ledger=ledger, key=key)
    assert not ledger.exists()


def test_a_row_without_its_key_field_fails_alone(sandbox: Sandbox, ledger: Path) -> None:
    given: list[Any] = make_rows(5)
    given[0]["profile"] = {"external_id": "crm-0"}
    given[1]["profile"] = {"external_id": 7}
    given[2]["profile"] = {"external_id": ""}
    given[3]["profile"] = 5
    creations = create_rows(
        make_client_without_retries(sandbox),
        rows=given,
        ledger=ledger,
        key="profile.external_id",
        validate=False,
        on_error="return",
    )
    assert [creation.outcome for creation in creations] == ["succeeded", *["not_sent"] * 4]
    texts = [str(creation.error) for creation in creations]
    assert "profile.external_id is the key of the row and must be a str, not int" in texts[1]
    assert "key is missing or empty" in texts[2]
    assert "the row has no profile.external_id to use as its key" in texts[4]
