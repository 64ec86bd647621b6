//! Deals as tables: the schema, exact values, and what is refused.

use dealkit::{
    Deal,
    arrow::{DealBatchBuilder, Decimals, FailureBatchBuilder, arrow_array, arrow_schema, schema},
};

use arrow_array::{
    Array, RecordBatch, StructArray,
    cast::AsArray,
    types::{Date32Type, Decimal128Type, Int64Type, TimestampMicrosecondType},
};
use arrow_schema::DataType;
use serde_json::Value;

use crate::vectors::contract;

const DEAL: &str = r#"{"id": "d_1", "expiry_date": "2024-02-29", "created_at": "1969-12-31T23:59:59.999999999Z",
    "listing_contract": {"sale_price": 450000.0, "address": {"city": "B\u00fcrglen"}},
    "application": {"requested_amount": 12500.50, "offers": [{"percent_of_commission": 10.10}, {}]},
    "sides": [{"side_percentage": 1.50e1}, {"side_percentage": -0.0}], "metadata": {"b": "2", "a": "1", "b": "3"},
    "status": null, "new": {"rate": 1.10}, "\"": [1 ]}"#;

fn one(document: &str, decimals: Decimals) -> RecordBatch {
    let mut builder = DealBatchBuilder::new(decimals);
    builder.push_json(document).unwrap();
    let batch = builder.finish().unwrap();
    assert_eq!((batch.num_rows(), builder.len()), (1, 0));
    assert_eq!(batch.schema(), schema(decimals));
    batch
}

fn column<'a>(within: &'a StructArray, name: &str) -> &'a dyn Array {
    within.column_by_name(name).unwrap().as_ref()
}

