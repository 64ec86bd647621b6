//! One connection: its protocol, its timeouts, and how it ends.

use std::{
    convert::Infallible,
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
    time::{Instant, timeout, timeout_at},
};

use crate::{
    access_log::AccessLog,
    body::{self, BodyError, Budget, ResponseBody},
    crowd::{Crowd, Place},
    preface::{self, Protocol, Replay},
    service::{Admitted, HeadCheck, Service},
};

/// How much of a body that nobody wants is read, so that its sender gets to read the response.
const DISCARD_BYTES: usize = 8 * 1024 * 1024;

/// From this many bytes on, a body is read and answered on a thread of its own: it can take milliseconds, in which
/// the other connections would wait.
const LARGE_BODY: usize = 32 * 1024;

/// How long a caller gets at least to read a response that ends the connection, even when the body timeout is
/// over.
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
    /// When the time for the body is over that is left unread after the last exchange of an HTTP/1.1 connection.
    unread_until: OnceLock<Instant>,
}

/// Serves `stream` until it ends, times out, or is asked to stop, all connections by `stopping` or this one by its
/// `place`, and nothing is in flight.
pub(crate) async fn serve(
    stream: TcpStream,
    shared: Arc<Shared>,
    place: Arc<Place>,
    mut stopping: watch::Receiver<bool>,
) {
    let connection = Arc::new(Connection {
        place,
        unread_until: OnceLock::new(),
        shared,
    });
    let detecting = timeout(connection.shared.head_timeout, preface::detect(stream));
    let detected = tokio::select! {
        biased;
        detected = detecting => detected,
        () = asked_to_stop(&mut stopping) => return,
        () = asked_to_leave(&connection.place) => return,
    };
    // Silence, an end before the first request, or a broken connection: nobody to answer.
    let Ok(Ok(Some((protocol, io)))) = detected else {
        return;
    };
    match protocol {
        Protocol::Http1 => http1(io, connection, stopping).await,
        Protocol::Http2 => http2(io, connection, stopping).await,
    }
}

/// Resolves when the server was asked to stop, and not before what had arrived by then could be read: whoever
/// waits for both (`biased`, the connection first) sees a request that was there before it stops.
async fn asked_to_stop(stopping: &mut watch::Receiver<bool>) {
    // The sender is gone only when everything is about to be dropped.
    let _ = stopping.wait_for(|stopping| *stopping).await;
    tokio::task::yield_now().await;
}

/// The same for this connection, which makes room for others.
async fn asked_to_leave(place: &Place) {
    place.is_asked_to_leave().await;
    tokio::task::yield_now().await;
}

/// Resolves when nothing has gone forward for `limit`, or for less and others wait.
async fn idle_for_too_long(place: &Place, limit: Duration) {
    tokio::select! {
        () = place.idle.expired(limit) => {}
        () = asked_to_leave(place) => {}
    }
}

async fn http1(
    io: Replay<TcpStream>,
    connection: Arc<Connection>,
    mut stopping: watch::Receiver<bool>,
) {
    let Connection { shared, place, .. } = &*connection;
    // Boxed, for the stream to be given back at its end.
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
    let stream = parts.io.into_inner().into_inner();
    // The caller may still be sending: the rest of a refused request, whatever follows a head that hyper found
    // malformed, or more requests than it was told will be answered. One that is idle is not, or it would show.
    if ended.is_err() || !is_idle || has_unread(&stream) {
        lingering_close(stream, connection.unread_until.get().copied()).await;
    }
}

/// Whether the system holds bytes of the caller that nobody has read. Known on Unix only.
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
    mut io: Replay<TcpStream>,
    connection: Arc<Connection>,
    mut stopping: watch::Receiver<bool>,
) {
    let Connection { shared, place, .. } = &*connection;
    let exchange = service_fn(|request| exchange(request, Arc::clone(&connection)));
    // Lent, for the stream to be given back at its end.
    let serving = http2::Builder::new(TokioExecutor::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(u32::try_from(shared.max_head_bytes).unwrap_or(u32::MAX))
        .serve_connection(TokioIo::new(&mut io), exchange);
    {
        let mut serving = pin!(serving);
        let mut is_stopping = false;
        loop {
            tokio::select! {
                biased;
                _ = serving.as_mut() => break,
                () = idle_for_too_long(place, shared.head_timeout) => {
                    // Say goodbye, so that a request that is just being sent is known not to have been acted on.
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
    }
    // A caller that is still receiving a response goes on sending window updates.
    lingering_close(io.into_inner(), None).await;
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
            // The runtime is ending, and this task with it.
            Err(_) => std::future::pending().await,
        },
    }
}

/// One request and its response.
async fn exchange(
    request: Request<Incoming>,
    connection: Arc<Connection>,
) -> Result<Response<ResponseBody>, Infallible> {
    let began = Instant::now();
    let Connection { shared, place, .. } = &*connection;
    let in_flight = place.idle.request();
    let receiving = place.idle.receive();
    let (head, mut body) = request.into_parts();
    let deadline = began + shared.body_timeout;
    let service = &shared.service;

    let mut unread = !body.is_end_stream();
    let mut response = match service.check_head(&head) {
        HeadCheck::Done(early) => early,
        HeadCheck::Admitted(admitted) => {
            let mut share = shared.bodies.share();
            match body::read(&mut body, service.max_body_bytes(), deadline, &mut share).await {
                Ok(body) => {
                    unread = false;
                    respond(service, admitted, body).await
                }
                Err(BodyError::TooLarge) => service.too_large(&admitted),
                Err(BodyError::TimedOut) => service.timed_out(&admitted),
                Err(BodyError::Broken) => service.broken_body(&admitted),
                Err(BodyError::NoRoom) => service.no_room_for_body(&admitted),
            }
        }
    };

    // What follows a refused CONNECT may be meant for a tunnel, and must not be taken for the next request.
    let is_h2 = head.version == Version::HTTP_2;
    if unread || head.method == Method::CONNECT {
        if is_h2 {
            // The other requests of the connection go on; this one's body is read beside them.
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
    shared.log.record(&head, &response, began.elapsed());
    in_flight.progress();
    Ok(response.map(|body: Bytes| ResponseBody::new(body, in_flight)))
}
