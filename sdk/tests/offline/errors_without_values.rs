//! A value that cannot be read never shows in the error, whichever way serde takes to the model: the error's text, its
//! `Debug` and its sources only say what was expected. Undocumented names are values too.

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

/// One value of each kind, each containing what must not show. For a boolean, this is its value.
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
        // Refused once it has been turned into a float.
        json!({CANARY: 15_550_177.123_456_79}),
        Value::Null,
    ]
}

#[derive(Deserialize)]
struct Flattened<T> {
    #[serde(flatten)]
    _model: T,
}

/// Fails the test if the error shows a value; returns its text.
fn silent(error: &dyn StdError, way: &str) -> String {
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
            .any(|told| text.contains(told)),
        "{way}: {text}"
    );
    text
}

/// Reads the document in every way, and returns how many of them refused it.
fn read_in_every_way<T: DeserializeOwned + Debug>(document: &Value, place: &str) -> usize {
    let mut refused = 0;
    let mut note = |way: &str, error: Option<&dyn StdError>| {
        error.map(|error| {
            refused += 1;
            silent(error, &format!("{way}, {place}"))
        })
    };
    macro_rules! way {
        ($name:literal, $outcome:expr) => {
            note(
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
    refused
}

/// The pointers of every value in the document except the document itself.
fn pointers(value: &Value, at: &str, out: &mut Vec<String>) {
    let mut step = |name: &str, value: &Value| {
        let pointer = format!("{at}/{name}");
        out.push(pointer.clone());
        pointers(value, &pointer, out);
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

/// Replaces every value in the document with every canary; an undocumented field holds them too.
fn replace_each_value<T: DeserializeOwned + Debug>(document: &Value) {
    serde_json::from_value::<T>(document.clone()).unwrap();
    let mut places = Vec::new();
    pointers(document, "", &mut places);
    let mut silent_places = BTreeSet::new();
    for place in &places {
        for canary in canaries() {
            let mut changed = document.clone();
            *changed.pointer_mut(place).unwrap() = canary.clone();
            if read_in_every_way::<T>(&changed, &format!("{place} is {canary}")) > 0 {
                silent_places.insert(place);
            }
        }
    }
    // Only free-form values accept them all.
    for place in &places {
        let is_free = place.contains("etadata/") || place.ends_with("/extra");
        assert!(
            is_free || silent_places.contains(place),
            "{place} refused nothing"
        );
    }
    for canary in canaries() {
        let mut more = document.clone();
        more[CANARY] = canary;
        read_in_every_way::<T>(&more, "an undocumented field");
    }
}

/// The document in a vector file that has every field.
fn full(file: &str) -> Value {
    let cases: Vec<Value> = vectors::vectors(file, 20);
    let full = cases.iter().find(|case| vectors::name(case) == "full");
    full.unwrap()["json"].clone()
}

#[test]
fn no_error_of_a_deal_shows_a_value() {
    replace_each_value::<Deal>(&full("deals.json"));
}

#[test]
fn no_error_of_an_agent_shows_a_value() {
    replace_each_value::<Agent>(&full("agents.json"));
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

/// Calls a function for every type of dealkit's that serde reads.
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

/// A document of an entirely different kind.
#[test]
fn no_error_of_another_document_shows_it() {
    fn read_each<T: DeserializeOwned + Debug>() {
        for canary in canaries() {
            let way = format!("{} of {canary}", std::any::type_name::<T>());
            let text = canary.to_string();
            let yaml = yaml_serde::to_string(&canary).unwrap();
            let _ = serde_json::from_str::<T>(&text).map_err(|error| silent(&error, &way));
            let _ = yaml_serde::from_str::<T>(&yaml).map_err(|error| silent(&error, &way));
            let _ = serde_json::from_value::<T>(canary).map_err(|error| silent(&error, &way));
        }
    }
    for_each_type!(read_each);
}
