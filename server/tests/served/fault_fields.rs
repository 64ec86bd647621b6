//! The fields of a fault, in JSON and in the header `x-sandbox-fault`, and the messages for invalid faults.

use crate::support::{KEY, build_request, get_deal, handle, retrieve_deal, send, service};
use dealkit_server::{Fault, Sandbox, Service};
use serde_json::Value;

#[test]
#[rustfmt::skip] // A table with one case per line.
fn an_invalid_fault_is_rejected_with_the_allowed_values() {
    for (json, expected) in [
        ("5", "the fault must be an object, not a number"),
        ("{}", "the fault has no effect: expected one of hold, delay, status, cut, malformed, process_then_reset"),
        (r#"{"malformed": false}"#, "the fault has no effect: expected"),
        (r#"{"status": 503, "malformed": true}"#, "the fault has more than one effect: expected one of"),
        (r#"{"status": 101}"#, "status: expected a status from 200 to 599"),
        (r#"{"status": "503"}"#, "status: expected a status from 200 to 599, found a string"),
        (r#"{"status": 70000}"#, "status: expected a status from 200 to 599"),
        (r#"{"status": 503, "retry_after": "\n"}"#, "retry_after: expected a number of seconds, or text"),
        (r#"{"status": 503, "retry_after": true}"#, "retry_after: expected a number of seconds, or text"),
        (r#"{"status": 503, "retry_after": []}"#, "retry_after: expected a number of seconds, or text"),
        (r#"{"status": 503, "body": 5}"#, "body: expected a string, or an object or array"),
        (r#"{"delay": "1"}"#, "delay: expected a number of seconds from 0 to 3600, found a string"),
        (r#"{"malformed": true, "probability": "1"}"#, "probability: expected a number from 0 to 1, found a string"),
        (r#"{"malformed": true, "seed": true}"#, "seed: expected a whole number, 0 or more, found a boolean"),
        (r#"{"delay": -1}"#, "delay: expected a number of seconds from 0 to 3600"),
        (r#"{"delay": 3601}"#, "delay: expected a number of seconds from 0 to 3600"),
        (r#"{"cut": "after-bytes:+1"}"#, "cut: expected before-head, in-head or after-bytes:N"),
        (r#"{"cut": "after-bytes:"}"#, "cut: expected before-head, in-head or after-bytes:N"),
        (r#"{"cut": "in-head", "after_cut": "rst"}"#, "after_cut: expected reset, eof or stall"),
        (r#"{"status": 503, "after_cut": "eof"}"#, "after_cut needs a cut"),
        (r#"{"delay": 1, "body": "late"}"#, "retry_after and body need a status"),
        (r#"{"malformed": 1}"#, "malformed: expected true or false, found a number"),
        (r#"{"malformed": true, "times": 0}"#, "times: expected a whole number, 1 or more, or null for no limit"),
        (r#"{"malformed": true, "times": -1}"#, "times: expected a whole number, 1 or more, or null for no limit"),
        (r#"{"malformed": true, "after": 0.5}"#, "after: expected a whole number, 0 or more"),
        (r#"{"malformed": true, "probability": 1.5}"#, "probability: expected a number from 0 to 1"),
        (r#"{"malformed": true, "method": "A B"}"#, "method: expected one of POST, GET, HEAD, OPTIONS"),
        (r#"{"malformed": true, "path": "/v1/deals/d_1?a"}"#, "path: expected a path as it is sent, without a query"),
        (r#"{"malformed": true, "path": "/v1/deals/d 1"}"#, "path: expected a path as it is sent"),
        (r#"{"malformed": true, "path": "v1"}"#, "path: expected one of /v1/agents, /v1/deals/{id}"),
        (r#"{"malformed": true, "request_header": "x-tenant"}"#, "request_header: expected an object with header names, and for each its value, or true for any value, found a string"),
        (r#"{"malformed": true, "request_header": {"x-tenant": 7}}"#, "request_header: expected an object with header names, and for each its value, or true for any value, found a number for x-tenant"),
        (r#"{"malformed": true, "request_header": {"x-tenant": false}}"#, "request_header: expected an object with header names,"),
        (r#"{"malformed": true, "request_header": {"x tenant": "7"}}"#, "request_header: expected names of headers"),
        (r#"{"malformed": true, "request_header": {"x-tenant": "\n"}}"#, "request_header: expected visible ASCII as the value of x-tenant"),
        (r#"{"malformed": true, "request_body": [1]}"#, "request_body: expected an object, whose fields the body of a request must have, found an array"),
        (r#"{"malformed": true, "path": 5}"#, "path: expected a path, such as /v1/deals/{id}, found a number"),
        (r#"{"cut": 5}"#, "cut: expected a string, found a number"),
        (r#"{"malformed": true, "reason": ""}"#, "reason: unknown field, expected one of hold, delay, status, retry_after,"),
    ] {
        let error = Fault::from_json(json).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{json}: {error}");
    }
    let service = service(|builder| builder);
    for (header, expected) in [
        ("", "the fault is not strict JSON: the text ends early at line 1 column 1."),
        ("503", "the fault must be an object, not a number."),
        ("status=503", "the fault is not strict JSON: expected a value at line 1 column 1."),
        (r#"{"malformed": true, "times": 2}"#, "a header applies to its own request: leave out method,"),
        (r#"{"malformed": true, "request_body": {}}"#, "a header applies to its own request: leave out method,"),
        (r#"{"malformed": true, "path": "/v1/agents"}"#, "a header applies to its own request: leave out method,"),
        ("{\"\u{e9}\": 1}", "\u{e9}: unknown field"),
        (r#"{"status": 503, "after_cut": "eof"}"#, "after_cut needs a cut."),
        (r#"{"cut": "tail"}"#, "cut: expected before-head, in-head or after-bytes:N."),
    ] {
        let (status, problem) = with_header(&service, header.as_bytes());
        let detail = problem["detail"].as_str().unwrap();
        let expected = format!("The header x-sandbox-fault: {expected}");
        assert!(status == 400 && detail.starts_with(&expected), "{header}: {detail}");
        assert_eq!(problem["type"], "urn:dealkit:problem:invalid-fault");
    }
}

#[test]
fn null_and_false_equal_a_missing_field() {
    let fault = Fault::from_json(
        r#"{"status": 503, "body": null, "malformed": false, "times": null, "seed": null}"#,
    );
    assert_eq!(fault.unwrap(), Fault::status(503).forever());
}

/// The journal shows a fault as a header that applies the same fault.
#[test]
fn the_journal_shows_faults_as_headers() {
    let sandbox = Sandbox::builder().start().unwrap();
    let shown = |header: &str| {
        sandbox.clear_requests();
        let fault = format!("host: localhost\r\nx-sandbox-fault: {header}\r\n");
        let request = get_deal("d_1").replace("host: h\r\n", &fault);
        send(&sandbox, &request);
        sandbox.requests()[0].fault.clone().unwrap()
    };
    for (header, expected) in [
        (
            r#"{"delay": 0.001, "status":503}"#,
            r#"{"delay":0.001,"status":503}"#,
        ),
        (
            r#"{"retry_after": 1.50, "status": 429, "body": {}}"#,
            r#"{"status":429,"retry_after":1.50}"#,
        ),
        (
            r#"{"cut": "after-bytes:99999", "after_cut": "eof"}"#,
            r#"{"cut":"after-bytes:99999","after_cut":"eof"}"#,
        ),
    ] {
        assert_eq!(shown(header), expected);
        assert_eq!(shown(expected), expected);
    }
}

#[test]
fn impossible_methods_and_paths_are_rejected_with_the_allowed_ones() {
    let paths = "path: expected one of /v1/agents, /v1/deals/{id}";
    let methods = "method: expected one of POST, GET, HEAD, OPTIONS";
    let sandbox = Sandbox::builder().start().unwrap();
    for (method, path, expected) in [
        (None, "/v1/deal/{id}", paths.to_owned()),
        (None, "/v1/deals/", paths.to_owned()),
        (None, "/V1/agents", paths.to_owned()),
        (None, "/healthz", paths.to_owned()),
        (Some("get"), "", methods.to_owned()),
        (Some("DELETE"), "", methods.to_owned()),
        (
            Some("GET"),
            "/v1/agents",
            "method: expected one of POST, OPTIONS".to_owned(),
        ),
        (
            Some("POST"),
            "/v1/deals/d_1",
            "method: expected one of GET, HEAD, OPTIONS".to_owned(),
        ),
    ] {
        let mut fault = Fault::malformed();
        if let Some(method) = method {
            fault = fault.method(method);
        }
        if !path.is_empty() {
            fault = fault.path(path);
        }
        assert_eq!(
            sandbox.fail_next(fault).unwrap_err().to_string(),
            expected,
            "{method:?} {path}"
        );
    }
    assert_eq!(sandbox.faults(), []);
}

#[test]
fn a_segment_in_braces_matches_any_segment() {
    let sandbox = Sandbox::builder().start().unwrap();
    for (path, only, fits) in [
        ("/v1/deals/d_1", "/v1/deals/d_1", true),
        ("/v1/deals/d_1", "/v1/deals/{id}", true),
        ("/v1/deals/d_1", "/v1/{x}/{y}", true),
        ("/v1/deals/d_1", "/v1/{x}/d_2", false),
        ("/v1/deals/", "/v1/deals/{id}", false),
        ("/v1/deals", "/v1/deals/{id}", false),
        ("/v1/deals/a/b", "/v1/deals/{id}", false),
        ("/v1/deals/a", "/v1/{x}", false),
    ] {
        sandbox.clear_faults();
        sandbox.fail_next(Fault::status(418).path(only)).unwrap();
        let request = get_deal("").replace("/v1/deals/", path);
        let response = send(&sandbox, &request);
        assert_eq!(response.status == 418, fits, "{path} {only}");
        assert_eq!(sandbox.faults().is_empty(), fits, "{path} {only}");
    }
}

#[test]
fn faults_are_bounded_in_number_and_in_bytes() {
    let sandbox = Sandbox::builder().start().unwrap();
    let assert_full = |fault: Fault| {
        let error = sandbox.fail_next(fault).unwrap_err().to_string();
        assert!(error.contains("remove some"), "{error}");
    };
    for _ in 0..1_000 {
        sandbox.fail_next(Fault::malformed()).unwrap();
    }
    assert_full(Fault::malformed());
    sandbox.clear_faults();
    let large = Fault::status(500).body("x".repeat((16 << 20) - 64));
    for _ in 0..4 {
        sandbox.fail_next(large.clone()).unwrap();
    }
    assert_full(Fault::status(500).body("x".repeat(256)));
    retrieve_deal(&sandbox, "d_1");
    sandbox.fail_next(large).unwrap();
}

// ---- helpers ---------------------------------------------------------------------------------------------

fn with_header(service: &Service, header: &[u8]) -> (u16, Value) {
    let request = build_request("GET", "/v1/deals/d_1", KEY).header("x-sandbox-fault", header);
    let response = handle(service, request, "");
    (response.status, response.value())
}
