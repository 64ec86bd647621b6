//! Errors made from error responses: their data, and messages that disclose no secret.

use std::time::Duration;

use dealkit::{AgentProfile, CreateAgent, Error, ErrorKind, Method, RetryPolicy};
use serde_json::{Value, json};

use crate::{
    peer::{KEY, Peer, ada, all_texts, catalogue::outcome_of},
    vectors::{bytes, name, vectors},
};

/// Returns the error of a create that gets this response.
async fn create_error(status: u16, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Error {
    let service = Peer::answering(status, headers, body);
    service.client().agents().create(ada()).await.unwrap_err()
}

/// Returns the error of a create that gets this problem.
async fn problem_error(status: u16, body: Value) -> Error {
    let headers = [("content-type", "application/problem+json")];
    create_error(status, &headers, body.to_string()).await
}

#[tokio::test]
async fn every_response_of_the_vectors_is_a_status_error() {
    for case in vectors::<Value>("problems.json", 50) {
        let status = u16::try_from(case["status"].as_u64().unwrap()).unwrap();
        let headers = case["headers"].as_object().unwrap().iter();
        let headers = headers.map(|(name, value)| (name.as_str(), value.as_str().unwrap()));
        let headers: Vec<(&str, &str)> = headers.collect();
        let (name, body) = (name(&case), bytes(&case));
        let error = create_error(status, &headers, &body).await;
        let actual = (error.kind(), error.outcome(), error.attempts());
        assert_eq!(actual, (ErrorKind::Status, outcome_of(status), 1), "{name}");
        assert_eq!(error.status().unwrap(), status, "{name}");
        assert_eq!(error.body(), Some(&body[..]), "{name}");
        for (header, value) in headers {
            assert_eq!(error.headers().unwrap()[header], value, "{name}");
        }
        let text = error.to_string();
        let begins = text.starts_with("POST /v1/agents: ") && text.contains(&status.to_string());
        assert!(
            begins && !text.chars().any(char::is_control),
            "{name}: {text:?}"
        );
        assert!(text.chars().count() <= 1000, "{name}: {text}");
        assert_problem(name, &error, &case["expect"]["problem"]);
    }
}

/// Checks that the error has this problem, or none. Without a problem, the message shows nothing of the body.
fn assert_problem(name: &str, error: &Error, expected: &Value) {
    let Some(expected) = expected.as_object() else {
        assert!(
            error.problem().is_none() && error.violations().is_empty(),
            "{name}"
        );
        // The message about a redirect shows its target.
        let is_redirect = error.status().unwrap().is_redirection();
        let text = error.to_string();
        let shown = text.split([';', '[']).next().unwrap_or_default();
        assert!(shown.len() <= 60 || is_redirect, "{name}: {text}");
        return;
    };
    let problem = error
        .problem()
        .unwrap_or_else(|| panic!("{name}: no problem"));
    assert_eq!(error.violations(), problem.errors, "{name}");
    let errors = problem.errors.iter().map(|error| {
        let code = Some(error.code.as_str()).filter(|code| !code.is_empty());
        json!([error.pointer, code])
    });
    let found = json!({
        "type": problem.problem_type,
        "title": problem.title,
        "status": problem.status,
        "detail": problem.detail,
        "request_id": problem.request_id,
        "errors": errors.collect::<Vec<_>>(),
    });
    for (member, found) in found.as_object().unwrap() {
        let nothing = if member == "errors" {
            json!([])
        } else {
            Value::Null
        };
        assert_eq!(
            found,
            expected.get(member).unwrap_or(&nothing),
            "{name}: {member}"
        );
    }
}

#[tokio::test]
async fn each_status_has_its_predicate() {
    type Predicate = (&'static str, fn(&Error) -> bool);
    let predicates: [Predicate; 11] = [
        ("bad_request", Error::is_bad_request),
        ("authentication", Error::is_authentication),
        ("permission_denied", Error::is_permission_denied),
        ("not_found", Error::is_not_found),
        ("conflict", Error::is_conflict),
        ("unprocessable", Error::is_unprocessable_entity),
        ("rate_limited", Error::is_rate_limited),
        ("server_error", Error::is_server_error),
        ("connection", Error::is_connection),
        ("timeout", Error::is_timeout),
        ("throttled", Error::is_throttled),
    ];
    for (status, expected) in [
        (302, None),
        (400, Some("bad_request")),
        (401, Some("authentication")),
        (403, Some("permission_denied")),
        (404, Some("not_found")),
        (408, None),
        (409, Some("conflict")),
        (422, Some("unprocessable")),
        (429, Some("rate_limited")),
        (499, None),
        (500, Some("server_error")),
        (503, Some("server_error")),
        (599, Some("server_error")),
    ] {
        let error = create_error(status, &[], "").await;
        let hold: Vec<&str> = predicates
            .iter()
            .filter(|(_, holds)| holds(&error))
            .map(|(name, _)| *name)
            .collect();
        assert_eq!(hold, Vec::from_iter(expected), "{status}");
    }
}

#[tokio::test]
async fn retry_after_is_a_number_or_a_date() {
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    for (value, wait) in [
        ("120", seconds(120)),
        (" 7 ", seconds(7)),
        ("99999999999999999999", seconds(u64::MAX)),
        ("Sun, 06 Nov 1994 08:49:37 GMT", seconds(0)),
        ("-1", None),
        ("1.5", seconds(2)),
        ("2.0", seconds(2)),
        ("0.001", seconds(1)),
        ("99999999999999999999.5", seconds(u64::MAX)),
        ("1.", None),
        (".5", None),
        ("1,5", None),
        ("1.5.0", None),
        ("soon", None),
        ("", None),
    ] {
        let error = create_error(400, &[("retry-after", value)], "").await;
        assert_eq!(error.retry_after(), wait, "{value}");
    }
}

/// The service's clock may be far from the clock of this machine.
#[tokio::test]
async fn a_retry_after_date_is_relative_to_the_date_of_the_response() {
    let now = "Sun, 06 Nov 1994 08:49:37 GMT";
    for (until, seconds) in [
        ("Sun, 06 Nov 1994 08:49:57 GMT", 20),
        ("Sun, 06 Nov 1994 08:49:17 GMT", 0),
    ] {
        let error = create_error(503, &[("retry-after", until), ("date", now)], "").await;
        assert_eq!(error.retry_after(), Some(Duration::from_secs(seconds)));
    }
}

#[tokio::test]
async fn an_error_message_is_one_line() {
    let body = json!({"title": "Not found", "status": 404, "detail": "no such deal", "request_id": "in-body"});
    let headers = [("x-request-id", "in-header")];
    let service = Peer::answering(404, &headers, body.to_string());
    let error = service
        .client()
        .deals()
        .retrieve("CANARY")
        .await
        .unwrap_err();
    assert_eq!(error.request_id(), Some("in-header"));
    let text = error.to_string();
    assert_eq!(
        text,
        "GET /v1/deals/{id}: 404 Not Found: Not found - no such deal [request id in-header]"
    );
    // A `main` that returns the error prints this.
    assert_eq!(
        format!("{error:?}"),
        format!("{text} (kind: status, outcome: rejected, attempts: 1)")
    );

    let error = problem_error(422, body).await;
    assert_eq!(error.request_id(), Some("in-body"));

    let call = service
        .client()
        .request(Method::PUT, ["agents", "CANARY", "CANARY"]);
    let text = call.await.unwrap_err().to_string();
    assert!(
        text.starts_with("PUT /v1/") && !text.contains("CANARY"),
        "{text}"
    );
}

#[tokio::test]
async fn title_and_detail_are_cut_and_on_one_line() {
    let error = problem_error(
        400,
        json!({"title": "t".repeat(300), "detail": "ä".repeat(300)}),
    )
    .await;
    let text = error.to_string();
    // "Bad Request" and "agents" contain a "t" themselves, so runs are counted.
    assert!(
        text.contains(&"t".repeat(200)) && !text.contains(&"t".repeat(201)),
        "{text}"
    );
    assert!(
        text.contains(&"ä".repeat(200)) && !text.contains(&"ä".repeat(201)),
        "{text}"
    );
    // The title that a program reads is complete.
    assert_eq!(error.problem().unwrap().title.as_ref().unwrap().len(), 300);

    let exactly = problem_error(400, json!({"detail": "d".repeat(200)}))
        .await
        .to_string();
    assert!(exactly.ends_with(&"d".repeat(200)), "{exactly}");

    let error = problem_error(
        400,
        json!({"title": "a\nb\r\nc\u{0}d\u{1b}[31m\u{85}e", "detail": "f\tg"}),
    )
    .await;
    let text = error.to_string();
    assert!(!text.chars().any(char::is_control), "{text:?}");
    assert!(text.contains("a b") && text.contains("f g"), "{text:?}");

    // Invisible characters and direction marks are replaced, too.
    let hidden = "\u{ad}\u{61c}\u{200b}\u{200e}\u{200f}\u{2028}\u{2029}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\
        \u{2060}\u{2066}\u{2067}\u{2068}\u{2069}\u{3164}\u{feff}\u{fffb}\u{e0041}";
    let title: String = hidden.chars().flat_map(|c| ['a', c, 'b']).collect();
    let visible = "Ünïcödé €, שלום, مرحبا, 日本語, 😀";
    let error = problem_error(400, json!({"title": title, "detail": visible})).await;
    let shown = format!("{} - {visible}", "a b".repeat(hidden.chars().count()));
    assert!(error.to_string().ends_with(&shown), "{error}");
}

#[tokio::test]
async fn a_422_lists_its_violations() {
    let violation =
        |pointer: &str, code: &str| json!({"pointer": pointer, "code": code, "detail": "CANARY"});
    let error = problem_error(
        422,
        json!({
            "title": "Invalid",
            "detail": "7 fields break the rules.",
            "request_id": "r-1",
            "errors": [
                violation("/email", "invalid_email"),
                violation("/phone", "invalid_phone"),
                violation("/profile/CANARY", "unknown_field"),
                violation("/profile/clientMetadata/0/CANARY@example.com", "wrong_type"),
                violation("/first_name", "CANARY@example.com"),
                violation("/last_name", "too_long"),
                violation("/role", "unknown_value"),
            ],
        }),
    )
    .await;
    assert_eq!(
        error.to_string(),
        "POST /v1/agents: 422 Unprocessable Entity: Invalid - 7 fields break the rules: /email invalid_email, \
         /phone invalid_phone, /profile/* unknown_field, /profile/clientMetadata/0/* wrong_type, /first_name and 2 more \
         [request id r-1]"
    );
    let last = &error.violations()[6];
    assert_eq!(
        (&*last.pointer, last.code.as_str(), &*last.detail),
        ("/role", "unknown_value", "CANARY")
    );

    let mut many = vec![violation("/email", "invalid_email"); 300];
    many.push(violation("", "wrong_type"));
    let error = problem_error(422, json!({ "errors": many })).await;
    assert!(
        error
            .to_string()
            .ends_with("/email invalid_email and 296 more"),
        "{error}"
    );
    let key = [violation(&format!("/{KEY}"), KEY), violation("", KEY)];
    let error = problem_error(422, json!({ "errors": key })).await;
    assert!(
        error
            .to_string()
            .ends_with(": /* [service key], the body [service key]"),
        "{error}"
    );
}

/// The text of dealkit itself is not masked.
#[tokio::test]
async fn a_short_key_is_masked_where_it_is_a_whole_word() {
    for (key, detail, shown) in [
        ("k", "unknown key \"k\"", "unknown key \"[service key]\""),
        ("OF", "of offices", "[service key] offices"),
        ("k", "\u{e9}k k\u{202e}", "\u{e9}k [service key] "),
        ("a-a", "xa-a-b a-a", "xa-a-b [service key]"),
        ("1234", "012345", "0[service key]5"),
        ("12345678", "0123456789", "0[service key]9"),
        ("id", "x", "x"),
        ("request", "x", "x"),
    ] {
        let body = json!({ "detail": detail }).to_string();
        let service = Peer::answering(404, &[("x-request-id", "r-1")], body);
        let client = service.builder().service_key(key).build().unwrap();
        let error = client.deals().retrieve("d_1").await.unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("GET /v1/deals/{{id}}: 404 Not Found: {shown} [request id r-1]"),
            "{key}"
        );
    }
}

#[tokio::test]
async fn a_key_is_masked_in_every_spelling() {
    let key = r#"Key/with~"odd\signs"#;
    let pointer = key.replace('~', "~0").replace('/', "~1");
    let (lower, upper) = (key.to_lowercase(), key.to_uppercase());
    for written in [
        key,
        &format!("{key:?}"),
        &pointer,
        &lower,
        &upper,
        &format!("{key}{key}"),
    ] {
        let body = json!({"title": "unknown key", "detail": format!("metadata[{written}]")});
        let service = Peer::answering(401, &[], body.to_string());
        let client = service.builder().service_key(key).build().unwrap();
        let text = all_texts(&client.agents().create(ada()).await.unwrap_err());
        assert!(!text.to_lowercase().contains("odd"), "{text}");
        assert!(text.contains("unknown key - metadata["), "{text}");
    }
    // If the text is cut within the key, no part of the key remains.
    for before in 180..=200 {
        let detail = format!("{}{KEY}", "x".repeat(before));
        let text = problem_error(401, json!({ "detail": detail }))
            .await
            .to_string();
        assert!(!text.contains(&KEY[..4]), "{before}: {text}");
    }
}

/// The message of a failed read says nothing about an agent, because a read changes nothing.
#[tokio::test]
async fn the_message_of_a_failed_create_says_whether_the_agent_may_exist() {
    for (status, body, of_create, of_read) in [
        (
            503,
            "",
            "503 Service Unavailable; the agent may exist",
            "503 Service Unavailable",
        ),
        (
            408,
            "",
            "408 Request Timeout; the agent may exist",
            "408 Request Timeout",
        ),
        (
            422,
            "",
            "422 Unprocessable Entity",
            "422 Unprocessable Entity",
        ),
        (201, "", "; the agent exists", ""),
    ] {
        let service = Peer::answering(status, &[("x-request-id", "r-1")], body);
        let client = service
            .builder()
            .retry(RetryPolicy::never())
            .build()
            .unwrap();
        let create = client.agents().create(ada()).await.unwrap_err().to_string();
        assert!(
            create.ends_with(&format!("{of_create} [request id r-1]")),
            "{create}"
        );
        let read = client
            .deals()
            .retrieve("d_1")
            .await
            .unwrap_err()
            .to_string();
        assert!(
            read.ends_with(&format!("{of_read} [request id r-1]")) && !read.contains("agent "),
            "{read}"
        );
    }
}

#[tokio::test]
async fn an_unexpected_content_encoding_is_named() {
    let expected =
        "it came with Content-Encoding: gzip, which dealkit neither asks for nor decodes";
    for (encoding, is_named) in [("gzip", true), ("identity", false)] {
        let service = Peer::answering(200, &[("content-encoding", encoding)], b"\x1f\x8b\x08\x00");
        let client = service.client();
        for error in [
            client.deals().retrieve("d_1").await.unwrap_err(),
            client.agents().create(ada()).await.unwrap_err(),
        ] {
            assert_eq!(error.to_string().contains(expected), is_named, "{error}");
        }
    }
}

/// A program such as anyhow prints an error with all its sources.
#[tokio::test]
async fn no_source_repeats_the_message_of_its_error() {
    let mut errors = vec![
        CreateAgent::builder()
            .email("no")
            .first_name("")
            .last_name("")
            .profile(AgentProfile::new())
            .build()
            .unwrap_err()
            .into(),
    ];
    for body in ["{", r#"{"id": 5}"#] {
        let service = Peer::answering(200, &[], body);
        let client = service.client();
        errors.push(client.deals().retrieve("d_1").await.unwrap_err());
        errors.push(client.agents().create(ada()).await.unwrap_err());
    }
    for error in errors {
        all_texts(&error);
        assert!(std::error::Error::source(&error).is_none(), "{error}");
    }
}

/// The status is the error, even if the body is too large or incomplete.
#[tokio::test]
async fn an_error_status_needs_no_complete_body() {
    let mut peer = Peer::manual();
    let answers = [
        "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: 99\r\n\r\ntoo large for the limit",
        "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: 7\r\n\r\ncut",
        "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n123456789\r\n",
    ];
    for text in answers {
        // Each response needs a new client, because `Retry-After` would delay the next call of the same client.
        let client = peer
            .builder()
            .retry(RetryPolicy::never())
            .max_response_bytes(8)
            .build()
            .unwrap();
        let serve = async { peer.next().await.answer_and_close(text) };
        let (outcome, ()) = tokio::join!(client.agents().create(ada()).send(), serve);
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Status, "{text}");
        assert!(error.is_rate_limited(), "{text}");
        assert_eq!(error.retry_after(), Some(std::time::Duration::from_secs(7)));
        assert!(error.body().unwrap().len() <= 8);
    }
}

