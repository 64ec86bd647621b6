//! The limits of the server: timeouts, connections, descriptors, memory, and shutdown.

#![cfg(unix)]

mod support;

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use dealkit_server::Sandbox;
use rustix::process::Signal;
use support::{
    AGENT, HANG, Listens, Received, assert_closed, assert_serving, connect, create, create_agent,
    get_deal, post_head,
    process::{Running, command_with_descriptors},
    read_response, send, until_refused,
};

const SHORT: Duration = Duration::from_millis(300);

/// Longer than any test takes, so a timeout of this length never expires.
const NEVER: Duration = Duration::from_secs(3_600);

/// Asserts that nothing arrives on `stream` for a while, because the server does not serve it.
fn assert_silent(stream: &mut TcpStream) {
    stream.set_read_timeout(Some(SHORT)).unwrap();
    let error = stream.read(&mut [0]).expect_err("served beyond the limit");
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    stream.set_read_timeout(Some(HANG)).unwrap();
}

/// Opens a connection, and leaves it idle after a response.
fn open_idle(server: impl Listens) -> TcpStream {
    let mut stream = connect(server);
    stream.write_all(get_deal("d_1").as_bytes()).unwrap();
    assert_eq!(read_response(&mut stream, false).status, 200);
    stream
}

// ---- timeouts -----------------------------------------------------------------------------------------

/// One head timeout applies, independent of the client's first bytes.
#[test]
fn silent_connections_end() {
    let sandbox = Sandbox::builder().head_timeout(SHORT).start().unwrap();
    for beginning in [
        "",
        "P",
        "PR",
        "PRI * HT",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r",
        "PO",
        "G",
        "GET /v1",
        "GET /v1/deals/d_1 HTTP/1.1\r\n",
        "GET /v1/deals/d_1 HTTP/1.1\r\nhost: h\r\n\r",
        "\r\n",
    ] {
        let began = Instant::now();
        let mut stream = connect(&sandbox);
        stream.write_all(beginning.as_bytes()).unwrap();
        assert_closed(&mut stream);
        let took = began.elapsed();
        assert!(took >= SHORT, "{beginning:?}: {took:?}");
    }
    assert_serving(&sandbox);
}

/// The head timeout starts at the last response. Partial heads and empty lines do not extend it.
#[test]
fn dripping_a_head_does_not_extend_its_timeout() {
    let sandbox = Sandbox::builder().head_timeout(SHORT).start().unwrap();
    let after = [connect, open_idle];
    for (pieces, start) in ["x: y\r\n", "\r\n", "a"]
        .iter()
        .flat_map(|pieces| after.map(|start| (*pieces, start)))
    {
        let began = Instant::now();
        let mut stream = start(sandbox.address());
        stream.set_read_timeout(Some(SHORT / 10)).unwrap();
        if pieces != "\r\n" {
            stream
                .write_all(b"GET /v1/deals/d_1 HTTP/1.1\r\nx:")
                .unwrap();
        }
        // The read timeout delays the next write, and a read detects the end.
        while stream
            .read(&mut [0])
            .is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
        {
            let _ = stream.write_all(pieces.as_bytes());
            assert!(began.elapsed() < HANG, "{pieces:?}");
        }
        assert!(began.elapsed() >= SHORT, "{pieces:?}");
    }
}

/// Received bytes and chunks do not extend the body timeout, and the response names the timeout.
#[test]
fn dripping_a_body_does_not_extend_its_timeout() {
    let sandbox = Sandbox::builder().body_timeout(SHORT).start().unwrap();
    for (head, piece) in [
        (post_head("content-length: 1000\r\n"), "x"),
        (post_head("transfer-encoding: chunked\r\n"), "1\r\nx\r\n"),
        (post_head("transfer-encoding: chunked\r\n"), "0"),
    ] {
        let mut stream = connect(&sandbox);
        let began = Instant::now();
        stream.write_all(head.as_bytes()).unwrap();
        stream.set_read_timeout(Some(SHORT / 10)).unwrap();
        while stream.peek(&mut [0]).is_err() {
            stream.write_all(piece.as_bytes()).unwrap();
            assert!(began.elapsed() < HANG, "{piece:?}");
        }
        assert!(began.elapsed() >= SHORT);
        stream.set_read_timeout(Some(HANG)).unwrap();
        let response = read_response(&mut stream, false);
        assert_eq!(
            (response.status, response.header("connection")),
            (408, Some("close")),
            "{piece:?}"
        );
        response.check_invariants(piece, false);
        assert_closed(&mut stream);
    }
    assert!(sandbox.agents().is_empty());
}

