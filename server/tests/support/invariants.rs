//! Invariants of all responses of the server. The fuzzer includes this file by its path.

use http::HeaderMap;
use serde_json::{Value, value::RawValue};

/// Returns the value of a header. Panics if the header occurs twice.
pub(crate) fn header<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let mut all = headers.get_all(name).iter();
    let first = all.next().map(|value| value.to_str().unwrap());
    assert!(all.next().is_none(), "{name} is there twice");
    first
}

pub(crate) fn check(name: &str, status: u16, headers: &HeaderMap, body: &[u8], is_head: bool) {
    let header = |name| header(headers, name);
    let id = header("x-request-id").unwrap_or_else(|| panic!("{name}: no request id"));
    let sane = (1..=128).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic());
    assert!(sane, "{name}: request id {id:?}");
    if is_head || status == 204 {
        assert!(body.is_empty(), "{name}: has a body");
        return;
    }
    let media_type = header("content-type");
    if status < 400 {
        assert_eq!(media_type, Some("application/json"), "{name}");
        serde_json::from_slice::<&RawValue>(body).unwrap();
        return;
    }
    assert_eq!(media_type, Some("application/problem+json"), "{name}");
    if status == 401 {
        let challenge = Some("ServiceKey realm=\"dealkit\"");
        assert_eq!(header("www-authenticate"), challenge, "{name}");
    }
    let problem: Value = serde_json::from_slice(body).unwrap();
    assert_eq!(problem["status"], status, "{name}");
    assert_eq!(problem["request_id"], id, "{name}");
    for field in ["type", "title", "detail"] {
        let text = problem[field].as_str();
        assert!(text.is_some_and(|text| !text.is_empty()), "{name}: {field}");
    }
    let errors = problem["errors"].as_array().map_or(0, Vec::len);
    assert_eq!(errors > 0, status == 422, "{name}: errors");
}
