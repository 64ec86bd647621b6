//! The contract's vectors through the SDK against the server: the two agree, end to end.

use std::collections::BTreeMap;

use crate::support::{self, KEY, Received, agent_cases, tree, vectors::vectors};
use dealkit::{
    Client, CreateAgent, Deal, Error, Json, Method, RawResponse, UnknownFields, Version,
};
use dealkit_server::Sandbox;
use serde_json::Value;

fn client(sandbox: &Sandbox) -> Client {
    Client::builder()
        .base_url(sandbox.url())
        .service_key(sandbox.service_key())
        .build()
        .unwrap()
}

/// What the service answered, success or not.
fn response(outcome: Result<RawResponse, Error>) -> Received {
    match outcome {
        Ok(response) => Received {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            body: response.body().clone(),
        },
        Err(error) => Received {
            status: error.status().unwrap_or_else(|| panic!("{error}")).as_u16(),
            headers: error.headers().unwrap().clone(),
            body: error.body().unwrap().to_vec().into(),
        },
    }
}

#[tokio::test]
async fn every_request_gets_the_response_of_the_vectors() {
    let sandboxes = [false, true].map(|strict| Sandbox::builder().strict(strict).start().unwrap());
    let (mut typed, mut sent) = (0, 0);
    for case in agent_cases() {
        let sandbox = &sandboxes[usize::from(case.strict)];
        let client = client(sandbox);
        let bytes = case.bytes();
        // The SDK cannot be given anything but JSON.
        let Some(body) = std::str::from_utf8(&bytes)
            .ok()
            .and_then(|text| Json::parse(text).ok())
        else {
            continue;
        };
        let raw = client
            .request(Method::POST, ["agents"])
            .json(&body)
            .send()
            .await;
        case.check(&response(raw));
        sent += 1;

        if let Ok(request) = CreateAgent::from_json(&body, UnknownFields::Ignore)
            && !case.strict
            && case.expects(201)
        {
            let created = client
                .agents()
                .create(request)
                .with_response()
                .await
                .unwrap();
            case.check(&Received {
                status: created.status().as_u16(),
                headers: created.headers().clone(),
                body: created.body().clone(),
            });
            let agent = created.into_value();
            // What the SDK read is what the service wrote, field by field.
            assert!(
                agent.extra().is_empty() && agent.profile.extra().is_empty(),
                "{}",
                case.name
            );
            assert!(
                sandbox.agents().iter().any(|created| *created == agent),
                "{}",
                case.name
            );
            typed += 1;
        }
    }
    assert!(typed >= 80 && sent >= 300, "{typed} typed, {sent} sent");
}

#[tokio::test]
async fn every_deal_of_the_vectors_is_served_and_read() {
    let sandbox = Sandbox::builder()
        .deals(Vec::<String>::new())
        .start()
        .unwrap();
    let client = client(&sandbox);
    let mut served = 0;
    for case in vectors::<Value>("deals.json", 200) {
        let text = match (case.get("text"), case.get("json")) {
            (Some(text), _) => text.as_str().unwrap().to_owned(),
            (None, Some(json)) => json.to_string(),
            _ => continue,
        };
        // A server accepts only strict JSON, a client accepts more.
        if case["expect"].get("error").is_some() || sandbox.insert_deal(text.as_str()).is_err() {
            continue;
        }
        let expected = Deal::from_json(&text).unwrap();
        let response = client.deals().retrieve(&expected.id).with_response().await;
        match response {
            Ok(response) => {
                assert_eq!(response.value(), &expected, "{}", case["name"]);
                assert_eq!(response.body(), text.trim().as_bytes(), "{}", case["name"]);
                served += 1;
            }
            Err(error) => assert!(!error.violations().is_empty(), "{}: {error}", case["name"]),
        }
    }
    assert!(served >= 80, "only {served}");
}

/// The identifiers in the vectors arrive unchanged.
#[tokio::test]
async fn every_identifier_reaches_its_deal() {
    let sandbox = Sandbox::builder()
        .deals(Vec::<String>::new())
        .start()
        .unwrap();
    let client = client(&sandbox);
    let mut arrived = 0;
    for case in vectors::<Value>("identifiers.json", 50) {
        let id = case["id"].as_str().unwrap();
        sandbox.insert_deal(serde_json::json!({"id": id})).unwrap();
        let outcome = client.deals().retrieve(id).await;
        if case["expect"].get("segment").is_some() {
            assert_eq!(outcome.unwrap().id, id, "{}", case["name"]);
            arrived += 1;
        } else {
            let error = outcome.unwrap_err();
            assert_eq!(
                error.violations()[0].code.as_str(),
                "invalid_id",
                "{}",
                case["name"]
            );
            assert_eq!(error.attempts(), 0);
        }
    }
    assert!(arrived >= 25, "only {arrived}");
}

#[tokio::test]
async fn http2_and_the_blocking_client_do_the_same() {
    let sandbox = Sandbox::builder().start().unwrap();
    let http2 = Client::builder()
        .base_url(sandbox.url())
        .service_key(KEY)
        .http2_prior_knowledge(true)
        .build()
        .unwrap();
    let over_http1 = client(&sandbox).deals().retrieve("d_1").await.unwrap();
    let over_http2 = http2.deals().retrieve("d_1").with_response().await.unwrap();
    assert_eq!(over_http2.version(), Version::HTTP_2);
    assert_eq!(&over_http1, over_http2.value());
    let missing = http2.deals().retrieve("none").await.unwrap_err();
    assert_eq!(missing.version(), Some(Version::HTTP_2));
    let body = Json::parse(support::AGENT).unwrap();
    let request = CreateAgent::from_json(&body, UnknownFields::Reject).unwrap();
    http2.agents().create(request.clone()).await.unwrap();
    client(&sandbox).agents().create(request).await.unwrap();
    assert_eq!(sandbox.agents().len(), 2);

    let async_client = client(&sandbox);
    let deal = tokio::task::spawn_blocking(move || {
        let blocking = dealkit::blocking::Client::new(async_client).unwrap();
        blocking.deals().retrieve("d_1").send().unwrap()
    });
    assert_eq!(deal.await.unwrap(), over_http1);
}

/// Many deals of a generated store, each as the server holds it.
#[tokio::test]
async fn many_deals_come_in_order() {
    let sandbox = Sandbox::builder().generate(500, 7).start().unwrap();
    let ids: Vec<String> = (0..500).map(|n| format!("g_{n}")).collect();
    let mut seen = BTreeMap::new();
    let mut deals = client(&sandbox)
        .deals()
        .retrieve_many(ids.clone())
        .concurrency(64)
        .stream();
    while let Some(item) = deals.next().await {
        assert_eq!(item.index, seen.len());
        let deal = item.result.unwrap();
        assert_eq!(deal.id, item.id.as_str());
        seen.insert(item.index, tree(&serde_json::to_string(&deal).unwrap()));
    }
    assert_eq!(seen.len(), ids.len());
}
