//! The cost of a response is at most a small multiple of its size, for all sizes, numbers of values and nesting depths.

use dealkit::{CreateAgent, Deal, Json, Problem, UnknownFields, internal::document_limits};

use crate::peer::{Peer, Protocol, Step, VALID_BODY, answer};

/// A nesting depth that would overflow the stack of a recursive parser.
const DEEP: usize = 1_000_000;

fn nested() -> String {
    format!("{}{}", "[".repeat(DEEP), "]".repeat(DEEP))
}

/// Returns the steps that send the head of an error response with this body length, and the first part of the body.
fn start_of_error(length: usize, beginning: Vec<u8>) -> Vec<Step> {
    let headers = vec![("content-length", length.to_string())];
    vec![
        Step::ReadRequest,
        Step::Head(422, headers),
        Step::Body(beginning, false),
    ]
}

/// The incomplete body is not parsed as a problem, and the connection is not used again.
#[tokio::test]
async fn only_the_start_of_a_huge_error_body_is_read() {
    let huge = format!("{{\"title\":\"no\",\"more\":\"{}\"}}", "x".repeat(46 << 20));
    for (protocol, limit, body_size) in [
        (Protocol::Http1, None, 64 * 1024),
        (Protocol::Http2, None, 64 * 1024),
        // The maximum response size applies to errors too.
        (Protocol::Http1, Some(100), 100),
    ] {
        let fine = vec![Step::ReadRequest, answer(200, VALID_BODY)];
        let script = start_of_error(huge.len(), huge.clone().into_bytes());
        let peer = Peer::start(protocol, vec![script, fine]);
        let mut builder = peer.builder();
        if let Some(limit) = limit {
            builder = builder.max_response_bytes(limit);
        }
        let client = builder.build().unwrap();
        let error = client.deals().retrieve("d_1").await.unwrap_err();
        assert!(error.is_unprocessable_entity() && error.problem().is_none());
        assert_eq!(error.body().unwrap(), &huge.as_bytes()[..body_size]);
        if limit.is_none() && protocol == Protocol::Http1 {
            // On the same connection, the rest of the body would be read as the start of the next response.
            client.deals().retrieve("x_1").await.unwrap();
            drop(client);
            assert_eq!(peer.finish().await.requests, 2);
        }
    }
}