#[test]
fn values_are_where_they_belong() {
    let batch = StructArray::from(one(DEAL, Decimals::default()));
    assert_eq!(column(&batch, "id").as_string::<i32>().value(0), "d_1");
    assert!(column(&batch, "status").is_null(0));
    let day = column(&batch, "expiry_date").as_primitive::<Date32Type>();
    assert_eq!(day.value_as_date(0).unwrap().to_string(), "2024-02-29");
    let moment = column(&batch, "created_at").as_primitive::<TimestampMicrosecondType>();
    assert_eq!(moment.value(0), -1);
    let contract = column(&batch, "listing_contract").as_struct();
    let price = column(contract, "sale_price").as_primitive::<Int64Type>();
    assert_eq!(price.value(0), 450_000);
    assert!(column(contract, "agent").is_null(0));
    let address = column(contract, "address").as_struct();
    assert_eq!(
        column(address, "city").as_string::<i32>().value(0),
        "Bürglen"
    );
    let application = column(&batch, "application").as_struct();
    let amount = column(application, "requested_amount").as_primitive::<Decimal128Type>();
    assert_eq!(amount.value_as_string(0), "12500.5000000000");
    let offers = column(application, "offers").as_list::<i32>().value(0);
    let percent =
        column(offers.as_struct(), "percent_of_commission").as_primitive::<Decimal128Type>();
    assert_eq!((percent.len(), percent.value(0)), (2, 101_000_000_000));
    assert!(percent.is_null(1));
    assert!(
        column(&batch, "quotes")
            .as_list::<i32>()
            .value(0)
            .is_empty()
    );
    assert!(!column(&batch, "quotes").is_nullable());
    let metadata = column(&batch, "metadata").as_map().value(0);
    let (names, values) = (
        metadata.column(0).as_string::<i32>(),
        metadata.column(1).as_string::<i32>(),
    );
    let entries = names
        .iter()
        .zip(values)
        .map(|(name, value)| (name.unwrap(), value.unwrap()));
    assert_eq!(entries.collect::<Vec<_>>(), [("a", "1"), ("b", "3")]);
    let extra = column(&batch, "extra").as_string::<i32>().value(0);
    assert_eq!(extra, r#"{"\"":[1 ],"new":{"rate": 1.10}}"#);
}

#[test]
fn decimals_as_strings_keep_their_digits() {
    let batch = StructArray::from(one(DEAL, Decimals::STRINGS));
    let sides = column(&batch, "sides").as_list::<i32>().value(0);
    let percentages = column(sides.as_struct(), "side_percentage").as_string::<i32>();
    let deal = Deal::from_json(DEAL).unwrap();
    let of_model = deal
        .sides
        .iter()
        .map(|side| side.side_percentage.unwrap().to_string());
    assert!(of_model.eq(percentages.iter().map(|text| text.unwrap().to_owned())));
    let application = column(&batch, "application").as_struct();
    let amount = column(application, "requested_amount").as_string::<i32>();
    assert_eq!(amount.value(0), "12500.50");
}

#[test]
fn a_number_that_does_not_fit_is_an_error_and_leaves_no_trace() {
    let mut builder = DealBatchBuilder::new(Decimals::with_scale(2).unwrap());
    builder
        .push_json(r#"{"id": "d_1", "sides": [{"side_percentage": 50.100}]}"#)
        .unwrap();
    let document = r#"{"id": "d_2", "quotes": [{}], "application": {"offers": [{}, {"percent_of_commission": 33.3333}]}}"#;
    let error = builder.push_json(document).unwrap_err();
    assert_eq!(
        error.to_string(),
        "at application.offers[1].percent_of_commission: the number does not fit decimal128(38, 2) exactly: choose another \
         scale, or decimals as strings"
    );
    assert_eq!(
        error.pointer(),
        "/application/offers/1/percent_of_commission"
    );
    assert_eq!(
        (error.found(), error.body()),
        ("a number", document.as_bytes())
    );
    assert!(builder.push(&Deal::from_json(document).unwrap()).is_err());
    let broken = builder
        .push_json(r#"{"id": "d_3", "sides": [{"contact_id": "c"}, {"contact_id": 5}]}"#)
        .unwrap_err();
    assert_eq!(broken.path(), "sides[1].contact_id");
    assert_eq!(builder.len(), 1);
    builder.push_json(r#"{"id": "d_4"}"#).unwrap();
    let batch = StructArray::from(builder.finish().unwrap());
    assert_eq!(column(&batch, "quotes").as_list::<i32>().values().len(), 0);
    let sides = column(&batch, "sides").as_list::<i32>();
    assert_eq!(sides.values().len(), 1);
    let percentages = column(sides.values().as_struct(), "side_percentage");
    assert_eq!(percentages.as_primitive::<Decimal128Type>().value(0), 5_010);
    let ids = column(&batch, "id").as_string::<i32>();
    assert!(ids.iter().eq([Some("d_1"), Some("d_4")]));
}

#[test]
fn a_number_is_in_its_column_exactly_or_not_at_all() {
    for (number, scale, expected) in [
        ("10.10", 10, Some(101_000_000_000)),
        ("10.10", 1, Some(101)),
        ("10.10", 0, None),
        ("-33.3333", 4, Some(-333_333)),
        ("0e-28", 0, Some(0)),
        ("1", 37, Some(10_i128.pow(37))),
        ("1", 38, None),
        ("0", 38, Some(0)),
        ("0.9", 38, Some(9 * 10_i128.pow(37))),
    ] {
        let mut builder = DealBatchBuilder::new(Decimals::with_scale(scale).unwrap());
        let document = format!(r#"{{"id": "d_1", "sides": [{{"agent_units": {number}}}]}}"#);
        let pushed = builder.push_json(document);
        assert_eq!(pushed.is_ok(), expected.is_some(), "{number} {scale}");
        if expected.is_some() {
            let batch = StructArray::from(builder.finish().unwrap());
            let sides = column(&batch, "sides").as_list::<i32>().value(0);
            let units = column(sides.as_struct(), "agent_units");
            let found = units.as_primitive::<Decimal128Type>().value(0);
            assert_eq!(Some(found), expected);
        }
    }
}

#[test]
fn the_schema_has_every_field_of_the_specification() {
    let document: Value = serde_json::from_str(contract("openapi.json")).unwrap();
    let deal = DataType::Struct(schema(Decimals::default()).fields().clone());
    check_struct(&deal, "Deal", &document["components"]["schemas"]);
}

fn check_struct(found: &DataType, name: &str, schemas: &Value) {
    let fields = match found {
        DataType::Struct(fields) => fields,
        DataType::List(item) if !item.is_nullable() => {
            return check_struct(item.data_type(), name, schemas);
        }
        _ => panic!("{name} is {found}"),
    };
    let properties = schemas[name]["properties"].as_object().unwrap();
    let (extra, fields) = fields.split_last().unwrap();
    assert_eq!(extra.name(), "extra");
    assert_eq!(fields.len(), properties.len(), "{name}");
    for field in fields {
        // Some names are in camel case on the wire.
        let plain = |name: &str| name.replace('_', "").to_lowercase();
        let mut properties = properties.iter();
        let (_, property) = properties
            .find(|(wire, _)| plain(wire) == plain(field.name()))
            .unwrap();
        let (found, text) = (field.data_type(), property.to_string());
        if let Some((_, reference)) = text.split_once("#/components/schemas/") {
            check_struct(found, reference.split('"').next().unwrap(), schemas);
            continue;
        }
        let types = property["type"].to_string();
        let expected = match property["format"].as_str() {
            Some("date") => "Date32",
            Some("date-time") => "Timestamp(µs, \"UTC\")",
            _ if types.contains("integer") => "Int64",
            _ if types.contains("number") => "Decimal128(38, 10)",
            _ if types.contains("object") => "Map(",
            _ => "Utf8",
        };
        assert!(
            found.to_string().starts_with(expected),
            "{name}.{}: {found}",
            field.name()
        );
    }
}

#[test]
fn failures_have_rows_of_their_own() {
    let error =
        Deal::from_json(r#"{"id": "d_1", "metadata": {"ada@example.com": 1}}"#).unwrap_err();
    let mut failures = FailureBatchBuilder::new();
    failures.push_document(7, &error);
    assert_eq!(failures.len(), 1);
    let batch = StructArray::from(failures.finish().unwrap());
    assert_eq!(
        column(&batch, "index").as_primitive::<Int64Type>().value(0),
        7
    );
    assert_eq!(column(&batch, "kind").as_string::<i32>().value(0), "decode");
    assert!(column(&batch, "id").is_null(0) && column(&batch, "status").is_null(0));
    let message = column(&batch, "message").as_string::<i32>().value(0);
    assert_eq!(
        message,
        "at metadata[entry 1]: expected a string, found a number"
    );
}
