//! One connection: protocol detection, TLS, HTTP, timeouts, and closing.

use std::{
    future::poll_fn,
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
        apply_fault::{self, EndSignal, FaultOutcome, Transport},
        body::{self, SandboxBody, UnsentBodies},
        request_recorder::RequestRecorder,
        socket::{self, DISCARD_BYTES, Socket, Stream, lingering_close},
        tls,
    },
    service::Service,
    state::memory_budget::MemoryBudget,
};

/// Maximum number of requests in flight on an HTTP/2 connection.
const MAX_STREAMS: u32 = 128;

/// Minimum buffer size that hyper accepts.
const MIN_BUFFER: usize = 8_192;

/// First bytes of HTTP/2 with prior knowledge (RFC 9113, section 3.4).
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// First byte of a TLS handshake: the record type (RFC 8446, section 5.1).
const TLS_HANDSHAKE: &[u8] = &[22];

/// State shared by all connections of a server.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) service: Service,
    pub(crate) log: AccessLog,
    /// Limits the request and response bodies in memory. Without this limit, a thousand connections with a hundred
    /// streams each could hold a hundred thousand bodies of the maximum size.
    pub(crate) body_budget: MemoryBudget,
    pub(crate) tls: Option<Arc<ServerConfig>>,
    pub(crate) settings: SandboxBuilder,
}

/// State shared by the requests on one connection. Each request in flight holds a reference.
#[derive(Debug)]
struct Connection {
    shared: Arc<Shared>,
    is_http2: bool,
    /// The number of requests so far.
    started_count: AtomicU64,
    unsent_bodies: Arc<UnsentBodies>,
    stop_token: CancellationToken,
    /// Set by a fault that ends the connection.
    end_signal: Arc<EndSignal>,
    /// Deadline for reading the rest of a rejected body, after the last response of an HTTP/1.1 connection.
    discard_deadline: OnceLock<Instant>,
}

/// Serves a connection until the client closes it, it times out, or the server stops and no request is in flight.
pub(crate) async fn serve(tcp: TcpStream, shared: Arc<Shared>, stop_token: CancellationToken) {
    let open_result = tokio::select! {
        biased;
        open_result = open(tcp, &shared) => open_result,
        () = wait_for_stop(&stop_token) => return,
    };
    let (mut socket, is_http2) = match open_result {
        Ok(connection) => connection,
        Err(Some(stream)) => return lingering_close(stream, None).await,
        Err(None) => return,
    };
    let connection = Arc::new(Connection {
        is_http2,
        started_count: AtomicU64::new(0),
        unsent_bodies: Arc::default(),
        stop_token: stop_token.clone(),
        end_signal: Arc::default(),
        discard_deadline: OnceLock::new(),
        shared,
    });
    let shared = &connection.shared;
    let handler = service_fn(|request| handle_request(request, Arc::clone(&connection)));
    // Borrowed, because the code below closes the socket.
    let io = TokioIo::new(&mut socket);
    let was_idle = if is_http2 {
        let serving = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(shared.settings.head_timeout)
            .keep_alive_timeout(shared.settings.head_timeout)
            .max_concurrent_streams(MAX_STREAMS)
            .max_header_list_size(u32::try_from(shared.settings.max_head_bytes).unwrap_or(u32::MAX))
            .serve_connection(io, handler);
        connection
            .drive(serving, |serving| serving.graceful_shutdown())
            .await
    } else {
        let serving = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(shared.settings.head_timeout)
            .max_header_size(shared.settings.max_head_bytes)
            .max_buf_size(shared.settings.max_head_bytes.max(MIN_BUFFER))
            .serve_connection(io, handler);
        connection
            .drive(serving, |serving| serving.graceful_shutdown())
            .await
    };
    let end = connection.end_signal.borrow().clone();
    if let Some(end) = end {
        tokio::select! {
            biased;
            () = end.perform(socket, shared.settings.head_timeout) => {}
            () = wait_for_stop(&stop_token) => {}
        }
    // The client may still be sending: the rest of a rejected body, bytes after a malformed head, or further pipelined
    // requests. An idle client is not sending unless there are unread bytes.
    } else if !was_idle || socket::has_unread(&socket) {
        lingering_close(socket, connection.discard_deadline.get().copied()).await;
    }
}

