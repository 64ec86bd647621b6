//! One connection: its protocol, its timeouts, and how it ends.

use std::{
    future::{pending, poll_fn},
    io,
    pin::{Pin, pin},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    task::Poll,
    time::Duration,
};

use http::{HeaderValue, Method, Request, Response, StatusCode, Version, header};
use hyper::{
    body::{Body, Incoming},
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    sync::watch,
    task::yield_now,
    time::{Instant, sleep, timeout, timeout_at},
};
use tokio_rustls::{TlsAcceptor, rustls::ServerConfig};

use crate::{
    net::{
        access_log::AccessLog,
        body::{self, Breaks, SandboxBody},
        break_off::{self, BreakOff, Fate, broken},
        reporter::Reporter,
        stream::{self, Caller, Socket, Spoken, Stream},
        tls,
    },
    sandbox::{How, fault::Play},
    service::Service,
    state::room::Room,
};

/// How much of an unwanted body is read, so that its sender gets to read the response.
const DISCARD_BYTES: usize = 8 * 1024 * 1024;

/// The least time that a caller gets to read a response that ends the connection, even when the body timeout is over.
const CLOSE_GRACE: Duration = Duration::from_secs(1);

/// How many requests one HTTP/2 connection may have in flight.
const MAX_STREAMS: u32 = 128;

/// What every connection of a server shares.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) service: Service,
    pub(crate) log: AccessLog,
    /// For request bodies. Without this limit, a thousand connections with a hundred streams each could hold a body of the
    /// maximum size in every stream.
    pub(crate) bodies: Room,
    /// How connections are encrypted, if they are.
    pub(crate) tls: Option<Arc<ServerConfig>>,
    pub(crate) max_head_bytes: usize,
    pub(crate) head_timeout: Duration,
    pub(crate) body_timeout: Duration,
}

/// What the exchanges on one connection share.
#[derive(Debug)]
struct Connection {
    shared: Arc<Shared>,
    caller: Caller,
    /// How many requests have begun.
    begun: AtomicU64,
    stopping: watch::Receiver<bool>,
    /// Shared by those that are in flight.
    in_flight: Arc<()>,
    /// Set by an exchange in which the connection is to break off.
    breaks: Arc<Breaks>,
    /// When the time is over for the body that the last exchange of an HTTP/1.1 connection left unread.
    unread_until: OnceLock<Instant>,
}

/// Serves a connection until it ends or times out, or until it was asked to stop and nothing is in flight.
pub(crate) async fn serve(
    tcp: TcpStream,
    shared: Arc<Shared>,
    mut stopping: watch::Receiver<bool>,
) {
    let opened = tokio::select! {
        biased;
        opened = open(tcp, &shared) => opened,
        () = asked_to_stop(&mut stopping) => return,
    };
    let (socket, is_http2) = match opened {
        Ok(opened) => opened,
        Err(Some(refused)) => return lingering_close(refused, None).await,
        Err(None) => return,
    };
    let connection = Arc::new(Connection {
        caller: stream::below(&socket).caller(),
        begun: AtomicU64::new(0),
        stopping: stopping.clone(),
        in_flight: Arc::default(),
        breaks: Arc::default(),
        unread_until: OnceLock::new(),
        shared,
    });
    if is_http2 {
        http2(socket, connection, stopping).await;
    } else {
        http1(socket, connection, stopping).await;
    }
}

/// The connection, once it is encrypted if it is to be, and whether it speaks HTTP/2. All of that may take as long as a head.
///
/// # Errors
/// When there is nothing to serve; with the connection, if its caller may still be there.
async fn open(tcp: TcpStream, shared: &Shared) -> Result<(Socket, bool), Option<Stream>> {
    let deadline = Instant::now() + shared.head_timeout;
    let spoken = timeout_at(deadline, stream::spoken(&tcp)).await;
    let mut stream = Stream::new(tcp, shared.head_timeout);
    let spoken = match spoken {
        Ok(Ok(Some(spoken))) => spoken,
        // Silence, or an end; and perhaps a part of the preface, which is still unread.
        Err(_) | Ok(Ok(None)) => return Err(Some(stream)),
        Ok(Err(_)) => return Err(None),
    };
    let Some(tls) = &shared.tls else {
        return Ok((Socket::Left(stream), spoken == Spoken::Http2));
    };
    if spoken != Spoken::Tls {
        let _ = stream.write_all(tls::NOT_TLS.as_bytes()).await;
        return Err(Some(stream));
    }
    let handshake = TlsAcceptor::from(Arc::clone(tls)).accept(stream);
    match timeout_at(deadline, handshake.into_fallible()).await {
        Ok(Ok(encrypted)) => {
            let is_http2 = encrypted.get_ref().1.alpn_protocol() == Some(b"h2");
            Ok((Socket::Right(Box::new(encrypted)), is_http2))
        }
        // The caller has been told why.
        Ok(Err((_, stream))) => Err(Some(stream)),
        Err(_) => Err(None),
    }
}

