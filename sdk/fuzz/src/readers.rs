//! The readers of a response, into models and table columns, compared with serde_json.

use std::{collections::BTreeSet, fmt::Debug, sync::OnceLock};

use dealkit::{
    Agent, Deal, DecodeError, Problem, Unreadable,
    arrow::{DealBatchBuilder, Decimals},
    internal::document_limits,
};
use serde::Serialize;
use serde_json::value::RawValue;

/// Reads any bytes as a deal and as an agent, alone and in a list, and as a row of a table.
pub fn readers(data: &[u8]) {
    model(data, Deal::from_json);
    model(data, Agent::from_json);
    if let Some(problem) = Problem::from_json(data) {
        let written = serde_json::to_string(&problem).unwrap();
        assert_eq!(Problem::from_json(&written), Some(problem));
    }
    for unreadable in [Unreadable::Error, Unreadable::Skip] {
        check_columns(data, Decimals::STRINGS, unreadable);
        check_columns(data, Decimals::default(), unreadable);
    }
    let list = [b"[", data, b"]"].concat();
    check_result(&list, Deal::list_from_json(&list));
    check_result(&list, Agent::list_from_json(&list));
}

fn model<T>(data: &[u8], read: fn(Vec<u8>) -> Result<T, DecodeError>)
where
    T: Serialize + PartialEq + Debug,
{
    if let Some(model) = check_result(data, read(data.to_owned())) {
        let written = serde_json::to_string(&model).unwrap();
        let again = read(written.clone().into_bytes()).unwrap();
        assert!(again == model, "{written} reads as another");
        assert_eq!(serde_json::to_string(&again).unwrap(), written);
    }
}

/// Checks that the input is JSON if it was read, and otherwise that the error is right and shows no value.
fn check_result<T>(data: &[u8], read: Result<T, DecodeError>) -> Option<T> {
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
        // A value of the expected type may have a wrong form: "expected a date YYYY-MM-DD, found another string".
        let detail = error.detail().to_string();
        let detail = detail.replace(", found another ", ", found a ");
        let found = error.found();
        assert_eq!(detail, format!("expected {expected}, found {found}"));
    }
    // A path consists of the specification's names and of positions.
    for token in error
        .path()
        .split(['.', '[', ']'])
        .filter(|token| !token.is_empty())
    {
        let position = token.strip_prefix("entry ").unwrap_or(token);
        assert!(
            position.parse::<usize>().is_ok() || specification_names().contains(token),
            "{error}"
        );
    }
    None
}

/// Returns the field names of every request and of every response that is not an error.
fn specification_names() -> &'static BTreeSet<String> {
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

/// Checks that reading into columns accepts the same documents as reading a model, if the decimals fit. A rejected document leaves
/// the columns unchanged.
fn check_columns(data: &[u8], decimals: Decimals, unreadable: Unreadable) {
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
        // Writing preserves skipped values.
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
