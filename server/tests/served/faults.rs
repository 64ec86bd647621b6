//! Faults on demand: the exact bytes on the wire, the end of the connection, and the selection of requests.

use std::{
    io::{ErrorKind, Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use crate::support::{
    AGENT, HANG, KEY, Line, connect, create, create_agent, get_deal, http2::Http2, line, post_head,
    read_response, retrieve_deal, send, until,
};
use dealkit::Method;
use dealkit_server::{AfterCut, Cut, Fault, Sandbox, SandboxBuilder, Tls};
use serde_json::json;
use tokio::time::sleep;

/// Time to wait before a test concludes that nothing more arrives.
const SILENCE: Duration = Duration::from_millis(100);

/// The end of a connection.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Reset,
    Eof,
    /// The connection is still open.
    Silence,
}

/// Reads until the connection ends, or until the received text satisfies `is_complete` and nothing more arrives for a while.
fn read_until_end(
    stream: &mut (impl Line + ?Sized),
    is_complete: impl Fn(&str) -> bool,
) -> (String, End) {
    let mut bytes = Vec::new();
    let mut buffer = [0; 65_536];
    let end = loop {
        let limit = match is_complete(&String::from_utf8_lossy(&bytes)) {
            true => SILENCE,
            false => HANG,
        };
        stream.tcp().set_read_timeout(Some(limit)).unwrap();
        match stream.read(&mut buffer) {
            Ok(0) => break End::Eof,
            Ok(read) => bytes.extend_from_slice(&buffer[..read]),
            Err(error) => match error.kind() {
                ErrorKind::ConnectionReset => break End::Reset,
                ErrorKind::WouldBlock | ErrorKind::TimedOut => break End::Silence,
                ErrorKind::Interrupted => {}
                _ => panic!("{error}"),
            },
        }
    };
    (String::from_utf8_lossy(&bytes).into_owned(), end)
}

fn exchange(sandbox: &Sandbox, request: &str, is_complete: impl Fn(&str) -> bool) -> (String, End) {
    let mut stream = line(sandbox);
    stream.write_all(request.as_bytes()).unwrap();
    read_until_end(&mut *stream, is_complete)
}

/// Returns true if the response has at least `length` bytes of a body.
fn has_body(response: &str, length: usize) -> bool {
    let body = response.split_once("\r\n\r\n").map(|(_, body)| body);
    body.is_some_and(|body| body.len() >= length)
}

/// Waits until a request is in the journal.
fn wait_for_request(sandbox: &Sandbox) {
    until("a request is recorded", || !sandbox.requests().is_empty());
}

fn with_fault(request: &str, fault: &str) -> String {
    request.replacen(
        "host: h\r\n",
        &format!("host: localhost\r\nx-sandbox-fault: {fault}\r\n"),
        1,
    )
}

fn start() -> Sandbox {
    builder().start().unwrap()
}

fn builder() -> SandboxBuilder {
    Sandbox::builder().deals([DEAL])
}

/// Starts a sandbox without TLS, and one with it.
fn both() -> [Sandbox; 2] {
    [start(), builder().tls(Tls::self_signed()).start().unwrap()]
}

const DELAYED: &str = r#"{"delay":0.01}"#;

const CUT_IN_HEAD: &str = r#"{"cut":"in-head","after_cut":"eof"}"#;

const DEAL: &str = r#"{"id":"d","status":"CLOSED"}"#;

#[test]
fn a_status_replaces_the_response() {
    let sandbox = start();
    let get = || retrieve_deal(&sandbox, "d");
    let fault = Fault::status(503).retry_after(7).times(2);
    sandbox.fail_next(fault).unwrap();
    for _ in 0..2 {
        let response = get();
        response.check_invariants("503", false);
        assert_eq!(
            (response.status, response.header("retry-after")),
            (503, Some("7"))
        );
    }
    let problem = r#"{"status":422,"title":"Custom"}"#;
    let json = |text: &str| dealkit::Json::parse(text).unwrap();
    for (fault, media_type, body) in [
        (
            Fault::status(404).body("oops\n"),
            Some("text/plain; charset=utf-8"),
            "oops\n",
        ),
        (
            Fault::status(422).json(json(problem)),
            Some("application/problem+json"),
            problem,
        ),
        (
            Fault::status(200).json(json(r#"{"id":5}"#)),
            Some("application/json"),
            r#"{"id":5}"#,
        ),
        (Fault::status(302), None, ""),
    ] {
        sandbox.fail_next(fault).unwrap();
        let response = get();
        assert_eq!(
            (response.header("content-type"), &*response.body),
            (media_type, body.as_bytes())
        );
    }
    assert_eq!(get().body, DEAL);
    let seen = sandbox.requests();
    let seen: Vec<_> = seen
        .iter()
        .map(|seen| seen.fault.as_deref().unwrap_or("none"))
        .collect();
    let made_up = [
        r#"{"status":404}"#,
        r#"{"status":422}"#,
        r#"{"status":200}"#,
        r#"{"status":302}"#,
        "none",
    ];
    assert_eq!(
        seen,
        [&[r#"{"status":503,"retry_after":"7"}"#; 2][..], &made_up].concat()
    );
}

/// The connection stays open after a fault with a status, and the create is not processed.
#[test]
fn a_status_keeps_the_connection_and_processes_nothing() {
    let sandbox = start();
    let mut stream = connect(&sandbox);
    for fault in [r#"{"status": 500}"#, r#"{"status": 429, "retry_after": 0}"#] {
        stream
            .write_all(with_fault(&create_agent(AGENT), fault).as_bytes())
            .unwrap();
        let response = read_response(&mut stream, false);
        assert!(matches!(response.status, 500 | 429));
    }
    assert!(sandbox.agents().is_empty());
    // A fault applies to HEAD as well, without a body.
    let head = with_fault(&get_deal("d"), r#"{"status": 503}"#).replace("GET", "HEAD");
    stream.write_all(head.as_bytes()).unwrap();
    assert_eq!(read_response(&mut stream, true).status, 503);
    stream.write_all(get_deal("d").as_bytes()).unwrap();
    assert_eq!(read_response(&mut stream, false).body, DEAL);
}

#[test]
fn a_cut_sends_exact_bytes_and_ends_the_connection() {
    for sandbox in both() {
        let whole = {
            let (text, _) = exchange(&sandbox, &get_deal("d"), |text| text.ends_with(DEAL));
            text.split_once("\r\n\r\n").unwrap().1.to_owned()
        };
        for (how, expected) in [
            (AfterCut::Reset, End::Reset),
            (AfterCut::Eof, End::Eof),
            (AfterCut::Stall, End::Silence),
        ] {
            let cut = |cut: Cut| {
                sandbox.fail_next(Fault::cut(cut).after_cut(how)).unwrap();
                let is_complete = |text: &str| match cut {
                    _ if how != AfterCut::Stall => false,
                    Cut::BeforeHead => true,
                    Cut::InHead => text.ends_with("\r\ncont"),
                    Cut::AfterBytes(bytes) => has_body(text, DEAL.len().min(bytes as usize)),
                    _ => unreachable!(),
                };
                let (text, end) = exchange(&sandbox, &get_deal("d"), is_complete);
                assert_eq!(end, expected, "{cut:?} {how:?}: {text}");
                text
            };
            assert_eq!(cut(Cut::BeforeHead), "");
            assert_eq!(cut(Cut::InHead), "HTTP/1.1 200 OK\r\ncont");
            for bytes in [0_u64, 1, 10, 27, 28, 29, u64::MAX] {
                let text = cut(Cut::AfterBytes(bytes));
                let (head, body) = text.split_once("\r\n\r\n").unwrap();
                assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
                assert!(
                    head.contains("content-type: application/json\r\n"),
                    "{head}"
                );
                assert!(head.contains("x-request-id: req_"), "{head}");
                assert!(head.contains("content-length: 28"), "{head}");
                let length = usize::try_from(bytes)
                    .unwrap_or(usize::MAX)
                    .min(whole.len());
                assert_eq!(body, &whole[..length]);
            }
        }
    }
}

/// The position of the cut determines if the request is processed.
#[test]
fn a_cut_before_the_head_creates_no_agent() {
    for sandbox in both() {
        for (fault, created, status) in [
            (r#"{"cut":"before-head"}"#, 0, None),
            (r#"{"malformed":true}"#, 0, None),
            (r#"{"process_then_reset":true}"#, 1, None),
            (CUT_IN_HEAD, 1, None),
            (r#"{"cut":"after-bytes:5"}"#, 1, Some(201)),
            (DELAYED, 1, Some(201)),
        ] {
            sandbox.reset();
            let request = with_fault(&create_agent(AGENT), fault);
            let is_delayed = fault == DELAYED;
            let (text, end) =
                exchange(&sandbox, &request, |text| is_delayed && text.ends_with('}'));
            assert_eq!(sandbox.agents().len(), created, "{fault}: {text}");
            let expected = match fault {
                r#"{"malformed":true}"# | CUT_IN_HEAD => End::Eof,
                DELAYED => End::Silence,
                _ => End::Reset,
            };
            assert_eq!(end, expected, "{fault}");
            let [seen] = sandbox.requests().try_into().unwrap();
            assert_eq!(seen.status.map(|status| status.as_u16()), status, "{fault}");
            assert_eq!(seen.body, AGENT);
            let shown = seen.fault.unwrap();
            assert_eq!(shown, fault);
            match fault {
                r#"{"malformed":true}"# => {
                    assert!(text.ends_with(" this is not HTTP \r\n\r\n"), "{text}")
                }
                CUT_IN_HEAD => assert_eq!(text, "HTTP/1.1 201 Created\r\ncont"),
                _ => assert_eq!(
                    status.is_some(),
                    text.starts_with("HTTP/1.1 201 "),
                    "{text}"
                ),
            }
        }
    }
}

/// A part that fits into the operating system's buffers arrives completely, even if the client reads it late.
#[test]
fn a_large_body_is_cut_at_the_exact_byte() {
    const CUT: usize = 60_000;
    let text = serde_json::json!({"id": "large", "external_id": "x".repeat(1_000_000)}).to_string();
    let sandbox = Sandbox::builder().deals([text.as_str()]).start().unwrap();
    for how in [AfterCut::Reset, AfterCut::Eof, AfterCut::Stall] {
        sandbox
            .fail_next(Fault::cut(Cut::AfterBytes(CUT as u64)).after_cut(how))
            .unwrap();
        let mut stream = connect(&sandbox);
        stream.write_all(get_deal("large").as_bytes()).unwrap();
        let (mut response, mut buffer) = (String::new(), [0; 65_536]);
        while !has_body(&response, CUT) {
            let read = stream.read(&mut buffer).unwrap();
            assert_ne!(read, 0, "{how:?}");
            response += str::from_utf8(&buffer[..read]).unwrap();
        }
        let (more, _) = read_until_end(&mut stream, |_| how == AfterCut::Stall);
        let (_, body) = response.split_once("\r\n\r\n").unwrap();
        assert!(more.is_empty() && body.len() == CUT, "{how:?}");
        assert!(text.starts_with(body));
    }
}

#[test]
fn filters_select_requests() {
    let sandbox = start();
    sandbox
        .fail_next(
            Fault::status(418)
                .path("/v1/deals/{id}")
                .method("GET")
                .after(1)
                .times(2),
        )
        .unwrap();
    let statuses: Vec<u16> = (0..5)
        .map(|_| {
            assert_eq!(create(&sandbox, AGENT).status, 201);
            retrieve_deal(&sandbox, "d").status
        })
        .collect();
    assert_eq!(statuses, [200, 418, 418, 200, 200]);
    // The same seed affects the same requests, even on another server.
    let hits = || {
        let sandbox = start();
        sandbox
            .fail_next(Fault::status(500).forever().probability(0.3).seed(11))
            .unwrap();
        (0..40)
            .map(|_| retrieve_deal(&sandbox, "d").status)
            .collect::<Vec<_>>()
    };
    let first = hits();
    assert_eq!(first, hits());
    let failed = first.iter().filter(|status| **status == 500).count();
    assert!((3..25).contains(&failed), "{failed}");
    // Requests with unknown paths and keys count too; requests to the control interface do not.
    sandbox.fail_next(Fault::status(500)).unwrap();
    let health = "GET /__sandbox/health HTTP/1.1\r\nhost: localhost\r\n\r\n";
    assert_eq!(send(&sandbox, health).status, 200);
    assert_eq!(
        send(&sandbox, b"GET /nowhere HTTP/1.1\r\nhost: h\r\n\r\n").status,
        500
    );
    sandbox.fail_next(Fault::status(500)).unwrap();
    sandbox.clear_faults();
    assert_eq!(retrieve_deal(&sandbox, "d").status, 200);
    sandbox.fail_next(Fault::status(500)).unwrap();
    sandbox.reset();
    assert_eq!(retrieve_deal(&sandbox, "d").status, 200);
}

/// A fault that does not match is not used up.
#[test]
fn headers_and_bodies_select_requests() {
    let with_email = |email: &str| AGENT.replace("ada@example.com", email);
    for sandbox in both() {
        let fault = Fault::status(422).request_body(json!({"email": "bob@example.com"}));
        sandbox.fail_next(fault).unwrap();
        let statuses = ["ada@example.com", "bob@example.com", "bob@example.com"].map(|email| {
            let mut stream = line(&sandbox);
            let request = create_agent(&with_email(email));
            stream.write_all(request.as_bytes()).unwrap();
            read_response(&mut *stream, false).status
        });
        assert_eq!(statuses, [201, 422, 201]);
        assert_eq!(sandbox.agents().len(), 2);
        assert_eq!(sandbox.faults(), []);
    }
    let sandbox = start();
    let with_header = |header: &str| {
        let request = get_deal("d").replace("\r\n\r\n", &format!("\r\n{header}\r\n\r\n"));
        send(&sandbox, request).status
    };
    let fault = Fault::status(418).forever();
    for (fault, statuses) in [
        (
            fault.clone().request_header("X-Tenant", "7"),
            [200, 418, 200, 418],
        ),
        (
            fault.clone().request_header_exists("X-TENANT"),
            [200, 418, 418, 418],
        ),
        (fault.clone().request_body(json!({})), [200, 200, 200, 200]),
    ] {
        sandbox.clear_faults();
        sandbox.fail_next(fault).unwrap();
        let headers = [
            "x-other: 7",
            "x-tenant: 7",
            "x-tenant: 8",
            "x-tenant: 8\r\nX-Tenant: 7",
        ];
        assert_eq!(headers.map(with_header), statuses);
    }
}

/// A pending fault that depends on the body counts a request once, like the faults before it, and holds and cuts it as any other.
#[test]
fn a_fault_that_depends_on_the_body_has_every_effect() {
    let sandbox = start();
    let ada = json!({"email": "ada@example.com"});
    sandbox.fail_next(Fault::status(500).after(1)).unwrap();
    let fault = Fault::cut(Cut::BeforeHead).request_body(ada.clone());
    sandbox.fail_next(fault).unwrap();
    let (text, end) = exchange(&sandbox, &create_agent(AGENT), |_| false);
    assert_eq!((text.as_str(), end), ("", End::Reset));
    assert_eq!(create(&sandbox, AGENT).status, 500);
    assert_eq!(sandbox.faults(), []);
    let [cut, failed] = sandbox.requests().try_into().unwrap();
    assert_eq!(cut.fault.unwrap(), r#"{"cut":"before-head"}"#);
    assert_eq!(failed.fault.unwrap(), r#"{"status":500}"#);

    // The fault applies even to a request that the server would reject, if the body arrives.
    sandbox
        .fail_next(Fault::status(503).request_body(ada).times(2))
        .unwrap();
    assert_eq!(create(&sandbox, "{").status, 400);
    let unknown_key = create_agent(AGENT).replace(KEY, "unknown");
    assert_eq!(send(&sandbox, unknown_key).status, 503);
    assert_eq!(sandbox.faults()[0].applied, 1);
}

#[test]
fn the_header_is_ignored_if_the_interface_is_off() {
    let sandbox = Sandbox::builder().admin(false).start().unwrap();
    for fault in [r#"{"status": 503}"#, "nonsense"] {
        let request = with_fault(&get_deal("d_1"), fault);
        assert_eq!(send(&sandbox, &request).status, 200);
    }
    // Faults that the program adds still apply.
    sandbox.fail_next(Fault::status(503)).unwrap();
    assert_eq!(retrieve_deal(&sandbox, "d_1").status, 503);
}

/// The header is accepted from clients with access to the control interface, and rejected from others.
#[test]
fn the_header_requires_access_to_the_interface() {
    let chosen = |builder: SandboxBuilder| builder.service_key("own");
    let everywhere = |builder: SandboxBuilder| builder.listen(([0, 0, 0, 0], 0)).service_key("own");
    let own = "x-service-key: own";
    for (configure, cases) in [
        // Open access: loopback and the default key.
        (
            &(|builder| builder) as &dyn Fn(SandboxBuilder) -> SandboxBuilder,
            &[
                ("x-service-key: sandbox-key", "host: localhost", 503),
                ("x-service-key: sandbox-key", "host: evil.example", 403),
                (
                    "x-service-key: sandbox-key",
                    "host: localhost\r\norigin: https://evil.example",
                    403,
                ),
            ][..],
        ),
        (
            &chosen,
            &[
                (own, "host: h", 503),
                (own, "host: h\r\nx-sandbox-token: own", 503),
                (own, "host: h\r\norigin: https://evil.example", 403),
                ("x: y", "host: h", 401),
                ("x-service-key: sandbox-key", "host: h", 401),
                ("x: y", "host: h\r\nx-sandbox-token: own", 503),
            ],
        ),
        (
            &everywhere,
            &[
                (own, "host: h", 403),
                (own, "host: h\r\nx-sandbox-token: own", 403),
            ],
        ),
        (
            &|builder| everywhere(builder).admin_token("token"),
            &[
                (own, "host: h", 401),
                (own, "host: h\r\nx-sandbox-token: own", 401),
                (own, "host: h\r\nx-sandbox-token: token", 503),
            ],
        ),
    ] {
        let sandbox = configure(Sandbox::builder()).start().unwrap();
        for (key, headers, status) in cases {
            let request = format!(
                "GET /v1/deals/d_1 HTTP/1.1\r\n{key}\r\n{headers}\r\nx-sandbox-fault: {{\"status\": 503}}\r\n\r\n"
            );
            let response = send(&sandbox, &request);
            assert_eq!(response.status, *status, "{key} {headers}");
        }
        assert!(sandbox.requests().iter().all(|request| {
            request.fault.is_some() == (request.status.unwrap().as_u16() == 503)
        }));
    }
}

/// An incomplete body is rejected as usual, and the request counts as one application of the fault.
#[test]
fn an_incomplete_request_fails_without_the_fault() {
    let sandbox = Sandbox::builder().max_body_bytes(100).start().unwrap();
    sandbox.fail_next(Fault::malformed()).unwrap();
    let long = create_agent(&" ".repeat(200));
    assert_eq!(send(&sandbox, &long).status, 413);
    assert_eq!(sandbox.requests()[0].status.unwrap().as_u16(), 413);
}

/// Delayed and stalled requests free their connections as soon as their clients disconnect.
#[test]
fn a_fault_ends_when_its_client_disconnects() {
    let sandbox = Sandbox::builder().max_connections(4).start().unwrap();
    for fault in [
        r#"{"delay": 3600}"#,
        r#"{"delay": 3600, "status": 503}"#,
        r#"{"hold": true}"#,
        r#"{"cut": "in-head", "after_cut": "stall"}"#,
    ] {
        let request = with_fault(&get_deal("d_1"), fault);
        let callers: Vec<TcpStream> = (0..4)
            .map(|_| {
                let mut stream = connect(&sandbox);
                stream.write_all(request.as_bytes()).unwrap();
                stream
            })
            .collect();
        let mut waiting = connect(&sandbox);
        waiting.write_all(get_deal("d_1").as_bytes()).unwrap();
        waiting.set_read_timeout(Some(SILENCE)).unwrap();
        assert!(waiting.read(&mut [0]).is_err(), "{fault}: was let in");
        drop(callers);
        waiting.set_read_timeout(Some(HANG)).unwrap();
        assert_eq!(read_response(&mut waiting, false).status, 200, "{fault}");
    }
}

/// Stalled, delayed and held connections end when the server stops.
#[test]
fn a_stalled_connection_does_not_delay_the_shutdown() {
    for fault in [
        Fault::cut(Cut::BeforeHead).after_cut(AfterCut::Stall),
        Fault::delay(Duration::from_secs(3_600)),
        Fault::hold(),
    ] {
        let sandbox = Sandbox::builder()
            .shutdown_timeout(SILENCE)
            .start()
            .unwrap();
        sandbox.fail_next(fault.clone()).unwrap();
        let mut stream = connect(&sandbox);
        stream.write_all(get_deal("d_1").as_bytes()).unwrap();
        wait_for_request(&sandbox);
        let began = Instant::now();
        sandbox.shutdown();
        assert!(began.elapsed() < HANG, "{fault:?}");
    }
}

/// The journal contains a request whose client disconnected before the response.
#[test]
fn a_request_without_a_response_is_recorded() {
    let sandbox = start();
    sandbox.fail_next(Fault::hold().delayed(SILENCE)).unwrap();
    let mut stream = connect(&sandbox);
    let request = get_deal("d").replace("\r\n\r\n", "\r\nx-request-id: mine\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    wait_until_held(&sandbox, 1);
    let [seen] = sandbox.requests().try_into().unwrap();
    assert_eq!((seen.status, seen.request_id.as_str()), (None, "mine"));
    assert_eq!(seen.fault.as_deref(), Some(r#"{"hold":true,"delay":0.1}"#));
    assert_eq!(sandbox.release(), 1);
    read_response(&mut stream, false);
    let [seen] = sandbox.requests().try_into().unwrap();
    assert_eq!(seen.status.unwrap().as_u16(), 200);
    assert!(seen.duration >= SILENCE && !seen.is_held);
}

// ---- held requests -----------------------------------------------------------------------------------------

fn wait_until_held(sandbox: &Sandbox, count: usize) {
    let held = || {
        sandbox
            .requests()
            .iter()
            .filter(|seen| seen.is_held)
            .count()
    };
    until("requests are held", || held() >= count);
}

/// Sends a request that creates an agent.
fn send_create(sandbox: &Sandbox) -> TcpStream {
    let mut stream = connect(sandbox);
    stream.write_all(create_agent(AGENT).as_bytes()).unwrap();
    stream
}

#[test]
fn released_requests_get_their_responses() {
    let sandbox = start();
    sandbox
        .fail_next(Fault::hold().method("POST").times(2))
        .unwrap();
    sandbox
        .fail_next(Fault::status(418).held().method(Method::POST))
        .unwrap();
    let mut callers: Vec<_> = (1..=3)
        .map(|count| {
            let caller = send_create(&sandbox);
            wait_until_held(&sandbox, count);
            caller
        })
        .collect();
    // Other requests are not held, and held requests have not been processed.
    assert_eq!(retrieve_deal(&sandbox, "d").status, 200);
    assert!(sandbox.agents().is_empty());
    assert_eq!(sandbox.release(), 3);
    assert!(sandbox.requests().iter().all(|seen| !seen.is_held));
    for (caller, status) in callers.iter_mut().zip([201, 201, 418]) {
        assert_eq!(read_response(caller, false).status, status);
    }
    assert_eq!((sandbox.agents().len(), sandbox.release()), (2, 0));
}

/// A release applies to requests whose bodies are still arriving. After the faults are cleared, no request stays held.
#[test]
fn a_request_can_be_released_before_its_body_arrives() {
    let sandbox = start();
    sandbox.fail_next(Fault::hold().forever()).unwrap();
    let mut caller = connect(&sandbox);
    let headers = format!(
        "content-length: {}\r\nexpect: 100-continue\r\n",
        AGENT.len()
    );
    caller.write_all(post_head(&headers).as_bytes()).unwrap();
    assert_eq!(read_response(&mut caller, false).status, 100);
    sandbox.clear_faults();
    assert_eq!(sandbox.release(), 1);
    caller.write_all(AGENT.as_bytes()).unwrap();
    assert_eq!(read_response(&mut caller, false).status, 201);
    let [seen] = sandbox.requests().try_into().unwrap();
    assert!(!seen.is_held && seen.fault.is_some());
}

/// A release does not count requests whose clients have disconnected. A held request gets no response after a reset.
#[test]
fn held_requests_end_with_their_clients_and_with_a_reset() {
    let sandbox = start();
    sandbox.fail_next(Fault::hold().forever()).unwrap();
    let gone = send_create(&sandbox);
    wait_until_held(&sandbox, 1);
    drop(gone);
    until("the request has ended", || !sandbox.requests()[0].is_held);
    assert_eq!(sandbox.release(), 0);
    let mut dropped = send_create(&sandbox);
    wait_until_held(&sandbox, 1);
    sandbox.reset();
    assert_eq!(
        read_until_end(&mut dropped, |_| false),
        (String::new(), End::Reset)
    );
    assert!(sandbox.agents().is_empty());
    assert_eq!(create(&sandbox, AGENT).status, 201);
}

/// Each namespace has its own held requests. The control interface can wait for and release them.
#[test]
fn the_interface_can_wait_for_and_release_held_requests() {
    let sandbox = builder().namespaces("test-*").start().unwrap();
    let call = |request: &str| {
        let host = "host: localhost\r\ncontent-length: 0\r\n\r\n";
        let response = send(&sandbox, format!("{request} HTTP/1.1\r\n{host}"));
        assert_eq!(response.status, 200, "{request}");
        response.value()
    };
    let held = with_fault(&get_deal("d"), r#"{"hold":true}"#);
    let mut callers = ["test-1", "test-2"].map(|key| {
        let mut caller = connect(&sandbox);
        caller.write_all(held.replace(KEY, key).as_bytes()).unwrap();
        caller
    });
    for key in ["test-1", "test-2"] {
        let list = call(&format!(
            "GET /__sandbox/requests?held=true&wait=120&namespace={key}"
        ));
        assert_eq!(
            (&list["timed_out"], &list["requests"][0]["held"]),
            (&false.into(), &true.into())
        );
    }
    for (key, caller) in ["test-1", "test-2"].iter().zip(&mut callers) {
        let released = format!("POST /__sandbox/release?namespace={key}");
        assert_eq!(call(&released)["released"], 1);
        assert_eq!(read_response(caller, false).body, DEAL);
        assert_eq!(call(&released)["released"], 0);
    }
    let request = "GET /__sandbox/requests?held=1 HTTP/1.1\r\nhost: localhost\r\n\r\n";
    assert_eq!(send(&sandbox, request).status, 400);
}

// ---- HTTP/2 ------------------------------------------------------------------------------------------------

#[tokio::test]
async fn over_http2_a_reset_is_of_the_stream() {
    let sandbox = start();
    let mut caller = Http2::connect(&sandbox).await;
    for (fault, created, body) in [
        (Fault::cut(Cut::BeforeHead), 0, None),
        (Fault::cut(Cut::InHead), 1, None),
        (Fault::process_then_reset(), 2, None),
        (Fault::cut(Cut::AfterBytes(7)), 3, Some(r#"{"id":""#)),
    ] {
        sandbox.fail_next(fault.clone()).unwrap();
        let result = caller.send("POST", "/v1/agents", AGENT).await;
        let error = result.error.unwrap();
        assert!(error.is_reset() && error.is_remote(), "{fault:?}: {error}");
        assert_eq!(result.status, body.map(|_| 201));
        assert_eq!(result.body, body.unwrap_or_default().as_bytes());
        assert_eq!(sandbox.agents().len(), created, "{fault:?}");
        // The connection remains usable.
        assert_eq!(
            caller.send("GET", "/v1/deals/d", "").await.body,
            DEAL.as_bytes()
        );
    }
}

#[tokio::test]
async fn over_http2_eof_and_malformed_end_the_connection() {
    let sandbox = start();
    for (fault, status) in [
        (Fault::cut(Cut::BeforeHead).after_cut(AfterCut::Eof), None),
        (Fault::malformed(), None),
        (
            Fault::cut(Cut::AfterBytes(9)).after_cut(AfterCut::Eof),
            Some(200),
        ),
    ] {
        let mut caller = Http2::connect(&sandbox).await;
        sandbox.fail_next(fault.clone()).unwrap();
        let result = caller.send("GET", "/v1/deals/d", "").await;
        assert_eq!(result.status, status, "{fault:?}");
        assert_eq!(
            result.body,
            if status.is_some() {
                &DEAL.as_bytes()[..9]
            } else {
                b""
            }
        );
        assert!(!result.error.unwrap().is_reset(), "{fault:?}");
        assert!(caller.send("GET", "/v1/deals/d", "").await.error.is_some());
    }
}

#[tokio::test]
async fn over_http2_a_stall_is_of_the_stream() {
    let sandbox = start();
    let mut caller = Http2::connect(&sandbox).await;
    for cut in [Cut::BeforeHead, Cut::AfterBytes(9)] {
        sandbox.clear_requests();
        sandbox
            .fail_next(Fault::cut(cut).after_cut(AfterCut::Stall))
            .unwrap();
        let is_recorded = async {
            sandbox.wait_for(1, HANG, |_| true).await.unwrap();
            sleep(SILENCE).await;
        };
        tokio::select! {
            result = caller.send("GET", "/v1/deals/d", "") => panic!("{result:?}"),
            () = is_recorded => {}
        }
        assert_eq!(
            caller.send("GET", "/v1/deals/d", "").await.body,
            DEAL.as_bytes()
        );
    }
}

/// The journal's entry of a delayed request is updated when the response is sent.
#[tokio::test]
async fn over_http2_waiting_ends_when_the_caller_gives_up() {
    let sandbox = start();
    let mut caller = Http2::connect(&sandbox).await;
    sandbox.fail_next(Fault::hold()).unwrap();
    tokio::select! {
        result = caller.send("GET", "/v1/deals/d", "") => panic!("{result:?}"),
        held = sandbox.wait_for_held(1, HANG) => assert_eq!(held.unwrap()[0].status, None),
    }
    let [seen] = sandbox
        .wait_for(1, HANG, |_| true)
        .await
        .unwrap()
        .try_into()
        .unwrap();
    assert_eq!(
        (seen.status, seen.is_held, sandbox.release()),
        (None, false, 0)
    );
    assert_eq!(
        caller.send("GET", "/v1/deals/d", "").await.status,
        Some(200)
    );
}
