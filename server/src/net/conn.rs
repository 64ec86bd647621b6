//! One connection: its protocol, its timeouts, and how it ends.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    sync::{Arc, OnceLock},
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
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::watch,
    time::{Instant, sleep, timeout, timeout_at},
};

use crate::{
    net::{
        access_log::AccessLog,
        body::{self, Budget, ResponseBody},
        break_off::{self, BreakOff, BreakSwitch, ResetStream, StreamEnd},
        crowd::{Crowd, Place},
        preface::{self, Protocol, Replay},
        recording::Recording,
        turns::{InTurns, Turns},
    },
    sandbox::{
        Cut, How,
        fault::{Effect, Play},
        reading::InChunks,
    },
    service::{Admitted, HeadCheck, Service},
};

/// How much of an unwanted body is read, so that its sender gets to read the response.
const DISCARD_BYTES: usize = 8 * 1024 * 1024;

/// A body of at least this many bytes is parsed and answered on a thread of its own: it can take milliseconds, during
/// which the other connections would wait.
const LARGE_BODY: usize = 32 * 1024;

/// The least time that a caller gets to read a response that ends the connection, even when the body timeout is over.
const CLOSE_GRACE: Duration = Duration::from_secs(1);

/// How many requests one HTTP/2 connection may have in flight.
const MAX_STREAMS: u32 = 128;

/// What every connection of a server shares.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) service: Service,
    pub(crate) log: AccessLog,
    pub(crate) bodies: Budget,
    pub(crate) crowd: Crowd,
    pub(crate) max_head_bytes: usize,
    pub(crate) head_timeout: Duration,
    pub(crate) body_timeout: Duration,
}

/// What the exchanges on one connection share.
#[derive(Debug)]
struct Connection {
    shared: Arc<Shared>,
    place: Arc<Place>,
    /// Turned on by an exchange in which the connection is to break off.
    breaks: Arc<BreakSwitch>,
    /// When the time is over for the body that the last exchange of an HTTP/1.1 connection left unread.
    unread_until: OnceLock<Instant>,
}

/// Serves `stream` until it ends or times out, or until it was asked to stop and nothing is in flight. `stopping` asks
/// all connections to stop, and `place` only this one.
pub(crate) async fn serve(
    stream: TcpStream,
    shared: Arc<Shared>,
    turns: Turns,
    place: Arc<Place>,
    mut stopping: watch::Receiver<bool>,
) {
    let connection = Arc::new(Connection {
        place,
        breaks: Arc::default(),
        unread_until: OnceLock::new(),
        shared,
    });
    let detecting = timeout(
        connection.shared.head_timeout,
        preface::detect(InTurns::new(stream, turns)),
    );
    let detected = tokio::select! {
        biased;
        detected = detecting => detected,
        () = asked_to_stop(&mut stopping) => return,
        () = asked_to_leave(&connection.place) => return,
    };
    // Silence, an end before the first request, or a broken connection: there is nobody to answer.
    let Ok(Ok(Some((protocol, io)))) = detected else {
        return;
    };
    match protocol {
        Protocol::Http1 => http1(io, connection, stopping).await,
        Protocol::Http2 => http2(io, connection, stopping).await,
    }
}

/// Resolves once the server was asked to stop and whatever had arrived by then could be read: a `select!` over both
/// (`biased`, the connection first) sees a request that was already there before it stops.
async fn asked_to_stop(stopping: &mut watch::Receiver<bool>) {
    // The sender is gone only when everything is about to be dropped.
    let _ = stopping.wait_for(|stopping| *stopping).await;
    tokio::task::yield_now().await;
}

/// The same for this connection, when it is to make room for others.
async fn asked_to_leave(place: &Place) {
    place.is_asked_to_leave().await;
    tokio::task::yield_now().await;
}

/// Resolves after `limit` without progress, or sooner if the connection is asked to make room for others.
async fn idle_for_too_long(place: &Place, limit: Duration) {
    tokio::select! {
        () = place.idle.expired(limit) => {}
        () = asked_to_leave(place) => {}
    }
}

async fn http1(
    io: Replay<InTurns>,
    connection: Arc<Connection>,
    mut stopping: watch::Receiver<bool>,
) {
    let Connection { shared, place, .. } = &*connection;
    // Boxed, so that the stream can be taken back at the end.
    let exchange = service_fn(|request| Box::pin(exchange(request, Arc::clone(&connection))));
    let mut serving = http1::Builder::new()
        .half_close(true)
        .header_read_timeout(None)
        .max_buf_size(shared.max_head_bytes)
        .serve_connection(TokioIo::new(io), exchange);

    let mut is_stopping = false;
    let mut is_idle = false;
    let ended = loop {
        tokio::select! {
            biased;
            ended = poll_fn(|cx| serving.poll_without_shutdown(cx)) => break ended,
            // An exchange runs within `serving`, which was polled just now.
            what = poll_fn(|_| connection.breaks.poll_on()) => {
                let stream = tcp(serving.into_parts().io.into_inner());
                return break_off(what, stream, shared, &mut stopping).await;
            }
            () = place.idle.expired(shared.head_timeout) => return,
            () = asked_to_stop(&mut stopping), if !is_stopping => {}
            () = asked_to_leave(place), if !is_stopping => {}
        }
        is_stopping = true;
        Pin::new(&mut serving).graceful_shutdown();
        if let Poll::Ready(ended) =
            poll_fn(|cx| Poll::Ready(serving.poll_without_shutdown(cx))).await
        {
            is_idle = true;
            break ended;
        }
    };
    let parts = serving.into_parts();
    let stream = tcp(parts.io.into_inner());
    // The caller may still be sending: the rest of a refused request, whatever follows a head that hyper found
    // malformed, or more requests than it was told will be answered. An idle caller is not sending, or there would be
    // unread bytes.
    if ended.is_err() || !is_idle || has_unread(&stream) {
        lingering_close(stream, connection.unread_until.get().copied()).await;
    }
}

