//! Worlds: what has one key is not seen with another.

use std::{
    fmt::Debug,
    thread,
    time::{Duration, SystemTime},
};

use crate::support::{AGENT, Received, process::Running};
use dealkit::{
    Json,
    blocking::Client,
    chrono::{DateTime, Utc},
};
use dealkit_server::{
    AttachError, AttachedSandbox, Fault, Reading, Sandbox, SandboxBuilder, Service, Wanted,
};
use http::Request;
use serde_json::{Value, json};

fn service(change: impl FnOnce(SandboxBuilder) -> SandboxBuilder) -> Service {
    let builder = Sandbox::builder().worlds("nightly, test-*");
    change(builder).service().unwrap()
}

/// What comes of a request with this key, or without one if it is empty.
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

/// The response is a refusal for this reason.
fn assert_refused(response: &Received, status: u16, detail: &str) {
    let said = response.json()["detail"].as_str().unwrap().to_owned();
    assert!(
        response.status == status && said.contains(detail),
        "{} {said}",
        response.status
    );
}

#[test]
fn each_key_has_its_own() {
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
        ("DELETE", "/__sandbox/deals/d_2", ""),
    ];
    for (method, path, body) in deals {
        assert_eq!(ask(&service, one, method, path, body).status, 204);
    }
    let found = |key, id| ask(&service, key, "GET", &format!("/v1/deals/{id}"), "");
    assert_eq!(found(one, "mine").body, r#"{"id": "mine"}"#);
    assert_eq!(found(one, "d_1").json()["status"], "MINE");
    assert_eq!(found(one, "d_2").status, 404);
    for key in [other, "sandbox-key"] {
        assert_eq!(found(key, "mine").status, 404);
        assert_ne!(found(key, "d_1").json()["status"], "MINE");
        assert_eq!(found(key, "d_2").status, 200);
    }
    assert_eq!(count(&service, one, "deals"), 3);
    assert_eq!(
        ask(&service, one, "DELETE", "/__sandbox/deals/d_2", "").status,
        404
    );

    let fault = r#"{"status": 503}"#;
    let added = ask(
        &service,
        "",
        "POST",
        "/__sandbox/faults?world=test-1",
        fault,
    );
    assert_eq!((added.status, &*added.body), (201, &b"{\"id\":1}"[..]));
    assert_eq!(
        [one, other, ""].map(|key| count(&service, key, "faults")),
        [1, 0, 0]
    );

    let settings = r#"{"reading": "ok", "strict": true}"#;
    let set = ask(&service, one, "PUT", "/__sandbox/world", settings);
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
    // What the world was set to stays.
    let again = ask(&service, one, "POST", "/v1/agents", AGENT);
    assert_eq!((again.status, &again.json()["id"]), (200, &json!("a_1")));
    assert_eq!(found(one, "d_2").status, 200);
    assert_eq!(count(&service, other, "agents"), 3);

    assert_eq!(
        ask(&service, one, "DELETE", "/__sandbox/world", "").status,
        204
    );
    assert_eq!(create(&service, one), "a_1");
    assert_eq!(create(&service, other), "a_4");
}

/// A world that the server makes up a key for.
fn begin(service: &Service) -> Result<String, Box<Received>> {
    let begun = ask(service, "", "POST", "/__sandbox/world", "");
    match begun.status {
        201 => Ok(begun.json()["service_key"].as_str().unwrap().to_owned()),
        _ => Err(Box::new(begun)),
    }
}

