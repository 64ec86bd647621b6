//! Verification of requests: the matching of headers and bodies, and the messages.

use crate::support::{AGENT, KEY, Received, build_request, create, get_deal, retrieve_deal, send};
use dealkit::{Json, Method};
use dealkit_server::{Fault, RequestPattern, Sandbox, VerifyError};
use serde_json::json;

fn verify_over_http(sandbox: &Sandbox, key: &str, body: &str) -> Received {
    let request = build_request("POST", "http://localhost/__sandbox/verify", key);
    sandbox
        .handle(request.body(body.to_owned().into()).unwrap())
        .into()
}

#[test]
fn a_body_contains_the_expected_object() {
    let sandbox = Sandbox::builder().start().unwrap();
    let body = r#"{"a": {"b": [{"c": 1.10, "d": 5}, "x"], "e": null}, "big": 12345678901234567890.5, "t": "\u0061"}"#;
    sandbox.fail_next(Fault::status(200)).unwrap();
    create(&sandbox, body);
    for (expected, difference) in [
        ("{}", ""),
        (r#"{"a": {"b": [{"c": 11e-1}, "x"]}}"#, ""),
        (r#"{"a": {"e": null}, "big": 12345678901234567890.50}"#, ""),
        (r#"{"t": "a"}"#, ""),
        (r#"{"a": {"f": null}}"#, "body /a/f"),
        (r#"{"a": {"b": [{"c": 1.11}, "x"]}}"#, "body /a/b/0/c"),
        (r#"{"a": {"b": [{"c": "1.10"}, "x"]}}"#, "body /a/b/0/c"),
        (r#"{"a": {"b": [{"c": 1.1}]}}"#, "body /a/b"),
        (
            r#"{"big": 12345678901234567890.4, "a": []}"#,
            "body /a, body /big",
        ),
        (r#"{"x/y": {"z": 1}}"#, "body /x~1y"),
    ] {
        let pattern = RequestPattern::new().body(Json::parse(expected).unwrap());
        let result = sandbox.verify(1, pattern);
        let message = result.map_or_else(|error| error.to_string(), |()| String::new());
        let found = message
            .rsplit_once("differs in ")
            .map_or("", |(_, found)| found);
        assert_eq!(found, difference, "{expected}: {message}");
    }
    // A body that is not JSON contains nothing.
    sandbox.clear_requests();
    create(&sandbox, "no");
    let error = sandbox
        .verify(1, RequestPattern::new().body(json!({})))
        .unwrap_err();
    assert!(error.to_string().ends_with(": differs in body"), "{error}");
}

#[test]
fn a_message_lists_the_requests_without_values() {
    let sandbox = Sandbox::builder().start().unwrap();
    let creates = RequestPattern::new()
        .method(Method::POST)
        .path("/v1/agents");
    sandbox.verify(0, creates.clone()).unwrap();
    let error = sandbox.verify(1, creates.clone()).unwrap_err();
    let expected = "expected 1 request: POST /v1/agents; found 0. No request has arrived.";
    assert_eq!(error.to_string(), expected);

    create(&sandbox, AGENT);
    send(
        &sandbox,
        get_deal("secret-id").replace("host: h", "host: h\r\nx-tenant: c4n4ry"),
    );
    let pattern = creates
        .clone()
        .header("X-Tenant", "7")
        .body(json!({"email": "bob@example.com"}));
    let error = sandbox.verify(2, pattern).unwrap_err();
    assert_eq!(
        format!("{error:?}"),
        "expected 2 requests: POST /v1/agents with header x-tenant and a body; found 0\n\
         These requests have arrived:\n  \
         1. POST /v1/agents 201: differs in header x-tenant, body /email\n  \
         2. GET /v1/deals/{id} 404: differs in method, path, header x-tenant, body"
    );
    let error = sandbox.verify(0, creates).unwrap_err();
    assert!(matches!(
        error,
        VerifyError::WrongCount {
            expected: 0,
            found: 1,
            ..
        }
    ));
    assert!(
        error
            .to_string()
            .contains("1. POST /v1/agents 201: matches\n")
    );
    for _ in 0..20 {
        retrieve_deal(&sandbox, "d_1");
    }
    let error = sandbox
        .verify(1, RequestPattern::new().path("/v1/deals/d_9"))
        .unwrap_err();
    let message = error.to_string();
    assert!(
        message.starts_with("expected 1 request: /v1/deals/{id}; found 0\n"),
        "{message}"
    );
    assert!(
        message.contains("\n  2 earlier requests\n  3. GET") && message.lines().count() == 23,
        "{message}"
    );
}

#[test]
fn an_impossible_pattern_is_an_error() {
    let sandbox = Sandbox::builder().start().unwrap();
    let pattern = RequestPattern::new;
    for (pattern, expected) in [
        (
            pattern().path("/v1/agent"),
            "path: expected one of /v1/agents, /v1/deals/{id}",
        ),
        (
            pattern().method("post"),
            "method: expected one of POST, GET, HEAD, OPTIONS",
        ),
        (
            pattern().header("x y", "7"),
            "headers: expected names of headers",
        ),
        (
            pattern().body(json!([])),
            "body: expected an object, whose fields the body of a request must have",
        ),
        (
            pattern().header("X-Service-Key", KEY),
            "headers: the value of x-service-key is a secret, which the sandbox does not record: expect only that the header exists",
        ),
    ] {
        // Without the check, the verification would succeed.
        let error = sandbox.verify(0, pattern).unwrap_err();
        assert_eq!(error, VerifyError::InvalidPattern(expected.to_owned()));
    }
    retrieve_deal(&sandbox, "d_1");
    sandbox
        .verify(1, pattern().header_exists("X-Service-Key"))
        .unwrap();
    let debug = format!(
        "{:?}",
        pattern()
            .header("x-tenant", "c4n4ry")
            .body(json!({"email": "c4n4ry"}))
    );
    assert!(
        debug.contains("x-tenant") && !debug.contains("c4n4ry"),
        "{debug}"
    );
}

#[test]
fn requests_can_be_verified_over_http() {
    let sandbox = Sandbox::builder().namespaces("test-*").start().unwrap();
    create(&sandbox, AGENT);
    for (key, body, status, detail) in [
        (KEY, "{}", 204, ""),
        (
            KEY,
            r#"{"method": "POST", "path": "/v1/agents", "headers": {"Host": true}, "body": {"email": "ada@example.com"}, "times": 1}"#,
            204,
            "",
        ),
        (
            KEY,
            r#"{"times": 2}"#,
            409,
            "expected 2 requests; found 1\nThese requests",
        ),
        ("test-1", "{}", 409, "expected 1 request; found 0."),
        (
            KEY,
            r#"{"times": -1}"#,
            400,
            "times: expected a whole number, 0 or more",
        ),
        (
            KEY,
            r#"{"times": "1"}"#,
            400,
            "times: expected a whole number, 0 or more, found a string",
        ),
        (
            KEY,
            r#"{"request_body": {}}"#,
            400,
            "request_body: unknown field, expected one of method, path, headers, body, times",
        ),
        (KEY, "[]", 400, "the body must be an object, not an array"),
    ] {
        let response = verify_over_http(&sandbox, key, body);
        assert_eq!(response.status, status, "{body}");
        if status != 204 {
            let problem = response.value();
            let actual = problem["detail"].as_str().unwrap();
            assert!(actual.starts_with(detail), "{actual}");
        }
    }
}
