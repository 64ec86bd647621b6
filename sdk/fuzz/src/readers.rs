//! The readers of a response: those over the lexer, into models and into columns, and serde, which is the judge.

use std::{collections::BTreeSet, fmt::Debug, sync::OnceLock};

use dealkit::{
    Agent, Deal, DecodeError, Problem, Unreadable,
    arrow::{DealBatchBuilder, Decimals},
    document,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use serde_path_to_error::Segment;

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
    agrees(&list, Deal::list_from_json(&list));
    agrees(&list, Agent::list_from_json(&list));
}

fn model<T>(data: &[u8], read: fn(Vec<u8>) -> Result<T, DecodeError>)
where
    T: Serialize + DeserializeOwned + PartialEq + Debug,
{
    if let Some(model) = agrees(data, read(data.to_owned())) {
        let written = serde_json::to_string(&model).unwrap();
        let again = read(written.clone().into_bytes()).unwrap();
        assert!(again == model, "{written} reads as another");
        assert_eq!(serde_json::to_string(&again).unwrap(), written);
    }
}

/// What was read, which is what serde reads; or serde refuses it at the same place.
fn agrees<T>(data: &[u8], read: Result<T, DecodeError>) -> Option<T>
where
    T: Serialize + DeserializeOwned + PartialEq + Debug,
{
    let json = data.strip_prefix(b"\xef\xbb\xbf").unwrap_or(data);
    match (read, serde_json::from_slice::<T>(json)) {
        (Ok(read), Ok(by_serde)) => {
            same(&read, &by_serde);
            Some(read)
        }
        (Err(error), by_serde) => {
            assert_eq!(error.body(), data, "the error keeps the document");
            if error.found() == "too many values" {
                let marks = data.iter().filter(|byte| b"{[,".contains(byte)).count();
                assert!(marks > document::MAX_VALUES, "{marks} values");
            } else {
                assert!(by_serde.is_err(), "refused what serde reads: {error}");
                refused::<T>(json, &error);
            }
            None
        }
        (Ok(_), Err(error)) => panic!("read what serde refuses: {error}"),
    }
}

/// The error says where and what, without showing a value.
fn refused<T: DeserializeOwned>(json: &[u8], error: &DecodeError) {
    let is_json = serde_json::from_slice::<&RawValue>(json).is_ok();
    if !is_json {
        assert_eq!(error.found(), "not JSON", "{error}");
    } else if error.found() != "nothing" {
        let mut reader = serde_json::Deserializer::from_slice(json);
        let located = serde_path_to_error::deserialize::<_, T>(&mut reader);
        if let Err(located) = located {
            // A document may itself have a name that serde_json gives a meaning.
            let own = error.pointer().contains("/$serde_json::");
            let place = pointer(located.path());
            assert!(own || error.pointer() == place, "{error}, not {place}");
        }
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
}

/// Where serde was, as a pointer: with serde_json, it asks for raw text under a name of its own.
fn pointer(path: &serde_path_to_error::Path) -> String {
    let tokens = path.iter().filter_map(|segment| match segment {
        Segment::Seq { index } => Some(format!("/{index}")),
        Segment::Map { key } if key.starts_with("$serde_json::") => None,
        Segment::Map { key } => Some(format!("/{}", key.replace('~', "~0").replace('/', "~1"))),
        _ => None,
    });
    tokens.collect()
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

/// Reads into columns, straight from JSON and by way of a model. What is refused leaves no trace.
fn columns(data: &[u8], decimals: Decimals, unreadable: Unreadable) {
    let before = br#"{"id": "before", "metadata": {"a": "b"}, "sides": [{"side_percentage": 1.5}], "new": [1]}"#;
    let mut straight = DealBatchBuilder::new(decimals);
    let mut by_model = DealBatchBuilder::new(decimals);
    for builder in [&mut straight, &mut by_model] {
        builder.push_json(before).unwrap();
    }
    let read = straight.push_json_with(data, unreadable);
    let stored = Deal::from_json_with(data, unreadable).and_then(|deal| {
        // What was skipped is written again.
        let again = Deal::from_json_with(serde_json::to_vec(&deal).unwrap(), unreadable)?;
        assert!(again == deal && again.unreadable() == deal.unreadable());
        by_model.push(&deal)?;
        Ok(deal.unreadable())
    });
    match (read, stored) {
        (Ok(skipped), Ok(listed)) => assert_eq!(skipped, listed),
        (Err(read), Err(stored)) => {
            assert_eq!(read.to_string(), stored.to_string());
            assert_eq!(read.pointer(), stored.pointer());
            assert_eq!(read.body(), data);
        }
        (Ok(_), Err(error)) => panic!("read into columns what a model refuses: {error}"),
        (Err(error), Ok(_)) => panic!("refused what a model reads: {error}"),
    }
    for builder in [&mut straight, &mut by_model] {
        builder.push_json(before).unwrap();
    }
    assert_eq!(straight.finish().unwrap(), by_model.finish().unwrap());
}

/// Equal to the last digit, and in the text of everything that is kept as text.
fn same<T: Serialize + PartialEq + Debug>(read: &T, by_serde: &T) {
    assert!(read == by_serde, "{read:?}, by serde {by_serde:?}");
    let text = |value| serde_json::to_string(value).unwrap();
    assert_eq!(text(read), text(by_serde));
}
