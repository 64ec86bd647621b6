//! The response types read every document of the vectors as the contract states, and write it unchanged.

use dealkit::{Agent, Deal, DecodeError, Unreadable, UnreadableField};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::vectors::{bytes, name, tree, vectors};

fn read_all<T>(file: &str, at_least: usize, read: fn(&[u8]) -> Result<T, DecodeError>)
where
    T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug,
{
    let mut wrong = Vec::new();
    for case in vectors::<Value>(file, at_least) {
        let document = bytes(&case);
        let outcome = read(&document);
        let expect = &case["expect"];
        let problem = match (outcome, expect.get("error")) {
            (Ok(value), None) => check_written(&value, expect),
            (Err(error), Some(expected)) => check_error(&error, expected, &document),
            (Ok(_), Some(expected)) => Some(format!("was read, expected {expected}")),
            (Err(error), None) => Some(format!("was rejected: {error}")),
        };
        wrong.extend(problem.map(|problem| format!("{}: {problem}", name(&case))));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Reads with [`Unreadable::Skip`], and checks the skipped fields and that writing preserves them.
fn skip_all<T>(
    file: &str,
    read: fn(&[u8], Unreadable) -> Result<T, DecodeError>,
    listed: fn(&T) -> Vec<UnreadableField>,
) where
    T: Serialize + PartialEq + std::fmt::Debug,
{
    let mut count = 0;
    for case in vectors::<Value>(file, 20) {
        let (document, expect, name) = (bytes(&case), &case["expect"], name(&case));
        let skipped = read(&document, Unreadable::Skip);
        let strict = read(&document, Unreadable::Error);
        if let Ok(strict) = strict {
            let skipped = skipped.unwrap();
            assert!(listed(&skipped).is_empty() && skipped == strict, "{name}");
            continue;
        }
        let has_been_read = skipped.is_ok();
        if let Ok(model) = skipped {
            let json = serde_json::to_string(&model).unwrap();
            let fields = listed(&model);
            assert!(!fields.is_empty(), "{name}");
            // serde_json cannot read an unpaired surrogate into a `Value`.
            let is_text = serde_json::from_str::<Value>(&json).is_ok();
            let written = tree(&json);
            for field in fields.iter().filter(|_| is_text) {
                let written = written.pointer(&field.pointer).unwrap();
                assert_eq!(*written, tree(field.json.as_str()), "{name}");
            }
            let again = read(json.as_bytes(), Unreadable::Skip).unwrap();
            assert!(again == model && listed(&again) == fields, "{name}");
        }
        let Some(expected) = expect.get("skipped") else {
            continue;
        };
        count += 1;
        assert_eq!(has_been_read, !expected.is_null(), "{name}");
        let Some(expected) = expected.as_array() else {
            continue;
        };
        let fields = listed(&read(&document, Unreadable::Skip).unwrap());
        let fields = fields.iter().map(|field| {
            let texts = [
                &*field.pointer,
                &field.expected.to_string(),
                field.json.as_str(),
            ];
            Value::from(texts.map(Value::from).to_vec())
        });
        assert_eq!(&fields.collect::<Vec<_>>(), expected, "{name}");
        let error = strict.unwrap_err();
        assert!(error.is_optional(), "{name}");
    }
    assert!(count >= 3, "{file} has only {count}");
}

/// Writes and reads a value again, and compares it with the case.
fn check_written<T>(value: &T, expected: &Value) -> Option<String>
where
    T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug,
{
    let json = serde_json::to_string(value).unwrap();
    let again: T = serde_json::from_str(&json).unwrap();
    if again != *value {
        return Some("does not survive writing and reading".to_owned());
    }
    let expected = expected_by_pointer(expected);
    assert!(!expected.is_empty(), "a case expects something");
    for (pointer, expected) in expected {
        let found = at(&json, &pointer);
        if found != expected {
            return Some(format!("{pointer} is {found:?}, expected {expected:?}"));
        }
    }
    None
}

/// Returns the value that a case expects at each pointer, or `None` if it expects no value there.
fn expected_by_pointer(expect: &Value) -> Vec<(String, Option<Value>)> {
    let members = |name: &str| expect[name].as_object().into_iter().flatten();
    let values = members("values").map(|(at, value)| (at.clone(), Some(tree(&value.to_string()))));
    let texts = members("exact").map(|(at, text)| (at.clone(), text.as_str().map(tree)));
    let absent = expect["absent"].as_array().into_iter().flatten();
    let absent = absent.map(|at| (at.as_str().unwrap().to_owned(), None));
    values.chain(texts).chain(absent).collect()
}

fn check_error(error: &DecodeError, expected: &Value, document: &[u8]) -> Option<String> {
    if error.body() != document {
        return Some("the document was not kept".to_owned());
    }
    if error.found() != expected["found"].as_str().unwrap() {
        return Some(format!("found {}, expected {expected}", error.found()));
    }
    match expected.get("path").and_then(Value::as_str) {
        Some(path) if path != error.path() => {
            Some(format!("at {:?}, expected {expected}", error.path()))
        }
        _ => None,
    }
}

#[test]
fn deals_are_read_as_the_contract_states() {
    read_all("deals.json", 45, |document| Deal::from_json(document));
}

#[test]
fn optional_fields_are_skipped_as_the_contract_states() {
    skip_all(
        "deals.json",
        |json, unreadable| Deal::from_json_with(json, unreadable),
        Deal::unreadable,
    );
    skip_all(
        "agents.json",
        |json, unreadable| Agent::from_json_with(json, unreadable),
        Agent::unreadable,
    );
}

#[test]
fn a_skipped_field_is_stored_like_an_undocumented_one() {
    let json = r#"{"id": "d_1", "quotes": "CANARY", "expiry_date": "CANARY", "badge": "CANARY"}"#;
    let deal = Deal::from_json_with(json, Unreadable::Skip).unwrap();
    assert!(deal.quotes.is_empty() && deal.expiry_date.is_none());
    assert_eq!(deal.get("quotes").unwrap().as_str(), r#""CANARY""#);
    assert_eq!(deal.extra().len(), 3);
    let shown = format!("{deal:?} {:?}", deal.unreadable());
    assert!(!shown.contains("CANARY"), "{shown}");
    let expected = r#"extra: <1 hidden>, unreadable: ["expiry_date", "quotes"]"#;
    assert!(shown.contains(expected), "{shown}");

    // Setting a skipped field removes it from the list; other skipped fields stay.
    let changed = deal.clone().with("quotes", serde_json::json!([])).unwrap();
    let pointers = changed.unreadable().into_iter().map(|field| field.pointer);
    assert_eq!(pointers.collect::<Vec<_>>(), ["/expiry_date"]);
    assert_ne!(changed, deal);

    let error = Deal::list_from_json(r#"[{"id": "d_1"}, {"id": "d_2", "quotes": 1}]"#).unwrap_err();
    assert_eq!(error.pointer(), "/1/quotes");
    let expected = "at [1].quotes: expected an array of objects, found a number";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn agents_are_read_as_the_contract_states() {
    read_all("agents.json", 20, |document| Agent::from_json(document));
}

#[test]
fn the_error_of_a_truncated_document_has_its_position() {
    for (document, message) in [
        (r#"{"id":"#, "the document ends early, line 1 column 6"),
        (
            "{\n  \"id\": \"CANARY",
            "the document ends early, line 2 column 15",
        ),
        ("", "expected JSON, found an empty body"),
    ] {
        let error = Deal::from_json(document).unwrap_err();
        assert_eq!(error.found(), "not JSON", "{document}");
        assert_eq!(error.to_string(), message);
        assert!(!format!("{error:?}").contains("CANARY"));
    }
    // An extra character after the document is not an early end.
    let error = Deal::from_json(r#"{"id": "d"}}"#).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("expected JSON, found something else"),
        "{error}"
    );
}

/// Returns the value at a JSON pointer, if there is one.
fn at(json: &str, pointer: &str) -> Option<Value> {
    tree(json).pointer(pointer).cloned()
}
