//! Errors and results that a test makes equal those that calls return, and a stub replaces a client.

use std::{error::Error as _, sync::Arc, time::Duration};

use dealkit::{
    Agent, CallOptions, Creation, Deal, Error, ErrorKind, Method, Operations, Outcome, RawResponse,
    Retrieved, StatusCode, ValidationError,
    test_util::{ErrorBuilder, Stub},
};
use futures_util::FutureExt as _;

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
    use dealkit::ledger::Ledger;

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
    assert_eq!(
        error.unwrap_err().to_string(),
        "POST /v1/agents: ada@example.com"
    );
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

#[tokio::test]
async fn an_async_stub_waits_for_the_test() {
    let released = Arc::new(tokio::sync::Notify::new());
    let waiting = Arc::clone(&released);
    let stub = Stub::new()
        .on_retrieve_async(move |id| {
            let waiting = Arc::clone(&waiting);
            async move {
                waiting.notified().await;
                Ok(Deal::builder().id(id).build())
            }
        })
        .on_create_agent_async(async |request| Err(ErrorBuilder::config(request.email()).build()));
    let program: Arc<dyn Operations> = Arc::new(stub);
    let mut deal = program.retrieve_deal("d_1");
    assert!((&mut deal).now_or_never().is_none());
    released.notify_one();
    assert_eq!(deal.await.unwrap().id, "d_1");
    let error = program.create_agent(ada()).await.unwrap_err();
    assert_eq!(error.to_string(), "POST /v1/agents: ada@example.com");
}

/// A program takes the same branch with a stub as with a client.
#[tokio::test(start_paused = true)]
async fn errors_of_a_stub_have_the_operation_of_the_call() {
    let after = Duration::from_secs(1);
    let timeout = move || ErrorBuilder::timeout(after);
    let stub = Stub::new()
        .on_retrieve(move |_| Err(timeout().build()))
        .on_create_agent(move |_| Err(timeout().build()));
    let service = limits::ScriptedService::start(Duration::ZERO, [(0, None), (0, None)]).await;
    let client = service.builder().timeout(after).build().unwrap();
    for may_have_acted in [true, false] {
        let call = async |program: &dyn Operations| match may_have_acted {
            true => program.create_agent(ada()).await.unwrap_err(),
            false => program.retrieve_deal("d_1").await.unwrap_err(),
        };
        let (stubbed, real) = (call(&stub).await, call(&client).await);
        assert_eq!(stubbed.may_have_acted(), may_have_acted);
        assert_eq!(facts(&stubbed), facts(&real));
    }

    let stub = stub.on_retrieve(move |_| {
        let error = timeout().operation(Method::GET, "/v2/deals/{id}");
        Err(error.build())
    });
    let error = stub.retrieve_deal("d_1").await.unwrap_err();
    assert_eq!(error.to_string(), "GET /v2/deals/{id}: timed out after 1 s");
}

#[test]
fn errors_of_constructed_results_have_their_operations() {
    let timeout = || ErrorBuilder::timeout(Duration::from_secs(1)).build();
    let retrieved: Retrieved = Retrieved::new(0, "d_1", Err(timeout()));
    let error = retrieved.result.unwrap_err();
    assert_eq!(error.to_string(), "GET /v1/deals/{id}: timed out after 1 s");
    assert!(!error.may_have_acted());
    let creation: Creation = Creation::new(0, Err(timeout()));
    let error = creation.result.unwrap_err();
    assert_eq!(
        error.to_string(),
        "POST /v1/agents: timed out after 1 s; the agent may exist"
    );
}

/// The options of a call through the trait replace the client's.
#[tokio::test]
async fn operations_take_options_of_each_call() {
    let service = Peer::answering(404, &[], "");
    let program: Arc<dyn Operations> = Arc::new(service.client());
    let options = CallOptions::new().header("x-tenant", "7");
    let failed = program.retrieve_deal_with("d_1", options.clone()).await;
    assert!(failed.unwrap_err().is_not_found());
    assert!(
        program
            .create_agent_with(ada(), options)
            .await
            .unwrap_err()
            .is_not_found()
    );
    for request in service.arrived() {
        assert_eq!(request.header("x-tenant"), Some("7"));
    }
}

