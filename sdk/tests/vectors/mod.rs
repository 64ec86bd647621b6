//! Reads the vectors of `sdk/contract`. Its `README.md` describes their format.
//!
//! The tests of the SDK and the server, and the fuzzer, include this module by its path.
#![allow(dead_code, reason = "each user needs only some functions")]

use std::collections::BTreeMap;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};

macro_rules! files {
    ($($name:literal),+) => {
        [$(($name, include_str!(concat!("../../contract/", $name)))),+]
    };
}

const FILES: [(&str, &str); 8] = files!(
    "openapi.json",
    "vectors/agents.json",
    "vectors/create_agent.json",
    "vectors/deals.json",
    "vectors/identifiers.json",
    "vectors/outcomes.json",
    "vectors/problems.json",
    "vectors/requests.json"
);

/// Returns the text of a file of the contract.
pub(crate) fn contract(name: &str) -> &'static str {
    let file = FILES.iter().find(|(found, _)| *found == name);
    file.unwrap_or_else(|| panic!("{name} is not a file of the contract"))
        .1
}

/// Returns the cases of a vector file; fails if there are fewer than `at_least`, so that a truncated file does not pass.
pub(crate) fn vectors<T: DeserializeOwned>(file: &str, at_least: usize) -> Vec<T> {
    #[derive(Deserialize)]
    struct File {
        #[serde(default)]
        base: Value,
        cases: Vec<Value>,
    }
    let File { base, cases } = serde_json::from_str(contract(&format!("vectors/{file}")))
        .unwrap_or_else(|error| panic!("{file}: {error}"));
    let cases: Vec<Value> = cases
        .into_iter()
        .flat_map(|case| expand(case, &base))
        .collect();
    assert!(
        cases.len() >= at_least,
        "{file} has only {} cases",
        cases.len()
    );
    cases
        .into_iter()
        .map(|mut case| {
            complete(&mut case, &base);
            serde_json::from_value(case).unwrap_or_else(|error| panic!("{file}: {error}"))
        })
        .collect()
}

/// Returns the cases that an element of `cases` defines.
fn expand(mut element: Value, base: &Value) -> Vec<Value> {
    if let Some(Value::Array(cases)) = take(&mut element, "cases") {
        return cases
            .into_iter()
            .map(|case| combine(&element, case))
            .flat_map(|case| expand(case, base))
            .collect();
    }
    let (Some(Value::Array(pointers)), Some(Value::Array(values))) =
        (take(&mut element, "at"), take(&mut element, "values"))
    else {
        return vec![element];
    };
    let mut cases = Vec::new();
    for pointer in pointers.iter().map(|pointer| pointer.as_str().unwrap()) {
        let (parent, member) = pointer.rsplit_once('/').unwrap();
        for value in &values {
            let mut json = base["json"].clone();
            json.pointer_mut(parent).unwrap()[member] = value.clone();
            let expect = element["expect"].to_string().replace("{at}", pointer);
            let expect: Value = serde_json::from_str(&expect).unwrap();
            let name = format!("{}-{}", name(&element), cases.len() + 1);
            let own = serde_json::json!({"name": name, "json": json, "expect": expect});
            cases.push(combine(&element, own));
        }
    }
    cases
}

/// Combines the members of two objects; `other` takes precedence.
fn combine(object: &Value, other: Value) -> Value {
    let mut members = object.as_object().unwrap().clone();
    let Value::Object(other) = other else {
        panic!("a case is an object");
    };
    members.extend(other);
    members.into()
}

/// Adds the members to a case that it inherits from its file's `base`.
fn complete(case: &mut Value, base: &Value) {
    if let Some(patch) = take(case, "patch") {
        case["json"] = merge(&base["json"], &patch);
    }
    for name in ["create", "retrieve"] {
        if let Some(patch) = take(case, name) {
            case["request"] = merge(&base[name], &patch);
        }
    }
    if let Some(agent) = case["expect"].get_mut("agent") {
        *agent = merge(&base["agent"], agent);
    }
    if let (Some(headers), None) = (base.get("headers"), case.get("headers")) {
        case["headers"] = headers.clone();
    }
}

fn take(case: &mut Value, member: &str) -> Option<Value> {
    case.as_object_mut().unwrap().remove(member)
}

/// Applies a JSON merge patch (RFC 7396) to a document.
fn merge(document: &Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else {
        return patch.clone();
    };
    let mut merged = document.as_object().cloned().unwrap_or_default();
    for (name, change) in patch {
        let value = merged.remove(name).unwrap_or_default();
        if !change.is_null() {
            merged.insert(name.clone(), merge(&value, change));
        }
    }
    merged.into()
}

/// Returns the name of a case.
pub(crate) fn name(case: &Value) -> &str {
    case["name"].as_str().unwrap()
}

/// Returns the bytes of a case, with its `repeat` applied.
pub(crate) fn bytes(case: &Value) -> Vec<u8> {
    let Some(repeat) = case.get("repeat") else {
        return given_in(case).expect("a case has bytes");
    };
    let mut json = case["json"].clone();
    let items = json
        .pointer_mut(repeat["pointer"].as_str().unwrap())
        .unwrap();
    let item = items[0].clone();
    let times = usize::try_from(repeat["times"].as_u64().unwrap()).unwrap();
    *items = Value::Array(vec![item; times]);
    let bytes = serde_json::to_vec(&json).unwrap();
    if let Some(least) = case.get("bytes_at_least") {
        assert!(bytes.len() as u64 >= least.as_u64().unwrap());
    }
    bytes
}

/// Returns the bytes of a case or its request, without applying `repeat`.
pub(crate) fn given_in(case: &Value) -> Option<Vec<u8>> {
    let text = |member| case.get(member).map(|value| value.as_str().unwrap());
    given(case.get("json"), text("text"), text("base64"))
}

/// Returns bytes that the vectors state as JSON, as text, or in Base64.
pub(crate) fn given(
    json: Option<&Value>,
    text: Option<&str>,
    base64: Option<&str>,
) -> Option<Vec<u8>> {
    match (json, text, base64) {
        (None, None, None) => None,
        (Some(json), None, None) => Some(serde_json::to_vec(json).unwrap()),
        (None, Some(text), None) => Some(text.as_bytes().to_vec()),
        (None, None, Some(base64)) => Some(BASE64_STANDARD.decode(base64).unwrap()),
        _ => panic!("at most one of json, text, and base64"),
    }
}

/// Parses JSON into a `Value` for exact comparison: every number becomes `{"\0": "its exact text"}`, and a string with an
/// unpaired surrogate becomes its JSON text.
pub(crate) fn tree(text: &str) -> Value {
    let text = text.trim();
    match text.as_bytes()[0] {
        b'{' => {
            let fields: BTreeMap<String, &RawValue> = serde_json::from_str(text).unwrap();
            let fields = fields.into_iter();
            let fields = fields.map(|(name, value)| (name, tree(value.get())));
            Value::Object(fields.collect())
        }
        b'[' => {
            let elements: Vec<&RawValue> = serde_json::from_str(text).unwrap();
            elements
                .into_iter()
                .map(|value| tree(value.get()))
                .collect()
        }
        b'"' | b't' | b'f' | b'n' => serde_json::from_str(text).unwrap_or_else(|_| text.into()),
        _ => {
            serde_json::from_str::<&RawValue>(text).unwrap();
            serde_json::json!({ "\0": text })
        }
    }
}
