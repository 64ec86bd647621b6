//! The contract's vectors, and many calls at once, against a service behind an intermediary.
//!
//! The address comes from the environment: `make test-network` puts real intermediaries there.
#![cfg(feature = "rustls")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, and its helpers too"
)]

#[path = "vectors/mod.rs"]
mod vectors;

use std::{collections::HashSet, env};

use dealkit::{
    Agent, AgentProfile, Client, ClientBuilder, CreateAgent, Error, Json, Method, Outcome,
    UnknownFields,
};
use futures_util::future::join_all;
use serde_json::{Value, json};
use vectors::{bytes, name, vectors};

/// The client's builder; the service has the generated deals `g_0` to `g_499`.
fn builder() -> ClientBuilder {
    let variable = |name: &str| env::var(name).expect("make test-network sets it");
    let mut builder = Client::builder()
        .base_url(variable("DEALKIT_NETWORK_URL"))
        .service_key("sandbox-key")
        .root_certificates(variable("DEALKIT_NETWORK_ISSUER"));
    let identity = variable("DEALKIT_NETWORK_IDENTITY");
    if !identity.is_empty() {
        builder = builder.identity(identity);
    }
    let proxy = variable("DEALKIT_NETWORK_PROXY");
    if proxy.is_empty() {
        builder
    } else {
        builder.proxy(proxy)
    }
}

/// The document of a request, if it is JSON.
fn document(case: &Value) -> Option<Json> {
    Json::parse(String::from_utf8(bytes(case)).ok()?).ok()
}

/// Success, or the codes and pointers of the violations.
fn judged(outcome: Result<Agent, Error>) -> Result<(), Value> {
    let error = match outcome {
        Ok(_) => return Ok(()),
        Err(error) => error,
    };
    assert_eq!(error.outcome(), Outcome::Rejected, "{error}");
    let violations = error.violations().iter();
    Err(violations
        .map(|violation| json!([violation.pointer, violation.code.as_str()]))
        .collect())
}

#[tokio::test]
#[ignore = "make test-network runs it"]
async fn every_create_of_the_vectors() {
    let client = builder().build().unwrap();
    let mut run = 0;
    for case in vectors::<Value>("create_agent.json", 90) {
        let expect = &case["expect"];
        // Strict cases are for another service.
        let (Some(body), None) = (document(&case), case.get("strict")) else {
            continue;
        };
        if expect["status"] == 400 {
            continue;
        }
        run += 1;
        if let Ok(request) = CreateAgent::from_json(&body, UnknownFields::Ignore) {
            client
                .agents()
                .create(request)
                .await
                .unwrap_or_else(|error| panic!("{}: {error}", name(&case)));
            continue;
        }
        // The service refuses what dealkit would not send.
        let call = client.request(Method::POST, ["agents"]).json(&body);
        let outcome = call.await.map(|_| panic!("{} is accepted", name(&case)));
        assert_eq!(
            judged(outcome).err().as_ref(),
            expect.get("errors"),
            "{}",
            name(&case)
        );
    }
    assert!(run >= 60, "only {run} cases were run");
}

/// Whatever an identifier contains, it reaches the service as one segment: there is no such deal.
#[tokio::test]
#[ignore = "make test-network runs it"]
async fn every_identifier_of_the_vectors() {
    let client = builder().build().unwrap();
    let mut wrong = Vec::new();
    for case in vectors::<Value>("identifiers.json", 20) {
        let id = case["id"].as_str().unwrap();
        let error = client.deals().retrieve(id).await.unwrap_err();
        let is_right = match case["expect"].get("code") {
            Some(_) => error.outcome() == Outcome::NotSent,
            // nginx itself refuses a NUL in a path.
            None if id.contains('\0') && error.outcome() == Outcome::Rejected => true,
            None => error.is_not_found() && error.problem().is_some(),
        };
        if !is_right {
            wrong.push(format!("{}: {error}", name(&case)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn request(number: usize) -> CreateAgent {
    CreateAgent::builder()
        .email("ada@example.com")
        .first_name("Ada")
        .last_name(format!("Lovelace {number}"))
        .profile(AgentProfile::new())
        .build()
        .unwrap()
}

#[tokio::test]
#[ignore = "make test-network runs it"]
async fn many_calls_at_once() {
    let client = builder().build().unwrap();
    let creates = (0..300).map(|number| client.agents().create(request(number)).send());
    let ids: HashSet<_> = join_all(creates)
        .await
        .into_iter()
        .map(|agent| agent.unwrap().id.to_string())
        .collect();
    assert_eq!(ids.len(), 300);
    let wanted: Vec<_> = (0..500).map(|number| format!("g_{number}")).collect();
    let mut deals = client
        .deals()
        .retrieve_many(wanted.clone())
        .concurrency(64)
        .stream();
    let mut found = Vec::new();
    while let Some(item) = deals.next().await {
        found.push(item.result.unwrap().id.to_string());
    }
    assert_eq!(found, wanted);
}
