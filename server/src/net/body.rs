//! Request bodies with a limit and a deadline, and response bodies that come in pieces or break off.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Either, Full};
use hyper::body::{Body, Frame, Incoming};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    task::yield_now,
    time::{Instant, sleep, timeout_at},
};

use crate::{
    net::break_off::{ARRIVAL, BreakOff, BreakSwitch, ResetStream},
    sandbox::How,
    service::BodyError,
};

/// How many bytes of request bodies a server holds at once. Without this limit, a thousand connections with a hundred
/// streams each could hold a body of the maximum size in every stream.
#[derive(Clone, Debug)]
pub(crate) struct Budget(Arc<Semaphore>);

impl Budget {
    pub(crate) fn new(bytes: usize) -> Self {
        Self(Arc::new(Semaphore::new(bytes.min(Semaphore::MAX_PERMITS))))
    }

    fn take(&self, bytes: usize) -> Result<OwnedSemaphorePermit, BodyError> {
        let bytes = u32::try_from(bytes).map_err(|_| BodyError::NoRoom)?;
        let taken = Arc::clone(&self.0).try_acquire_many_owned(bytes);
        taken.map_err(|_| BodyError::NoRoom)
    }
}

/// A request body, and the room that it takes while this is there.
#[derive(Debug)]
pub(crate) struct ReadBody {
    pub(crate) bytes: Bytes,
    _room: Option<OwnedSemaphorePermit>,
}

/// Reads a body of at most `limit` bytes until `deadline`. If it fails, what has not been read stays in `body`.
pub(crate) async fn read(
    body: &mut Incoming,
    limit: usize,
    deadline: Instant,
    budget: &Budget,
) -> Result<ReadBody, BodyError> {
    match timeout_at(deadline, read_all(body, limit, budget)).await {
        Ok(read) => read,
        Err(_) => Err(BodyError::TimedOut),
    }
}

async fn read_all(
    body: &mut Incoming,
    limit: usize,
    budget: &Budget,
) -> Result<ReadBody, BodyError> {
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    let mut room: Option<OwnedSemaphorePermit> = None;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| BodyError::Broken)?.into_data() else {
            continue; // Trailers are ignored.
        };
        if data.len() > limit - first.len().max(rest.len()) {
            return Err(BodyError::TooLarge);
        }
        let taken = budget.take(data.len())?;
        match &mut room {
            Some(room) => room.merge(taken),
            None => room = Some(taken),
        }
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
    let bytes = if rest.is_empty() {
        first
    } else {
        rest.freeze()
    };
    Ok(ReadBody { bytes, _room: room })
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

/// The body of a response: as it is, or from a task that sends its pieces.
pub(crate) type ResponseBody = Either<Full<Bytes>, Pieces>;

/// A body that comes in pieces, and may break off.
#[derive(Debug)]
pub(crate) struct Pieces(mpsc::Receiver<Result<Bytes, ResetStream>>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = ResetStream;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ResetStream>>> {
        self.0
            .poll_recv(cx)
            .map(|piece| Some(piece?.map(Frame::data)))
    }
}

/// A body in pieces of odd sizes, whose length is not announced.
pub(crate) fn in_odd_pieces(mut left: Bytes) -> ResponseBody {
    /// Sizes that split every token, and one for the rest of large bodies.
    const SIZES: [usize; 11] = [1, 2, 3, 5, 7, 11, 13, 17, 19, 23, 29];
    const REST: usize = 4_093;
    let (sender, pieces) = mpsc::channel(1);
    tokio::spawn(async move {
        let mut sizes = SIZES.into_iter();
        while !left.is_empty() {
            let size = sizes.next().unwrap_or(REST);
            let piece = left.split_to(size.min(left.len()));
            if sender.send(Ok(piece)).await.is_err() {
                return; // The caller has gone.
            }
            // So that each is sent by itself.
            yield_now().await;
        }
    });
    Either::Right(Pieces(pieces))
}

/// A body over HTTP/2 after which the stream breaks off.
pub(crate) fn breaking_off(body: Bytes, how: How, breaks: Arc<BreakSwitch>) -> ResponseBody {
    let (sender, pieces) = mpsc::channel(1);
    tokio::spawn(async move {
        let _ = sender.send(Ok(body)).await;
        sleep(ARRIVAL).await;
        match how {
            How::Reset => {
                let _ = sender.send(Err(ResetStream)).await;
            }
            How::Eof => breaks.turn_on(BreakOff::END),
            How::Stall => {}
        }
        sender.closed().await;
    });
    Either::Right(Pieces(pieces))
}
