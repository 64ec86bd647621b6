//! The span of a call, and the event at its end. Their fields have the names of OpenTelemetry's HTTP conventions. The names of
//! all other fields begin with `dealkit.`.
//!
//! Spans and events contain only the fields that are listed here and in `transport/call_progress.rs`: no identifiers, headers or
//! bodies.

use tokio::time::Instant;
use tracing::{Level, Span, field::Empty};

use crate::{
    error::{
        call::{Error, find_effect},
        kind::ErrorKind,
    },
    json::unreadable::UnreadableField,
    transport::{
        call_progress::CallInfo, operation::Operation, outcome::Outcome, response::HttpResponse,
    },
};

/// The span of a call in progress, and the data of the event at its end.
pub(crate) struct CallTrace<'a> {
    pub(crate) span: Span,
    call: CallInfo<'a>,
    start: Instant,
    /// The status of the response to the call, if there is one, and its request id, if there is a subscriber for it.
    response: Option<(u16, Option<String>)>,
    has_ended: bool,
}

impl<'a> CallTrace<'a> {
    /// Starts the span of a call that began at this time.
    pub(crate) fn begin(call: CallInfo<'a>, start: Instant) -> Self {
        let CallInfo {
            operation,
            base_url,
            ..
        } = call;
        let span = tracing::info_span!(
            target: "dealkit",
            "dealkit.call",
            otel.name = %operation,
            otel.kind = "client",
            http.request.method = operation.method.as_str(),
            url.template = &*operation.template,
            url.scheme = base_url.scheme(),
            server.address = base_url.host_str(),
            server.port = base_url.port_or_known_default().map(i64::from),
            http.response.status_code = Empty,
            http.request.resend_count = Empty,
            error.type = Empty,
            dealkit.outcome = Empty,
            dealkit.request_id = Empty,
            dealkit.wait = Empty,
            otel.status_code = Empty,
            otel.status_description = Empty,
            dealkit.unreadable = Empty,
        );
        call.metrics.start_call(operation);
        Self {
            span,
            call,
            start,
            response: None,
            has_ended: false,
        }
    }

    pub(crate) fn record_response(&mut self, response: &HttpResponse) {
        let has_subscriber =
            !self.span.is_disabled() || tracing::event_enabled!(target: "dealkit", Level::INFO);
        let request_id = has_subscriber
            .then(|| response.shown_request_id())
            .flatten();
        self.response = Some((response.status.as_u16(), request_id));
    }

    pub(crate) fn finish(mut self, result: Result<(), &Error>) {
        self.has_ended = true;
        // The caller gets the agent that another job has created while this call waited for it.
        let is_already_created = |error: &&Error| {
            error.kind() == ErrorKind::AlreadyAttempted && error.outcome() == Outcome::Succeeded
        };
        self.end(Some(match result {
            Err(error) if is_already_created(&error) => Ok(()),
            result => result,
        }));
    }

    /// Records the end of the call; without a result, the call was cancelled.
    fn end(&mut self, result: Option<Result<(), &Error>>) {
        let CallInfo {
            operation,
            progress,
            limits,
            metrics,
            ..
        } = self.call;
        let (status, request_id) = match result {
            Some(Err(error)) => (
                error.status().map(|status| status.as_u16()),
                error.shown_request_id(),
            ),
            _ => {
                let (status, request_id) = self.response.take().unzip();
                (status, request_id.flatten())
            }
        };
        let status = status.map(i64::from);
        let (message, error_type, outcome) = match result {
            Some(Ok(())) => ("call succeeded", None, Outcome::Succeeded),
            Some(Err(error)) => ("call failed", Some(error_type(error)), error.outcome()),
            None => (
                "call cancelled",
                Some("cancelled".to_owned()),
                progress.outcome(),
            ),
        };
        let effect = error_type
            .as_ref()
            .and_then(|_| find_effect(operation, outcome));
        // These functions are called only if there is a subscriber or a meter.
        let attempts = || progress.attempts();
        let waited = || progress.total_wait();
        let retries_left = || limits.retry_quota().remaining_retries(limits.now());
        metrics.end_call(
            operation,
            outcome,
            error_type.as_deref(),
            waited,
            retries_left,
        );
        let span = &self.span;
        if !span.is_disabled() {
            span.record("dealkit.outcome", outcome.as_str());
            span.record("dealkit.wait", waited().as_secs_f64());
            span.record("dealkit.request_id", &request_id);
            span.record("http.response.status_code", status);
            if attempts() > 1 {
                span.record("http.request.resend_count", i64::from(attempts() - 1));
            }
            if let Some(error_type) = &error_type {
                span.record("error.type", error_type);
                // OpenTelemetry's rule for HTTP clients: every failed call, including a 4xx or 5xx.
                span.record("otel.status_code", "ERROR");
                let description = format!("{error_type}, outcome {outcome}");
                span.record("otel.status_description", description);
            }
        }
        // The macros of tracing need the level as a constant.
        macro_rules! event {
            ($level:ident) => {
                tracing::$level!(
                    target: "dealkit",
                    parent: span,
                    {
                        http.request.method = operation.method.as_str(),
                        url.template = &*operation.template,
                        http.response.status_code = status,
                        error.type = error_type,
                        dealkit.outcome = outcome.as_str(),
                        dealkit.effect = effect,
                        dealkit.request_id = request_id,
                        dealkit.attempts = i64::from(attempts()),
                        dealkit.wait = waited().as_secs_f64(),
                        dealkit.duration = self.start.elapsed().as_secs_f64(),
                        dealkit.retries_left = i64::from(retries_left()),
                    },
                    "{message}"
                )
            };
        }
        // A cancelled call is worth a warning if it may have changed something, because its caller does not get the result.
        let is_warning = match result {
            Some(result) => result.is_err(),
            None => outcome.may_have_acted() && !operation.method.is_safe(),
        };
        if is_warning {
            event!(warn);
        } else {
            event!(info);
        }
    }
}

impl Drop for CallTrace<'_> {
    /// Records the end of a call whose future is dropped.
    fn drop(&mut self) {
        if !self.has_ended {
            self.end(None);
        }
    }
}

/// The maximum number of skipped fields that an event names.
const MAX_SKIPPED_SHOWN: usize = 20;

/// Reports the number and the locations of fields that could not be read and were skipped, but not their values.
pub(crate) fn report_skipped(operation: &Operation, fields: &[UnreadableField]) {
    if fields.is_empty() {
        return;
    }
    let count = fields.len();
    let field_count = i64::try_from(count).unwrap_or(i64::MAX);
    Span::current().record("dealkit.unreadable", field_count);
    let shown_fields = fields.iter().take(MAX_SKIPPED_SHOWN);
    let mut pointers = shown_fields
        .map(|field| &*field.pointer)
        .collect::<Vec<_>>();
    if count > MAX_SKIPPED_SHOWN {
        pointers.push("…");
    }
    tracing::info!(
        target: "dealkit",
        {
            http.request.method = operation.method.as_str(),
            url.template = &*operation.template,
            dealkit.unreadable = field_count,
            dealkit.pointers = pointers.join(", "),
        },
        "fields could not be read"
    );
}

/// Returns the status if the error is an unsuccessful status, otherwise the kind of the error.
fn error_type(error: &Error) -> String {
    match (error.kind(), error.status()) {
        (ErrorKind::Status, Some(status)) => status.as_str().to_owned(),
        (kind, _) => kind.as_str().to_owned(),
    }
}
