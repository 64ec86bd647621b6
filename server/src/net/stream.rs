//! A connection as hyper is given it: one that ends when its caller stops reading, and that can be looked at meanwhile.

use std::{io, pin::Pin, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, Interest},
    net::TcpStream,
    time::{Instant, sleep, timeout_at},
};
use tokio_io_timeout::TimeoutWriter;
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;

/// How often to look again for the rest of a preface.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// How much of an unwanted body is read, so that its sender gets to read the response.
pub(crate) const DISCARD_BYTES: usize = 8 * 1024 * 1024;

/// The least time that a caller gets to read a response that ends the connection, even when the body timeout is over.
const CLOSE_GRACE: Duration = Duration::from_secs(1);

/// A connection whose writes fail once the caller has made no room for a while: hyper has no timeout for that.
pub(crate) type Stream = Pin<Box<TimeoutWriter<TcpStream>>>;

pub(crate) type Socket = Either<Stream, Box<TlsStream<Stream>>>;

pub(crate) fn with_write_timeout(tcp: TcpStream, limit: Duration) -> Stream {
    let mut stream = TimeoutWriter::new(tcp);
    stream.set_timeout(Some(limit));
    Box::pin(stream)
}

pub(crate) fn below(socket: &Socket) -> &TcpStream {
    match socket {
        Either::Left(stream) => stream.get_ref(),
        Either::Right(encrypted) => encrypted.get_ref().0.get_ref(),
    }
}

/// Whether the caller begins with these bytes, which stay unread.
///
/// hyper-util can tell what a caller speaks, too, but none of hyper's timeouts runs while it waits for the first bytes.
/// Here the waiting is a future that can be given one.
pub(crate) async fn begins_with(tcp: &TcpStream, expected: &[u8]) -> io::Result<bool> {
    let mut first = vec![0; expected.len()];
    loop {
        // Asked first, so that everything that came before the end is seen.
        let has_ended = tcp.ready(Interest::READABLE).await?.is_read_closed();
        let length = tcp.peek(&mut first).await?;
        let seen = first.get(..length).unwrap_or_default();
        if seen == expected || has_ended || !expected.starts_with(seen) {
            return Ok(seen == expected);
        }
        // What is there already would be seen at once.
        sleep(LOOK_AGAIN).await;
    }
}

/// Whether the system holds bytes from the caller that nobody has read. Known on Unix only.
pub(crate) fn has_unread(socket: &Socket) -> bool {
    #[cfg(unix)]
    {
        rustix::io::ioctl_fionread(below(socket)).is_ok_and(|length| length > 0)
    }
    #[cfg(not(unix))]
    false
}

/// Ends a connection whose caller may still be sending: closing at once would make the system answer the
/// rest with a reset, which destroys a response that the caller has not read yet. A caller with nothing to send
/// closes when it sees the end, and so ends the waiting.
pub(crate) async fn lingering_close(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    deadline: Option<Instant>,
) {
    let ending = async {
        stream.shutdown().await?;
        let mut rest = stream.take(DISCARD_BYTES as u64);
        tokio::io::copy(&mut rest, &mut tokio::io::sink()).await
    };
    let grace = Instant::now() + CLOSE_GRACE;
    let deadline = deadline.map_or(grace, |deadline| deadline.max(grace));
    let _ = timeout_at(deadline, ending).await;
}
