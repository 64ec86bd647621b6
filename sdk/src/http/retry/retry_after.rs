//! The `Retry-After` header (RFC 9110, section 10.2.3): seconds, or a date.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, header};

/// How long the service asks to wait, counted from `now`; a header that occurs twice is ignored.
pub(crate) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let mut values = headers.get_all(header::RETRY_AFTER).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => parse_retry_after(value.to_str().ok()?, now),
        _ => None,
    }
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

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use http::HeaderValue;

    use super::*;

    fn read(values: &[&str]) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::RETRY_AFTER, HeaderValue::from_str(value).unwrap());
        }
        // Sun, 06 Nov 1994 08:49:37 GMT
        retry_after(&headers, UNIX_EPOCH + Duration::from_secs(784_111_777))
    }

    #[test]
    fn seconds_and_dates_are_read() {
        assert_eq!(read(&["0"]), Some(Duration::ZERO));
        assert_eq!(read(&["120"]), Some(Duration::from_secs(120)));
        assert_eq!(read(&[" 7 "]), Some(Duration::from_secs(7)));
        assert_eq!(
            read(&["Sun, 06 Nov 1994 08:49:57 GMT"]),
            Some(Duration::from_secs(20))
        );
        assert_eq!(
            read(&["Sunday, 06-Nov-94 08:49:57 GMT"]),
            Some(Duration::from_secs(20))
        );
        assert_eq!(
            read(&["Sun Nov  6 08:49:57 1994"]),
            Some(Duration::from_secs(20))
        );
        assert_eq!(
            read(&["Sun, 06 Nov 1994 08:49:36 GMT"]),
            Some(Duration::ZERO)
        );
        assert_eq!(
            read(&["99999999999999999999999999"]),
            Some(Duration::from_secs(u64::MAX))
        );
    }

    #[test]
    fn what_cannot_be_read_is_ignored() {
        for value in [
            "",
            "-1",
            "+1",
            "1.5",
            "1e3",
            "soon",
            "1 2",
            "0x10",
            "Sun, 06 Nov",
        ] {
            assert_eq!(read(&[value]), None, "{value}");
        }
        assert_eq!(read(&["1", "2"]), None);
        assert_eq!(read(&[]), None);
    }
}
