//! Errors and results made by hand equal those that calls return, and a stub stands in for a client.

use std::{error::Error as _, sync::Arc, time::Duration};

use dealkit::{
    Agent, Deal, Error, ErrorKind, Method, Operations, Outcome, RawResponse, StatusCode,
    ValidationError,
    test_util::{ErrorBuilder, Stub},
};

use crate::{
    limits,
    peer::{AGENT, Http1, Peer, Step, ada, client, refused},
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
    let service = Peer::answering(status, headers, body);
    service.client().agents().create(ada()).await.unwrap_err()
}

/// With the operation and the headers of the real one, it says the same.
fn same(made: ErrorBuilder, real: &Error) -> Error {
    let mut made = made.operation(Method::POST, "/v1/agents");
    if let Some(headers) = real.headers() {
        made = made.headers(headers.clone());
    }
    let made = made.build();
    assert_eq!(facts(&made), facts(real));
    made
}

#[tokio::test]
async fn a_response_s_error_made_by_hand_is_a_real_one() {
    let problem = r#"{"title": "No", "detail": "way", "errors": [{"pointer": "/email", "code": "x", "detail": "y"}]}"#;
    for status in [400, 401, 404, 408, 422, 429, 500, 503] {
        for body in ["", "<p>no</p>", problem] {
            let headers = [("x-request-id", "r-1"), ("retry-after", "7")];
            let real = created(status, &headers, body).await;
            let status = StatusCode::from_u16(status).unwrap();
            let made = same(ErrorBuilder::status(status).body(body), &real);
            assert_eq!(made.retry_after(), Some(Duration::from_secs(7)));
        }
    }
    let body = r#"{"id": "a_1", "email": 5}"#;
    let made = ErrorBuilder::of(Agent::from_json(body).unwrap_err());
    let made = made.attempts(1).response_status(StatusCode::CREATED);
    let made = same(made, &created(201, &[], body).await);
    assert_eq!(
        (made.kind(), made.outcome()),
        (ErrorKind::Decode, Outcome::Succeeded)
    );
}

#[tokio::test(start_paused = true)]
async fn a_timeout_made_by_hand_is_a_real_one() {
    let silent = limits::ScriptedService::start(Duration::ZERO, [(0, None)]).await;
    let short = Duration::from_millis(50);
    let impatient = silent.builder().timeout(short).build().unwrap();
    let real = impatient.agents().create(ada()).await.unwrap_err();
    same(ErrorBuilder::timeout(short), &real);
}

#[tokio::test]
async fn failures_without_a_response_made_by_hand_are_real_ones() {
    let breaking = Peer::start(Http1, vec![vec![Step::Hear, Step::End]]);
    let real = breaking.retrying_client().agents().create(ada()).await;
    let made = same(ErrorBuilder::interrupted("reset"), &real.unwrap_err());
    assert_eq!(made.source().unwrap().to_string(), "reset");

    let real = client(refused()).agents().create(ada()).await;
    let real = real.unwrap_err();
    let made = ErrorBuilder::connect("refused")
        .operation(Method::POST, "/v1/agents")
        .build();
    // Only a real error has the reason why no connection was made.
    let why = ": nothing is listening at the host and port in the base URL; are they right, and is the service up? [see base_url]";
    assert_eq!(facts(&made), facts(&real).replace(why, ""));
    assert_eq!(made.source().unwrap().to_string(), "refused");

    let real = client(refused()).deals().retrieve("..").await.unwrap_err();
    let violations = ValidationError::check(real.violations().to_vec()).unwrap_err();
    let made = ErrorBuilder::of(violations).operation(Method::GET, "/v1/deals/{id}");
    assert_eq!(facts(&made.build()), facts(&real));
}

