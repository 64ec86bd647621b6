//! How many retries a client may spend.

use std::time::Duration;

/// The tokens of a client that has not spent any.
const FULL: f64 = 500.0;

/// The cost of a retry, which is returned when the call succeeds.
const RETRY: f64 = 14.0;

/// What a call earns that succeeds without a retry.
const SUCCESS: f64 = 1.0;

/// Tokens that retries spend and successes earn, so that a busy client does not send everything three times
/// to a service that is down.
///
/// The numbers are those of AWS' SDKs. In addition, a token is returned every second, so that a client with few
/// calls is not left without retries long after an outage. The retry of a call that the service refused because
/// there were too many is free: [`Pace`](crate::transport::traffic::pace::Pace) delays such retries, and a bulk job that hits a
/// limit with hundreds of calls in flight loses none of them.
#[derive(Debug)]
pub(crate) struct RetryQuota {
    tokens: f64,
    /// When `tokens` was last updated.
    at: Duration,
}

impl Default for RetryQuota {
    fn default() -> Self {
        Self {
            tokens: FULL,
            at: Duration::ZERO,
        }
    }
}

impl RetryQuota {
    pub(crate) fn spend(&mut self, now: Duration) -> bool {
        self.earn(now, 0.0);
        let is_enough = self.tokens >= RETRY;
        if is_enough {
            self.tokens -= RETRY;
        }
        is_enough
    }

    /// Records that the service responded as it should, and whether the call's last attempt was a retry that
    /// spent tokens.
    pub(crate) fn succeeded(&mut self, now: Duration, after_spending: bool) {
        self.earn(now, if after_spending { RETRY } else { SUCCESS });
    }

    pub(crate) fn left(&mut self, now: Duration) -> u32 {
        self.earn(now, 0.0);
        // At most 35, and never negative.
        (self.tokens / RETRY) as u32
    }

    fn earn(&mut self, now: Duration, tokens: f64) {
        let passed = now.saturating_sub(self.at).as_secs_f64();
        self.at = self.at.max(now);
        self.tokens = (self.tokens + passed + tokens).min(FULL);
    }
}
