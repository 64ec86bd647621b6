//! Parser of the `Retry-After` header (RFC 9110, section 10.2.3): seconds, or a date.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, header};

/// Returns the wait that the service asks for, counted from its response.
///
/// A fraction of a second is rounded up. A date is measured against the `Date` of the response, because this machine's clock
/// may be wrong; without that header, against this machine's clock. A date in the past means no wait. A number too large to
/// represent is the longest possible wait. Any other value is `None`.
pub(crate) fn parse_retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = header_value(headers, header::RETRY_AFTER)?;
    if let Some(seconds) = parse_seconds(value) {
        return Some(Duration::from_secs(seconds));
    }
    let retry_date = httpdate::parse_http_date(value).ok()?;
    let date = header_value(headers, header::DATE);
    let date = date.and_then(|date| httpdate::parse_http_date(date).ok());
    let response_date = date.unwrap_or_else(SystemTime::now);
    Some(retry_date.duration_since(response_date).unwrap_or_default())
}

fn header_value(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    Some(headers.get(name)?.to_str().ok()?.trim())
}

fn parse_seconds(value: &str) -> Option<u64> {
    let is_number =
        |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = value.split_once('.').unwrap_or((value, "0"));
    if !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let seconds = whole.parse().unwrap_or(u64::MAX);
    let is_whole = fraction.bytes().all(|digit| digit == b'0');
    Some(seconds.saturating_add(u64::from(!is_whole)))
}
