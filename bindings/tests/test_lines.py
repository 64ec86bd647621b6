"""Many documents at once: arrays, and documents one per line."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable
from decimal import Decimal

import pytest

from dealkit import Agent, Deal, DecodeError

EXPORT = """\ufeff{"id": "d_1", "sides": [{"side_percentage": 10.10}]}\r
{"id": "d_2", "expiry_date": "soon"}

{"id": "d_3"
{"id": "d_4"}"""


@pytest.mark.parametrize("form", ["text", "bytes", "list"])
def test_lines_are_read_one_at_a_time_and_an_error_names_its_own(form: str) -> None:
    forms: dict[str, Iterable[str | bytes]] = {
        "text": io.StringIO(EXPORT, newline=""),
        "bytes": io.BytesIO(EXPORT.encode()),
        "list": EXPORT.split("\n"),
    }
    deals = Deal.from_json_lines(forms[form])
    first = next(deals)
    assert (first.id, first.sides[0].side_percentage) == ("d_1", Decimal("10.10"))
    with pytest.raises(DecodeError, match=r"^line 2: at expiry_date: expected a date") as caught:
        next(deals)
    assert (caught.value.line, caught.value.path) == (2, "expiry_date")
    assert caught.value.body.strip() == b'{"id": "d_2", "expiry_date": "soon"}'
    assert pickle.loads(pickle.dumps(caught.value)).line == 2
    with pytest.raises(DecodeError, match=r"^line 4: .*the document ends early, column \d+$"):
        next(deals)
    # Neither the earlier error nor this one ends the iteration.
    assert [deal.id for deal in deals] == ["d_4"]
    assert list(deals) == []


def test_lines_are_taken_only_as_they_are_asked_for() -> None:
    endless = (f'{{"id": "d_{n}"}}' for n in iter(int, 1))
    assert next(Deal.from_json_lines(endless)).id == "d_0"


def test_an_array_is_a_list() -> None:
    deals = Deal.list_from_json('[{"id": "d_1"}, {"id": "d_2", "status": "CLOSED"}]')
    assert deals == [Deal(id="d_1"), Deal(id="d_2", status="CLOSED")]
    assert Deal.list_from_json(b"\xef\xbb\xbf[]") == []
    with pytest.raises(DecodeError) as caught:
        Deal.list_from_json('[{"id": "d_1"}, {"id": "d_2", "expiry_date": 5}]')
    assert (caught.value.path, caught.value.pointer) == ("[1].expiry_date", "/1/expiry_date")
    assert caught.value.line is None
    with pytest.raises(DecodeError, match="expected an array"):
        Deal.list_from_json('{"id": "d_1"}')
    with pytest.raises(DecodeError, match="email"):
        Agent.list_from_json('[{"id": "a_1"}]')


@pytest.mark.parametrize("wrong", ['{"id": "d_1"}', b"{}"])
def test_one_document_is_not_taken_for_lines(wrong: object) -> None:
    with pytest.raises(TypeError, match="takes an iterable of lines, such as an open file"):
        Deal.from_json_lines(wrong)  # type: ignore[arg-type]


def test_a_line_that_is_no_text_is_named() -> None:
    with pytest.raises(TypeError, match="must be bytes or str, not dict"):
        next(Deal.from_json_lines([{"id": "d_1"}]))  # type: ignore[list-item]
