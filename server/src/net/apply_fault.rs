//! Applies a fault (a failure that a test has requested) to a request: sends the fault's bytes, and ends the connection as the
//! fault says.
//!
//! hyper sends complete responses only. Over HTTP/1.1, this module therefore takes the connection from hyper and writes the
//! remaining bytes itself. An HTTP/2 connection carries several responses. There, an error in the body of a response resets only
//! its stream, and this module takes the connection from hyper only if the fault ends the whole connection.

use std::{future::pending, io, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{Response, Version, header};
use tokio::{
    io::{AsyncWriteExt, copy, sink},
    sync::watch,
    time::{sleep, timeout},
};

use crate::{
    net::{
        body::{self, SandboxBody},
        request_recorder::RequestRecorder,
        socket::{self, Socket},
    },
    sandbox::fault::{AfterCut, Cut, Effect, ResolvedFault},
};

/// Bytes that are neither an HTTP/1.1 response nor an HTTP/2 frame.
const MALFORMED_BYTES: &[u8] = b"\x00\xff\xfe\xfd this is not HTTP \r\n\r\n";

/// Pause between the last bytes and a reset. A reset discards bytes that the operating system has not delivered yet.
const DELIVERY_PAUSE: Duration = Duration::from_millis(20);

/// The response to a request with a fault.
#[derive(Debug)]
pub(crate) enum FaultOutcome {
    /// A complete response, of the operation or of the fault.
    Complete(Response<Bytes>),
    /// A response whose body breaks off.
    Cut(Response<SandboxBody>),
}

/// A signal to the task that serves a connection: take the connection from hyper, and end it.
pub(crate) type EndSignal = watch::Sender<Option<ConnectionEnd>>;

/// The way in which a request arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Transport<'t> {
    Http1(&'t EndSignal),
    Http2(&'t Arc<EndSignal>),
    InProcess,
}

/// Applies the fault to a request that has arrived completely, and records the result in the journal.
///
/// Never resolves if the fault ends or stalls the connection.
///
/// # Errors
/// If the fault ends the stream (HTTP/2) or the call (in process) without a response.
pub(crate) async fn apply(
    fault: &ResolvedFault,
    recorder: &mut RequestRecorder<'_>,
    transport: Transport<'_>,
) -> io::Result<FaultOutcome> {
    if recorder.wait_for_release().await.is_err() {
        // A reset of the sandbox has dropped the held request.
        recorder.record_no_response(None);
        return transport.end(Bytes::new(), AfterCut::Reset).await;
    }
    if !fault.delay.is_zero() {
        recorder.record_arrival();
        sleep(fault.delay).await;
    }
    let (lost_response, bytes, after_cut) = match &fault.effect {
        None => return Ok(FaultOutcome::Complete(recorder.process())),
        Some(Effect::Respond(response)) => {
            let response = recorder.fault_response(response);
            return Ok(FaultOutcome::Complete(response));
        }
        Some(Effect::Malformed) => (None, Bytes::from_static(MALFORMED_BYTES), AfterCut::Eof),
        Some(Effect::ProcessThenReset) => (Some(recorder.process()), Bytes::new(), AfterCut::Reset),
        Some(Effect::Cut {
            position,
            after_cut,
        }) => match *position {
            Cut::BeforeHead => (None, Bytes::new(), *after_cut),
            Cut::InHead => {
                let response = recorder.process();
                let bytes = partial_head(&response, recorder.head.version);
                (Some(response), bytes, *after_cut)
            }
            Cut::AfterBytes(length) => {
                let response = recorder.process();
                recorder.record_response(&response);
                return transport.cut_body(response, length, *after_cut).await;
            }
        },
    };
    recorder.record_no_response(lost_response.as_ref());
    transport.end(bytes, after_cut).await
}

impl Transport<'_> {
    /// Sends these bytes instead of a response, then resets, closes or stalls the connection. Over HTTP/2, a reset or stall
    /// affects only the stream; in process, where there is no connection to close, the call fails or stalls.
    async fn end(self, bytes: Bytes, after_cut: AfterCut) -> io::Result<FaultOutcome> {
        match (self, after_cut) {
            (Self::Http1(end_signal), _) => {
                end_signal.send_replace(Some(ConnectionEnd { bytes, after_cut }));
            }
            (Self::Http2(end_signal), AfterCut::Eof) => {
                end_signal.send_replace(Some(ConnectionEnd { bytes, after_cut }));
            }
            (Self::Http2(_) | Self::InProcess, AfterCut::Stall) => {}
            (Self::Http2(_), AfterCut::Reset)
            | (Self::InProcess, AfterCut::Reset | AfterCut::Eof) => return Err(broken_off_error()),
        }
        // This future is dropped together with the connection, or when the client cancels the request.
        pending().await
    }

    /// Sends the head and this many bytes of the body, then resets, closes or stalls the connection.
    async fn cut_body(
        self,
        mut response: Response<Bytes>,
        length: u64,
        after_cut: AfterCut,
    ) -> io::Result<FaultOutcome> {
        match self {
            Self::Http1(_) => {
                declare_length(&mut response);
                let mut bytes = serialize_head(&response);
                bytes.extend(body_prefix(response.body(), length));
                self.end(bytes.into(), after_cut).await
            }
            Self::Http2(end_signal) => {
                let end_signal = Arc::clone(end_signal);
                Ok(cut_stream(response, length, after_cut, end_signal))
            }
            Self::InProcess if length >= response.body().len() as u64 => {
                Ok(FaultOutcome::Complete(response))
            }
            Self::InProcess => {
                let after_cut = match after_cut {
                    AfterCut::Stall => AfterCut::Stall,
                    _ => AfterCut::Reset,
                };
                Ok(cut_stream(response, length, after_cut, Arc::default()))
            }
        }
    }
}

/// Replaces the body with a stream: its first `length` bytes, then an error, the end of the connection, or silence.
fn cut_stream(
    mut response: Response<Bytes>,
    length: u64,
    after_cut: AfterCut,
    end_signal: Arc<EndSignal>,
) -> FaultOutcome {
    declare_length(&mut response);
    FaultOutcome::Cut(response.map(|body| {
        let first_part = stream::iter([Ok(body_prefix(&body, length))]);
        body::from_stream(first_part.chain(stream::once(async move {
            sleep(DELIVERY_PAUSE).await;
            match after_cut {
                AfterCut::Reset => return Err(broken_off_error().into()),
                AfterCut::Eof => drop(end_signal.send_replace(Some(ConnectionEnd::CLOSE))),
                AfterCut::Stall => {}
            }
            pending().await
        })))
    }))
}

/// Returns the status line and the first four bytes of the first header. Empty over HTTP/2, which sends a head completely
/// or not at all.
fn partial_head(response: &Response<Bytes>, version: Version) -> Bytes {
    if version == Version::HTTP_2 {
        return Bytes::new();
    }
    let name = response.headers().keys().next();
    let name = name.map_or("date", |name| name.as_str());
    format!("{}{name:.4}", status_line(response)).into()
}

/// Serializes the head of an HTTP/1.1 response.
fn serialize_head(response: &Response<Bytes>) -> Vec<u8> {
    let mut bytes = status_line(response).into_bytes();
    for (name, value) in response.headers() {
        bytes.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    bytes.extend(b"\r\n");
    bytes
}

fn status_line(response: &Response<Bytes>) -> String {
    let status = response.status();
    let reason = status.canonical_reason().unwrap_or("Unknown");
    format!("HTTP/1.1 {} {reason}\r\n", status.as_u16())
}

fn body_prefix(body: &Bytes, length: u64) -> Bytes {
    let length = usize::try_from(length).map_or(body.len(), |length| length.min(body.len()));
    body.slice(..length)
}

/// Adds the header Content-Length, so that the client notices the missing rest of the body.
fn declare_length(response: &mut Response<Bytes>) {
    let length = response.body().len().into();
    let headers = response.headers_mut();
    headers.entry(header::CONTENT_LENGTH).or_insert(length);
}

/// The last bytes of a connection, and its state after them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionEnd {
    bytes: Bytes,
    after_cut: AfterCut,
}

impl ConnectionEnd {
    /// Closes a connection on which everything has been sent.
    const CLOSE: Self = Self {
        bytes: Bytes::new(),
        after_cut: AfterCut::Eof,
    };

    /// Sends the bytes within the time limit, then resets, closes or stalls the connection.
    pub(crate) async fn perform(self, mut socket: Socket, limit: Duration) {
        let send_result = timeout(limit, async {
            socket.write_all(&self.bytes).await?;
            socket.flush().await
        })
        .await;
        if !matches!(send_result, Ok(Ok(()))) {
            return;
        }
        match self.after_cut {
            AfterCut::Reset => {
                if !self.bytes.is_empty() {
                    sleep(DELIVERY_PAUSE).await;
                }
                // With a linger time of zero, dropping the socket resets the connection.
                let _ = socket::tcp_stream(&socket).set_zero_linger();
            }
            AfterCut::Eof => socket::lingering_close(socket, None).await,
            // The stall lasts until the client closes the connection.
            AfterCut::Stall => drop(copy(&mut socket, &mut sink()).await),
        }
    }
}

/// Creates the error of a response that is not sent. hyper resets the HTTP/2 stream on this error.
fn broken_off_error() -> io::Error {
    io::Error::other("a fault of the sandbox broke off the connection")
}
