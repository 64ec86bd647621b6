//! Secure connections that cannot be made.

use std::{
    error::Error as _,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use dealkit::{Client, Error, ErrorKind, Outcome};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{
    TlsAcceptor, TlsConnector,
    rustls::{
        ClientConfig, RootCertStore, ServerConfig,
        pki_types::{CertificateDer, PrivateKeyDer},
    },
};

use crate::{
    mock::Service,
    peer::{ada, builder},
};

/// A service with a certificate that nobody has vouched for.
struct SelfSigned {
    port: u16,
    certificate: CertificateDer<'static>,
    /// How many connections were made, and how many became secure.
    connections: Arc<AtomicUsize>,
    secure: Arc<AtomicUsize>,
}

impl SelfSigned {
    async fn start() -> Self {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        let certificate = cert.der().clone();
        let key = PrivateKeyDer::Pkcs8(signing_key.serialize_der().into());
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(AtomicUsize::new(0));
        let secure = Arc::new(AtomicUsize::new(0));
        let counts = (Arc::clone(&connections), Arc::clone(&secure));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counts.0.fetch_add(1, Ordering::SeqCst);
                if acceptor.accept(stream).await.is_ok() {
                    counts.1.fetch_add(1, Ordering::SeqCst);
                }
            }
        });
        Self {
            port,
            certificate,
            connections,
            secure,
        }
    }

    fn client(&self, host: &str) -> Client {
        builder(&format!("https://{host}:{}", self.port))
            .build()
            .unwrap()
    }
}

fn check(error: &Error, told: &str) {
    assert_eq!(error.kind(), ErrorKind::Connect, "{error:?}");
    assert_eq!(error.outcome(), Outcome::NotSent);
    assert_eq!(error.attempts(), 1, "{error}");
    assert!(error.to_string().ends_with(told), "{error}");
}

#[tokio::test]
async fn a_certificate_that_is_not_trusted_is_not_tried_again() {
    let service = SelfSigned::start().await;
    let told = "no connection could be made: the service's certificate is not trusted";
    for host in ["localhost", "127.0.0.1"] {
        let client = service.client(host);
        let errors = [
            client.deals().retrieve("d_1").await.unwrap_err(),
            client.agents().create(ada()).await.unwrap_err(),
        ];
        for error in errors {
            check(&error, told);
            let cause = error.source().unwrap().to_string();
            assert!(cause.starts_with("invalid peer certificate"), "{cause}");
        }
    }
    assert_eq!(service.connections.load(Ordering::SeqCst), 4);
    assert_eq!(service.secure.load(Ordering::SeqCst), 0);

    // Whoever trusts it can speak with it.
    let mut roots = RootCertStore::empty();
    roots.add(service.certificate.clone()).unwrap();
    let config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(("127.0.0.1", service.port))
        .await
        .unwrap();
    let name = "localhost".try_into().unwrap();
    TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_port_that_does_not_speak_tls_is_not_tried_again() {
    let service = Service::answering(200, &[], "").await;
    let client = builder(&service.url().replace("http:", "https:"))
        .build()
        .unwrap();
    let errors = [
        client.deals().retrieve("d_1").await.unwrap_err(),
        client.agents().create(ada()).await.unwrap_err(),
    ];
    for error in errors {
        check(
            &error,
            "the port does not speak TLS; is its URL http:// and not https://?",
        );
    }
    assert!(service.arrived().is_empty());
}

/// A service that hangs up, as a restart does, may be there the next time.
#[tokio::test]
async fn a_handshake_that_breaks_off_is_tried_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let client = builder(&url).build().unwrap();
    let hang_up = async {
        for _ in 0..3 {
            drop(listener.accept().await.unwrap());
        }
    };
    let (outcome, ()) = tokio::join!(client.agents().create(ada()).send(), hang_up);
    let error = outcome.unwrap_err();
    assert_eq!(
        (error.kind(), error.attempts()),
        (ErrorKind::Connect, 3),
        "{error:?}"
    );
    assert_eq!(error.outcome(), Outcome::NotSent);
}
