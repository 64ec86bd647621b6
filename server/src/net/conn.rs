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

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, Version, header};
use hyper::{
    body::{Body, Incoming},
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::{
    io::AsyncWriteExt,
    net::TcpStream,
    time::{Instant, sleep, timeout_at},
};
use tokio_rustls::{TlsAcceptor, rustls::ServerConfig};
use tokio_util::{either::Either, sync::CancellationToken};

use crate::{
    config::SandboxBuilder,
    contract::request_id,
    net::{
        access_log::AccessLog,
        body::{self, Breaks, SandboxBody, UnsentBodies},
        break_off::{BreakOff, Fate, broken},
        reporter::Reporter,
        stream::{self, DISCARD_BYTES, Socket, Stream, lingering_close},
        tls,
    },
    sandbox::{How, fault::Play},
    service::Service,
    state::room::Room,
};

/// How many requests one HTTP/2 connection may have in flight.
const MAX_STREAMS: u32 = 128;

/// The least buffer that hyper takes.
const MIN_BUFFER: usize = 8_192;

/// What HTTP/2 with prior knowledge begins with (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// What a handshake of TLS begins with: the type of its record (RFC 8446, section 5.1).
const HANDSHAKE: &[u8] = &[22];

/// What every connection of a server shares.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) service: Service,
    pub(crate) log: AccessLog,
    /// For request and response bodies. Without this limit, a thousand connections with a hundred streams each could hold a
    /// body of the maximum size in every stream.
    pub(crate) bodies: Room,
    pub(crate) tls: Option<Arc<ServerConfig>>,
    pub(crate) settings: SandboxBuilder,
}

/// What the exchanges on one connection share: each that is in flight has it.
#[derive(Debug)]
struct Connection {
    shared: Arc<Shared>,
    is_http2: bool,
    begun: AtomicU64,
    unsent: Arc<UnsentBodies>,
    stopping: CancellationToken,
    /// Set by an exchange in which the connection is to break off.
    breaks: Arc<Breaks>,
    /// When the time is over for the body that the last exchange of an HTTP/1.1 connection left unread.
    unread_until: OnceLock<Instant>,
}

/// Serves a connection until it ends or times out, or until it was asked to stop and nothing is in flight.
pub(crate) async fn serve(tcp: TcpStream, shared: Arc<Shared>, stopping: CancellationToken) {
    let opened = tokio::select! {
        biased;
        opened = open(tcp, &shared) => opened,
        () = asked_to_stop(&stopping) => return,
    };
    let (mut socket, is_http2) = match opened {
        Ok(opened) => opened,
        Err(Some(refused)) => return lingering_close(refused, None).await,
        Err(None) => return,
    };
    let connection = Arc::new(Connection {
        is_http2,
        begun: AtomicU64::new(0),
        unsent: Arc::default(),
        stopping: stopping.clone(),
        breaks: Arc::default(),
        unread_until: OnceLock::new(),
        shared,
    });
    let shared = &connection.shared;
    let exchange = service_fn(|request| exchange(request, Arc::clone(&connection)));
    // Borrowed, so that the stream is still there at the end.
    let io = TokioIo::new(&mut socket);
    let was_idle = if is_http2 {
        let serving = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(shared.settings.head_timeout)
            .keep_alive_timeout(shared.settings.head_timeout)
            .max_concurrent_streams(MAX_STREAMS)
            .max_header_list_size(u32::try_from(shared.settings.max_head_bytes).unwrap_or(u32::MAX))
            .serve_connection(io, exchange);
        connection.drive(serving, |it| it.graceful_shutdown()).await
    } else {
        let serving = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(shared.settings.head_timeout)
            .max_header_size(shared.settings.max_head_bytes)
            .max_buf_size(shared.settings.max_head_bytes.max(MIN_BUFFER))
            .serve_connection(io, exchange);
        connection.drive(serving, |it| it.graceful_shutdown()).await
    };
    let breaks = connection.breaks.borrow().clone();
    if let Some(what) = breaks {
        tokio::select! {
            biased;
            () = what.carry_out(socket, shared.settings.head_timeout) => {}
            () = asked_to_stop(&stopping) => {}
        }
    // The caller may still be sending: the rest of a refused request, whatever follows a head that hyper found
    // malformed, or more requests than it was told will be answered. An idle caller is not sending, or there would be
    // unread bytes.
    } else if !was_idle || stream::has_unread(&socket) {
        lingering_close(socket, connection.unread_until.get().copied()).await;
    }
}

