//! The `Retry-After` header (RFC 9110, section 10.2.3): seconds, or a date.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, header};

/// How long the service asks to wait, counted from now.
///
/// A date in the past means no wait. A number too large to represent is the longest possible wait. Any
/// value that is neither a whole number nor a date is `None`.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(SystemTime::now()).unwrap_or_default())
}
