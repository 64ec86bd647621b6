//! HTTP/2 from the client's side: limits, timeouts, and closing. The h2 crate tests the frames.

use std::{thread, time::Duration};

use crate::support::{
    AGENT, HANG, assert_serving, connect,
    http2::{Http2, StreamResult, request},
    process::Running,
};
use bytes::Bytes;
use dealkit_server::Sandbox;
use h2::{Reason, client::Builder};
use http::HeaderValue;
use tokio::time::timeout;

const SHORT: Duration = Duration::from_millis(300);

/// The requests share one connection, which stays open.
#[tokio::test]
async fn heads_and_trailers_are_bounded_and_ignored_as_over_http_1() {
    let sandbox = Sandbox::builder().start().unwrap();
    let mut caller = Http2::connect(&sandbox).await;
    let with = |count: usize, name: &'static str, value: &str| {
        let mut request = request("GET", "/v1/deals/d_1");
        for _ in 0..count {
            let value = HeaderValue::from_str(value).unwrap();
            request.headers_mut().append(name, value);
        }
        request
    };
    for (request, expected) in [
        (with(1, "te", "trailers"), 200),
        (with(1, "x", &"x".repeat(70_000)), 431),
        (with(1_500, "x-many", &"y".repeat(40)), 431),
    ] {
        let mut came = StreamResult::default();
        caller.receive(request, "", &mut came).await.unwrap();
        assert_eq!(came.status, Some(expected));
    }
    // Trailers are ignored.
    let mut sender = caller.sender.clone().ready().await.unwrap();
    let (response, mut body) = sender
        .send_request(request("POST", "/v1/agents"), false)
        .unwrap();
    body.send_data(Bytes::from_static(AGENT.as_bytes()), false)
        .unwrap();
    let mut trailers = http::HeaderMap::new();
    trailers.insert("x-service-key", HeaderValue::from_static("other"));
    body.send_trailers(trailers).unwrap();
    assert_eq!(response.await.unwrap().status(), 201);
}

/// The server ends a connection whose client cancels many requests immediately (rapid reset).
#[tokio::test]
async fn rapid_reset_ends_the_connection() {
    let sandbox = Sandbox::builder().start().unwrap();
    let caller = Http2::connect(&sandbox).await;
    let mut given_up = 0;
    while let Ok(mut sender) = caller.sender.clone().ready().await {
        let Ok((_, mut body)) = sender.send_request(request("GET", "/v1/deals/d_1"), false) else {
            break;
        };
        body.send_reset(Reason::CANCEL);
        given_up += 1;
        assert!(given_up < 1_000_000, "it goes on");
        tokio::task::yield_now().await;
    }
    let error = caller.ended.await.unwrap().unwrap_err();
    assert_eq!(error.reason(), Some(Reason::ENHANCE_YOUR_CALM), "{error}");
    assert_serving(&sandbox);
}

// ---- clients that do not read or write ----------------------------------------------------

/// The timeout ends the connection of a client with a closed window that answers no pings.
#[tokio::test]
async fn unread_responses_end_at_the_timeout() {
    let sandbox = Sandbox::builder().head_timeout(SHORT).start().unwrap();
    let mut beneath = connect(&sandbox);
    let stream = beneath.try_clone().unwrap();
    stream.set_nonblocking(true).unwrap();
    let stream = tokio::net::TcpStream::from_std(stream).unwrap();
    let mut settings = Builder::new();
    settings.initial_window_size(0);
    let (mut sender, mut connection) = settings.handshake::<_, Bytes>(stream).await.unwrap();
    let (response, _) = sender
        .send_request(request("GET", "/v1/deals/d_1"), true)
        .unwrap();
    tokio::select! {
        response = response => assert_eq!(response.unwrap().status(), 200),
        ended = &mut connection => panic!("{ended:?}"),
    }
    beneath.set_nonblocking(false).unwrap();
    std::io::copy(&mut beneath, &mut std::io::sink()).unwrap();
    assert_serving(&sandbox);
}

/// The maximum number of streams, each with an almost complete body.
///
/// Each body has its timeout, and their memory is limited by the number of streams and the maximum body. A connection that
/// receives a body is not idle, and stays open afterwards.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn slow_bodies_on_all_streams() {
    let server = Running::quiet(&[
        "--body-timeout",
        "1",
        "--head-timeout",
        "0.3",
        "--max-body-bytes",
        "65536",
    ]);
    let before = server.memory("VmHWM");
    let mut caller = Http2::connect(&server).await;
    let mut streams = Vec::new();
    for _ in 0..128 {
        let mut sender = caller.sender.clone().ready().await.unwrap();
        let request = request("POST", "/v1/agents");
        let (response, mut body) = sender.send_request(request, false).unwrap();
        body.send_data(Bytes::from(vec![b' '; 64_000]), false)
            .unwrap();
        streams.push((response, body));
    }
    assert_serving(&server);
    for (response, _) in streams {
        assert_eq!(response.await.unwrap().status(), 408);
    }
    let came = caller.send("GET", "/v1/deals/d_1", "").await;
    assert_eq!(came.status, Some(200));
    // Twice 64 KiB on 128 streams, plus 16 MiB for everything else.
    let taken = server.memory("VmHWM").saturating_sub(before);
    assert!(taken < 32 << 20, "{} MiB", taken >> 20);
}

#[tokio::test]
async fn an_idle_connection_gets_goaway() {
    let sandbox = Sandbox::builder().head_timeout(SHORT).start().unwrap();
    let stream = tokio::net::TcpStream::connect(sandbox.address())
        .await
        .unwrap();
    let (sender, mut connection) = h2::client::handshake(stream).await.unwrap();
    // Pings do not keep a connection open.
    let mut pings = connection.ping_pong().unwrap();
    let pings = tokio::spawn(async move { while pings.ping(h2::Ping::opaque()).await.is_ok() {} });
    // Closing without GOAWAY would be an error.
    let ended = timeout(HANG, connection).await;
    ended.expect("it stays open").unwrap();
    pings.await.unwrap();
    drop(sender);
}

