//! The readers of a response, into models and from those into columns; what they read is JSON by serde_json, too.

use std::{collections::BTreeSet, fmt::Debug, sync::OnceLock};

use dealkit::{
    Agent, Deal, DecodeError, Problem, Unreadable,
    arrow::{DealBatchBuilder, Decimals},
    internal::document_limits,
};
use serde::Serialize;
use serde_json::value::RawValue;

/// Any bytes as a deal and as an agent, alone and in a list, and as a row of a table.
pub fn readers(data: &[u8]) {
    model(data, Deal::from_json);
    model(data, Agent::from_json);
    if let Some(problem) = Problem::from_json(data) {
        let written = serde_json::to_string(&problem).unwrap();
        assert_eq!(Problem::from_json(&written), Some(problem));
    }
    for unreadable in [Unreadable::Error, Unreadable::Skip] {
        columns(data, Decimals::STRINGS, unreadable);
        columns(data, Decimals::default(), unreadable);
    }
    let list = [b"[", data, b"]"].concat();
    checked(&list, Deal::list_from_json(&list));
    checked(&list, Agent::list_from_json(&list));
}

fn model<T>(data: &[u8], read: fn(Vec<u8>) -> Result<T, DecodeError>)
where
    T: Serialize + PartialEq + Debug,
{
    if let Some(model) = checked(data, read(data.to_owned())) {
        let written = serde_json::to_string(&model).unwrap();
        let again = read(written.clone().into_bytes()).unwrap();
        assert!(again == model, "{written} reads as another");
        assert_eq!(serde_json::to_string(&again).unwrap(), written);
    }
}

/// What was read, from what is JSON; or what the error says is true, and shows no value.
fn checked<T>(data: &[u8], read: Result<T, DecodeError>) -> Option<T> {
    let json = data.strip_prefix(b"\xef\xbb\xbf").unwrap_or(data);
    let is_json = serde_json::from_slice::<&RawValue>(json).is_ok();
    let error = match read {
        Ok(read) => {
            assert!(is_json, "read what is not JSON");
            return Some(read);
        }
        Err(error) => error,
    };
    assert_eq!(error.body(), data, "the error keeps the document");
    if error.found() == "too many values" {
        let marks = data.iter().filter(|byte| b"{[,".contains(byte)).count();
        assert!(marks > document_limits::MAX_VALUES, "{marks} values");
    } else if !is_json {
        assert_eq!(error.found(), "not JSON", "{error}");
    }
    assert_eq!(error.line().is_some(), error.found() == "not JSON");
    if let Some(expected) = error.expected() {
        let detail = format!("expected {expected}, found {}", error.found());
        assert_eq!(error.detail().to_string(), detail);
    }
    // A path consists of names of the specification and of positions.
    for token in error
        .path()
        .split(['.', '[', ']'])
        .filter(|token| !token.is_empty())
    {
        let position = token.strip_prefix("entry ").unwrap_or(token);
        assert!(
            position.parse::<usize>().is_ok() || names_of_the_specification().contains(token),
            "{error}"
        );
    }
    None
}

/// The fields of every request and of every response that is not an error.
fn names_of_the_specification() -> &'static BTreeSet<String> {
    static NAMES: OnceLock<BTreeSet<String>> = OnceLock::new();
    NAMES.get_or_init(|| {
        let openapi = include_str!("../../contract/openapi.json");
        let openapi: serde_json::Value = serde_json::from_str(openapi).unwrap();
        let schemas = openapi["components"]["schemas"].as_object().unwrap();
        schemas
            .iter()
            .filter(|(name, _)| !["Problem", "Violation"].contains(&&***name))
            .filter_map(|(_, schema)| schema["properties"].as_object())
            .flat_map(|properties| properties.keys().cloned())
            .collect()
    })
}

/// Reads into columns what a model can be read from, and has decimals that fit. What is refused leaves no trace.
fn columns(data: &[u8], decimals: Decimals, unreadable: Unreadable) {
    let before = br#"{"id": "before", "metadata": {"a": "b"}, "sides": [{"side_percentage": 1.5}], "new": [1]}"#;
    let (mut read, mut stored) = (
        DealBatchBuilder::new(decimals),
        DealBatchBuilder::new(decimals),
    );
    for builder in [&mut read, &mut stored] {
        builder.push_json(before).unwrap();
    }
    let pushed = read.push_json_with(data, unreadable);
    let model = Deal::from_json_with(data, unreadable).and_then(|deal| {
        // What was skipped is written again.
        let again = Deal::from_json_with(serde_json::to_vec(&deal).unwrap(), unreadable)?;
        assert!(again == deal && again.unreadable() == deal.unreadable());
        stored.push(&deal)?;
        Ok(deal.unreadable())
    });
    match (pushed, model) {
        (Ok(skipped), Ok(listed)) => assert_eq!(skipped, listed),
        (Err(pushed), Err(model)) => {
            assert_eq!(pushed.to_string(), model.to_string());
            assert_eq!(pushed.body(), data);
        }
        (pushed, model) => panic!("{pushed:?}, but as a model {model:?}"),
    }
    for builder in [&mut read, &mut stored] {
        builder.push_json(before).unwrap();
    }
    assert_eq!(read.finish().unwrap(), stored.finish().unwrap());
}
