//! How single values of a response are parsed and formatted, for bindings to other languages: they
//! build objects of their own but must not have rules of their own.

use chrono::{DateTime, NaiveDate, Utc};

use crate::value::{self, Decimal};

/// Parses a date: exactly four, two and two ASCII digits that name a day in the years 0001 to 9999.
///
/// ```
/// use dealkit::scalar;
///
/// assert!(scalar::date("2024-02-29").is_some());
/// assert!(scalar::date("2024-2-29").is_none());
/// ```
pub fn date(text: &str) -> Option<NaiveDate> {
    value::parse_date(text)
}

/// Formats a date as `YYYY-MM-DD`.
pub fn date_text(date: NaiveDate) -> String {
    value::format_date(date)
}

/// Parses an RFC 3339 timestamp; any offset is converted to UTC, and a missing one means UTC.
pub fn timestamp(text: &str) -> Option<DateTime<Utc>> {
    value::parse_timestamp(text)
}

/// Formats a timestamp in UTC with `Z` and as many of nine fraction digits as it needs, in steps of three.
pub fn timestamp_text(timestamp: &DateTime<Utc>) -> String {
    value::format_timestamp(timestamp)
}

/// Parses the text of a JSON number as an integer; `450000.0` is one, a fraction is not.
pub fn integer(text: &str) -> Option<i64> {
    value::parse_integer(text)
}

/// Parses text that is known to be one JSON number; `None` if it has more digits than a [`Decimal`] holds.
pub fn decimal(text: &str) -> Option<Decimal> {
    Decimal::from_json_number(text)
}
