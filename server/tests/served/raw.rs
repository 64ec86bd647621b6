//! Tests that need TCP sockets: malformed heads, early responses, slow and silent clients.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    thread::sleep,
    time::{Duration, Instant},
};

use crate::support::{
    check_request, connect, get_deal, line, post_head, read_response, request_bytes, request_cases,
    start_with_limits,
};
use dealkit_server::Sandbox;

#[test]
fn raw_vectors() {
    for is_encrypted in [false, true] {
        let mut sandboxes = BTreeMap::new();
        for case in request_cases(true) {
            let sandbox = sandboxes
                .entry(case["limits"].to_string())
                .or_insert_with(|| start_with_limits(&case, is_encrypted));
            let mut line = line(sandbox);
            line.write_all(&request_bytes(&case)).unwrap();
            let is_head = case["request"]["method"] == "HEAD";
            check_request(&case, &read_response(&mut line, is_head));
        }
    }
}

#[test]
fn at_most_8_mib_are_discarded() {
    let sandbox = Sandbox::builder().start().unwrap();
    let mut stream = connect(&sandbox);
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

/// The write timeout restarts whenever the client reads. The client pauses for an eighth of it, so that a busy machine does not
/// matter.
#[test]
fn a_slow_but_steady_reader_gets_everything() {
    const LIMIT: Duration = Duration::from_secs(4);
    let text = format!(
        r#"{{"id": "big", "external_id": "{}"}}"#,
        "x".repeat(50_000_000)
    );
    let sandbox = Sandbox::builder()
        .deals([text.as_str()])
        .head_timeout(LIMIT)
        .start()
        .unwrap();
    let mut stream = connect(&sandbox);
    let began = Instant::now();
    stream
        .write_all(
            get_deal("big")
                .replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n")
                .as_bytes(),
        )
        .unwrap();
    let mut piece = vec![0; 5_000_000];
    for _ in 0..10 {
        sleep(LIMIT / 8);
        stream.read_exact(&mut piece).unwrap();
    }
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert!(rest.ends_with(b"xxx\"}"));
    assert!(began.elapsed() > LIMIT);
}
