"""Tables of deals in pyarrow, polars, pandas and DuckDB, and after a round trip through Parquet."""

from __future__ import annotations

import os
from collections.abc import Callable
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest
from conftest import as_any, encode_case, load_vectors, parse_exact
from documents import document_texts
from hypothesis import given, settings

import dealkit.arrow
from dealkit import Deal, DecodeError
from dealkit.arrow import deals_to_arrow

# The number of generated documents; `make soak` sets more.
COUNT = int(os.environ.get("DEALKIT_DOCUMENTS", "100"))

DEAL = b"""{"id": "d_1", "expiry_date": "2024-02-29", "created_at": "1969-12-31T23:59:59.999999999Z",
    "listing_contract": {"sale_price": 450000.0}, "application": {"offers": [{"percent_of_commission": 10.10}, {}]},
    "sides": [{"side_percentage": 33.3333}], "metadata": {"b": "2", "a": "1"}, "new": {"rate": 1.10}}"""


def expected_row(model: Any, document: Any) -> dict[str, Any]:
    """Returns the expected row of a model. Undocumented fields come from the document, which is the model's JSON."""
    row: dict[str, Any] = {}
    for name, wire, kind, *_ in model.__dealkit_fields__:
        value, written = getattr(model, name), document.get(wire)
        if kind.startswith("["):
            row[name] = [expected_row(item, of) for item, of in zip(value, written or [], strict=True)]
        elif kind[0].isupper():
            row[name] = None if value is None else expected_row(value, written)
        else:
            row[name] = dict(value) if kind == "strings" else value
    known = {wire for _, wire, *_ in model.__dealkit_fields__}
    extra = {name: value for name, value in document.items() if name not in known}
    row["extra"] = extra or None
    return row


def normalize_row(row: Any, model: Any = Deal) -> dict[str, Any]:
    """Converts a row from a library for comparison: maps to dicts, decimals to Decimal, and undocumented fields to
    parsed JSON.
    """
    found: dict[str, Any] = {}
    for name, _, kind, *_ in model.__dealkit_fields__:
        value = row[name]
        if kind.startswith("["):
            found[name] = [normalize_row(item, getattr(dealkit, kind[1:-1])) for item in value]
        elif kind[0].isupper():
            found[name] = None if value is None else normalize_row(value, getattr(dealkit, kind))
        elif kind == "strings":
            found[name] = dict(value)
        elif kind == "decimal" and isinstance(value, str):
            found[name] = Decimal(value)
        else:
            found[name] = value
    assert set(row) == {*found, "extra"}
    found["extra"] = None if row["extra"] is None else parse_exact(row["extra"])
    return found


def with_duckdb(deals: Any, file: Path) -> Any:
    relation: Any = duckdb.sql("SELECT * FROM deals")
    return relation.to_arrow_table()


def with_parquet(table: Any, file: Path) -> Any:
    pyarrow.parquet.write_table(pyarrow.table(table), file)
    read = pyarrow.parquet.read_table(file)
    assert read.schema == pyarrow.schema(table)
    return read


# Conversions to a library and back to a pyarrow table.
ROUND_TRIPS: dict[str, Callable[[Any, Path], Any]] = {
    "pyarrow": lambda table, file: pyarrow.table(table),
    "polars": lambda table, file: polars.DataFrame(table).to_arrow(),
    # With pandas's default types, integers in a column with nulls would become floats.
    "pandas": lambda table, file: pyarrow.Table.from_pandas(
        pyarrow.table(table).to_pandas(types_mapper=pandas.ArrowDtype), preserve_index=False
    ),
    "DuckDB": with_duckdb,
    "Parquet": with_parquet,
}


@pytest.fixture(scope="module")
def deals() -> list[bytes]:
    """Documents that hypothesis generates, and the valid documents of the vectors."""
    cases: list[Any] = [case.values[0] for case in load_vectors("deals")]
    found = [encode_case(case) for case in cases if "error" not in case["expect"]]

    @settings(max_examples=COUNT)
    @given(document_texts("Deal"))
    def collect(document: str) -> None:
        found.append(document.encode())

    collect()
    return found


@pytest.fixture(scope="module")
def models(deals: list[bytes]) -> list[dict[str, Any]]:
    """The expected rows of the documents."""
    return [expected_row(deal, parse_exact(deal.to_json())) for deal in map(Deal.from_json, deals)]


@pytest.mark.parametrize("way", ROUND_TRIPS)
def test_tables_hold_the_values_of_the_models(way: str, deals: list[bytes], models: list[Any], tmp_path: Path) -> None:
    table = deals_to_arrow(deals, decimals="string")
    assert len(table) == len(deals)
    assert [normalize_row(row) for row in ROUND_TRIPS[way](table, tmp_path / "deals.parquet").to_pylist()] == models


@pytest.mark.parametrize("scale", [0, 2, 10, 28, 38])
def test_a_decimal_fits_exactly_or_is_an_error(scale: int, deals: list[bytes], models: list[Any]) -> None:
    table = deals_to_arrow(deals, scale=scale, on_error="return")
    errors = pyarrow.table(table.errors)
    fit = [all(fits_decimal(number, scale) for number in collect_decimals(model)) for model in models]
    assert any(fit) and not all(fit)
    found = [normalize_row(row) for row in pyarrow.table(table).to_pylist()]
    assert found == [model for model, does_fit in zip(models, fit, strict=True) if does_fit]
    assert errors["index"].to_pylist() == [index for index, does_fit in enumerate(fit) if not does_fit]
    assert set(errors["kind"].to_pylist()) == {"decode"}
    assert all(f"the number does not fit decimal128(38, {scale})" in text for text in errors["message"].to_pylist())


