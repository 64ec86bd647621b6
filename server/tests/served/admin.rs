//! The control interface under /__sandbox/: its operations and its access control.

use std::{
    io::{Read as _, Write as _},
    net::SocketAddr,
    thread,
};

use crate::support::{
    self, AGENT, KEY, Received, create, create_agent, get_deal, retrieve_deal, send,
};
use dealkit_server::{Fault, Sandbox, SandboxBuilder};
use serde_json::{Value, json};

/// Sends a request from this machine.
fn ask(sandbox: &Sandbox, method: &str, path: &str, headers: &str, body: &str) -> Received {
    let host = match format!("\n{headers}").contains("\nhost:") {
        true => "",
        false => "host: localhost\r\n",
    };
    let length = body.len();
    let request = format!(
        "{method} /__sandbox/{path} HTTP/1.1\r\n{host}{headers}content-length: {length}\r\n\r\n{body}"
    );
    let response = send(sandbox, &request);
    let mut names = response.headers.keys();
    assert!(
        !names.any(|name| name.as_str().starts_with("access-control")),
        "there is no CORS"
    );
    response
}

const JSON: &str = "content-type: application/json\r\n";

fn get(sandbox: &Sandbox, path: &str) -> Value {
    let response = ask(sandbox, "GET", path, "", "");
    assert_eq!(response.status, 200, "{path}");
    response.check_invariants(path, false);
    assert_eq!(response.header("cache-control"), Some("no-store"));
    assert_eq!(response.header("x-content-type-options"), Some("nosniff"));
    serde_json::from_slice(&response.body).unwrap()
}

fn delete(sandbox: &Sandbox, path: &str) -> u16 {
    ask(sandbox, "DELETE", path, "", "").status
}

fn write(sandbox: &Sandbox, method: &str, path: &str, body: &str) -> Received {
    let response = ask(sandbox, method, path, JSON, body);
    response.check_invariants(path, false);
    response
}

/// Asserts that the response is a rejection with this status and detail.
fn assert_rejected_with(response: &Received, status: u16, detail: &str) {
    let actual = response.json()["detail"].as_str().unwrap().to_owned();
    assert_eq!((response.status, actual.as_str()), (status, detail));
}

fn start() -> Sandbox {
    Sandbox::builder().start().unwrap()
}

#[test]
fn health_and_the_contract_are_public() {
    for admin in [true, false] {
        let sandbox = Sandbox::builder().admin(admin).start().unwrap();
        assert_eq!(get(&sandbox, "health"), json!({"status": "ok"}));
        let openapi: Value =
            serde_json::from_str(support::vectors::contract("openapi.json")).unwrap();
        assert_eq!(get(&sandbox, "openapi.json"), openapi);
    }
}

#[test]
fn the_journal_can_be_read_filtered_and_cleared() {
    let sandbox = start();
    create(&sandbox, AGENT);
    retrieve_deal(&sandbox, "d_1");
    retrieve_deal(&sandbox, "none?x=y");
    let all = get(&sandbox, "requests");
    let created = &all["requests"][0];
    for (name, value) in [
        ("number", json!(1)),
        ("method", json!("POST")),
        ("path", json!("/v1/agents")),
        ("query", Value::Null),
        ("status", json!(201)),
        ("body", json!(AGENT)),
        ("body_bytes", json!(AGENT.len())),
        ("fault", Value::Null),
    ] {
        assert_eq!(created[name], value, "{name}");
    }
    assert!(created["duration"].as_f64().unwrap() < 20.0);
    assert!(created["at"].as_str().unwrap().ends_with('Z'));
    assert!(!created["request_id"].as_str().unwrap().is_empty());
    assert_eq!(created["headers"]["x-service-key"], "<redacted>");
    assert_eq!(all["requests"][2]["query"], "x=y");

    for (filter, numbers, next) in [
        ("", vec![1, 2, 3], Value::Null),
        ("method=get", vec![2, 3], Value::Null),
        ("path=%2Fv1%2Fdeals%2Fd_1", vec![2], Value::Null),
        ("path=/v1/deals/{id}", vec![2, 3], Value::Null),
        ("status=404&method=", vec![3], Value::Null),
        ("limit=2", vec![1, 2], json!(2)),
        ("limit=2&after=2", vec![3], Value::Null),
    ] {
        let page = get(&sandbox, &format!("requests?{filter}"));
        let found = page["requests"].as_array().unwrap().iter();
        let found: Vec<u64> = found
            .map(|request| request["number"].as_u64().unwrap())
            .collect();
        assert_eq!((found, &page["next"]), (numbers, &next), "{filter}");
    }
    for (query, detail) in [
        (
            "colour=red",
            "The parameters are namespace, limit, after, wait, method, path, status, held and count.",
        ),
        ("status=ok", "status: expected a number from 100 to 999"),
        ("limit=0", "limit: expected a number from 1 to 1000"),
        ("count=1001", "count: expected a number from 1 to 1000"),
        ("wait=NaN", "wait: expected a number from 0 to 300"),
        ("wait=301", "wait: expected a number from 0 to 300"),
    ] {
        let rejected = ask(&sandbox, "GET", &format!("requests?{query}"), "", "");
        assert_rejected_with(&rejected, 400, detail);
    }
    // Requests to the control interface are not in the journal.
    assert_eq!(sandbox.requests().len(), 3);
    assert_eq!(delete(&sandbox, "requests"), 204);
    assert!(sandbox.requests().is_empty());
}

