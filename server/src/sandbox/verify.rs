//! Verification of the requests that arrived: their number and content.

use std::fmt;

use crate::sandbox::{
    fields::{EXPECTED_COUNT, parse_object},
    journal::{Journal, RecordedRequest, is_secret_header},
    request_pattern::{FieldNames, RequestPattern},
};

/// Maximum number of requests that a message lists: the latest ones.
const MAX_LISTED: usize = 20;

/// Maximum number of differences that a message lists for a request.
const MAX_DIFFERENCES: usize = 5;

/// The names of the pattern's fields in a verification.
const PATTERN_FIELDS: FieldNames = FieldNames {
    headers: "headers",
    body: "body",
};

/// The fields of a verification in JSON.
const FIELDS: [&str; 5] = [
    "method",
    "path",
    PATTERN_FIELDS.headers,
    PATTERN_FIELDS.body,
    "times",
];

/// A failed verification: see [`Service::verify`](crate::Service::verify). `Debug` shows the same message as `Display`, so that
/// `unwrap` in a test does.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// No request can match the pattern. The message names the invalid part and the allowed values.
    #[error("{0}")]
    InvalidPattern(String),
    /// Another number of requests match.
    #[error("{message}")]
    WrongCount {
        /// The expected number of matching requests.
        expected: usize,
        /// The actual number of matching requests.
        found: usize,
        /// A list of the requests that arrived, each with the parts that differ from the pattern. It contains no values.
        message: String,
    },
}

impl fmt::Debug for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Checks that exactly `times` recorded requests match the pattern.
pub(crate) fn verify(
    journal: &Journal,
    times: usize,
    pattern: &RequestPattern,
) -> Result<(), VerifyError> {
    pattern
        .check(PATTERN_FIELDS)
        .map_err(VerifyError::InvalidPattern)?;
    if let Some(name) = pattern.find_header_value(is_secret_header) {
        let message = format!(
            "headers: the value of {name} is a secret, which the sandbox does not record: expect only that the header exists"
        );
        return Err(VerifyError::InvalidPattern(message));
    }
    let requests = journal.find(usize::MAX, |_| true);
    let found = requests
        .iter()
        .filter(|request| pattern.matches(request.parts()))
        .count();
    if found == times {
        return Ok(());
    }
    Err(VerifyError::WrongCount {
        expected: times,
        found,
        message: describe(times, found, pattern, &requests),
    })
}

fn describe(
    expected: usize,
    found: usize,
    pattern: &RequestPattern,
    requests: &[RecordedRequest],
) -> String {
    let mut message = format!("expected {}; found {found}", pattern.describe(expected));
    if requests.is_empty() {
        return message + ". No request has arrived.";
    }
    message += "\nThese requests have arrived:";
    let hidden_count = requests.len().saturating_sub(MAX_LISTED);
    if hidden_count > 0 {
        message += &format!("\n  {hidden_count} earlier requests");
    }
    for request in requests.iter().skip(hidden_count) {
        let status = request.status.map(|status| status.as_u16().to_string());
        let mut differences = pattern.differences(request.parts());
        let more = differences.len().saturating_sub(MAX_DIFFERENCES);
        differences.truncate(MAX_DIFFERENCES);
        if more > 0 {
            differences.push(format!("{more} more"));
        }
        let comparison = match differences.is_empty() {
            true => "matches".to_owned(),
            false => format!("differs in {}", differences.join(", ")),
        };
        message += &format!(
            "\n  {}. {} {} {}: {comparison}",
            request.number,
            request.method,
            request.path_template(),
            status.as_deref().unwrap_or("without a response"),
        );
    }
    message
}

/// Reads the JSON of a verification: the number of requests and the pattern.
pub(crate) fn parse(json: &[u8]) -> Result<(usize, RequestPattern), String> {
    let (mut times, mut pattern) = (1, RequestPattern::new());
    for field in parse_object("the body", json)? {
        match &*field.name {
            "method" => pattern.read_method(&field)?,
            "path" => pattern.read_path(&field)?,
            name if name == PATTERN_FIELDS.headers => pattern.read_headers(&field)?,
            name if name == PATTERN_FIELDS.body => pattern.read_body(&field)?,
            "times" => {
                let count = field.read_number(EXPECTED_COUNT, |number| number.parse().ok())?;
                times = count.unwrap_or(times);
            }
            _ => return Err(field.unknown(FIELDS.into_iter())),
        }
    }
    Ok((times, pattern))
}