/// After the rejection of a request, the server discards the rest of its body, and the connection continues.
#[tokio::test]
async fn a_rejected_body_ends_only_its_stream() {
    let sandbox = Sandbox::builder().max_body_bytes(1_000).start().unwrap();
    let mut caller = Http2::connect(&sandbox).await;
    for declared in [true, false] {
        let mut request = request("POST", "/v1/agents");
        if declared {
            let length = HeaderValue::from_static("3000000");
            request.headers_mut().insert("content-length", length);
        }
        let mut sender = caller.sender.clone().ready().await.unwrap();
        let (response, mut body) = sender.send_request(request, false).unwrap();
        body.send_data(Bytes::from(vec![b' '; 2_000]), false)
            .unwrap();
        assert_eq!(response.await.unwrap().status(), 413);

        // Much larger than the window, so it can be sent only if the server reads it.
        body.send_data(Bytes::from(vec![b' '; 2_998_000]), true)
            .unwrap();
        let is_read = async {
            while body.capacity() > 0 {
                tokio::task::yield_now().await;
            }
        };
        timeout(HANG, is_read).await.expect("the body is read");
        let came = caller.send("GET", "/v1/deals/d_1", "").await;
        assert_eq!(came.status, Some(200));
    }
}

// ---- shutdown -------------------------------------------------------------------------------------------

/// Large responses in flight at the shutdown arrive completely if the client keeps sending window updates.
#[tokio::test]
async fn shutdown_completes_responses_in_flight() {
    let text = format!(
        r#"{{"id": "big", "external_id": "{}"}}"#,
        "x".repeat(6_000_000)
    );
    for round in 0..5 {
        let sandbox = Sandbox::builder().deals([text.as_str()]).start().unwrap();
        let address = sandbox.address();
        let mut settings = Builder::new();
        settings.initial_window_size(1 << 20);
        settings.initial_connection_window_size(4 << 20);
        let Http2 { sender, ended } = Http2::connect_with(address, &settings).await;
        let mut sender = sender.ready().await.unwrap();
        let mut bodies = Vec::new();
        for _ in 0..8 {
            let request = request("GET", "/v1/deals/big");
            let (response, _) = sender.send_request(request, true).unwrap();
            bodies.push(response.await.unwrap().into_body());
        }
        // All responses are in flight and incomplete.
        let ending = thread::spawn(move || sandbox.shutdown());
        let readers = bodies.into_iter().map(|mut body| {
            tokio::spawn(async move {
                let mut length = 0;
                while let Some(data) = body.data().await {
                    let data = data.unwrap_or_else(|error| panic!("{length} bytes, then {error}"));
                    length += data.len();
                    body.flow_control().release_capacity(data.len()).unwrap();
                }
                length
            })
        });
        for reader in readers.collect::<Vec<_>>() {
            assert_eq!(reader.await.unwrap(), text.len(), "round {round}");
        }
        drop(sender);
        ended.await.unwrap().unwrap();
        ending.join().unwrap();
    }
}

/// Builds a request to the control interface, which requires the host localhost.
fn local(path: &str) -> http::Request<()> {
    let mut request = request("GET", path);
    *request.uri_mut() = format!("http://localhost{path}").parse().unwrap();
    request
}

/// Two clients that answer pings: one keeps its window closed, the other reads a single byte of each body.
#[tokio::test]
async fn unread_bodies_end_their_connection() {
    let sandbox = Sandbox::builder().head_timeout(SHORT).start().unwrap();
    for window in [0, 1] {
        let mut settings = Builder::new();
        settings.initial_window_size(window);
        let Http2 { sender, ended } = Http2::connect_with(&sandbox, &settings).await;
        let mut sender = sender.ready().await.unwrap();
        let mut unread = Vec::new();
        for path in ["/v1/deals/d_1", "/__sandbox/openapi.json"] {
            let (response, _) = sender.send_request(local(path), true).unwrap();
            let response = response.await.unwrap();
            assert_eq!(response.status(), 200);
            unread.push(response);
        }
        let ended = timeout(HANG, ended).await;
        assert!(ended.is_ok(), "{window}: it stays open");
    }
    assert_serving(&sandbox);
}

/// Unread response bodies and request bodies share a memory budget. Bodies shared with the store do not count.
#[tokio::test]
async fn unread_bodies_have_a_budget() {
    let sandbox = Sandbox::builder()
        .max_buffered_bytes(30_000)
        .head_timeout(HANG);
    let sandbox = sandbox.start().unwrap();
    let mut settings = Builder::new();
    settings.initial_window_size(0);
    let caller = Http2::connect_with(&sandbox, &settings).await;
    let mut sender = caller.sender.ready().await.unwrap();
    let mut unread = Vec::new();
    for (path, count, expected) in [
        ("/__sandbox/openapi.json", 10, [200].as_slice()),
        ("/v1/deals/d_1", 10, &[200]),
        ("/__sandbox/deals", 10, &[200, 503]),
    ] {
        let mut statuses = Vec::new();
        for _ in 0..count {
            let (response, _) = sender.send_request(local(path), true).unwrap();
            let response = response.await.unwrap();
            statuses.push(response.status().as_u16());
            unread.push(response);
        }
        statuses.dedup();
        assert_eq!(statuses, expected, "{path}");
        sender = sender.ready().await.unwrap();
    }
    drop(unread);
}
