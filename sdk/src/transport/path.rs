//! Escaping of identifiers as path segments.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::rules::validate::{ValidationError, Violation, ViolationCode};

/// Every character except the unreserved characters of RFC 3986, so that a segment contains no separator, query, fragment or
/// escape.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Escapes an identifier as one path segment.
///
/// # Errors
/// If the identifier is the empty string, `.` or `..`. URL parsers drop such a segment, escaped or not, and the request would go to
/// another path.
pub(crate) fn escape_segment(id: &str) -> Result<String, ValidationError> {
    if matches!(id, "" | "." | "..") {
        return Err(ValidationError::from_violation(Violation::new(
            "",
            ViolationCode::InvalidId,
            "must not be empty, a single dot or two dots, which no HTTP client can send in a path",
        )));
    }
    Ok(utf8_percent_encode(id, ESCAPED).to_string())
}