#[test]
fn the_first_hundred_violations_are_read_and_the_rest_are_counted() {
    for (count, omitted) in [(0, 0), (99, 0), (100, 0), (101, 1), (250, 150)] {
        let entries: Vec<String> = (0..count)
            .map(|at| format!(r#"{{"pointer":"/{at}"}}"#))
            .collect();
        let body = format!(r#"{{"title":"no","errors":[{}]}}"#, entries.join(","));
        let problem = Problem::from_json(&body).unwrap();
        assert_eq!(problem.errors.len(), count - omitted);
        assert_eq!(problem.omitted_errors, omitted);
        if let Some(last) = problem.errors.last() {
            assert_eq!(last.pointer, format!("/{}", count - omitted - 1));
        }
        assert!(!serde_json::to_string(&problem).unwrap().contains("omitted"));
    }
    // If the field occurs twice, the last list and its length count.
    let many = vec![r#"{"pointer":"/a"}"#; 200].join(",");
    let twice = format!(r#"{{"errors":[{many}],"errors":[{{"pointer":"/b"}}]}}"#);
    let problem = Problem::from_json(twice).unwrap();
    assert_eq!((problem.errors.len(), problem.omitted_errors), (1, 0));
}

#[test]
fn strings_and_extra_fields_of_a_problem_are_limited() {
    let long = "€".repeat(Problem::MAX_TEXT);
    let entry = serde_json::json!({"pointer": long, "code": long, "detail": long});
    let body = serde_json::json!({
        "type": long, "title": long, "detail": long, "request_id": long, "errors": [entry],
    });
    let problem = Problem::from_json(body.to_string()).unwrap();
    let cut = "€".repeat(Problem::MAX_TEXT / 3);
    for text in [
        &problem.problem_type,
        &problem.title,
        &problem.detail,
        &problem.request_id,
        &Some(problem.errors[0].pointer.clone()),
        &Some(problem.errors[0].code.to_string()),
        &Some(problem.errors[0].detail.clone()),
    ] {
        assert!(text.as_ref() == Some(&cut));
    }

    let members: String = (0..100_000).map(|at| format!(r#","{at:09}":1"#)).collect();
    let problem = Problem::from_json(format!(r#"{{"title":"no"{members}}}"#)).unwrap();
    assert_eq!(problem.extra.len(), Problem::MAX_EXTRA / 10);
    let large = format!(
        r#"{{"title":"no","a":1,"large":"{}","a":22,"b":3}}"#,
        "x".repeat(Problem::MAX_EXTRA)
    );
    let extra = Problem::from_json(large).unwrap().extra;
    let body_size: Vec<(&str, &str)> = extra
        .iter()
        .map(|(name, json)| (&**name, json.as_str()))
        .collect();
    assert_eq!(body_size, [("a", "22"), ("b", "3")]);
}

#[test]
fn a_problem_is_read_at_any_nesting_depth() {
    let nested = nested();
    let objects = format!("{}1{}", r#"{"pointer":"#.repeat(DEEP), "}".repeat(DEEP));
    // If the time grew with the square of the depth, this test would not end.
    for location in [
        format!(r#""more":{nested}"#),
        format!(r#""more":{objects}"#),
        format!(r#""errors":{nested}"#),
        format!(r#""errors":[{nested},{objects},{{"pointer":"/a","more":{nested}}}]"#),
        format!(r#""errors":[{{"pointer":{nested},"code":{nested},"detail":{nested}}}]"#),
        format!(r#""errors":{objects}"#),
        format!(r#""type":{nested},"status":{nested},"detail":{objects},"request_id":{nested}"#),
    ] {
        let problem = Problem::from_json(format!(r#"{{"title":"no",{location}}}"#)).unwrap();
        assert_eq!(problem.title.as_deref(), Some("no"));
        assert!(problem.errors.len() <= 1 && problem.extra.is_empty());
        assert!(problem.detail.is_none() && problem.status.is_none());
    }
    let deep = format!("{}{}", "[".repeat(30_000), "]".repeat(30_000));
    let problem = Problem::from_json(format!(r#"{{"title":"no","more":{deep}}}"#)).unwrap();
    assert_eq!(problem.extra["more"].as_str(), deep);
    assert_eq!(problem.clone(), problem);
    assert!(serde_json::to_string(&problem).unwrap().contains(&deep));
}

/// Each document has one value more than the maximum, counted as in `document_limits`.
#[test]
fn a_document_with_too_many_values_is_rejected_before_a_model_is_built() {
    let many = |item: &str, each: usize| vec![item; document_limits::MAX_VALUES / each].join(",");
    for body in [
        format!(r#"{{"id":"d","quotes":[{}]}}"#, many("{}", 2)),
        format!(r#"{{"id":"d","more":[{}]}}"#, many("1", 1)),
        format!("[0,{}]", many("[]", 2)),
        "[".repeat(document_limits::MAX_VALUES + 1),
    ] {
        let error = Deal::from_json(&body).unwrap_err();
        assert_eq!(error.found(), "too many values");
        assert_eq!((error.path(), error.pointer()), ("", ""));
        assert_eq!(error.body(), body.as_bytes());
        assert_eq!(
            error.to_string(),
            "expected at most 1000000 values in the document, found more"
        );
        assert_eq!(
            document_limits::check_value_count(body.as_bytes()),
            Err(error)
        );
    }
}

#[test]
fn a_string_with_many_commas_is_read() {
    let text = format!("{}\\\"{}", ",[{".repeat(1_000_000), ",".repeat(1_000_000));
    let body = format!(r#"{{"id":"d","external_id":"{text}","more":["{text}"]}}"#);
    let deal = Deal::from_json(&body).unwrap();
    assert_eq!(deal.external_id.unwrap().len(), text.len() - 1);
    let most = vec!["1"; document_limits::MAX_VALUES - 3].join(",");
    let body = format!(r#"{{"id":"d","more":[{most}]}}"#);
    assert_eq!(document_limits::check_value_count(body.as_bytes()), Ok(()));
    Deal::from_json(&body).unwrap();
}

#[test]
fn the_message_of_many_violations_is_limited() {
    let members: String = (0..50_000).map(|at| format!(r#","ada-{at}":1"#)).collect();
    let body = format!(
        r#"{{"email":"ada@example.com","first_name":"Ada","last_name":"Lovelace","profile":{{}}{members}}}"#
    );
    let body = Json::parse(body).unwrap();
    let error = CreateAgent::from_json(&body, UnknownFields::Reject).unwrap_err();
    assert_eq!(error.violations().len(), 50_000);
    let text = error.to_string();
    assert!(text.ends_with("; and 49900 more"), "{text}");
    assert!(!text.contains("ada"), "{text}");
}
