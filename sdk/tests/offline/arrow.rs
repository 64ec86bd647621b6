//! Numbers that a table column cannot hold. `bindings/tests/test_arrow.py` and the fuzz target `readers` compare values.

use dealkit::{
    Deal,
    arrow::{DealBatchBuilder, Decimals, arrow_array},
};

use arrow_array::{Array, StructArray, cast::AsArray, types::Decimal128Type};

fn column<'a>(within: &'a StructArray, name: &str) -> &'a dyn Array {
    within.column_by_name(name).unwrap().as_ref()
}

#[test]
fn a_number_that_does_not_fit_is_an_error_and_leaves_the_batch_unchanged() {
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
