//! Corpora of the fuzz targets: the documents of `sdk/contract/vectors`.

use serde_json::Value;

use crate::vectors::{self, contract, given_in, name};

/// Returns the initial inputs of a target, each with a name.
pub fn inputs(target: &str) -> Vec<(String, Vec<u8>)> {
    match target {
        "readers" => [documents("deals.json"), documents("agents.json")].concat(),
        "create_agent" => documents("create_agent.json"),
        "identifier" => cases("identifiers.json")
            .into_iter()
            .map(|case| (name(&case).to_owned(), text(&case["id"]).into_bytes()))
            .collect(),
        "request" => cases("requests.json")
            .into_iter()
            .map(|case| (name(&case).to_owned(), message(&case["request"])))
            .collect(),
        _ => Vec::new(),
    }
}

/// Returns tokens that inputs of the target are likely to contain.
pub fn tokens(target: &str) -> Vec<String> {
    let tokens: &[&str] = match target {
        "readers" | "create_agent" => {
            return [JSON.map(str::to_owned).to_vec(), names()].concat();
        }
        "request" => &REQUEST,
        _ => &["%", "%2F", "..", "/", "?", "#", "\\"],
    };
    tokens.iter().map(|&token| token.to_owned()).collect()
}

const JSON: [&str; 11] = [
    "null",
    "true",
    "false",
    "\\ud800",
    "\\u0000",
    "1e400",
    "-0.0",
    "\u{feff}",
    "2024-02-29T12:00:00.5+01:00",
    "9999-12-31",
    "$serde_json::private::RawValue",
];

/// Returns the field names of every request and response, and the roles.
fn names() -> Vec<String> {
    let openapi: Value = serde_json::from_str(contract("openapi.json")).unwrap();
    let schemas = openapi["components"]["schemas"].as_object().unwrap();
    let fields = schemas
        .values()
        .filter_map(|schema| schema["properties"].as_object());
    let roles = schemas["Role"]["enum"].as_array().into_iter().flatten();
    fields
        .flat_map(|properties| properties.keys().cloned())
        .chain(roles.map(text))
        .collect()
}

const REQUEST: [&str; 25] = [
    "GET ",
    "HEAD ",
    "POST ",
    "OPTIONS ",
    "PUT ",
    " HTTP/1.0",
    " HTTP/1.1",
    " HTTP/2",
    "/v1/agents",
    "/v1/deals/d_1",
    "http://localhost",
    "%2F",
    "%zz",
    "host:",
    "localhost",
    "x-service-key:",
    "{key}",
    "x-request-id:",
    "content-encoding:",
    "content-type:",
    "application/json",
    ";charset=utf-8",
    "content-length:",
    "\n\n",
    "expect:100-continue",
];

fn cases(file: &str) -> Vec<Value> {
    vectors::vectors(file, 31)
}

fn documents(file: &str) -> Vec<(String, Vec<u8>)> {
    cases(file)
        .iter()
        .map(|case| (name(case).to_owned(), document(case)))
        .collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// Returns the bytes of a case without applying `repeat`, because short inputs are better for a fuzzer.
fn document(case: &Value) -> Vec<u8> {
    given_in(case).expect("a case has bytes")
}

/// Writes a request in the format that the target `request` reads.
fn message(request: &Value) -> Vec<u8> {
    let mut head = format!(
        "{} {} HTTP/1.1",
        text(&request["method"]),
        text(&request["target"])
    );
    let headers = request["headers"].as_array().unwrap();
    let has_host = |header: &Value| text(&header[0]).eq_ignore_ascii_case("host");
    if !headers.iter().any(has_host) {
        head.push_str("\nhost: localhost");
    }
    for header in headers {
        head.push_str(&format!("\n{}: {}", text(&header[0]), text(&header[1])));
    }
    let body = given_in(request).unwrap_or_default();
    [head.as_bytes(), b"\n\n", &body].concat()
}
