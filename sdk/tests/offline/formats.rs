//! Through every serde format, what is written reads back as the same value, or there is an error that says what to do.
//! Never another value, and never a name that is private to serde_json.
//!
//! The same tests run with serde_json's feature `arbitrary_precision` switched on (Makefile, `test-rust`).

use chrono::{TimeZone as _, Utc};
use dealkit::{
    Agent, AgentProfile, AgentProfileResponse, CreateAgent, Deal, Decimal, Json, chrono,
};
use proptest::prelude::*;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

/// Whether a `Value` keeps the text of its numbers.
fn arbitrary_precision() -> bool {
    let number: Value = serde_json::from_str("1.10").unwrap();
    number.to_string().ends_with('0')
}

/// A format, with a text of what was written in which a private name would show.
trait Format {
    type Document;

    fn write(value: &impl Serialize) -> Result<Self::Document, String>;
    fn read<T: DeserializeOwned>(document: Self::Document) -> Result<T, String>;
    fn shown(document: &Self::Document) -> String;
}

macro_rules! formats {
    ($($format:ident: $document:ty = |$value:ident| $write:expr, |$read:ident| $from:expr, |$shown:ident| $text:expr;)+) => {$(
        struct $format;

        impl Format for $format {
            type Document = $document;

            fn write($value: &impl Serialize) -> Result<$document, String> {
                $write.map_err(|error| error.to_string())
            }

            fn read<T: DeserializeOwned>($read: $document) -> Result<T, String> {
                $from.map_err(|error| error.to_string())
            }

            fn shown($shown: &$document) -> String {
                $text
            }
        }
    )+};
}

formats! {
    JsonText: String = |value| serde_json::to_string(value), |text| serde_json::from_str(&text), |text| text.clone();
    JsonReader: Vec<u8> = |value| serde_json::to_vec_pretty(value), |bytes| serde_json::from_reader(bytes.as_slice()),
        |bytes| lossy(bytes);
    JsonValue: Value = |value| serde_json::to_value(value), |value| serde_json::from_value(value), |value| value.to_string();
    BorrowedValue: Value = |value| serde_json::to_value(value), |value| T::deserialize(&value), |value| value.to_string();
    Watched: String = |value| serde_json::to_string(value),
        |text| serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_str(&text)),
        |text| text.clone();
    WatchedReader: String = |value| serde_json::to_string(value),
        |text| serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_reader(text.as_bytes())),
        |text| text.clone();
    // A layer that hides the format behind it: dealkit must be safe there without knowing the format.
    Hidden: String = |value| hidden_write(value), |text| hidden_read(&text), |text| text.clone();
    Yaml: String = |value| yaml_serde::to_string(value), |text| yaml_serde::from_str(&text), |text| text.clone();
    Toml: String = |value| toml::to_string(value), |text| toml::from_str(&text), |text| text.clone();
    Cbor: Vec<u8> = |value| cbor(value), |bytes| ciborium::from_reader(bytes.as_slice()), |bytes| lossy(bytes);
    MessagePack: Vec<u8> = |value| rmp_serde::to_vec_named(value), |bytes| rmp_serde::from_slice(&bytes), |bytes| lossy(bytes);
    Csv: String = |value| csv_write(value), |text| csv_read(&text), |text| text.clone();
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn hidden_write(value: &impl Serialize) -> Result<String, String> {
    let mut out = Vec::new();
    erased_serde::serialize(value, &mut serde_json::Serializer::new(&mut out))
        .map_err(|error| error.to_string())?;
    Ok(String::from_utf8(out).unwrap())
}

fn hidden_read<T: DeserializeOwned>(text: &str) -> Result<T, erased_serde::Error> {
    let mut json = serde_json::Deserializer::from_str(text);
    let layer = &mut <dyn erased_serde::Deserializer<'_>>::erase(&mut json);
    erased_serde::deserialize(layer)
}

fn cbor(value: &impl Serialize) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    ciborium::into_writer(value, &mut out).map_err(|error| error.to_string())?;
    Ok(out)
}

fn csv_write(value: &impl Serialize) -> Result<String, String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.serialize(value).map_err(|error| error.to_string())?;
    Ok(String::from_utf8(writer.into_inner().unwrap()).unwrap())
}

