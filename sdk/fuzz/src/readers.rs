//! The readers of a response: those over the lexer, into models and into columns, and serde, which is authoritative.

use std::fmt::Debug;

use dealkit::{
    Agent, Deal, DecodeError, Problem,
    arrow::{DealBatchBuilder, Decimals},
};
use serde::{Serialize, de::DeserializeOwned};

/// Any bytes as a deal and as an agent, alone and in a list.
pub fn readers(data: &[u8]) {
    come_back(Deal::from_json(data), data, |text| Deal::from_json(text));
    come_back(Agent::from_json(data), data, |text| Agent::from_json(text));
    if let Some(problem) = Problem::from_json(data) {
        let text = serde_json::to_string(&problem).unwrap();
        assert_eq!(Problem::from_json(&text), Some(problem));
    }
    agree(Deal::from_json(data), Deal::from_json_by_serde(data));
    agree(Agent::from_json(data), Agent::from_json_by_serde(data));
    columns(data, Decimals::STRINGS);
    columns(data, Decimals::default());
    let list = [b"[", data, b"]"].concat();
    agree_on_a_list(&list, Deal::list_from_json(&list));
    agree_on_a_list(&list, Agent::list_from_json(&list));
}

/// What is read is written so that it reads as the same; what is refused is kept.
fn come_back<T: Serialize + PartialEq + Debug>(
    read: Result<T, DecodeError>,
    data: &[u8],
    again: fn(&str) -> Result<T, DecodeError>,
) {
    match read {
        Ok(read) => {
            let text = serde_json::to_string(&read).unwrap();
            same(&again(&text).unwrap(), &read);
        }
        Err(error) => assert_eq!(error.body(), data),
    }
}

fn agree<T: Serialize + PartialEq + Debug>(
    read: Result<T, DecodeError>,
    by_serde: Result<T, DecodeError>,
) {
    match (read, by_serde) {
        (Ok(read), Ok(by_serde)) => same(&read, &by_serde),
        (Err(read), Err(by_serde)) => {
            assert_eq!(read.to_string(), by_serde.to_string());
            assert_eq!(read.path(), by_serde.path());
            assert_eq!(read.pointer(), by_serde.pointer());
            assert_eq!(read.found(), by_serde.found());
            assert_eq!(read.body(), by_serde.body());
        }
        (Ok(_), Err(error)) => panic!("read what serde refuses: {error}"),
        (Err(error), Ok(_)) => panic!("refused what serde reads: {error}"),
    }
}

/// Reads into columns, straight from JSON and by way of a model. What is refused leaves no trace.
fn columns(data: &[u8], decimals: Decimals) {
    let before = br#"{"id": "before", "metadata": {"a": "b"}, "sides": [{"side_percentage": 1.5}], "new": [1]}"#;
    let mut straight = DealBatchBuilder::new(decimals);
    let mut by_model = DealBatchBuilder::new(decimals);
    for builder in [&mut straight, &mut by_model] {
        builder.push_json(before).unwrap();
    }
    let read = straight.push_json(data);
    let stored = Deal::from_json_by_serde(data).and_then(|deal| by_model.push(&deal));
    match (read, stored) {
        (Ok(()), Ok(())) => {}
        (Err(read), Err(stored)) => {
            assert_eq!(read.to_string(), stored.to_string());
            assert_eq!(read.pointer(), stored.pointer());
            assert_eq!(read.body(), data);
        }
        (Ok(()), Err(error)) => panic!("read into columns what a model refuses: {error}"),
        (Err(error), Ok(())) => panic!("refused what a model reads: {error}"),
    }
    for builder in [&mut straight, &mut by_model] {
        builder.push_json(before).unwrap();
    }
    assert_eq!(straight.finish().unwrap(), by_model.finish().unwrap());
}

fn agree_on_a_list<T: Serialize + DeserializeOwned + PartialEq + Debug>(
    list: &[u8],
    read: Result<Vec<T>, DecodeError>,
) {
    match (read, serde_json::from_slice::<Vec<T>>(list)) {
        (Ok(read), Ok(by_serde)) => same(&read, &by_serde),
        (Err(_), Err(_)) => {}
        (Ok(_), Err(error)) => panic!("read a list that serde refuses: {error}"),
        (Err(error), Ok(_)) => panic!("refused a list that serde reads: {error}"),
    }
}

/// Equal to the last digit, and in the text of everything that is kept as text.
fn same<T: Serialize + PartialEq + Debug>(read: &T, by_serde: &T) {
    assert!(read == by_serde, "{read:?}, by serde {by_serde:?}");
    let text = |value| serde_json::to_string(value).unwrap();
    assert_eq!(text(read), text(by_serde));
}
