//! The `Retry-After` header (RFC 9110, section 10.2.3): seconds, or a date.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, header};

/// How long the service asks to wait, counted from `now`.
pub(crate) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    parse_retry_after(headers.get(header::RETRY_AFTER)?.to_str().ok()?, now)
}

/// Reads the value of a `Retry-After` header (RFC 9110, section 10.2.3): how long to wait, from `now`.
///
/// A date in the past means no wait. A number too large to represent is the longest possible wait. Any
/// value that is neither a whole number nor a date is `None`.
///
/// ```
/// use std::time::{Duration, SystemTime};
///
/// let now = SystemTime::now();
/// assert_eq!(dealkit::parse_retry_after("120", now), Some(Duration::from_secs(120)));
/// assert_eq!(dealkit::parse_retry_after("Sun, 06 Nov 1994 08:49:37 GMT", now), Some(Duration::ZERO));
/// assert_eq!(dealkit::parse_retry_after("-1", now), None);
/// ```
pub fn parse_retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let text = value.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}