fn csv_read<T: DeserializeOwned>(text: &str) -> Result<T, csv::Error> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    reader.deserialize().next().unwrap()
}

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
enum Internal<T> {
    Row(T),
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "content")]
enum Adjacent<T> {
    Row(T),
}

/// The content comes before the tag, and so serde buffers it.
#[derive(Debug, PartialEq, Serialize)]
struct Reversed<T> {
    content: T,
    kind: &'static str,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Untagged<T> {
    Row(T),
}

/// What became of a value.
#[derive(Debug, PartialEq)]
enum Outcome {
    Same,
    NotWritten(String),
    NotRead(String),
}

/// Writes and reads a value; fails the test on a different value or a private name.
fn round_trip<F: Format, T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(
    written: T,
) -> Outcome {
    reads_back::<F, T, T>(&written, &written)
}

fn reads_back<F: Format, W: Serialize, T: DeserializeOwned + PartialEq + std::fmt::Debug>(
    written: &W,
    expected: &T,
) -> Outcome {
    let place = || std::any::type_name::<(F, W)>();
    let document = match F::write(written) {
        Ok(document) => document,
        Err(error) => return Outcome::NotWritten(error),
    };
    let shown = F::shown(&document);
    assert!(!shown.contains("$serde"), "{}: {shown}", place());
    match F::read::<T>(document) {
        Ok(read) => {
            assert_eq!(read, *expected, "{}: {shown}", place());
            Outcome::Same
        }
        Err(error) => Outcome::NotRead(error),
    }
}