#[cfg(feature = "ledger")]
#[tokio::test]
async fn what_a_ledger_has_made_by_hand_is_what_it_has() {
    use dealkit::{Creation, ledger::Ledger};

    let folder = tempfile::TempDir::new().unwrap();
    let ledger = Ledger::sqlite(folder.path().join("agents.ledger"));
    let service = Peer::answering(201, &[], AGENT);
    let run = async || {
        let job = service.client().agents().create_many([("ada", ada())]);
        job.ledger(&ledger, None).stream().next().await.unwrap()
    };
    let created = run().await;
    let real = run().await;
    let mut recorded = ledger.look_up(None, ["ada"]).unwrap().remove(0).unwrap();
    let made: Creation = Creation::from_ledger(0, recorded.clone());
    assert_eq!(made.agent_id(), created.agent_id());
    assert_eq!(made.result.unwrap(), real.result.unwrap());
    recorded.outcome = Outcome::Unknown;
    let made: Creation = Creation::from_ledger(0, recorded);
    let error = made.result.unwrap_err();
    let told = (error.kind(), error.outcome());
    assert_eq!(told, (ErrorKind::AlreadyAttempted, Outcome::Unknown));
}

#[tokio::test]
async fn a_response_made_by_hand_is_a_real_one() {
    let headers = [("x-request-id", "r-1")];
    let service = Peer::answering(200, &headers, r#"{"id": 5}"#);
    let call = service.client().request(Method::GET, ["deals", "d_1"]);
    let real = call.send().await.unwrap();
    let http = http::Response::builder().header("x-request-id", "r-1");
    let http = http.body(real.body().clone()).unwrap();
    let made = RawResponse::new(http, real.body().clone());
    assert_eq!(format!("{made:?}"), format!("{real:?}"));
    assert_eq!(made.version(), real.version());
    let (made, real) = (made.json::<Deal>(), real.json::<Deal>());
    let (made, real) = (made.unwrap_err(), real.unwrap_err());
    assert_eq!(made.body(), real.body());
    // Only a real one knows which call it belongs to.
    assert_eq!(format!("GET /v1/{{}}/{{}}: {made}"), real.to_string());
}

#[tokio::test]
async fn a_stub_returns_what_its_functions_make() {
    let stub =
        Stub::new().on_create_agent(|request| Err(ErrorBuilder::config(request.email()).build()));
    let program: Arc<dyn Operations> = Arc::new(stub);
    let error = tokio::spawn(program.create_agent(ada())).await.unwrap();
    assert_eq!(error.unwrap_err().to_string(), "ada@example.com");
    let error = program.retrieve_deal("d_1").await.unwrap_err();
    assert!(
        error.to_string().contains("call Stub::on_retrieve"),
        "{error}"
    );

    let service = Peer::answering(201, &[], AGENT);
    let program: Arc<dyn Operations> = Arc::new(service.client());
    assert_eq!(program.create_agent(ada()).await.unwrap().id, "a_1");
    assert_eq!(service.only().method(), "POST");
    let error = program.retrieve_deal("..").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Validation);
}

#[test]
fn what_a_test_says_counts() {
    let error = ErrorBuilder::timeout(Duration::from_secs(1)).attempts(3);
    let error = error.outcome(Outcome::Rejected).build();
    assert_eq!((error.outcome(), error.attempts()), (Outcome::Rejected, 3));
    assert!(error.to_string().ends_with("(after 3 attempts)"), "{error}");
    let wait = Duration::from_millis(1500);
    let error = ErrorBuilder::status(StatusCode::TOO_MANY_REQUESTS)
        .retry_after(wait)
        .build();
    assert_eq!(error.retry_after(), Some(wait));
    assert!(error.is_rate_limited());
    // The head had arrived.
    let error = ErrorBuilder::interrupted("reset")
        .request_id("r-1")
        .request_id("r\n1 é")
        .body("{")
        .build();
    assert_eq!(
        (error.outcome(), error.request_id()),
        (Outcome::Succeeded, Some("r-1"))
    );
    assert_eq!(
        (error.status().unwrap(), error.body()),
        (StatusCode::OK, Some(&b"{"[..]))
    );
}
