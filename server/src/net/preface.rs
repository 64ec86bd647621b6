//! HTTP/1.1 and HTTP/2 on one port: telling them apart by their first bytes.
//!
//! hyper-util can do this too, but while it waits for these bytes, none of hyper's timeouts run: a caller that sends
//! nothing, or only `P`, would stay forever. Here, reading them is a plain future on which the caller can put a
//! timeout.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// What an HTTP/2 connection with prior knowledge begins with (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The protocol that a connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
}

/// Reads until it is clear which protocol `io` speaks. `None` when it ended before that.
pub(crate) async fn detect<T>(mut io: T) -> io::Result<Option<(Protocol, Replay<T>)>>
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let mut read = Vec::with_capacity(PREFACE.len());
    let protocol = loop {
        if !PREFACE.starts_with(&read) {
            break Protocol::Http1;
        }
        let missing = PREFACE.len() - read.len();
        if missing == 0 {
            break Protocol::Http2;
        }
        if (&mut io).take(missing as u64).read_buf(&mut read).await? == 0 {
            return Ok(None);
        }
    };
    Ok(Some((
        protocol,
        Replay {
            read: read.into(),
            io,
        },
    )))
}

/// A connection from which some bytes were already read: reading it yields these again, and then the rest.
#[derive(Debug)]
pub(crate) struct Replay<T> {
    read: Bytes,
    io: T,
}

impl<T> Replay<T> {
    /// The connection itself, without the bytes that have not been read again.
    pub(crate) fn into_inner(self) -> T {
        self.io
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Replay<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.read.is_empty() {
            return Pin::new(&mut self.io).poll_read(cx, buf);
        }
        let length = self.read.len().min(buf.remaining());
        buf.put_slice(self.read.get(..length).unwrap_or_default());
        self.read.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Replay<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    async fn sent(pieces: &[&[u8]]) -> Option<(Protocol, Vec<u8>)> {
        let (mut caller, server) = tokio::io::duplex(64);
        let writing = async {
            for piece in pieces {
                caller.write_all(piece).await.unwrap();
                tokio::task::yield_now().await;
            }
            caller.shutdown().await.unwrap();
        };
        let reading = async {
            let (protocol, mut replay) = detect(server).await.unwrap()?;
            let mut all = Vec::new();
            replay.read_to_end(&mut all).await.unwrap();
            Some((protocol, all))
        };
        tokio::join!(writing, reading).1
    }

    #[tokio::test]
    async fn nothing_is_lost_however_it_is_cut() {
        let whole = [PREFACE, b"frames"].concat();
        for cut in 0..whole.len() {
            let (a, b) = whole.split_at(cut);
            let expected = Some((Protocol::Http2, whole.clone()));
            assert_eq!(sent(&[a, b]).await, expected, "cut at {cut}");
        }
        for text in [
            "GET / HTTP/1.1\r\n\r\n",
            "P",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r",
            "POST / HTTP/1.1\r\n\r\n",
        ] {
            let expected = (!PREFACE.starts_with(text.as_bytes()))
                .then(|| (Protocol::Http1, text.as_bytes().to_vec()));
            assert_eq!(sent(&[text.as_bytes()]).await, expected, "{text}");
        }
    }
}
