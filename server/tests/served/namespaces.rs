//! Namespaces: isolation between service keys, creation, deletion and limits.

use std::time::Duration;

use crate::support::{AGENT, Received};
use dealkit_server::{Sandbox, SandboxBuilder, Service};
use http::Request;
use serde_json::{Value, json};

fn service(change: impl FnOnce(SandboxBuilder) -> SandboxBuilder) -> Service {
    let builder = Sandbox::builder().namespaces("nightly, test-*");
    change(builder).service().unwrap()
}

/// Sends a request with this key, or without a key if it is empty.
fn ask(service: &Service, key: &str, method: &str, path: &str, body: &str) -> Received {
    let mut request = Request::builder()
        .method(method)
        .uri(format!("http://localhost{path}"));
    if !key.is_empty() {
        request = request.header("x-service-key", key);
    }
    if !body.is_empty() {
        request = request.header("content-type", "application/json");
    }
    let body = body.to_owned().into();
    service.handle(request.body(body).unwrap()).into()
}

fn create(service: &Service, key: &str) -> Value {
    let created = ask(service, key, "POST", "/v1/agents", AGENT);
    assert_eq!(created.status, 201, "{key}");
    created.json()["id"].clone()
}

fn count(service: &Service, key: &str, list: &str) -> usize {
    let page = ask(service, key, "GET", &format!("/__sandbox/{list}"), "");
    let page: Value = serde_json::from_slice(&page.body).unwrap();
    page[list].as_array().unwrap().len()
}

/// Asserts that the response is a rejection with this status and detail.
fn assert_rejected(response: &Received, status: u16, detail: &str) {
    let said = response.json()["detail"].as_str().unwrap().to_owned();
    assert!(
        response.status == status && said.contains(detail),
        "{} {said}",
        response.status
    );
}

