//! Round trips through serde round_trips: a value reads back as the same value, or is an error with advice. It never becomes another
//! value, and no format shows a name that is private to serde_json.
//!
//! `make test-features` runs the same tests with serde_json's feature `arbitrary_precision`.

use std::fmt::{Debug, Display};

use dealkit::{Agent, AgentProfile, AgentProfileResponse, CreateAgent, Deal, Decimal, Json};
use proptest::prelude::*;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

#[derive(Debug, PartialEq, Clone, Serialize, Deserialize)]
struct Row<T> {
    value: T,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Flattened<T> {
    name: String,
    #[serde(flatten)]
    row: T,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
enum Tagged<T> {
    Row(T),
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Untagged<T> {
    Row(T),
}

/// A format and a shape of the value. Serde buffers the value in all shapes except `plain`, and the round_trips except `text` lose the text.
type Way = (&'static str, &'static str);

fn error_text(error: impl Display) -> String {
    error.to_string()
}

/// Writes and reads a value in each format.
fn round_trips<T>(shape: &'static str, value: &T) -> Vec<(Way, Result<(), String>)>
where
    T: Serialize + DeserializeOwned + PartialEq + Debug,
{
    let mut cbor = Vec::new();
    let yaml = yaml_serde::to_string(value).map_err(error_text);
    assert!(!yaml.as_ref().is_ok_and(|yaml| yaml.contains("$serde")));
    [
        (
            "text",
            serde_json::to_string(value)
                .and_then(|text| serde_json::from_str(&text))
                .map_err(error_text),
        ),
        (
            "value",
            serde_json::to_value(value)
                .and_then(serde_json::from_value)
                .map_err(error_text),
        ),
        (
            "yaml",
            yaml.and_then(|yaml| yaml_serde::from_str(&yaml).map_err(error_text)),
        ),
        (
            "cbor",
            ciborium::into_writer(value, &mut cbor)
                .map_err(error_text)
                .and_then(|()| ciborium::from_reader(cbor.as_slice()).map_err(error_text)),
        ),
    ]
    .into_iter()
    .map(|(format, read): (_, Result<T, _>)| {
        let outcome = read.and_then(|read| {
            let is_same = read == *value;
            is_same
                .then_some(())
                .ok_or(format!("another value: {read:?}"))
        });
        ((format, shape), outcome)
    })
    .collect()
}

/// Writes and reads a value in each format and shape.
fn round_trips_in_shapes<T>(value: &T) -> Vec<(Way, Result<(), String>)>
where
    T: Serialize + DeserializeOwned + PartialEq + Debug + Clone,
{
    let row = || Row {
        value: value.clone(),
    };
    let flattened = Flattened {
        name: "Ada".to_owned(),
        row: row(),
    };
    [
        round_trips("plain", &row()),
        round_trips("flatten", &flattened),
        round_trips("tag", &Tagged::Row(row())),
        round_trips("untagged", &Untagged::Row(row())),
    ]
    .concat()
}

/// Returns true if a `Value` keeps the text of its numbers.
fn has_arbitrary_precision() -> bool {
    let number: Value = serde_json::from_str("1.10").unwrap();
    number.to_string().ends_with('0')
}

fn assert_survives(value: Decimal) {
    let json = serde_json::to_string(&value).unwrap();
    assert_eq!(json, value.to_string(), "directly, the digits are the same");
    let is_short = value.into_inner().mantissa().unsigned_abs() < 10_u128.pow(15);
    for ((format, shape), outcome) in round_trips_in_shapes(&value) {
        // Serde's buffer turns the number in the text into a float, which may be rounded. It rejects numbers of more than 64 bits.
        let is_buffered = shape != "plain"
            && (format == "text" || (format == "value" && has_arbitrary_precision()));
        let may_fail = is_buffered && !is_short;
        assert!(
            may_fail || outcome.is_ok(),
            "{value} {format} {shape} {outcome:?}"
        );
    }
}

#[test]
fn decimals_survive_every_format() {
    for text in [
        "0.00",
        "-0.0",
        "-7",
        "10.10",
        "1.50e1",
        "25e-4",
        "0.0000000000000000000000000001",
        "1234567890123.45",
        "9007199254740993",
        "0.12345678901234567",
        // The float of this number is also the float of 613850132875452.2.
        "-613850132875452.3",
        "18446744073709551616",
        "-9876543210987654321098765432",
    ] {
        assert_survives(text.parse().unwrap());
    }
    let prices = std::collections::BTreeMap::from([(Decimal::new(1010, 2), 1)]);
    let names = serde_json::to_string(&prices).unwrap();
    assert_eq!(names, r#"{"10.10":1}"#);
    assert_eq!(serde_json::from_str(&names).ok(), Some(prices));
}

#[test]
fn numbers_in_other_formats_are_read_exactly_or_not_at_all() {
    let value = |value: Value| serde_json::from_value::<Decimal>(value).map_err(error_text);
    let yaml = |text: &str| yaml_serde::from_str::<Decimal>(text).map_err(error_text);
    for (number, expected) in [
        (value(json!(-10)), "-10"),
        (value(json!(u64::MAX)), "18446744073709551615"),
        (value(json!(10.1)), "10.1"),
        (
            value(json!("123456789012345678.12")),
            "123456789012345678.12",
        ),
        (yaml("10.10"), "10.1"),
        (yaml("'10.10'"), "10.10"),
    ] {
        assert_eq!(
            number.map(|number| number.to_string()).as_deref(),
            Ok(expected)
        );
    }
    for wrong in [
        json!("ten"),
        json!("+1"),
        json!(" 1"),
        json!(true),
        json!([]),
        json!({}),
        json!(null),
        json!("1e999"),
    ] {
        value(wrong.clone()).unwrap_err();
        yaml(&yaml_serde::to_string(&wrong).unwrap()).unwrap_err();
    }
    serde_json::from_str::<Decimal>(r#""10.10""#).unwrap_err();
    if !has_arbitrary_precision() {
        for uncertain in [
            yaml("123456789012345678.12"),
            value(json!(0.123_456_789_012_345_6)),
        ] {
            assert!(
                uncertain
                    .unwrap_err()
                    .contains("write the number as a string")
            );
        }
    }
}

/// The deserializer of a reader and of a wrapper has a type that dealkit cannot name.
#[test]
fn readers_and_wrappers_of_text_are_exact() {
    for text in [
        "10.10",
        "0.30000000000000004",
        "12345678901234567890.12345",
        "-0.0",
    ] {
        let decimal: Decimal = text.parse().unwrap();
        let list = format!("[ {text} ]");
        let prices = format!(r#"{{"{text}":1}}"#);
        let read = serde_json::from_reader::<_, Vec<Decimal>>(list.as_bytes()).unwrap();
        assert_eq!(read[0].to_string(), decimal.to_string());
        let json = serde_json::from_reader::<_, Vec<Json>>(list.as_bytes()).unwrap();
        assert_eq!(json[0].as_str(), text);
        type Prices = std::collections::BTreeMap<Decimal, u8>;
        let keys = serde_json::from_reader::<_, Prices>(prices.as_bytes()).unwrap();
        assert_eq!(keys.keys().next().unwrap().to_string(), decimal.to_string());

        let mut slice = serde_json::Deserializer::from_str(&list);
        let wrapped: Vec<Json> = serde_path_to_error::deserialize(&mut slice).unwrap();
        assert_eq!(wrapped[0].as_str(), text);
        let mut reader = serde_json::Deserializer::from_reader(prices.as_bytes());
        let wrapped: Prices = serde_path_to_error::deserialize(&mut reader).unwrap();
        assert_eq!(
            wrapped.keys().next().unwrap().to_string(),
            decimal.to_string()
        );

        let pretty = serde_json::to_string_pretty(&[decimal]).unwrap();
        assert_eq!(pretty, format!("[\n  {decimal}\n]"));
        let mut written = Vec::new();
        serde_json::to_writer(&mut written, &json).unwrap();
        assert_eq!(written, format!("[{text}]").into_bytes());
    }
}

/// A wrapper hides whether a text comes from a document or from a `Value`, whose floats are rounded.
#[test]
fn a_number_of_a_value_within_a_wrapper_is_never_another_one() {
    let value: Value = serde_json::from_str(r#"{"a": 10.5, "b": 0.123456789012345678}"#).unwrap();
    let read =
        |value: &Value| serde_path_to_error::deserialize::<_, Decimal>(value).map_err(error_text);
    assert_eq!(
        read(&value["a"]).map(|it| it.to_string()).as_deref(),
        Ok("10.5")
    );
    match read(&value["b"]) {
        Ok(exact) => {
            assert!(has_arbitrary_precision() && exact.to_string() == "0.123456789012345678")
        }
        Err(error) => assert!(error.contains("write the number as a string"), "{error}"),
    }
    let text: Decimal = serde_path_to_error::deserialize(&json!("10.10")).unwrap();
    assert_eq!(text.to_string(), "10.10");
}

#[test]
fn json_survives_every_format() {
    for text in [
        "null",
        "-7",
        "10.10",
        "18446744073709551615",
        r#""10.10""#,
        r#""\u00e9\"\\\n""#,
        r#"{"amount": 10.10, "list": [1, "two", {"three": 3.0}], "none": null, "": "empty", "a": 1, "a": 2}"#,
    ] {
        let value = Json::parse(text).unwrap();
        assert_eq!(serde_json::to_string(&value).unwrap(), text);
        for (way, outcome) in round_trips_in_shapes(&value) {
            assert_eq!(outcome, Ok(()), "{text} {way:?}");
        }
    }
    for text in [
        "123456789012345678.12",
        "1e400",
        r#"{"a": [0.12345678901234567]}"#,
    ] {
        let value = Json::parse(text).unwrap();
        for (way, outcome) in round_trips_in_shapes(&value) {
            let may = way == ("text", "plain") || has_arbitrary_precision();
            assert!(may || outcome.is_err(), "{text} {way:?}");
        }
    }
    let deep = Json::parse(format!("{}{}", "[".repeat(10_000), "]".repeat(10_000))).unwrap();
    assert_eq!(round_trips("plain", &deep)[0].1, Ok(()));
    serde_json::to_value(&deep).unwrap_err();
}

#[test]
fn models_survive_every_format() {
    let deal = Deal::from_json(
        r#"{
            "id": "d_1", "status": "CLOSED", "expiry_date": "2024-02-29", "created_at": "2024-01-01T00:00:00.123456789Z",
            "listing_contract": {"id": "l_1", "side": "BUY", "side_split": 9007199254740993},
            "application": {"id": "a_1", "offers": [{"id": "o_1", "percent_of_commission": 10.10}]},
            "sides": [{"side_percentage": 12.50}], "metadata": {"source": "import", "amount": "10.10"},
            "undocumented": {"rate": 10.10, "big": 9007199254740993, "deep": [[{"a": [1.5]}]]}, "flag": true
        }"#,
    )
    .unwrap();
    let profile = AgentProfileResponse::builder()
        .client_metadata(Json::parse(r#"{"rate": 10.10, "tags": ["a"]}"#).unwrap());
    let agent = Agent::builder()
        .id("a_1")
        .email("ada@example.com")
        .first_name("Ada")
        .last_name("Lovelace")
        .profile(profile.build())
        .role_assignments([])
        .build();
    let request = CreateAgent::builder()
        .email("ada@example.com")
        .first_name("Ada")
        .last_name("Lovelace")
        .profile(AgentProfile::new().client_metadata(json!({"rate": 10.5})))
        .build()
        .unwrap();
    let named = |row| Flattened {
        name: "Ada".to_owned(),
        row,
    };
    for (way, outcome) in [
        round_trips_in_shapes(&deal),
        round_trips_in_shapes(&agent),
        round_trips_in_shapes(&request),
        // The model itself is flattened, tagged or untagged.
        round_trips("flattened", &named(deal.clone())),
        round_trips("tagged", &Tagged::Row(deal.clone())),
        round_trips("tried", &Untagged::Row(deal)),
    ]
    .concat()
    {
        assert_eq!(outcome, Ok(()), "{way:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_format_changes_a_decimal(mantissa in -(1_i128 << 96) + 1..1_i128 << 96, cut in 0..28_u32, scale in 0..=28_u32) {
        assert_survives(rust_decimal::Decimal::from_i128_with_scale(mantissa / 10_i128.pow(cut), scale).into());
    }
}
