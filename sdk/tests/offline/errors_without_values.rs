//! Errors of decoding never show a value, whichever way serde takes to the model: the message, `Debug` and the sources have only
//! the expectation. Undocumented names count as values.

use std::{collections::BTreeSet, error::Error as StdError, fmt::Debug};

use dealkit::{
    Agent, AgentId, AssignedRole, CreateAgent, Deal, DealStatus, Decimal, Role, ViolationCode,
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::vectors;

const CANARY: &str = "Ada Lovelace, expected a c4n4ry";
const NUMBER: u64 = 15_550_177;
const MARKS: [&str; 3] = ["Lovelace", "c4n4ry", "15550177"];

/// Returns a value of each kind, with a text or number that must not show.
fn canaries() -> Vec<Value> {
    vec![
        json!(CANARY),
        json!(NUMBER),
        json!(15_550_177.5),
        json!(-15_550_177),
        json!(true),
        json!([CANARY, NUMBER, true]),
        json!({CANARY: CANARY}),
        json!({CANARY: NUMBER}),
        json!({CANARY: true}),
        json!({CANARY: [{CANARY: NUMBER}]}),
        json!({CANARY: {CANARY: CANARY}}),
        // A format that turns it into a float rejects it.
        json!({CANARY: 15_550_177.123_456_79}),
        Value::Null,
    ]
}

#[derive(Deserialize)]
struct Flattened<T> {
    #[serde(flatten)]
    _model: T,
}

/// Checks that the error shows no value.
fn assert_shows_no_value(error: &dyn StdError, way: &str) {
    let text = error.to_string();
    let mut shown = format!("{text}\n{error:?}");
    let mut source = error.source();
    while let Some(error) = source {
        shown.push_str(&format!("\n{error}\n{error:?}"));
        source = error.source();
    }
    for mark in MARKS.iter().chain(&["`true`"]) {
        assert!(!shown.contains(mark), "{way}: {shown}");
    }
    assert!(
        ["expected", "must be", "required", "missing field", "marker"]
            .iter()
            .any(|word| text.contains(word)),
        "{way}: {text}"
    );
}

/// Reads the document in every format, and returns the number of errors.
fn count_errors<T: DeserializeOwned + Debug>(document: &Value, location: &str) -> usize {
    let mut errors = 0;
    let mut record = |way: &str, error: Option<&dyn StdError>| {
        if let Some(error) = error {
            errors += 1;
            assert_shows_no_value(error, &format!("{way}, {location}"));
        }
    };
    macro_rules! way {
        ($name:literal, $outcome:expr) => {
            record(
                $name,
                $outcome.as_ref().err().map(|error| error as &dyn StdError),
            )
        };
    }

    let text = document.to_string();
    let yaml = yaml_serde::to_string(document).unwrap();
    way!("text", serde_json::from_str::<T>(&text));
    way!("value", serde_json::from_value::<T>(document.clone()));
    way!("flatten", serde_json::from_str::<Flattened<T>>(&text));
    way!("YAML", yaml_serde::from_str::<T>(&yaml));
    errors
}

/// Collects the pointers of all values in the document except the document itself.
fn collect_pointers(value: &Value, at: &str, out: &mut Vec<String>) {
    let mut step = |name: &str, value: &Value| {
        let pointer = format!("{at}/{name}");
        out.push(pointer.clone());
        collect_pointers(value, &pointer, out);
    };
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| step(name, value)),
        Value::Array(items) => {
            (0..)
                .zip(items)
                .for_each(|(index, value): (usize, _)| step(&index.to_string(), value));
        }
        _ => {}
    }
}

/// Replaces each value in the document with each canary, and adds each canary in an undocumented field.
fn replace_each_value<T: DeserializeOwned + Debug>(document: &Value) {
    serde_json::from_value::<T>(document.clone()).unwrap();
    let mut locations = Vec::new();
    collect_pointers(document, "", &mut locations);
    let mut with_error = BTreeSet::new();
    for location in &locations {
        for canary in canaries() {
            let mut changed = document.clone();
            *changed.pointer_mut(location).unwrap() = canary.clone();
            if count_errors::<T>(&changed, &format!("{location} is {canary}")) > 0 {
                with_error.insert(location);
            }
        }
    }
    // Only free-form values accept all canaries.
    for location in &locations {
        let is_free = location.contains("etadata/") || location.ends_with("/extra");
        assert!(
            is_free || with_error.contains(location),
            "{location} accepted everything"
        );
    }
    for canary in canaries() {
        let mut more = document.clone();
        more[CANARY] = canary;
        count_errors::<T>(&more, "an undocumented field");
    }
}

/// Returns the document with all fields in a vector file.
fn full_document(file: &str) -> Value {
    let cases: Vec<Value> = vectors::vectors(file, 20);
    let full = cases.iter().find(|case| vectors::name(case) == "full");
    full.unwrap()["json"].clone()
}

#[test]
fn no_error_of_a_deal_shows_a_value() {
    replace_each_value::<Deal>(&full_document("deals.json"));
}

#[test]
fn no_error_of_an_agent_shows_a_value() {
    replace_each_value::<Agent>(&full_document("agents.json"));
}

#[test]
fn no_error_of_a_request_shows_a_value() {
    replace_each_value::<CreateAgent>(&json!({
        "email": "ada@example.com",
        "first_name": "Ada",
        "last_name": "King",
        "role": "AGENT",
        "phone": "+12025550100",
        "image_url": "https://example.com/ada.png",
        "date_of_birth": "1990-02-28",
        "brokerage_id": "b_1",
        "profile": {"tier": "A", "clientMetadata": {"batch": "7"}},
    }));
}

/// Calls a function for each public type that implements `Deserialize`.
macro_rules! for_each_type {
    ($function:ident) => {
        for_each_type!(
            $function: Deal Agent CreateAgent AgentId DealStatus AssignedRole ViolationCode Role
                Decimal
        )
    };
    ($function:ident: $($type:ty)+) => {
        $( $function::<$type>(); )+
    };
}

#[test]
fn no_error_of_another_document_shows_it() {
    fn read_each<T: DeserializeOwned + Debug>() {
        for canary in canaries() {
            let way = format!("{} of {canary}", std::any::type_name::<T>());
            let text = canary.to_string();
            let yaml = yaml_serde::to_string(&canary).unwrap();
            let _ = serde_json::from_str::<T>(&text)
                .map_err(|error| assert_shows_no_value(&error, &way));
            let _ = yaml_serde::from_str::<T>(&yaml)
                .map_err(|error| assert_shows_no_value(&error, &way));
            let _ = serde_json::from_value::<T>(canary)
                .map_err(|error| assert_shows_no_value(&error, &way));
        }
    }
    for_each_type!(read_each);
}