/// Completes the TLS handshake, if any, and detects HTTP/2. The time limit is the head timeout.
///
/// # Errors
/// If the connection cannot be served. The error contains the connection if the client may still be connected.
async fn open(tcp: TcpStream, shared: &Shared) -> Result<(Socket, bool), Option<Stream>> {
    let deadline = Instant::now() + shared.settings.head_timeout;
    let expected = shared.tls.as_ref().map_or(HTTP2_PREFACE, |_| TLS_HANDSHAKE);
    let starts_as_expected = timeout_at(deadline, socket::starts_with(&tcp, expected)).await;
    let mut stream = socket::with_write_timeout(tcp, shared.settings.head_timeout);
    let is_expected = match starts_as_expected {
        Ok(Ok(is_expected)) => is_expected,
        Ok(Err(_)) => return Err(None),
        // The client sent nothing, or a part of the preface, which is still unread.
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
        // rustls has sent an alert with the reason.
        Ok(Err((_, stream))) => Err(Some(stream)),
        Err(_) => Err(None),
    }
}

/// Resolves after the server has been asked to stop and the runtime has dispatched the requests that had arrived by then.
///
/// A `select!` with `biased` and the connection first therefore serves those requests before it stops.
async fn wait_for_stop(stop_token: &CancellationToken) {
    stop_token.cancelled().await;
    // A timer fires only after its thread has dispatched the events of all sockets. Yielding is not enough: another thread
    // could still be about to dispatch events.
    sleep(Duration::from_millis(1)).await;
}

impl Connection {
    /// Serves until the connection ends or a fault ends it. Returns true if the connection was idle at its end.
    ///
    /// Calls `stop`, so that hyper accepts no further requests, when the server stops or an HTTP/2 connection has been idle for
    /// too long.
    ///
    /// Over HTTP/2, a client can keep its window closed and answer pings forever, so that hyper never ends the connection, not
    /// even after `stop`. This method therefore returns if unsent bodies make no progress, or if the connection is idle again
    /// after `stop`.
    async fn drive<S>(self: &Arc<Self>, serving: S, stop: impl Fn(Pin<&mut S>)) -> bool
    where
        S: Future<Output = hyper::Result<()>>,
    {
        let mut serving = pin!(serving);
        let mut end_signal = self.end_signal.subscribe();
        let mut is_stopping = false;
        loop {
            tokio::select! {
                biased;
                _ = serving.as_mut() => return false,
                _ = end_signal.wait_for(Option::is_some) => return false,
                () = self.wait_until_sending_stalls(), if self.is_http2 => return false,
                () = self.wait_until_idle_too_long(), if self.is_http2 => {
                    if is_stopping {
                        return false;
                    }
                }
                () = wait_for_stop(&self.stop_token), if !is_stopping => {}
            }
            is_stopping = true;
            // Over HTTP/2, this sends GOAWAY, which names the requests that are not processed.
            stop(serving.as_mut());
            let poll_result = poll_fn(|cx| Poll::Ready(serving.as_mut().poll(cx)));
            if let Poll::Ready(ended) = poll_result.await {
                return ended.is_ok();
            }
        }
    }

    /// Resolves when unsent bodies have made no progress for one to two head timeouts.
    async fn wait_until_sending_stalls(&self) {
        loop {
            let progress = self.unsent_bodies.progress();
            sleep(self.shared.settings.head_timeout).await;
            if progress.is_some() && self.unsent_bodies.progress() == progress {
                return;
            }
        }
    }

    /// Resolves when no request has been in flight for one to two head timeouts.
    async fn wait_until_idle_too_long(self: &Arc<Self>) {
        let is_idle = || Arc::strong_count(self) == 1;
        loop {
            let (was_idle, started_count) = (is_idle(), self.started_count.load(Ordering::Relaxed));
            sleep(self.shared.settings.head_timeout).await;
            if was_idle && is_idle() && self.started_count.load(Ordering::Relaxed) == started_count
            {
                return;
            }
        }
    }
}