/// The server ends connections that send requests but read no response, and serves others.
#[test]
fn connections_of_clients_that_never_read_end() {
    let text = format!(
        r#"{{"id": "big", "external_id": "{}"}}"#,
        "x".repeat(20_000_000)
    );
    let sandbox = Sandbox::builder()
        .deals([text.as_str(), r#"{"id": "d_1"}"#])
        .head_timeout(SHORT)
        .max_connections(4)
        .start()
        .unwrap();
    let mut stuck: Vec<_> = (0..4).map(|_| connect(&sandbox)).collect();
    for stream in &mut stuck {
        stream
            .write_all(get_deal("big").repeat(10).as_bytes())
            .unwrap();
    }
    drop((0..4).map(|_| open_idle(&sandbox)).collect::<Vec<_>>());
    // The responses are cut before their declared length.
    for mut stream in stuck {
        let mut length = 0;
        let mut piece = vec![0; 1 << 20];
        while let Ok(read @ 1..) = stream.read(&mut piece) {
            length += read;
        }
        assert!(length < text.len(), "{length} bytes");
    }
}

// ---- connections ---------------------------------------------------------------------------------------

/// Sends a request without its last byte.
fn send_incomplete(stream: &mut TcpStream) {
    let head = post_head("content-length: 2\r\nexpect: 100-continue\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    assert_eq!(read_response(stream, false).status, 100);
    stream.write_all(b"{").unwrap();
}

/// Opens a connection with a request in flight.
fn open_busy(server: impl Listens) -> TcpStream {
    let mut stream = connect(server);
    send_incomplete(&mut stream);
    stream
}

/// Sends the last byte, and returns the response.
fn finish(stream: &mut TcpStream) -> Received {
    stream.write_all(b"}").unwrap();
    read_response(stream, false)
}

#[test]
fn further_connections_wait_for_others_to_close() {
    let sandbox = Sandbox::builder()
        .max_connections(3)
        .head_timeout(NEVER)
        .body_timeout(NEVER)
        .start()
        .unwrap();
    let mut inside: Vec<_> = (0..3).map(|_| open_busy(&sandbox)).collect();
    let mut waiting: Vec<_> = (0..5).map(|_| connect(&sandbox)).collect();
    for stream in &mut waiting {
        stream.write_all(get_deal("d_1").as_bytes()).unwrap();
    }
    assert_silent(&mut waiting[0]);
    // Connections are accepted in the order of arrival, one for each that closes. Requests in flight are not affected.
    let left = inside.split_off(1);
    drop(inside);
    for mut stream in waiting {
        assert_eq!(read_response(&mut stream, false).status, 200);
    }
    for mut stream in left {
        assert_eq!(finish(&mut stream).status, 422);
    }
}

/// If there are fewer descriptors than permitted connections, the server waits without using the processor.
#[test]
fn running_out_of_descriptors() {
    let server = Running::start(command_with_descriptors(
        40,
        &[
            "--listen",
            "127.0.0.1:0",
            "--log",
            "off",
            "--max-connections",
            "1000",
            "--head-timeout",
            "3600",
        ],
    ));
    let mut streams: Vec<_> = (0..100).map(|_| connect(&server)).collect();
    for stream in &mut streams {
        stream.write_all(get_deal("d_1").as_bytes()).unwrap();
    }
    let mut waiting = streams.split_off(50);
    #[cfg(target_os = "linux")]
    let ticks = server.ticks();
    assert_silent(&mut waiting[0]);
    // Retrying in a busy loop would have used all of the 300 ms.
    #[cfg(target_os = "linux")]
    assert!(
        server.ticks() - ticks < 15,
        "{} ticks",
        server.ticks() - ticks
    );
    // The server has served some of the first connections. When they end, it accepts the last ones.
    assert_eq!(read_response(&mut streams[0], false).status, 200);
    drop(streams);
    while let Some(mut stream) = waiting.pop() {
        if waiting.len() >= 20 {
            continue; // Closed unserved: there is not room for all at once.
        }
        assert_eq!(read_response(&mut stream, false).status, 200);
    }
    assert_serving(&server);
}

// ---- memory --------------------------------------------------------------------------------------------

/// All bodies share a memory budget. A body that exceeds it is rejected until another one is complete.
#[test]
fn all_bodies_share_a_memory_budget() {
    let server = Running::quiet(&["--max-buffered-bytes", "20000"]);
    let with_body = |headers: &str, body: &str| {
        let length = body.len();
        post_head(&format!("content-length: {length}\r\n{headers}")) + body
    };
    let large = with_body("", &" ".repeat(10_000));
    // A held request keeps its body in memory.
    let hold = "x-sandbox-fault: {\"hold\": true}\r\n";
    let held = with_body(hold, &(" ".repeat(15_000) + "{}"));
    let mut held_caller = connect(&server);
    held_caller
        .write_all(with_local_host(&held).as_bytes())
        .unwrap();
    let is_held = "GET /__sandbox/requests?held=true&wait=120 HTTP/1.1\r\nhost: h\r\n\r\n";
    assert_eq!(
        send(&server, with_local_host(is_held)).json()["timed_out"],
        false
    );

    let refused = send(&server, &large);
    assert_eq!(refused.status, 503);
    refused.check_invariants("503", false);
    assert_eq!(
        (refused.header("retry-after"), refused.header("connection")),
        (Some("1"), Some("close"))
    );
    let detail = refused.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("--max-buffered-bytes"), "{detail}");
    // Small bodies still fit. The large one fits after the held request is complete.
    assert_eq!(create(&server, AGENT).status, 201);
    let release = "POST /__sandbox/release HTTP/1.1\r\nhost: h\r\ncontent-length: 0\r\n\r\n";
    assert_eq!(
        send(&server, with_local_host(release)).body,
        r#"{"released":1}"#
    );
    assert_eq!(read_response(&mut held_caller, false).status, 422);
    assert_eq!(send(&server, &large).status, 400);
}

/// Replaces the host with localhost, which the control interface accepts.
fn with_local_host(request: &str) -> String {
    request.replacen("host: h\r\n", "host: localhost\r\n", 1)
}

/// A body in one-byte chunks takes linear time, and no more memory than its bytes.
#[cfg(target_os = "linux")]
#[test]
fn a_body_in_one_byte_chunks() {
    let server = Running::quiet(&["--body-timeout", "3600"]);
    let before = server.memory("VmHWM");
    let chunks = "1\r\n \r\n".repeat(100_000);
    let last = format!("{:x}\r\n{AGENT}\r\n0\r\n\r\n", AGENT.len());
    let request = post_head("transfer-encoding: chunked\r\n") + &chunks + &last;
    assert_eq!(send(&server, &request).status, 201);
    let taken = server.memory("VmHWM").saturating_sub(before);
    assert!(taken < 8 << 20, "{taken} bytes");
}

// ---- shutdown -------------------------------------------------------------------------------------------

/// Requests that arrive before the signal get responses, even if the server has not read them yet.
///
/// The test suspends the server while they arrive, so the result does not depend on timing.
#[test]
fn requests_from_before_the_signal_get_responses() {
    // No timeout expires, even on a busy machine.
    let timeouts = ["--head-timeout", "3600", "--body-timeout", "3600"];
    let mut server = Running::quiet(&[&timeouts[..], &["--shutdown-timeout", "3600"]].concat());
    let mut open_idle: Vec<_> = (0..20).map(|_| open_idle(&server)).collect();
    // Incomplete requests: the rest of the head and of the body follows after the signal.
    let mut half_head = connect(&server);
    half_head
        .write_all(&get_deal("d_1").as_bytes()[..40])
        .unwrap();
    let mut half_body = connect(&server);
    let request = create_agent(AGENT);
    let (first, rest) = request.split_at(request.len() - 10);
    half_body.write_all(first.as_bytes()).unwrap();
    assert_serving(&server);

    server.signal(Signal::STOP);
    for stream in &mut open_idle {
        stream.write_all(create_agent(AGENT).as_bytes()).unwrap();
    }
    server.signal(Signal::TERM);
    server.signal(Signal::CONT);
    // A connection that has not noticed the signal yet responds without `Connection: close`, but is closed too.
    for stream in &mut open_idle {
        assert_eq!(read_response(stream, false).status, 201);
        assert_closed(stream);
    }
    // The server rejects new connections while it waits for requests in flight.
    until_refused(server.address);
    half_head
        .write_all(&get_deal("d_1").as_bytes()[40..])
        .unwrap();
    assert_eq!(read_response(&mut half_head, false).status, 200);
    half_body.write_all(rest.as_bytes()).unwrap();
    assert_eq!(read_response(&mut half_body, false).status, 201);
    assert_closed(&mut half_head);
    assert_closed(&mut half_body);
    assert_eq!(server.wait(HANG).code(), Some(0));
}

#[test]
fn a_stuck_request_does_not_extend_the_shutdown_timeout() {
    let mut server = Running::quiet(&["--shutdown-timeout", "1", "--body-timeout", "3600"]);
    let stuck = open_busy(&server);
    let began = Instant::now();
    server.signal(Signal::TERM);
    assert_eq!(server.wait(HANG).code(), Some(0));
    assert!(began.elapsed() >= Duration::from_secs(1));
    drop(stuck);
}

/// When the server stops, it closes idle connections and rejects new ones immediately, while it waits for a request in flight.
#[test]
fn idle_connections_do_not_wait_for_the_shutdown_timeout() {
    let timeouts = ["--head-timeout", "3600", "--body-timeout", "3600"];
    let mut server = Running::quiet(&[&timeouts[..], &["--shutdown-timeout", "3600"]].concat());
    let mut idle = open_idle(&server);
    let mut stuck = open_busy(&server);
    server.signal(Signal::TERM);
    assert_closed(&mut idle);
    until_refused(server.address);
    assert!(server.child.try_wait().unwrap().is_none(), "it waits");
    assert_eq!(finish(&mut stuck).status, 422);
    assert_eq!(server.wait(HANG).code(), Some(0));
}

#[test]
fn a_second_signal_ends_the_server_immediately() {
    for second in [Signal::TERM, Signal::INT] {
        let mut server = Running::quiet(&["--shutdown-timeout", "3600", "--body-timeout", "3600"]);
        let stuck = open_busy(&server);
        server.signal(Signal::INT);
        until_refused(server.address);
        assert!(server.child.try_wait().unwrap().is_none(), "it waits");
        server.signal(second);
        assert_eq!(server.wait(HANG).code(), Some(0));
        drop(stuck);
    }
}