/// The connection, once it is encrypted if it is to be, and whether it speaks HTTP/2. All of that may take as long as a head.
///
/// # Errors
/// When there is nothing to serve; with the connection, if its caller may still be there.
async fn open(tcp: TcpStream, shared: &Shared) -> Result<(Socket, bool), Option<Stream>> {
    let deadline = Instant::now() + shared.settings.head_timeout;
    let expected = shared.tls.as_ref().map_or(PREFACE, |_| HANDSHAKE);
    let begins = timeout_at(deadline, stream::begins_with(&tcp, expected)).await;
    let mut stream = stream::with_write_timeout(tcp, shared.settings.head_timeout);
    let is_expected = match begins {
        Ok(Ok(is_expected)) => is_expected,
        Ok(Err(_)) => return Err(None),
        // Silence, or a part of the preface, which is still unread.
        Err(_) => return Err(Some(stream)),
    };
    let Some(tls) = &shared.tls else {
        return Ok((Either::Left(stream), is_expected));
    };
    if !is_expected {
        let _ = stream.write_all(tls::NOT_TLS.as_bytes()).await;
        return Err(Some(stream));
    }
    let handshake = TlsAcceptor::from(Arc::clone(tls)).accept(stream);
    match timeout_at(deadline, handshake.into_fallible()).await {
        Ok(Ok(encrypted)) => {
            let is_http2 = encrypted.get_ref().1.alpn_protocol() == Some(b"h2");
            Ok((Either::Right(Box::new(encrypted)), is_http2))
        }
        // The caller has been told why.
        Ok(Err((_, stream))) => Err(Some(stream)),
        Err(_) => Err(None),
    }
}

/// Resolves once the server was asked to stop and whatever had arrived by then could be read: a `select!` over both
/// (`biased`, the connection first) sees a request that was already there before it stops.
async fn asked_to_stop(stopping: &CancellationToken) {
    stopping.cancelled().await;
    // The thread that waits for the timer first dispatches the events of all sockets. A task that only yields may resume before that,
    // while another thread of the runtime is about to dispatch them.
    sleep(Duration::from_millis(1)).await;
}

impl Connection {
    /// Serves until the connection ends or is to break off. `stop` tells it to take no further requests: when the server
    /// stops, or over HTTP/2 when it was idle for long. Whether it ended because it was idle then.
    ///
    /// Over HTTP/2, a caller can keep its window closed and answer pings forever, so that hyper never ends the connection, not
    /// even after `stop`. The connection ends when its unsent bodies make no progress, or when it was idle again after `stop`.
    async fn drive<S>(self: &Arc<Self>, serving: S, stop: impl Fn(Pin<&mut S>)) -> bool
    where
        S: Future<Output = hyper::Result<()>>,
    {
        let mut serving = pin!(serving);
        let mut breaks = self.breaks.subscribe();
        let mut is_ending = false;
        loop {
            tokio::select! {
                biased;
                _ = serving.as_mut() => return false,
                _ = breaks.wait_for(Option::is_some) => return false,
                () = self.stalled(), if self.is_http2 => return false,
                () = self.idle(), if self.is_http2 => {
                    if is_ending {
                        return false;
                    }
                }
                () = asked_to_stop(&self.stopping), if !is_ending => {}
            }
            is_ending = true;
            // Over HTTP/2, this sends GOAWAY, so that a request that is just being sent is known not to have been acted on.
            stop(serving.as_mut());
            let first = poll_fn(|cx| Poll::Ready(serving.as_mut().poll(cx)));
            if let Poll::Ready(ended) = first.await {
                return ended.is_ok();
            }
        }
    }

    /// Resolves when unsent bodies have made no progress for as long as a response may stay unread, or up to twice as long.
    async fn stalled(&self) {
        loop {
            let progress = self.unsent.progress();
            sleep(self.shared.settings.head_timeout).await;
            if progress.is_some() && self.unsent.progress() == progress {
                return;
            }
        }
    }

