//! Durations as error texts say them.

use std::time::Duration;

/// A duration as people say it: `0.25 s`, `30 s`, `1 min 30 s`, `2 h 5 min`, `3 days`.
///
/// Up to a minute it has three digits at most: nobody configures, or can act on, 29.999658003 s.
pub(crate) fn in_words(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds < 60.5 {
        return format!("{} s", three_digits(seconds));
    }
    let seconds = duration
        .as_secs()
        .saturating_add(u64::from(duration.subsec_millis() >= 500));
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (minutes, hours) {
        (..60, _) => two_units(minutes, "min", seconds % 60, "s"),
        (_, ..48) => two_units(hours, "h", minutes % 60, "min"),
        _ => format!("{days} days"),
    }
}

fn two_units(large: u64, unit: &str, small: u64, smaller_unit: &str) -> String {
    match small {
        0 => format!("{large} {unit}"),
        _ => format!("{large} {unit} {small} {smaller_unit}"),
    }
}

/// A number rounded to three significant digits, without zeros at its end.
fn three_digits(number: f64) -> f64 {
    if number <= 0.0 {
        return 0.0;
    }
    let scale = 10_f64.powf(2.0 - number.log10().floor());
    (number * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_said_in_units_that_people_use() {
        for (nanoseconds, said) in [
            (0, "0 s"),
            (400_000, "0.0004 s"),
            (20_000_000, "0.02 s"),
            (250_000_000, "0.25 s"),
            (1_500_000_000, "1.5 s"),
            (2_345_678_901, "2.35 s"),
            (9_999_658_003, "10 s"),
            (29_999_658_003, "30 s"),
            (30_500_000_000, "30.5 s"),
            (59_999_999_999, "60 s"),
            (60_000_000_000, "60 s"),
            (61_000_000_000, "1 min 1 s"),
            (89_999_658_003, "1 min 30 s"),
            (600_000_000_000, "10 min"),
            (3_599_900_000_000, "1 h"),
            (7_500_000_000_000, "2 h 5 min"),
            (172_800_000_000_000, "2 days"),
        ] {
            assert_eq!(in_words(Duration::from_nanos(nanoseconds)), said);
        }
        assert_eq!(in_words(Duration::MAX), "213503982334601 days");
    }
}