def fits_decimal(number: Decimal, scale: int) -> bool:
    """Returns whether a number has at most 38 digits, and at most `scale` digits after the point."""
    moved = number.scaleb(scale, EXACT)
    return moved == moved.to_integral_value(context=EXACT) and abs(moved) < Decimal(10) ** 38


EXACT = Context(prec=200)


def collect_decimals(value: Any) -> list[Decimal]:
    """Returns all decimals in a row."""
    if isinstance(value, Decimal):
        return [value]
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return [number for item in inside for number in collect_decimals(item)]


@pytest.mark.parametrize("case", load_vectors("deals"))
def test_documents_that_models_reject_are_errors_in_tables(case: dict[str, Any]) -> None:
    document = encode_case(case)
    if "error" not in case["expect"]:
        assert len(deals_to_arrow([document], decimals="string")) == 1
        return
    with pytest.raises(DecodeError) as of_model:
        Deal.from_json(document)
    if not document.strip():
        return  # a blank line
    with pytest.raises(DecodeError) as of_table:
        deals_to_arrow([DEAL, document])
    assert str(of_table.value) == str(of_model.value)
    assert {**vars(of_table.value), "index": None} == {**vars(of_model.value), "index": None}
    assert of_table.value.index == 1


def test_tables_accept_models_bytes_and_str_together() -> None:
    deal = Deal.from_json(DEAL)
    table = deals_to_arrow([deal, DEAL, DEAL.decode(), bytearray(DEAL), b"\n", "  "])
    found = pyarrow.table(table)
    assert found.num_rows == 4
    assert found.slice(0, 1) == found.slice(1, 1) == found.slice(2, 1) == found.slice(3, 1)
    assert found["created_at"][0].as_py() == deal.created_at
    assert len(deals_to_arrow([])) == 0 and pyarrow.table(deals_to_arrow([])).schema == found.schema
    assert deals_to_arrow([deal]).errors is None


def test_a_number_that_does_not_fit_is_located_in_the_error() -> None:
    with pytest.raises(DecodeError) as caught:
        deals_to_arrow([b'{"id": "d_0"}', DEAL], scale=2)
    assert caught.value.path == "sides[0].side_percentage"
    assert caught.value.index == 1
    with pytest.raises(DecodeError) as after_blank_lines:
        deals_to_arrow(["\n", b'{"id": "d_0"}', " ", "{"])
    assert after_blank_lines.value.index == 3
    assert "33.3333" not in str(caught.value)
    assert str(caught.value).endswith(
        "does not fit decimal128(38, 2) exactly: choose another scale, or decimals as strings"
    )


def test_the_schema_has_all_documented_columns() -> None:
    schema = dealkit.arrow.schema()
    found = pyarrow.schema(schema)
    assert found.names == schema.names == [*[field.name for field in dealkit.fields(Deal)], "extra"]
    assert found.field("created_at").type == pyarrow.timestamp("us", "UTC")
    metadata = found.field("metadata").type
    assert (metadata.key_type, metadata.item_type) == (pyarrow.string(), pyarrow.string())
    assert found.field("sides").type.value_type.field("side_percentage").type == pyarrow.decimal128(38, 10)
    strings = pyarrow.schema(dealkit.arrow.schema(decimals="string"))
    assert strings.field("sides").type.value_type.field("side_percentage").type == pyarrow.string()
    assert "expiry_date: Date32\n" in repr(schema)
    assert pyarrow.schema(deals_to_arrow([])) == found


def test_pandas_data_frames_have_the_values() -> None:
    frame: Any = pandas.DataFrame.from_arrow(deals_to_arrow([DEAL, b'{"id": "d_2"}']))
    assert frame["id"].tolist() == ["d_1", "d_2"]
    assert frame["sides"][0][0]["side_percentage"] == Decimal("33.3333")
    assert frame["created_at"][0] == Deal.from_json(DEAL).created_at


def test_a_table_can_be_exported_repeatedly() -> None:
    table = deals_to_arrow([DEAL, DEAL])
    assert pyarrow.table(table) == pyarrow.table(table)
    assert polars.DataFrame(table).equals(polars.DataFrame(table))
    assert repr(table) == "Table(2 rows, 13 columns)"
    # A capsule without a consumer frees its data.
    assert table.__arrow_c_stream__() is not None


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"deals": DEAL}, TypeError, "deals must be an iterable of deals, not a bytes"),
        ({"deals": [5]}, TypeError, r"deals\[0\] must be a Deal, or a JSON document, not int"),
        ({"deals": [], "scale": 39}, ValueError, "scale must be from 0 to 38, not 39"),
        ({"deals": [], "scale": -1}, ValueError, "scale must be from 0 to 38, not -1"),
        ({"deals": [], "scale": 2.0}, TypeError, "scale must be an int, not float"),
        ({"deals": [], "decimals": "float"}, ValueError, 'decimals must be "decimal128" or "string"'),
        ({"deals": [], "on_error": "skip"}, ValueError, 'on_error must be "raise" or "return"'),
    ],
)
def test_wrong_use(arguments: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        deals_to_arrow(**as_any(arguments))
