//! The contract's vectors over sockets, with hyper as the client: HTTP/1.1 and HTTP/2.

use std::collections::BTreeMap;

use crate::support::{
    KEY, LOCALHOST, Received, check_request, request_cases, request_parts, start_with_limits,
    tls_client_config,
};
use bytes::Bytes;
use dealkit_server::Sandbox;
use http::{Request, Response, Version, header};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, client::conn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_util::either::Either;

/// Sends `request`, whose URI has no host, on a new connection, with TLS if the sandbox has it.
async fn send(sandbox: &Sandbox, version: Version, mut request: Request<Full<Bytes>>) -> Received {
    let address = sandbox.address();
    let tcp = TcpStream::connect(address).await.unwrap();
    let stream = TokioIo::new(if sandbox.ca_pem().is_none() {
        Either::Left(tcp)
    } else {
        let protocol = match version {
            Version::HTTP_2 => "h2",
            _ => "http/1.1",
        };
        let connector = TlsConnector::from(tls_client_config(sandbox, &[protocol]));
        Either::Right(connector.connect(LOCALHOST.into(), tcp).await.unwrap())
    });
    let response = if version == Version::HTTP_2 {
        let target = request.uri().path_and_query().unwrap();
        *request.uri_mut() = format!("http://{address}{target}").parse().unwrap();
        let (mut sender, connection) = conn::http2::handshake(TokioExecutor::new(), stream)
            .await
            .unwrap();
        tokio::spawn(connection);
        collect(sender.send_request(request).await.unwrap()).await
    } else {
        request
            .headers_mut()
            .insert(header::HOST, address.to_string().parse().unwrap());
        let (mut sender, connection) = conn::http1::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        collect(sender.send_request(request).await.unwrap()).await
    };
    assert_eq!(response.version(), version);
    response.into()
}

async fn collect(response: Response<Incoming>) -> Response<Bytes> {
    let (head, body) = response.into_parts();
    Response::from_parts(head, body.collect().await.unwrap().to_bytes())
}

async fn request_vectors(version: Version, is_encrypted: bool) {
    let mut sandboxes = BTreeMap::new();
    for case in request_cases(false) {
        let sandbox = sandboxes
            .entry(case["limits"].to_string())
            .or_insert_with(|| start_with_limits(&case, is_encrypted));
        let (method, target, headers, body) = request_parts(&case);
        let mut request = Request::builder().method(method).uri(target);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::from(body)).unwrap();
        check_request(&case, &send(sandbox, version, request).await);
    }
}

// TLS does not change the parsing of requests, so each version is tested either with or without it.

#[tokio::test]
async fn request_vectors_over_http_1() {
    request_vectors(Version::HTTP_11, false).await;
}

#[tokio::test]
async fn request_vectors_over_http_2_and_tls() {
    request_vectors(Version::HTTP_2, true).await;
}

#[tokio::test]
async fn a_head_response_has_the_length_of_the_body() {
    let sandbox = Sandbox::builder().start().unwrap();
    for version in [Version::HTTP_11, Version::HTTP_2] {
        for (id, key) in [("d_1", KEY), ("d_1", "wrong"), ("unknown", KEY)] {
            let [get, head] = ["GET", "HEAD"].map(|method| {
                let request = Request::builder()
                    .method(method)
                    .uri(format!("/v1/deals/{id}"));
                let request = request
                    .header("x-service-key", key)
                    .header("x-request-id", "same-length");
                send(&sandbox, version, request.body(Full::default()).unwrap())
            });
            let (get, head) = (get.await, head.await);
            assert_eq!(head.status, get.status);
            assert_eq!(
                head.header("content-length").unwrap(),
                get.body.len().to_string()
            );
            assert!(head.body.is_empty() && !get.body.is_empty());
        }
    }
}
