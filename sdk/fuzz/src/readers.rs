//! The two readers of a response: the one over the lexer, and serde, which has the last word.

use std::fmt::Debug;

use dealkit::{Agent, Deal, DecodeError};
use serde::{Serialize, de::DeserializeOwned};

/// Any bytes as a deal and as an agent, alone and in a list.
pub fn readers(data: &[u8]) {
    agree(Deal::from_json(data), Deal::from_json_by_serde(data));
    agree(Agent::from_json(data), Agent::from_json_by_serde(data));
    let list = [b"[", data, b"]"].concat();
    agree_on_a_list(&list, Deal::list_from_json(&list));
    agree_on_a_list(&list, Agent::list_from_json(&list));
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

/// Equal to the digit, and to the text of what is kept as text.
fn same<T: Serialize + PartialEq + Debug>(read: &T, by_serde: &T) {
    assert!(read == by_serde, "{read:?}, by serde {by_serde:?}");
    let text = |value| serde_json::to_string(value).unwrap();
    assert_eq!(text(read), text(by_serde));
}