#[test]
fn worlds_are_bounded_and_none_is_lost() {
    let service = service(|builder| builder.max_worlds(3));
    // Those that are listed come first.
    let keys: Vec<_> = (0..3).map(|_| begin(&service).unwrap()).collect();
    assert_eq!(keys[0], "nightly");
    assert!(keys[1].starts_with("test-") && keys[1] != keys[2]);
    for refused in [
        *begin(&service).unwrap_err(),
        ask(&service, "test-4", "GET", "/v1/deals/d_1", ""),
        ask(&service, "test-4", "GET", "/__sandbox/deals", ""),
    ] {
        refused.check_invariants("507", false);
        assert_refused(&refused, 507, "--max-worlds");
    }
    for key in &keys {
        assert_eq!(create(&service, key), "a_1");
    }
    ask(&service, &keys[1], "DELETE", "/__sandbox/world", "");
    assert_eq!(create(&service, "test-4"), "a_1");
    assert_eq!(create(&service, &keys[0]), "a_2");
}

#[tokio::test(start_paused = true)]
async fn a_world_that_nobody_uses_makes_room() {
    let service = service(|builder| builder.max_worlds(2));
    create(&service, "test-1");
    create(&service, "test-2");
    tokio::time::advance(Duration::from_secs(3_000)).await;
    create(&service, "test-1");
    tokio::time::advance(Duration::from_secs(700)).await;
    assert_eq!(create(&service, "test-3"), "a_1");
    assert_eq!(create(&service, "test-1"), "a_3");
    let refused = ask(&service, "test-2", "GET", "/v1/deals/d_1", "");
    assert_refused(&refused, 507, "--max-worlds");
}

#[test]
fn all_worlds_share_the_bytes() {
    let service = service(|builder| builder.max_store_bytes(3 * AGENT.len() as u64));
    for key in ["test-1", "test-2", "sandbox-key"] {
        create(&service, key);
    }
    let full = |key| ask(&service, key, "POST", "/v1/agents", AGENT).status == 507;
    assert!(full("test-1") && full("test-3") && full("sandbox-key"));
    ask(&service, "test-2", "DELETE", "/__sandbox/world", "");
    assert!(!full("test-1") && full("test-1"));
    ask(&service, "test-1", "POST", "/__sandbox/reset", "");
    assert!(!full("sandbox-key") && !full("test-2"));
}

