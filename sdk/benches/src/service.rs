//! A service on a thread of its own that gives everybody the same responses: bare hyper with fixed bodies.

use std::{convert::Infallible, net::SocketAddr, sync::Arc};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::{
    body::Incoming,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    runtime::{self, Handle, Runtime},
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, pki_types::PrivateKeyDer},
};

use crate::document::{TYPICAL, deal};

/// The service key that the benchmarks send. It is not checked here.
pub const KEY: &str = "sandbox-key";

const AGENT: &str = r#"{"id":"a_1","email":"ada@example.com","first_name":"Ada","last_name":"Lovelace","date_of_birth":null,"current_brokerage_id":null,"profile":{"tier":"A"},"role_assignments":[{"role":"AGENT","office_id":"o_1"}]}"#;

/// The protocol of a port.
#[derive(Clone, Copy)]
enum Protocol {
    Http1,
    Http2,
}

/// Where the service listens.
#[derive(Debug)]
pub struct Service {
    /// HTTP/1.1.
    pub http1: SocketAddr,
    /// HTTP/2 with prior knowledge.
    pub http2: SocketAddr,
    /// HTTP/1.1 over TLS.
    pub tls_http1: SocketAddr,
    /// HTTP/2 over TLS.
    pub tls_http2: SocketAddr,
    /// The certificate that clients are to trust, in PEM.
    pub certificate: String,
}

impl Service {
    /// Starts the service, on one thread.
    pub fn start() -> Self {
        Self::start_on(1)
    }

    /// The same, with the connections of HTTP/1.1 without TLS spread over `threads` threads in turn.
    pub fn start_on(threads: usize) -> Self {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = signing_key.serialize_der();
        let acceptor = |protocol: &[u8]| {
            let key = PrivateKeyDer::Pkcs8(key.clone().into());
            let mut config = ServerConfig::builder()
                .with_no_client_auth()
                .with_single_cert(vec![cert.der().clone()], key)
                .unwrap();
            config.alpn_protocols = vec![protocol.to_vec()];
            Some(TlsAcceptor::from(Arc::new(config)))
        };
        let (over_http1, over_http2) = (acceptor(b"http/1.1"), acceptor(b"h2"));
        let listeners = [(); 4].map(|()| {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            listener.set_nonblocking(true).unwrap();
            listener
        });
        let [http1, http2, tls_http1, tls_http2] =
            [0, 1, 2, 3].map(|n: usize| listeners[n].local_addr().unwrap());
        let others = (1..threads).map(|_| runtime_of_a_thread()).collect();
        std::thread::spawn(move || {
            let runtime = current_thread();
            let [http1, http2, tls_http1, tls_http2] = listeners;
            runtime.block_on(async {
                tokio::join!(
                    serve(http1, Protocol::Http1, None, others),
                    serve(http2, Protocol::Http2, None, Vec::new()),
                    serve(tls_http1, Protocol::Http1, over_http1, Vec::new()),
                    serve(tls_http2, Protocol::Http2, over_http2, Vec::new()),
                );
            });
        });
        Self {
            http1,
            http2,
            tls_http1,
            tls_http2,
            certificate: cert.pem(),
        }
    }
}

fn current_thread() -> Runtime {
    runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

/// A runtime with a thread of its own.
fn runtime_of_a_thread() -> Handle {
    let runtime = current_thread();
    let handle = runtime.handle().clone();
    std::thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
    handle
}

/// Serves on this runtime and on the others in turn.
async fn serve(
    listener: std::net::TcpListener,
    protocol: Protocol,
    acceptor: Option<TlsAcceptor>,
    mut runtimes: Vec<Handle>,
) {
    let listener = TcpListener::from_std(listener).unwrap();
    let deal = Bytes::from(deal(TYPICAL));
    runtimes.push(Handle::current());
    let mut turns = runtimes.iter().cycle();
    while let Ok((stream, _)) = listener.accept().await {
        stream.set_nodelay(true).unwrap();
        let (acceptor, deal) = (acceptor.clone(), deal.clone());
        // A socket belongs to the runtime that it was made in.
        let stream = stream.into_std().unwrap();
        turns.next().unwrap().spawn(async move {
            let stream = TcpStream::from_std(stream).unwrap();
            match acceptor {
                None => serve_one(stream, protocol, deal).await,
                Some(acceptor) => {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        serve_one(stream, protocol, deal).await;
                    }
                }
            }
        });
    }
}

async fn serve_one(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    protocol: Protocol,
    deal: Bytes,
) {
    let respond = service_fn(move |request: Request<Incoming>| {
        let deal = deal.clone();
        async move {
            let (status, body) = if request.method() == Method::POST {
                let _ = request.into_body().collect().await;
                (StatusCode::CREATED, Bytes::from_static(AGENT.as_bytes()))
            } else {
                (StatusCode::OK, deal)
            };
            let response = Response::builder()
                .status(status)
                .header(header::CONTENT_TYPE, "application/json")
                .body(Full::new(body));
            Ok::<_, Infallible>(response.unwrap())
        }
    });
    let stream = TokioIo::new(stream);
    // It does not matter here if a client hangs up.
    let _ = match protocol {
        Protocol::Http1 => {
            http1::Builder::new()
                .serve_connection(stream, respond)
                .await
        }
        Protocol::Http2 => {
            http2::Builder::new(TokioExecutor::new())
                .serve_connection(stream, respond)
                .await
        }
    };
}
