//! Spans and events, with the names of OpenTelemetry's HTTP conventions.
//!
//! Only what is listed here is ever recorded: no identifier, no header, no body.

use std::time::Duration;

use http::StatusCode;
use tracing::{Span, field::Empty};
use url::Url;

use crate::error::{Error, ErrorKind, Operation};

/// The span of one call, with all its attempts.
pub(crate) fn call_span(operation: &Operation, base: &Url) -> Span {
    tracing::info_span!(
        target: "dealkit",
        "dealkit.call",
        otel.name = %operation,
        otel.kind = "client",
        http.request.method = %operation.method,
        url.template = operation.template,
        url.scheme = base.scheme(),
        server.address = base.host_str(),
        server.port = base.port_or_known_default(),
        http.response.status_code = Empty,
        error.type = Empty,
    )
}

/// Records what the call came to.
pub(crate) fn finished(span: &Span, outcome: Result<StatusCode, &Error>) {
    match outcome {
        Ok(status) => {
            span.record("http.response.status_code", status.as_u16());
            tracing::debug!(target: "dealkit", parent: span, "succeeded");
        }
        Err(error) => {
            if let Some(status) = error.status() {
                span.record("http.response.status_code", status.as_u16());
            }
            match error.status() {
                Some(status) if error.kind() == ErrorKind::Status => {
                    span.record("error.type", status.as_str());
                }
                _ => {
                    span.record("error.type", tracing::field::debug(error.kind()));
                }
            }
            tracing::debug!(target: "dealkit", parent: span, outcome = %error.outcome(), attempts = error.attempts(), "failed");
        }
    }
}

/// Says that a request is about to be sent again.
pub(crate) fn retrying(resend_count: u32, wait: Duration, error: &Error) {
    tracing::debug!(
        target: "dealkit",
        { http.request.resend_count = resend_count, error.type = ?error.kind(), ?wait },
        "retrying"
    );
}