#[test]
fn wrong_keys_and_names_are_refused() {
    let worlds = service(|builder| builder);
    for key in ["", "wrong", "night", "nightly2", "test-", "test"] {
        let is_prefix = key == "test-";
        let asked = ask(&worlds, key, "GET", "/v1/deals/d_1", "");
        assert_eq!(asked.status, if is_prefix { 200 } else { 401 }, "{key}");
    }
    let named = ask(&worlds, "wrong", "GET", "/__sandbox/agents", "");
    assert_refused(&named, 404, "no world for that key");
    let first = ask(&worlds, "", "DELETE", "/__sandbox/world", "");
    assert_refused(&first, 404, "x-service-key");
    let keys = ask(&worlds, "test-1", "PUT", "/__sandbox/keys", r#"["a"]"#);
    assert_refused(&keys, 400, "only the server's own keys");
    for body in ["{", "[]", r#"{"colour": 1}"#, r#"{"reading": "odd"}"#] {
        assert_eq!(
            ask(&worlds, "test-1", "PUT", "/__sandbox/world", body).status,
            400,
            "{body}"
        );
    }

    // A key that the server has given up is in no other world.
    let rotated = service(|builder| builder.worlds("sandbox-*"));
    rotated.accept_keys(["next"]).unwrap();
    let asked = ["sandbox-key", "next", "sandbox-1"]
        .map(|key| ask(&rotated, key, "GET", "/v1/deals/d_1", "").status);
    assert_eq!(asked, [401, 200, 200]);
    assert_eq!(
        ask(&rotated, "sandbox-key", "POST", "/__sandbox/reset", "").status,
        204
    );
    assert_eq!(create(&rotated, "sandbox-key"), "a_1");

    // A server without worlds has one for everybody, whatever key a call of the interface has.
    let plain = Sandbox::builder().service().unwrap();
    assert_eq!(count(&plain, "wrong", "agents"), 0);
    let deals = |query| {
        ask(
            &plain,
            "",
            "GET",
            &format!("/__sandbox/deals?world={query}"),
            "",
        )
    };
    assert_eq!(deals("sandbox-key").status, 200);
    assert_refused(&deals("test-1"), 404, "--worlds");
    assert_refused(&begin(&plain).unwrap_err(), 404, "--worlds");
}

/// What a method returns, which fails only where a server that runs elsewhere is called.
trait Sure {
    type Of;
    fn sure(self) -> Self::Of;
}

impl<T, E: Debug> Sure for Result<T, E> {
    type Of = T;
    fn sure(self) -> T {
        self.unwrap()
    }
}

impl<T> Sure for Vec<T> {
    type Of = Self;
    fn sure(self) -> Self {
        self
    }
}

impl Sure for () {
    type Of = ();
    fn sure(self) {}
}

fn client(url: &str, key: &str) -> Client {
    let client = Client::builder().base_url(url).service_key(key);
    client.build().unwrap()
}

/// What a sandbox does, in this process or as a world of a server.
macro_rules! face {
    ($sandbox:expr) => {{
        let sandbox = $sandbox;
        let client = client(&sandbox.url(), sandbox.service_key());
        let create = |json: &str| {
            client
                .agents()
                .create_json(Json::parse(json).unwrap())
                .send()
        };
        let sent = AGENT.replace("{}", r#"{"clientMetadata": {"rate": 1.10}}"#);
        let agent = create(&sent).unwrap();
        let agents = sandbox.agents().sure();
        assert_eq!(agents, [agent]);
        assert!(agents[0].sent.to_json().as_str().contains("1.10"));

        sandbox.insert_deal(r#"{"id": "a/b ü"}"#).unwrap();
        assert_eq!(client.deals().retrieve("a/b ü").send().unwrap().id, "a/b ü");
        let no_deal = sandbox.insert_deal(r#"{"id": 1}"#).unwrap_err();
        assert!(no_deal.to_string().contains("/id"), "{no_deal}");

        let fault = Fault::status(503)
            .retry_after("0")
            .path("/v1/deals/{id}")
            .times(2);
        sandbox.fail_next(fault.clone()).unwrap();
        let pending = &sandbox.faults().sure()[0];
        assert_eq!(
            (pending.id, pending.matched, &pending.fault),
            (1, 0, &fault)
        );
        let odd = sandbox
            .fail_next(Fault::status(503).path("/v1/deal/{id}"))
            .unwrap_err();
        assert!(
            odd.to_string().starts_with("path: expected one of "),
            "{odd}"
        );
        assert_eq!(client.deals().retrieve("d_1").send().unwrap().id, "d_1");
        sandbox.fail_next(Fault::garbage().forever()).unwrap();
        sandbox.clear_faults().sure();
        assert!(sandbox.faults().sure().is_empty());

        let requests = sandbox.requests().sure();
        let seen: Vec<_> = requests
            .iter()
            .map(|request| {
                (
                    request.number,
                    request.path.as_str(),
                    request.status.unwrap().as_u16(),
                )
            })
            .collect();
        assert_eq!(
            seen,
            [
                (1, "/v1/agents", 201),
                (2, "/v1/deals/a%2Fb%20%C3%BC", 200),
                (3, "/v1/deals/d_1", 503),
                (4, "/v1/deals/d_1", 503),
                (5, "/v1/deals/d_1", 200)
            ]
        );
        let created = &requests[0];
        assert_eq!(
            (&created.body, created.body_bytes),
            (&sent.clone().into(), sent.len() as u64)
        );
        assert_eq!(created.headers["x-service-key"], "<redacted>");
        assert!(created.at <= DateTime::<Utc>::from(SystemTime::now()) && created.query.is_none());
        assert!(!created.request_id.is_empty() && !created.duration.is_zero());
        assert!(
            requests[2]
                .fault
                .as_deref()
                .unwrap()
                .starts_with("status=503")
        );
        sandbox.clear_requests().sure();
        assert!(sandbox.requests().sure().is_empty());

        for _ in 0..150 {
            create(AGENT).unwrap();
        }
        assert_eq!(sandbox.agents().sure().len(), 151);
        sandbox.reset().sure();
        assert!(sandbox.agents().sure().is_empty());
        assert!(
            client
                .deals()
                .retrieve("a/b ü")
                .send()
                .unwrap_err()
                .is_not_found()
        );
        sandbox
    }};
}

#[test]
fn a_world_elsewhere_does_what_a_sandbox_does() {
    face!(Sandbox::builder().start().unwrap());
    let server = Running::quiet(&["--worlds", "test-*"]);
    let attach = || Sandbox::attach(format!("http://{}", server.address));
    let sandbox = face!(attach().start().unwrap());

    let wanted = Wanted::requests(2).path("/v1/deals/{id}").status(404);
    let missing = || {
        let client = client(&sandbox.url(), sandbox.service_key());
        let _ = client.deals().retrieve("none").send();
    };
    let found = thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(missing);
        }
        sandbox.wait_for(&wanted, Duration::from_secs(30)).unwrap()
    });
    assert_eq!(found[1].path, "/v1/deals/none");
    let more = Wanted::requests(9).method("GET");
    let too_few = sandbox
        .wait_for(&more, Duration::ZERO)
        .unwrap_err()
        .to_string();
    assert!(too_few.contains("3 × GET /v1/deals/{id} 404"), "{too_few}");

    let attached = attach()
        .reading(Reading::Ok)
        .reading(Reading::Sparse)
        .strict(true)
        .start();
    let other = attached.unwrap();
    let there = client(&other.url(), other.service_key());
    let mistake = AGENT.replace("profile", r#"phnoe":"1","profile"#);
    let post = |json: &str| {
        there
            .agents()
            .create_json(Json::parse(json).unwrap())
            .with_response()
            .send()
    };
    assert_eq!(post(AGENT).unwrap().status(), 200);
    assert!(post(&mistake).is_err());

    // What has ended is forgotten.
    let key = other.service_key().to_owned();
    drop(other);
    let again = attach().service_key(&key).start().unwrap();
    assert_eq!(
        (again.service_key(), again.agents().unwrap().len()),
        (key.as_str(), 0)
    );
}

#[test]
fn what_cannot_be_attached_to_says_why() {
    let server = Sandbox::builder()
        .service_key("hunter2")
        .worlds("test-*")
        .max_worlds(1)
        .start()
        .unwrap();
    let begin = |url: &str, token: &str, key: Option<&str>| {
        let mut attach = Sandbox::attach(url);
        if !token.is_empty() {
            attach = attach.admin_token(token);
        }
        if let Some(key) = key {
            attach = attach.service_key(key);
        }
        attach.start()
    };
    let url = server.url();
    let _one: AttachedSandbox = begin(&url, "hunter2", None).unwrap();
    let plain = Sandbox::builder().start().unwrap();
    let gone = Sandbox::builder().start().unwrap().url();
    for (url, token, key, text) in [
        (url.as_str(), "hunter2", None, "507"),
        (&url, "", None, "x-sandbox-token"),
        (&url, "wrong", None, "x-sandbox-token"),
        (&url, "two words", None, "visible ASCII"),
        (&url, "hunter2", Some("other"), "no world for that key"),
        (&plain.url(), "", None, "--worlds"),
        (&gone, "", None, "cannot be reached"),
        ("ftp://localhost", "", None, "http://"),
        ("http://user:hunter2@localhost", "", None, "http://"),
        ("localhost:8080", "", None, "http://"),
    ] {
        let error = begin(url, token, key).unwrap_err();
        let said = format!("{error} {error:?}");
        assert!(said.contains(text) && !said.contains("hunter2"), "{said}");
    }
    let told = begin(&server.url(), "hunter2", None).unwrap_err();
    assert!(matches!(told, AttachError::Refused { status, .. } if status == 507));
}
