//! Reading the vectors of `sdk/contract`; `contract/README.md` states their format.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::{collections::BTreeMap, path::PathBuf};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{Value, value::RawValue};

/// A file of the contract.
pub(crate) fn contract(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("contract")
        .join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The cases of a vector file; `at_least` keeps a truncated file from passing.
pub(crate) fn vectors(file: &str, at_least: usize) -> Vec<Value> {
    let file: Value = serde_json::from_str(&contract(&format!("vectors/{file}"))).unwrap();
    let cases = file["cases"].as_array().unwrap().clone();
    assert!(cases.len() >= at_least, "only {} cases", cases.len());
    cases
}

/// The name of a case.
pub(crate) fn name(case: &Value) -> &str {
    case["name"].as_str().unwrap()
}

/// The bytes of a case: `body` or `json` written out, `text` as it is, or `base64` decoded.
pub(crate) fn bytes(case: &Value) -> Vec<u8> {
    let case = case.as_object().unwrap();
    if let Some(text) = case.get("text") {
        return text.as_str().unwrap().as_bytes().to_vec();
    }
    if let Some(base64) = case.get("base64") {
        return BASE64_STANDARD.decode(base64.as_str().unwrap()).unwrap();
    }
    let mut json = case
        .get("json")
        .or_else(|| case.get("body"))
        .unwrap()
        .clone();
    if let Some(repeat) = case.get("repeat") {
        let items = json
            .pointer_mut(repeat["pointer"].as_str().unwrap())
            .unwrap();
        let item = items[0].clone();
        let times = usize::try_from(repeat["times"].as_u64().unwrap()).unwrap();
        *items = Value::Array(vec![item; times]);
    }
    let bytes = serde_json::to_vec(&json).unwrap();
    if let Some(least) = case.get("bytes_at_least") {
        assert!(bytes.len() as u64 >= least.as_u64().unwrap());
    }
    bytes
}

/// The value at a JSON pointer as exact text, or `None` where nothing is.
pub(crate) fn at(json: &str, pointer: &str) -> Option<String> {
    let mut value: &RawValue = serde_json::from_str(json).unwrap();
    for token in pointer.split('/').skip(1) {
        let token = token.replace("~1", "/").replace("~0", "~");
        value = if value.get().starts_with('[') {
            let items: Vec<&RawValue> = serde_json::from_str(value.get()).unwrap();
            items.get(token.parse::<usize>().ok()?).copied()?
        } else {
            let members: BTreeMap<String, &RawValue> = serde_json::from_str(value.get()).ok()?;
            members.get(&token).copied()?
        };
    }
    Some(exact(value.get()))
}

/// JSON text without white space between tokens, strings written one way, numbers untouched.
pub(crate) fn exact(json: &str) -> String {
    match json.trim_start().as_bytes()[0] {
        b'[' => {
            let items: Vec<&RawValue> = serde_json::from_str(json).unwrap();
            let items: Vec<String> = items.iter().map(|item| exact(item.get())).collect();
            format!("[{}]", items.join(","))
        }
        b'{' => {
            let members: BTreeMap<String, &RawValue> = serde_json::from_str(json).unwrap();
            let members: Vec<String> = members
                .iter()
                .map(|(name, value)| {
                    format!("{}:{}", Value::from(name.as_str()), exact(value.get()))
                })
                .collect();
            format!("{{{}}}", members.join(","))
        }
        b'"' => serde_json::from_str::<Value>(json).unwrap().to_string(),
        _ => json.trim().to_owned(),
    }
}
