//! Request bodies with a limit and a deadline, and response bodies that report when they are taken.

use std::{
    pin::Pin,
    sync::atomic::{AtomicUsize, Ordering},
    task::{Context, Poll},
};

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::{Instant, timeout_at};

use crate::{
    net::{
        break_off::{ResetStream, StreamEnd},
        idle_timer::InFlight,
    },
    service::BodyError,
};

/// How many bytes of request bodies a server holds at once. Without this limit, a thousand connections with a hundred
/// streams each could hold a body of the maximum size in every stream.
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

    /// The share of one body, initially empty.
    pub(crate) fn share(&self) -> Share<'_> {
        Share {
            budget: self,
            bytes: 0,
        }
    }
}

/// One body's share of a [`Budget`], given back when dropped.
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

/// Reads a body of at most `limit` bytes until `deadline`. If it fails, what has not been read stays in `body`.
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
            continue; // Trailers are ignored.
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
    // The response has already gone out, so it makes no difference how this ends.
    let _ = timeout_at(deadline, reading).await;
}

/// The body of a response, handed to the connection piece by piece. Each piece taken shows that the caller is still
/// reading, which keeps a long download over a slow line from being closed as idle.
#[derive(Debug)]
pub(crate) struct ResponseBody {
    left: Bytes,
    request: InFlight,
    /// Whether to pause before the next piece, so that the last one is sent by itself.
    is_apart: bool,
    pieces: Pieces,
    /// How a body that breaks off ends, after its last byte.
    end: Option<StreamEnd>,
}

/// How large the pieces are.
#[derive(Clone, Copy, Debug)]
enum Pieces {
    /// Responses are smaller than one piece, apart from a few very large deals.
    Large,
    /// Pieces of the sizes in [`ODD`]; this is the index of the next size. The total length is not announced.
    Odd(usize),
}

/// The size of a large piece.
const LARGE: usize = 64 * 1024;

/// Sizes that split every token, and a last one that is repeated, so that large bodies come to an end, too.
const ODD: [usize; 12] = [1, 2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 4_093];

impl ResponseBody {
    pub(crate) fn new(body: Bytes, request: InFlight) -> Self {
        Self {
            left: body,
            request,
            is_apart: false,
            pieces: Pieces::Large,
            end: None,
        }
    }

    /// The same body in odd pieces.
    pub(crate) fn in_odd_pieces(mut self) -> Self {
        self.pieces = Pieces::Odd(0);
        self
    }

    /// The same body, which breaks off at its end.
    pub(crate) fn ending_in(mut self, end: StreamEnd) -> Self {
        self.end = Some(end);
        self
    }

    fn next_size(&mut self) -> usize {
        match &mut self.pieces {
            Pieces::Large => LARGE,
            Pieces::Odd(turn) => {
                let size = ODD.get(*turn).or(ODD.last());
                *turn += 1;
                size.copied().unwrap_or(1)
            }
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = ResetStream;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ResetStream>>> {
        if self.left.is_empty() {
            return match &mut self.end {
                None => Poll::Ready(None),
                Some(end) => end.poll(cx).map(|reset| Some(Err(reset))),
            };
        }
        if self.is_apart {
            self.is_apart = false;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.request.progress();
        let piece = self.next_size().min(self.left.len());
        let piece = self.left.split_to(piece);
        self.is_apart = matches!(self.pieces, Pieces::Odd(_));
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty() && self.end.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        match (self.pieces, &self.end) {
            (Pieces::Large, None) => SizeHint::with_exact(self.left.len() as u64),
            _ => SizeHint::default(),
        }
    }
}
