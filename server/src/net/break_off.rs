//! What a fault makes of a request, and how a connection breaks off: exactly the bytes that the fault names, and then a reset,
//! an end or silence.
//!
//! hyper writes only whole responses. Over HTTP/1.1, a connection that is to break off is therefore taken from hyper,
//! and what is left to write is written here. Over HTTP/2, where a connection carries other responses, a stream is
//! broken off by its body, and the connection is taken from hyper only if all of it is to end.

use std::{io, time::Duration};

use bytes::Bytes;
use http::{Response, Version, header};
use tokio::{
    io::{AsyncWriteExt, copy, sink},
    time::{sleep, timeout},
};

use crate::{
    net::{
        reporter::Reporter,
        stream::{self, Socket},
    },
    sandbox::fault::{Cut, Effect, How, Play},
};

/// Bytes that are neither an HTTP/1.1 response nor an HTTP/2 frame.
const GARBAGE: &[u8] = b"\x00\xff\xfe\xfd this is not HTTP \r\n\r\n";

/// How long sent bytes have to arrive before a reset, which would overtake what the system still holds.
pub(crate) const ARRIVAL: Duration = Duration::from_millis(20);

/// What becomes of a request that a fault happens to.
#[derive(Debug)]
pub(crate) enum Fate {
    Response(Response<Bytes>),
    /// It gets the response's head and so many bytes of the body.
    Cut(Response<Bytes>, u64, How),
    Lost(BreakOff),
}

impl Fate {
    /// Makes the fault happen to a request that has arrived as a whole, and records what its caller gets to see.
    pub(crate) async fn of(fault: &Play, seen: &mut Reporter<'_>) -> Self {
        if seen.released().await.is_err() {
            // A reset of the sandbox has dropped the request.
            seen.lost(None);
            return Self::Lost(BreakOff::RESET);
        }
        if !fault.delay.is_zero() {
            seen.announce();
            sleep(fault.delay).await;
        }
        let service = seen.service;
        let answer = |seen: &Reporter<'_>| service.answer(&seen.caller, &seen.head, &seen.body);
        let (lost, bytes, how) = match &fault.effect {
            None => return Self::Response(answer(seen)),
            Some(Effect::Respond(asked)) => {
                return Self::Response(service.made_up(&seen.caller, &seen.head, asked));
            }
            Some(Effect::Garbage) => (None, Bytes::from_static(GARBAGE), How::Eof),
            Some(Effect::ActThenReset) => (Some(answer(seen)), Bytes::new(), How::Reset),
            Some(Effect::Cut { at, how }) => match *at {
                Cut::BeforeHead => (None, Bytes::new(), *how),
                Cut::InHead => {
                    let response = answer(seen);
                    let bytes = beginning(&response, seen.head.version);
                    (Some(response), bytes, *how)
                }
                Cut::AfterBytes(bytes) => {
                    let response = answer(seen);
                    seen.responded(&response);
                    return Self::Cut(response, bytes, *how);
                }
            },
        };
        seen.lost(lost.as_ref());
        Self::Lost(BreakOff { bytes, how })
    }
}

/// The status line, and the first four bytes of the first header. Over HTTP/2, a head arrives whole or not at all.
fn beginning(response: &Response<Bytes>, version: Version) -> Bytes {
    if version == Version::HTTP_2 {
        return Bytes::new();
    }
    let name = response.headers().keys().next();
    let name = name.map_or("date", |name| name.as_str());
    format!("{}{name:.4}", status_line(response)).into()
}

fn status_line(response: &Response<Bytes>) -> String {
    let status = response.status();
    let reason = status.canonical_reason().unwrap_or("Unknown");
    format!("HTTP/1.1 {} {reason}\r\n", status.as_u16())
}

pub(crate) fn first(body: &Bytes, bytes: u64) -> Bytes {
    let length = usize::try_from(bytes).map_or(body.len(), |bytes| bytes.min(body.len()));
    body.slice(..length)
}

pub(crate) fn declare_length(response: &mut Response<Bytes>) {
    let length = response.body().len().into();
    let headers = response.headers_mut();
    headers.entry(header::CONTENT_LENGTH).or_insert(length);
}

/// What is left of a connection: bytes to be sent, and what then happens to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BreakOff {
    pub(crate) bytes: Bytes,
    pub(crate) how: How,
}

impl BreakOff {
    /// The orderly end of a connection on which everything has been sent.
    pub(crate) const END: Self = Self {
        bytes: Bytes::new(),
        how: How::Eof,
    };

    /// The reset of a connection on which nothing is sent.
    const RESET: Self = Self {
        bytes: Bytes::new(),
        how: How::Reset,
    };

    /// A connection of HTTP/1.1 that ends after so many bytes of a body, of which the head says how long it is.
    pub(crate) fn within(mut response: Response<Bytes>, bytes: u64, how: How) -> Self {
        declare_length(&mut response);
        let mut sent = status_line(&response).into_bytes();
        for (name, value) in response.headers() {
            sent.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
        }
        sent.extend(b"\r\n");
        sent.extend(first(response.body(), bytes));
        let bytes = sent.into();
        Self { bytes, how }
    }

    /// Sends what is to be sent, within `limit`, and breaks off.
    pub(crate) async fn carry_out(self, mut socket: Socket, limit: Duration) {
        let sent = timeout(limit, async {
            socket.write_all(&self.bytes).await?;
            socket.flush().await
        })
        .await;
        if !matches!(sent, Ok(Ok(()))) {
            return;
        }
        match self.how {
            How::Reset => {
                if !self.bytes.is_empty() {
                    sleep(ARRIVAL).await;
                }
                // Closing the socket then resets the connection.
                let _ = stream::below(&socket).set_zero_linger();
            }
            How::Eof => stream::lingering_close(socket, None).await,
            // Until the caller closes.
            How::Stall => drop(copy(&mut socket, &mut sink()).await),
        }
    }
}

/// A response that does not come. Told so, hyper resets the stream over HTTP/2, and ends the connection over HTTP/1.1.
pub(crate) fn broken() -> io::Error {
    io::Error::other("a fault of the sandbox broke off the connection")
}