    /// Resolves when no request has been in flight for as long as an idle connection is kept, or up to twice as long.
    async fn idle(self: &Arc<Self>) {
        let is_idle = || Arc::strong_count(self) == 1;
        loop {
            let (was_idle, begun) = (is_idle(), self.begun.load(Ordering::Relaxed));
            sleep(self.shared.settings.head_timeout).await;
            if was_idle && is_idle() && self.begun.load(Ordering::Relaxed) == begun {
                return;
            }
        }
    }
}

/// One request and its response. hyper drops this when the caller has gone.
async fn exchange(
    request: Request<Incoming>,
    connection: Arc<Connection>,
) -> io::Result<Response<SandboxBody>> {
    let shared = &connection.shared;
    connection.begun.fetch_add(1, Ordering::Relaxed);
    let (head, mut body) = request.into_parts();
    let service = &shared.service;
    let mut seen = Reporter::begin(service, &shared.log, head);
    let deadline = seen.began + shared.settings.body_timeout;

    let mut unread = !body.is_end_stream();
    let checked = service.check_head(&seen.caller, &seen.head);
    let read = if checked.needs_body() || seen.fault.is_some() {
        let limit = shared.settings.max_body_bytes;
        let read = body::read(&mut body, limit, deadline, &shared.bodies).await;
        unread &= read.is_err();
        read
    } else {
        Ok((Bytes::new(), None))
    };
    let mut reserved = None;
    let mut response = match read {
        // A request that has not arrived whole fails by itself.
        Err(refusal) => service.respond(&seen.caller, checked, Err(refusal)),
        Ok((bytes, taken)) => {
            // The response to a create is about as large as its request.
            reserved = taken;
            seen.body = bytes;
            if let Some(fault) = seen.fault.clone() {
                drop(checked);
                // Boxed: it is rare, and must not make every exchange larger.
                match Box::pin(fail(&fault, &mut seen, &connection)).await? {
                    Fate::Response(response) => response,
                    Fate::Cut(response, bytes, how) => {
                        let breaks = Arc::clone(&connection.breaks);
                        return Ok(body::cut(response, bytes, how, breaks));
                    }
                    Fate::Lost(_) => return Err(broken()),
                }
            } else {
                if let Some(wait) = checked.wait() {
                    let stopping = &connection.stopping;
                    // Boxed for the same reason.
                    Box::pin(stopping.run_until_cancelled(wait)).await;
                }
                service.respond(&seen.caller, checked, Ok(&seen.body))
            }
        }
    };

    // What follows a refused CONNECT may be meant for a tunnel, and must not be taken for the next request.
    let is_tunnel = seen.head.method == Method::CONNECT;
    if unread || is_tunnel {
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
    if !connection.is_http2 && response.body().len() <= body::PIECE {
        // The write timeout ends a connection whose caller does not read, and a thousand of these bodies are small.
        seen.responded(&response);
        return Ok(body::of(response));
    }
    // Bodies that the store has, too, take no memory of their own.
    if reserved.is_none() && response.body().is_unique() {
        reserved = shared.bodies.take(response.body().len());
        if reserved.is_none() {
            response = body::busy().into_response(&request_id::of(&seen.head.headers));
        }
    }
    seen.responded(&response);
    Ok(body::observed(response, reserved, &connection.unsent))
}

/// Makes a fault happen to a request, once all of the request has arrived. If the whole connection is to break off, it ends,
/// and this with it.
async fn fail(fault: &Play, seen: &mut Reporter<'_>, connection: &Connection) -> io::Result<Fate> {
    let what = match Fate::of(fault, seen).await {
        Fate::Lost(what) => what,
        Fate::Cut(response, bytes, how) if !connection.is_http2 => {
            BreakOff::within(response, bytes, how)
        }
        fate => return Ok(fate),
    };
    match what.how {
        How::Reset if connection.is_http2 => return Err(broken()),
        // The caller ends it.
        How::Stall if connection.is_http2 => {}
        _ => drop(connection.breaks.send_replace(Some(what))),
    }
    pending().await
}