/// The connection itself.
fn tcp(io: Replay<InTurns>) -> TcpStream {
    io.into_inner().into_inner()
}

/// Breaks the connection off, or ends it if the server stops in the meantime.
async fn break_off(
    what: BreakOff,
    stream: TcpStream,
    shared: &Shared,
    stopping: &mut watch::Receiver<bool>,
) {
    tokio::select! {
        biased;
        () = what.carry_out(stream, shared.head_timeout) => {}
        () = asked_to_stop(stopping) => {}
    }
}

/// Whether the system holds bytes from the caller that nobody has read. Known on Unix only.
fn has_unread(stream: &TcpStream) -> bool {
    #[cfg(unix)]
    {
        rustix::io::ioctl_fionread(stream).is_ok_and(|length| length > 0)
    }
    #[cfg(not(unix))]
    {
        let _ = stream;
        false
    }
}

/// Ends a connection whose caller may still be sending: closing at once would make the system answer the
/// rest with a reset, which destroys a response that the caller has not read yet. A caller with nothing to send
/// closes when it sees the end, and so ends the waiting.
async fn lingering_close(mut stream: TcpStream, deadline: Option<Instant>) {
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
    mut io: Replay<InTurns>,
    connection: Arc<Connection>,
    mut stopping: watch::Receiver<bool>,
) {
    let Connection { shared, place, .. } = &*connection;
    let exchange = service_fn(|request| exchange(request, Arc::clone(&connection)));
    // Borrowed, so that the stream is still there at the end.
    let serving = http2::Builder::new(TokioExecutor::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(u32::try_from(shared.max_head_bytes).unwrap_or(u32::MAX))
        .serve_connection(TokioIo::new(&mut io), exchange);
    let breaks = {
        let mut serving = pin!(serving);
        let mut is_stopping = false;
        loop {
            tokio::select! {
                biased;
                _ = serving.as_mut() => break None,
                what = connection.breaks.on() => break Some(what),
                () = idle_for_too_long(place, shared.head_timeout) => {
                    // Send GOAWAY, so that a request that is just being sent is known not to have been acted on.
                    serving.as_mut().graceful_shutdown();
                    let _ = timeout(CLOSE_GRACE, serving).await;
                    return;
                }
                () = asked_to_stop(&mut stopping), if !is_stopping => {
                    is_stopping = true;
                    serving.as_mut().graceful_shutdown();
                }
            }
        }
    };
    if let Some(what) = breaks {
        return break_off(what, tcp(io), shared, &mut stopping).await;
    }
    // A caller that is still receiving a response goes on sending window updates.
    lingering_close(tcp(io), None).await;
}

/// Ends the HTTP/1.1 connection after `response`, and says so in it.
fn close_after(response: &mut Response<Bytes>) {
    response
        .headers_mut()
        .insert(header::CONNECTION, HeaderValue::from_static("close"));
}

/// The response to a request whose body has arrived.
async fn respond(service: &Service, admitted: Admitted<'_>, body: Bytes) -> Response<Bytes> {
    if body.len() < LARGE_BODY {
        return service.respond(&admitted, &body);
    }
    let (service, admitted) = (service.clone(), admitted.into_owned());
    let responding = tokio::task::spawn_blocking(move || service.respond(&admitted, &body));
    match responding.await {
        Ok(response) => response,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down, and this task with it.
            Err(_) => std::future::pending().await,
        },
    }
}

