//! The interface under /__sandbox/: what it shows, what it changes, and whom it refuses.

use std::io::Write as _;

use crate::support::{self, AGENT, KEY, Received, create_agent, get_deal, send};
use dealkit_server::{Fault, Sandbox, SandboxBuilder};
use serde_json::{Value, json};

/// A request from somebody on this machine.
fn ask(sandbox: &Sandbox, method: &str, path: &str, headers: &str, body: &str) -> Received {
    let host = if format!("\n{headers}").contains("\nhost:") {
        ""
    } else {
        "host: localhost\r\n"
    };
    let length = body.len();
    let request = format!(
        "{method} /__sandbox/{path} HTTP/1.1\r\n{host}{headers}content-length: {length}\r\n\r\n{body}"
    );
    send(sandbox.address(), request.as_bytes())
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

fn write(sandbox: &Sandbox, method: &str, path: &str, body: &str) -> Received {
    let response = ask(sandbox, method, path, JSON, body);
    response.check_invariants(path, false);
    response
}

#[test]
fn health_and_the_contract_are_there() {
    for admin in [true, false] {
        let sandbox = Sandbox::builder().admin(admin).start().unwrap();
        assert_eq!(get(&sandbox, "health"), json!({"status": "ok"}));
        let openapi: Value =
            serde_json::from_str(support::vectors::contract("openapi.json")).unwrap();
        assert_eq!(get(&sandbox, "openapi.json"), openapi);
    }
}

#[test]
fn the_journal_is_read_filtered_and_cleared() {
    let sandbox = Sandbox::builder().start().unwrap();
    send(sandbox.address(), create_agent(AGENT).as_bytes());
    send(sandbox.address(), get_deal("d_1").as_bytes());
    send(
        sandbox.address(),
        get_deal("none").replace(" HTTP", "?x=y HTTP").as_bytes(),
    );
    let all = get(&sandbox, "requests");
    assert_eq!(all["next"], Value::Null);
    let [created, retrieved, missed] = &all["requests"].as_array().unwrap()[..] else {
        panic!("{all}");
    };
    assert_eq!(
        (&created["method"], &created["path"]),
        (&json!("POST"), &json!("/v1/agents"))
    );
    assert_eq!(
        (&created["status"], &created["body"]),
        (&json!(201), &json!(AGENT))
    );
    assert_eq!(created["body_bytes"], AGENT.len());
    assert!(created["duration"].as_f64().unwrap() < 20.0);
    assert!(created["at"].as_str().unwrap().ends_with('Z'));
    let key = json!(["x-service-key", "<redacted>"]);
    assert!(
        created["headers"].as_array().unwrap().contains(&key),
        "{created}"
    );
    let curl = created["curl"].as_str().unwrap();
    assert!(
        curl.starts_with(
            "curl --path-as-is -i -X 'POST' 'http://h/v1/agents' -H 'x-service-key: sandbox-key'"
        ),
        "{curl}"
    );
    assert!(!retrieved["request_id"].as_str().unwrap().is_empty() && retrieved["fault"].is_null());
    assert_eq!(
        (&missed["query"], &missed["number"]),
        (&json!("x=y"), &json!(3))
    );

    let numbers = |filter: &str| {
        let page = get(&sandbox, &format!("requests?{filter}"));
        let numbers: Vec<u64> = page["requests"]
            .as_array()
            .unwrap()
            .iter()
            .map(|seen| seen["number"].as_u64().unwrap())
            .collect();
        (numbers, page["next"].clone())
    };
    assert_eq!(numbers("method=get").0, [2, 3]);
    assert_eq!(numbers("path=%2Fv1%2Fdeals%2Fd_1").0, [2]);
    assert_eq!(numbers("status=404&method=").0, [3]);
    assert_eq!(numbers("limit=2"), (vec![1, 2], json!(2)));
    assert_eq!(numbers("limit=2&after=2"), (vec![3], Value::Null));
    for (query, detail) in [
        (
            "colour=red",
            "This path takes the parameters method, path, status, after, limit.",
        ),
        ("status=ok", "status: expected a whole number"),
        ("limit=0", "limit: expected a number from 1 to 1000"),
    ] {
        let refused = ask(&sandbox, "GET", &format!("requests?{query}"), "", "");
        assert_eq!(
            (refused.status, &refused.json()["detail"]),
            (400, &json!(detail))
        );
    }
    // The requests made here are not in it.
    assert_eq!(sandbox.requests().len(), 3);
    assert_eq!(ask(&sandbox, "DELETE", "requests", "", "").status, 204);
    assert!(sandbox.requests().is_empty());
}

/// Everything but secrets is kept as it was sent, and the command repeats it in a shell.
#[test]
fn the_journal_keeps_no_secrets() {
    let request = |key: &str| {
        format!(
            "POST /v1/deals/it's?a=b?c HTTP/1.1\r\nhost: h:1\r\nx-service-key: {key}\r\nauthorization: Bearer {key}\r\n\
             cookie: {key}\r\nx-sandbox-token: {key}\r\nx-tenant: 7\r\nx-tenant: '$b'\r\nsec-fetch-site: none\r\n\
             content-length: 13\r\n\r\n{{\"a\": \"it's\"}}"
        )
    };
    for (key, shown) in [
        (KEY, "-H 'x-service-key: sandbox-key'"),
        ("hunter2", "-H \"x-service-key: $DEALKIT_SERVICE_KEY\""),
    ] {
        let builder = Sandbox::builder().service_key(key).admin_token("token");
        let sandbox = builder.start().unwrap();
        // The method is refused, and the body read all the same.
        sandbox.fail_next(Fault::status(503)).unwrap();
        send(sandbox.address(), request(key).as_bytes());
        let token = "x-sandbox-token: token\r\n";
        let page = ask(&sandbox, "GET", "requests", token, "");
        let page: Value = serde_json::from_slice(&page.body).unwrap();
        let expected = format!(
            r#"curl --path-as-is -i -X 'POST' 'http://h:1/v1/deals/it'\''s?a=b?c' {shown} -H 'x-tenant: 7' -H 'x-tenant: '\''$b'\''' --data-raw '{{"a": "it'\''s"}}'"#
        );
        assert_eq!(page["requests"][0]["curl"], expected);
        let [seen] = sandbox.requests().try_into().unwrap();
        for name in [
            "x-service-key",
            "authorization",
            "cookie",
            "x-sandbox-token",
        ] {
            assert_eq!(seen.headers[name], "<redacted>", "{name}");
        }
        let debug = format!("{seen:?}");
        assert!(
            !debug.contains("tenant") && !debug.contains("hunter2"),
            "{debug}"
        );
    }
    // A body that is not text cannot be repeated, and HEAD has a form of its own.
    let sandbox = Sandbox::builder().start().unwrap();
    let binary = create_agent("ab").replace("ab", "\u{e9}").into_bytes();
    let binary: Vec<u8> = binary
        .iter()
        .map(|byte| if *byte == 0xa9 { 0xff } else { *byte })
        .collect();
    send(sandbox.address(), &binary);
    send(
        sandbox.address(),
        get_deal("d_1").replace("GET", "HEAD").as_bytes(),
    );
    let page = get(&sandbox, "requests");
    assert_eq!(page["requests"][0]["curl"], Value::Null);
    let curl = page["requests"][1]["curl"].as_str().unwrap();
    assert!(
        curl.starts_with("curl --path-as-is --head 'http://h/v1/"),
        "{curl}"
    );
}

#[test]
fn the_latest_requests_are_kept_within_bounds() {
    const MIB: usize = 1 << 20;
    let sandbox = Sandbox::builder().max_body_bytes(2 * MIB).start().unwrap();
    let mut stream = support::connect(sandbox.address());
    for number in 0..1_010 {
        stream
            .write_all(get_deal(&number.to_string()).as_bytes())
            .unwrap();
        support::read_response(&mut stream, false);
    }
    let requests = sandbox.requests();
    assert_eq!(
        (requests.len(), requests[0].path.as_str()),
        (1_000, "/v1/deals/10")
    );
    for _ in 0..20 {
        send(
            sandbox.address(),
            create_agent(&" ".repeat(MIB + 5)).as_bytes(),
        );
    }
    let requests = sandbox.requests();
    let first = &requests[0];
    assert_eq!((first.body.len(), first.body_bytes), (MIB, MIB as u64 + 5));
    assert!((10..=16).contains(&requests.len()), "{}", requests.len());
}

#[test]
fn faults_are_added_listed_and_removed() {
    let sandbox = Sandbox::builder().start().unwrap();
    let added = write(
        &sandbox,
        "POST",
        "faults",
        r#"{"status": 503, "retry_after": 1, "times": null, "path": "/v1/deals/{id}"}"#,
    );
    assert_eq!((added.status, &added.body[..]), (201, &br#"{"id":1}"#[..]));
    write(&sandbox, "POST", "faults", r#"{"act_then_reset": true}"#);
    assert_eq!(
        send(sandbox.address(), get_deal("d_1").as_bytes()).status,
        503
    );
    let faults = get(&sandbox, "faults");
    assert_eq!(
        faults["faults"][0],
        json!({"id": 1, "status": 503, "retry_after": "1", "times": null, "path": "/v1/deals/{id}", "matched": 1, "played": 1})
    );
    assert_eq!(faults["faults"].as_array().unwrap().len(), 2);
    assert_eq!(ask(&sandbox, "DELETE", "faults/1", "", "").status, 204);
    assert_eq!(ask(&sandbox, "DELETE", "faults/1", "", "").status, 404);
    assert_eq!(ask(&sandbox, "DELETE", "faults/x", "", "").status, 404);
    assert_eq!(ask(&sandbox, "DELETE", "faults", "", "").status, 204);
    assert_eq!(get(&sandbox, "faults"), json!({"faults": [], "next": null}));
    for (body, detail) in [
        (
            r#"{"status": 5}"#,
            "status: expected a status from 200 to 599",
        ),
        (
            r#"{"status": 500, "status": 501}"#,
            "The body is not strict JSON: a key that this object already has at line 1 column 17",
        ),
        ("5", "expected a fault, as a JSON object"),
    ] {
        let refused = write(&sandbox, "POST", "faults", body);
        assert_eq!(
            (refused.status, &refused.json()["detail"]),
            (400, &json!(detail))
        );
    }
}

#[test]
fn agents_show_what_was_sent() {
    let sandbox = Sandbox::builder().start().unwrap();
    let sent = AGENT.replacen(
        '{',
        r#"{"phone":"+15555550100","image_url":"https://e.com/a.png","odd":1.10, "#,
        1,
    );
    for _ in 0..3 {
        assert_eq!(
            send(sandbox.address(), create_agent(&sent).as_bytes()).status,
            201
        );
    }
    let page = ask(&sandbox, "GET", "agents?limit=2", "", "");
    let text = std::str::from_utf8(&page.body).unwrap();
    assert!(text.contains(&format!(r#""sent":{sent}"#)), "{text}");
    let page: Value = serde_json::from_str(text).unwrap();
    assert_eq!(
        (&page["agents"][1]["agent"]["id"], &page["next"]),
        (&json!("a_2"), &json!("a_2"))
    );
    let rest = get(&sandbox, "agents?after=a_2");
    assert_eq!(rest["agents"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&rest["agents"][0]["agent"]["id"], &rest["next"]),
        (&json!("a_3"), &Value::Null)
    );
    assert_eq!(ask(&sandbox, "GET", "agents?after=3", "", "").status, 400);

    let agents = sandbox.agents();
    assert_eq!(
        (agents[0].sent.phone(), agents[0].sent.image_url()),
        (Some("+15555550100"), Some("https://e.com/a.png"))
    );
    assert_eq!(agents[0].email, "ada@example.com");
}

#[test]
fn deals_are_listed_put_and_removed() {
    let sandbox = Sandbox::builder()
        .deals([
            r#"{"id": "b", "x": 1.10}"#,
            r#"{"id":"a"}"#,
            r#"{"id":"c/d"}"#,
        ])
        .start()
        .unwrap();
    let page = ask(&sandbox, "GET", "deals?limit=2", "", "");
    assert_eq!(
        page.body,
        r#"{"deals":[{"id":"a"},{"id": "b", "x": 1.10}],"next":"b"}"#
    );
    let rest = ask(&sandbox, "GET", "deals?limit=2&after=b", "", "");
    assert_eq!(rest.body, r#"{"deals":[{"id":"c/d"}],"next":null}"#);
    assert_eq!(
        ask(&sandbox, "GET", "deals/c%2Fd", "", "").body,
        r#"{"id":"c/d"}"#
    );
    assert_eq!(ask(&sandbox, "GET", "deals/none", "", "").status, 404);

    let text = r#"{"id": "new/1", "application": {"requested_amount": 10.10}}"#;
    assert_eq!(write(&sandbox, "PUT", "deals/new%2F1", text).status, 204);
    assert_eq!(
        send(sandbox.address(), get_deal("new%2F1").as_bytes()).body,
        text
    );
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
        let refused = write(&sandbox, "PUT", "deals/new%2F1", body);
        assert_eq!(
            (refused.status, &refused.json()["detail"]),
            (400, &json!(detail))
        );
    }
    assert_eq!(ask(&sandbox, "DELETE", "deals/new%2F1", "", "").status, 204);
    assert_eq!(ask(&sandbox, "DELETE", "deals/new%2F1", "", "").status, 404);
    assert_eq!(
        send(sandbox.address(), get_deal("new%2F1").as_bytes()).status,
        404
    );
}

/// `curl -X POST` sends no Content-Type.
#[test]
fn a_reset_needs_no_body() {
    let sandbox = Sandbox::builder().start().unwrap();
    for length in ["", "content-length: 0\r\n"] {
        send(sandbox.address(), create_agent(AGENT).as_bytes());
        let request = format!("POST /__sandbox/reset HTTP/1.1\r\nhost: localhost\r\n{length}\r\n");
        let response = send(sandbox.address(), request.as_bytes());
        response.check_invariants("reset", false);
        assert_eq!(response.status, 204);
        assert!(sandbox.agents().is_empty());
    }
    // But not from another site's page, and never with a body that could be anything.
    send(sandbox.address(), create_agent(AGENT).as_bytes());
    for (headers, status) in [
        ("origin: https://evil.example\r\n", 403),
        ("sec-fetch-site: cross-site\r\n", 403),
        ("host: evil.example\r\n", 403),
        ("content-type: application/x-www-form-urlencoded\r\n", 415),
    ] {
        let response = ask(&sandbox, "POST", "reset", headers, "");
        assert_eq!(response.status, status, "{headers}");
    }
    let chunked = "POST /__sandbox/reset HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n";
    assert_eq!(send(sandbox.address(), chunked.as_bytes()).status, 415);
    assert!(!sandbox.agents().is_empty());
}

// ---- who may -----------------------------------------------------------------------------------------------

/// Every path with its input, except for those that are open.
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
    ("DELETE", "deals/d_1"),
    ("POST", "reset"),
];

/// With these headers, every guarded operation is refused with this status, and does nothing.
fn assert_refused(sandbox: &Sandbox, headers: &str, status: u16) {
    send(sandbox.address(), create_agent(AGENT).as_bytes());
    for (method, path) in GUARDED {
        let response = ask(
            sandbox,
            method,
            path,
            &format!("{JSON}{headers}"),
            r#"{"status": 503}"#,
        );
        response.check_invariants(path, false);
        assert_eq!(response.status, status, "{method} {path} with {headers:?}");
        assert!(
            response
                .headers
                .keys()
                .all(|name| !name.as_str().starts_with("access-control"))
        );
    }
    for path in ["health", "openapi.json"] {
        assert_eq!(ask(sandbox, "GET", path, headers, "").status, 200, "{path}");
    }
    assert!(!sandbox.agents().is_empty() && !sandbox.requests().is_empty());
    assert_eq!(
        send(sandbox.address(), get_deal("d_1").as_bytes()).status,
        200
    );
}

#[test]
fn pages_of_others_are_refused() {
    let sandbox = Sandbox::builder().start().unwrap();
    for headers in [
        // A name that somebody made resolve to this machine.
        "host: evil.example\r\n",
        "host: localhost.evil.example\r\n",
        "host: 192.0.2.1\r\n",
        "host: 127.0.0.1.evil.example:8080\r\n",
        "host: [::1].evil.example\r\n",
        "host: [::1].evil.example:8080\r\n",
        "host: [2001:db8::1]\r\n",
        "host: [localhost]:8080\r\n",
        // A page of another origin, of another port of this machine, and of none.
        "origin: https://evil.example\r\n",
        "origin: http://localhost:3000\r\n",
        "origin: null\r\n",
        "origin: http://localhost\r\norigin: http://evil.example\r\n",
        "sec-fetch-site: cross-site\r\n",
        "sec-fetch-site: same-site\r\n",
    ] {
        assert_refused(&sandbox, headers, 403);
    }
    for headers in [
        "",
        "host: 127.0.0.1:9\r\n",
        "host: 127.0.0.2\r\n",
        "host: [::1]\r\n",
        "host: [::1]:9\r\n",
        "host: LOCALHOST:9\r\norigin: http://localhost:9\r\nsec-fetch-site: same-origin\r\n",
        "sec-fetch-site: none\r\n",
    ] {
        assert_eq!(
            ask(&sandbox, "GET", "requests", headers, "").status,
            200,
            "{headers}"
        );
    }
}

/// A form on another page can never send JSON.
#[test]
fn a_write_is_json() {
    let sandbox = Sandbox::builder().start().unwrap();
    for headers in [
        "",
        "content-type: text/plain\r\n",
        "content-type: application/x-www-form-urlencoded\r\n",
        "content-type: multipart/form-data\r\n",
    ] {
        for (method, path) in GUARDED
            .iter()
            .filter(|(method, _)| matches!(*method, "POST" | "PUT"))
        {
            let response = ask(&sandbox, method, path, headers, r#"{"status": 503}"#);
            assert_eq!(response.status, 415, "{method} {path} {headers}");
        }
    }
    assert_eq!(
        send(sandbox.address(), get_deal("d_1").as_bytes()).status,
        200
    );
}

/// There is no CORS: a preflight reveals nothing useful.
#[test]
fn a_preflight_is_refused() {
    let sandbox = Sandbox::builder().start().unwrap();
    let preflight = "origin: https://evil.example\r\naccess-control-request-method: DELETE\r\naccess-control-request-headers: x-sandbox-fault\r\n";
    for path in ["requests", "faults", "health"] {
        let response = ask(&sandbox, "OPTIONS", path, preflight, "");
        assert_eq!(response.status, 403, "{path}");
        assert!(
            response
                .headers
                .keys()
                .all(|name| !name.as_str().starts_with("access-control"))
        );
    }
    let options = format!("OPTIONS /v1/deals/d_1 HTTP/1.1\r\nhost: h\r\n{preflight}\r\n");
    let response = send(sandbox.address(), options.as_bytes());
    assert!(
        response
            .headers
            .keys()
            .all(|name| !name.as_str().starts_with("access-control"))
    );
}

fn with_key(builder: SandboxBuilder) -> Sandbox {
    builder.service_key("own-key").start().unwrap()
}

/// Like `assert_refused`, with a different service key.
fn assert_asks_for(sandbox: &Sandbox, token: &str, wrong: &[&str]) {
    for wrong in wrong {
        for (method, path) in GUARDED {
            let response = ask(sandbox, method, path, &format!("{JSON}{wrong}"), "");
            assert_eq!(response.status, 401, "{method} {path} {wrong}");
            assert_eq!(
                response.header("www-authenticate"),
                Some("SandboxToken realm=\"dealkit\"")
            );
            let shown = String::from_utf8_lossy(&response.body).into_owned();
            assert!(
                !shown.contains(token) && !shown.contains("own-key"),
                "{shown}"
            );
        }
    }
    // With the token, the host may have any name: a page does not know the token.
    let headers = format!("x-sandbox-token: {token}\r\nhost: sandbox.example\r\n");
    assert_eq!(ask(sandbox, "GET", "requests", &headers, "").status, 200);
    let cross = format!("{headers}origin: https://evil.example\r\n");
    assert_eq!(ask(sandbox, "GET", "requests", &cross, "").status, 403);
    assert_eq!(ask(sandbox, "GET", "health", "", "").status, 200);
}

#[test]
fn a_token_is_asked_for() {
    let own = with_key(Sandbox::builder().admin_token("hunter2"));
    let wrong = [
        "",
        "x-sandbox-token: own-key\r\n",
        "x-sandbox-token: hunter\r\n",
        "x-sandbox-token: hunter2\r\nx-sandbox-token: hunter2\r\n",
        "x-service-key: hunter2\r\n",
    ];
    assert_asks_for(&own, "hunter2", &wrong);
    let everywhere = std::net::SocketAddr::from(([0, 0, 0, 0], 0));
    let everywhere = with_key(Sandbox::builder().listen(everywhere).admin_token("hunter2"));
    assert_asks_for(&everywhere, "hunter2", &wrong[..2]);
    // Not everybody on this machine should see what was sent to a server with a key of its own.
    let chosen = with_key(Sandbox::builder());
    assert_asks_for(
        &chosen,
        "own-key",
        &["", "x-sandbox-token: sandbox-key\r\n"],
    );
    let error = Sandbox::builder()
        .admin_token("two words")
        .start()
        .unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("the sandbox token must be 1 to 1,024"),
        "{error}"
    );
}

#[test]
fn nobody_is_let_in_from_elsewhere_without_a_token() {
    let everywhere = std::net::SocketAddr::from(([0, 0, 0, 0], 0));
    let sandbox = with_key(Sandbox::builder().listen(everywhere));
    for (method, path) in GUARDED {
        let response = ask(
            &sandbox,
            method,
            path,
            &format!("{JSON}x-sandbox-token: own-key\r\n"),
            "",
        );
        assert_eq!(response.status, 403, "{method} {path}");
        assert!(
            response.json()["detail"]
                .as_str()
                .unwrap()
                .contains("--admin-token")
        );
    }
}

#[test]
fn it_can_be_turned_off() {
    let sandbox = Sandbox::builder().admin(false).start().unwrap();
    assert_refused(&sandbox, "", 404);
    let server = support::process::Running::quiet(&["--no-admin"]);
    let request = b"GET /__sandbox/requests HTTP/1.1\r\nhost: localhost\r\n\r\n";
    assert_eq!(send(server.address, request).status, 404);
    let server = support::process::Running::quiet(&["--admin-token", "t"]);
    assert_eq!(send(server.address, request).status, 401);
}

/// Large entries make short pages; nobody waits for a page of gigabytes.
#[test]
fn pages_are_bounded_in_bytes() {
    let sandbox = Sandbox::builder().start().unwrap();
    let large = "x".repeat(700_000);
    let agent = AGENT.replace("{}", &format!(r#"{{"tier":"{large}"}}"#));
    for number in 0..3 {
        let created = send(sandbox.address(), create_agent(&agent).as_bytes());
        assert_eq!(created.status, 201);
        let deal = format!(r#"{{"id":"e_{number}","status":"{large}"}}"#);
        sandbox.insert_deal(deal).unwrap();
        let fault = Fault::status(500).body(large.clone());
        sandbox.fail_next(fault.after(100)).unwrap();
    }
    for (list, length) in [("agents", 3), ("deals", 6), ("requests", 3), ("faults", 3)] {
        let mut after = String::new();
        let mut seen = 0;
        for page in 1.. {
            let query = format!("{list}?limit=1000{after}");
            let response = get(&sandbox, &query);
            seen += response[list].as_array().unwrap().len();
            after = match &response["next"] {
                Value::Null => {
                    assert!(page >= 3, "{list}: {page}");
                    break;
                }
                Value::String(next) => format!("&after={next}"),
                next => format!("&after={next}"),
            };
        }
        assert_eq!(seen, length, "{list}");
    }
}

#[test]
fn other_keys_are_accepted_until_a_reset() {
    let sandbox = Sandbox::builder().start().unwrap();
    let status = |key: &str| {
        let request = get_deal("d_1").replace(KEY, key);
        send(sandbox.address(), request.as_bytes()).status
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
fn unknown_paths_and_methods_say_what_there_is() {
    let sandbox = Sandbox::builder().start().unwrap();
    let unknown = ask(&sandbox, "GET", "nowhere", "", "");
    unknown.check_invariants("unknown", false);
    assert!(
        unknown.json()["detail"]
            .as_str()
            .unwrap()
            .starts_with("The sandbox has GET /__sandbox/health, GET ")
    );
    let method = ask(&sandbox, "PUT", "requests", JSON, "");
    assert_eq!(
        (method.status, method.header("allow")),
        (405, Some("GET, HEAD, DELETE, OPTIONS"))
    );
}
