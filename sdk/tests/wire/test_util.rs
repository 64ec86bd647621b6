//! Errors built by hand equal those that calls return.

use std::{error::Error as _, time::Duration};

use dealkit::{Agent, Error, ErrorKind, Method, Outcome, StatusCode, test_util::ErrorBuilder};

use crate::{
    mock::Service,
    peer::{Http1, Peer, Step, ada, refused},
};

/// Everything that an error says.
fn facts(error: &Error) -> String {
    format!(
        "{error:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
        error.body(),
        error.headers(),
        error.problem(),
        error.violations(),
        error.request_id(),
        error.retry_after(),
        error.decode_error(),
    )
}

async fn created(status: u16, headers: &[(&str, &str)], body: &str) -> Error {
    let service = Service::answering(status, headers, body).await;
    service.client().agents().create(ada()).await.unwrap_err()
}

#[tokio::test]
async fn a_status_made_by_hand_is_a_real_one() {
    let problem = r#"{"title": "No", "detail": "way", "errors": [{"pointer": "/email", "code": "x", "detail": "y"}]}"#;
    for status in [400, 401, 404, 408, 422, 429, 500, 503] {
        for body in ["", "<p>no</p>", problem] {
            let real = created(
                status,
                &[("x-request-id", "r-1"), ("retry-after", "7")],
                body,
            )
            .await;
            let made = ErrorBuilder::status(StatusCode::from_u16(status).unwrap())
                .operation(Method::POST, "/v1/agents")
                .headers(real.headers().unwrap().clone())
                .body(body)
                .build();
            assert_eq!(made.retry_after(), Some(Duration::from_secs(7)));
            assert_eq!(facts(&made), facts(&real), "{status}");
        }
    }
}

#[tokio::test]
async fn failures_without_a_response_made_by_hand_are_real_ones() {
    let silent = Peer::start(Http1, vec![vec![Step::Hear]]);
    let short = Duration::from_millis(50);
    let client = silent.builder().timeout(short).build().unwrap();
    let real = client.agents().create(ada()).await.unwrap_err();
    let made = ErrorBuilder::timeout(short)
        .operation(Method::POST, "/v1/agents")
        .build();
    assert_eq!(facts(&made), facts(&real));
    drop(client);
    silent.finish().await;

    let breaking = Peer::start(Http1, vec![vec![Step::Hear, Step::End]]);
    let client = breaking.client();
    let real = client.agents().create(ada()).await.unwrap_err();
    let made = ErrorBuilder::interrupted("reset")
        .operation(Method::POST, "/v1/agents")
        .build();
    assert_eq!(facts(&made), facts(&real));
    assert_eq!(made.source().unwrap().to_string(), "reset");
    drop(client);
    breaking.finish().await;

    let client = crate::mock::client(refused());
    let real = client.agents().create(ada()).await.unwrap_err();
    let made = ErrorBuilder::connect("refused")
        .operation(Method::POST, "/v1/agents")
        .build();
    // Only a real error says why the connection was refused.
    let why = ": nothing listens at the host and port in base_url; are they right, and is the service up?";
    assert_eq!(facts(&made), facts(&real).replace(why, ""));
    assert_eq!(made.source().unwrap().to_string(), "refused");
}

#[tokio::test]
async fn an_unreadable_body_made_by_hand_is_a_real_one() {
    let body = r#"{"id": "a_1", "email": 5}"#;
    let real = created(201, &[], body).await;
    let made = ErrorBuilder::decode(StatusCode::CREATED, Agent::from_json(body).unwrap_err())
        .operation(Method::POST, "/v1/agents")
        .headers(real.headers().unwrap().clone())
        .build();
    assert_eq!(made.kind(), ErrorKind::Decode);
    assert_eq!(made.outcome(), Outcome::Succeeded);
    assert_eq!(facts(&made), facts(&real));
}

#[test]
fn what_a_test_says_counts() {
    for outcome in [
        Outcome::NotSent,
        Outcome::Rejected,
        Outcome::Unknown,
        Outcome::Succeeded,
    ] {
        let error: Error = ErrorBuilder::timeout(Duration::from_secs(1))
            .outcome(outcome)
            .attempts(3)
            .into();
        assert_eq!((error.outcome(), error.attempts()), (outcome, 3));
        assert!(error.to_string().ends_with("(after 3 attempts)"), "{error}");
    }
    let read: Error = ErrorBuilder::timeout(Duration::from_secs(1))
        .operation(Method::GET, "/v1/deals/{id}")
        .into();
    assert!(read.outcome() == Outcome::Unknown && !read.may_have_acted());
    let wait = Duration::from_millis(1500);
    let error = ErrorBuilder::status(StatusCode::TOO_MANY_REQUESTS)
        .retry_after(wait)
        .build();
    assert_eq!(error.retry_after(), Some(wait));
    assert!(error.is_rate_limited());
    // The head had arrived.
    let error = ErrorBuilder::interrupted("reset")
        .request_id("r\n1 é")
        .body("{")
        .build();
    assert_eq!(
        (error.outcome(), error.request_id()),
        (Outcome::Succeeded, Some("r?1 ?"))
    );
    assert_eq!(
        (error.status().unwrap(), error.body()),
        (StatusCode::OK, Some(&b"{"[..]))
    );
    let made = format!("{:?}", ErrorBuilder::connect("refused"));
    assert!(
        made.starts_with("ErrorBuilder(Error { kind: Connect"),
        "{made}"
    );
}