/// The value in each of the shapes that make serde buffer.
fn shapes<F: Format, T>(value: &T) -> [(&'static str, Outcome); 6]
where
    T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug + Clone,
{
    let row = || Row {
        value: value.clone(),
    };
    let name = String::from("Ada");
    let content = row();
    let kind = "Row";
    [
        ("plain", round_trip::<F, _>(row())),
        (
            "flatten",
            round_trip::<F, _>(Flattened { name, row: row() }),
        ),
        ("tag", round_trip::<F, _>(Internal::Row(row()))),
        ("content", round_trip::<F, _>(Adjacent::Row(row()))),
        (
            "reversed",
            reads_back::<F, _, _>(&Reversed { content, kind }, &Adjacent::Row(row())),
        ),
        ("untagged", round_trip::<F, _>(Untagged::Row(row()))),
    ]
}

/// What became of a value, with the format and the shape that it was in.
type Case = ((&'static str, &'static str), Outcome);

/// The value in each shape in each of these formats.
macro_rules! shapes {
    ($value:expr, $($format:ident)+) => {{
        let cases: Vec<Case> = [$((stringify!($format), shapes::<$format, _>($value))),+]
            .into_iter()
            .flat_map(|(format, shapes)| shapes.map(|(shape, outcome)| ((format, shape), outcome)))
            .collect();
        cases
    }};
}

fn decimal(text: &str) -> Decimal {
    text.parse().unwrap()
}

const DECIMALS: [&str; 26] = [
    "0",
    "0.00",
    "-0.0",
    "7",
    "-7",
    "10.10",
    "-10.10",
    "0.1",
    "60.00",
    "1e3",
    "1.50e1",
    "25e-4",
    "0.0000000000000000000000000001",
    // 15 digits
    "123456789012345",
    "1234567890123.45",
    "-0.000123456789012345",
    // 16 and 17
    "9007199254740993",
    "1234567890123456",
    "123456789012345.67",
    "0.12345678901234567",
    // beyond 64 bits
    "9223372036854775808",
    "18446744073709551616",
    "-9223372036854775809",
    "123456789012345678.12",
    // 28
    "1234567890123456789012345.678",
    "-9876543210987654321098765432",
];

/// Whether a 64-bit integer or a float with 15 digits can hold it.
fn fits_in_binary(text: &str) -> bool {
    text.parse::<i64>().is_ok()
        || text.parse::<u64>().is_ok()
        || text.bytes().filter(u8::is_ascii_digit).count() <= 15
        || text.trim_start_matches(['-', '0', '.']).len() <= 15
}

/// With `arbitrary_precision`, a `Value` can hold integers of more than 64 bits, and hands them to serde's buffer,
/// which cannot.
fn is_same_or_beyond_serde(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Same => true,
        Outcome::NotRead(error) => {
            arbitrary_precision()
                && (error.contains("128") || error.contains("did not match any variant"))
        }
        Outcome::NotWritten(_) => false,
    }
}

/// The crate csv makes a float of every cell with a point.
fn fits_in_csv(value: Decimal) -> bool {
    value.into_inner().mantissa().unsigned_abs() < 10_u128.pow(15)
}

const SAYS_WHAT_TO_DO: &str =
    "write the number as a string, or read the document directly with serde_json";

#[test]
fn decimals_survive_every_format() {
    for text in DECIMALS {
        let value = decimal(text);
        survives_every_format(value);
        // JSON that serde buffers: a number was written, and a float comes back.
        for (place, outcome) in shapes!(&value, JsonText JsonReader Watched WatchedReader) {
            let is_exact = fits_in_binary(&value.to_string()) || arbitrary_precision();
            match (outcome, place.1) {
                (outcome, "plain" | "content") => {
                    assert_eq!(outcome, Outcome::Same, "{value} {place:?}")
                }
                (outcome, _) if is_exact => assert_eq!(outcome, Outcome::Same, "{value} {place:?}"),
                (Outcome::NotRead(_), "untagged") => {}
                (Outcome::NotRead(error), _) => {
                    assert!(error.contains(SAYS_WHAT_TO_DO), "{value} {place:?} {error}");
                }
                (outcome, _) => panic!("{value} {place:?} {outcome:?}"),
            }
        }
    }
}

fn survives_every_format(value: Decimal) {
    // Directly: the digits stay the same.
    let json = serde_json::to_string(&value).unwrap();
    assert_eq!(json, value.to_string());
    let again: Decimal = serde_json::from_str(&json).unwrap();
    assert_eq!(again.to_string(), value.to_string());

    // dealkit reads what it writes.
    for (place, outcome) in
        shapes!(&value, JsonValue BorrowedValue Hidden Yaml Toml Cbor MessagePack)
    {
        assert!(
            is_same_or_beyond_serde(&outcome),
            "{value} {place:?} {outcome:?}"
        );
    }
    if fits_in_csv(value) {
        assert_eq!(
            round_trip::<Csv, _>(Row { value }),
            Outcome::Same,
            "{value}"
        );
        let some = Row { value: Some(value) };
        assert_eq!(round_trip::<Csv, _>(some), Outcome::Same);
    }
}

/// Once a reader has turned a number into a float, nobody can tell it from the shortest number with the same float. The
/// documentation of `Decimal` says so; directly, and where the text of numbers is kept, it is exact.
#[test]
fn a_float_stands_for_the_shortest_number_that_it_is() {
    let beside = r#"{"name": "Ada", "value": 0.30000000000000001}"#;
    let flattened: Flattened<Row<Decimal>> = serde_json::from_str(beside).unwrap();
    let direct: Row<Decimal> = serde_json::from_str(beside).unwrap();
    assert_eq!(direct.value, decimal("0.30000000000000001"));
    if arbitrary_precision() {
        assert_eq!(flattened.row, direct);
    } else {
        assert_eq!(flattened.row.value, decimal("0.3"));
    }
}

/// A decimal in a document of this format.
fn read<F: Format>(document: F::Document) -> Result<String, String> {
    F::read::<Row<Decimal>>(document).map(|row| row.value.to_string())
}

/// Numbers that others have written: as integers, floats and strings.
#[test]
fn numbers_of_others_are_read() {
    let value = |value: Value| read::<JsonValue>(json!({ "value": value }));
    let yaml = |text: &str| read::<Yaml>(format!("value: {text}"));
    let toml = |text: &str| read::<Toml>(format!("value = {text}"));
    // A cell has the type that the csv crate guesses.
    let csv = |cell: &str| read::<Csv>(format!("value\n{cell}\n"));
    for (number, expected) in [
        (value(json!(10)), "10"),
        (value(json!(-10)), "-10"),
        (value(json!(u64::MAX)), "18446744073709551615"),
        (value(json!(10.1)), "10.1"),
        (value(json!(1e3)), "1000.0"),
        (value(json!("10.10")), "10.10"),
        (
            value(json!("123456789012345678.12")),
            "123456789012345678.12",
        ),
        (yaml("10.10"), "10.1"),
        (yaml("7"), "7"),
        (yaml("'10.10'"), "10.10"),
        (yaml("\"123456789012345678.12\""), "123456789012345678.12"),
        (yaml("170141183460469231731"), "170141183460469231731"),
        (toml("10.10"), "10.1"),
        (toml("7"), "7"),
        (toml("'10.10'"), "10.10"),
        (csv("10.10"), "10.1"),
        (csv("7"), "7"),
        (csv("1e2"), "100.0"),
        (float::<Cbor>(10.1), "10.1"),
        (float::<MessagePack>(10.1), "10.1"),
        (float::<Cbor>(0.5_f32), "0.5"),
        (float::<MessagePack>(0.5_f32), "0.5"),
    ] {
        assert_eq!(number.as_deref(), Ok(expected));
    }
}

/// What a float becomes that another program has written.
fn float<F: Format>(value: impl Serialize) -> Result<String, String> {
    #[derive(Serialize)]
    struct Float<T> {
        value: T,
    }
    read::<F>(F::write(&Float { value }).unwrap())
}

#[test]
fn numbers_that_are_not_certain_are_refused() {
    let long = "123456789012345678.12";
    let document = format!(r#"{{"value": {long}}}"#);
    // It has already rounded, unless it keeps the text.
    let value: Value = serde_json::from_str(&document).unwrap();
    let mut outcomes = vec![
        read::<Yaml>(format!("value: {long}")),
        read::<Toml>(format!("value = {long}")),
        read::<Csv>(format!("value\n{long}\n")),
        float::<Cbor>(123_456_789_012_345_678.12_f64),
        float::<MessagePack>(123_456_789_012_345_678.12_f64),
        // 10.1 in 32 bits has other digits than in 64.
        float::<Cbor>(10.1_f32),
        float::<MessagePack>(10.1_f32),
    ];
    if arbitrary_precision() {
        assert_eq!(read::<JsonValue>(value).as_deref(), Ok(long));
    } else {
        outcomes.push(read::<BorrowedValue>(value.clone()));
        outcomes.push(read::<JsonValue>(value));
        // And behind a layer that hides whether it has rounded.
        outcomes.push(read::<Hidden>(document));
    }
    for outcome in outcomes {
        let error = outcome.unwrap_err();
        assert!(error.contains(SAYS_WHAT_TO_DO), "{error}");
    }
    let error = read::<Toml>("value = inf".to_owned()).unwrap_err();
    let told = "expected a finite number, found infinity or NaN";
    assert!(error.contains(told), "{error}");
}

#[test]
fn what_is_no_number_is_refused() {
    for value in [
        json!("ten"),
        json!("+1"),
        json!(".5"),
        json!("1_000"),
        json!(" 1"),
        json!(""),
        json!("NaN"),
        json!(true),
        json!(null),
        json!([]),
        json!([1]),
        json!({}),
        json!({"a": 1}),
        json!("1e999"),
        json!(1e300),
        json!({"$serde_json::private::RawValue": "ten"}),
        json!({"$serde_json::private::Number": "ten"}),
    ] {
        let document = json!({"value": value});
        JsonValue::read::<Row<Decimal>>(document.clone()).unwrap_err();
        for text in [
            JsonText::read::<Untagged<Row<Decimal>>>(document.to_string()),
            Yaml::read(yaml_serde::to_string(&document).unwrap()),
            Cbor::read(cbor(&document).unwrap()),
        ] {
            text.unwrap_err();
        }
        if !value.is_null() {
            Toml::read::<Row<Decimal>>(toml::to_string(&document).unwrap()).unwrap_err();
        }
    }
    // Directly through serde_json, a string is not a decimal, as ever.
    JsonText::read::<Row<Decimal>>(r#"{"value": "10.10"}"#.to_owned()).unwrap_err();
    JsonReader::read::<Row<Decimal>>(br#"{"value": "10.10"}"#.to_vec()).unwrap_err();
    Watched::read::<Row<Decimal>>(r#"{"value": "10.10"}"#.to_owned()).unwrap_err();
}

#[test]
fn decimals_are_names_too() {
    let prices = std::collections::BTreeMap::from([
        (decimal("10.10"), 1),
        (decimal("123456789012345678.12"), 2),
    ]);
    assert_eq!(round_trip::<JsonText, _>(prices.clone()), Outcome::Same);
    assert_eq!(round_trip::<JsonValue, _>(prices), Outcome::Same);
}

fn parsed(text: &str) -> Json {
    Json::parse(text).unwrap()
}

/// Values of every kind, whose numbers are exact in 64 bits.
const FREE_FORM: [&str; 14] = [
    "null",
    "true",
    "-7",
    "10.10",
    "1e3",
    "9007199254740993",
    "18446744073709551615",
    r#""10.10""#,
    r#""\u00e9\"\\\n""#,
    "[]",
    "{}",
    r#"[null, [1, 2.5], {"a": {}}]"#,
    r#"{"amount": 10.10, "list": [1, "two", {"three": 3.0}], "none": null, "": "empty", "a": 1, "a": 2}"#,
    r#"{"expiry": "2024-01-01", "$name": 1}"#,
];

/// Numbers that do not fit in 64 bits.
const BEYOND: [&str; 5] = [
    "123456789012345678.12",
    "18446744073709551616",
    "1e400",
    r#"{"a": [0.12345678901234567]}"#,
    "5e-324",
];

#[test]
fn json_survives_every_format() {
    for text in FREE_FORM {
        let value = parsed(text);
        let again: Json = serde_json::from_str(text).unwrap();
        assert_eq!(again.as_str(), text, "directly, the text is the same");
        for (place, outcome) in shapes!(
            &value,
            JsonText JsonReader Watched WatchedReader JsonValue BorrowedValue Hidden Cbor MessagePack Yaml Toml
        ) {
            match outcome {
                // TOML has no null, and its error says so.
                Outcome::NotWritten(_) if place.0 == "Toml" && text.contains("null") => {}
                outcome => assert_eq!(outcome, Outcome::Same, "{text} {place:?}"),
            }
        }
    }
    for text in BEYOND {
        let value = parsed(text);
        assert_eq!(serde_json::to_string(&value).unwrap(), text);
        for (place, outcome) in shapes!(&value, Cbor Yaml Toml JsonValue JsonText) {
            let case = format!("{text} {place:?} {outcome:?}");
            let is_kept = is_same_or_beyond_serde(&outcome);
            match place {
                ("JsonText", "plain" | "content") => assert_eq!(outcome, Outcome::Same, "{case}"),
                ("JsonText", _) if arbitrary_precision() => assert!(is_kept, "{case}"),
                ("JsonText", _) => assert!(matches!(outcome, Outcome::NotRead(_)), "{case}"),
                ("JsonValue", _) if arbitrary_precision() => assert!(is_kept, "{case}"),
                ("JsonValue", _) => assert!(matches!(outcome, Outcome::NotWritten(_)), "{case}"),
                _ => assert!(
                    matches!(&outcome, Outcome::NotWritten(error) if error.contains("directly with serde_json")),
                    "{case}"
                ),
            }
        }
    }
}

#[test]
fn json_of_any_depth_is_kept_or_refused() {
    let nested = |depth: usize| parsed(&format!("{}1{}", "[".repeat(depth), "]".repeat(depth)));
    for (depth, fits) in [(100, true), (Json::MAX_DEPTH + 1, false), (100_000, false)] {
        let value = || Row {
            value: nested(depth),
        };
        assert_eq!(round_trip::<JsonText, _>(value()), Outcome::Same);
        for outcome in [
            round_trip::<JsonValue, _>(value()),
            round_trip::<Cbor, _>(value()),
            round_trip::<MessagePack, _>(value()),
            round_trip::<Yaml, _>(value()),
        ] {
            if fits || (arbitrary_precision() && depth < 1000 && outcome == Outcome::Same) {
                assert_eq!(outcome, Outcome::Same);
            } else {
                assert!(matches!(outcome, Outcome::NotWritten(_)), "{outcome:?}");
            }
        }
    }
    // Deep nesting in what others have written.
    let mut deep = ciborium::Value::from(1);
    for _ in 0..200 {
        deep = ciborium::Value::Array(vec![deep]);
    }
    Cbor::read::<Json>(cbor(&deep).unwrap()).unwrap_err();
}

#[test]
fn values_of_others_become_json() {
    let json: Json = toml::from_str("rate = 10.10\n[more]\nlist = [1, true]").unwrap();
    assert_eq!(
        json,
        parsed(r#"{"rate": 10.1, "more": {"list": [1, true]}}"#)
    );
    // JSON has no dates, and toml's name for them is its own.
    let error = toml::from_str::<Json>("date = 2024-01-01").unwrap_err();
    assert!(
        error.to_string().contains("expected a JSON value"),
        "{error}"
    );
    let json: Json = yaml_serde::from_str("a: ~\nb: [1, two]\nc: 170141183460469231731").unwrap();
    assert_eq!(
        json,
        parsed(r#"{"a": null, "b": [1, "two"], "c": 170141183460469231731}"#)
    );
    yaml_serde::from_str::<Json>("a: .nan").unwrap_err();
    let json: Json = yaml_serde::from_str("1: a").unwrap();
    assert_eq!(json, parsed(r#"{"1": "a"}"#));
    let names = ciborium::Value::Map(vec![(1.into(), 1.into())]);
    Cbor::read::<Json>(cbor(&names).unwrap()).unwrap_err();
    Cbor::read::<Json>(cbor(&ciborium::Value::Bytes(vec![1])).unwrap()).unwrap_err();
    // An object that looks like what serde_json hands over cannot be used to smuggle text in.
    for document in [
        r#"{"$serde_json::private::RawValue": "1, 2"}"#,
        r#"{"$serde_json::private::Number": "1, 2"}"#,
    ] {
        if let Ok(Untagged::Row(row)) =
            serde_json::from_str::<Untagged<Row<Json>>>(&format!(r#"{{"value": {document}}}"#))
        {
            assert_eq!(row.value, parsed(document));
        }
    }
}

/// A deal with everything that can go wrong on the way.
fn deal() -> Deal {
    let mut deal = Deal::from_json(
        r#"{
            "id": "d_1", "status": "CLOSED", "expiry_date": "2024-02-29", "created_at": "2024-01-01T00:00:00.123456789Z",
            "listing_contract": {"id": "l_1", "side": "BUY", "side_split": 9007199254740993},
            "application": {"id": "a_1", "offers": [{"id": "o_1", "percent_of_commission": 10.10}]},
            "sides": [{"side_percentage": 12.50}, {"side_percentage": 123456789012345678.12}],
            "metadata": {"source": "import", "amount": "10.10"}, "external_id": "7",
            "undocumented": {"rate": 10.10, "big": 9007199254740993, "deep": [[{"a": [1.5]}]]}, "flag": true
        }"#,
    )
    .unwrap();
    deal.created_at = Some(Utc.with_ymd_and_hms(2024, 1, 1, 0, 0, 0).unwrap());
    deal
}

#[test]
fn deals_survive_every_format() {
    let all = deal();
    let mut binary = all.clone();
    // serde's buffer keeps 15 digits.
    binary.sides.pop();
    for (place, outcome) in shapes!(&all, JsonValue BorrowedValue Hidden Yaml Toml Cbor MessagePack)
    {
        assert_eq!(outcome, Outcome::Same, "{place:?}");
    }
    for (place, outcome) in shapes!(&binary, JsonText) {
        assert_eq!(outcome, Outcome::Same, "{place:?}");
    }
    for (place, outcome) in shapes!(&all, JsonText) {
        match outcome {
            Outcome::Same => {
                let is_direct = matches!(place.1, "plain" | "content");
                assert!(is_direct || arbitrary_precision(), "{place:?}");
            }
            Outcome::NotRead(_) => {}
            Outcome::NotWritten(error) => panic!("{place:?} {error}"),
        }
    }
    // Here the deal itself is flattened, tagged or tried.
    let stored = Flattened {
        name: "Ada".to_owned(),
        row: binary.clone(),
    };
    for outcome in [
        round_trip::<JsonText, _>(stored),
        round_trip::<JsonText, _>(Internal::Row(binary.clone())),
        round_trip::<JsonText, _>(Untagged::Row(binary)),
        round_trip::<Yaml, _>(Internal::Row(all.clone())),
        round_trip::<Toml, _>(Internal::Row(all)),
    ] {
        assert_eq!(outcome, Outcome::Same);
    }
}

#[test]
fn integers_are_read_exactly_or_not_at_all() {
    let split = |document: String| -> Result<i64, String> {
        let read: Untagged<Deal> =
            serde_json::from_str(&document).map_err(|error| error.to_string())?;
        let Untagged::Row(deal) = read;
        Ok(deal.listing_contract.unwrap().side_split.unwrap())
    };
    let document =
        |number: &str| format!(r#"{{"id": "d", "listing_contract": {{"side_split": {number}}}}}"#);
    for number in [
        "9007199254740993",
        "9223372036854775807",
        "-9223372036854775808",
    ] {
        assert_eq!(split(document(number)).unwrap().to_string(), number);
        assert_eq!(
            split(document(&format!("\"{number}\"")))
                .unwrap()
                .to_string(),
            number
        );
    }
    assert_eq!(split(document("450000.0")), Ok(450_000));
    assert_eq!(split(document("4.5e5")), Ok(450_000));
    for number in [
        "9223372036854775808",
        "1e300",
        "0.5",
        "true",
        "\"ten\"",
        "[]",
    ] {
        split(document(number)).unwrap_err();
    }
    if !arbitrary_precision() {
        let value: Value = serde_json::from_str(&document("9007199254740993.0")).unwrap();
        let error = serde_json::from_value::<Deal>(value)
            .unwrap_err()
            .to_string();
        assert!(error.contains(SAYS_WHAT_TO_DO), "{error}");
    }
}

#[test]
fn agents_and_requests_survive_every_format() {
    let metadata = parsed(r#"{"rate": 10.10, "tags": ["a"], "big": 9007199254740993}"#);
    let profile = AgentProfileResponse::builder().client_metadata(metadata);
    let agent = Agent::builder()
        .id("a_1")
        .email("ada@example.com")
        .first_name("Ada")
        .last_name("Lovelace")
        .profile(profile.build())
        .role_assignments([])
        .build();
    let agents = [
        round_trip::<Yaml, _>(agent.clone()),
        round_trip::<Toml, _>(agent.clone()),
        round_trip::<Cbor, _>(agent.clone()),
        round_trip::<JsonValue, _>(agent.clone()),
        round_trip::<JsonText, _>(Internal::Row(agent)),
    ];

    let request = CreateAgent::builder()
        .email("ada@example.com")
        .first_name("Ada")
        .last_name("Lovelace")
        .profile(AgentProfile::new().client_metadata(parsed(r#"{"rate": 10.10}"#)))
        .build()
        .unwrap();
    let value = serde_json::to_value(&request).unwrap();
    assert_eq!(Json::from(value), request.to_json());
    assert_eq!(
        Yaml::read::<Json>(Yaml::write(&request).unwrap()).unwrap(),
        request.to_json()
    );
    let requests = [
        round_trip::<Yaml, _>(request.clone()),
        round_trip::<Cbor, _>(request.clone()),
        round_trip::<JsonValue, _>(request.clone()),
        round_trip::<JsonText, _>(Internal::Row(request)),
    ];
    for outcome in agents.into_iter().chain(requests) {
        assert_eq!(outcome, Outcome::Same);
    }
}

/// Every possible decimal.
fn any_decimal() -> impl Strategy<Value = Decimal> {
    let digits = (0..=28_u32).prop_flat_map(|digits| {
        let end = 10_i128.pow(digits);
        -end..=end
    });
    (digits, 0..=28_u32).prop_filter_map("too many digits", |(mantissa, scale)| {
        Decimal::checked_new(mantissa, scale)
    })
}

proptest! {
    // Each case reads and writes dozens of documents.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_format_makes_another_decimal_of_one(value in any_decimal()) {
        survives_every_format(value);
    }

    /// A number of at most 15 digits is exact even where serde turns it into a float.
    #[test]
    fn fifteen_digits_survive_a_float(mantissa in -999_999_999_999_999_i64..=999_999_999_999_999, scale in 0..=28_u32) {
        let value = Decimal::new(mantissa, scale);
        for (place, outcome) in shapes!(&value, JsonText) {
            prop_assert_eq!(outcome, Outcome::Same, "{:?}", place);
        }
    }

    /// In free form, a number comes back unchanged or is refused.
    #[test]
    fn no_format_makes_another_json_of_one(mantissa in any::<i128>(), digits in 0..=30_u32, exponent in -340..340_i32) {
        let value = parsed(&format!("[{}e{exponent}]", mantissa % 10_i128.pow(digits)));
        for (place, outcome) in shapes!(&value, JsonValue Yaml Cbor MessagePack) {
            prop_assert!(
                matches!(outcome, Outcome::NotWritten(_)) || is_same_or_beyond_serde(&outcome),
                "{:?} {:?}", place, outcome
            );
        }
    }
}