/// Resolves once the server was asked to stop and whatever had arrived by then could be read: a `select!` over both
/// (`biased`, the connection first) sees a request that was already there before it stops.
async fn asked_to_stop(stopping: &mut watch::Receiver<bool>) {
    // The sender is gone only when everything is about to be dropped.
    let _ = stopping.wait_for(|stopping| *stopping).await;
    // The runtime looks at what has arrived in between.
    yield_now().await;
}

async fn http1(socket: Socket, connection: Arc<Connection>, mut stopping: watch::Receiver<bool>) {
    let shared = &connection.shared;
    // Boxed, so that the stream can be taken back at the end.
    let exchange = service_fn(|request| Box::pin(exchange(request, Arc::clone(&connection))));
    let mut serving = http1::Builder::new()
        .half_close(true)
        .timer(TokioTimer::new())
        .header_read_timeout(shared.head_timeout)
        .max_buf_size(shared.max_head_bytes)
        .serve_connection(TokioIo::new(socket), exchange);

    let mut is_stopping = false;
    let mut is_idle = false;
    let ended = loop {
        tokio::select! {
            biased;
            ended = poll_fn(|cx| serving.poll_without_shutdown(cx)) => break ended,
            () = asked_to_stop(&mut stopping), if !is_stopping => {}
        }
        is_stopping = true;
        Pin::new(&mut serving).graceful_shutdown();
        let first = poll_fn(|cx| Poll::Ready(serving.poll_without_shutdown(cx)));
        if let Poll::Ready(ended) = first.await {
            is_idle = true;
            break ended;
        }
    };
    let mut socket = serving.into_parts().io.into_inner();
    let breaks = connection.breaks.borrow().clone();
    if let Some(what) = breaks {
        return break_off(what, socket, shared, &mut stopping).await;
    }
    // The caller may still be sending: the rest of a refused request, whatever follows a head that hyper found
    // malformed, or more requests than it was told will be answered. An idle caller is not sending, or there would be
    // unread bytes.
    if ended.is_err() || !is_idle || stream::below(&socket).has_unread() {
        lingering_close(socket, connection.unread_until.get().copied()).await;
    } else {
        let _ = timeout(CLOSE_GRACE, socket.shutdown()).await;
    }
}

/// Breaks the connection off, or ends it if the server stops in the meantime.
async fn break_off(
    what: BreakOff,
    socket: Socket,
    shared: &Shared,
    stopping: &mut watch::Receiver<bool>,
) {
    tokio::select! {
        biased;
        () = what.carry_out(socket, shared.head_timeout) => {}
        () = asked_to_stop(stopping) => {}
    }
}

/// Ends a connection whose caller may still be sending: closing at once would make the system answer the
/// rest with a reset, which destroys a response that the caller has not read yet. A caller with nothing to send
/// closes when it sees the end, and so ends the waiting.
async fn lingering_close(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    deadline: Option<Instant>,
) {
    let ending = async {
        stream.shutdown().await?;
        let mut rest = stream.take(DISCARD_BYTES as u64);
        tokio::io::copy(&mut rest, &mut tokio::io::sink()).await
    };
    let grace = Instant::now() + CLOSE_GRACE;
    let deadline = deadline.map_or(grace, |deadline| deadline.max(grace));
    let _ = timeout_at(deadline, ending).await;
}

async fn http2(
    mut socket: Socket,
    connection: Arc<Connection>,
    mut stopping: watch::Receiver<bool>,
) {
    let shared = &connection.shared;
    let exchange = service_fn(|request| exchange(request, Arc::clone(&connection)));
    // Borrowed, so that the stream is still there at the end.
    let serving = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(shared.head_timeout)
        .keep_alive_timeout(shared.head_timeout)
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(u32::try_from(shared.max_head_bytes).unwrap_or(u32::MAX))
        .serve_connection(TokioIo::new(&mut socket), exchange);
    let mut breaks = connection.breaks.subscribe();
    {
        let mut serving = pin!(serving);
        let mut is_ending = false;
        loop {
            tokio::select! {
                biased;
                _ = serving.as_mut() => break,
                _ = breaks.wait_for(Option::is_some) => break,
                () = connection.idle(), if !is_ending => {}
                () = asked_to_stop(&mut stopping), if !is_ending => {}
            }
            // Sends GOAWAY, so that a request that is just being sent is known not to have been acted on.
            is_ending = true;
            serving.as_mut().graceful_shutdown();
        }
    }
    let breaks = breaks.borrow().clone();
    match breaks {
        Some(what) => break_off(what, socket, shared, &mut stopping).await,
        // A caller that is still receiving a response goes on sending window updates.
        None => lingering_close(socket, None).await,
    }
}

