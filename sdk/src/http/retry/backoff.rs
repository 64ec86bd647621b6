//! How long to wait before the next attempt.

use std::time::Duration;

/// Exponential backoff with full jitter: a random fraction of a span that doubles with every retry.
///
/// Full jitter spreads the retries of many clients evenly, so that they do not come back all at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Backoff {
    /// The span before the first retry.
    pub(crate) initial: Duration,
    /// The longest span.
    pub(crate) longest: Duration,
}

impl Backoff {
    /// The wait before retry number `retry`, counted from 0; `jitter` is random, from 0 to 1.
    pub(crate) fn wait(self, retry: u32, jitter: f64) -> Duration {
        let doubled = 2_u32.checked_pow(retry).unwrap_or(u32::MAX);
        let span = self.initial.saturating_mul(doubled).min(self.longest);
        // A span too long for a float's precision is waited for in full.
        Duration::try_from_secs_f64(span.as_secs_f64() * jitter.clamp(0.0, 1.0)).unwrap_or(span)
    }
}
