//! Request bodies with a limit and a deadline, and response bodies that come in pieces or break off.

use std::{
    error::Error,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::{Bytes, BytesMut};
use http::Response;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::{
    sync::watch,
    time::{Instant, Sleep, sleep, timeout_at},
};

use crate::{
    net::break_off::{self, ARRIVAL, BreakOff, broken},
    sandbox::{How, reading::InChunks},
    service::BodyError,
    state::room::{Room, Taken},
};

/// A request body, and the room that it takes while this is there.
#[derive(Debug)]
pub(crate) struct ReadBody {
    pub(crate) bytes: Bytes,
    _taken: Option<Taken>,
}

/// Reads a body of at most `limit` bytes until `deadline`. If it fails, what has not been read stays in `body`.
pub(crate) async fn read(
    body: &mut Incoming,
    limit: usize,
    deadline: Instant,
    room: &Room,
) -> Result<ReadBody, BodyError> {
    match timeout_at(deadline, read_all(body, limit, room)).await {
        Ok(read) => read,
        Err(_) => Err(BodyError::TimedOut),
    }
}

async fn read_all(body: &mut Incoming, limit: usize, room: &Room) -> Result<ReadBody, BodyError> {
    let mut bytes = BytesMut::new();
    let mut taken: Option<Taken> = None;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| BodyError::Broken)?.into_data() else {
            continue; // Trailers are ignored.
        };
        if data.len() > limit - bytes.len() {
            return Err(BodyError::TooLarge);
        }
        let more = room.take(data.len()).ok_or(BodyError::NoRoom)?;
        match &mut taken {
            Some(taken) => taken.merge(more),
            None => taken = Some(more),
        }
        bytes.extend_from_slice(&data);
    }
    Ok(ReadBody {
        bytes: bytes.freeze(),
        _taken: taken,
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

/// How an exchange says that its connection is to break off.
pub(crate) type Breaks = watch::Sender<Option<BreakOff>>;

/// What hyper and tower take as the error of a body.
pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

/// The body of a response of a [`Service`](crate::Service), such as one that is called as a tower service.
#[derive(Debug)]
pub struct SandboxBody(Sent);

/// As it is, in pieces, or broken off.
#[derive(Debug)]
enum Sent {
    Whole(Full<Bytes>),
    /// In pieces, each a byte longer than the one before, whose length is not announced.
    Pieces(Bytes, usize),
    /// These bytes, and then, when they have had the time to arrive, a reset, an end of the connection, or nothing more.
    BreaksOff(Option<Bytes>, Pin<Box<Sleep>>, How, Arc<Breaks>),
}

impl SandboxBody {
    /// The body of `response`, as its reading wants it.
    pub(crate) fn of(response: Response<Bytes>) -> Response<Self> {
        let is_in_chunks = response.extensions().get::<InChunks>().is_some();
        response.map(|body| match is_in_chunks {
            true => Self(Sent::Pieces(body, 0)),
            false => Self(Sent::Whole(Full::new(body))),
        })
    }

    /// The first `bytes` bytes of the body of `response`, of which the head says how long it is.
    pub(crate) fn cut(
        mut response: Response<Bytes>,
        bytes: u64,
        how: How,
        breaks: Arc<Breaks>,
    ) -> Response<Self> {
        break_off::declare_length(&mut response);
        response.map(|body| {
            let first = break_off::first(&body, bytes);
            Self(Sent::BreaksOff(
                Some(first),
                Box::pin(sleep(ARRIVAL)),
                how,
                breaks,
            ))
        })
    }
}

impl Body for SandboxBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let piece = match &mut self.get_mut().0 {
            Sent::Whole(body) => {
                return Pin::new(body)
                    .poll_frame(cx)
                    .map_err(|never| match never {});
            }
            Sent::Pieces(left, _) if left.is_empty() => None,
            Sent::Pieces(left, size) => {
                *size += 1;
                Some(Ok(left.split_to((*size).min(left.len()))))
            }
            Sent::BreaksOff(first, arrival, how, breaks) => match first.take() {
                Some(first) => Some(Ok(first)),
                None => {
                    ready!(arrival.as_mut().poll(cx));
                    match how {
                        How::Reset => Some(Err(broken().into())),
                        How::Eof => {
                            breaks.send_replace(Some(BreakOff::END));
                            return Poll::Pending;
                        }
                        How::Stall => return Poll::Pending,
                    }
                }
            },
        };
        Poll::Ready(piece.map(|piece| piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.0, Sent::Whole(body) if body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Sent::Whole(body) => body.size_hint(),
            _ => SizeHint::default(),
        }
    }
}
