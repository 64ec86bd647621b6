//! Request bodies with a size limit and a deadline, and response bodies in chunks or streams.

use std::{
    convert::Infallible,
    error::Error,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt as _};
use http::Response;
use http_body_util::{BodyExt as _, Either, Full, Limited, StreamBody, combinators::BoxBody};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::{Instant, timeout_at};

use crate::{
    contract::checks,
    contract::problem::{ProblemType, Rejection},
    sandbox::variant::OddChunks,
    state::memory_budget::{MemoryBudget, Reservation},
};

/// Reads a body of at most `limit` bytes until `deadline` (checks 6 and 7). Returns the bytes with their memory reservation. After
/// an error, the rest of the body is still unread in `body`.
pub(crate) async fn read(
    body: &mut Incoming,
    limit: usize,
    deadline: Instant,
    budget: &MemoryBudget,
) -> Result<(Bytes, Option<Reservation>), Rejection> {
    let read_result = timeout_at(deadline, read_all(body, limit, budget)).await;
    read_result.unwrap_or_else(|_| {
        Err(Rejection::new(
            ProblemType::BODY_TIMEOUT,
            "The whole body must arrive soon after the head. Send the request again.",
        ))
    })
}

async fn read_all(
    body: &mut Incoming,
    limit: usize,
    budget: &MemoryBudget,
) -> Result<(Bytes, Option<Reservation>), Rejection> {
    let mut bytes = BytesMut::new();
    let mut reservation: Option<Reservation> = None;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| {
            let detail = "The body was cut short, or its chunks are malformed.";
            Rejection::new(ProblemType::MALFORMED_REQUEST, detail)
        })?;
        let Ok(data) = frame.into_data() else {
            continue; // Trailers are ignored.
        };
        if data.len() > limit - bytes.len() {
            return Err(checks::body_too_large_rejection(limit));
        }
        let data_reservation = budget.reserve(data.len()).ok_or_else(busy_rejection)?;
        match &mut reservation {
            Some(reservation) => reservation.merge(data_reservation),
            None => reservation = Some(data_reservation),
        }
        bytes.extend_from_slice(&data);
    }
    Ok((bytes.freeze(), reservation))
}

/// Creates the rejection of a request while the bodies in flight exhaust their memory budget.
pub(crate) fn busy_rejection() -> Rejection {
    let detail = "The bodies in flight take all the memory that they may have together. Send the request again, or start \
                  the server with a higher --max-buffered-bytes.";
    Rejection::new(ProblemType::BUSY, detail).header(http::header::RETRY_AFTER, "1")
}

/// Reads and discards up to `limit` bytes of a body until the deadline.
pub(crate) async fn discard(body: Incoming, limit: usize, deadline: Instant) {
    let mut body = Limited::new(body, limit);
    let discard = async { while let Some(Ok(_)) = body.frame().await {} };
    // Ignore errors: the response has already been sent.
    let _ = timeout_at(deadline, discard).await;
}

/// The error type of response bodies.
pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

/// A response body of a [`Service`](crate::Service) that is called as a tower service: in memory, or streamed.
pub type SandboxBody = Either<Full<Bytes>, BoxBody<Bytes, BoxError>>;

/// Creates a body from a stream of its parts.
pub(crate) fn from_stream(
    parts: impl Stream<Item = Result<Bytes, BoxError>> + Send + Sync + 'static,
) -> SandboxBody {
    let frames = parts.map(|part| part.map(Frame::data));
    Either::Right(BoxBody::new(StreamBody::new(frames)))
}

/// Converts a response's body for sending: with its length or, for [`Variant::Chunked`](crate::Variant::Chunked), in chunks of
/// growing size.
pub(crate) fn to_sandbox_body(response: Response<Bytes>) -> Response<SandboxBody> {
    match response.extensions().get::<OddChunks>() {
        Some(OddChunks) => track_progress(response, None, &Arc::default()),
        None => response.map(|body| Either::Left(Full::new(body))),
    }
}

/// Converts a response's body to a body that records its progress in `unsent_bodies`. The new body keeps the memory reservation
/// until it is sent.
pub(crate) fn track_progress(
    response: Response<Bytes>,
    reservation: Option<Reservation>,
    unsent_bodies: &Arc<UnsentBodies>,
) -> Response<SandboxBody> {
    let chunk_size = response.extensions().get::<OddChunks>().map(|OddChunks| 1);
    response.map(|unsent_bytes| {
        unsent_bodies.count.fetch_add(1, Ordering::Relaxed);
        let body = TrackedBody {
            unsent_bytes,
            chunk_size,
            unsent_bodies: Arc::clone(unsent_bodies),
            _reservation: reservation,
        };
        Either::Right(BoxBody::new(body.map_err(|never| match never {})))
    })
}

/// Progress of the response bodies that a connection has not sent completely.
#[derive(Debug, Default)]
pub(crate) struct UnsentBodies {
    count: AtomicUsize,
    /// The number of parts that hyper has taken for sending, plus the number of completed bodies.
    progress: AtomicU64,
}

impl UnsentBodies {
    /// Returns the progress so far, or `None` if all bodies have been sent.
    pub(crate) fn progress(&self) -> Option<u64> {
        let has_unsent = self.count.load(Ordering::Relaxed) > 0;
        has_unsent.then(|| self.progress.load(Ordering::Relaxed))
    }
}

/// Size of the parts in which hyper takes a body: over HTTP/2, hyper buffers at most one part for a client that does not
/// read.
pub(crate) const PART_BYTES: usize = 16 * 1024;

struct TrackedBody {
    unsent_bytes: Bytes,
    /// The size of the next chunk, if the body is sent in odd chunks (see [`OddChunks`]).
    chunk_size: Option<usize>,
    unsent_bodies: Arc<UnsentBodies>,
    _reservation: Option<Reservation>,
}

impl Body for TrackedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let length = self
            .chunk_size
            .unwrap_or(PART_BYTES)
            .min(self.unsent_bytes.len());
        let part = self.unsent_bytes.split_to(length);
        self.chunk_size = self.chunk_size.map(|size| size + 1);
        self.unsent_bodies.progress.fetch_add(1, Ordering::Relaxed);
        Poll::Ready((!part.is_empty()).then(|| Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.unsent_bytes.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        match self.chunk_size {
            None => SizeHint::with_exact(self.unsent_bytes.len() as u64),
            Some(_) => SizeHint::default(),
        }
    }
}

impl Drop for TrackedBody {
    fn drop(&mut self) {
        self.unsent_bodies.count.fetch_sub(1, Ordering::Relaxed);
        self.unsent_bodies.progress.fetch_add(1, Ordering::Relaxed);
    }
}
