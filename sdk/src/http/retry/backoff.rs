//! How long to wait before the next attempt.

use std::time::Duration;

/// Exponential backoff with full jitter: a random fraction of a span that doubles with every retry.
///
/// Full jitter spreads the retries of many clients evenly, so that they do not come back all at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Backoff {
    /// The span before the first retry.
    pub(crate) first: Duration,
    /// The longest span.
    pub(crate) longest: Duration,
}

impl Backoff {
    /// The wait before retry number `retry`, counted from 0; `jitter` is random, from 0 to 1.
    pub(crate) fn wait(self, retry: u32, jitter: f64) -> Duration {
        let doubled = 2_u32.checked_pow(retry).unwrap_or(u32::MAX);
        let span = self.first.saturating_mul(doubled).min(self.longest);
        // A span too long for a float's precision is waited for in full.
        Duration::try_from_secs_f64(span.as_secs_f64() * jitter.clamp(0.0, 1.0)).unwrap_or(span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff {
        first: Duration::from_millis(200),
        longest: Duration::from_secs(5),
    };

    #[test]
    fn the_span_doubles_up_to_the_longest() {
        let spans: Vec<u128> = (0..7)
            .map(|retry| BACKOFF.wait(retry, 1.0).as_millis())
            .collect();
        assert_eq!(spans, [200, 400, 800, 1600, 3200, 5000, 5000]);
        assert_eq!(BACKOFF.wait(u32::MAX, 1.0), BACKOFF.longest);
    }

    #[test]
    fn the_wait_is_a_share_of_the_span() {
        assert_eq!(BACKOFF.wait(0, 0.0), Duration::ZERO);
        assert_eq!(BACKOFF.wait(1, 0.5), Duration::from_millis(200));
        assert_eq!(BACKOFF.wait(1, f64::MAX), Duration::from_millis(400));
        assert_eq!(BACKOFF.wait(1, -1.0), Duration::ZERO);
    }

    #[test]
    fn the_longest_span_there_is_does_not_overflow() {
        let backoff = Backoff {
            first: Duration::MAX,
            longest: Duration::MAX,
        };
        assert_eq!(backoff.wait(3, 1.0), Duration::MAX);
        assert!(backoff.wait(0, 0.999_999) < Duration::MAX);
    }
}
