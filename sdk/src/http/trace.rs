//! The event of a retry; its names are those of a call's.

use std::time::Duration;

use crate::http::{error::TransportError, operation::Operation};

/// Reports that a request is about to be sent again, and why.
pub(crate) fn retrying(
    operation: &Operation,
    resend_count: u32,
    wait: Duration,
    error: &TransportError,
) {
    tracing::warn!(
        target: "dealkit",
        {
            http.request.method = operation.method.as_str(),
            url.template = &*operation.template,
            http.request.resend_count = resend_count,
            http.response.status_code = error.status().map(|status| status.as_u16()),
            error.type = error.name(),
            dealkit.wait = wait.as_secs_f64(),
        },
        "retrying"
    );
}
