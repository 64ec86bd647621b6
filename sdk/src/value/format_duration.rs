//! Durations in error messages.

use std::time::Duration;

/// Formats a duration in seconds, rounded to three digits or to whole seconds: `0.25 s`, `30 s`, `3600 s`. More digits, as in
/// 29.999658003 s, would not help the reader of an error message.
pub(crate) fn format_seconds(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    let decimals = (2.0 - seconds.log10().floor()).clamp(0.0, 9.0);
    let scale = 10_f64.powf(decimals);
    format!("{} s", (seconds * scale).round() / scale)
}
