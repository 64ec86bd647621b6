//! The `Retry-After` header.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chrono::DateTime;
use dealkit::parse_retry_after;

/// The end of the year 9999 in seconds since 1970: no date is later.
const END: u64 = 253_402_300_800;

/// Any text as the value of the header, and an instant made from the bytes in each of the three date formats.
pub fn retry_after(data: &[u8]) {
    let nows = [0, 784_111_777, END, 10 * END].map(|now| UNIX_EPOCH + Duration::from_secs(now));
    let text = String::from_utf8_lossy(data);
    for now in nows {
        any_text(&text, now);
    }
    let mut bytes = [0; 8];
    for (to, from) in bytes.iter_mut().zip(data) {
        *to = *from;
    }
    let seconds = u64::from_le_bytes(bytes) % END;
    for now in nows {
        date(seconds, now);
    }
}

fn any_text(text: &str, now: SystemTime) {
    let wait = parse_retry_after(text, now);
    let value = text.trim();
    if !value.is_empty() && value.chars().all(|c| c.is_ascii_digit()) {
        let seconds = value.chars().fold(0_u64, |seconds, digit| {
            seconds
                .saturating_mul(10)
                .saturating_add(u64::from(digit.to_digit(10).unwrap()))
        });
        assert_eq!(wait, Some(Duration::from_secs(seconds)));
    } else if let Some(wait) = wait {
        // A date, then: whole seconds, no later than the last one, and no wait at all once that is over.
        let date = now + wait;
        assert!(
            now > UNIX_EPOCH + Duration::from_secs(END)
                || date <= UNIX_EPOCH + Duration::from_secs(END)
        );
        assert_eq!(wait.subsec_nanos(), 0);
        assert!(
            value.len() >= 24 && value.is_ascii(),
            "{value:?} is no date"
        );
        assert!(now <= UNIX_EPOCH + Duration::from_secs(END) || wait.is_zero());
    }
}

/// A date in each form of RFC 9110, section 5.6.7, is read as the wait until then.
fn date(seconds: u64, now: SystemTime) {
    let date = UNIX_EPOCH + Duration::from_secs(seconds);
    let wait = Some(date.duration_since(now).unwrap_or_default());
    let utc = DateTime::from_timestamp(i64::try_from(seconds).unwrap(), 0).unwrap();
    for form in ["%a, %d %b %Y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"] {
        let text = utc.format(form).to_string();
        assert_eq!(parse_retry_after(&text, now), wait, "{text}");
        assert_eq!(parse_retry_after(&format!(" {text} "), now), wait, "{text}");
    }
    // A two-digit year means one from 1970 to 2069.
    if seconds < 3_155_760_000 {
        let text = utc.format("%A, %d-%b-%y %H:%M:%S GMT").to_string();
        assert_eq!(parse_retry_after(&text, now), wait, "{text}");
    }
}
