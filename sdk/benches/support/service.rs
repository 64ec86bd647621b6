//! A service on a thread of its own that gives the same responses to everybody, plain and over TLS.

use std::{convert::Infallible, net::SocketAddr, sync::Arc};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto::Builder,
};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, pki_types::PrivateKeyDer},
};

pub(crate) const KEY: &str = "sandbox-key";

const AGENT: &str = r#"{"id":"a_1","email":"ada@example.com","first_name":"Ada","last_name":"Lovelace","date_of_birth":null,"current_brokerage_id":null,"profile":{"tier":"A"},"role_assignments":[{"role":"AGENT","office_id":"o_1"}]}"#;

/// A deal with every field: the first of the contract's vectors.
fn deal() -> Bytes {
    let vectors: serde_json::Value =
        serde_json::from_str(include_str!("../../contract/vectors/deals.json")).unwrap();
    vectors["cases"][0]["json"].to_string().into()
}

pub(crate) struct Service {
    pub(crate) plain: SocketAddr,
    pub(crate) tls: SocketAddr,
    /// The certificate that clients are to trust, in PEM.
    pub(crate) certificate: String,
}

impl Service {
    pub(crate) fn start() -> Self {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::Pkcs8(signing_key.serialize_der().into());
        let mut config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .unwrap();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let [plain, tls] = [(); 2].map(|()| {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            listener.set_nonblocking(true).unwrap();
            listener
        });
        let service = Self {
            plain: plain.local_addr().unwrap(),
            tls: tls.local_addr().unwrap(),
            certificate: cert.pem(),
        };
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                tokio::join!(serve(plain, None), serve(tls, Some(acceptor)));
            });
        });
        service
    }
}

async fn serve(listener: std::net::TcpListener, acceptor: Option<TlsAcceptor>) {
    let listener = TcpListener::from_std(listener).unwrap();
    let deal = deal();
    while let Ok((stream, _)) = listener.accept().await {
        stream.set_nodelay(true).unwrap();
        let (acceptor, deal) = (acceptor.clone(), deal.clone());
        tokio::spawn(async move {
            match acceptor {
                None => serve_one(stream, deal).await,
                Some(acceptor) => {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        serve_one(stream, deal).await;
                    }
                }
            }
        });
    }
}

async fn serve_one(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, deal: Bytes) {
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
    // A client that hangs up is no matter here.
    let _ = Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(stream), respond)
        .await;
}
