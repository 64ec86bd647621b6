//! Responses with the status of a success that no client should take for one.

use dealkit::{Error, ErrorKind, Method, Outcome, RawResponse};

use crate::peer::{BOTH, FINE, Http1, Http2, KEY, Peer, Protocol, Step, ada};

/// The body of [`FINE`] in one chunk.
fn chunked() -> String {
    format!("{:x}\r\n{FINE}\r\n0\r\n\r\n", FINE.len())
}

/// A response with exactly these headers and this body; then the connection ends.
fn response(status: u16, headers: &[(&'static str, &str)], body: &str) -> Vec<Step> {
    let headers = headers
        .iter()
        .map(|(name, value)| (*name, (*value).to_owned()));
    vec![
        Step::Hear,
        Step::Head(status, headers.collect()),
        Step::Body(body.into(), true),
        Step::End,
    ]
}

fn peer(protocol: Protocol, status: u16, headers: &[(&'static str, &str)], body: &str) -> Peer {
    Peer::start(protocol, vec![response(status, headers, body)])
}

/// Neither a GET nor a POST takes it for a success, and neither is retried.
async fn refused(peer: Peer, status: u16, told: &str, kept: &str) {
    // One client for each, because the peer closes the connection after each response without saying so.
    let errors: [Error; 2] = [
        peer.client().deals().retrieve("x_1").await.unwrap_err(),
        peer.client().agents().create(ada()).await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Decode, "{error}");
        assert_eq!(error.outcome(), Outcome::Succeeded);
        assert_eq!(error.attempts(), 1);
        assert_eq!(error.status().unwrap(), status);
        assert_eq!(error.body(), Some(kept.as_bytes()), "{error}");
        let decode = error.decode_error().unwrap();
        assert_eq!((decode.path(), decode.body()), ("", kept.as_bytes()));
        assert!(error.to_string().contains(told), "{error}");
    }
    let other = peer.client().request(Method::GET, ["x"]).send().await;
    other.unwrap_err();
    assert_eq!(peer.finish().await.requests, 3);
}

#[tokio::test]
async fn a_reset_and_a_part_are_no_successes() {
    for protocol in BOTH {
        let length = FINE.len().to_string();
        let headers = [("content-length", &*length)];
        refused(peer(protocol, 206, &headers, FINE), 206, "206", FINE).await;
        // A 205 never has a body, whatever is sent; HTTP/1.1 has a length all the same.
        let none = [("content-length", "0")];
        refused(peer(protocol, 205, &none, ""), 205, "205", "").await;
    }
}

#[tokio::test]
async fn a_part_is_a_success_for_who_asked_for_one() {
    for protocol in BOTH {
        let length = FINE.len().to_string();
        let headers = [
            ("content-length", &*length),
            ("content-range", "bytes 0-1/9"),
        ];
        let peer = peer(protocol, 206, &headers, FINE);
        let call = peer.client().deals().retrieve("x_1");
        call.header("Range", "bytes=0-1").await.unwrap();
    }
}

#[tokio::test]
async fn of_transfer_codings_only_chunked_is_read() {
    for coding in [
        "gzip",
        "gzip, chunked",
        "chunked, gzip",
        "deflate,gzip",
        "x-odd",
        "identity",
    ] {
        let is_chunked = coding.ends_with("chunked");
        let body = if is_chunked {
            chunked()
        } else {
            FINE.to_owned()
        };
        let peer = peer(Http1, 200, &[("transfer-encoding", coding)], &body);
        refused(
            peer,
            200,
            &format!("transfer-encoding {coding}, which"),
            FINE,
        )
        .await;
    }
    let twice = [
        ("transfer-encoding", "gzip"),
        ("transfer-encoding", "chunked"),
    ];
    let peer = peer(Http1, 200, &twice, &chunked());
    refused(peer, 200, "transfer-encoding gzip, chunked, which", FINE).await;
}

#[tokio::test]
async fn chunked_is_a_success_however_it_is_written() {
    for coding in ["chunked", "Chunked", "CHUNKED"] {
        let peer = peer(Http1, 200, &[("transfer-encoding", coding)], &chunked());
        peer.client().deals().retrieve("x_1").await.unwrap();
    }
}

#[tokio::test]
async fn no_content_coding_is_read_that_nobody_asked_for() {
    for protocol in BOTH {
        let length = FINE.len().to_string();
        for coding in ["gzip", "br", "identity, gzip"] {
            let headers = [("content-length", &*length), ("content-encoding", coding)];
            let told = format!("content-encoding {coding}, which");
            refused(peer(protocol, 200, &headers, FINE), 200, &told, FINE).await;
        }
        for coding in ["identity", "Identity", ""] {
            let headers = [("content-length", &*length), ("content-encoding", coding)];
            let peer = peer(protocol, 200, &headers, FINE);
            peer.client().deals().retrieve("x_1").await.unwrap();
        }
        let headers = [("content-length", &*length), ("content-encoding", "gzip")];
        let peer = peer(protocol, 200, &headers, FINE);
        let call = peer.client().request(Method::GET, ["x"]);
        let own: RawResponse = call.header("Accept-Encoding", "gzip").await.unwrap();
        assert_eq!(own.body(), FINE);
    }
}

/// A HEAD response has no body that could be encoded.
#[tokio::test]
async fn the_headers_of_a_head_are_not_those_of_its_body() {
    let headers = [("content-length", "9"), ("content-encoding", "gzip")];
    for protocol in [Http1, Http2] {
        let peer = peer(protocol, 200, &headers, "");
        let call = peer.client().request(Method::HEAD, ["x"]);
        call.await.unwrap();
    }
}

#[tokio::test]
async fn the_key_is_masked_in_a_coding() {
    let length = FINE.len().to_string();
    let coding = format!("x-{KEY}");
    let headers = [("content-length", &*length), ("content-encoding", &*coding)];
    let peer = peer(Http1, 200, &headers, FINE);
    let error = peer.client().deals().retrieve("x_1").await.unwrap_err();
    let text = format!("{error} {error:?} {:?}", error.decode_error());
    assert!(
        text.contains("content-encoding x-[service key]") && !text.contains(KEY),
        "{text}"
    );
}
