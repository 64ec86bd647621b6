//! The access log: one line on standard error for each response of /v1, without ids, keys or bodies.
//!
//! A dedicated thread writes it: if nobody reads standard error, lines are lost, but requests are not delayed.

use std::{
    io::{self, Write},
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
    time::Duration,
};

use http::{Method, StatusCode, request::Parts};
use parking_lot::Mutex;
use serde::Serialize;

use crate::{config::LogFormat, contract::route};

/// How many lines may wait to be written.
const MAX_WAITING_LINES: usize = 4096;

/// How long writing the lines that are still waiting may take when the server ends.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(200);

/// Records responses. Dropping it writes the lines that are still waiting.
#[derive(Debug, Default)]
pub(crate) struct AccessLog {
    format: LogFormat,
    lines: Option<SyncSender<String>>,
    /// Disconnects once the last line is written.
    written: Option<Mutex<Receiver<()>>>,
}

#[derive(Serialize)]
struct Line<'l> {
    method: &'l str,
    path: &'static str,
    status: Option<u16>,
    ms: f64,
    request_id: &'l str,
}

impl AccessLog {
    pub(crate) fn new(format: LogFormat) -> io::Result<Self> {
        if format == LogFormat::Off {
            return Ok(Self::default());
        }
        let (lines, waiting) = sync_channel::<String>(MAX_WAITING_LINES);
        let (writing, written) = sync_channel::<()>(0);
        thread::Builder::new()
            .name("dealkit-server-log".to_owned())
            .spawn(move || {
                for line in waiting {
                    // Standard error may be closed; there is nowhere to report that.
                    let _ = io::stderr().write_all(line.as_bytes());
                }
                drop(writing);
            })?;
        Ok(Self {
            format,
            lines: Some(lines),
            written: Some(Mutex::new(written)),
        })
    }

    /// Records a response with this status, or a request that got none.
    pub(crate) fn record(
        &self,
        head: &Parts,
        status: Option<StatusCode>,
        request_id: &str,
        took: Duration,
    ) {
        let Some(lines) = &self.lines else { return };
        let line = Line {
            method: method(&head.method),
            path: route::template(head.uri.path()),
            status: status.map(|status| status.as_u16()),
            ms: (took.as_secs_f64() * 1e5).round() / 1e2,
            request_id,
        };
        let text = match self.format {
            LogFormat::Json => serde_json::to_string(&line).unwrap_or_default() + "\n",
            _ => {
                let status = status.as_ref().map_or("-", StatusCode::as_str);
                format!(
                    "{} {} {status} {} ms {}\n",
                    line.method, line.path, line.ms, line.request_id
                )
            }
        };
        // Full means that nobody reads standard error: the line is lost.
        let _ = lines.try_send(text);
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        self.lines = None;
        if let Some(written) = &self.written {
            let _ = written.lock().recv_timeout(FLUSH_TIMEOUT);
        }
    }
}

/// The method, if it is a standard one: any other is text of the caller's own choosing.
fn method(method: &Method) -> &str {
    match method.as_str() {
        "GET" | "HEAD" | "POST" | "PUT" | "DELETE" | "PATCH" | "OPTIONS" | "TRACE" | "CONNECT" => {
            method.as_str()
        }
        _ => "(other)",
    }
}
