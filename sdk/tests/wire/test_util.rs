//! Errors and results that a test makes equal those that calls return, and a stub replaces a client.

use std::{error::Error as _, sync::Arc, time::Duration};

use dealkit::{
    Agent, Deal, Error, ErrorKind, Method, Operations, Outcome, RawResponse, StatusCode,
    ValidationError,
    test_util::{ErrorBuilder, Stub},
};

use crate::{
    limits,
    peer::{AGENT, Http1, Peer, Step, ada, client, unreachable_url},
};

/// Formats all data of an error.
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

/// Adds the operation and the headers of the real error, and checks that the two errors are equal.
fn check_equal(constructed: ErrorBuilder, real: &Error) -> Error {
    let mut constructed = constructed.operation(Method::POST, "/v1/agents");
    if let Some(headers) = real.headers() {
        constructed = constructed.headers(headers.clone());
    }
    let constructed = constructed.build();
    assert_eq!(facts(&constructed), facts(real));
    constructed
}

#[tokio::test]
async fn a_constructed_error_of_a_response_equals_the_real_one() {
    let problem = r#"{"title": "No", "detail": "way", "errors": [{"pointer": "/email", "code": "x", "detail": "y"}]}"#;
    for status in [400, 401, 404, 408, 422, 429, 500, 503] {
        for body in ["", "<p>no</p>", problem] {
            let headers = [("x-request-id", "r-1"), ("retry-after", "7")];
            let real = created(status, &headers, body).await;
            let status = StatusCode::from_u16(status).unwrap();
            let constructed = check_equal(ErrorBuilder::status(status).body(body), &real);
            assert_eq!(constructed.retry_after(), Some(Duration::from_secs(7)));
        }
    }
    let body = r#"{"id": "a_1", "email": 5}"#;
    let constructed = ErrorBuilder::from_error(Agent::from_json(body).unwrap_err());
    let constructed = constructed.attempts(1).response_status(StatusCode::CREATED);
    let constructed = check_equal(constructed, &created(201, &[], body).await);
    assert_eq!(
        (constructed.kind(), constructed.outcome()),
        (ErrorKind::Decode, Outcome::Succeeded)
    );
}

#[tokio::test(start_paused = true)]
async fn a_constructed_timeout_equals_the_real_one() {
    let silent = limits::ScriptedService::start(Duration::ZERO, [(0, None)]).await;
    let short = Duration::from_millis(50);
    let impatient = silent.builder().timeout(short).build().unwrap();
    let real = impatient.agents().create(ada()).await.unwrap_err();
    check_equal(ErrorBuilder::timeout(short), &real);
}

#[tokio::test]
async fn constructed_errors_without_a_response_equal_the_real_ones() {
    let breaking = Peer::start(Http1, vec![vec![Step::ReadRequest, Step::End]]);
    let real = breaking.retrying_client().agents().create(ada()).await;
    let constructed = check_equal(ErrorBuilder::interrupted("reset"), &real.unwrap_err());
    assert_eq!(constructed.source().unwrap().to_string(), "reset");

    let real = client(unreachable_url()).agents().create(ada()).await;
    let real = real.unwrap_err();
    let constructed = ErrorBuilder::connect("refused")
        .operation(Method::POST, "/v1/agents")
        .build();
    // Only the real error has the reason for which the connection failed.
    let why = ": nothing is listening at the host and port in the base URL; are they right, and is the service up? [see base_url]";
    assert_eq!(facts(&constructed), facts(&real).replace(why, ""));
    assert_eq!(constructed.source().unwrap().to_string(), "refused");

    let real = client(unreachable_url())
        .deals()
        .retrieve("..")
        .await
        .unwrap_err();
    let violations = ValidationError::check(real.violations().to_vec()).unwrap_err();
    let constructed = ErrorBuilder::from_error(violations).operation(Method::GET, "/v1/deals/{id}");
    assert_eq!(facts(&constructed.build()), facts(&real));
}

#[cfg(feature = "ledger")]
#[tokio::test]
async fn a_constructed_record_of_a_ledger_equals_the_real_one() {
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
    let constructed: Creation = Creation::from_ledger(0, recorded.clone());
    assert_eq!(constructed.agent_id(), created.agent_id());
    assert_eq!(constructed.result.unwrap(), real.result.unwrap());
    recorded.outcome = Outcome::Unknown;
    let constructed: Creation = Creation::from_ledger(0, recorded);
    let error = constructed.result.unwrap_err();
    let facts_of_error = (error.kind(), error.outcome());
    assert_eq!(
        facts_of_error,
        (ErrorKind::AlreadyAttempted, Outcome::Unknown)
    );
}

#[tokio::test]
async fn a_constructed_response_equals_the_real_one() {
    let headers = [("x-request-id", "r-1")];
    let service = Peer::answering(200, &headers, r#"{"id": 5}"#);
    let call = service.client().request(Method::GET, ["deals", "d_1"]);
    let real = call.send().await.unwrap();
    let http = http::Response::builder().header("x-request-id", "r-1");
    let http = http.body(real.body().clone()).unwrap();
    let constructed = RawResponse::new(http, real.body().clone());
    assert_eq!(format!("{constructed:?}"), format!("{real:?}"));
    assert_eq!(constructed.version(), real.version());
    let (constructed, real) = (constructed.json::<Deal>(), real.json::<Deal>());
    let (constructed, real) = (constructed.unwrap_err(), real.unwrap_err());
    assert_eq!(constructed.body(), real.body());
    // Only the real response has its operation.
    assert_eq!(
        format!("GET /v1/{{}}/{{}}: {constructed}"),
        real.to_string()
    );
}

#[tokio::test]
async fn a_stub_returns_the_results_of_its_functions() {
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
    assert_eq!(service.only_request().method(), "POST");
    let error = program.retrieve_deal("..").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Validation);
}

#[test]
fn values_that_a_test_sets_take_precedence() {
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
    // The head of the response had arrived.
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
