//! How a connection, or over HTTP/2 a stream, breaks off: exactly the bytes that a fault names, and then a reset, an end
//! or silence.
//!
//! hyper writes only whole responses. Over HTTP/1.1, a connection that is to break off is therefore taken from hyper,
//! and what is left to write is written here. Over HTTP/2, where a connection carries other responses, a stream is
//! broken off by its body, and the connection is taken from hyper only if all of it is to end.

use std::{fmt, time::Duration};

use bytes::Bytes;
use http::{Response, header};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::watch,
    time::{sleep, timeout},
};

use crate::sandbox::fault::{Cut, Effect, How};

/// Bytes that are neither an HTTP/1.1 response nor an HTTP/2 frame.
const GARBAGE: &[u8] = b"\x00\xff\xfe\xfd this is not HTTP \r\n\r\n";

/// How many bytes follow the status line of a response that is cut in its head: the beginning of the first header.
const OF_THE_FIRST_HEADER: usize = 4;

/// How long sent bytes have to arrive before a reset, which would overtake what the system still holds.
pub(crate) const ARRIVAL: Duration = Duration::from_millis(20);

/// How long the caller has to read what was sent before the end, and to close as well.
const CLOSING: Duration = Duration::from_secs(1);

/// How long a connection on which nothing more comes stays open. Most callers give up long before.
const LONGEST_STALL: Duration = Duration::from_secs(3_600);

/// What is left of a connection: bytes to be sent, and what then happens to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BreakOff {
    bytes: Bytes,
    how: How,
}

impl BreakOff {
    /// The orderly end of a connection on which everything has been sent.
    pub(crate) const END: Self = Self {
        bytes: Bytes::new(),
        how: How::Eof,
    };

    /// A connection that ends before a response, for effects that need none.
    pub(crate) fn before_response(effect: &Effect) -> Option<Self> {
        let (bytes, how) = match *effect {
            Effect::Cut {
                at: Cut::BeforeHead,
                how,
            } => (&b""[..], how),
            Effect::Garbage => (GARBAGE, How::Eof),
            _ => return None,
        };
        Some(Self {
            bytes: Bytes::from_static(bytes),
            how,
        })
    }

    /// A connection of HTTP/1.1 that ends within a response.
    pub(crate) fn within(response: &Response<Bytes>, effect: &Effect) -> Self {
        let (length, how) = match *effect {
            Effect::Cut { at, how } => (Some(at), how),
            _ => (None, How::Reset),
        };
        let bytes = match length {
            Some(Cut::InHead) => {
                let mut head = head(response);
                let status_line = head.iter().position(|byte| *byte == b'\n');
                head.truncate(status_line.map_or(0, |end| end + 1 + OF_THE_FIRST_HEADER));
                head
            }
            Some(Cut::AfterBytes(bytes)) => {
                let mut sent = head(response);
                sent.extend_from_slice(&first(response.body(), bytes));
                sent
            }
            Some(Cut::BeforeHead) | None => Vec::new(),
        };
        Self {
            bytes: bytes.into(),
            how,
        }
    }

    pub(crate) fn how(&self) -> How {
        self.how
    }

    /// Sends what is to be sent, within `limit`, and breaks off.
    pub(crate) async fn carry_out(self, mut stream: TcpStream, limit: Duration) {
        let sent = timeout(limit, stream.write_all(&self.bytes)).await;
        if !matches!(sent, Ok(Ok(()))) {
            return;
        }
        match self.how {
            How::Reset => {
                if !self.bytes.is_empty() {
                    sleep(ARRIVAL).await;
                }
                // Closing the socket then resets the connection.
                let _ = stream.set_zero_linger();
            }
            How::Eof => {
                let _ = timeout(CLOSING, async {
                    stream.shutdown().await?;
                    discard(&mut stream).await
                })
                .await;
            }
            How::Stall => {
                let _ = timeout(LONGEST_STALL, discard(&mut stream)).await;
            }
        }
    }
}

/// Reads until the caller closes.
async fn discard(stream: &mut TcpStream) -> std::io::Result<u64> {
    tokio::io::copy(&mut stream.take(u64::MAX), &mut tokio::io::sink()).await
}

/// The first `bytes` bytes of a body.
pub(crate) fn first(body: &Bytes, bytes: u64) -> Bytes {
    let length = usize::try_from(bytes).map_or(body.len(), |bytes| bytes.min(body.len()));
    body.slice(..length)
}

/// The head of a response as HTTP/1.1 writes it, with the length of the whole body.
fn head(response: &Response<Bytes>) -> Vec<u8> {
    let status = response.status();
    let reason = status.canonical_reason().unwrap_or("Unknown");
    let mut head = format!("HTTP/1.1 {} {reason}\r\n", status.as_u16()).into_bytes();
    let mut put = |name: &str, value: &[u8]| {
        head.extend_from_slice(name.as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value);
        head.extend_from_slice(b"\r\n");
    };
    for (name, value) in response.headers() {
        put(name.as_str(), value.as_bytes());
    }
    if !response.headers().contains_key(header::CONTENT_LENGTH) {
        put(
            "content-length",
            response.body().len().to_string().as_bytes(),
        );
    }
    head.extend_from_slice(b"\r\n");
    head
}

/// How an exchange says that its whole connection is to break off.
#[derive(Debug)]
pub(crate) struct BreakSwitch(watch::Sender<Option<BreakOff>>);

impl Default for BreakSwitch {
    fn default() -> Self {
        Self(watch::Sender::new(None))
    }
}

impl BreakSwitch {
    pub(crate) fn turn_on(&self, what: BreakOff) {
        self.0.send_replace(Some(what));
    }

    /// Turns it on and never returns: the connection takes the exchange with it.
    pub(crate) async fn end_here<T>(&self, what: BreakOff) -> T {
        self.turn_on(what);
        std::future::pending().await
    }

    /// What is left of the connection, once the switch is on.
    pub(crate) async fn on(&self) -> BreakOff {
        loop {
            let mut switch = self.0.subscribe();
            // The sender is here, so there is a value in the end.
            if let Ok(what) = switch.wait_for(Option::is_some).await
                && let Some(what) = &*what
            {
                return what.clone();
            }
        }
    }
}

/// A stream of HTTP/2 that is to be reset. hyper resets it when it is told of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResetStream;

impl fmt::Display for ResetStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the stream is to be reset")
    }
}

impl std::error::Error for ResetStream {}