/// Handles one request. hyper drops this future when the client disconnects.
async fn handle_request(
    request: Request<Incoming>,
    connection: Arc<Connection>,
) -> io::Result<Response<SandboxBody>> {
    let shared = &connection.shared;
    connection.started_count.fetch_add(1, Ordering::Relaxed);
    let (head, mut body) = request.into_parts();
    let service = &shared.service;
    let mut recorder = RequestRecorder::start(service, &shared.log, head);
    let deadline = recorder.start_time + shared.settings.body_timeout;

    let mut has_unread_body = !body.is_end_stream();
    let checked_head = service.check_head(&recorder.caller, &recorder.head);
    let selection = &recorder.selection;
    let read_result =
        if checked_head.needs_body() || selection.fault.is_some() || selection.needs_body {
            let limit = shared.settings.max_body_bytes;
            let read_result = body::read(&mut body, limit, deadline, &shared.body_budget).await;
            has_unread_body &= read_result.is_err();
            read_result
        } else {
            Ok((Bytes::new(), None))
        };
    let mut reservation = None;
    let mut response = match read_result {
        // A fault needs a complete request.
        Err(rejection) => service.respond(&recorder.caller, checked_head, Err(rejection)),
        Ok((bytes, body_reservation)) => {
            // The response reuses the reservation: the response to a create is about as large as its request.
            reservation = body_reservation;
            recorder.body = bytes;
            if recorder.selection.needs_body {
                recorder.selection =
                    service.select_fault(&recorder.caller, &recorder.head, Some(&recorder.body));
            }
            if let Some(fault) = recorder.selection.fault.clone() {
                drop(checked_head);
                let transport = match connection.is_http2 {
                    true => Transport::Http2(&connection.end_signal),
                    false => Transport::Http1(&connection.end_signal),
                };
                // Boxed, because faults are rare and must not enlarge the future of each request.
                match Box::pin(apply_fault::apply(&fault, &mut recorder, transport)).await? {
                    FaultOutcome::Complete(response) => response,
                    FaultOutcome::Cut(response) => return Ok(response),
                }
            } else {
                if let Some(wait) = checked_head.wait_for_requests() {
                    let stop_token = &connection.stop_token;
                    // Boxed, because calls that wait are rare, too.
                    Box::pin(stop_token.run_until_cancelled(wait)).await;
                }
                service.respond(&recorder.caller, checked_head, Ok(&recorder.body))
            }
        }
    };

    // Bytes after a rejected CONNECT may be meant for the tunnel; they must not be parsed as the next request.
    let is_tunnel = recorder.head.method == Method::CONNECT;
    if has_unread_body || is_tunnel {
        if recorder.head.version == Version::HTTP_2 {
            // Read the rest of this body while the connection serves its other requests.
            tokio::spawn(body::discard(body, DISCARD_BYTES, deadline));
        } else {
            // `lingering_close` reads the rest after the response is sent. Reading it now would send `100 Continue` to a
            // client that waits for it.
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(header::CONNECTION, close);
            let _ = connection.discard_deadline.set(deadline);
        }
    }
    if !connection.is_http2 && response.body().len() <= body::PART_BYTES {
        // Small enough to need no reservation. The write timeout ends the connection if the client does not read.
        recorder.record_response(&response);
        return Ok(body::to_sandbox_body(response));
    }
    // A body shared with the store uses no additional memory.
    if reservation.is_none() && response.body().is_unique() {
        reservation = shared.body_budget.reserve(response.body().len());
        if reservation.is_none() {
            response = body::busy_rejection()
                .into_response(&request_id::from_headers_or_new(&recorder.head.headers));
        }
    }
    recorder.record_response(&response);
    Ok(body::track_progress(
        response,
        reservation,
        &connection.unsent_bodies,
    ))
}
