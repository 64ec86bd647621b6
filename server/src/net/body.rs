//! Request bodies with a limit and a deadline, and response bodies that come in pieces or break off.

use std::{
    convert::Infallible,
    error::Error,
    future::pending,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt as _, stream};
use http::Response;
use http_body_util::{BodyExt as _, Either, Full, Limited, StreamBody, combinators::BoxBody};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout_at},
};

use crate::{
    contract::checks,
    contract::problem::{ProblemType, Refusal},
    net::break_off::{self, ARRIVAL, BreakOff, broken},
    sandbox::{How, reading::InChunks},
    state::room::{Room, Taken},
};

/// Reads a body of at most `limit` bytes until `deadline`: checks 6 and 7. It comes with the room that it takes. If it fails,
/// what has not been read stays in `body`.
pub(crate) async fn read(
    body: &mut Incoming,
    limit: usize,
    deadline: Instant,
    room: &Room,
) -> Result<(Bytes, Option<Taken>), Refusal> {
    let read = timeout_at(deadline, read_all(body, limit, room)).await;
    read.unwrap_or_else(|_| {
        Err(Refusal::new(
            ProblemType::BODY_TIMEOUT,
            "The whole body must arrive soon after the head. Send the request again.",
        ))
    })
}

async fn read_all(
    body: &mut Incoming,
    limit: usize,
    room: &Room,
) -> Result<(Bytes, Option<Taken>), Refusal> {
    let mut bytes = BytesMut::new();
    let mut taken: Option<Taken> = None;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| {
            let detail = "The body was cut short, or its chunks are malformed.";
            Refusal::new(ProblemType::MALFORMED_REQUEST, detail)
        })?;
        let Ok(data) = frame.into_data() else {
            continue; // Trailers are ignored.
        };
        if data.len() > limit - bytes.len() {
            return Err(checks::body_too_large(limit));
        }
        let more = room.take(data.len()).ok_or_else(busy)?;
        match &mut taken {
            Some(taken) => taken.merge(more),
            None => taken = Some(more),
        }
        bytes.extend_from_slice(&data);
    }
    Ok((bytes.freeze(), taken))
}

/// The error response while the bodies in flight use up their memory budget.
pub(crate) fn busy() -> Refusal {
    let detail = "The bodies in flight take all the memory that they may have together. Send the request again, or start \
                  the server with a higher --max-buffered-bytes.";
    Refusal::new(ProblemType::BUSY, detail).header(http::header::RETRY_AFTER, "1")
}

pub(crate) async fn discard(body: Incoming, limit: usize, deadline: Instant) {
    let mut body = Limited::new(body, limit);
    let reading = async { while let Some(Ok(_)) = body.frame().await {} };
    // The response has already gone out, so it makes no difference how this ends.
    let _ = timeout_at(deadline, reading).await;
}

/// How an exchange says that its connection is to break off.
pub(crate) type Breaks = watch::Sender<Option<BreakOff>>;

/// What hyper and tower take as the error of a body.
pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

/// The body of a response of a [`Service`](crate::Service), such as one that is called as a tower service: as it is, or in
/// pieces.
pub type SandboxBody = Either<Full<Bytes>, BoxBody<Bytes, BoxError>>;

fn streamed(
    pieces: impl Stream<Item = Result<Bytes, BoxError>> + Send + Sync + 'static,
) -> SandboxBody {
    let frames = pieces.map(|piece| piece.map(Frame::data));
    Either::Right(BoxBody::new(StreamBody::new(frames)))
}

/// The response as its reading wants it. A body in chunks, each a byte longer than the one before, does not announce its
/// length.
pub(crate) fn of(response: Response<Bytes>) -> Response<SandboxBody> {
    match response.extensions().get::<InChunks>() {
        Some(InChunks) => observed(response, None, &Arc::default()),
        None => response.map(|body| Either::Left(Full::new(body))),
    }
}

/// The response with a body that records in `unsent` how it leaves, and that holds its memory reservation until then.
pub(crate) fn observed(
    response: Response<Bytes>,
    reserved: Option<Taken>,
    unsent: &Arc<UnsentBodies>,
) -> Response<SandboxBody> {
    let chunk = response.extensions().get::<InChunks>().map(|InChunks| 1);
    response.map(|rest| {
        unsent.bodies.fetch_add(1, Ordering::Relaxed);
        let body = ObservedBody {
            rest,
            chunk,
            unsent: Arc::clone(unsent),
            _reserved: reserved,
        };
        Either::Right(BoxBody::new(body.map_err(|never| match never {})))
    })
}

/// The response bodies of a connection that have not left yet.
#[derive(Debug, Default)]
pub(crate) struct UnsentBodies {
    bodies: AtomicUsize,
    /// The number of pieces that have left, plus the number of bodies that have ended.
    progress: AtomicU64,
}

impl UnsentBodies {
    /// The progress so far, if any body is still to leave.
    pub(crate) fn progress(&self) -> Option<u64> {
        let is_any = self.bodies.load(Ordering::Relaxed) > 0;
        is_any.then(|| self.progress.load(Ordering::Relaxed))
    }
}

/// The most that HTTP/2 buffers of a body whose caller does not read: once a caller takes a single byte, the whole piece with it
/// is in the buffer.
pub(crate) const PIECE: usize = 16 * 1024;

struct ObservedBody {
    rest: Bytes,
    /// The length of the next chunk of a body in chunks.
    chunk: Option<usize>,
    unsent: Arc<UnsentBodies>,
    _reserved: Option<Taken>,
}

impl Body for ObservedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let most = self.chunk.unwrap_or(PIECE).min(self.rest.len());
        let piece = self.rest.split_to(most);
        self.chunk = self.chunk.map(|size| size + 1);
        self.unsent.progress.fetch_add(1, Ordering::Relaxed);
        Poll::Ready((!piece.is_empty()).then(|| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        match self.chunk {
            None => SizeHint::with_exact(self.rest.len() as u64),
            Some(_) => SizeHint::default(),
        }
    }
}

impl Drop for ObservedBody {
    fn drop(&mut self) {
        self.unsent.bodies.fetch_sub(1, Ordering::Relaxed);
        self.unsent.progress.fetch_add(1, Ordering::Relaxed);
    }
}

/// The first `bytes` bytes of the body of `response`, of which the head says how long it is, and then, when they have had the
/// time to arrive, a reset, an end of the connection, or nothing more.
pub(crate) fn cut(
    mut response: Response<Bytes>,
    bytes: u64,
    how: How,
    breaks: Arc<Breaks>,
) -> Response<SandboxBody> {
    break_off::declare_length(&mut response);
    response.map(|body| {
        let first = stream::iter([Ok(break_off::first(&body, bytes))]);
        streamed(first.chain(stream::once(async move {
            sleep(ARRIVAL).await;
            match how {
                How::Reset => return Err(broken().into()),
                How::Eof => drop(breaks.send_replace(Some(BreakOff::END))),
                How::Stall => {}
            }
            pending().await
        })))
    })
}
