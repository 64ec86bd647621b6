//! Quota of a client's retries, so that a busy client does not triple the load on a service that is down.

use std::time::Duration;

/// The largest number of tokens, and the number with which a client starts.
const CAPACITY: f64 = 500.0;

/// The tokens that a retry takes, which are returned when the call succeeds.
const RETRY_COST: f64 = 14.0;

/// The tokens that a call earns if it succeeds without a retry.
const SUCCESS_REWARD: f64 = 1.0;

/// The tokens for retries, which retries take and successful calls earn.
///
/// The numbers are from the AWS SDKs. In addition, a token is returned every second, so that a client with few
/// calls has retries again soon after an outage. A retry after a 429, or a 503 with `Retry-After`, takes no tokens: the
/// [rate limiter](crate::transport::rate::rate_limiter::RateLimiter) delays such retries, and a bulk job with hundreds of calls
/// in flight needs them when it reaches a limit.
#[derive(Debug)]
pub(crate) struct RetryQuota {
    tokens: f64,
    /// When the tokens were last updated.
    updated_at: Duration,
}

impl Default for RetryQuota {
    fn default() -> Self {
        Self {
            tokens: CAPACITY,
            updated_at: Duration::ZERO,
        }
    }
}

impl RetryQuota {
    /// Takes the tokens for a retry. Returns false if there are too few.
    pub(crate) fn take_tokens(&mut self, now: Duration) -> bool {
        self.add_tokens(now, 0.0);
        let is_enough = self.tokens >= RETRY_COST;
        if is_enough {
            self.tokens -= RETRY_COST;
        }
        is_enough
    }

    /// Records a response that shows a healthy service, and whether its attempt was a retry that took tokens.
    pub(crate) fn record_success(&mut self, now: Duration, has_taken_tokens: bool) {
        self.add_tokens(
            now,
            if has_taken_tokens {
                RETRY_COST
            } else {
                SUCCESS_REWARD
            },
        );
    }

    pub(crate) fn remaining_retries(&mut self, now: Duration) -> u32 {
        self.add_tokens(now, 0.0);
        // At most 35, and never negative.
        (self.tokens / RETRY_COST) as u32
    }

    fn add_tokens(&mut self, now: Duration, tokens: f64) {
        let elapsed = now.saturating_sub(self.updated_at).as_secs_f64();
        self.updated_at = self.updated_at.max(now);
        self.tokens = (self.tokens + elapsed + tokens).min(CAPACITY);
    }
}
