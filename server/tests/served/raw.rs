//! What only bare sockets can do: malformed heads, early responses, slow and silent callers.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::Shutdown,
    time::{Duration, Instant},
};

use crate::support::{
    AGENT, KEY, assert_closed, connect, create_agent, get_deal, post_head, read_response,
    request_cases, send,
};
use dealkit_server::Sandbox;

const SHORT: Duration = Duration::from_millis(300);

#[test]
fn raw_vectors() {
    let mut sandboxes = BTreeMap::new();
    for case in request_cases().into_iter().filter(|case| case.raw) {
        let sandbox = sandboxes
            .entry(case.limits)
            .or_insert_with(|| case.limits.sandbox());
        case.check(&send(sandbox.address(), &case.request.bytes()));
    }
}

/// The body is far larger than the system's buffers: if the server closed at once, it would break the pipe, and the
/// response would be lost.
#[test]
fn an_early_response_stays_readable() {
    let sandbox = Sandbox::builder().start().unwrap();
    let body = vec![b'x'; 6 * 1024 * 1024];
    let length = format!("content-length: {}\r\n", body.len());
    let unauthorized = post_head(&length).replace(KEY, "wrong");
    let chunked = post_head("transfer-encoding: chunked\r\n") + &format!("{:x}\r\n", body.len());
    for (head, status) in [
        (post_head(&length), 413),
        (unauthorized, 401),
        (chunked, 413),
    ] {
        let mut stream = connect(sandbox.address());
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&body).expect("the whole body can be sent");
        let response = read_response(&mut stream, false);
        assert_eq!(response.status, status);
        assert_eq!(response.header("connection"), Some("close"));
        response.check_invariants("early", false);
        assert_closed(&mut stream);
    }
}

#[test]
fn not_more_than_8_mib_are_discarded() {
    let sandbox = Sandbox::builder().start().unwrap();
    let mut stream = connect(sandbox.address());
    stream
        .write_all(post_head("content-length: 1000000000\r\n").as_bytes())
        .unwrap();
    assert_eq!(read_response(&mut stream, false).status, 413);
    let piece = vec![b'x'; 64 * 1024];
    let mut sent = 0;
    while stream.write_all(&piece).is_ok() {
        sent += piece.len();
        assert!(sent < 100 * 1024 * 1024, "the server reads on and on");
    }
}

#[test]
fn a_malformed_head_gets_a_readable_response() {
    let sandbox = Sandbox::builder().start().unwrap();
    let rest = "x".repeat(500_000);
    for (head, status) in [
        ("G\0T / HTTP/1.1\r\n\r\n".to_owned(), 400),
        (
            format!("GET / HTTP/1.1\r\nhost: h\r\nx: {rest}\r\n\r\n"),
            431,
        ),
    ] {
        let mut stream = connect(sandbox.address());
        stream.write_all(head.as_bytes()).unwrap();
        stream
            .write_all(&vec![b'x'; 6 * 1024 * 1024])
            .expect("everything can be sent");
        let response = read_response(&mut stream, false);
        assert_eq!(response.status, status);
        // openapi.json says so: there is no request yet to which they could belong.
        assert!(response.headers.get("x-request-id").is_none());
        assert!(response.body.is_empty());
    }
}

#[test]
fn expect_continue() {
    let sandbox = Sandbox::builder().start().unwrap();
    let expecting = format!(
        "expect: 100-continue\r\ncontent-length: {}\r\n",
        AGENT.len()
    );
    let mut stream = connect(sandbox.address());
    stream.write_all(post_head(&expecting).as_bytes()).unwrap();
    let mut interim = [0; 25];
    stream.read_exact(&mut interim).unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(AGENT.as_bytes()).unwrap();
    assert_eq!(read_response(&mut stream, false).status, 201);

    // An early response sends no 100 first, and does not wait for a body that will not arrive.
    let began = Instant::now();
    for (head, status) in [
        (post_head(&expecting).replace(KEY, "wrong"), 401),
        (
            post_head("expect: 100-continue\r\ncontent-length: 9999999\r\n"),
            413,
        ),
    ] {
        let mut stream = connect(sandbox.address());
        stream.write_all(head.as_bytes()).unwrap();
        assert_eq!(read_response(&mut stream, false).status, status);
        assert_closed(&mut stream);
    }
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let sandbox = Sandbox::builder().start().unwrap();
    let mut stream = connect(sandbox.address());
    let requests =
        get_deal("d_1") + &create_agent(AGENT) + &get_deal("unknown") + &create_agent(AGENT);
    stream.write_all(requests.as_bytes()).unwrap();
    let statuses: Vec<u16> = (0..4)
        .map(|_| read_response(&mut stream, false).status)
        .collect();
    assert_eq!(statuses, [200, 201, 404, 201]);
}

