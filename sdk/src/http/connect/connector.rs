//! How a connection is made: TCP, a proxy's tunnel if there is one, and TLS.

use std::{
    error::Error,
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::future::BoxFuture;
use http::{Uri, uri::Scheme};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::{
    client::legacy::connect::{Connected, Connection, HttpConnector, proxy::Tunnel},
    rt::TokioIo,
};
use tokio::{sync::watch, time::timeout};
use tower_service::Service;

#[cfg(feature = "rustls-no-provider")]
use crate::http::connect::tls::Handshake;
use crate::http::connect::{fair::Fair, progress, proxy::Proxy};

type BoxError = Box<dyn Error + Send + Sync>;

/// How often an idle connection is probed, and how many probes or how much unacknowledged data may go unanswered, before
/// the system gives it up.
const TCP_KEEPALIVE: Duration = Duration::from_secs(15);
const TCP_PROBES: u32 = 3;
#[cfg(target_os = "linux")]
const TCP_UNACKNOWLEDGED: Duration = Duration::from_secs(30);

/// Makes the connections of a pool. Cheap to clone: the pool clones it with every request.
#[derive(Clone)]
pub(crate) struct Connector(Arc<Shared>);

struct Shared {
    /// To the service itself, or through the proxy's tunnel.
    service: Direct,
    proxy: Option<(Proxy, Direct)>,
    time_limit: Duration,
    /// Closed with the pool, so that no connection is made for nobody: until it is made, the pool's idle connections
    /// stay open as well.
    pool: watch::Receiver<()>,
}

impl Connector {
    /// A connector that gives up after `time_limit`, and when the sender of `pool` is dropped.
    pub(crate) fn new(
        #[cfg(feature = "rustls-no-provider")] tls: &rustls::ClientConfig,
        proxy: Option<Proxy>,
        time_limit: Duration,
        pool: watch::Receiver<()>,
    ) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(time_limit));
        tcp.set_keepalive(Some(TCP_KEEPALIVE));
        tcp.set_keepalive_interval(Some(TCP_KEEPALIVE));
        tcp.set_keepalive_retries(Some(TCP_PROBES));
        #[cfg(target_os = "linux")]
        tcp.set_tcp_user_timeout(Some(TCP_UNACKNOWLEDGED));
        let service = Direct {
            tcp,
            #[cfg(feature = "rustls-no-provider")]
            tls: Handshake::new(tls.clone()),
        };
        let proxy = proxy.map(|proxy| {
            let direct = Direct {
                tcp: service.tcp.clone(),
                #[cfg(feature = "rustls-no-provider")]
                tls: Handshake::new(tls.clone()).without_http2(),
            };
            (proxy, direct)
        });
        Self(Arc::new(Shared {
            service,
            proxy,
            time_limit,
            pool,
        }))
    }
}

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Stream, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, service: Uri) -> Self::Future {
        let shared = Arc::clone(&self.0);
        Box::pin(progress::connecting(async move {
            let mut pool = shared.pool.clone();
            tokio::select! {
                made = timeout(shared.time_limit, shared.connect(service)) => {
                    made.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into()))
                }
                _ = pool.changed() => Err("the client was closed".into()),
            }
        }))
    }
}

impl Shared {
    async fn connect(&self, service: Uri) -> Result<Stream, BoxError> {
        let Some((proxy, direct)) = &self.proxy else {
            return self.service.clone().connect(&service).await;
        };
        if !is_https(&service) {
            let mut stream = direct.clone().connect(proxy.uri()).await?;
            stream.is_to_proxy = true;
            return Ok(stream);
        }
        let mut tunnel = Tunnel::new(proxy.uri().clone(), direct.clone());
        if let Some(authorization) = proxy.authorization() {
            tunnel = tunnel.with_auth(authorization.clone());
        }
        let stream = tunnel.call(service.clone()).await?;
        self.service.secured(stream, &service).await
    }
}

/// Makes connections without a proxy in between.
#[derive(Clone)]
struct Direct {
    tcp: HttpConnector,
    #[cfg(feature = "rustls-no-provider")]
    tls: Handshake,
}

impl Direct {
    async fn connect(&mut self, to: &Uri) -> Result<Stream, BoxError> {
        let tcp = self.tcp.call(to.clone()).await?.into_inner();
        let stream = Stream::new(TokioIo::new(Fair::new(tcp)));
        if is_https(to) {
            return self.secured(stream, to).await;
        }
        Ok(stream)
    }

    #[cfg(feature = "rustls-no-provider")]
    async fn secured(&self, stream: Stream, to: &Uri) -> Result<Stream, BoxError> {
        let (secured, is_http2) = self.tls.with(TokioIo::new(stream), to).await?;
        let mut stream = Stream::new(TokioIo::new(secured));
        stream.is_http2 = is_http2;
        Ok(stream)
    }

    #[cfg(not(feature = "rustls-no-provider"))]
    #[allow(clippy::unused_self, clippy::unused_async, reason = "as with TLS")]
    async fn secured(&self, _: Stream, _: &Uri) -> Result<Stream, BoxError> {
        Err("dealkit was built without TLS".into())
    }
}

/// As the connector below a proxy's tunnel.
impl Service<Uri> for Direct {
    type Response = Stream;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Stream, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let mut this = self.clone();
        Box::pin(async move { this.connect(&to).await })
    }
}

fn is_https(uri: &Uri) -> bool {
    uri.scheme() == Some(&Scheme::HTTPS)
}

/// A connection, with or without TLS.
pub(crate) struct Stream {
    io: Box<dyn Io>,
    is_http2: bool,
    /// Whether it leads to a proxy that passes on requests, rather than to the service.
    is_to_proxy: bool,
}

trait Io: Read + Write + Send + Unpin {}

impl<T: Read + Write + Send + Unpin> Io for T {}

impl Stream {
    fn new(io: impl Io + 'static) -> Self {
        Self {
            io: Box::new(io),
            is_http2: false,
            is_to_proxy: false,
        }
    }
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        let connected = Connected::new().proxy(self.is_to_proxy);
        if self.is_http2 {
            connected.negotiated_h2()
        } else {
            connected
        }
    }
}

impl Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl Write for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, buffer)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}
