//! Outcomes of calls, for all statuses, methods and earlier attempts in the contract.

use dealkit::{Client, CreateAgent, Deal, Error, ErrorKind, Json, Outcome, UnknownFields};
use serde_json::Value;

use crate::{
    peer::{Http1, Peer, Script, Step, ada, answer, immediate_retries},
    vectors::{name, vectors},
};

/// Returns the service's steps for an attempt.
fn make_script(attempt: &Value) -> Script {
    let close = ("connection", "close".to_owned());
    let mut script = vec![Step::ReadRequest];
    match (attempt.as_u64(), attempt.as_str()) {
        (Some(status), _) => {
            let status = u16::try_from(status).unwrap();
            script.push(Step::Answer(status, vec![close], Vec::new()));
        }
        (_, Some("breaks")) => {}
        (_, Some("cut")) => {
            let length = ("content-length", "100".to_owned());
            script.push(Step::Head(201, vec![length, close]));
            script.push(Step::Body(b"{\"id\"".to_vec(), false));
        }
        (_, Some("unreadable")) => script.push(answer(201, "[]")),
        (_, Some("too-large")) => script.push(answer(201, &" ".repeat(2000))),
        _ => panic!("{attempt} is no attempt"),
    }
    script.push(Step::End);
    script
}

/// Makes a call whose attempts all fail, and returns its error.
async fn run_case(method: &str, case: &Value) -> Error {
    let attempts = case["attempts"].as_array().unwrap();
    let peer = Peer::start(Http1, attempts.iter().map(make_script).collect());
    let retries = u32::try_from(attempts.len() - 1).unwrap();
    let retries_creates = case["retry_non_idempotent"].as_bool().unwrap_or(false);
    let client = peer
        .builder()
        .max_response_bytes(1000)
        .retry(
            immediate_retries()
                .max_retries(retries)
                .retry_non_idempotent(retries_creates),
        )
        .build()
        .unwrap();
    let error = match method {
        "GET" => client.deals().retrieve("d_1").await.unwrap_err(),
        "POST" => client.agents().create(ada()).await.unwrap_err(),
        _ => panic!("{method} is no method"),
    };
    drop(client);
    assert_eq!(
        peer.finish().await.requests,
        attempts.len(),
        "{}",
        name(case)
    );
    error
}

#[tokio::test]
async fn every_outcome_of_the_vectors() {
    for case in vectors::<Value>("outcomes.json", 80) {
        for method in case["methods"].as_array().unwrap() {
            let method = method.as_str().unwrap();
            let error = run_case(method, &case).await;
            let text = format!("{} ({method}): {error:?}", name(&case));
            let outcome = case["expect"]["outcome"].as_str().unwrap();
            assert_eq!(error.outcome().as_str(), outcome, "{text}");
            assert_eq!(error.outcome().to_string(), outcome, "{text}");
            let acted = method == "POST" && matches!(outcome, "unknown" | "succeeded");
            assert_eq!(error.may_have_acted(), acted, "{text}");
            let attempts = case["attempts"].as_array().unwrap().len();
            assert_eq!(error.attempts() as usize, attempts, "{text}");
        }
    }
}

#[test]
fn errors_before_sending_have_the_outcome_not_sent() {
    let no_client = Client::builder().build().unwrap_err();
    let empty = Json::from_serialize(&serde_json::json!({})).unwrap();
    let no_request = CreateAgent::from_json(&empty, UnknownFields::Ignore).unwrap_err();
    let no_deal = Deal::from_json("1").unwrap_err();
    for (error, kind) in [
        (no_client, ErrorKind::Config),
        (no_request.into(), ErrorKind::Validation),
        (no_deal.into(), ErrorKind::Decode),
    ] {
        assert_eq!((error.kind(), error.outcome()), (kind, Outcome::NotSent));
        assert!(!error.may_have_acted());
    }
}
