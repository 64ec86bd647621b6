//! One connection: its protocol, its deadlines, and how it ends.
//!
//! One clock covers what a caller can be slow at outside of a request body: not sending a head (also not
//! the next one, so this is the idle limit too) and not reading its answer. It starts with the connection
//! and again with each answer and each piece of an answer that is taken. hyper's own `header_read_timeout`
//! would leave HTTP/2 and answers that nobody reads without any limit.

use std::{
    convert::Infallible,
    future::poll_fn,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
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
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::watch,
    time::{Instant, sleep_until, timeout_at},
};

use crate::{
    access_log::AccessLog,
    body::{self, AnswerBody, BodyError},
    preface::{self, Protocol, Replay},
    service::{Head, Service},
};

/// How much of a body that nobody wants is read, so that its sender gets to read the answer.
const DISCARD_BYTES: usize = 8 * 1024 * 1024;

/// How long a caller gets to read an answer after which the connection ends, when the body deadline has
/// passed already.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How many requests one HTTP/2 connection may have under way.
const MAX_STREAMS: u32 = 128;

/// What every connection of a server shares.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) service: Service,
    pub(crate) log: AccessLog,
    pub(crate) max_head_bytes: usize,
    pub(crate) head_deadline: Duration,
    pub(crate) body_deadline: Duration,
}

/// Serves `stream` until it ends, a deadline passes, or `stopping` turns true and nothing is under way.
pub(crate) async fn serve(
    stream: TcpStream,
    shared: Arc<Shared>,
    mut stopping: watch::Receiver<bool>,
) {
    let pace = Arc::new(Pace::new());
    let head_deadline = pace.start + shared.head_deadline;
    let detected = tokio::select! {
        biased;
        detected = timeout_at(head_deadline, preface::detect(stream)) => detected,
        () = asked_to_stop(&mut stopping) => return,
    };
    // Silence, an end before the first request, or a broken connection: nobody to answer.
    let Ok(Ok(Some((protocol, io)))) = detected else {
        return;
    };
    match protocol {
        Protocol::Http1 => http1(io, shared, pace, stopping).await,
        Protocol::Http2 => http2(io, shared, pace, stopping).await,
    }
}

/// Resolves when the server was asked to stop, and not before what had arrived by then could be read: whoever
/// waits for both (`biased`, the connection first) sees a request that was there before it stops.
async fn asked_to_stop(stopping: &mut watch::Receiver<bool>) {
    // The sender is gone only when everything is about to be dropped.
    let _ = stopping.wait_for(|stopping| *stopping).await;
    tokio::task::yield_now().await;
}