#[cfg(feature = "ledger")]
#[tokio::test]
async fn operations_create_once() {
    use dealkit::{Created, IdempotencyKey};

    let (_folder, ledger) = crate::rows::new_ledger();
    let service = Peer::answering(201, &[], AGENT);
    let key = IdempotencyKey::new(&ledger, "crm-1").label("batch 7");
    assert_eq!((key.as_str(), key.ledger()), ("crm-1", &ledger));
    assert_eq!(format!("{key:?}"), "IdempotencyKey { .. }");
    let program: Arc<dyn Operations> = Arc::new(service.client());
    for is_first in [true, false] {
        let created = program.create_agent_once(ada(), key.clone()).await;
        assert_eq!(created.unwrap().now().is_some(), is_first);
    }
    assert_eq!(service.arrived().len(), 1);
    let [Some(row)] = &ledger.look_up(None, ["crm-1"]).unwrap()[..] else {
        panic!("the ledger has the key");
    };
    assert_eq!(row.label.as_deref(), Some("batch 7"));

    let stub = Stub::new().on_create_agent_once(|request, key| match key.as_str() {
        "crm-1" => Err(ErrorBuilder::in_flight().build()),
        key => Ok(Created::already(format!("{key} {}", request.email()))),
    });
    let program: Arc<dyn Operations> = Arc::new(stub);
    let error = program.create_agent_once(ada(), key).await.unwrap_err();
    assert!(error.is_in_flight());
    assert!(
        error.to_string().starts_with("POST /v1/agents: "),
        "{error}"
    );
    let key = IdempotencyKey::new(&ledger, "crm-2");
    let created = program.create_agent_once(ada(), key.clone()).await.unwrap();
    assert_eq!(created, Created::already("crm-2 ada@example.com"));
    assert_eq!(created.agent_id().unwrap(), "crm-2 ada@example.com");
    let error = Stub::new().create_agent_once(ada(), key).await.unwrap_err();
    assert!(
        error.to_string().contains("on_create_agent_once"),
        "{error}"
    );
}

#[cfg(feature = "ledger")]
#[tokio::test]
async fn constructed_errors_of_a_previous_attempt_equal_the_real_ones() {
    let (_folder, ledger) = crate::rows::new_ledger();
    let mut service = Peer::manual();
    let client = service.client();
    let once = |key: &str| client.agents().create(ada()).once(&ledger, key);
    let add_operation = |error: ErrorBuilder| error.operation(Method::POST, "/v1/agents").build();

    let mut sending = once("one").into_future();
    let held = service.next_during(&mut sending).await;
    let real = once("one").await.unwrap_err();
    assert_eq!(
        facts(&add_operation(ErrorBuilder::in_flight())),
        facts(&real)
    );
    assert!(real.is_in_flight());
    held.answer(422, "");
    sending.await.unwrap_err();

    let real = once("one").await.unwrap_err();
    let recorded = ledger.look_up(None, ["one"]).unwrap().remove(0).unwrap();
    let constructed = add_operation(ErrorBuilder::already_attempted(recorded));
    assert_eq!(facts(&constructed), facts(&real));
    assert_eq!(
        (real.kind(), real.outcome()),
        (ErrorKind::AlreadyAttempted, Outcome::Rejected)
    );
}

#[tokio::test(start_paused = true)]
async fn a_constructed_throttled_error_equals_the_real_one() {
    let service = Peer::in_memory();
    let builder = service.builder().rate_limit(0.01);
    let client = builder.timeout(Duration::from_secs(1)).build().unwrap();
    let mut service = service;
    let mut first = client.agents().create(ada()).into_future();
    service.next_during(&mut first).await.answer(201, AGENT);
    first.await.unwrap();
    let real = client.agents().create(ada()).await.unwrap_err();
    let wait = real.retry_after().unwrap();
    let constructed = ErrorBuilder::throttled(wait).operation(Method::POST, "/v1/agents");
    assert_eq!(facts(&constructed.build()), facts(&real));
}

#[tokio::test]
async fn a_constructed_error_without_a_key_equals_the_real_one() {
    let service = Peer::answering(200, &[], "{}");
    let provider = async || Err::<String, _>(std::io::Error::other("CANARY"));
    let builder = service.builder().service_key_provider(provider);
    let client = builder.build().unwrap();
    let real = client.agents().create(ada()).await.unwrap_err();
    let text = real.to_string();
    let reason = text.strip_prefix("POST /v1/agents: not sent: ").unwrap();
    let reason = reason.strip_suffix(" [see service_key]").unwrap();
    let constructed = ErrorBuilder::service_key(reason).operation(Method::POST, "/v1/agents");
    assert_eq!(facts(&constructed.build()), facts(&real));
    assert_eq!(real.kind(), ErrorKind::ServiceKey);
}

/// A clone has all data, and the result of a call stays small.
#[tokio::test]
async fn errors_are_cloned_with_their_data() {
    let error = created(422, &[("x-request-id", "r-1")], r#"{"title": "No"}"#).await;
    let clone = error.clone();
    assert_eq!(facts(&clone), facts(&error));
    // The clone does not change with the original.
    let changed = ErrorBuilder::from_error(error).outcome(Outcome::Unknown);
    assert_eq!(changed.build().outcome(), Outcome::Unknown);
    assert_eq!(clone.outcome(), Outcome::Rejected);
    assert_eq!(size_of::<Error>(), size_of::<usize>());
    assert_eq!(size_of::<Result<(), Error>>(), size_of::<usize>());

    let breaking = Peer::start(Http1, vec![vec![Step::ReadRequest, Step::End]]);
    let error = breaking.client().agents().create(ada()).await.unwrap_err();
    let (source, cloned) = (error.source().unwrap(), error.clone());
    assert_eq!(cloned.source().unwrap().to_string(), source.to_string());
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
