//! Identifiers as path segments.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::rules::validate::{ValidationError, Violation, ViolationCode};

/// Everything except the unreserved characters of RFC 3986 is escaped, so that nothing in a segment
/// can be taken for a separator, a query, a fragment or an escape.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Writes `id` as one path segment.
///
/// No HTTP client can send the empty string, `.` or `..` as a segment, escaped or not: URL parsers
/// drop them, and the request would silently become another one.
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
