//! The access log: one line on standard error for each response of /v1, without ids, keys or bodies.
//!
//! A dedicated thread writes it. If standard error is a full pipe, lines are lost, but requests are not delayed.

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

/// Maximum number of queued lines.
const MAX_QUEUED_LINES: usize = 4096;

/// Time limit for writing the queued lines when the server stops.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(200);

/// The access log. Dropping it writes the queued lines.
#[derive(Debug, Default)]
pub(crate) struct AccessLog {
    format: LogFormat,
    line_sender: Option<SyncSender<String>>,
    /// Disconnects when the writer thread ends.
    writer_ended: Option<Mutex<Receiver<()>>>,
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
        let (line_sender, line_receiver) = sync_channel::<String>(MAX_QUEUED_LINES);
        let (writer_alive, writer_ended) = sync_channel::<()>(0);
        thread::Builder::new()
            .name("dealkit-server-log".to_owned())
            .spawn(move || {
                for line in line_receiver {
                    // Ignore errors: standard error may be closed, and there is no other place to report that.
                    let _ = io::stderr().write_all(line.as_bytes());
                }
                drop(writer_alive);
            })?;
        Ok(Self {
            format,
            line_sender: Some(line_sender),
            writer_ended: Some(Mutex::new(writer_ended)),
        })
    }

    /// Records a request, with the status of its response if there was one.
    pub(crate) fn record(
        &self,
        head: &Parts,
        status: Option<StatusCode>,
        request_id: &str,
        duration: Duration,
    ) {
        let Some(line_sender) = &self.line_sender else {
            return;
        };
        let line = Line {
            method: loggable_method(&head.method),
            path: route::path_template(head.uri.path()),
            status: status.map(|status| status.as_u16()),
            ms: (duration.as_secs_f64() * 1e5).round() / 1e2,
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
        // If the queue is full, the line is lost.
        let _ = line_sender.try_send(text);
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        self.line_sender = None;
        if let Some(writer_ended) = &self.writer_ended {
            let _ = writer_ended.lock().recv_timeout(FLUSH_TIMEOUT);
        }
    }
}

/// Replaces non-standard methods, which could contain arbitrary text of the client.
fn loggable_method(method: &Method) -> &str {
    match method.as_str() {
        "GET" | "HEAD" | "POST" | "PUT" | "DELETE" | "PATCH" | "OPTIONS" | "TRACE" | "CONNECT" => {
            method.as_str()
        }
        _ => "(other)",
    }
}
