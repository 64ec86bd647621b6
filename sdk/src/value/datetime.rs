//! Dates (`YYYY-MM-DD`) and timestamps (ISO 8601), only in the years 0001 to 9999.

use chrono::{DateTime, Datelike, Days, NaiveDate, SecondsFormat, Utc};

/// Parses a date: exactly four, two and two ASCII digits that name a day in the years 0001 to 9999.
///
/// ```
/// use dealkit::scalar;
///
/// assert!(scalar::parse_date("2024-02-29").is_some());
/// assert!(scalar::parse_date("2024-2-29").is_none());
/// ```
pub fn parse_date(text: &str) -> Option<NaiveDate> {
    parse_date_bytes(text.as_bytes().try_into().ok()?)
}

/// Parses a date of exactly ten bytes, as [`parse_date`] does.
///
/// Handwritten, because date libraries are slower and also accept `2024-2-9` or `+2024-02-09`.
#[inline]
pub(crate) fn parse_date_bytes(text: &[u8; 10]) -> Option<NaiveDate> {
    let &[y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = text else {
        return None;
    };
    let year = i32::from(parse_two_digits(y1, y2)?) * 100 + i32::from(parse_two_digits(y3, y4)?);
    let (month, day) = (parse_two_digits(m1, m2)?, parse_two_digits(d1, d2)?);
    NaiveDate::from_ymd_opt(year, month.into(), day.into()).filter(|_| year != 0)
}

/// Parses two ASCII digits.
#[inline(always)]
pub(crate) fn parse_two_digits(tens: u8, ones: u8) -> Option<u8> {
    let (tens, ones) = (tens.wrapping_sub(b'0'), ones.wrapping_sub(b'0'));
    (tens < 10 && ones < 10).then(|| tens * 10 + ones)
}

/// Parses an ISO 8601 timestamp: a date and a time of day, each with separators (`2024-01-31T09:30:00`) or without
/// (`20240131T093000`). Seconds may be missing, or have a fraction after a point or a comma; 24:00 is the end of the day. Any
/// offset (`Z`, `+01:00`, `+0100`, `+01`) is converted to UTC, and a missing one means UTC.
///
/// ```
/// use dealkit::scalar;
///
/// let moment = scalar::parse_timestamp("2024-01-31T09:30:00Z").unwrap();
/// assert_eq!(scalar::parse_timestamp("20240131T1030+01"), Some(moment));
/// assert_eq!(scalar::parse_timestamp("2024-01-31"), None);
/// ```
pub fn parse_timestamp(text: &str) -> Option<DateTime<Utc>> {
    // Reject U+2212, the typographic minus sign, which chrono accepts in an offset.
    if !text.is_ascii() {
        return None;
    }
    let utc = parse_rfc_3339(text).or_else(|| parse_other_iso_8601(text))?;
    Some(utc).filter(|utc| (1..=9999).contains(&utc.year()))
}

fn parse_rfc_3339(text: &str) -> Option<DateTime<Utc>> {
    // Check the date first, because chrono accepts some signs and other separators in it.
    parse_date(text.get(..10)?)?;
    if !matches!(text.as_bytes().get(10), Some(b'T' | b't' | b' ')) {
        return None;
    }
    DateTime::parse_from_rfc3339(text)
        .or_else(|_| DateTime::parse_from_rfc3339(&format!("{text}Z")))
        .ok()
        .map(|timestamp| timestamp.with_timezone(&Utc))
}

/// Parses the forms of ISO 8601 that RFC 3339 lacks, by rewriting them as RFC 3339.
fn parse_other_iso_8601(text: &str) -> Option<DateTime<Utc>> {
    let (date, rest) = text.split_once(['T', 't', ' '])?;
    let time_end = rest.find(['Z', 'z', '+', '-']).unwrap_or(rest.len());
    let (time, offset) = rest.split_at_checked(time_end)?;
    let date = match date.as_bytes() {
        [_, _, _, _, b'-', ..] => date.to_owned(),
        [_, _, _, _, _, _, _, _] => format!("{}-{}-{}", &date[..4], &date[4..6], &date[6..]),
        _ => return None,
    };
    let (time, fraction) = match time.split_once(['.', ',']) {
        Some((_, "")) => return None,
        Some((time, digits)) => (time, format!(".{digits}")),
        None => (time, String::new()),
    };
    let (hour, minute, second) = match *time.as_bytes() {
        [_, _, b':', _, _] if fraction.is_empty() => (&time[..2], &time[3..], "00"),
        [_, _, b':', _, _, b':', _, _] => (&time[..2], &time[3..5], &time[6..]),
        [_, _, _, _] if fraction.is_empty() => (&time[..2], &time[2..], "00"),
        [_, _, _, _, _, _] => (&time[..2], &time[2..4], &time[4..]),
        _ => return None,
    };
    let offset = match *offset.as_bytes() {
        [] => "Z".to_owned(),
        [_, _, _] => format!("{offset}:00"),
        [_, _, _, _, _] => format!("{}:{}", &offset[..3], &offset[3..]),
        _ => offset.to_owned(),
    };
    if hour != "24" {
        return parse_rfc_3339(&format!(
            "{date}T{hour}:{minute}:{second}{fraction}{offset}"
        ));
    }
    let is_end_of_day = [minute, second, fraction.trim_start_matches('.')]
        .iter()
        .all(|digits| digits.bytes().all(|digit| digit == b'0'));
    let start_of_day =
        is_end_of_day.then(|| parse_rfc_3339(&format!("{date}T00:00:00{offset}")))??;
    start_of_day.checked_add_days(Days::new(1))
}

/// Formats a date as `YYYY-MM-DD`.
pub fn format_date(date: NaiveDate) -> String {
    // chrono's `Display` writes this format, and is faster than a format string, which is parsed on each call.
    date.to_string()
}

/// Formats a timestamp in UTC with `Z`, and with 0, 3, 6 or 9 digits of a second's fraction, as few as it needs.
pub fn format_timestamp(timestamp: &DateTime<Utc>) -> String {
    timestamp.to_rfc3339_opts(SecondsFormat::AutoSi, true)
}
