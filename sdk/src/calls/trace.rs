//! The span of a call and the event with which it ends, with the names of OpenTelemetry's HTTP conventions or, where there are none, names
//! that begin with `dealkit.`.
//!
//! Only what is listed here is ever recorded: no identifiers, headers or bodies.

use std::time::Instant;

use tracing::{Level, Span, field::Empty, level_filters::LevelFilter};
use url::Url;

use crate::{
    error::{call::Error, kind::ErrorKind},
    http::{
        call_progress::CallProgress,
        operation::Operation,
        outcome::Outcome,
        redact::{Redactor, short},
        response::HttpResponse,
    },
};

/// A call that has begun: its span, and the event with which it ends.
pub(crate) struct CallTrace<'a> {
    /// The span of the call, with all its attempts.
    pub(crate) span: Span,
    operation: &'a Operation,
    progress: &'a CallProgress,
    began: Instant,
    /// The response to the call, if there is one.
    response: Option<Seen>,
    has_ended: bool,
}

/// What is shown of a response.
struct Seen {
    status: u16,
    request_id: Option<String>,
    attempts: u32,
}

/// How a call ended, as shown in the span and the event.
struct End<'a> {
    message: &'a str,
    /// Whether somebody has to know: the call failed, or it may have done something, and nobody waits for its result.
    is_warning: bool,
    status: Option<u16>,
    error_type: Option<String>,
    outcome: Outcome,
    request_id: Option<String>,
    attempts: Option<u32>,
}

impl<'a> CallTrace<'a> {
    pub(crate) fn begin(operation: &'a Operation, base: &Url, progress: &'a CallProgress) -> Self {
        let span = tracing::info_span!(
            target: "dealkit",
            "dealkit.call",
            otel.name = %operation,
            otel.kind = "client",
            http.request.method = operation.method.as_str(),
            url.template = &*operation.template,
            url.scheme = base.scheme(),
            server.address = base.host_str(),
            server.port = base.port_or_known_default(),
            http.response.status_code = Empty,
            http.request.resend_count = Empty,
            error.type = Empty,
            otel.status_code = Empty,
        );
        Self {
            span,
            operation,
            progress,
            began: Instant::now(),
            response: None,
            has_ended: false,
        }
    }

    /// Records a successful response, before it is read.
    pub(crate) fn responded(&mut self, response: &HttpResponse) {
        if is_heard(Level::INFO) {
            self.response = Some(Seen {
                status: response.status.as_u16(),
                request_id: response
                    .request_id()
                    .map(|id| shown(id, &response.redactor)),
                attempts: response.attempts,
            });
        }
    }

    /// Records how the call ended.
    pub(crate) fn finished(mut self, result: Result<(), &Error>, redactor: &Redactor) {
        self.has_ended = true;
        let level = result.map_or(Level::WARN, |()| Level::INFO);
        if !is_heard(level) {
            return;
        }
        let response = self.response.take();
        self.end(&match result {
            Ok(()) => End {
                message: "call succeeded",
                is_warning: false,
                status: response.as_ref().map(|seen| seen.status),
                error_type: None,
                outcome: Outcome::Succeeded,
                attempts: response.as_ref().map(|seen| seen.attempts),
                request_id: response.and_then(|seen| seen.request_id),
            },
            Err(error) => End {
                message: "call failed",
                is_warning: true,
                status: error.status().map(|status| status.as_u16()),
                error_type: Some(error_type(error)),
                outcome: error.outcome(),
                request_id: error.request_id().map(|id| shown(id, redactor)),
                attempts: Some(error.attempts()),
            },
        });
    }

    fn end(&self, end: &End<'_>) {
        if let Some(status) = end.status {
            self.span.record("http.response.status_code", status);
        }
        if let Some(attempts) = end.attempts.filter(|attempts| *attempts > 1) {
            self.span.record("http.request.resend_count", attempts - 1);
        }
        if let Some(error_type) = &end.error_type {
            self.span.record("error.type", error_type);
            // OpenTelemetry's rule for HTTP clients: a 4xx, a 5xx, and whatever else makes the call fail.
            self.span.record("otel.status_code", "ERROR");
        }
        // The level of an event is a constant.
        macro_rules! event {
            ($level:ident) => {
                tracing::$level!(
                    target: "dealkit",
                    parent: &self.span,
                    {
                        http.request.method = self.operation.method.as_str(),
                        url.template = &*self.operation.template,
                        http.response.status_code = end.status,
                        error.type = end.error_type,
                        dealkit.outcome = end.outcome.as_str(),
                        dealkit.request_id = end.request_id,
                        dealkit.attempts = end.attempts,
                        dealkit.duration = self.began.elapsed().as_secs_f64(),
                    },
                    "{}", end.message
                )
            };
        }
        if end.is_warning {
            event!(warn);
        } else {
            event!(info);
        }
    }
}

impl Drop for CallTrace<'_> {
    /// A call whose future is dropped has ended, too.
    fn drop(&mut self) {
        if !self.has_ended {
            let outcome = self.progress.outcome();
            self.end(&End {
                message: "call cancelled",
                is_warning: outcome.may_have_acted() && !self.operation.method.is_safe(),
                status: None,
                error_type: Some("cancelled".to_owned()),
                outcome,
                request_id: None,
                attempts: Some(self.progress.attempts()),
            });
        }
    }
}

/// Whether anyone listens to events of this level.
fn is_heard(level: Level) -> bool {
    level <= LevelFilter::current()
}

/// A request id, which may contain the key or a line break if the service puts it there.
fn shown(request_id: &str, redactor: &Redactor) -> String {
    short(&redactor.mask(request_id))
}

/// The status, if that is the error, or else the kind of failure.
fn error_type(error: &Error) -> String {
    match (error.kind(), error.status()) {
        (ErrorKind::Status, Some(status)) => status.as_str().to_owned(),
        (kind, _) => kind.as_str().to_owned(),
    }
}
