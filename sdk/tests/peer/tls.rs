//! A TLS terminator in front of a peer, which records handshakes.

use std::{
    future::pending,
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy, copy_bidirectional, sink, split},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ALL_VERSIONS, HandshakeKind, ProtocolVersion, RootCertStore, ServerConfig,
        SupportedProtocolVersion,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
        server::WebPkiClientVerifier,
    },
    server::TlsStream,
};

pub(crate) use super::issuer::{Authority, Leaf};
use super::{Peer, Protocol, spawn_thread, wait_until_idle};

/// TLS settings of a service.
pub(crate) struct Tls<'a> {
    leaf: &'a Leaf,
    versions: &'static [&'static SupportedProtocolVersion],
    /// The authority of required client certificates.
    client_authority: Option<&'a Authority>,
    alpn: Option<&'static [&'static str]>,
    sends_close_notify: bool,
}

impl<'a> Tls<'a> {
    pub(crate) fn new(leaf: &'a Leaf) -> Self {
        Self {
            leaf,
            versions: ALL_VERSIONS,
            client_authority: None,
            alpn: None,
            sends_close_notify: true,
        }
    }

    /// Allows only these versions.
    pub(crate) fn version(mut self, only: &'static [&'static SupportedProtocolVersion]) -> Self {
        self.versions = only;
        self
    }

    /// Requires client certificates from this authority.
    pub(crate) fn require_client_certificate(mut self, authority: &'a Authority) -> Self {
        self.client_authority = Some(authority);
        self
    }

    /// Sets the offered protocols. Default: the peer's protocol.
    pub(crate) fn alpn(mut self, protocols: &'static [&'static str]) -> Self {
        self.alpn = Some(protocols);
        self
    }

    /// Closes connections without a close_notify alert.
    pub(crate) fn without_close_notify(mut self) -> Self {
        self.sends_close_notify = false;
        self
    }

    fn config(&self, protocol: Protocol) -> ServerConfig {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(self.versions)
            .unwrap();
        let builder = match self.client_authority {
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                roots.add(authority.certificate.der().clone()).unwrap();
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
            None => builder.with_no_client_auth(),
        };
        let chain = CertificateDer::pem_slice_iter(self.leaf.certificate.as_bytes());
        let key = PrivateKeyDer::from_pem_slice(self.leaf.key.as_bytes()).unwrap();
        let mut config = builder
            .with_single_cert(chain.collect::<Result<_, _>>().unwrap(), key)
            .unwrap();
        let alpn = self.alpn.unwrap_or(match protocol {
            Protocol::Http1 => &["http/1.1"],
            Protocol::Http2 => &["h2"],
        });
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        config
    }
}

/// A completed handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Handshake {
    pub(crate) is_resumed: bool,
    pub(crate) version: ProtocolVersion,
    pub(crate) alpn: Option<String>,
    pub(crate) suite: String,
    /// The client's certificate, in DER.
    pub(crate) client_certificate: Option<Vec<u8>>,
}

/// A TLS terminator in front of a peer.
pub(crate) struct TlsFront {
    pub(crate) peer: Peer,
    port: u16,
    connections: Arc<AtomicUsize>,
    handshakes: Arc<Mutex<Vec<Handshake>>>,
}

impl TlsFront {
    /// Starts the terminator on a separate thread.
    pub(crate) fn start(peer: Peer, tls: &Tls<'_>) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let terminator = Terminator {
            acceptor: TlsAcceptor::from(Arc::new(tls.config(peer.protocol))),
            sends_close_notify: tls.sends_close_notify,
            peer: peer.address(),
            handshakes: Arc::default(),
        };
        let front = Self {
            peer,
            port: listener.local_addr().unwrap().port(),
            connections: Arc::default(),
            handshakes: Arc::clone(&terminator.handshakes),
        };
        let connections = Arc::clone(&front.connections);
        spawn_thread(async move {
            let listener = TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(terminator.clone().serve(stream));
            }
        });
        front
    }

    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    pub(crate) fn url(&self) -> String {
        self.url_as("127.0.0.1")
    }

    pub(crate) fn url_as(&self, host: &str) -> String {
        format!("https://{host}:{}", self.port)
    }

    /// Starts a forwarder that delays the service's bytes until the client has sent its request, as on a slow network. It runs on
    /// the client's thread, whose runtime must be single-threaded. Returns its URL.
    pub(crate) fn delayed_url(&self) -> String {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        listener.set_nonblocking(true).unwrap();
        let front = self.address();
        tokio::spawn(async move {
            let listener = TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(forward_with_delay(stream, front));
            }
        });
        url
    }

    /// Returns the number of accepted connections, including those without a handshake.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn handshakes(&self) -> Vec<Handshake> {
        self.handshakes.lock().unwrap().clone()
    }
}

async fn forward_with_delay(mut client: TcpStream, front: SocketAddr) -> io::Result<()> {
    let service = TcpStream::connect(front).await?;
    let (mut from_service, mut to_service) = service.into_split();
    let (mut from_client, mut to_client) = client.split();
    let up = async {
        let _ = copy(&mut from_client, &mut to_service).await;
        let _ = to_service.shutdown().await;
        // Wait for `down`: the service's bytes are still delayed.
        pending().await
    };
    let down = async {
        let mut buffer = vec![0; 65_536];
        loop {
            let length = from_service.read(&mut buffer).await.unwrap_or(0);
            // Deliver the bytes only after the client has done all it can without them.
            wait_until_idle().await;
            if length == 0 {
                return to_client.shutdown().await;
            }
            to_client.write_all(&buffer[..length]).await?;
        }
    };
    tokio::select! {
        ended = down => ended?,
        ended = up => ended,
    }
    // Closing with unread bytes would reset the connection.
    copy(&mut client, &mut sink()).await.map(drop)
}

#[derive(Clone)]
struct Terminator {
    acceptor: TlsAcceptor,
    sends_close_notify: bool,
    peer: SocketAddr,
    handshakes: Arc<Mutex<Vec<Handshake>>>,
}

impl Terminator {
    async fn serve(self, stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let stream = self.acceptor.accept(stream).await?;
        let (_, tls) = stream.get_ref();
        let handshake = Handshake {
            is_resumed: tls.handshake_kind() == Some(HandshakeKind::Resumed),
            version: tls.protocol_version().unwrap(),
            alpn: tls
                .alpn_protocol()
                .map(|name| String::from_utf8(name.to_vec()).unwrap()),
            suite: format!("{:?}", tls.negotiated_cipher_suite().unwrap().suite()),
            client_certificate: tls
                .peer_certificates()
                .and_then(|chain| Some(chain.first()?.to_vec())),
        };
        self.handshakes.lock().unwrap().push(handshake);
        self.forward(stream).await
    }

    async fn forward(self, mut client: TlsStream<TcpStream>) -> io::Result<()> {
        let mut peer = TcpStream::connect(self.peer).await?;
        peer.set_nodelay(true)?;
        if self.sends_close_notify {
            return copy_bidirectional(&mut client, &mut peer).await.map(drop);
        }
        let (mut from_peer, mut to_peer) = peer.split();
        let (mut from_client, mut to_client) = split(client);
        tokio::select! {
            ended = copy(&mut from_peer, &mut to_client) => ended?,
            ended = copy(&mut from_client, &mut to_peer) => ended?,
        };
        to_client.flush().await
    }
}