/// Returns the numbers of the requests on a page, and its `timed_out`.
fn numbers_and_timeout(page: &Value) -> (Vec<u64>, bool) {
    let numbers = page["requests"].as_array().unwrap().iter();
    let numbers = numbers.map(|request| request["number"].as_u64().unwrap());
    (numbers.collect(), page["timed_out"].as_bool().unwrap())
}

#[test]
fn a_call_can_wait_for_requests() {
    let sandbox = start();
    retrieve_deal(&sandbox, "d_1");
    for (query, expected) in [
        ("wait=0", (vec![1], false)),
        ("wait=60&path=/v1/deals/{id}&status=200", (vec![1], false)),
        ("wait=0.01&count=2", (vec![1], true)),
        ("wait=0.01&after=1", (vec![], true)),
        ("wait=0.01&method=POST", (vec![], true)),
        ("wait=0.01&status=404", (vec![], true)),
    ] {
        assert_eq!(
            numbers_and_timeout(&get(&sandbox, &format!("requests?{query}"))),
            expected,
            "{query}"
        );
    }
    // More waiting requests than the server has threads. It still responds to other requests.
    thread::scope(|scope| {
        let wait = || numbers_and_timeout(&get(&sandbox, "requests?wait=60&method=post&count=2"));
        let waiting: Vec<_> = (0..20).map(|_| scope.spawn(wait)).collect();
        sandbox
            .fail_next(Fault::process_then_reset().method("POST"))
            .unwrap();
        let mut stream = support::connect(&sandbox);
        stream.write_all(create_agent(AGENT).as_bytes()).unwrap();
        assert!(stream.read(&mut [0]).is_err(), "it is reset");
        create(&sandbox, AGENT);
        for waited in waiting {
            assert_eq!(waited.join().unwrap(), (vec![2, 3], false));
        }
    });
}

#[test]
fn a_stopping_server_ends_waiting_calls() {
    let sandbox = start();
    let mut stream = support::connect(&sandbox);
    // Sent together, so that the second request has arrived when the first gets its response.
    let waiting = "GET /__sandbox/requests?after=1&wait=300 HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let requests = get_deal("d_1") + waiting;
    stream.write_all(requests.as_bytes()).unwrap();
    support::read_response(&mut stream, false);
    sandbox.shutdown();
    let page = support::read_response(&mut stream, false).json();
    assert_eq!(
        page,
        json!({"requests": [], "next": null, "timed_out": true})
    );
}

