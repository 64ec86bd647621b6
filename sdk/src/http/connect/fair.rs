//! A socket that lets others have their turn.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures_util::future::BoxFuture;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf, Take},
    task::yield_now,
};

/// How many bytes are read before the runtime's other tasks have their turn.
///
/// The HTTP library reads on as long as there is something to read. What makes it read without end is cheap for a
/// hostile service (digits of a chunk's length, interim responses) and takes it some 10 ns per byte, during which no
/// other call of this runtime and no deadline would be looked at.
const SHARE: u64 = 64 * 1024;

/// A socket that reports itself not ready after each share of bytes, and ready again once others have had their turn.
pub(super) struct Fair<T> {
    /// The socket, up to the end of the share.
    socket: Take<T>,
    /// The turn of the others. A task that only woke itself would be run dozens of times before the runtime looks at its
    /// timers and sockets.
    others: Option<BoxFuture<'static, ()>>,
}

impl<T: AsyncRead> Fair<T> {
    pub(super) fn new(socket: T) -> Self {
        Self {
            socket: socket.take(SHARE),
            others: None,
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Fair<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.socket.limit() == 0 {
            let others = self.others.get_or_insert_with(|| Box::pin(yield_now()));
            ready!(others.as_mut().poll(context));
            self.others = None;
            self.socket.set_limit(SHARE);
        }
        let poll = Pin::new(&mut self.socket).poll_read(context, buffer);
        if poll.is_pending() {
            // Others have their turn now.
            self.socket.set_limit(SHARE);
        }
        poll
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Fair<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(self.socket.get_mut()).poll_write(context, buffer)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(self.socket.get_mut()).poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.get_ref().is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.socket.get_mut()).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.socket.get_mut()).poll_shutdown(context)
    }
}
