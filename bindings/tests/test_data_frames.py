"""Data frames of pandas and polars as rows of create_many."""

from __future__ import annotations

from typing import Any

import pandas
import polars
import pytest
from conftest import BOTH, made, of

from dealkit import Client, ValidationError
from dealkit.testing import Sandbox

PEOPLE: dict[str, list[Any]] = {
    "email": ["ada@example.com", "grace@example.com"],
    "first_name": ["Ada", "Grace"],
    "last_name": ["Lovelace", None],
    "phone": [None, "+15550100"],
    "profile.tier": ["A", None],
    "profile.client_metadata": [{"n": 1}, None],
}
BORN = ["1815-12-10", None]
FRAMES = {
    "pandas": lambda: pandas.DataFrame(PEOPLE).assign(date_of_birth=pandas.to_datetime(BORN)),
    "pandas, strings": lambda: pandas.DataFrame(PEOPLE).convert_dtypes().assign(date_of_birth=BORN),
    "polars": lambda: polars.DataFrame(PEOPLE).with_columns(date_of_birth=polars.Series(BORN).str.to_date()),
}


@BOTH
@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES.keys())
def test_a_data_frame_is_rows_by_name(frame: Any, of_class: Any, dealkit_sandbox: Sandbox) -> None:
    client, seen = of(dealkit_sandbox, of_class), []

    def progress(done: int, total: int | None) -> None:
        seen.append((done, total))

    def create(client: Any) -> Any:
        return client.agents.create_many(frame(), on_error="return", progress=progress)

    ada, grace = made(client, create)
    assert ada.outcome == "succeeded" and seen[-1] == (2, 2)
    assert isinstance(grace.error, ValidationError)
    assert [violation.pointer for violation in grace.error.errors] == ["/last_name"]
    [created] = dealkit_sandbox.agents
    assert created.sent == {
        "email": "ada@example.com",
        "first_name": "Ada",
        "last_name": "Lovelace",
        "date_of_birth": "1815-12-10",
        "profile": {"tier": "A", "clientMetadata": {"n": 1}},
    }


def test_a_key_in_a_data_frame(client: Client, tmp_path: Any) -> None:
    people = pandas.DataFrame(PEOPLE).iloc[:1]
    results = [
        [creation.result for creation in client.agents.create_many(people, ledger=tmp_path / "l", key="email")]
        for _ in range(2)
    ]
    assert results == [["created"], ["created_before"]]


def test_a_frame_that_was_not_collected(client: Client) -> None:
    lazy: Any = polars.LazyFrame(PEOPLE)
    with pytest.raises(TypeError, match="rows must be an iterable of mappings, not LazyFrame"):
        client.agents.create_many(lazy)
