//! What is reported of the attempts of a call: an event each. Names are those of OpenTelemetry's HTTP
//! conventions or, where there are none, begin with `dealkit.`. Integers are signed: OpenTelemetry has no others, and its layer for
//! `tracing` writes unsigned ones as text.
//!
//! Only what is listed here and in `calls/trace.rs` is ever recorded: no identifiers, headers or bodies.

use std::time::Duration;

use url::Url;

use crate::transport::{
    call_progress::CallProgress, error::TransportError, operation::Operation,
    rate::admission::SharedLimits, response::HttpResponse,
};

/// A call as it is reported: what it does, where, and how far it has come.
#[derive(Clone, Copy)]
pub(crate) struct Record<'a> {
    pub(crate) operation: &'a Operation,
    pub(crate) base: &'a Url,
    pub(crate) progress: &'a CallProgress,
    pub(crate) limits: &'a SharedLimits,
}

impl Record<'_> {
    /// Reports an attempt that has just ended, and how long the call waits before it is sent again, if it is.
    pub(crate) fn attempt_ended(
        &self,
        result: Result<&HttpResponse, &TransportError>,
        delay: Option<Duration>,
    ) {
        let times = self.progress.end_attempt();
        let response = result.map_or_else(TransportError::response, Some);
        let status = response.map(|response| i64::from(response.status.as_u16()));
        let error_type = result.err().map(TransportError::name);
        // The level of an event is a constant.
        macro_rules! event {
            ($level:ident, $message:literal) => {
                tracing::$level!(
                    target: "dealkit",
                    {
                        http.request.method = self.operation.method.as_str(),
                        url.template = &*self.operation.template,
                        http.response.status_code = status,
                        error.type = error_type,
                        http.request.resend_count = delay.map(|_| i64::from(times.number)),
                        dealkit.attempt = i64::from(times.number),
                        dealkit.request_id = response.and_then(HttpResponse::shown_request_id),
                        dealkit.wait = times.wait.as_secs_f64(),
                        dealkit.duration = times.duration.as_secs_f64(),
                        dealkit.delay = delay.map(|delay| delay.as_secs_f64()),
                    },
                    $message
                )
            };
        }
        match delay {
            Some(_) => event!(warn, "retrying"),
            None => event!(debug, "attempt ended"),
        }
    }

    /// Reports that the service has asked for a pause: all calls of the client wait this long.
    pub(crate) fn pausing(&self, pause: Duration, error: &TransportError) {
        tracing::warn!(
            target: "dealkit",
            {
                http.request.method = self.operation.method.as_str(),
                url.template = &*self.operation.template,
                http.response.status_code = error.status().map(|status| i64::from(status.as_u16())),
                error.type = error.name(),
                dealkit.delay = pause.as_secs_f64(),
            },
            "pausing"
        );
    }
}
