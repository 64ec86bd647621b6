//! Dates (`YYYY-MM-DD`) and timestamps (RFC 3339), read strictly and in the years 0001 to 9999 only.

use chrono::{DateTime, Datelike, NaiveDate, SecondsFormat, Utc};

/// Reads exactly four, two and two ASCII digits that name a day that exists.
///
/// The shape is checked by hand because date libraries also take `2024-2-9` or `+2024-02-09`.
pub(crate) fn parse_date(text: &str) -> Option<NaiveDate> {
    let shape_is_right = text.len() == 10
        && text.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    if !shape_is_right {
        return None;
    }
    NaiveDate::parse_from_str(text, "%Y-%m-%d")
        .ok()
        .filter(|date| year_is_in_range(date.year()))
}

/// Reads an RFC 3339 timestamp; any offset is converted to UTC, and none means UTC.
pub(crate) fn parse_timestamp(text: &str) -> Option<DateTime<Utc>> {
    // chrono takes U+2212, the minus sign of typesetting, for that of an offset.
    if !text.is_ascii() {
        return None;
    }
    // The date's shape is checked first: chrono takes signs and other separators in places.
    parse_date(text.get(..10)?)?;
    if !matches!(text.as_bytes().get(10), Some(b'T' | b't' | b' ')) {
        return None;
    }
    DateTime::parse_from_rfc3339(text)
        .or_else(|_| DateTime::parse_from_rfc3339(&format!("{text}Z")))
        .ok()
        .map(|timestamp| timestamp.with_timezone(&Utc))
        .filter(|utc| year_is_in_range(utc.year()))
}

fn year_is_in_range(year: i32) -> bool {
    (1..=9999).contains(&year)
}

/// `YYYY-MM-DD`.
pub(crate) fn format_date(date: NaiveDate) -> String {
    date.format("%Y-%m-%d").to_string()
}

/// RFC 3339 in UTC with `Z` and as many of nine fraction digits as the value needs, in steps of three.
pub(crate) fn format_timestamp(timestamp: &DateTime<Utc>) -> String {
    timestamp.to_rfc3339_opts(SecondsFormat::AutoSi, true)
}
