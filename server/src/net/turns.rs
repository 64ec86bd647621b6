//! The connections of one thread take turns at large writes.
//!
//! A system takes megabytes in one write, so a hundred slow readers that each make a little room would keep a thread
//! writing while an ordinary call waits behind all of them. Therefore one large write is made at a time, and before
//! each one the thread looks at its other connections.

use std::{
    fmt, io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::{OwnedSemaphorePermit, Semaphore},
    task::yield_now,
};

/// A write of this many bytes or more waits for its turn. Nearly all responses are shorter.
const LARGE: usize = 16 * 1024;

/// The turns of one thread, in the order in which they were asked for.
#[derive(Clone, Debug)]
pub(crate) struct Turns(Arc<Semaphore>);

impl Default for Turns {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }
}

impl Turns {
    async fn next(self) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed.
        let turn = self.0.acquire_owned().await.ok();
        // The runtime looks for new events before it goes on with this.
        yield_now().await;
        turn
    }
}

type Turn = Pin<Box<dyn Future<Output = Option<OwnedSemaphorePermit>> + Send>>;

/// A connection whose large writes wait for their turn.
pub(crate) struct InTurns {
    stream: TcpStream,
    turns: Turns,
    /// The turn that a write waits for.
    turn: Option<Turn>,
}

impl fmt::Debug for InTurns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InTurns").field(&self.stream).finish()
    }
}

impl InTurns {
    pub(crate) fn new(stream: TcpStream, turns: Turns) -> Self {
        Self {
            stream,
            turns,
            turn: None,
        }
    }

    pub(crate) fn into_inner(self) -> TcpStream {
        self.stream
    }

    /// Waits for the turn of a write of `length` bytes, which ends when the returned permit is dropped.
    fn poll_turn(
        &mut self,
        cx: &mut Context<'_>,
        length: usize,
    ) -> Poll<io::Result<Option<OwnedSemaphorePermit>>> {
        if length < LARGE {
            return Poll::Ready(Ok(None));
        }
        if self.turn.is_none() {
            // A connection whose reader makes no room must not hold up those behind it.
            ready!(self.stream.poll_write_ready(cx))?;
        }
        let turns = &self.turns;
        let turn = self
            .turn
            .get_or_insert_with(|| Box::pin(turns.clone().next()));
        let turn = ready!(turn.as_mut().poll(cx));
        self.turn = None;
        Poll::Ready(Ok(turn))
    }
}

impl AsyncRead for InTurns {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for InTurns {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let _turn = ready!(self.poll_turn(cx, buf.len()))?;
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let length = bufs.iter().map(|buf| buf.len()).sum();
        let _turn = ready!(self.poll_turn(cx, length))?;
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