async fn http1(
    io: Replay<TcpStream>,
    shared: Arc<Shared>,
    pace: Arc<Pace>,
    mut stopping: watch::Receiver<bool>,
) {
    let exchange = {
        let (shared, pace) = (Arc::clone(&shared), Arc::clone(&pace));
        // Boxed, for the connection to be given back at its end.
        service_fn(move |request| {
            Box::pin(exchange(request, Arc::clone(&shared), Arc::clone(&pace)))
        })
    };
    let mut connection = http1::Builder::new()
        .half_close(true)
        .header_read_timeout(None)
        .max_buf_size(shared.max_head_bytes)
        .serve_connection(TokioIo::new(io), exchange);

    let mut is_stopping = false;
    let mut is_idle = false;
    let ended = loop {
        tokio::select! {
            biased;
            ended = poll_fn(|cx| connection.poll_without_shutdown(cx)) => break ended,
            () = pace.overdue(shared.head_deadline) => return,
            () = asked_to_stop(&mut stopping), if !is_stopping => {
                is_stopping = true;
                std::pin::Pin::new(&mut connection).graceful_shutdown();
                if let Poll::Ready(ended) = poll_fn(|cx| Poll::Ready(connection.poll_without_shutdown(cx))).await {
                    is_idle = true;
                    break ended;
                }
            }
        }
    };
    let parts = connection.into_parts();
    let stream = parts.io.into_inner().into_inner();
    // The caller may still be sending: the rest of a refused request, whatever follows a head that hyper found
    // malformed, or more requests than it was told are answered. One that is idle is not, or it would show.
    if ended.is_err() || !is_idle || has_unread(&stream) {
        linger(stream, pace.unread_deadline()).await;
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
/// rest with a reset, which destroys an answer that the caller has not read yet. A caller with nothing to send
/// closes when it sees the end, and so ends the waiting.
async fn linger(mut stream: TcpStream, deadline: Instant) {
    let ending = async {
        stream.shutdown().await?;
        let mut rest = stream.take(DISCARD_BYTES as u64);
        tokio::io::copy(&mut rest, &mut tokio::io::sink()).await
    };
    let _ = timeout_at(deadline.max(Instant::now() + LAST_WORDS), ending).await;
}

async fn http2(
    mut io: Replay<TcpStream>,
    shared: Arc<Shared>,
    pace: Arc<Pace>,
    mut stopping: watch::Receiver<bool>,
) {
    let exchange = {
        let (shared, pace) = (Arc::clone(&shared), Arc::clone(&pace));
        service_fn(move |request| exchange(request, Arc::clone(&shared), Arc::clone(&pace)))
    };
    // Lent, for the connection to be given back at its end.
    let connection = http2::Builder::new(TokioExecutor::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(u32::try_from(shared.max_head_bytes).unwrap_or(u32::MAX))
        .serve_connection(TokioIo::new(&mut io), exchange);
    {
        let mut connection = pin!(connection);
        let mut is_stopping = false;
        loop {
            tokio::select! {
                biased;
                _ = connection.as_mut() => break,
                () = pace.overdue(shared.head_deadline) => {
                    // Idle: say goodbye, so that a request that is just being sent is known not to have been
                    // acted on.
                    connection.as_mut().graceful_shutdown();
                    let _ = timeout_at(Instant::now() + LAST_WORDS, connection).await;
                    return;
                }
                () = asked_to_stop(&mut stopping), if !is_stopping => {
                    is_stopping = true;
                    connection.as_mut().graceful_shutdown();
                }
            }
        }
    }
    // The caller of an answer that is still on its way goes on sending window updates.
    linger(io.into_inner(), pace.instant(0)).await;
}

/// One request and its answer.
async fn exchange(
    request: Request<Incoming>,
    shared: Arc<Shared>,
    pace: Arc<Pace>,
) -> Result<Response<AnswerBody>, Infallible> {
    let began = Instant::now();
    let receiving = Receiving::begin(&pace);
    let (head, mut body) = request.into_parts();
    let deadline = began + shared.body_deadline;
    let service = &shared.service;

    let mut unread = !body.is_end_stream();
    let mut answer = match service.check_head(&head) {
        Head::Answered(early) => early,
        Head::Admitted(admitted) => {
            match body::read(&mut body, service.max_body_bytes(), deadline).await {
                Ok(body) => {
                    unread = false;
                    service.answer(&admitted, &body)
                }
                Err(BodyError::TooLarge) => service.too_large(&admitted),
                Err(BodyError::TooSlow) => service.too_slow(&admitted),
                Err(BodyError::Broken) => service.broken_body(&admitted),
            }
        }
    };

    // What follows a refused CONNECT may be meant for a tunnel, and must not be taken for the next request.
    let is_last = unread || head.method == Method::CONNECT;
    if is_last {
        if head.version == Version::HTTP_2 {
            // The other requests of the connection go on; this one's body is read beside them.
            tokio::spawn(async move {
                let _receiving = receiving;
                body::discard(body, DISCARD_BYTES, deadline).await;
            });
        } else {
            // `linger` reads the rest once the answer is out, so that a caller that waits for
            // `100 Continue` is not told to go on.
            answer
                .headers_mut()
                .insert(header::CONNECTION, HeaderValue::from_static("close"));
            pace.leave_unread(deadline);
        }
    }
    shared.log.answered(&head, &answer, began.elapsed());
    pace.progress();
    Ok(answer.map(|body: Bytes| AnswerBody::new(body, pace)))
}

/// When something last went forward on a connection.
#[derive(Debug)]
pub(crate) struct Pace {
    start: Instant,
    /// Milliseconds from the start to the last answer, or the last piece of one that was taken.
    progressed: AtomicU64,
    /// Requests whose bodies are being read. They have their own deadline.
    receiving: AtomicUsize,
    /// Milliseconds from the start to the end of the body deadline of what is unread.
    unread_until: AtomicU64,
}

impl Pace {
    fn new() -> Self {
        Self {
            start: Instant::now(),
            progressed: AtomicU64::new(0),
            receiving: AtomicUsize::new(0),
            unread_until: AtomicU64::new(0),
        }
    }

    /// Notes that an answer, or a piece of one, was handed over.
    pub(crate) fn progress(&self) {
        self.progressed
            .store(self.offset(Instant::now()), Ordering::Relaxed);
    }

    /// Resolves when nothing has gone forward for `limit`.
    async fn overdue(&self, limit: Duration) {
        loop {
            let progressed = self.instant(self.progressed.load(Ordering::Relaxed));
            let now = Instant::now();
            let receives = self.receiving.load(Ordering::Relaxed) > 0;
            if !receives && now >= progressed + limit {
                return;
            }
            // While a body is received there is nothing to wait for yet; look again after the limit.
            sleep_until(if receives {
                now + limit
            } else {
                progressed + limit
            })
            .await;
        }
    }

    fn leave_unread(&self, deadline: Instant) {
        self.unread_until
            .store(self.offset(deadline), Ordering::Relaxed);
    }

    fn unread_deadline(&self) -> Instant {
        self.instant(self.unread_until.load(Ordering::Relaxed))
    }

    fn offset(&self, instant: Instant) -> u64 {
        let offset = instant.saturating_duration_since(self.start).as_millis();
        u64::try_from(offset).unwrap_or(u64::MAX)
    }

    fn instant(&self, offset: u64) -> Instant {
        self.start + Duration::from_millis(offset)
    }
}

/// Stands for a request whose body is being read.
struct Receiving(Arc<Pace>);

impl Receiving {
    fn begin(pace: &Arc<Pace>) -> Self {
        pace.receiving.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(pace))
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        self.0.receiving.fetch_sub(1, Ordering::Relaxed);
        self.0.progress();
    }
}
