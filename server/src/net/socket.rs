//! Sockets: write timeouts, detection of the protocol, and orderly closing.

use std::{io, pin::Pin, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, Interest},
    net::TcpStream,
    time::{Instant, sleep, timeout_at},
};
use tokio_io_timeout::TimeoutWriter;
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;

/// Polling interval while the first bytes of a connection are incomplete.
const PEEK_INTERVAL: Duration = Duration::from_millis(10);

/// Maximum number of bytes of a rejected body to read, so that its client can read the response.
pub(crate) const DISCARD_BYTES: usize = 8 * 1024 * 1024;

/// Minimum time for a client to read the last response of a connection, even after the body timeout.
const CLOSE_GRACE: Duration = Duration::from_secs(1);

/// A TCP connection with a write timeout, against clients that do not read. hyper has no write timeout.
pub(crate) type Stream = Pin<Box<TimeoutWriter<TcpStream>>>;

/// A connection, with or without TLS.
pub(crate) type Socket = Either<Stream, Box<TlsStream<Stream>>>;

pub(crate) fn with_write_timeout(tcp: TcpStream, limit: Duration) -> Stream {
    let mut stream = TimeoutWriter::new(tcp);
    stream.set_timeout(Some(limit));
    Box::pin(stream)
}

/// Returns the TCP connection below TLS and timeouts.
pub(crate) fn tcp_stream(socket: &Socket) -> &TcpStream {
    match socket {
        Either::Left(stream) => stream.get_ref(),
        Either::Right(encrypted) => encrypted.get_ref().0.get_ref(),
    }
}

/// Returns true if the first bytes from the client are these. The bytes stay unread.
///
/// hyper-util can detect HTTP/2 too, but no timeout of hyper applies while hyper-util waits for the first bytes. The caller can
/// put a timeout around this future.
pub(crate) async fn starts_with(tcp: &TcpStream, expected: &[u8]) -> io::Result<bool> {
    let mut first_bytes = vec![0; expected.len()];
    loop {
        // Check for the end of the stream before peeking, so that no bytes before the end are missed.
        let has_ended = tcp.ready(Interest::READABLE).await?.is_read_closed();
        let length = tcp.peek(&mut first_bytes).await?;
        let received = first_bytes.get(..length).unwrap_or_default();
        if received == expected || has_ended || !expected.starts_with(received) {
            return Ok(received == expected);
        }
        // Poll: the socket stays readable while the peeked bytes are unread. Waiting until it is readable would return immediately.
        sleep(PEEK_INTERVAL).await;
    }
}

/// Returns true if the operating system has unread bytes from the client. Always false on non-Unix systems.
pub(crate) fn has_unread(socket: &Socket) -> bool {
    #[cfg(unix)]
    {
        rustix::io::ioctl_fionread(tcp_stream(socket)).is_ok_and(|length| length > 0)
    }
    #[cfg(not(unix))]
    false
}

/// Closes a connection whose client may still be sending.
///
/// Closing immediately would make the operating system answer further bytes with a reset, which destroys a response that the
/// client has not read yet. This function therefore ends its own side first, then reads until the client closes.
pub(crate) async fn lingering_close(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    deadline: Option<Instant>,
) {
    let closing = async {
        stream.shutdown().await?;
        let mut rest = stream.take(DISCARD_BYTES as u64);
        tokio::io::copy(&mut rest, &mut tokio::io::sink()).await
    };
    let grace = Instant::now() + CLOSE_GRACE;
    let deadline = deadline.map_or(grace, |deadline| deadline.max(grace));
    let _ = timeout_at(deadline, closing).await;
}