/// This holds for a body that dealkit decodes as a model and for a body that the caller decodes.
#[tokio::test]
async fn the_body_of_a_success_is_not_parsed_as_a_problem() {
    let body = r#"{"title": "Not a title", "status": 500, "request_id": "not-an-id"}"#;
    let service = Peer::answering(200, &[], body);
    let client = service.client();
    let raw = client.request(Method::GET, ["deals", "d_1"]).await.unwrap();
    let errors = [
        client.deals().retrieve("d_1").await.unwrap_err(),
        client.agents().create(ada()).await.unwrap_err(),
        raw.json::<dealkit::Deal>().unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Decode);
        assert_eq!(error.problem(), None);
        assert_eq!((error.request_id(), error.attempts()), (None, 1));
        assert_eq!(error.body(), Some(body.as_bytes()));
        assert!(!error.to_string().contains("Not a title"), "{error}");
    }
}

/// The messages are derived from the texts of serde and serde_json, which a new version may change.
#[tokio::test]
async fn a_decode_error_of_the_callers_type_names_the_expectation() {
    #[derive(Debug, serde::Deserialize)]
    #[expect(dead_code, reason = "never made")]
    struct Listing {
        name: String,
        side: Option<Side>,
    }
    #[derive(Debug, serde::Deserialize)]
    enum Side {
        Buyer,
    }

    let mut message = Vec::new();
    for body in [
        "{}",
        r#"{"name": 5}"#,
        r#"{"name": "x", "side": "CANARY"}"#,
        "{",
    ] {
        let service = Peer::answering(200, &[], body);
        let request = service.client().request(Method::GET, ["listings"]);
        let error = request.await.unwrap().json::<Listing>().unwrap_err();
        message.push(error.decode_error().unwrap().to_string());
    }
    assert_eq!(
        message,
        [
            "expected the field `name`, found something else at line 1 column 2",
            "expected a string, found something else at line 1 column 10",
            "expected `Buyer`, found something else at line 1 column 30",
            "the document ends early, line 1 column 1",
        ]
    );
}