impl Connection {
    /// Resolves when `wait` does, or the server is to stop.
    async fn until(&self, wait: impl Future<Output = ()>, is_http2: bool) -> io::Result<()> {
        let mut stopping = self.stopping.clone();
        tokio::select! {
            () = wait => {}
            _ = stopping.wait_for(|stopping| *stopping) => {}
            // Over HTTP/2, hyper sees it, and drops this.
            () = self.caller.gone(), if !is_http2 => return Err(broken()),
        }
        Ok(())
    }

    /// Resolves when no request has been in flight for as long as an idle connection is kept, or up to twice as long.
    async fn idle(&self) {
        let is_idle = || Arc::strong_count(&self.in_flight) == 1;
        loop {
            let (was_idle, begun) = (is_idle(), self.begun.load(Ordering::Relaxed));
            sleep(self.shared.head_timeout).await;
            if was_idle && is_idle() && self.begun.load(Ordering::Relaxed) == begun {
                return;
            }
        }
    }
}

/// One request and its response.
async fn exchange(
    request: Request<Incoming>,
    connection: Arc<Connection>,
) -> io::Result<Response<SandboxBody>> {
    let shared = &connection.shared;
    connection.begun.fetch_add(1, Ordering::Relaxed);
    let _in_flight = Arc::clone(&connection.in_flight);
    let (head, mut body) = request.into_parts();
    let service = &shared.service;
    let mut seen = Reporter::begin(service, &shared.log, head);
    let deadline = seen.began + shared.body_timeout;
    let fault = seen.fault.clone();

    let mut unread = !body.is_end_stream();
    let checked = service.check_head(&seen.caller, &seen.head);
    let mut response = if checked.needs_body() || fault.is_some() {
        let limit = service.max_body_bytes();
        let read = body::read(&mut body, limit, deadline, &shared.bodies).await;
        unread &= read.is_err();
        if let (Some(fault), Ok(body)) = (fault, &read) {
            drop(checked);
            seen.body = body.bytes.clone();
            // Boxed: it is rare, and must not make every exchange larger.
            match Box::pin(fail(&fault, &mut seen, &connection)).await? {
                Fate::Response(response) => response,
                Fate::Cut(response, bytes, how) => {
                    let breaks = Arc::clone(&connection.breaks);
                    return Ok(SandboxBody::cut(response, bytes, how, breaks));
                }
                Fate::Lost(_) => return Err(broken()),
            }
        } else {
            // A request that has not arrived whole fails by itself.
            if let (Ok(_), Some(wait)) = (&read, checked.wait()) {
                // Boxed for the same reason.
                let is_http2 = seen.head.version == Version::HTTP_2;
                Box::pin(connection.until(wait, is_http2)).await?;
            }
            let body = read.as_ref().map(|body| &body.bytes[..]);
            let response = service.respond(&seen.caller, checked, body.map_err(|error| *error));
            seen.body = read.map(|body| body.bytes).unwrap_or_default();
            response
        }
    } else {
        service.respond(&seen.caller, checked, Ok(&[]))
    };

    // What follows a refused CONNECT may be meant for a tunnel, and must not be taken for the next request.
    let is_tunnel = seen.head.method == Method::CONNECT;
    let is_too_large = response.status() == StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
    if unread || is_tunnel || is_too_large {
        if seen.head.version == Version::HTTP_2 {
            // The other requests of the connection go on; this one's body is read alongside them.
            tokio::spawn(body::discard(body, DISCARD_BYTES, deadline));
        } else {
            // `lingering_close` reads the rest once the response is out, so that a caller that waits for
            // `100 Continue` is not told to go on.
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(header::CONNECTION, close);
            let _ = connection.unread_until.set(deadline);
        }
    }
    seen.responded(&mut response);
    Ok(SandboxBody::of(response))
}

/// Makes a fault happen to a request, once all of the request has arrived. If the whole connection is to break off, it ends,
/// over HTTP/2 with this future.
async fn fail(fault: &Play, seen: &mut Reporter<'_>, connection: &Connection) -> io::Result<Fate> {
    let is_http2 = seen.head.version == Version::HTTP_2;
    if !fault.delay.is_zero() {
        seen.announce();
        tokio::select! {
            () = sleep(fault.delay) => {}
            // Over HTTP/2, hyper sees it, and drops this.
            () = connection.caller.gone(), if !is_http2 => return Err(broken()),
        }
    }
    let what = match Fate::of(fault, seen) {
        Fate::Lost(what) => what,
        Fate::Cut(mut response, bytes, how) if !is_http2 => {
            break_off::declare_length(&mut response);
            BreakOff::within(&response, bytes, how)
        }
        fate => return Ok(fate),
    };
    match what.how {
        How::Reset if is_http2 => return Err(broken()),
        // The caller ends it.
        How::Stall if is_http2 => {}
        _ => drop(connection.breaks.send_replace(Some(what))),
    }
    if is_http2 {
        pending().await
    }
    Err(broken())
}