/// One request and its response. An error is for HTTP/2 only: it resets the stream.
async fn exchange(
    request: Request<Incoming>,
    connection: Arc<Connection>,
) -> Result<Response<ResponseBody>, ResetStream> {
    let Connection { shared, place, .. } = &*connection;
    let in_flight = place.idle.request();
    let receiving = place.idle.receive();
    let (head, mut body) = request.into_parts();
    let service = &shared.service;
    let mut seen = Recording::begin(service, &shared.log, head);
    let deadline = seen.began + shared.body_timeout;

    let mut unread = !body.is_end_stream();
    let mut end = None;
    let mut response = if let Some(fault) = seen.fault.clone() {
        // Boxed: it is rare, and must not make every exchange larger.
        let failing = Box::pin(fail(&fault, &mut seen, &mut body, &connection));
        let failed = failing.await?;
        (unread, end) = (failed.unread, failed.end);
        failed.response
    } else {
        match service.check_head(&seen.head) {
            HeadCheck::Done(early) => early,
            HeadCheck::Admitted(admitted) => {
                let mut share = shared.bodies.share();
                match body::read(&mut body, service.max_body_bytes(), deadline, &mut share).await {
                    Ok(body) => {
                        unread = false;
                        seen.body = body.clone();
                        respond(service, admitted, body).await
                    }
                    Err(error) => service.without_body(&admitted, error),
                }
            }
        }
    };

    // What follows a refused CONNECT may be meant for a tunnel, and must not be taken for the next request.
    let is_h2 = seen.head.version == Version::HTTP_2;
    if unread || seen.head.method == Method::CONNECT {
        if is_h2 {
            // The other requests of the connection go on; this one's body is read alongside them.
            tokio::spawn(async move {
                let _receiving = receiving;
                body::discard(body, DISCARD_BYTES, deadline).await;
            });
        } else {
            // `lingering_close` reads the rest once the response is out, so that a caller that waits for
            // `100 Continue` is not told to go on.
            close_after(&mut response);
            let _ = connection.unread_until.set(deadline);
        }
    } else if !is_h2 && shared.crowd.is_waiting() {
        close_after(&mut response);
    }
    seen.responded(&response);
    in_flight.progress();
    let is_in_chunks = response.extensions().get::<InChunks>().is_some();
    Ok(response.map(|body: Bytes| {
        let mut body = ResponseBody::new(body, in_flight);
        if is_in_chunks {
            body = body.in_odd_pieces();
        }
        match end {
            Some(end) => body.ending_in(end),
            None => body,
        }
    }))
}

/// The response to a request that a fault happens to.
struct Failed {
    response: Response<Bytes>,
    /// Whether a part of the request's body is left unread.
    unread: bool,
    /// How it breaks off, over HTTP/2.
    end: Option<StreamEnd>,
}

/// Makes a fault happen to a request, once all of the request has arrived. Over HTTP/1.1, a connection that breaks off
/// takes this future with it.
async fn fail(
    fault: &Play,
    seen: &mut Recording<'_>,
    body: &mut Incoming,
    connection: &Connection,
) -> Result<Failed, ResetStream> {
    let Connection { shared, breaks, .. } = connection;
    let service = &shared.service;
    let deadline = seen.began + shared.body_timeout;
    let mut share = shared.bodies.share();
    match body::read(body, service.max_body_bytes(), deadline, &mut share).await {
        Ok(body) => seen.body = body,
        // A request that has not arrived whole fails by itself.
        Err(error) => {
            let response = match service.check_head(&seen.head) {
                HeadCheck::Done(early) => early,
                HeadCheck::Admitted(admitted) => service.without_body(&admitted, error),
            };
            return Ok(Failed {
                response,
                unread: true,
                end: None,
            });
        }
    }
    if !fault.delay.is_zero() {
        seen.announce();
        sleep(fault.delay).await;
    }

    let is_http2 = seen.head.version == Version::HTTP_2;
    if let Some(what) = BreakOff::before_response(&fault.effect) {
        seen.lost(None);
        return if is_http2 {
            break_stream_off(what, breaks).await
        } else {
            breaks.end_here(what).await
        };
    }
    let mut response = match &fault.effect {
        Effect::Respond(made_up) => service.made_up(&seen.head, made_up),
        _ => service.answer(&seen.head, &seen.body),
    };
    let mut end = None;
    match fault.effect {
        Effect::ActThenReset => seen.lost(Some(&response)),
        Effect::Cut {
            at: Cut::InHead, ..
        } if is_http2 => seen.lost(Some(&response)),
        Effect::Cut {
            at: Cut::AfterBytes(bytes),
            how,
        } if is_http2 => {
            // The declared length stays that of the whole body.
            let length = response.body().len();
            response
                .headers_mut()
                .entry(header::CONTENT_LENGTH)
                .or_insert_with(|| length.into());
            response = response.map(|body| break_off::first(&body, bytes));
            end = Some(StreamEnd::new(how, Arc::clone(breaks)));
        }
        Effect::Cut { .. } => seen.responded(&response),
        _ => {}
    }
    if end.is_none() && matches!(fault.effect, Effect::ActThenReset | Effect::Cut { .. }) {
        let what = BreakOff::within(&response, &fault.effect);
        return if is_http2 {
            break_stream_off(what, breaks).await
        } else {
            breaks.end_here(what).await
        };
    }
    Ok(Failed {
        response,
        unread: false,
        end,
    })
}

/// Breaks off an HTTP/2 stream on which nothing has been sent.
async fn break_stream_off(what: BreakOff, breaks: &BreakSwitch) -> Result<Failed, ResetStream> {
    match what.how() {
        How::Reset => Err(ResetStream),
        // The caller ends it.
        How::Stall => std::future::pending().await,
        How::Eof => breaks.end_here(what).await,
    }
}