#[test]
fn each_key_has_its_own_namespace() {
    let service = service(|builder| builder);
    let (one, other) = ("test-1", "nightly");
    for key in [one, other, "sandbox-key"] {
        assert_eq!(create(&service, key), "a_1");
    }
    assert_eq!(create(&service, one), "a_2");
    assert_eq!(service.agents().len(), 1);
    assert_eq!(
        [one, other, "test-2"].map(|key| count(&service, key, "agents")),
        [2, 1, 0]
    );

    let deals = [
        ("PUT", "/__sandbox/deals/mine", r#"{"id": "mine"}"#),
        (
            "PUT",
            "/__sandbox/deals/d_1",
            r#"{"id": "d_1", "status": "MINE"}"#,
        ),
    ];
    for (method, path, body) in deals {
        assert_eq!(ask(&service, one, method, path, body).status, 204);
    }
    let found = |key, id| ask(&service, key, "GET", &format!("/v1/deals/{id}"), "");
    assert_eq!(found(one, "mine").body, r#"{"id": "mine"}"#);
    assert_eq!(found(one, "d_1").json()["status"], "MINE");
    for key in [other, "sandbox-key"] {
        assert_eq!(found(key, "mine").status, 404);
        assert_ne!(found(key, "d_1").json()["status"], "MINE");
    }
    assert_eq!(count(&service, one, "deals"), 4);

    let fault = r#"{"status": 503}"#;
    let added = ask(
        &service,
        "",
        "POST",
        "/__sandbox/faults?namespace=test-1",
        fault,
    );
    assert_eq!((added.status, &*added.body), (201, &b"{\"id\":1}"[..]));
    assert_eq!(
        [one, other, ""].map(|key| count(&service, key, "faults")),
        [1, 0, 0]
    );

    let settings = r#"{"variant": "ok", "strict": true}"#;
    let set = ask(&service, one, "PUT", "/__sandbox/namespace", settings);
    assert_eq!(set.status, 204);
    let mistake = AGENT.replace("profile", r#"phnoe":"1","profile"#);
    let created = |key, agent| ask(&service, key, "POST", "/v1/agents", agent).status;
    assert_eq!((created(one, &mistake), created(one, AGENT)), (422, 200));
    assert_eq!(
        (created(other, &mistake), created(other, AGENT)),
        (201, 201)
    );

    assert_eq!(
        ask(&service, one, "POST", "/__sandbox/reset", "").status,
        204
    );
    // The settings of the namespace stay after the reset.
    let again = ask(&service, one, "POST", "/v1/agents", AGENT);
    assert_eq!((again.status, &again.json()["id"]), (200, &json!("a_1")));
    assert_eq!(found(one, "mine").status, 404);
    assert_eq!(count(&service, other, "agents"), 3);

    assert_eq!(
        ask(&service, one, "DELETE", "/__sandbox/namespace", "").status,
        204
    );
    assert_eq!(create(&service, one), "a_1");
    assert_eq!(create(&service, other), "a_4");
}

/// Creates a namespace with a generated key.
fn create_namespace(service: &Service) -> Result<String, Box<Received>> {
    let begun = ask(service, "", "POST", "/__sandbox/namespace", "");
    match begun.status {
        201 => Ok(begun.json()["service_key"].as_str().unwrap().to_owned()),
        _ => Err(Box::new(begun)),
    }
}

#[test]
fn the_number_of_namespaces_is_limited() {
    let service = service(|builder| builder.max_namespaces(3));
    let mut keys: Vec<_> = (0..3)
        .map(|_| create_namespace(&service).unwrap())
        .collect();
    assert!(keys.iter().all(|key| key.starts_with("test-")));
    keys.dedup();
    assert_eq!(keys.len(), 3);
    for rejected in [
        *create_namespace(&service).unwrap_err(),
        ask(&service, "test-4", "GET", "/v1/deals/d_1", ""),
        ask(&service, "test-4", "GET", "/__sandbox/deals", ""),
    ] {
        rejected.check_invariants("507", false);
        assert_rejected(&rejected, 507, "--max-namespaces");
    }
    for key in &keys {
        assert_eq!(create(&service, key), "a_1");
    }
    ask(&service, &keys[1], "DELETE", "/__sandbox/namespace", "");
    assert_eq!(create(&service, "test-4"), "a_1");
    assert_eq!(create(&service, &keys[0]), "a_2");
}

#[tokio::test(start_paused = true)]
async fn unused_namespaces_are_deleted() {
    let service = service(|builder| builder.max_namespaces(2));
    create(&service, "test-1");
    create(&service, "test-2");
    tokio::time::advance(Duration::from_secs(3_000)).await;
    create(&service, "test-1");
    tokio::time::advance(Duration::from_secs(700)).await;
    assert_eq!(create(&service, "test-3"), "a_1");
    assert_eq!(create(&service, "test-1"), "a_3");
    let rejected = ask(&service, "test-2", "GET", "/v1/deals/d_1", "");
    assert_rejected(&rejected, 507, "--max-namespaces");
}

/// A cleanup examines every namespace. If each new namespace started one, creating thousands would take minutes.
#[tokio::test(start_paused = true)]
async fn a_cleanup_runs_at_most_once_a_second() {
    let service = service(|builder| builder.max_namespaces(2));
    let begins = |key| ask(&service, key, "GET", "/v1/deals/d_1", "").status == 200;
    let pass = |milliseconds| tokio::time::advance(Duration::from_millis(milliseconds));
    assert!(begins("test-unused"));
    pass(3_599_500).await;
    // This namespace starts a cleanup, just before the first one counts as unused.
    assert!(begins("test-1"));
    pass(900).await;
    for _ in 0..2 {
        assert!(!begins("test-2"));
    }
    pass(100).await;
    assert!(begins("test-2"));
}

/// All namespaces share a memory budget, independent of their maximum number.
#[test]
fn each_namespace_reserves_memory() {
    const MAX_NAMESPACES: usize = 512 * 1024 / 4;
    let service = service(|builder| builder.max_namespaces(usize::MAX));
    let begins = |number| {
        let key = format!("test-{number}");
        ask(&service, &key, "GET", "/v1/deals/d_1", "").status == 200
    };
    assert_eq!(
        (0..).take_while(|number| begins(*number)).count(),
        MAX_NAMESPACES
    );
    ask(&service, "test-0", "DELETE", "/__sandbox/namespace", "");
    assert!(begins(MAX_NAMESPACES) && !begins(MAX_NAMESPACES + 1));
}

#[test]
fn all_namespaces_share_the_store_limit() {
    let service = service(|builder| builder.max_store_bytes(3 * AGENT.len() as u64));
    for key in ["test-1", "test-2", "sandbox-key"] {
        create(&service, key);
    }
    let full = |key| ask(&service, key, "POST", "/v1/agents", AGENT).status == 507;
    assert!(full("test-1") && full("test-3") && full("sandbox-key"));
    ask(&service, "test-2", "DELETE", "/__sandbox/namespace", "");
    assert!(!full("test-1") && full("test-1"));
    ask(&service, "test-1", "POST", "/__sandbox/reset", "");
    assert!(!full("sandbox-key") && !full("test-2"));
}

#[test]
fn invalid_keys_and_settings_are_rejected() {
    let namespaces = service(|builder| builder);
    for key in ["", "wrong", "night", "nightly2", "test-", "test"] {
        let is_prefix = key == "test-";
        let asked = ask(&namespaces, key, "GET", "/v1/deals/d_1", "");
        assert_eq!(asked.status, if is_prefix { 200 } else { 401 }, "{key}");
    }
    let named = ask(&namespaces, "wrong", "GET", "/__sandbox/agents", "");
    assert_rejected(&named, 404, "no namespace for that key");
    let first = ask(&namespaces, "", "DELETE", "/__sandbox/namespace", "");
    assert_rejected(&first, 404, "x-service-key");
    let keys = ask(&namespaces, "test-1", "PUT", "/__sandbox/keys", r#"["a"]"#);
    assert_rejected(&keys, 400, "only the server's own keys");
    for body in ["{", "[]", r#"{"colour": 1}"#, r#"{"variant": "odd"}"#] {
        assert_eq!(
            ask(&namespaces, "test-1", "PUT", "/__sandbox/namespace", body).status,
            400,
            "{body}"
        );
    }

    // Without --namespaces, calls of the control interface with any key use the default namespace.
    let plain = Sandbox::builder().service().unwrap();
    assert_eq!(count(&plain, "wrong", "agents"), 0);
    let deals = |query| {
        ask(
            &plain,
            "",
            "GET",
            &format!("/__sandbox/deals?namespace={query}"),
            "",
        )
    };
    assert_eq!(deals("sandbox-key").status, 200);
    assert_rejected(&deals("test-1"), 404, "--namespaces");
    assert_rejected(&create_namespace(&plain).unwrap_err(), 404, "--namespaces");
}