#[test]
fn a_body_in_pieces_and_in_chunks_is_one_body() {
    let sandbox = Sandbox::builder().start().unwrap();
    let mut stream = connect(sandbox.address());
    for byte in create_agent(AGENT).as_bytes() {
        stream.write_all(&[*byte]).unwrap();
    }
    assert_eq!(read_response(&mut stream, false).status, 201);
    let chunks: String = AGENT
        .as_bytes()
        .chunks(7)
        .map(|chunk| {
            format!(
                "{:x}\r\n{}\r\n",
                chunk.len(),
                std::str::from_utf8(chunk).unwrap()
            )
        })
        .collect();
    let request = post_head("transfer-encoding: chunked\r\n") + &chunks + "0\r\ntrailer: x\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    assert_eq!(read_response(&mut stream, false).status, 201);
    // The connection can still be used for another one.
    stream.write_all(get_deal("d_1").as_bytes()).unwrap();
    assert_eq!(read_response(&mut stream, false).status, 200);
}

#[test]
fn a_broken_body_is_a_bad_request() {
    let sandbox = Sandbox::builder().start().unwrap();
    let response = send(
        sandbox.address(),
        (post_head("transfer-encoding: chunked\r\n") + "zz\r\n{}\r\n0\r\n\r\n").as_bytes(),
    );
    assert_eq!(response.status, 400);
    response.check_invariants("broken", false);
}

#[test]
fn a_body_of_a_get_is_limited_and_ignored() {
    let sandbox = Sandbox::builder()
        .max_body_bytes(100)
        .body_timeout(SHORT)
        .start()
        .unwrap();
    let get = |extra: &str| get_deal("d_1").replace("\r\n\r\n", &format!("\r\n{extra}"));
    for (request, status) in [
        (get("content-length: 3\r\n\r\nabc"), 200),
        (get("content-length: 101\r\n\r\n"), 413),
        (
            get("transfer-encoding: chunked\r\n\r\n65\r\n") + &"x".repeat(101),
            413,
        ),
        (get("content-length: 3\r\n\r\na"), 408),
    ] {
        assert_eq!(
            send(sandbox.address(), request.as_bytes()).status,
            status,
            "{request}"
        );
    }
}

#[test]
fn an_idle_connection_is_closed_at_the_timeout_after_its_last_response() {
    let sandbox = Sandbox::builder().head_timeout(SHORT).start().unwrap();
    let mut stream = connect(sandbox.address());
    let began = Instant::now();
    for _ in 0..6 {
        std::thread::sleep(SHORT / 4);
        stream.write_all(get_deal("d_1").as_bytes()).unwrap();
        assert_eq!(read_response(&mut stream, false).status, 200);
    }
    assert!(began.elapsed() > SHORT);
    let last = Instant::now();
    assert_closed(&mut stream);
    assert!((SHORT / 2..SHORT * 20).contains(&last.elapsed()));
}

#[test]
fn a_caller_that_reads_slowly_but_steadily_gets_everything() {
    let text = format!(
        r#"{{"id": "big", "external_id": "{}"}}"#,
        "x".repeat(50_000_000)
    );
    let sandbox = Sandbox::builder()
        .deals([text.as_str()])
        .head_timeout(SHORT)
        .start()
        .unwrap();
    let mut stream = connect(sandbox.address());
    let began = Instant::now();
    stream
        .write_all(
            get_deal("big")
                .replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n")
                .as_bytes(),
        )
        .unwrap();
    let mut piece = vec![0; 2_500_000];
    for _ in 0..20 {
        std::thread::sleep(SHORT / 4);
        stream.read_exact(&mut piece).unwrap();
    }
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert!(rest.ends_with(b"xxx\"}"));
    assert!(began.elapsed() > SHORT * 2);
}

#[test]
fn a_caller_that_closed_its_half_is_answered() {
    let sandbox = Sandbox::builder().start().unwrap();
    let mut stream = connect(sandbox.address());
    stream.write_all(create_agent(AGENT).as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_response(&mut stream, false).status, 201);
    assert_closed(&mut stream);
}

#[test]
fn http_1_0_needs_no_host() {
    let sandbox = Sandbox::builder().start().unwrap();
    let mut stream = connect(sandbox.address());
    write!(
        stream,
        "GET /v1/deals/d_1 HTTP/1.0\r\nx-service-key: {KEY}\r\n\r\n"
    )
    .unwrap();
    assert_eq!(read_response(&mut stream, false).status, 200);
    assert_closed(&mut stream);
}
