//! HTTP/2 as its callers see it: limits, timeouts, and how a connection ends. The rules of the frames are h2's.

use std::{thread, time::Duration};

use crate::support::{
    AGENT, HANG, connect,
    http2::{Came, Http2, request},
    process::Running,
    served,
};
use bytes::Bytes;
use dealkit_server::Sandbox;
use h2::{Reason, client::Builder};
use http::HeaderValue;
use tokio::time::timeout;

const SHORT: Duration = Duration::from_millis(300);

/// Each on one connection, which goes on.
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
        let mut came = Came::default();
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

/// Requests that are given up at once make the server end the connection, instead of working for nobody.
#[tokio::test]
async fn rapid_reset_is_cut_short() {
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
    served(&sandbox);
}

// ---- callers that do not take or give what they could ----------------------------------------------------

/// A caller with a window of zero, which answers no pings either: the timeout ends the connection.
#[tokio::test]
async fn responses_that_nobody_takes_end_at_the_timeout() {
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
    served(&sandbox);
}

/// As many bodies at once as a connection may have, each almost complete.
///
/// Each has its timeout, and their memory is bounded by the number of streams and the limit of a body. A connection that
/// receives a body is not idle, and goes on afterwards.
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
    served(&server);
    for (response, _) in streams {
        assert_eq!(response.await.unwrap().status(), 408);
    }
    let came = caller.send("GET", "/v1/deals/d_1", "").await;
    assert_eq!(came.status, Some(200));
    // Twice the 64 KiB on 128 streams, and 16 MiB for everything else.
    let taken = server.memory("VmHWM").saturating_sub(before);
    assert!(taken < 32 << 20, "{} MiB", taken >> 20);
}

#[tokio::test]
async fn an_idle_connection_is_told_before_it_ends() {
    let sandbox = Sandbox::builder().head_timeout(SHORT).start().unwrap();
    let stream = tokio::net::TcpStream::connect(sandbox.address())
        .await
        .unwrap();
    let (sender, mut connection) = h2::client::handshake(stream).await.unwrap();
    // Pings are not requests: they do not keep a connection open.
    let mut pings = connection.ping_pong().unwrap();
    let pings = tokio::spawn(async move { while pings.ping(h2::Ping::opaque()).await.is_ok() {} });
    // An end without GOAWAY would be an error.
    let ended = timeout(HANG, connection).await;
    ended.expect("it stays open").unwrap();
    pings.await.unwrap();
    drop(sender);
}

/// A request is refused before its body has arrived.
///
/// The rest of its stream is discarded, and the connection continues with everything else.
#[tokio::test]
async fn a_refused_body_ends_its_stream_and_not_the_connection() {
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

        // Far more than a window: it can be sent only if somebody reads it.
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

// ---- the end -------------------------------------------------------------------------------------------

/// Large responses in flight when the server is asked to stop arrive complete, to a caller that keeps sending window
/// updates until the last byte.
#[tokio::test]
async fn shutdown_completes_what_is_in_flight() {
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
        // All are in flight, and none is complete.
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

/// A request for a path that only programs on this machine may use.
fn local(path: &str) -> http::Request<()> {
    let mut request = request("GET", path);
    *request.uri_mut() = format!("http://localhost{path}").parse().unwrap();
    request
}

/// A caller that answers pings, but keeps its window closed, and one that takes a single byte of each body.
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
    served(&sandbox);
}

/// Unread bodies share a memory budget with request bodies. Bodies that the store has anyway take none of it.
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
