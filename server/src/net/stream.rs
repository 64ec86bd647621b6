//! A connection as hyper is given it: one that ends when its caller stops reading, and that can be looked at meanwhile.

use std::{
    fmt, io,
    pin::{Pin, pin},
    sync::{Arc, Weak},
    task::{Context, Poll, ready},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite, Interest, ReadBuf},
    net::TcpStream,
    time::{Sleep, sleep},
};
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;

/// How often to look again for the rest of a preface, or whether a caller that sends ahead has gone.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// What a caller speaks, told from its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spoken {
    Http1,
    /// HTTP/2 with prior knowledge (RFC 9113, section 3.4).
    Http2,
    Tls,
}

/// What the caller speaks. Its first bytes stay unread. `None` when it ended before that.
///
/// hyper-util can do this too, but none of hyper's timeouts runs while it waits for these bytes. Here the waiting is a
/// future that can be given one.
pub(crate) async fn spoken(stream: &TcpStream) -> io::Result<Option<Spoken>> {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    /// The type of the record that a handshake begins with (RFC 8446, section 5.1).
    const HANDSHAKE: u8 = 22;
    let mut first = [0; PREFACE.len()];
    loop {
        // Asked first, so that everything that came before the end is seen.
        let has_ended = stream.ready(Interest::READABLE).await?.is_read_closed();
        let length = stream.peek(&mut first).await?;
        match first.get(..length).unwrap_or_default() {
            PREFACE => return Ok(Some(Spoken::Http2)),
            [HANDSHAKE, ..] => return Ok(Some(Spoken::Tls)),
            seen if !PREFACE.starts_with(seen) => return Ok(Some(Spoken::Http1)),
            seen if has_ended || seen.is_empty() => return Ok(None),
            // What is there already would be seen at once.
            _ => sleep(LOOK_AGAIN).await,
        }
    }
}

/// A connection, encrypted or not.
pub(crate) type Socket = Either<Stream, Box<TlsStream<Stream>>>;

/// The connection below.
pub(crate) fn below(socket: &Socket) -> &Stream {
    match socket {
        Either::Left(stream) => stream,
        Either::Right(encrypted) => encrypted.get_ref().0,
    }
}

/// A connection whose writes fail once the caller has made no room for a while: hyper has no timeout for that.
pub(crate) struct Stream {
    tcp: Arc<Mutex<TcpStream>>,
    write_timeout: Duration,
    /// Runs while a write waits.
    stuck: Option<Pin<Box<Sleep>>>,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stream").field(&self.tcp).finish()
    }
}

impl Stream {
    pub(crate) fn new(tcp: TcpStream, write_timeout: Duration) -> Self {
        Self {
            tcp: Arc::new(Mutex::new(tcp)),
            write_timeout,
            stuck: None,
        }
    }

    /// Something that tells when the caller has gone.
    pub(crate) fn caller(&self) -> Caller {
        Caller(Arc::downgrade(&self.tcp))
    }

    /// Whether the system holds bytes from the caller that nobody has read. Known on Unix only.
    pub(crate) fn has_unread(&self) -> bool {
        #[cfg(unix)]
        {
            rustix::io::ioctl_fionread(&*self.tcp.lock()).is_ok_and(|length| length > 0)
        }
        #[cfg(not(unix))]
        false
    }

    /// From now on, the connection is reset when it is dropped.
    pub(crate) fn reset_when_dropped(&self) {
        let _ = self.tcp.lock().set_zero_linger();
    }

    fn poll_in_time<T>(
        &mut self,
        cx: &mut Context<'_>,
        poll: impl FnOnce(Pin<&mut TcpStream>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if let Poll::Ready(done) = poll(Pin::new(&mut *self.tcp.lock()), cx) {
            self.stuck = None;
            return Poll::Ready(done);
        }
        let limit = self.write_timeout;
        let stuck = self.stuck.get_or_insert_with(|| Box::pin(sleep(limit)));
        ready!(stuck.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.tcp.lock()).poll_read(cx, buf)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_in_time(cx, |tcp, cx| tcp.poll_write(cx, buf))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_in_time(cx, |tcp, cx| tcp.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.tcp.lock()).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.tcp.lock()).poll_shutdown(cx)
    }
}

/// The other side of an HTTP/1.1 connection.
#[derive(Debug)]
pub(crate) struct Caller(Weak<Mutex<TcpStream>>);

impl Caller {
    /// Resolves when the caller has closed its side, or the connection is broken. Only for whoever runs within the task
    /// that serves the connection, while hyper waits for a response.
    ///
    /// hyper answers callers that have closed only their half, so it does not look; whoever is made to wait on purpose
    /// has to stay.
    pub(crate) async fn gone(&self) {
        let mut next = [0];
        loop {
            let look = std::future::poll_fn(|cx| {
                let Some(tcp) = self.0.upgrade() else {
                    return Poll::Ready(true);
                };
                let tcp = tcp.lock();
                let seen = ready!(tcp.poll_peek(cx, &mut ReadBuf::new(&mut next)));
                // What it sent last, such as a farewell of TLS, stays unread.
                let state = pin!(tcp.ready(Interest::READABLE)).poll(cx);
                let has_ended = matches!(state, Poll::Ready(Ok(state)) if state.is_read_closed());
                Poll::Ready(has_ended || !matches!(seen, Ok(1..)))
            });
            if look.await {
                return;
            }
            // It sends the next request already.
            sleep(LOOK_AGAIN).await;
        }
    }
}
