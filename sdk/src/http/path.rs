//! Identifiers as path segments.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::validate::{ValidationError, Violation, ViolationCode};

/// Everything but the unreserved characters of RFC 3986 is escaped: nothing in a segment can then be
/// taken for a separator, a query, a fragment or an escape.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Writes `id` as one path segment.
///
/// The empty string, `.` and `..` cannot be sent as a segment by any HTTP client, escaped or not: URL
/// parsers drop them, and the request would silently be another one.
pub(crate) fn segment(id: &str) -> Result<String, ValidationError> {
    if matches!(id, "" | "." | "..") {
        return Err(ValidationError::one(Violation::new(
            "",
            ViolationCode::InvalidId,
            "must not be empty, a single dot or two dots: no HTTP client can send those in a path",
        )));
    }
    Ok(utf8_percent_encode(id, ESCAPED).to_string())
}
