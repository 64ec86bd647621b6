//! Dates (`YYYY-MM-DD`) and timestamps (RFC 3339), parsed strictly and only in the years 0001 to 9999.

use chrono::{DateTime, Datelike, NaiveDate, SecondsFormat, Utc};

/// Parses a date: exactly four, two and two ASCII digits that name a day in the years 0001 to 9999.
///
/// ```
/// use dealkit::scalar;
///
/// assert!(scalar::date("2024-02-29").is_some());
/// assert!(scalar::date("2024-2-29").is_none());
/// ```
pub fn parse_date(text: &str) -> Option<NaiveDate> {
    date_of(text.as_bytes().try_into().ok()?)
}

/// The same for ten bytes.
///
/// Written by hand, because date libraries also accept `2024-2-9` or `+2024-02-09`, and take longer.
#[inline]
pub(crate) fn date_of(text: &[u8; 10]) -> Option<NaiveDate> {
    let &[y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = text else {
        return None;
    };
    let year = i32::from(two_digits(y1, y2)?) * 100 + i32::from(two_digits(y3, y4)?);
    let (month, day) = (two_digits(m1, m2)?, two_digits(d1, d2)?);
    NaiveDate::from_ymd_opt(year, month.into(), day.into()).filter(|_| year != 0)
}

#[inline(always)]
pub(crate) fn two_digits(tens: u8, ones: u8) -> Option<u8> {
    let (tens, ones) = (tens.wrapping_sub(b'0'), ones.wrapping_sub(b'0'));
    (tens < 10 && ones < 10).then(|| tens * 10 + ones)
}

/// Parses an RFC 3339 timestamp; any offset is converted to UTC, and a missing one means UTC.
pub fn parse_timestamp(text: &str) -> Option<DateTime<Utc>> {
    // chrono accepts U+2212, the typographic minus sign, in an offset.
    if !text.is_ascii() {
        return None;
    }
    // The date's form is checked first, because chrono accepts signs and other separators in places.
    parse_date(text.get(..10)?)?;
    if !matches!(text.as_bytes().get(10), Some(b'T' | b't' | b' ')) {
        return None;
    }
    DateTime::parse_from_rfc3339(text)
        .or_else(|_| DateTime::parse_from_rfc3339(&format!("{text}Z")))
        .ok()
        .map(|timestamp| timestamp.with_timezone(&Utc))
        .filter(|utc| (1..=9999).contains(&utc.year()))
}

/// Formats a date as `YYYY-MM-DD`.
pub fn format_date(date: NaiveDate) -> String {
    // As chrono displays it; its format strings are parsed anew each time.
    date.to_string()
}

/// Formats a timestamp in UTC with `Z` and as many of nine fraction digits as it needs, in steps of three.
pub fn format_timestamp(timestamp: &DateTime<Utc>) -> String {
    timestamp.to_rfc3339_opts(SecondsFormat::AutoSi, true)
}