/// The journal contains the request unchanged, except for secrets.
#[test]
fn the_journal_contains_no_secrets() {
    const SECRETS: [&str; 4] = [
        "x-service-key",
        "authorization",
        "cookie",
        "x-sandbox-token",
    ];
    let builder = Sandbox::builder().service_key("hunter2");
    let sandbox = builder.start().unwrap();
    // The server rejects the method, but reads the body.
    sandbox.fail_next(Fault::status(503)).unwrap();
    let secrets = SECRETS.map(|name| format!("{name}: hunter2\r\n")).concat();
    let request = format!(
        "POST /v1/deals/it's?a=b?c HTTP/1.1\r\nhost: h:1\r\n{secrets}x-tenant: 7\r\nx-tenant: '$b'\r\n\
         content-length: 13\r\n\r\n{{\"a\": \"it's\"}}"
    );
    send(&sandbox, &request);
    let token = "x-sandbox-token: hunter2\r\n";
    let page = ask(&sandbox, "GET", "requests", token, "").json();
    let shown = &page["requests"][0];
    assert_eq!(
        (&shown["path"], &shown["path_template"], &shown["query"]),
        (
            &json!("/v1/deals/it's"),
            &json!("/v1/deals/{id}"),
            &json!("a=b?c")
        )
    );
    assert_eq!(shown["headers"]["x-tenant"], json!(["7", "'$b'"]));
    assert_eq!(shown["body"], json!(r#"{"a": "it's"}"#));
    let [request] = sandbox.requests().try_into().unwrap();
    let is_redacted = |name: &&str| request.headers[*name] == "<redacted>";
    assert!(SECRETS.iter().all(is_redacted));
    let debug = format!("{request:?}");
    assert!(
        !debug.contains("tenant") && !debug.contains("hunter2"),
        "{debug}"
    );
}

#[test]
fn the_journal_is_bounded() {
    const MIB: usize = 1 << 20;
    let sandbox = Sandbox::builder().max_body_bytes(2 * MIB).start().unwrap();
    let mut stream = support::connect(&sandbox);
    for number in 0..1_010 {
        stream
            .write_all(get_deal(&number.to_string()).as_bytes())
            .unwrap();
        support::read_response(&mut stream, false);
    }
    let requests = sandbox.requests();
    let journal = (requests.len(), requests[0].path.as_str());
    assert_eq!(journal, (1_000, "/v1/deals/10"));
    for _ in 0..20 {
        create(&sandbox, &" ".repeat(MIB + 5));
    }
    let requests = sandbox.requests();
    let first = &requests[0];
    assert_eq!((first.body.len(), first.body_bytes), (MIB, MIB as u64 + 5));
    assert!((10..=16).contains(&requests.len()), "{}", requests.len());
}

#[test]
fn faults_can_be_added_listed_and_removed() {
    let sandbox = start();
    let fault = r#"{"status": 503, "retry_after": 1, "times": null, "path": "/v1/deals/{id}"}"#;
    let added = write(&sandbox, "POST", "faults", fault);
    assert_eq!((added.status, &added.body[..]), (201, &br#"{"id":1}"#[..]));
    // Numbers keep all digits.
    let body = r#""body":{"a":1.10e400}"#;
    write(
        &sandbox,
        "POST",
        "faults",
        &format!("{{\"status\": 500, {body}}}"),
    );
    assert_eq!(retrieve_deal(&sandbox, "d_1").status, 503);
    let faults = get(&sandbox, "faults?limit=1");
    assert_eq!(
        faults["faults"][0],
        json!({"id": 1, "status": 503, "retry_after": 1, "times": null, "path": "/v1/deals/{id}", "matched": 1, "applied": 1})
    );
    let listed = ask(&sandbox, "GET", "faults", "", "").body;
    assert!(String::from_utf8_lossy(&listed).contains(body));
    let removed = ["faults/1", "faults/1", "faults/x", "faults"].map(|path| delete(&sandbox, path));
    assert_eq!(removed, [204, 404, 404, 204]);
    assert_eq!(get(&sandbox, "faults"), json!({"faults": [], "next": null}));
    for (body, detail) in [
        (
            r#"{"status": 5}"#,
            "status: expected a status from 200 to 599",
        ),
        (
            r#"{"status": 500, "status": 501}"#,
            "the fault is not strict JSON: a key that this object already has at line 1 column 17",
        ),
        ("5", "the fault must be an object, not a number"),
    ] {
        assert_rejected_with(&write(&sandbox, "POST", "faults", body), 400, detail);
    }
}

#[test]
fn agents_include_their_requests() {
    let sandbox = start();
    let more = r#"{"phone":"+15555550100","image_url":"https://e.com/a.png","odd":1.10, "#;
    let sent = AGENT.replacen('{', more, 1);
    for _ in 0..3 {
        assert_eq!(create(&sandbox, &sent).status, 201);
    }
    let page = ask(&sandbox, "GET", "agents?limit=2", "", "").body;
    let text = std::str::from_utf8(&page).unwrap();
    assert!(text.contains(&format!(r#""sent":{sent}"#)), "{text}");
    for (query, last, next) in [
        ("limit=2", "a_2", json!(2)),
        ("after=2", "a_3", Value::Null),
    ] {
        let page = get(&sandbox, &format!("agents?{query}"));
        let agents = page["agents"].as_array().unwrap();
        assert_eq!(agents.last().unwrap()["agent"]["id"], last);
        assert_eq!(page["next"], next);
    }
    let agent = &sandbox.agents()[0];
    assert_eq!(agent.sent.phone(), Some("+15555550100"));
    assert_eq!(agent.sent.image_url(), Some("https://e.com/a.png"));
    assert_eq!(agent.email, "ada@example.com");
}

#[test]
fn deals_can_be_listed_and_replaced() {
    let deals = [
        r#"{"id": "b", "x": 1.10}"#,
        r#"{"id":"a"}"#,
        r#"{"id":"c/d"}"#,
    ];
    let sandbox = Sandbox::builder().deals(deals).start().unwrap();
    let text = r#"{"id": "new/1", "application": {"requested_amount": 10.10}}"#;
    assert_eq!(write(&sandbox, "PUT", "deals/new%2F1", text).status, 204);
    assert_eq!(retrieve_deal(&sandbox, "new%2F1").body, text);
    for (path, body) in [
        (
            "deals?limit=2",
            r#"{"deals":[{"id":"a"},{"id": "b", "x": 1.10}],"next":"b"}"#,
        ),
        (
            "deals?limit=1&after=b",
            r#"{"deals":[{"id":"c/d"}],"next":"c/d"}"#,
        ),
        ("deals/c%2Fd", r#"{"id":"c/d"}"#),
    ] {
        assert_eq!(ask(&sandbox, "GET", path, "", "").body, body, "{path}");
    }
    assert_eq!(ask(&sandbox, "GET", "deals/none", "", "").status, 404);
    for (body, detail) in [
        (
            r#"{"id": "other"}"#,
            "the deal: /id: expected the id that the path ends with",
        ),
        (
            r#"{"id": 5}"#,
            "the deal: /id: expected a string, found a number",
        ),
        (
            "{",
            "the deal: is not strict JSON: the text ends early at line 1 column 2",
        ),
    ] {
        assert_rejected_with(&write(&sandbox, "PUT", "deals/new%2F1", body), 400, detail);
    }
}

/// `curl -X POST` without a body sends no Content-Type.
#[test]
fn a_reset_needs_no_body() {
    let sandbox = start();
    for length in ["", "content-length: 0\r\n"] {
        create(&sandbox, AGENT);
        let request = format!("POST /__sandbox/reset HTTP/1.1\r\nhost: localhost\r\n{length}\r\n");
        let response = send(&sandbox, &request);
        response.check_invariants("reset", false);
        assert_eq!(response.status, 204);
        assert!(sandbox.agents().is_empty());
    }
    // A body needs a Content-Type.
    create(&sandbox, AGENT);
    let form = "content-type: application/x-www-form-urlencoded\r\n";
    assert_eq!(ask(&sandbox, "POST", "reset", form, "").status, 415);
    let chunked = "POST /__sandbox/reset HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n";
    assert_eq!(send(&sandbox, chunked).status, 415);
    assert!(!sandbox.agents().is_empty());
}

// ---- access control -----------------------------------------------------------------------------------------------

/// All guarded operations, with valid bodies.
const GUARDED: [(&str, &str); 12] = [
    ("GET", "requests"),
    ("DELETE", "requests"),
    ("GET", "faults"),
    ("POST", "faults"),
    ("DELETE", "faults"),
    ("DELETE", "faults/1"),
    ("GET", "agents"),
    ("GET", "deals"),
    ("GET", "deals/d_1"),
    ("PUT", "deals/d_1"),
    ("PUT", "keys"),
    ("POST", "reset"),
];

/// Asserts that all guarded operations reject these headers with this status, and reveal no secret.
fn assert_all_rejected(sandbox: &Sandbox, headers: &str, status: u16) {
    for (method, path) in GUARDED {
        let headers = format!("{JSON}{headers}");
        let response = ask(sandbox, method, path, &headers, r#"{"status": 503}"#);
        assert_eq!(response.status, status, "{method} {path} with {headers:?}");
        let shown = String::from_utf8_lossy(&response.body).into_owned();
        assert!(
            !shown.contains("hunter2") && !shown.contains("own-key"),
            "{shown}"
        );
        let challenge = (status == 401).then_some("SandboxToken realm=\"dealkit\"");
        assert_eq!(response.header("www-authenticate"), challenge);
    }
    for path in ["health", "openapi.json"] {
        assert_eq!(ask(sandbox, "GET", path, headers, "").status, 200, "{path}");
    }
}

#[test]
fn pages_of_other_origins_are_rejected() {
    let sandbox = start();
    create(&sandbox, AGENT);
    for headers in [
        // DNS rebinding: a foreign host name that resolves to this machine.
        "host: evil.example\r\n",
        "host: localhost.evil.example\r\n",
        "host: 192.0.2.1\r\n",
        "host: 127.0.0.1.evil.example:8080\r\n",
        "host: [::1].evil.example\r\n",
        "host: [::1].evil.example:8080\r\n",
        "host: [2001:db8::1]\r\n",
        "host: [localhost]:8080\r\n",
        // A page of another origin, of another port of this machine, and of an opaque origin.
        "origin: https://evil.example\r\n",
        "origin: http://localhost:3000\r\n",
        "origin: null\r\n",
        "origin: http://localhost\r\norigin: http://evil.example\r\n",
        "sec-fetch-site: cross-site\r\n",
        "sec-fetch-site: same-site\r\n",
    ] {
        assert_all_rejected(&sandbox, headers, 403);
    }
    // CORS is not supported: a preflight gets no Access-Control headers.
    let preflight = "origin: https://evil.example\r\naccess-control-request-method: DELETE\r\n";
    let response = ask(&sandbox, "OPTIONS", "requests", preflight, "");
    assert_eq!(response.status, 403);
    // The rejected requests have changed nothing.
    assert!(!sandbox.agents().is_empty() && !sandbox.requests().is_empty());
    assert_eq!(retrieve_deal(&sandbox, "d_1").status, 200);
    for headers in [
        "",
        "host: 127.0.0.1:9\r\n",
        "host: 127.0.0.2\r\n",
        "host: [::1]\r\n",
        "host: [::1]:9\r\n",
        "host: LOCALHOST:9\r\norigin: http://localhost:9\r\nsec-fetch-site: same-origin\r\n",
        "sec-fetch-site: none\r\n",
    ] {
        let response = ask(&sandbox, "GET", "requests", headers, "");
        assert_eq!(response.status, 200, "{headers}");
    }
}

/// Writes require JSON, which a form on another origin's page cannot send.
#[test]
fn writes_require_json() {
    let sandbox = start();
    for media_type in [
        "",
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
    ] {
        let writes = GUARDED
            .iter()
            .filter(|(method, _)| matches!(*method, "POST" | "PUT"));
        for (method, path) in writes {
            let headers = match media_type {
                "" => String::new(),
                _ => format!("content-type: {media_type}\r\n"),
            };
            let response = ask(&sandbox, method, path, &headers, r#"{"status": 503}"#);
            assert_eq!(response.status, 415, "{method} {path} {headers}");
        }
    }
    assert_eq!(retrieve_deal(&sandbox, "d_1").status, 200);
}

fn with_key(builder: SandboxBuilder) -> Sandbox {
    builder.service_key("own-key").start().unwrap()
}

#[test]
fn a_token_is_required() {
    let everywhere = || Sandbox::builder().listen(SocketAddr::from(([0, 0, 0, 0], 0)));
    let own = with_key(Sandbox::builder().admin_token("hunter2"));
    let reachable = with_key(everywhere().admin_token("hunter2"));
    // With a service key of its own, the server protects its journal from other users of this machine.
    let chosen = with_key(Sandbox::builder());
    for (sandbox, token, wrong) in [
        (&own, "hunter2", "x-sandbox-token: own-key\r\n"),
        (&own, "hunter2", "x-sandbox-token: hunter\r\n"),
        (
            &own,
            "hunter2",
            "x-sandbox-token: hunter2\r\nx-sandbox-token: hunter2\r\n",
        ),
        (&own, "hunter2", "x-service-key: hunter2\r\n"),
        (&reachable, "hunter2", "x-sandbox-token: own-key\r\n"),
        (&chosen, "own-key", "x-sandbox-token: sandbox-key\r\n"),
    ] {
        assert_all_rejected(sandbox, wrong, 401);
        assert_all_rejected(sandbox, "", 401);
        // With the token, any host is allowed, because foreign pages do not know the token.
        let headers = format!("x-sandbox-token: {token}\r\nhost: sandbox.example\r\n");
        assert_eq!(ask(sandbox, "GET", "requests", &headers, "").status, 200);
        let cross = format!("{headers}origin: https://evil.example\r\n");
        assert_eq!(ask(sandbox, "GET", "requests", &cross, "").status, 403);
    }
    // If other machines can reach the server, the interface is closed without a token.
    let closed = with_key(everywhere());
    assert_all_rejected(&closed, "x-sandbox-token: own-key\r\n", 403);
    let rejected = ask(&closed, "GET", "requests", "", "").json();
    assert!(
        rejected["detail"]
            .as_str()
            .unwrap()
            .contains("--admin-token")
    );
    let error = Sandbox::builder().admin_token("two words").start();
    let error = error.unwrap_err().to_string();
    assert!(
        error.starts_with("the sandbox token must be 1 to 1,024"),
        "{error}"
    );
}

#[test]
fn the_interface_can_be_turned_off() {
    let sandbox = Sandbox::builder().admin(false).start().unwrap();
    assert_all_rejected(&sandbox, "", 404);
}

/// Pages of large entries contain fewer entries.
#[test]
fn pages_are_bounded_in_bytes() {
    let sandbox = start();
    let large = "x".repeat(700_000);
    let agent = AGENT.replace("{}", &format!(r#"{{"tier":"{large}"}}"#));
    for number in 0..3 {
        let created = create(&sandbox, &agent);
        assert_eq!(created.status, 201);
        let deal = format!(r#"{{"id":"e_{number}","status":"{large}"}}"#);
        sandbox.insert_deal(deal).unwrap();
        let fault = Fault::status(500).body(large.clone());
        sandbox.fail_next(fault.after(100)).unwrap();
    }
    for (list, length) in [("agents", 3), ("deals", 6), ("requests", 3), ("faults", 3)] {
        let mut after = String::new();
        let mut listed = 0;
        for page in 1.. {
            let query = format!("{list}?limit=1000{after}");
            let response = get(&sandbox, &query);
            listed += response[list].as_array().unwrap().len();
            after = match &response["next"] {
                Value::Null => {
                    assert!(page >= 3, "{list}: {page}");
                    break;
                }
                Value::String(next) => format!("&after={next}"),
                next => format!("&after={next}"),
            };
        }
        assert_eq!(listed, length, "{list}");
    }
}

#[test]
fn accepted_keys_last_until_a_reset() {
    let sandbox = start();
    let status = |key: &str| {
        let request = get_deal("d_1").replace(KEY, key);
        send(&sandbox, &request).status
    };
    let accepted = |keys: [&str; 3]| keys.map(|key| status(key) == 200);
    let all = [KEY, "next", "last"];
    assert_eq!(
        write(&sandbox, "PUT", "keys", &json!([KEY, "next"]).to_string()).status,
        204
    );
    assert_eq!(accepted(all), [true, true, false]);
    sandbox.accept_keys(["last"]).unwrap();
    assert_eq!(accepted(all), [false, false, true]);
    for wrong in [
        "",
        "5",
        r#""c4n4ry""#,
        r#"["c4n4ry", 5]"#,
        r#"["c4n4ry", "c4n4ry c4n4ry"]"#,
    ] {
        let response = write(&sandbox, "PUT", "keys", wrong);
        assert_eq!(response.status, 400, "{wrong}");
        assert!(!String::from_utf8_lossy(&response.body).contains("c4n4ry"));
    }
    sandbox.accept_keys(["fine", "not fine"]).unwrap_err();
    assert_eq!(accepted(all), [false, false, true]);
    sandbox.reset();
    assert_eq!(accepted(all), [true, false, false]);
}

#[test]
fn unknown_methods_get_the_allowed_ones() {
    let method = ask(&start(), "PUT", "requests", JSON, "");
    assert_eq!(
        (method.status, method.header("allow")),
        (405, Some("GET, HEAD, DELETE, OPTIONS"))
    );
}
