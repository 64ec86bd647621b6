//! Request bodies with a limit and a deadline, and response bodies that report when they are taken.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::atomic::{AtomicUsize, Ordering},
    task::{Context, Poll},
};

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::{Instant, timeout_at};

use crate::idle_timer::InFlight;

/// Why a request body could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyError {
    TooLarge,
    TimedOut,
    Broken,
    /// All bodies together would be too large.
    NoRoom,
}

/// How many bytes of request bodies a server keeps at once: without it, a thousand connections with a hundred
/// streams each could keep a body at its limit in each.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: usize,
    taken: AtomicUsize,
}

impl Budget {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            taken: AtomicUsize::new(0),
        }
    }

    /// The share of one body, empty at first.
    pub(crate) fn share(&self) -> Share<'_> {
        Share {
            budget: self,
            bytes: 0,
        }
    }
}

/// What one body has of a [`Budget`]; given back when dropped.
#[derive(Debug)]
pub(crate) struct Share<'b> {
    budget: &'b Budget,
    bytes: usize,
}

impl Share<'_> {
    fn grow(&mut self, bytes: usize) -> Result<(), BodyError> {
        let next = |taken: usize| {
            let next = taken.checked_add(bytes)?;
            (next <= self.budget.limit).then_some(next)
        };
        let taken = &self.budget.taken;
        taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
            .map_err(|_| BodyError::NoRoom)?;
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.budget.taken.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

/// Reads a body of at most `limit` bytes until `deadline`. What is not yet read when it fails stays in `body`.
pub(crate) async fn read(
    body: &mut Incoming,
    limit: usize,
    deadline: Instant,
    share: &mut Share<'_>,
) -> Result<Bytes, BodyError> {
    match timeout_at(deadline, read_all(body, limit, share)).await {
        Ok(read) => read,
        Err(_) => Err(BodyError::TimedOut),
    }
}

async fn read_all(
    body: &mut Incoming,
    limit: usize,
    share: &mut Share<'_>,
) -> Result<Bytes, BodyError> {
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| BodyError::Broken)?.into_data() else {
            continue; // Trailers mean nothing here.
        };
        if data.len() > limit - first.len().max(rest.len()) {
            return Err(BodyError::TooLarge);
        }
        share.grow(data.len())?;
        // Nearly every body arrives in one piece, which is then used as it is.
        if first.is_empty() && rest.is_empty() {
            first = data;
        } else {
            if rest.is_empty() {
                rest.extend_from_slice(&std::mem::take(&mut first));
            }
            rest.extend_from_slice(&data);
        }
    }
    Ok(if rest.is_empty() {
        first
    } else {
        rest.freeze()
    })
}

/// Reads at most `limit` bytes until `deadline` and drops them.
pub(crate) async fn discard(mut body: Incoming, limit: usize, deadline: Instant) {
    let reading = async {
        let mut left = limit;
        while let Some(Ok(frame)) = body.frame().await {
            let length = frame.data_ref().map_or(0, Bytes::len);
            match left.checked_sub(length) {
                Some(remaining) => left = remaining,
                None => return,
            }
        }
    };
    // A response that went out early has done its work either way.
    let _ = timeout_at(deadline, reading).await;
}

/// The body of a response, handed to the connection piece by piece. Each piece taken shows that the caller
/// still reads, which is what keeps a long download over a slow line from being cut as idle. Between two pieces the
/// other connections of the thread have their turn: a system takes megabytes at once.
#[derive(Debug)]
pub(crate) struct ResponseBody {
    left: Bytes,
    request: InFlight,
    /// Whether others are to have their turn before the next piece.
    gives_way: bool,
}

/// The size of a piece. Responses are smaller than this, apart from a few very large deals.
const PIECE: usize = 64 * 1024;

impl ResponseBody {
    pub(crate) fn new(body: Bytes, request: InFlight) -> Self {
        Self {
            left: body,
            request,
            gives_way: false,
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left.is_empty() {
            return Poll::Ready(None);
        }
        if self.gives_way {
            self.gives_way = false;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.request.progress();
        let piece = self.left.len().min(PIECE);
        let piece = self.left.split_to(piece);
        self.gives_way = true;
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left.len() as u64)
    }
}
