//! Responses with the status of a success that no client should take for one.

use dealkit::{ErrorKind, Method, Outcome};

use crate::peer::{BOTH, FINE, KEY, Peer, Protocol, Step, ada};

/// A service whose every response has exactly this header beside its length, and this body; then the connection ends.
fn peer(protocol: Protocol, status: u16, header: (&'static str, &str), body: &str) -> Peer {
    let length = ("content-length", body.len().to_string());
    let headers = vec![length, (header.0, header.1.to_owned())];
    let script = vec![
        Step::Hear,
        Step::Head(status, headers),
        Step::Body(body.into(), true),
        Step::End,
    ];
    Peer::start(protocol, vec![script])
}

/// Neither a GET nor a POST takes it for a success, and neither is retried; a caller who asks for it does.
#[tokio::test]
async fn what_nobody_asked_for_is_no_success() {
    for protocol in BOTH {
        for (status, header, told, asks) in [
            (
                206,
                ("content-range", "bytes 0-1/9"),
                "206",
                Some(("Range", "bytes=0-1")),
            ),
            (205, ("x-none", ""), "205", None),
            (
                200,
                ("content-encoding", "gzip"),
                "content-encoding gzip, which",
                Some(("Accept-Encoding", "gzip")),
            ),
            (
                200,
                ("content-encoding", &format!("x-{KEY}")),
                "content-encoding x-[service key], which",
                None,
            ),
        ] {
            let body = if status == 205 { "" } else { FINE };
            let peer = peer(protocol, status, header, body);
            // One client for each, because the peer closes the connection after each response without saying so.
            for error in [
                peer.client().deals().retrieve("x_1").await.unwrap_err(),
                peer.client().agents().create(ada()).await.unwrap_err(),
            ] {
                assert_eq!(
                    (error.kind(), error.outcome()),
                    (ErrorKind::Decode, Outcome::Succeeded)
                );
                assert_eq!(
                    (error.status().unwrap().as_u16(), error.attempts()),
                    (status, 1)
                );
                let decode = error.decode_error().unwrap();
                assert_eq!((decode.path(), decode.body()), ("", body.as_bytes()));
                assert!(error.to_string().contains(told), "{error}");
                assert!(!format!("{error:?} {decode:?}").contains(KEY), "{error:?}");
            }
            if let Some((name, value)) = asks {
                let call = peer.client().request(Method::GET, ["x"]);
                assert_eq!(call.header(name, value).await.unwrap().body(), FINE);
            }
        }
        for (method, coding) in [
            (Method::GET, "Identity"),
            (Method::GET, ""),
            (Method::HEAD, "gzip"),
        ] {
            let body = if method == Method::HEAD { "" } else { FINE };
            let peer = peer(protocol, 200, ("content-encoding", coding), body);
            peer.client().request(method, ["x"]).await.unwrap();
        }
    }
}
